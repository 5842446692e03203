"""Make a lost, older or failed-over ledger agree with the lake again (laws L11, L17).

Everything is compared before anything is written, so that a rebuild that is refused has moved nothing. Then main is
moved, by a commit that no earlier publisher can have read, and compared anew. The ledger learns the commit's token only
with the last write: if a rebuild dies in between, plan and publish refuse until another has ended.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import NAMED, some
from airflow_kafka_lake.core.errors import (
    IdentityError,
    KafkaLakeError,
    OwnershipError,
    StateError,
    UnknownOutcomeError,
    UnknownSubjectError,
)
from airflow_kafka_lake.core.ledger.guards import overtaken_rebuild
from airflow_kafka_lake.core.ledger.records import Advance, Claim, PipelineRecord, ReceiptRow
from airflow_kafka_lake.core.ledger.waves import (
    OPEN,
    UNFINISHED,
    AttemptOutcome,
    RangeState,
    TableHead,
    Token,
)
from airflow_kafka_lake.core.offsets import grouped
from airflow_kafka_lake.core.planning.costs import heaviest, weights
from airflow_kafka_lake.core.rebuilding.comparison import (
    Contradiction,
    LakeComparison,
    LedgerMemory,
    Restoration,
    TableReading,
    compare,
)
from airflow_kafka_lake.core.rebuilding.restore import Restore, restoration
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import LakeTable, LedgerReader, Ports
from airflow_kafka_lake.services.advance import advance
from airflow_kafka_lake.services.claims import claim_wave, ending_on_error
from airflow_kafka_lake.services.identity import existing_topics, topic_named
from airflow_kafka_lake.services.only_copies import refuse_to_lose_unknown, refuse_to_lose_waves
from airflow_kafka_lake.services.recovery import FenceCommit, move_main

NO_LEDGER = ""
"""The ledger that owns a topic without an owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildResult:
    """The result of a rebuild; `reopened` ranges vanished from the lake and are read again, `deleted` ranges stay
    committed even if others have deleted rows of them."""

    id: str
    waves: int
    ranges: int
    skips: int
    reopened: tuple[Contradiction, ...]
    deleted: tuple[Contradiction, ...]
    moves: tuple[Advance, ...]


def rebuild(
    ports: Ports, spec: PipelineSpec, *, accept_rollback: bool = False, drop_staged: bool = False
) -> RebuildResult:
    """Make the ledger agree with the lake: coverage, watermarks, skips, origins, owner; safe to repeat at any time.

    Raises ConcurrentError while another process works on the pipeline, IdentityError when the lake was rolled back or
    re-created (unless accepted: the vanished ranges are planned again) or contradicts its receipts, OwnershipError when
    another pipeline owns a topic, StateError when neither ledger nor lake has anything of it, UnknownOutcomeError when
    main could not be moved, OnlyCopyError when staged rows that would be dropped exist nowhere else (unless
    `drop_staged` gives them up).
    """
    claims: list[Claim] = []
    with ending_on_error(ports, claims):
        for wave in ports.ledger.waves(spec.name, OPEN):
            with suppress(StateError):  # ended since it was listed: it cannot be published any more
                claims.append(claim_wave(ports, wave.id, to_decide=True))
        if not drop_staged:
            _refuse_to_lose(ports, spec)
        what, comparison = _restore(ports, spec, claims, accept_rollback)
    return RebuildResult(
        id=what.id,
        waves=len(what.waves),
        ranges=sum(len(wave.receipts) for wave in what.waves),
        skips=len(what.skips),
        reopened=comparison.vanished,
        deleted=comparison.deleted,
        moves=advance(ports, spec.name),
    )


def _refuse_to_lose(ports: Ports, spec: PipelineSpec) -> None:
    """Check every table before main of any is moved: after that only another rebuild can go on."""
    attempts = ports.ledger.attempts(pipeline=spec.name)
    unfinished = {wave.id: wave.table for wave in ports.ledger.waves(spec.name, UNFINISHED)}
    by_table = grouped((unfinished[item.wave], item) for item in attempts if item.wave in unfinished)
    refuse_to_lose_waves(ports, spec.name, by_table)
    for name in _tables(ports, spec, ports.ledger.pipeline(spec.name), _known(ports.ledger, spec.name, ())):
        table = ports.lake.table(name)
        if table.branches():
            theirs = {row.attempt for row in table.all_receipts() if row.pipeline != spec.name}
            unknown = _ended(ports, spec.name, table, theirs) - {item.attempt for item in attempts}
            refuse_to_lose_unknown(ports, spec.name, table, sorted(unknown))


