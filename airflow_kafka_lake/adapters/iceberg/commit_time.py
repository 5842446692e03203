"""Times of commits beside clocks that disagree: Java refuses to read metadata that goes back in time."""

from __future__ import annotations

from pyiceberg.table.metadata import TableMetadata

from airflow_kafka_lake.core.errors import UnavailableError

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
            f"This machine's clock is {behind // 1000} s behind the last change of {identifier}; a commit made now "
            "would leave the table unreadable for Spark. Set the clock, then try again.",
            table=identifier,
            behind_ms=behind,
        )


def _latest_ms(metadata: TableMetadata) -> int:
    return max(metadata.last_updated_ms, *(entry.timestamp_ms for entry in metadata.snapshot_log), 0)
