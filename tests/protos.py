"""Protobuf files compiled for tests, by protoc alone."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass


def compiled(main: str, files: Mapping[str, str]) -> FileDescriptorSet:
    """Return a file and all that it imports, the file itself last."""
    return FileDescriptorSet.FromString(_compiled(main, tuple(sorted(files.items()))))


@cache
def _compiled(main: str, files: tuple[tuple[str, str], ...]) -> bytes:
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in files:
            path = Path(scratch, "in", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{scratch}/in", "--include_imports"]
        subprocess.run([*command, f"--descriptor_set_out={scratch}/out", main], check=True, timeout=60)
        return Path(scratch, "out").read_bytes()


def message_class(descriptors: FileDescriptorSet, name: str) -> Any:
    """Return the class of a message; raises what is missing in the descriptors."""
    pool = DescriptorPool()
    for file in descriptors.file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(name))
