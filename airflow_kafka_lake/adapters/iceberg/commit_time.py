"""Times of commits beside clocks that disagree: Java refuses to read metadata that goes back in time."""

from __future__ import annotations

from pyiceberg.table.metadata import TableMetadata

from airflow_kafka_lake.adapters.processes import host
from airflow_kafka_lake.core.errors import UnavailableError
from airflow_kafka_lake.core.wire import PREFIX

_TOLERATED_MS = 50_000
"""Java tolerates a minute."""


def commit_time_ms(metadata: TableMetadata, now_ms: int) -> int:
    """Return now, or just after the table's last change when this clock is behind."""
    return max(now_ms, _latest_ms(metadata) + 1)


def require_clock(metadata: TableMetadata, now_ms: int, identifier: str) -> None:
    """Refuse a commit whose time PyIceberg takes from this clock, when the clock is behind the table's last change."""
    behind = _latest_ms(metadata) - now_ms
    if behind > _TOLERATED_MS:
        raise UnavailableError(
            f"The clock of {host()} is {behind // 1000} s behind the last change of {identifier}, which "
            f"{_who(metadata)} made: one of the two clocks is wrong. A commit made now would leave the table "
            "unreadable for Spark. Set the clock that is wrong; if it was the other one, the table takes commits "
            "again when its last change is past.",
            table=identifier,
            behind_ms=behind,
        )


def _who(metadata: TableMetadata) -> str:
    """Name who made the last snapshot of main, as far as it says."""
    last = metadata.current_snapshot()
    said = last.summary.additional_properties if last is not None and last.summary is not None else {}
    for key, word in ((f"{PREFIX}wave", "wave"), ("spark.app.id", "Spark application"), ("app-id", "application")):
        if key in said:
            return f"{word} {said[key]}"
    return "another writer"


def _latest_ms(metadata: TableMetadata) -> int:
    return max(metadata.last_updated_ms, *(entry.timestamp_ms for entry in metadata.snapshot_log), 0)
