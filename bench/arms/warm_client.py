"""Ask a warm process to run its pipeline; exits with its code. Its only argument is the socket.

It counts as a part of the arm, so it imports next to nothing.
"""

import socket
import sys


def main(address: str) -> int:
    """Print what the server says on stderr until it ends; its last line is the code."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        with server.makefile(encoding="utf-8") as said:
            for line in said:
                if line.strip().isdigit():
                    return int(line)
                print(line, end="", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
