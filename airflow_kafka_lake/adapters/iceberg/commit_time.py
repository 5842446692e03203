"""Times of commits beside clocks that disagree: Java refuses to read metadata that goes back in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import AddSnapshotUpdate, TableRequirement, TableUpdate

from airflow_kafka_lake.core.errors import UnavailableError

_TOLERATED_MS = 50_000
"""Java tolerates a minute."""


def commit_time_ms(metadata: TableMetadata, now_ms: int) -> int:
    """Return now, or just after the table's last change when this clock is behind."""
    return max(now_ms, _latest_ms(metadata) + 1)


class InOrder:
    """A table's catalog in whose commits `commit_time_ms` is the time of snapshots that PyIceberg makes by itself."""

    def __init__(self, table: Table, now_ms: Callable[[], int]) -> None:
        self._catalog, self._now_ms = table.catalog, now_ms

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> Any:
        """Commit, each snapshot after the table's last change."""
        at = commit_time_ms(table.metadata, self._now_ms())
        return self._catalog.commit_table(table, requirements, tuple(_timed(update, at) for update in updates))


def _timed(update: TableUpdate, at: int) -> TableUpdate:
    if not isinstance(update, AddSnapshotUpdate):
        return update
    return AddSnapshotUpdate(snapshot=update.snapshot.model_copy(update={"timestamp_ms": at}))


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
