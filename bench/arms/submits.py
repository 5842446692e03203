"""Run many commands, some at a time; the first that fails ends the program with its code."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def main(plan: Path) -> None:
    """Run the commands of a plan."""
    asked = json.loads(plan.read_text())
    with ThreadPoolExecutor(asked["at_once"]) as pool:
        codes = list(pool.map(lambda command: subprocess.run(command, check=False).returncode, asked["commands"]))
    sys.exit(max(codes))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
