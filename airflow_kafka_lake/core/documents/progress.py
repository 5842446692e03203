"""How far an attempt is, as `wave --json` has it."""

from __future__ import annotations

from typing import Any

from airflow_kafka_lake.core.progress import Progress
from airflow_kafka_lake.core.wire import timestamp


def progress_document(progress: Progress | None, *, goes_on: bool = True) -> dict[str, Any] | None:
    """Return the wire form; rates and times left are whole numbers, null where they are not known, or nothing is known
    to go on."""
    if progress is None:
        return None
    rate = progress.rows_per_second if goes_on else None
    return {
        "step": progress.step.value,
        "rows_done": progress.rows,
        "rows_expected": progress.rows_expected,
        "bytes_done": progress.bytes,
        "bytes_expected": progress.bytes_expected,
        "rows_per_second": _whole(rate),
        "bytes_per_second": _whole(progress.bytes_per_second(rate)),
        "seconds_left": _whole(progress.seconds_left(rate)),
        "step_at": timestamp(progress.since),
        "progress_at": timestamp(progress.at),
    }


def _whole(number: float | None) -> int | None:
    return None if number is None else round(number)
