"""Check that topics, pipelines, a table, its owner and the ledger are still those on record (laws L12, L17, L18)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, cast

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import (
    IdentityError,
    KafkaLakeError,
    LedgerBehindError,
    OwnershipError,
    TerminalError,
    TopicDeletedError,
    TopicRecreatedError,
    UnknownSubjectError,
    UnknownTopicError,
    nearest,
)
from airflow_kafka_lake.core.kafka.losses import LogFacts, Losses, leader_epochs
from airflow_kafka_lake.core.kafka.snapshots import TopicDescription
from airflow_kafka_lake.core.ledger.history import EventRef
from airflow_kafka_lake.core.ledger.plans import BindTable
from airflow_kafka_lake.core.ledger.records import PipelineRecord, RangeRecord, WaveRecord
from airflow_kafka_lake.core.ledger.waves import Committed, Rejected, Requirement, TableHead
from airflow_kafka_lake.core.offsets import Stream, merged
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import LedgerReader, OffsetSource, Ports

# Whether topics, and their planned offsets, are still in Kafka as they were recorded.
#
# Each topic is asked for by name: Kafka's list of topics may lack some.

T = TypeVar("T")

TopicKey = tuple[str, str]
"""`(topic, topic_id)`."""

Problems = dict[str, KafkaLakeError]
"""Why nothing is known of a topic; UnknownTopicError where brokers have confirmed that it does not exist."""


def ask_about(ask: Callable[[Sequence[str]], Iterable[T]], topics: Iterable[str]) -> tuple[tuple[T, ...], Problems]:
    """Return the answers about the topics that exist, and the problems of the others.

    An error that names topics, in its fact `topics`, is about those only; any other is raised.
    """
    left, problems = set(topics), Problems()
    while left:
        try:
            return tuple(ask(sorted(left))), problems
        except KafkaLakeError as error:
            named = left.intersection(cast("Iterable[str]", error.facts.get("topics", ())))
            if not named:
                raise
            problems |= dict.fromkeys(sorted(named), error)
            left -= named
    return (), problems


def existing_topics(source: OffsetSource, topics: Iterable[str]) -> tuple[dict[str, TopicDescription], Problems]:
    """Return the topics that exist, by name, and the problems of the others."""
    found, problems = ask_about(source.describe, topics)
    return {item.topic: item for item in found}, problems


def compare_topics(
    source: OffsetSource, expected: Iterable[TopicKey]
) -> tuple[dict[TopicKey, IdentityError], Problems]:
    """Return, for each `(topic, topic_id)` that Kafka no longer has, its present one; and the unknown topics."""
    pairs = sorted(set(expected))
    found, problems = existing_topics(source, {topic for topic, _ in pairs})
    ids = {name: item.topic_id for name, item in found.items()}
    unknown = {name: error for name, error in problems.items() if not isinstance(error, UnknownTopicError)}
    changed = {
        (topic, topic_id): _instead_of(topic, topic_id, ids.get(topic))
        for topic, topic_id in pairs
        if topic not in unknown and ids.get(topic) != topic_id
    }
    return changed, unknown


def changed_topics(ports: Ports, expected: Iterable[TopicKey]) -> dict[TopicKey, IdentityError]:
    """Return, for each `(topic, topic_id)` that Kafka no longer has, its present one; raises an unknown one's error."""
    changed, unknown = compare_topics(ports.source, expected)
    for error in unknown.values():
        raise error
    return changed


def _instead_of(topic: str, topic_id: str, found: str | None) -> IdentityError:
    facts = {"topic": topic, "topic_id": topic_id}
    if found is None:
        return TopicDeletedError(f"topic {topic} (id {topic_id}) was deleted", **facts)
    return TopicRecreatedError(f"topic {topic} was re-created: its id is {found}, planned was {topic_id}", **facts)


def planned_epochs(ranges: Iterable[RangeRecord]) -> dict[Stream, int]:
    """Return the newest leader epoch under which each stream was planned: an older leader has been deposed since."""
    return merged(max, ((item.stream, item.leader_epoch) for item in ranges if item.leader_epoch is not None))


