"""What a driver says of itself once: which Spark application it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from airflow_kafka_lake.core.lake.application import Application

Show = Callable[[Application], None]
"""Is given a driver's application once, soon after the driver has begun."""


class ApplicationFile:
    """Passes on what a driver writes to its application file (`jobs.application`), once."""

    def __init__(self, file: Path, history_server: str | None, show: Show) -> None:
        self._file = file
        self._history_server = history_server
        self._show = show
        self._was_read = False

    def follow(self) -> None:
        """Look once; does nothing before the file exists, and after it was read."""
        if self._was_read:
            return
        try:
            document = json.loads(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return
        except (OSError, ValueError):
            document = None
        self._was_read = True
        if found := Application.parse(document, self._history_server):
            self._show(found)
