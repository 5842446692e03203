"""Requirements and updates of a commit, in the words of Iceberg's REST specification."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
    ref = {"ref-name": MAIN_BRANCH, "type": "branch", "snapshot-id": snapshot.snapshot_id}
    return AddSnapshotUpdate(snapshot=snapshot), SetSnapshotRefUpdate.model_validate(ref)


def set_properties(properties: Mapping[str, str]) -> TableUpdate:
    """Set table properties."""
    return SetPropertiesUpdate(updates=dict(properties))


def forget_snapshots(snapshots: Iterable[int]) -> TableUpdate:
    """Take snapshots out of the metadata; files that only they name stay behind."""
    return RemoveSnapshotsUpdate.model_validate({"snapshot-ids": list(snapshots)})


def remove_branch(branch: str) -> TableUpdate:
    """Remove a branch; the files of its snapshots go with the next expiry."""
    return RemoveSnapshotRefUpdate.model_validate({"ref-name": branch})
