"""Ask a warm process to run its pipeline; exits with its code. Its only argument is the socket."""

from __future__ import annotations

import sys
from multiprocessing.connection import Client


def main(socket: str) -> int:
    """Print what it says on stderr until it is done."""
    with Client(socket, family="AF_UNIX") as server:
        while not isinstance(said := server.recv(), int):
            print(said, file=sys.stderr, flush=True)
    return said


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