def _restore(
    ports: Ports, spec: PipelineSpec, claims: Sequence[Claim], accept_rollback: bool
) -> tuple[Restoration, LakeComparison]:
    now, attempt = ports.clock.now(), secrets.token_hex(8)
    token = Token(pipeline=spec.name, wave=f"rebuild-{attempt}", attempt=attempt, fence=1, ranges="", kind="fence")
    record = ports.ledger.pipeline(spec.name)
    known = ports.ledger.at_once(lambda ledger: _known(ledger, spec.name, claims))
    there = {
        name: _is_there(ports, spec, record, table=name, accept_rollback=accept_rollback)
        for name in _tables(ports, spec, record, known)
    }
    tables = [name for name, is_there in there.items() if is_there]
    before = {name: found for name in tables if (found := _read_unmoved(ports, spec, known, name))}
    # Where a table has moved while it was read, the reading is one of two moments, and decides nothing.
    moments = {name: found.commits[-1].snapshot if found.commits else None for name, found in before.items()}
    if all(ports.lake.table(name).head().snapshot == snapshot for name, snapshot in moments.items()):
        _refuse(spec.name, compare(list(before.values()), known, now), accept_rollback)
    moved = (_read(ports, spec, known, table=table, token=token, before=before.get(table)) for table in tables)
    readings = [reading for reading in moved if reading]
    if not readings and not known.streams:
        raise _nothing_there(spec.name, there)
    comparison = compare(readings, known, now)
    _refuse(spec.name, comparison, accept_rollback)
    what = restoration(
        spec, token, ports.ledger.ledger_id(), now=now, readings=readings, known=known, comparison=comparison
    )
    again = [item.slice for item in what.planned]
    with suppress(KafkaLakeError):  # a rebuild needs Kafka for nothing else, which may be down
        samples = ports.source.sample(heaviest(again), spec.isolation) if again else ()
        what = replace(what, weights=weights((), samples, ()))
    ports.ledger.commit(Restore(what=what, actor=ports.actor))
    return what, comparison


def _nothing_there(pipeline: str, tables: Mapping[str, bool]) -> StateError:
    """Return the refusal where neither ledger nor lake has anything of a pipeline: most likely it is another lake."""
    looked = "; ".join(f"{name} {'holds nothing of it' if there else 'is not there'}" for name, there in tables.items())
    return StateError(
        f"nothing of pipeline {pipeline} is in the lake: {looked}. Nothing was restored. If it was run before, correct "
        "its table and its lake connection: a run would read everything once more, into another table. A pipeline that "
        "was never run needs no rebuild",
        pipeline=pipeline,
    )


def _known(ledger: LedgerReader, pipeline: str, claims: Sequence[Claim]) -> LedgerMemory:
    attempts = ledger.attempts(pipeline=pipeline)
    return LedgerMemory(
        streams=ledger.streams(pipeline),
        ranges=ledger.ranges(pipeline=pipeline, states=(RangeState.COMMITTED,)),
        published={item.wave: item for item in ledger.published(pipeline)},
        committed=frozenset(item.attempt for item in attempts if item.outcome is AttemptOutcome.COMMITTED),
        guards=tuple(claim.key for claim in claims),
    )


def _tables(ports: Ports, spec: PipelineSpec, record: PipelineRecord | None, known: LedgerMemory) -> list[str]:
    """Return every table that may have rows of the pipeline; Kafka is asked only for names behind a pattern."""
    found = {*(record.tables if record else ()), *(spec.table_for(stream.key.topic) for stream in known.streams)}
    if "{topic}" not in spec.table:
        return sorted({*found, spec.table})
    topics = spec.topics if spec.topic_pattern is None else ports.source.topics(spec.topics, spec.topic_pattern)
    return sorted({*found, *(spec.table_for(topic) for topic in topics)})


