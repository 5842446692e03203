"""A folder that only we can read and that does not outlive its use."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def private_folder(parent: Path | None) -> Iterator[Path]:
    """Yield a new folder of mode 0700 below `parent` (None: the machine's temporary files); it is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="kafka-lake-stage-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
