"""Notes the functions of the package that run in a process which a recorded test starts (`tests/mutants/reach.py`)."""

from __future__ import annotations

import os
import sys
import threading
from types import CodeType, FrameType


def _note(file: str, package: str) -> None:
    place = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    seen: dict[int, CodeType] = {}

    def call(frame: FrameType, event: str, arg: object) -> None:
        code = frame.f_code
        if id(code) not in seen:
            seen[id(code)] = code
            if code.co_filename.startswith(package) and code.co_flags & 2:  # a function, not a module or a class
                os.write(place, f"{code.co_filename}\t{code.co_qualname}\n".encode())

    os.register_at_fork(after_in_child=seen.clear)
    threading.settrace(call)  # type: ignore[arg-type]
    sys.settrace(call)  # type: ignore[arg-type]


if _file := os.environ.get("KAFKA_LAKE_CALLS"):
    _note(_file, os.environ["KAFKA_LAKE_CALLS_OF"])