def check_losses(ports: Ports, ranges: Sequence[RangeRecord]) -> Losses:
    """Ask Kafka for topic ids, log starts, ends and leader epochs, and compare them with the plan."""
    changed, problems = compare_topics(ports.source, {(item.stream.topic, item.stream.topic_id) for item in ranges})
    facts = LogFacts(changed=changed, problems=problems)
    if topics := facts.to_observe(ranges):
        only = {item.stream.place for item in ranges if item.stream.topic in topics}
        seen = ports.source.snapshot(topics, None, only)
        facts = replace(facts, snapshot=seen)
        if doubts := facts.in_doubt(ranges):
            facts = replace(facts, ends=ports.source.epoch_ends(doubts, leader_epochs(seen.partitions)))
    return facts.losses(ranges)


def moved(ports: Ports, starts: Mapping[Stream, int]) -> list[Stream]:
    """Return the streams whose log does not begin where it did, or is not known to: retention went on since."""
    partitions = {stream.place for stream in starts}
    now = ports.source.snapshot(sorted({topic for topic, _ in partitions}), None, partitions)
    return sorted(stream for stream, _ in starts.items() - {(item.stream, item.log_start) for item in now.partitions})


# Whether a table, its owner and the ledger are those on record.

OWNERSHIP_TRIES = 10
NEWEST_CHECKED = 5
"""How many of the newest committed waves are checked: several, for commits are recorded in no strict order."""
HEADS_CHECKED = 30
"""How often a head that seems wrong is looked at again because main has moved meanwhile."""


def check_head(
    ports: Ports, pipeline: str, table: str, *, head: TableHead, topic_ids: Iterable[str]
) -> EventRef | None:
    """Refuse a table that is not the recorded one, has another owner, knows more than the ledger does, or was moved
    away from our newest commits. Every commit of ours is made on a head that has passed this check.

    The ledger is read after the head, and may know by then of waves that have landed on a later one. So a refusal is
    said only of a head that main still has after the ledger was read. Where main has moved, its new head is checked
    instead; a commit on the older one is rejected.

    Returns the line of the ledger's history that such a commit names: the newest one, read together with the ledger's
    knowledge of the head. All that was published up to that head was claimed before that line. So a ledger that lacks
    the line is behind, even if it knows the commit itself, whose claim may be older than others' publishes. None for a
    table without a commit of ours: there the token is enough.
    """
    topic_ids = tuple(topic_ids)
    for _ in range(HEADS_CHECKED):
        try:
            return _check(ports, pipeline, table, head=head, topic_ids=topic_ids)
        except TerminalError:
            now = ports.lake.table(table).head()
            if now == head:
                raise
            head = now
    return _check(ports, pipeline, table, head=head, topic_ids=topic_ids)


def _check(ports: Ports, pipeline: str, table: str, *, head: TableHead, topic_ids: Iterable[str]) -> EventRef | None:
    record = ports.ledger.pipeline(pipeline)
    recorded = record.tables.get(table) if record else None
    if record and recorded and recorded != head.uuid:
        raise IdentityError(
            f"table {table} was re-created: its UUID is {head.uuid}, pipeline {pipeline} wrote to {recorded}"
            f"{_by_connection(record)}. If the table was dropped, restore the old one, or accept the loss with: "
            f"{remedies.rebuild(pipeline, accept_rollback=True)}",
            table=table,
        )
    ledger_id = ports.ledger.ledger_id()
    for topic_id in topic_ids:
        _check_owner(ports, ledger_id, pipeline, table, head=head, topic_id=topic_id)
    last, line = head.last.get((ledger_id, pipeline)), None
    if last and not (line := ports.ledger.knows(last, head.lines.get((ledger_id, pipeline)))):
        raise LedgerBehindError(
            f"table {table} holds a commit of wave {last.wave} that this ledger does not know, or knows without what "
            f"was published before it: the ledger is older than the lake. Run: {remedies.rebuild(pipeline)}",
            table=table,
        )
    if lost := head.lost((ledger_id, pipeline)):
        raise _rolled_back(pipeline, table, head, lost.snapshot)
    _check_committed(ports, pipeline, table, head)
    return line


