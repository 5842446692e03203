"""Find the commit of a wave's attempts: by main's history, by rows, and by receipts, all at one head."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow.compute as pc
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from airflow_kafka_lake.adapters.iceberg.head import head_of, is_first_of_table, main_history, summary_of
from airflow_kafka_lake.adapters.iceberg.rows import among, batches_of, written_files_of
from airflow_kafka_lake.core.ledger.waves import (
    EMPTY_TABLE,
    PUBLISHES,
    Absent,
    AttemptRecord,
    CommitSearch,
    Found,
    Unclear,
)
from airflow_kafka_lake.core.wire import token_from_summary
from airflow_kafka_lake.jobs.formats import STAGED_BY


def find_commit(
    table: Table,
    attempts: Sequence[AttemptRecord],
    published: Callable[[Sequence[str]], str | None],
) -> CommitSearch:
    """Search one load of the table for any of the attempts.

    History decides if it goes back to the attempts' bases. Otherwise rows do and, where there are none, receipts:
    `published` returns the attempt among the given ones that has a receipt of its commit.
    """
    head = head_of(table.metadata)
    bases = {attempt.attempt: attempt.base for attempt in attempts if attempt.base is not None}
    if not bases:
        return Absent(head=head)
    # An attempt that resumed an earlier one was audited at the same snapshot: the first of them staged it.
    audited = {str(item.audited): item.attempt for item in reversed(attempts) if item.attempt in bases}
    found, whole = _walk(table.metadata, bases.keys(), audited, set(bases.values()))
    if found is not None:
        attempt, snapshot = found
        is_ours = token_from_summary(summary_of(table.metadata.snapshot_by_id(snapshot))) is not None
        return Found(attempt=attempt, snapshot=snapshot, head=head, is_ours=is_ours)
    if whole:
        return Absent(head=head)
    if by_rows := attempts_with_rows(table, bases.keys(), enough=1):
        return Found(attempt=min(by_rows), snapshot=None, head=head, is_ours=False)
    if by_receipt := published(list(bases)):
        return Found(attempt=by_receipt, snapshot=None, head=head)
    return Unclear(
        head=head,
        reason="main's history ends before the attempt began (snapshots expired, or main was rolled back), "
        "and neither a row nor a receipt of it is there",
    )


def _walk(
    metadata: TableMetadata, attempts: Iterable[str], audited: Mapping[str, str], bases: set[int]
) -> tuple[tuple[str, int] | None, bool]:
    """Walk back until every base was met; return the attempt and snapshot found, and whether no commit since is
    missing."""
    wanted, waiting = set(attempts), set(bases)
    oldest = None
    for snapshot in main_history(metadata):
        waiting.discard(snapshot.snapshot_id)
        if not waiting:
            return None, True
        if (shown := _shown_by(snapshot, audited)) in wanted:
            return (shown, snapshot.snapshot_id), True
        oldest = snapshot
    reached_start = oldest is None or is_first_of_table(oldest, metadata)
    return None, reached_start and waiting == {EMPTY_TABLE}


def _shown_by(snapshot: Snapshot, audited: Mapping[str, str]) -> str | None:
    """Return the attempt whose rows a snapshot of main shows: published by us, or, without a token, by a person who
    moved main to a staged snapshot or cherry-picked it."""
    summary = summary_of(snapshot)
    token = token_from_summary(summary)
    if token is not None:
        return token.attempt if token.kind in PUBLISHES else None
    return summary.get(STAGED_BY) or audited.get(summary.get("source-snapshot-id", ""))


def attempts_with_rows(table: Table, attempts: Iterable[str], enough: int) -> frozenset[str]:
    """Return attempts that have a row in main's files, until `enough` are found; files whose bounds exclude all stay
    closed.

    A row that was deleted since counts too, as long as its file exists.
    """
    found: set[str] = set()
    if not enough:
        return frozenset()
    chosen = among("ingest_attempt", attempts)
    for batch in batches_of(table, chosen, ["ingest_attempt"], written_files_of(table, chosen)):
        found.update(pc.unique(batch.column(0)).to_pylist())
        if len(found) >= enough:
            break
    return frozenset(found)
