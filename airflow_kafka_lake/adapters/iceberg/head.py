"""The head of main from one load of the table: history, owners, and our newest commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from airflow_kafka_lake.core.lake.ancestry import Ancestry
from airflow_kafka_lake.core.lake.staging import decoded_of
from airflow_kafka_lake.core.ledger.records import Commit
from airflow_kafka_lake.core.ledger.waves import PUBLISHES, TableHead, Token
from airflow_kafka_lake.core.wire import OWNER, last_of_properties, owner_from_property, token_from_summary


def head_of(metadata: TableMetadata) -> TableHead:
    """Read the head out of one load."""
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
    )


def ancestry_of(metadata: TableMetadata) -> Ancestry:
    """Return main's ancestors, and how far back they are known."""
    walked = tuple(main_history(metadata))
    whole = not walked or is_first_of_table(walked[-1], metadata)
    stood_on = frozenset(snapshot.snapshot_id for snapshot in walked)
    beside = (_token(snapshot) for snapshot in metadata.snapshots if snapshot.snapshot_id not in stood_on)
    return Ancestry(
        snapshots=stood_on,
        since=0 if whole else walked[-1].sequence_number or 0,
        left=frozenset(token.attempt for token in beside if token and token.kind in PUBLISHES),
        beside=frozenset(snapshot.snapshot_id for snapshot in metadata.snapshots) - stood_on,
    )


def main_history(metadata: TableMetadata) -> Iterator[Snapshot]:
    """Walk main from its newest snapshot back to the oldest one that the metadata still has."""
    known = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    snapshot = known.get(metadata.current_snapshot_id or 0)
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
            token=_token(snapshot),
            deleted=_deleted(summary_of(snapshot)),
            engine=_engine(summary_of(snapshot)),
        )
        for snapshot in main_history(metadata)
    ]
    return tuple(reversed(found))


def summary_of(snapshot: Snapshot | None) -> Mapping[str, str]:
    """Return the properties in a snapshot's summary; empty where there is none."""
    return snapshot.summary.additional_properties if snapshot and snapshot.summary else {}


def _token(snapshot: Snapshot) -> Token | None:
    return token_from_summary(summary_of(snapshot))


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
