"""Publish a staged attempt, fence, claim ownership: the three ways to move main."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyiceberg.table import Table

from airflow_kafka_lake.adapters.iceberg.catalog import OpenCatalog
from airflow_kafka_lake.adapters.iceberg.commit import Move, PreparedSnapshot, move_main, prepare, unmet
from airflow_kafka_lake.adapters.iceberg.head import head_of, summary_of
from airflow_kafka_lake.adapters.iceberg.rows import files_of, near, replacement
from airflow_kafka_lake.adapters.iceberg.staged import StagedFiles, read_staged, staged_files
from airflow_kafka_lake.core.ledger.records import Publication, StagedContent
from airflow_kafka_lake.core.ledger.waves import Committed, PublishOutcome, Rejected, Requirement, TableHead, Token
from airflow_kafka_lake.core.spark.job import branch_of
from airflow_kafka_lake.core.wire import OWNER, owner_to_property


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyAttempt:
    """A staged attempt whose manifest is written: all that a publish needs beyond the head."""

    prepared: PreparedSnapshot
    schema_id: int | None
    topic_ids: frozenset[str]
    source: Mapping[str, str]


def make_ready(
    table: Table, staged: StagedFiles, known: StagedContent | None, heartbeat: Callable[[], None]
) -> ReadyAttempt | Rejected:
    """Write the manifest for an attempt's files; Rejected when they were written under several partition specs.

    `known` holds the files of an earlier reading of the same snapshot, so that they need not be read again.
    """
    if len({file.spec_id for file in staged.files}) > 1:
        return Rejected(requirement=Requirement.SPEC, detail="the staged files have several partition specs")
    if known is None or known.snapshot != staged.snapshot.snapshot_id:
        known = read_staged(table, staged, lambda _: heartbeat())
    # As Java's cherry-pick does: expiry then knows that the files of the staged snapshot live on.
    source = {"source-snapshot-id": str(staged.snapshot.snapshot_id)}
    if wap_id := summary_of(staged.snapshot).get("wap.id"):
        source["published-wap-id"] = wap_id
    return ReadyAttempt(
        prepared=prepare(table, staged.files),
        schema_id=staged.snapshot.schema_id if staged.files else None,
        topic_ids=frozenset(item.stream.topic_id for item in known.streams),
        source=source,
    )


class Publisher:
    """Moves main of one table; keeps the manifest of a staged attempt, and its snapshot id, from one try to the next.

    With one id for all tries only one of them can land, and a later try recognises an earlier one whose answer was
    lost.
    """

    def __init__(self, catalog: OpenCatalog, identifier: str, now_ms: Callable[[], int]) -> None:
        self._catalog = catalog
        self._identifier = identifier
        self._now_ms = now_ms
        self._ready: dict[int, ReadyAttempt] = {}
        self._read: dict[int, StagedContent] = {}
        self._replaced: dict[tuple[object, ...], ReadyAttempt] = {}

    def remember(self, staged: StagedContent) -> None:
        """Keep the content of a staged snapshot, read by the audit, for its publish."""
        self._read = {staged.snapshot: staged}

    def publish(self, publication: Publication, heartbeat: Callable[[], None]) -> PublishOutcome:
        """Make a staged attempt visible, or commit nothing but its token when nothing was staged."""
        if publication.is_decoded_again:
            return self._decoded_again(publication)
        ready = self._make_ready(publication, heartbeat)
        if isinstance(ready, Rejected):
            return ready
        replacing = self._replacing(publication, ready, heartbeat) if publication.replaces else ready
        if isinstance(replacing, Rejected):
            return replacing
        topic_ids = ready.topic_ids | {item.stream.topic_id for item in publication.replaces}
        return self._move(
            _move(publication, replacing), lambda head: self._foreign_owner(head, topic_ids, publication.owner)
        )

    def _decoded_again(self, publication: Publication) -> PublishOutcome:
        """Make the staged snapshot main, unless a topic got an owner since the head was checked."""
        move, owners = Move(asked=publication, prepared=self._nothing()), publication.head.owners
        changed = Rejected(requirement=Requirement.OWNER, detail=f"a topic of {self._identifier} changed hands")
        return self._move(move, lambda head: None if head.owners == owners else changed)

    def _replacing(
        self, publication: Publication, ready: ReadyAttempt, heartbeat: Callable[[], None]
    ) -> ReadyAttempt | Rejected:
        """Take the replaced rows out of main's files, as they are at the head that the caller has checked.

        Files written for an earlier try are used again while the same files of main hold those rows.
        """
        with self._catalog.reaching(f"replace rows of {self._identifier}"):
            table = self._catalog.load(self._identifier)
            if rejected := unmet(table.metadata, _move(publication, ready)):
                return rejected
            # Equality deletes are refused: they do not reach rows that are written later, so deleted rows would show.
            tasks = tuple(files_of(table, near(publication.replaces), self._identifier))
            # A file and its delete files decide which of its rows a reader sees.
            shown = ((task.file.file_path, *sorted(file.file_path for file in task.delete_files)) for task in tasks)
            key = (publication.audited, *sorted(shown))
            if key not in self._replaced:
                found = replacement(table, tasks, publication.replaces, heartbeat)
                files = (*ready.prepared.files, *found.rewritten)
                schema_id = table.metadata.current_schema_id if files and ready.schema_id is None else ready.schema_id
                prepared = prepare(table, files, found.removed)
                self._replaced = {key: replace(ready, prepared=prepared, schema_id=schema_id)}
            return self._replaced[key]

    def _make_ready(self, publication: Publication, heartbeat: Callable[[], None]) -> ReadyAttempt | Rejected:
        audited, attempt = publication.audited, publication.token.attempt
        if audited is not None and audited in self._ready:
            return self._ready[audited]
        with self._catalog.reaching(f"prepare the publish of attempt {attempt}"):
            table = self._catalog.find(self._identifier)
            if table is None:
                return Rejected(requirement=Requirement.TABLE_UUID, detail=f"{self._identifier} does not exist")
            nothing = ReadyAttempt(prepared=prepare(table, ()), schema_id=None, topic_ids=frozenset(), source={})
            if rejected := unmet(table.metadata, _move(publication, nothing)):
                return rejected
            if audited is None:
                return nothing
            snapshot = table.metadata.snapshot_by_id(audited)
            if snapshot is None:
                return Rejected(requirement=Requirement.STAGING_BRANCH, detail=f"staged snapshot {audited} is gone")
            ready = make_ready(table, staged_files(table, snapshot, attempt), self._read.get(audited), heartbeat)
        if isinstance(ready, ReadyAttempt):
            self._ready = {audited: ready}
        return ready

    def fence(self, asked: Publication, owned: Collection[str], ended: Collection[str]) -> PublishOutcome:
        """Move main with an empty commit that records `owned` topics and removes the branches of `ended` attempts."""
        owner = owner_to_property(*asked.owner)
        return self._move(
            Move(
                asked=asked,
                prepared=self._nothing(),
                ended=tuple(map(branch_of, ended)),
                properties={OWNER + topic_id: owner for topic_id in sorted(owned)},
            )
        )

    def claim(self, ledger_id: str, pipeline: str, topic_ids: Sequence[str]) -> PublishOutcome:
        """Record the owner of each topic; main moves only when one is new."""
        owner = (ledger_id, pipeline)
        head = head_of(self._catalog.load(self._identifier).metadata)
        if foreign := self._foreign_owner(head, topic_ids, owner):
            return foreign
        missing = [topic_id for topic_id in topic_ids if topic_id not in head.owners]
        if not missing and head.snapshot is not None:
            return Committed(snapshot=head.snapshot)
        token = Token(pipeline=pipeline, wave="owner", attempt="0" * 16, fence=0, ranges="", kind="owner")
        asked = Publication(head=head, audited=None, token=token, ledger_id=ledger_id)
        return self.fence(asked, owned=missing, ended=())

    def _nothing(self) -> PreparedSnapshot:
        with self._catalog.reaching(f"load table {self._identifier}"):
            return prepare(self._catalog.load(self._identifier), ())

    def _move(self, move: Move, refuse: Callable[[TableHead], Rejected | None] = lambda _: None) -> PublishOutcome:
        return move_main(self._catalog, self._identifier, move, now_ms=self._now_ms, refuse=refuse)

    def _foreign_owner(self, head: TableHead, topic_ids: Iterable[str], owner: tuple[str, str]) -> Rejected | None:
        for topic_id in sorted(topic_ids):
            ledger_id, pipeline = head.owners.get(topic_id, owner)
            if (ledger_id, pipeline) != owner:
                whose = f"belongs to pipeline {pipeline} of ledger {ledger_id}"
                return Rejected(requirement=Requirement.OWNER, detail=f"topic {topic_id} of {self._identifier} {whose}")
        return None


def _move(publication: Publication, ready: ReadyAttempt) -> Move:
    return Move(asked=publication, prepared=ready.prepared, schema_id=ready.schema_id, summary=ready.source)
