"""Requirements, updates and the time of a commit, in the words of Iceberg's REST specification."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from airflow_kafka_lake.adapters.iceberg.head import summary_of
from airflow_kafka_lake.adapters.machine import host
from airflow_kafka_lake.core.errors import UnavailableError
from airflow_kafka_lake.core.wire import PREFIX

_TOLERATED_MS = 50_000
"""Java tolerates a minute."""


def require_uuid(uuid: str) -> TableRequirement:
    """The table is this one and not another of the same name."""
    return AssertTableUUID.model_validate({"uuid": uuid})


def require_ref(ref: str, snapshot: int | None) -> TableRequirement:
    """A branch is at this snapshot; with None it does not exist."""
    return AssertRefSnapshotId.model_validate({"ref": ref, "snapshot-id": snapshot})


def require_spec(spec_id: int) -> TableRequirement:
    """The default partition spec is this one."""
    return AssertDefaultSpecId.model_validate({"default-spec-id": spec_id})


def require_schema(schema_id: int) -> TableRequirement:
    """The current schema is this one."""
    return AssertCurrentSchemaId.model_validate({"current-schema-id": schema_id})


def append_to_main(snapshot: Snapshot) -> tuple[TableUpdate, ...]:
    """Add a snapshot and make it main."""
    return AddSnapshotUpdate(snapshot=snapshot), set_main(snapshot.snapshot_id)


def set_main(snapshot: int) -> TableUpdate:
    """Make a snapshot main."""
    ref = {"ref-name": MAIN_BRANCH, "type": "branch", "snapshot-id": snapshot}
    return SetSnapshotRefUpdate.model_validate(ref)


def set_branch(branch: str, snapshot: int, max_age_ms: int) -> TableUpdate:
    """Let a branch be at a snapshot; an expiry of snapshots removes a branch that is older."""
    ref = {"ref-name": branch, "type": "branch", "snapshot-id": snapshot, "max-ref-age-ms": max_age_ms}
    return SetSnapshotRefUpdate.model_validate(ref)


def add_snapshot(snapshot: Snapshot) -> TableUpdate:
    """Add a snapshot that no branch is at yet."""
    return AddSnapshotUpdate(snapshot=snapshot)


def set_properties(properties: Mapping[str, str]) -> TableUpdate:
    """Set table properties."""
    return SetPropertiesUpdate(updates=dict(properties))


def forget_snapshots(snapshots: Iterable[int]) -> TableUpdate:
    """Remove snapshots from the metadata; their files stay."""
    return RemoveSnapshotsUpdate.model_validate({"snapshot-ids": list(snapshots)})


def remove_branch(branch: str) -> TableUpdate:
    """Remove a branch; the files of its snapshots go with the next expiry."""
    return RemoveSnapshotRefUpdate.model_validate({"ref-name": branch})


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
    """Name the wave or application that made the last snapshot of main, if its summary has one."""
    summary = summary_of(metadata.current_snapshot())
    for key, word in ((f"{PREFIX}wave", "wave"), ("spark.app.id", "Spark application"), ("app-id", "application")):
        if key in summary:
            return f"{word} {summary[key]}"
    return "another writer"


def _latest_ms(metadata: TableMetadata) -> int:
    return max(metadata.last_updated_ms, *(entry.timestamp_ms for entry in metadata.snapshot_log), 0)
