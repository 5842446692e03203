"""Move main by one compare-and-set commit with one of three outcomes (law L9): requirements and manifests."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import cast

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.exceptions import BadRequestError, CommitFailedException
from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotSummaryCollector, Summary, update_snapshot_summaries
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from airflow_kafka_lake.adapters.iceberg.catalog import OpenCatalog
from airflow_kafka_lake.adapters.iceberg.head import head_of, history, main_history, summary_of
from airflow_kafka_lake.adapters.machine import host
from airflow_kafka_lake.core.errors import ConcurrentError, UnavailableError
from airflow_kafka_lake.core.ledger.records import Publication
from airflow_kafka_lake.core.ledger.waves import (
    UNNAMED,
    Committed,
    PublishOutcome,
    Rejected,
    Requirement,
    SnapshotPosition,
    TableHead,
    Unknown,
)
from airflow_kafka_lake.core.spark.job import BRANCH_PREFIX, BranchFault, branch_of
from airflow_kafka_lake.core.wire import (
    LAST,
    PREFIX,
    PROVEN,
    Last,
    last_by,
    last_of_properties,
    last_to_property,
    token_to_summary,
)

# Requirements, updates and the time of a commit, in the words of Iceberg's REST specification.

_TOLERATED_MS = 50_000
"""Java tolerates a minute."""


def require_uuid(uuid: str) -> TableRequirement:
    """The table is this one and not another of the same name."""
    return AssertTableUUID.model_validate({"uuid": uuid})


def require_ref(ref: str, snapshot: int | None) -> TableRequirement:
    """A branch is at this snapshot; with None it does not exist."""
    return AssertRefSnapshotId.model_validate({"ref": ref, "snapshot-id": snapshot})


def require_schema(schema_id: int) -> TableRequirement:
    """The current schema is this one."""
    return AssertCurrentSchemaId.model_validate({"current-schema-id": schema_id})


def append_to_main(snapshot: Snapshot) -> tuple[TableUpdate, ...]:
    """Add a snapshot and make it main."""
    return AddSnapshotUpdate(snapshot=snapshot), set_main(snapshot.snapshot_id)


def set_main(snapshot: int) -> TableUpdate:
    return SetSnapshotRefUpdate.model_validate({"ref-name": MAIN_BRANCH, "type": "branch", "snapshot-id": snapshot})


def set_branch(branch: str, snapshot: int, max_age_ms: int) -> TableUpdate:
    """Let a branch be at a snapshot; an expiry of snapshots removes a branch that is older."""
    ref = {"ref-name": branch, "type": "branch", "snapshot-id": snapshot, "max-ref-age-ms": max_age_ms}
    return SetSnapshotRefUpdate.model_validate(ref)


def remove_branch(branch: str) -> TableUpdate:
    """Remove a branch; the files of its snapshots go with the next expiry."""
    return RemoveSnapshotRefUpdate.model_validate({"ref-name": branch})


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


# The parts of one new snapshot of main: manifests (small ones merged), the manifest list, the summary.

MOST_SMALL = 50
"""Spark merges from a hundred on: with fewer, its staging commits, whose manifests main never gets, merge nothing."""

LARGEST_SMALL_BYTES = 2 * 1024 * 1024
MOST_BYTES = 8 * 1024 * 1024
"""Iceberg's own target of a manifest. One merge reads no more, whatever the length of the history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """One manifest with the entries of several; it replaces them if main still has all of them."""

    paths: frozenset[str]
    manifest: ManifestFile

    def applied(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """Return main's manifests with the merged one, or unchanged when main lacks one of its sources."""
        if not self.paths <= {item.manifest_path for item in manifests}:
            return list(manifests)
        return [*(item for item in manifests if item.manifest_path not in self.paths), self.manifest]


def to_merge(table: Table) -> tuple[ManifestFile, ...]:
    """Return main's smallest data manifests when they are too many, as many as one manifest may hold; else none."""
    snapshot = table.metadata.current_snapshot()
    small = sorted(
        (
            item
            for item in (snapshot.manifests(table.io) if snapshot else ())
            if item.content is ManifestContent.DATA
            and item.partition_spec_id == table.metadata.default_spec_id
            and item.manifest_length <= LARGEST_SMALL_BYTES
        ),
        key=lambda item: item.manifest_length,
    )
    if len(small) < MOST_SMALL:
        return ()
    sizes = accumulate(item.manifest_length for item in small)
    return tuple(item for item, size in zip(small, sizes, strict=True) if size <= MOST_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSnapshot:
    """A snapshot to be written: its id, the manifest of the files that it adds, already written, and the files that it
    removes.

    If files are added, main's small manifests are merged where that is due. Writing manifests takes longest (seconds
    for many thousand files) and does not depend on the head, so it happens once for all tries, before the head is
    loaded. `without` caches, by path, main's manifests rewritten without the removed files, for the next try.
    """

    snapshot_id: int
    manifest: ManifestFile | None
    files: tuple[DataFile, ...]
    spec_id: int | None
    removed: tuple[DataFile, ...] = ()
    merge: Merge | None = None
    without: dict[str, ManifestFile] = field(default_factory=dict, compare=False)


def prepare(table: Table, files: Sequence[DataFile], removed: Sequence[DataFile] = ()) -> PreparedSnapshot:
    """Write the manifest for some data files of one partition spec; none for a commit that adds nothing."""
    snapshot_id, removed_files = table.metadata.new_snapshot_id(), tuple(removed)
    if not files:
        return PreparedSnapshot(snapshot_id=snapshot_id, manifest=None, files=(), spec_id=None, removed=removed_files)
    spec = table.metadata.specs()[files[0].spec_id]
    added = (
        ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, data_file=file)
        for file in files
    )
    return PreparedSnapshot(
        snapshot_id=snapshot_id,
        manifest=_write_manifest(table, spec, snapshot_id, added),
        files=tuple(files),
        spec_id=spec.spec_id,
        removed=removed_files,
        merge=None if removed_files else _merge(table, snapshot_id),
    )


def _merge(table: Table, snapshot_id: int) -> Merge | None:
    chosen = to_merge(table)
    if not chosen:
        return None
    # As existing files: each keeps its snapshot and sequence number.
    entries = (_kept_or_deleted(entry) for item in chosen for entry in item.fetch_manifest_entry(table.io))
    manifest = _write_manifest(table, table.spec(), snapshot_id, entries)
    return Merge(paths=frozenset(item.manifest_path for item in chosen), manifest=manifest)


def _write_manifest(
    table: Table, spec: PartitionSpec, snapshot_id: int, entries: Iterable[ManifestEntry]
) -> ManifestFile:
    path = table.location_provider().new_metadata_location(f"{uuid.uuid4()}-m0.avro")
    with write_manifest(
        format_version=table.metadata.format_version,
        spec=spec,
        schema=table.schema(),
        output_file=table.io.new_output(path),
        snapshot_id=snapshot_id,
        avro_compression=_compression(table.metadata),
    ) as writer:
        for entry in entries:
            writer.add_entry(entry)
    return writer.to_manifest_file()


def write_snapshot(table: Table, prepared: PreparedSnapshot, summary: Mapping[str, str], now_ms: int) -> Snapshot:
    """Write the manifest list of main plus the prepared files, less the removed ones, as of this load of the table."""
    metadata = table.metadata
    parent = metadata.current_snapshot()
    manifests = [] if prepared.manifest is None else [prepared.manifest]
    if parent is not None:
        # As Java does: a manifest whose files are all deleted is of no use to a later snapshot.
        alive = [m for m in parent.manifests(table.io) if m.has_added_files() or m.has_existing_files()]
        if prepared.removed:
            alive = _without_removed(table, prepared, alive)
        manifests += prepared.merge.applied(alive) if prepared.merge else alive
    path = table.location_provider().new_metadata_location(f"snap-{prepared.snapshot_id}-0-{uuid.uuid4()}.avro")
    sequence_number = metadata.next_sequence_number()
    with write_manifest_list(
        format_version=metadata.format_version,
        output_file=table.io.new_output(path),
        snapshot_id=prepared.snapshot_id,
        parent_snapshot_id=parent.snapshot_id if parent else None,
        sequence_number=sequence_number,
        avro_compression=_compression(metadata),
    ) as writer:
        writer.add_manifests(manifests)
    return Snapshot.model_validate(
        {
            "snapshot-id": prepared.snapshot_id,
            "parent-snapshot-id": parent.snapshot_id if parent else None,
            "sequence-number": sequence_number,
            "timestamp-ms": max(now_ms, _latest_ms(metadata) + 1),  # this clock may be behind
            "manifest-list": path,
            "summary": _summary(metadata, prepared, summary, parent),
            "schema-id": metadata.current_schema_id,
        }
    )


def _without_removed(table: Table, prepared: PreparedSnapshot, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
    """Return main's manifests; manifests that name a removed file are rewritten with the file as deleted."""
    removed = {file.file_path for file in prepared.removed}
    found = []
    for manifest in manifests:
        path = manifest.manifest_path
        if path not in prepared.without:
            prepared.without[path] = manifest
            entries = manifest.fetch_manifest_entry(table.io) if manifest.content is ManifestContent.DATA else []
            if any(entry.data_file.file_path in removed for entry in entries):
                spec = table.metadata.specs()[manifest.partition_spec_id]
                kept = (_kept_or_deleted(entry, removed, prepared.snapshot_id) for entry in entries)
                prepared.without[path] = _write_manifest(table, spec, prepared.snapshot_id, kept)
        found.append(prepared.without[path])
    return found


def _kept_or_deleted(entry: ManifestEntry, removed: Collection[str] = (), snapshot_id: int = 0) -> ManifestEntry:
    deleted = entry.data_file.file_path in removed
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.DELETED if deleted else ManifestEntryStatus.EXISTING,
        # In Iceberg a deleted entry names the snapshot that deletes it, and keeps the numbers of its file.
        snapshot_id=snapshot_id if deleted else entry.snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )


def _summary(
    metadata: TableMetadata, prepared: PreparedSnapshot, summary: Mapping[str, str], parent: Snapshot | None
) -> Summary:
    limit = int(metadata.properties.get(TableProperties.WRITE_PARTITION_SUMMARY_LIMIT, "0"))
    collector = SnapshotSummaryCollector(partition_summary_limit=limit)
    for file in prepared.files:
        collector.add_file(data_file=file, schema=metadata.schema(), partition_spec=metadata.specs()[file.spec_id])
    for file in prepared.removed:
        collector.remove_file(data_file=file, schema=metadata.schema(), partition_spec=metadata.specs()[file.spec_id])
    operation = Operation.OVERWRITE if prepared.removed else Operation.APPEND
    return update_snapshot_summaries(
        summary=Summary(operation=operation, **collector.build(), **summary),
        previous_summary=parent.summary if parent else None,
    )


def _compression(metadata: TableMetadata) -> AvroCompressionCodec:
    named = metadata.properties.get(
        TableProperties.WRITE_AVRO_COMPRESSION, TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT
    )
    return cast(AvroCompressionCodec, named)


# Move main by one compare-and-set commit with one of three outcomes (law L9), and try that a catalog can.

_TRIES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One commit to be made: its requirements of the table, and its changes.

    The commit removes the branch that it publishes and the branches of `ended`, each as it is when the head is loaded.
    `schema_id` and the prepared files' spec must be the table's when there are files.
    """

    asked: Publication
    prepared: PreparedSnapshot
    ended: tuple[str, ...] = ()
    schema_id: int | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def branch(self) -> str:
        return branch_of(self.asked.token.attempt)

    def requirements(self) -> Iterator[tuple[Requirement, TableRequirement]]:
        """Return the requirements that must hold at the moment of the commit.

        Main comes before the branch: when both changed, an earlier try may have landed, and the caller searches for it.
        """
        yield Requirement.TABLE_UUID, require_uuid(self.asked.head.uuid)
        yield Requirement.MAIN_HEAD, require_ref(MAIN_BRANCH, self.asked.head.snapshot)
        if self.asked.audited is not None:
            yield Requirement.STAGING_BRANCH, require_ref(self.branch, self.asked.audited)
        if self.prepared.spec_id is not None:
            yield Requirement.SPEC, AssertDefaultSpecId.model_validate({"default-spec-id": self.prepared.spec_id})
        if self.schema_id is not None:
            yield Requirement.SCHEMA, require_schema(self.schema_id)

    def is_newest(self, metadata: TableMetadata) -> bool:
        """Return whether the head's newest commit of this pipeline is still the table's newest one.

        Main can be at the head's snapshot although a commit of ours landed meanwhile: then main was rolled back, which
        leaves the property of that commit.
        """
        newest = last_of_properties(metadata.properties).get(self.asked.owner)
        marks = (newest.token, newest.place, newest.line) if newest else (None, None, None)
        return marks == self.asked.head.marks_of(self.asked.owner)

    def ending(self, refs: Mapping[str, SnapshotRef]) -> dict[str, SnapshotRef]:
        """Return which of a table's branches the commit removes; if one of them moves, the commit is tried anew."""
        return {name: refs[name] for name in self.ended if name in refs}

    def updates(self, snapshot: Snapshot, ending: Iterable[str]) -> tuple[TableUpdate, ...]:
        # A ledger has no record of such a commit, so it must not replace the newest commit that is on record.
        asked, own = self.asked, SnapshotPosition(snapshot=snapshot.snapshot_id, sequence=snapshot.sequence_number or 0)
        place = asked.head.place_after(asked.owner, asked.token.kind, own)
        last_text = last_to_property(Last(ledger_id=asked.ledger_id, token=asked.newest, place=place, line=asked.line))
        names = () if asked.token.kind in UNNAMED else (LAST, last_by(*asked.owner))
        last = dict.fromkeys(names, last_text)
        properties = {**self.properties, **last}
        changed = (SetPropertiesUpdate(updates=dict(properties)),) if properties else ()
        removed = ending if asked.audited is None else (self.branch, *ending)
        moved = (set_main(snapshot.snapshot_id),) if asked.is_decoded_again else append_to_main(snapshot)
        return (*moved, *changed, *map(remove_branch, removed))


def move_main(
    catalog: OpenCatalog,
    identifier: str,
    move: Move,
    *,
    now_ms: Callable[[], int],
    refuse: Callable[[TableHead], Rejected | None] = lambda _: None,
) -> PublishOutcome:
    """Commit once on the head that the caller has checked; never rebase.

    Tried again only while main is still at that head: then a commit to another branch came in between, which changes
    the table's pointer and sequence number and nothing that was checked. `refuse` may reject the newly loaded head.
    Raises UnavailableError when nothing was sent.
    """
    for _ in range(_TRIES):
        with catalog.reaching(f"load table {identifier}"):
            table = catalog.find(identifier)
            if table is None:
                return Rejected(requirement=Requirement.TABLE_UUID, detail=f"{identifier} does not exist")
            if rejected := unmet(table.metadata, move) or refuse(head_of(table.metadata)):
                return rejected
            snapshot = _new_main(table, move, now_ms(), identifier)
        ending = move.ending(table.metadata.refs)
        required = (
            *(requirement for _, requirement in move.requirements()),
            *(require_ref(name, ref.snapshot_id) for name, ref in ending.items()),
        )
        try:
            catalog.commit(table, required, move.updates(snapshot, ending), is_seen=shows(snapshot))
        except Exception as error:  # noqa: BLE001 - whatever is not a named failure is an unknown outcome
            if not is_named_failure(error):
                return Unknown(reason=error.message if isinstance(error, UnavailableError) else catalog.reason(error))
        else:
            return Committed(snapshot=snapshot.snapshot_id)
        if landed := _landed(catalog, identifier, snapshot.snapshot_id):
            return landed
    return Rejected(requirement=Requirement.MAIN_HEAD, detail=f"other commits came in between {_TRIES} times in a row")


def _new_main(table: Table, move: Move, now_ms: int, identifier: str) -> Snapshot:
    """Return the snapshot that main becomes: a new one, or the staged one if it has all rows of main."""
    staged = table.metadata.snapshot_by_id(move.asked.audited or 0) if move.asked.is_decoded_again else None
    if staged is None:
        return write_snapshot(table, move.prepared, {**token_to_summary(move.asked.token), **move.summary}, now_ms)
    require_clock(table.metadata, now_ms, identifier)
    return staged


def unmet(metadata: TableMetadata, move: Move) -> Rejected | None:
    """Return the first requirement that this load does not meet; None when all are met."""
    for name, requirement in move.requirements():
        try:
            requirement.validate(metadata)
        except CommitFailedException as failure:
            return Rejected(requirement=name, detail=str(failure))
        if name is Requirement.MAIN_HEAD and not move.is_newest(metadata):
            return Rejected(requirement=name, detail="main was moved by a commit of this pipeline, and moved back")
    staged = {item.snapshot_id for item in history(metadata, move.asked.audited)}
    if move.asked.is_decoded_again and metadata.current_snapshot_id not in staged:
        return Rejected(requirement=Requirement.STAGING_BRANCH, detail="the staged snapshot does not continue main")
    return None


def is_named_failure(error: Exception) -> bool:
    """Return whether the catalog refused before anything was applied.

    A stale sequence number is refused while the new metadata is computed, by PyIceberg for a SQL catalog, by the
    server of a REST catalog.
    """
    if isinstance(error, CommitFailedException):
        return True
    return isinstance(error, ValueError | BadRequestError) and "sequence number" in str(error)


def shows(snapshot: Snapshot) -> Callable[[TableMetadata], bool]:
    """Return the question whether a snapshot is in main's history."""
    return lambda metadata: _is_on_main(metadata, snapshot.snapshot_id)


def _landed(catalog: OpenCatalog, identifier: str, snapshot_id: int) -> PublishOutcome | None:
    """Return Committed if the refused commit is on main after all: a layer below may have sent it twice."""
    try:
        table = catalog.find(identifier)
    except UnavailableError as error:
        return Unknown(reason=f"the catalog named a conflict, and then could not be asked again: {error.message}")
    if table is not None and _is_on_main(table.metadata, snapshot_id):
        return Committed(snapshot=snapshot_id)
    return None


_PROOF_MS = 24 * 3600 * 1000


def prove_branches(catalog: OpenCatalog, identifier: str, now_ms: Callable[[], int]) -> BranchFault | None:
    """Try on a table, without a row, that the catalog keeps branches apart from main and refuses stale commits.

    Each step is looked at in a new load before the next. The last one removes the branch and records on the table that
    this catalog was tried: one commit, so that one which is done in part is found too. An attempt that dies leaves a
    branch that the next expiry of snapshots removes.
    """
    proof = _Proof(catalog, identifier, now_ms, f"{BRANCH_PREFIX}proof_{secrets.token_hex(8)}")
    with catalog.reaching(f"try the branches of {identifier}"):
        return proof.run()


@dataclass(frozen=True, slots=True)
class _Proof:
    """One trial of a catalog."""

    catalog: OpenCatalog
    identifier: str
    now_ms: Callable[[], int]
    branch: str

    def run(self) -> BranchFault | None:
        """Create the branch, write to it, commit stale, drop it; return the catalog's fault."""
        before = self._load().metadata.current_snapshot_id
        created = self._commit(self._create)
        table = self._load()
        if created != before and _is_on_main(table.metadata, created):
            return BranchFault.ON_MAIN
        if self._at(table) != created:
            return BranchFault.NOT_STORED
        written = self._commit(self._write)
        table = self._load()
        if _is_on_main(table.metadata, written):
            return BranchFault.ON_MAIN
        if self._at(table) != written:
            return BranchFault.NOT_WRITTEN
        if self._takes(table, require_ref(MAIN_BRANCH, written)) or self._takes(
            table, require_ref(self.branch, created)
        ):
            return BranchFault.STALE_TAKEN
        self._commit(self._end)
        table = self._load()
        was_done = self._at(table) is None, table.properties.get(PROVEN) == self.catalog.identity
        return None if all(was_done) else BranchFault.IN_PART

    def _load(self) -> Table:
        return self.catalog.load(self.identifier)

    def _at(self, table: Table) -> int | None:
        ref = table.metadata.refs.get(self.branch)
        return ref.snapshot_id if ref else None

    def _commit(self, change: Callable[[Table], tuple[int, tuple[TableUpdate, ...]]]) -> int:
        """Commit on the branch as it is, again while others commit to the table; return the snapshot of the change."""
        for _ in range(_TRIES):
            table = self._load()
            snapshot, updates = change(table)
            required = require_uuid(str(table.metadata.table_uuid)), require_ref(self.branch, self._at(table))
            try:
                self.catalog.api.commit_table(table, required, updates)
            except Exception as error:
                if not is_named_failure(error):
                    raise
            else:
                return snapshot
        raise ConcurrentError(
            f"{self.identifier} moved {_TRIES} times while the catalog's branches were tried. Try again.",
            table=self.identifier,
        )

    def _create(self, table: Table) -> tuple[int, tuple[TableUpdate, ...]]:
        main = table.metadata.current_snapshot_id
        if main is not None:
            return main, (set_branch(self.branch, main, _PROOF_MS),)
        return self._write(table)

    def _write(self, table: Table) -> tuple[int, tuple[TableUpdate, ...]]:
        snapshot = write_snapshot(table, prepare(table, ()), {}, self.now_ms())
        return snapshot.snapshot_id, (
            AddSnapshotUpdate(snapshot=snapshot),
            set_branch(self.branch, snapshot.snapshot_id, _PROOF_MS),
        )

    def _end(self, _: Table) -> tuple[int, tuple[TableUpdate, ...]]:
        return 0, (remove_branch(self.branch), SetPropertiesUpdate(updates={PROVEN: str(self.catalog.identity)}))

    def _takes(self, table: Table, stale: TableRequirement) -> bool:
        """Return whether a commit with a false requirement is done; it would remove the branch, and no row."""
        try:
            self.catalog.api.commit_table(table, (stale,), (remove_branch(self.branch),))
        except (CommitFailedException, BadRequestError):
            return self._at(self._load()) is None
        return True


def _is_on_main(metadata: TableMetadata, snapshot: int) -> bool:
    return snapshot in (item.snapshot_id for item in main_history(metadata))
