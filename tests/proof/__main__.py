"""`python -m tests.proof`: see `tests.proof.command`."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

from tests.proof.command import main


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


signal.signal(signal.SIGTERM, _interrupt)
sys.exit(main(sys.argv[1:]))