def _by_connection(record: PipelineRecord) -> str:
    """Return through which connection a table was written: it, or the file, may lead to another catalog now."""
    return (
        f", by lake connection {record.spec.lake_connection!r}. If that connection, or another one that the pipeline "
        "file names now, leads to another catalog or warehouse, set it back"
    )


def _check_owner(ports: Ports, ledger_id: str, pipeline: str, table: str, *, head: TableHead, topic_id: str) -> None:
    owner = head.owners.get(topic_id, (ledger_id, pipeline))
    if owner == (ledger_id, pipeline):
        return
    if owner[1] == pipeline:
        raise LedgerBehindError(
            f"table {table} was written by pipeline {pipeline} of another ledger ({owner[0]}). If that ledger is lost, "
            f"run, with its pipeline file: {remedies.rebuild(f'{pipeline}.toml')}; else point kafka_lake_ledger to it",
            table=table,
        )
    raise _anothers(table, topic_named(ports, topic_id, owner[1], pipeline), owner[1], pipeline)


def topic_named(ports: Ports, topic_id: str, *pipelines: str) -> str:
    """Name a topic for people: by its name, where the ledger has it of one of some pipelines."""
    streams = (stream.key for pipeline in pipelines for stream in ports.ledger.streams(pipeline))
    name = next((key.topic for key in streams if key.topic_id == topic_id), None)
    return f"the topic of id {topic_id}" if name is None else f"topic {name}"


def _anothers(table: str, topic: str, owner: str, pipeline: str) -> OwnershipError:
    return OwnershipError(
        f"{topic} in table {table} belongs to pipeline {owner}; pipeline {pipeline} would land its records "
        f"twice. Choose another table; if it was only renamed, name it {owner} again: no pipeline takes over another's",
        table=table,
        owner=owner,
    )


def check_table(ports: Ports, pipeline: str, table: str, topic_ids: Sequence[str]) -> None:
    """Check a table without writing. Raises as `check_head`, and IdentityError for a recorded table that is gone."""
    record = ports.ledger.pipeline(pipeline)  # before the table: another planner may be creating it right now
    try:
        head = ports.lake.table(table).head()
    except UnknownSubjectError:
        if record and table in record.tables:
            raise IdentityError(
                f"table {table} is gone: pipeline {pipeline} has committed ranges in it{_by_connection(record)}. "
                f"If the table was dropped, restore it, or accept the loss with: "
                f"{remedies.rebuild(pipeline, accept_rollback=True)}",
                table=table,
            ) from None
        return
    check_head(ports, pipeline, table, head=head, topic_ids=topic_ids)
    _check_unowned(ports, pipeline, table, head=head, topic_ids=topic_ids)


def check_streams(ports: Ports, spec: PipelineSpec, streams: Iterable[Stream]) -> None:
    """Check the tables of some streams before a person's decision: a ledger that is older than its lake, such as a
    restored one, knows offsets as unread that have landed. Raises as `check_table`."""
    for table, topic_ids in spec.tables_of(streams).items():
        check_table(ports, spec.name, table, topic_ids)


def require_published(ports: Ports, wave: WaveRecord) -> None:
    """Look whether a wave that is recorded as committed is in the lake still: the ledger alone does not know that its
    table was dropped, created anew or rolled back. Raises as `check_table`."""
    ranges = ports.ledger.ranges(wave=wave.id)
    check_table(ports, wave.pipeline, wave.table, sorted({item.stream.topic_id for item in ranges}))


