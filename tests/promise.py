"""Runs a command and writes what it took, beside what was promised: `python -m tests.promise 60 90 make …`."""

from __future__ import annotations

import resource
import subprocess
import sys
import time


def main(seconds: float, cpu_seconds: float, *command: str) -> int:
    """Return the command's code, and write its seconds and those of all processors, its children's included.

    A promise is of a quiet machine: one that was not kept is said, and changes no code.
    """
    began = time.monotonic()
    code = subprocess.run(command, check=False, close_fds=False).returncode
    took = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    worked = used.ru_utime + used.ru_stime
    kept = took <= seconds and worked <= cpu_seconds
    word = "within" if kept else "OVER"
    print(  # noqa: T201 - the answer
        f"{took:.0f} s and {worked:.0f} CPU-seconds: {word} the promise of {seconds:.0f} s and {cpu_seconds:.0f} "
        "CPU-seconds on a quiet machine with two cores"
    )
    return code


if __name__ == "__main__":
    wall, cpu, *words = sys.argv[1:]
    sys.exit(main(float(wall), float(cpu), *words))
