"""The head of main from one load of the table: history, owners, newest commits, and the search for a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import pyarrow.compute as pc
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from airflow_kafka_lake.adapters.iceberg.rows import among, batches_of, written_files_of
from airflow_kafka_lake.adapters.iceberg.schema import in_spark
from airflow_kafka_lake.core.ledger.records import Commit
from airflow_kafka_lake.core.ledger.waves import (
    EMPTY_TABLE,
    PUBLISHES,
    Absent,
    Ancestry,
    AttemptRecord,
    CommitSearch,
    Found,
    TableHead,
    Unclear,
)
from airflow_kafka_lake.core.spark.job import decoded_of
from airflow_kafka_lake.core.wire import OWNER, last_of_properties, owner_from_property, token_from_summary
from airflow_kafka_lake.jobs.formats import STAGED_BY

# The head of main from one load of the table: history, owners, and our newest commits.


def head_of(metadata: TableMetadata) -> TableHead:
    newest = last_of_properties(metadata.properties)
    return TableHead(
        uuid=str(metadata.table_uuid),
        snapshot=metadata.current_snapshot_id,
        owners={
            key.removeprefix(OWNER): owner_from_property(value)
            for key, value in metadata.properties.items()
            if key.startswith(OWNER)
        },
        last={key: item.token for key, item in newest.items()},
        placed={key: item.place for key, item in newest.items() if item.place},
        lines={key: item.line for key, item in newest.items() if item.line},
        ancestry=ancestry_of(metadata),
        decoded=decoded_of(metadata.refs),
        columns=in_spark(metadata.schema().as_struct()),
    )


def ancestry_of(metadata: TableMetadata) -> Ancestry:
    """Return main's ancestors, and how far back they are known."""
    walked = tuple(main_history(metadata))
    whole = not walked or is_first_of_table(walked[-1], metadata)
    since = 0 if whole else walked[-1].sequence_number or 0
    stood_on = frozenset(snapshot.snapshot_id for snapshot in walked)
    beside = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in stood_on]
    # Expiry forgets how main came to an older one, and keeps it where a branch stands on it: it may be an ancestor.
    tokens = (
        token_from_summary(summary_of(snapshot)) for snapshot in beside if (snapshot.sequence_number or 0) >= since
    )
    return Ancestry(
        snapshots=stood_on,
        since=since,
        left=frozenset(token.attempt for token in tokens if token and token.kind in PUBLISHES),
        beside=frozenset(snapshot.snapshot_id for snapshot in beside),
    )


def main_history(metadata: TableMetadata) -> Iterator[Snapshot]:
    """Walk main from its newest snapshot back to the oldest one that the metadata still has."""
    return history(metadata, metadata.current_snapshot_id)


def history(metadata: TableMetadata, newest: int | None) -> Iterator[Snapshot]:
    """Walk from a snapshot back to the oldest one that the metadata still has."""
    known = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    snapshot = known.get(newest or 0)
    while snapshot is not None:
        yield snapshot
        snapshot = known.get(snapshot.parent_snapshot_id or 0)


def commits_of(metadata: TableMetadata) -> tuple[Commit, ...]:
    """Return main's history, oldest first."""
    found = [
        Commit(
            snapshot=snapshot.snapshot_id,
            parent=snapshot.parent_snapshot_id,
            at=datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC),
            token=token_from_summary(summary_of(snapshot)),
            deleted=_deleted(summary_of(snapshot)),
            engine=_engine(summary_of(snapshot)),
        )
        for snapshot in main_history(metadata)
    ]
    return tuple(reversed(found))


def summary_of(snapshot: Snapshot | None) -> Mapping[str, str]:
    """Return the properties in a snapshot's summary; empty where there is none."""
    return snapshot.summary.additional_properties if snapshot and snapshot.summary else {}


def _deleted(summary: Mapping[str, str]) -> int:
    """Return how many rows a commit took away: a file written anew without some counts all of its rows twice."""
    numbers = {name: int(summary.get(name, 0)) for name in ("deleted-records", "added-records")}
    positions = int(summary.get("added-position-deletes", 0)) - int(summary.get("removed-position-deletes", 0))
    return max(0, numbers["deleted-records"] - numbers["added-records"]) + max(0, positions)


def _engine(summary: Mapping[str, str]) -> str | None:
    name, version = summary.get("engine-name"), summary.get("engine-version")
    return f"{name} {version}" if name and version else name


def is_first_of_table(snapshot: Snapshot, metadata: TableMetadata) -> bool:
    """Return whether nothing can have come before the oldest snapshot of a walk.

    A missing parent proves nothing, because expiry may erase it; but every snapshot has a sequence number of its own,
    so an expired ancestor would leave a hole below this one's.
    """
    number = snapshot.sequence_number or 0
    below = {other.sequence_number for other in metadata.snapshots} & set(range(1, number))
    return snapshot.parent_snapshot_id is None and len(below) == max(0, number - 1)


# Find the commit of a wave's attempts: by main's history, by rows, and by receipts, all at one head.


def find_commit(
    table: Table, attempts: Sequence[AttemptRecord], published: Callable[[Sequence[str]], str | None]
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
    if by_rows := attempt_with_rows(table, bases.keys()):
        return Found(attempt=by_rows, snapshot=None, head=head, is_ours=False)
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
    """Walk back until every base was met; return the attempt and snapshot found, and whether all commits since are
    there."""
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
    """Return the attempt whose rows a snapshot of main shows: published by us, or, without a token, moved to main or
    cherry-picked by a person."""
    summary = summary_of(snapshot)
    token = token_from_summary(summary)
    if token is not None:
        return token.attempt if token.kind in PUBLISHES else None
    return summary.get(STAGED_BY) or audited.get(summary.get("source-snapshot-id", ""))


def attempt_with_rows(table: Table, attempts: Iterable[str]) -> str | None:
    """Return an attempt that has a row in main's files; files whose bounds exclude all of them stay closed.

    A row that was deleted since counts too, as long as its file exists.
    """
    chosen = among("ingest_attempt", attempts)
    for batch in batches_of(table, chosen, ["ingest_attempt"], written_files_of(table, chosen)):
        if batch.num_rows:
            return min(pc.unique(batch.column(0)).to_pylist())
    return None
