"""Move main by one compare-and-set commit with one of three outcomes (law L9), and try that a catalog can."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pyiceberg.exceptions import BadRequestError, CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import TableRequirement, TableUpdate

from airflow_kafka_lake.adapters.iceberg.catalog import OpenCatalog
from airflow_kafka_lake.adapters.iceberg.changes import (
    add_snapshot,
    append_to_main,
    remove_branch,
    require_clock,
    require_ref,
    require_schema,
    require_spec,
    require_uuid,
    set_branch,
    set_main,
    set_properties,
)
from airflow_kafka_lake.adapters.iceberg.head import head_of, main_history
from airflow_kafka_lake.adapters.iceberg.manifests import Prepared, prepare, write_snapshot
from airflow_kafka_lake.core.errors import ConcurrentError, UnavailableError
from airflow_kafka_lake.core.lake.ancestry import Place
from airflow_kafka_lake.core.lake.staging import BRANCH_PREFIX, BranchFault, branch_of
from airflow_kafka_lake.core.ledger.records import Publication
from airflow_kafka_lake.core.ledger.waves import (
    UNNAMED,
    Committed,
    PublishOutcome,
    Rejected,
    Requirement,
    TableHead,
    Unknown,
)
from airflow_kafka_lake.core.wire import (
    LAST,
    PROVEN,
    Last,
    last_by,
    last_of_properties,
    last_to_property,
    token_to_summary,
)

_TRIES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One commit to be made: what it requires of the table, and what it changes.

    The commit removes the branch that it publishes and the branches of `ended`, each as it is when the head is loaded.
    `schema_id` and the prepared files' spec must be the table's when there are files.
    """

    asked: Publication
    prepared: Prepared
    ended: tuple[str, ...] = ()
    schema_id: int | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def branch(self) -> str:
        """The staging branch that is published."""
        return branch_of(self.asked.token.attempt)

    def requirements(self) -> Iterator[tuple[Requirement, TableRequirement]]:
        """Return what must hold at the moment of the commit.

        Main comes before the branch: when both changed, an earlier try may have landed, and the caller searches for it.
        """
        yield Requirement.TABLE_UUID, require_uuid(self.asked.head.uuid)
        yield Requirement.MAIN_HEAD, require_ref(MAIN_BRANCH, self.asked.head.snapshot)
        if self.asked.audited is not None:
            yield Requirement.STAGING_BRANCH, require_ref(self.branch, self.asked.audited)
        if self.prepared.spec_id is not None:
            yield Requirement.SPEC, require_spec(self.prepared.spec_id)
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
        """Return what the commit changes."""
        # A ledger has no record of such a commit, so it must not replace the newest commit that is on record.
        asked, own = self.asked, Place(snapshot=snapshot.snapshot_id, sequence=snapshot.sequence_number or 0)
        place = asked.head.place_after(asked.owner, asked.token.kind, own)
        last_text = last_to_property(Last(ledger_id=asked.ledger_id, token=asked.newest, place=place, line=asked.line))
        names = () if asked.token.kind in UNNAMED else (LAST, last_by(*asked.owner))
        last = dict.fromkeys(names, last_text)
        properties = {**self.properties, **last}
        changed = (set_properties(properties),) if properties else ()
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
        summary = {**token_to_summary(move.asked.token), **move.summary}
        return write_snapshot(table, move.prepared, summary, now_ms)
    require_clock(table.metadata, now_ms, identifier)
    return staged


def _continues_main(metadata: TableMetadata, snapshot: int | None) -> bool:
    """Return whether main is in the history of a snapshot."""
    main, known = metadata.current_snapshot_id, {item.snapshot_id: item for item in metadata.snapshots}
    item = known.get(snapshot or 0)
    while item is not None and item.snapshot_id != main:
        item = known.get(item.parent_snapshot_id or 0)
    return item is not None


def unmet(metadata: TableMetadata, move: Move) -> Rejected | None:
    """Return the first requirement that this load does not meet; None when all are met."""
    for name, requirement in move.requirements():
        try:
            requirement.validate(metadata)
        except CommitFailedException as failure:
            return Rejected(requirement=name, detail=str(failure))
        if name is Requirement.MAIN_HEAD and not move.is_newest(metadata):
            return Rejected(requirement=name, detail="main was moved by a commit of this pipeline, and moved back")
    if move.asked.is_decoded_again and not _continues_main(metadata, move.asked.audited):
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
        """Create the branch, write to it, commit stale, drop it; return what the catalog does wrong."""
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
        return snapshot.snapshot_id, (add_snapshot(snapshot), set_branch(self.branch, snapshot.snapshot_id, _PROOF_MS))

    def _end(self, _: Table) -> tuple[int, tuple[TableUpdate, ...]]:
        return 0, (remove_branch(self.branch), set_properties({PROVEN: str(self.catalog.identity)}))

    def _takes(self, table: Table, stale: TableRequirement) -> bool:
        """Return whether a commit that requires what is not so is done; it would remove the branch, and no row."""
        try:
            self.catalog.api.commit_table(table, (stale,), (remove_branch(self.branch),))
        except (CommitFailedException, BadRequestError):
            return self._at(self._load()) is None
        return True


def _is_on_main(metadata: TableMetadata, snapshot: int) -> bool:
    return any(item.snapshot_id == snapshot for item in main_history(metadata))
