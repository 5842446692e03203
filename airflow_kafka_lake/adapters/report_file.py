"""Write a report to the file that a person named: whole or not at all."""

from __future__ import annotations

import secrets
from pathlib import Path

from airflow_kafka_lake.core.errors import UsageError


def report_file(text: str) -> Path:
    """Return the path of a report that can be written; UsageError before any work is done for one that cannot."""
    path = Path.cwd() / text
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder: name a file for the report, such as {path / 'audit.html'}")
        if not path.parent.is_dir():
            raise UsageError(f"there is no folder {path.parent} for the report: create it, or name another file")
    except (OSError, ValueError):
        raise UsageError(f"{text!r} is no path that a report can be written to") from None
    return path


def write_report(path: Path, text: str) -> None:
    """Write the file in one step, so that no reader opens half of it; UsageError names why it could not be written."""
    beside = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise UsageError(f"the report {path} could not be written: {error.strerror}. Name another file") from None
