"""`python -m tests.proof`: see `tests.proof.command`. At the end the reference pages are written from the evidence."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import NoReturn

from tests.proof.command import main
from tests.proof.tree import ROOT


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


signal.signal(signal.SIGTERM, _interrupt)
code = main(sys.argv[1:])
if "--list" not in sys.argv:
    subprocess.run([sys.executable, ROOT / "docs" / "generate.py"], check=True)
sys.exit(code)