def _check_unowned(ports: Ports, pipeline: str, table: str, *, head: TableHead, topic_ids: Sequence[str]) -> None:
    """Refuse topics without an owner on the table whose receipts name one: an engine has dropped the properties.

    A pipeline writes a topic's origin to the receipts before its first row. They are read only where an owner is
    missing: once per topic, at its first plan.
    """
    unowned = set(topic_ids) - head.owners.keys()
    if not unowned:
        return
    receipts = ports.lake.table(table).all_receipts()
    known = {item.key.topic_id for item in ports.ledger.streams(pipeline)}  # after them: each was on record before
    for row in receipts:
        if row.stream.topic_id in unowned and (row.pipeline != pipeline or row.stream.topic_id not in known):
            break
    else:
        return
    if row.pipeline == pipeline:
        raise LedgerBehindError(
            f"table {table} has receipts of topic {row.stream.topic} (id {row.stream.topic_id}) by pipeline "
            f"{pipeline}, of which "
            f"this ledger knows nothing. If a ledger was lost, run, with its pipeline file: "
            f"{remedies.rebuild(f'{pipeline}.toml')}; else point kafka_lake_ledger to the one that wrote them",
            table=table,
        )
    raise _anothers(table, f"topic {row.stream.topic}", row.pipeline, pipeline)


def _check_committed(ports: Ports, pipeline: str, table: str, head: TableHead) -> None:
    """Refuse a table whose metadata were set back to before our newest commits: its properties went back with them, so
    that only the ledger knows. One statement, whatever the number of waves."""
    for item in ports.ledger.published(pipeline, table=table, newest=NEWEST_CHECKED):
        snapshot, base = item.snapshot, item.base
        if snapshot is not None and head.ancestry.lacks_publish(item.attempt, base=base, snapshot=snapshot):
            raise _rolled_back(pipeline, table, head, snapshot)


def _rolled_back(pipeline: str, table: str, head: TableHead, snapshot: int) -> IdentityError:
    way_back = (
        "Set main to that snapshot again"
        if snapshot in head.ancestry.beside
        else "The table has no such snapshot any more, so its metadata were set back: restore them"
    )
    return IdentityError(
        f"table {table} was rolled back: snapshot {snapshot}, which pipeline {pipeline} has published, is not in "
        f"main's history any more. {way_back}, or have what vanished read again with: "
        f"{remedies.rebuild(pipeline, accept_rollback=True)}",
        table=table,
        snapshot=snapshot,
    )


def register_owner(ports: Ports, pipeline: str, table: str, *, partition_by: str, topic_ids: Sequence[str]) -> None:
    """Create or check the table, record its UUID and our topics. Raises as `check_table`, and OwnershipError."""
    check_table(ports, pipeline, table, topic_ids)
    lake = ports.lake.table(table)
    ports.ledger.commit(BindTable(pipeline=pipeline, table=table, uuid=lake.ensure(partition_by).uuid))
    ledger_id = ports.ledger.ledger_id()
    for _ in range(OWNERSHIP_TRIES):
        check_head(ports, pipeline, table, head=lake.head(), topic_ids=topic_ids)
        outcome = lake.claim_ownership(ledger_id, pipeline, topic_ids)
        if isinstance(outcome, Committed):
            return
        if isinstance(outcome, Rejected) and outcome.requirement is not Requirement.MAIN_HEAD:
            break
    check_head(ports, pipeline, table, head=lake.head(), topic_ids=topic_ids)
    raise OwnershipError(
        f"could not record the owner of {table}: {str(outcome).rstrip('.')}. Repeat the call", table=table
    )


# Pipelines that the ledger has.


def known_spec(ledger: LedgerReader, name: str) -> PipelineSpec:
    """Return a pipeline's recorded configuration; UnknownSubjectError names the known ones."""
    record = ledger.pipeline(name)
    if record is None:
        known = ", ".join(ledger.pipelines()) or "none yet"
        raise UnknownSubjectError(
            f"the ledger knows no pipeline {name!r}; it knows: {known}{nearest(name, ledger.pipelines()) or '.'} "
            "Give a pipeline file to begin one",
            pipeline=name,
        )
    return record.spec
