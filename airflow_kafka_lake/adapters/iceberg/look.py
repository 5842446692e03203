"""Is a wave in the lake already? History and rows, both at one head."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow.compute as pc
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from airflow_kafka_lake.adapters.iceberg.filters import among
from airflow_kafka_lake.adapters.iceberg.head import head_of, is_first_of_table, main_history
from airflow_kafka_lake.core.waves import EMPTY_TABLE, PUBLISHES, Absent, AttemptRecord, Found, Look, Unclear
from airflow_kafka_lake.core.wire import token_from_summary


def look(
    table: Table,
    attempts: Sequence[AttemptRecord],
    published: Callable[[Sequence[str]], str | None],
) -> Look:
    """Search one load of the table for any of the attempts.

    `published` names the attempt among the given ones that has a receipt of its settlement; it is asked only when
    neither history nor rows decide.
    """
    head = head_of(table.metadata)
    bases = {attempt.attempt: attempt.base for attempt in attempts if attempt.base is not None}
    if not bases:
        return Absent(head=head)
    found, whole = _walk(table.metadata, bases.keys(), set(bases.values()))
    if found is not None:
        attempt, snapshot = found
        return Found(attempt=attempt, snapshot=snapshot, head=head)
    if by_rows := attempts_with_rows(table, bases.keys(), enough=1):
        return Found(attempt=min(by_rows), snapshot=None, head=head)
    if whole:
        return Absent(head=head)
    if by_receipt := published(list(bases)):
        return Found(attempt=by_receipt, snapshot=None, head=head)
    return Unclear(
        head=head,
        reason="main's history ends before the attempt began (snapshots expired, or main was rolled back), "
        "and neither a row nor a receipt of it is there",
    )


def _walk(metadata: TableMetadata, attempts: Iterable[str], bases: set[int]) -> tuple[tuple[str, int] | None, bool]:
    """Walk back until every base was met; say what was found, and whether the walk saw all there was since."""
    wanted, waiting = set(attempts), set(bases)
    oldest = None
    for snapshot in main_history(metadata):
        waiting.discard(snapshot.snapshot_id)
        if not waiting:
            return None, True
        token = token_from_summary(snapshot.summary.additional_properties) if snapshot.summary else None
        if token is not None and token.attempt in wanted and token.kind in PUBLISHES:
            return (token.attempt, snapshot.snapshot_id), True
        oldest = snapshot
    reached_start = oldest is None or is_first_of_table(oldest, metadata)
    return None, reached_start and waiting == {EMPTY_TABLE}


def attempts_with_rows(table: Table, attempts: Iterable[str], enough: int) -> frozenset[str]:
    """Return attempts that have a row on main, `enough` of them; files whose bounds exclude all are not opened."""
    found: set[str] = set()
    if table.metadata.current_snapshot_id is None or not enough:
        return frozenset()
    scan = table.scan(
        row_filter=among("ingest_attempt", attempts),
        selected_fields=("ingest_attempt",),
        snapshot_id=table.metadata.current_snapshot_id,
    )
    for batch in scan.to_arrow_batch_reader():
        found.update(pc.unique(batch.column(0)).to_pylist())
        if len(found) >= enough:
            break
    return frozenset(found)