def _is_there(
    ports: Ports, spec: PipelineSpec, record: PipelineRecord | None, *, table: str, accept_rollback: bool
) -> bool:
    """Return whether a table can be read; refuse one that is missing or was re-created, unless that is accepted."""
    recorded = record.tables.get(table) if record else None
    remedy = f"Restore it, or have what vanished read again with: {remedies.rebuild(spec.name, accept_rollback=True)}"
    try:
        uuid = ports.lake.table(table).head().uuid
    except UnknownSubjectError:
        if recorded is None:
            return False
        if not accept_rollback:
            raise IdentityError(
                f"table {table} is gone: pipeline {spec.name} wrote to it. {remedy}", table=table
            ) from None
        ports.lake.table(table).ensure(spec.partition_by)
        return True
    if recorded not in (None, uuid) and not accept_rollback:
        raise IdentityError(
            f"table {table} was re-created: its UUID is {uuid}, pipeline {spec.name} wrote to {recorded}. {remedy}",
            table=table,
        )
    return True


def _topics_seen(spec: PipelineSpec, known: LedgerMemory, receipts: Sequence[ReceiptRow]) -> set[str]:
    had = {stream.key.topic for stream in known.streams}  # another ledger's pipeline of the name may have others
    receipts = [row for row in receipts if row.stream.topic in had or spec.reads(row.stream.topic)]
    mine = (row for row in receipts if row.pipeline == spec.name)
    return {row.stream.topic_id for row in mine} | {item.key.topic_id for item in known.streams}


def _receipts_of(
    ports: Ports, pipeline: str, table: str, *, every_receipt: Sequence[ReceiptRow], owners: Collection[str]
) -> tuple[ReceiptRow, ...]:
    waiting = (item.row for item in ports.ledger.outbox(pipeline) if item.table == table)
    return tuple(r for r in (*every_receipt, *waiting) if r.pipeline == pipeline and r.stream.topic_id in owners)


def _read_unmoved(ports: Ports, spec: PipelineSpec, known: LedgerMemory, table: str) -> TableReading | None:
    """Read a table that has anything of ours as it is, so that a refusal comes before main moves."""
    lake = ports.lake.table(table)
    seen, head = _topics_seen(spec, known, lake.all_receipts()), lake.head()
    owners = _owned(ports, spec, table, head=head, seen=seen)
    if not owners:
        return None
    ports.progress(f"reading history, rows and receipts of {table}")
    commits, attempt_rows = lake.commits(), lake.attempt_rows(sorted(owners))
    every_receipt = lake.all_receipts()  # after the rows: each wave writes them before its commit
    return TableReading(
        table=table,
        uuid=head.uuid,
        owners=owners,
        commits=commits,
        ancestry=lake.head().ancestry,
        attempt_rows=attempt_rows,
        receipts=_receipts_of(ports, spec.name, table, every_receipt=every_receipt, owners=owners),
    )


def _read(
    ports: Ports, spec: PipelineSpec, known: LedgerMemory, *, table: str, token: Token, before: TableReading | None
) -> TableReading | None:
    """Move main of a table that has anything of ours, then read its history, rows and receipts.

    Rows are the ones read before where no other commit came in between.
    """
    lake = ports.lake.table(table)
    every_receipt = lake.all_receipts()
    seen = _topics_seen(spec, known, every_receipt)
    ports.progress(f"moving main of {table}, so that no publisher who looked at it before can succeed")
    theirs = {row.attempt for row in every_receipt if row.pipeline != spec.name}
    head, owners = _move_main(ports, spec, table, token=token, seen=seen, theirs=theirs)
    if not owners:
        return None
    commits = lake.commits()
    is_as_read = before and before.owners.keys() == owners.keys() and commits[:-1] == before.commits
    attempt_rows = before.attempt_rows if before and is_as_read else lake.attempt_rows(sorted(owners))
    receipts = _receipts_of(ports, spec.name, table, every_receipt=lake.all_receipts(), owners=owners)
    now, owner = lake.head(), (ports.ledger.ledger_id(), spec.name)
    if now.last.get(owner) != token or {now.owners.get(topic_id) for topic_id in owners} != {owner}:
        raise overtaken_rebuild(spec.name)  # rows and receipts are of two moments
    return TableReading(
        table=table,
        uuid=head.uuid,
        owners=owners,
        commits=commits,
        ancestry=now.ancestry,
        attempt_rows=attempt_rows,
        receipts=receipts,
    )


def _owned_without_receipts(ports: Ports, spec: PipelineSpec, head: TableHead, seen: set[str]) -> set[str]:
    """Return topics that a pipeline of this name owns and that no receipt names: nothing of them was planned yet."""
    unseen = {topic_id for topic_id, owner in head.owners.items() if owner[1] == spec.name} - seen
    if not unseen:
        return set()
    mine = spec.topics if spec.topic_pattern is None else ports.source.topics((), spec.topic_pattern)
    return unseen & {item.topic_id for item in existing_topics(ports.source, mine)[0].values()}


def _owned(ports: Ports, spec: PipelineSpec, table: str, *, head: TableHead, seen: set[str]) -> dict[str, str]:
    """Return the topics of ours, each with the id of the ledger that owns it; refuse those of others."""
    unseen = _owned_without_receipts(ports, spec, head, seen)
    mine = {topic_id: head.owners.get(topic_id, (NO_LEDGER, ""))[0] for topic_id in seen | unseen}
    _refuse_others_topics(ports, table, spec.name, head=head, topic_ids=mine.keys())
    return mine


def _move_main(
    ports: Ports, spec: PipelineSpec, table: str, *, token: Token, seen: set[str], theirs: set[str]
) -> tuple[TableHead, dict[str, str]]:
    """Commit the rebuild's token and the ownership of its topics; after an unknown answer the table is searched.

    The pipeline's topics are read from the very head that is moved: a topic that a planner with the old ledger has
    claimed meanwhile changes its owner too. The commit drops staging branches, but for those of others (`theirs`, by
    their receipts): no attempt of the old ledger can publish, whatever main is set to later. Returns the head and those
    topics, each with the id of the ledger that owned it until then; without topics nothing is moved.
    """
    lake = ports.lake.table(table)
    mine: dict[str, str] = {}

    def check(head: TableHead) -> FenceCommit | None:
        nonlocal mine
        mine = _owned(ports, spec, table, head=head, seen=seen)
        if not mine:
            return None
        return FenceCommit(owned=mine, ended=_ended(ports, spec.name, lake, theirs))

    unmoved = UnknownOutcomeError(
        f"main of {table} could not be moved, so an earlier publisher may still succeed: repeat the rebuild",
        table=table,
    )
    return move_main(ports, lake, token, check, unmoved=unmoved).head, mine


def _ended(ports: Ports, pipeline: str, lake: LakeTable, theirs: set[str]) -> set[str]:
    """Return the attempts that a rebuild ends: the pipeline's, and the ones that neither ledger nor receipts know."""
    branches = set(lake.branches())
    mine = {item.attempt for item in ports.ledger.attempts(pipeline=pipeline)}
    return branches - ((theirs | ports.ledger.standing(branches).keys()) - mine)


def _refuse_others_topics(
    ports: Ports, table: str, pipeline: str, *, head: TableHead, topic_ids: AbstractSet[str]
) -> None:
    for topic_id in sorted(topic_ids & head.owners.keys()):
        owner = head.owners[topic_id][1]
        if owner != pipeline:
            raise OwnershipError(
                f"{topic_named(ports, topic_id, owner, pipeline)} in table {table} belongs to pipeline {owner}: "
                f"pipeline {pipeline} has nothing to rebuild there. Name another table",
                table=table,
                owner=owner,
            )


def _refuse(pipeline: str, comparison: LakeComparison, accept_rollback: bool) -> None:
    if comparison.contradictions:
        raise IdentityError(
            f"the lake contradicts the receipts of pipeline {pipeline}: "
            f"{some(comparison.contradictions, NAMED, by='; ')}. "
            "Nothing was restored. Restore the table, or delete the rows named here (by kafka_topic_id, "
            "kafka_partition, offsets and ingest_attempt), then rebuild again",
            differences=[item.to_json() for item in comparison.contradictions],
        )
    if comparison.vanished and not accept_rollback:
        raise IdentityError(
            f"the lake was rolled back: {some(comparison.vanished, NAMED, by='; ')}. Nothing was restored. Restore the "
            "table's newest snapshot, or have exactly these ranges read again with: "
            f"{remedies.rebuild(pipeline, accept_rollback=True)}",
            differences=[item.to_json() for item in comparison.vanished],
        )
