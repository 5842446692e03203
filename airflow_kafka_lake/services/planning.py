"""Plan: observe, gather, let `core/planning` decide, record. A dry run is the same without the last step (law L16)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from airflow_kafka_lake.core import ddl
from airflow_kafka_lake.core.amounts import FEW
from airflow_kafka_lake.core.decoding import Format, column_of
from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    DamagedTableError,
    IdentityError,
    KafkaLakeError,
    LedgerBehindError,
    OwnershipError,
    PausedError,
    PendingCommitError,
    PipelineFileError,
    RefusedError,
    SchemaMismatchError,
    UnavailableError,
    UnknownPartitionError,
    UnknownSubjectError,
    UnknownTopicError,
    UsageError,
    unknown_topic,
)
from airflow_kafka_lake.core.kafka.losses import leader_epochs
from airflow_kafka_lake.core.kafka.snapshots import (
    LEFT_OUT,
    OBSERVED,
    OpenTransaction,
    PartitionSnapshot,
    Sample,
    Snapshot,
    UnknownPartition,
    oldest,
)
from airflow_kafka_lake.core.ledger.decisions import RecordLine
from airflow_kafka_lake.core.ledger.guards import refuse_paused
from airflow_kafka_lake.core.ledger.plans import RecordPlan, SavePipeline
from airflow_kafka_lake.core.ledger.waves import OVER, TROUBLE
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.ordering.segments import Graph
from airflow_kafka_lake.core.planning.costs import (
    NOT_ASKED,
    Deadline,
    deadline,
    first_records,
    forecast,
    heaviest,
    spread,
    undated,
)
from airflow_kafka_lake.core.planning.decision import (
    Declare,
    Demand,
    Observation,
    PlanFacts,
    behind_the_end,
    blocked_topics,
    decide,
    doubtful_heads,
    elsewhere,
    ends_of,
    left_behind,
    notes,
    nothing_lands,
    nothing_lies,
    refuse_another_cluster,
    start_group,
    start_offsets,
    want,
)
from airflow_kafka_lake.core.planning.plan import Plan
from airflow_kafka_lake.core.planning.policies import Bounds, Times, deleted_unread, times_needed
from airflow_kafka_lake.core.reports.plan import plan_document
from airflow_kafka_lake.core.spark.job import OWN_COLUMNS, effort
from airflow_kafka_lake.core.spec import RECEIPTS_SUFFIX, PipelineSpec, topic_matcher
from airflow_kafka_lake.ports import OffsetSource, Ports
from airflow_kafka_lake.services.advance import flush, landed_in
from airflow_kafka_lake.services.claims import host_clock, new_id
from airflow_kafka_lake.services.identity import Problems, ask_about, check_table, moved, register_owner

# Observe topics and tables for a plan, and leave out the blocked ones (law L13).

MAX_TABLE_NAME = 128
_OF_ONE_TABLE = (DamagedTableError, IdentityError, OwnershipError, SchemaMismatchError)
"""Errors of one table alone; a ledger that is behind is behind for all tables."""


def observe(ports: Ports, spec: PipelineSpec, bounds: Bounds) -> Observation:
    """Read Kafka, then the ledger: a plan that another planner overtakes is refused when it is recorded."""
    ports.progress(f"observing {spec.name}")
    topics, problems = topics_of(ports, spec, bounds)
    seen = ports.source.snapshot(topics, spec.end.group or spec.start.group)
    known = {stream.key: stream for stream in ports.ledger.streams(spec.name)}
    snapshot = _with_left_out(seen, known)
    return Observation(
        snapshot=snapshot, selected=_selected(snapshot, bounds), known=known, blocked=blocked_topics(problems)
    )


def check_asked(ports: Ports, spec: PipelineSpec, bounds: Bounds) -> None:
    """Refuse a topic or a partition that is not there, by Kafka's list of partitions alone: before a plan is begun."""
    topics, _ = topics_of(ports, spec, bounds)
    if bounds.partitions is not None:
        counts = {item.topic: item.partitions for item in ports.source.describe(topics)}
        _refuse_unknown(bounds.partitions, counts, range(max(counts.values(), default=0)))


def check_tables(ports: Ports, spec: PipelineSpec, seen: Observation) -> Observation:
    """Check the tables of the observed topics, and leave out the topics of tables with an error.

    Raises that error when no other table is left.
    """
    problems: Problems = {}
    for table, topic_ids in spec.tables_of(item.stream for item in seen.selected).items():
        try:
            check_table(ports, spec.name, table, topic_ids)
        except _OF_ONE_TABLE as error:
            problems |= {
                item.stream.topic: error for item in seen.selected if spec.table_for(item.stream.topic) == table
            }
    return seen.without(problems)


def topics_of(ports: Ports, spec: PipelineSpec, bounds: Bounds) -> tuple[tuple[str, ...], Problems]:
    """Return the topics that a plan reads, and why it leaves others out; raises the reason when no topic is left."""
    wanted = spec.topics if spec.topic_pattern is None else _matching(ports, spec.name, spec.topic_pattern)
    if bounds.topic is not None:
        if bounds.topic not in wanted:
            raise unknown_topic(spec.name, bounds.topic, wanted)
        wanted = {bounds.topic}
    found, problems = ask_about(lambda names: ports.source.topics(names, None), wanted)
    for topic in found:
        table = spec.table_for(topic)
        if table.lower().endswith(RECEIPTS_SUFFIX) or max(map(len, table.split("."))) > MAX_TABLE_NAME:
            problems[topic] = PipelineFileError(
                f"it would land in table {table}, which is too long, or the receipts table of another topic. Leave it "
                "out, or give it a pipeline with a table of its own",
                topic=topic,
            )
    topics = tuple(sorted(set(found) - problems.keys()))
    if problems and not topics:
        raise next(iter(problems.values()))
    if not topics:
        raise UnknownTopicError(f"no topic matches {spec.topic_pattern!r} of pipeline {spec.name}")
    return topics, problems if spec.topic_pattern is None else _without_finished(ports, spec.name, problems)


def _without_finished(ports: Ports, pipeline: str, problems: Problems) -> Problems:
    """Leave out the topics that are there no more and were read to the end that was seen: a pattern means them no
    longer. One of which records were seen and not read stays a problem: they are lost."""
    graph = Graph(ports.ledger.segments(pipeline))
    found: Problems = {}
    for topic, error in problems.items():
        if not isinstance(error, UnknownTopicError):
            found[topic] = error
        elif unread := deleted_unread(pipeline, topic, ports.ledger.streams(pipeline, topic=topic), graph):
            found[topic] = unread
    return found


def _matching(ports: Ports, pipeline: str, pattern: str) -> Collection[str]:
    """Return the topics that match: those in Kafka's list, and known ones, which the list may lack."""
    matches = topic_matcher(pattern)
    known = {item.key.topic for item in ports.ledger.streams(pipeline) if matches(item.key.topic)}
    return known | set(ports.source.topics((), pattern))


def _with_left_out(seen: Snapshot, known: Collection[Stream]) -> Snapshot:
    """Count known partitions that an answer leaves out as unknown: the broker that answered is behind.

    A topic never has fewer partitions under the same id.
    """
    streams = [item.stream for item in seen.partitions]
    everything: tuple[Stream | UnknownPartition, ...] = (*streams, *seen.unknown)
    ids = {(item.topic, item.topic_id) for item in everything}
    answered = {(item.topic, item.partition) for item in everything}
    left_out = tuple(
        UnknownPartition(topic=topic, topic_id=topic_id, partition=partition, reason=LEFT_OUT)
        for topic, topic_id, partition in sorted(known)
        if (topic, topic_id) in ids and (topic, partition) not in answered
    )
    return replace(seen, unknown=seen.unknown + left_out) if left_out else seen


def _selected(snapshot: Snapshot, bounds: Bounds) -> tuple[PartitionSnapshot, ...]:
    if bounds.partitions is None:
        return snapshot.partitions
    there = {item.stream.partition for item in snapshot.partitions} | {item.partition for item in snapshot.unknown}
    _refuse_unknown(bounds.partitions, {item.stream.topic for item in snapshot.partitions}, there)
    return tuple(item for item in snapshot.partitions if item.stream.partition in bounds.partitions)


def _refuse_unknown(partitions: Iterable[int], topics: Iterable[str], there: Collection[int]) -> None:
    for partition in partitions:
        if partition not in there:
            raise UnknownPartitionError(
                f"{', '.join(sorted(topics))} has no partition {partition}: it has 0 to {max(there, default=0)}",
                partition=partition,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """A plan and whether it was recorded (not for a dry run, and not when it changes nothing)."""

    plan: Plan
    recorded: bool

    def to_json(self) -> dict[str, Any]:
        """Return `plan --json`."""
        return plan_document(self.plan, recorded=self.recorded)


PLAN_TRIES = 12
"""How often a plan is made while other planners are first: as many runs as a backfill has at once by itself (10), each
of which is first once, the run that follows the pipeline, and its own turn."""

LOOKS = 3


def plan_after_others(
    ports: Ports,
    spec: PipelineSpec,
    bounds: Bounds,
    *,
    dry_run: bool = False,
    timeout: timedelta = timedelta(0),
    reason: str | None = None,
) -> PlanResult:
    """Plan; after another planner again, for the offsets that it has not seen or was not asked for.

    Each time one of the others has recorded its plan, so that they become fewer. Why no plan without bounds succeeds
    stays in the history until one does: a run that ends before it has a wave leaves no other trace. Raises as `plan`
    does, ConcurrentError when others were first each time.
    """
    for left in reversed(range(PLAN_TRIES)):
        try:
            made = plan(ports, spec, bounds, plan_id=new_id(), dry_run=dry_run, timeout=timeout, reason=reason)
        except ConcurrentError as error:
            if not left:
                raise
            ports.progress(f"planning again after another planner: {error.fault}")
        except KafkaLakeError as error:
            if not dry_run and bounds == Bounds() and not isinstance(error, (PausedError, LedgerBehindError)):
                _tell_trouble(ports, spec.name, type(error).__name__, error.message)
            raise
        else:
            if not dry_run:
                _tell_trouble(ports, spec.name, OVER, "a plan succeeds again")
            return made
    raise AssertionError("unreachable: the last try returns or raises")


def _tell_trouble(ports: Ports, pipeline: str, subject: str, detail: str) -> None:
    """Write why no plan succeeds, or that one does, where the history does not end with it."""
    with suppress(KafkaLakeError):
        last = ports.ledger.events(pipeline, kind=TROUBLE, limit=1, newest=True)
        if (last[0].subject, last[0].detail) != (subject, detail) if last else subject != OVER:
            line = RecordLine(pipeline=pipeline, kind=TROUBLE, subject=subject, detail=detail, actor=ports.actor)
            ports.ledger.commit(line)


def plan(
    ports: Ports,
    spec: PipelineSpec,
    bounds: Bounds,
    *,
    plan_id: str,
    dry_run: bool = False,
    timeout: timedelta = timedelta(0),
    reason: str | None = None,
) -> PlanResult:
    """Decide the next plan and record it; wait at most `timeout` for group offsets that are not stable.

    `reason` is why a person asks for it; it is kept with the plan.

    Raises PendingCommitError when they stay so, a leaf of RefusedError for bounds that cannot be met (nothing is
    changed), PausedError while the pipeline is paused (not for a dry run), ConcurrentError when another planner was
    first, UnavailableError when Kafka, ledger or catalog is out of reach.
    """
    check_bounds(bounds)
    if not dry_run and (known := ports.ledger.pipeline(spec.name)):
        refuse_paused(known.pauses)  # before anything is asked or created; the ledger refuses to record it anyway

    def checked(seen: Observation) -> Observation:
        _prepare(ports, spec, seen.arrived(spec, bounds))
        return check_tables(ports, spec, seen)

    def gather_and_decide() -> tuple[PlanFacts, Plan]:
        facts = observe_and_gather(ports, spec, bounds, checked, plan_id=plan_id)
        refuse_another_cluster(facts)
        decided = plan_from(ports, facts)
        _prepare(ports, spec, sum(item.range.span for item in decided.ranges))
        return facts, decided

    facts, decided = once_stable(ports, gather_and_decide, timeout)
    transactions, transactions_state = open_transactions(ports.source, decided.waiting_for_stable)
    decided = replace(
        decided,
        forecast=forecast(decided, facts.costs, _deadline(ports, decided) if dry_run else NOT_ASKED),
        transactions=transactions,
        transactions_state=transactions_state,
        hanging=hanging(decided, transactions, bounds),
        blocked=(*decided.blocked, *(misplaced := nothing_lands(facts, decided))),
        notes=(
            *notes(facts, decided),
            *left_behind(facts, _sampled(ports, spec, behind_the_end(facts, decided.streams))),
            *_undecoded(ports, decided),
        ),
    )
    if not dry_run and decided.changes_nothing and facts.seen.known and not misplaced:
        ports.ledger.commit(SavePipeline(spec=spec))  # earlier plans are decoded as the file says now
    if dry_run and facts.seen.selected:
        _look(ports, spec.table_for(facts.seen.selected[0].stream.topic))
    if dry_run or decided.changes_nothing:
        return PlanResult(plan=decided, recorded=False)
    record(ports, decided, facts.seen, reason)
    return PlanResult(plan=decided, recorded=True)


def unfit_columns(ports: Ports, spec: PipelineSpec, table: str) -> str:
    """Return why the columns that the pipeline file names cannot be a table's, or nothing: of schemas in a registry the
    job says it."""
    asked = spec.decoding
    if asked is None or asked.format.is_registered:
        return ""
    named = ddl.types(asked.schema or "") if asked.format is Format.JSON else {asked.column: "string"}
    wanted = ddl.struct({column_of(name, OWN_COLUMNS): kind for name, kind in named.items()})
    try:
        ddl.changes(ports.lake.table(table).head().columns, wanted, "the schema of the pipeline file")
    except UnknownSubjectError:
        return ""  # the first plan creates it
    except RefusedError as error:
        return error.message
    return ""


def _undecoded(ports: Ports, decided: Plan) -> Iterator[str]:
    for table in sorted(decided.spec.tables_of(item.snapshot.stream for item in decided.streams)):
        if why := unfit_columns(ports, decided.spec, table):
            yield f"values land in {table} as bytes alone, they are not decoded: {why}"


def _look(ports: Ports, table: str) -> None:
    """Look whether a run could reach the lake, and write there: one table's place stands for all of them."""
    place = ports.lake.look(table)
    ports.progress(
        f"the catalog answers; whether files may be written is known when table {table} is there"
        if place is None
        else f"catalog and store answer: a file was written in {place}"
    )


def record(ports: Ports, decided: Plan, seen: Observation, reason: str | None = None) -> None:
    """Record a plan, after its tables are there and ours."""
    spec = decided.spec
    ports.ledger.commit(SavePipeline(spec=spec))
    for table, topic_ids in spec.tables_of(item.stream for item in seen.selected).items():
        register_owner(ports, spec.name, table, partition_by=spec.partition_by, topic_ids=topic_ids)
    ports.ledger.commit(RecordPlan(plan=decided, actor=ports.actor, clock=host_clock(ports), reason=reason))
    if any(stream.version is None for stream in decided.streams):
        flush(ports, spec.name)  # their origins, before the first of their rows is there


def check_bounds(bounds: Bounds) -> None:
    """Refuse bounds that no partition could meet, before Kafka or the ledger is asked."""
    if bounds.partitions is not None and not bounds.partitions:
        raise UsageError("no partition was named: give at least one, or leave partitions out for all of them")
    start, end = bounds.start, bounds.end
    if isinstance(start, int) and isinstance(end, int) and start >= end:
        raise UsageError(f"from {start} is not before to {end}: a range is [from, to)")
    if isinstance(start, datetime) and isinstance(end, datetime) and start >= end:
        raise UsageError(f"from {start.isoformat()} is not before to {end.isoformat()}: a period is [from, to)")


def observe_and_gather(
    ports: Ports,
    spec: PipelineSpec,
    bounds: Bounds,
    check: Callable[[Observation], Observation] = lambda seen: seen,
    *,
    plan_id: str,
) -> PlanFacts:
    """Observe and gather; once more where retention went on between the log starts and the offsets by time: an hour
    whose records it took in between would look like one that never had any.

    Raises UnavailableError where it goes on each time.
    """
    for left in reversed(range(LOOKS)):
        facts = _gather(ports, spec, bounds, check(observe(ports, spec, bounds)), plan_id=plan_id)
        starts = {item.stream: item.log_start for item in facts.seen.selected}
        if not facts.times.answers or not (gone := moved(ports, starts)):
            return facts
        named = ", ".join(map(str, gone[:FEW]))
        message = f"Kafka deleted records of {named} while the offsets of times were asked for"
        if left:
            ports.progress(f"{message}: observing again")
    raise UnavailableError(f"{message}. Nothing was planned; repeat when it has deleted what its retention asks for")


def _gather(ports: Ports, spec: PipelineSpec, bounds: Bounds, seen: Observation, *, plan_id: str) -> PlanFacts:
    """Ask Kafka and the ledger the questions that the observed partitions leave open."""
    group, doubts = start_group(spec, seen), seen.epochs_in_doubt
    times = _times(ports, spec, bounds, seen)
    topics = sorted({item.stream.topic for item in seen.new})
    selected = {item.stream.topic for item in seen.selected}
    before = ports.ledger.pipeline(spec.name)
    landed = landed_in(ports.ledger, spec, before, selected | {stream.topic for stream in seen.known})
    return PlanFacts(
        plan_id=plan_id,
        spec=spec,
        bounds=bounds,
        seen=seen,
        times=times,
        starts=start_offsets(seen, ports.source.snapshot(topics, group).partitions) if group else {},
        ends=ports.source.epoch_ends(doubts, leader_epochs(seen.snapshot.partitions)) if doubts else {},
        graph=Graph(ports.ledger.segments(spec.name)),
        layouts=ports.ledger.layouts(spec.name),
        costs=ports.ledger.throughput(spec.name),
        before=before,
        elsewhere=elsewhere(spec, selected, landed),
    )


def _times(ports: Ports, spec: PipelineSpec, bounds: Bounds, seen: Observation) -> Times:
    partitions = [item.stream.place for item in seen.selected]
    needed = times_needed(spec, bounds, new=bool(seen.new))
    times = Times({at: ports.source.offsets_at(partitions, at) for at in needed})
    samples = _sampled(ports, spec, doubtful_heads(spec, bounds, seen, times))
    firsts = {s.stream.place: s.first_timestamp_ms for s in samples}
    return Times(times.answers, {key: first for key, first in firsts.items() if first is not None})


def plan_from(ports: Ports, facts: PlanFacts, declare: Declare | None = None) -> Plan:
    """Decide a plan, and sample its records, to weigh it.

    Raises EmptyPeriodError for a period that holds nothing, RefusedError where its records lie behind the end that
    Kafka has found.
    """
    wanted = want(facts)
    if (period := wanted.period) and period.landed_below and not period.offsets:
        wanted = replace(wanted, period=replace(period, deleted_rows=_deleted_rows(ports, facts, wanted)))
    if wanted.holds_nothing:
        if behind := next(left_behind(facts, _sampled(ports, facts.spec, behind_the_end(facts, wanted.asked))), None):
            raise RefusedError(f"{behind}. Nothing was planned", pipeline=facts.spec.name)
        raise nothing_lies(facts, wanted.asked, _sampled(ports, facts.spec, ends_of(facts, wanted.asked)))
    return decide(facts, wanted, _sampled(ports, facts.spec, spread(heaviest(wanted.slices))), declare)


def _deleted_rows(ports: Ports, facts: PlanFacts, wanted: Demand) -> int:
    """Count the rows in a period by time that all tables of a pipeline have of offsets that Kafka has deleted."""
    gone = [item.snapshot for item in wanted.asked if item.landed_below]
    slices = [Slice(item.stream, OffsetRange(0, item.log_start)) for item in gone]
    start, end = (at if isinstance(at, datetime) else _NEVER for at in (facts.bounds.start, facts.bounds.end))
    tables = map(ports.lake.table, facts.before.tables if facts.before else ())
    return sum(sum(each.rows_between(slices, start=start, end=end, by=_DAY).values()) for each in tables)


def _prepare(ports: Ports, spec: PipelineSpec, offsets: int) -> None:
    """Have the jobs' driver start while the plan is made."""
    if offsets:
        ports.prepare(effort(offsets, is_decoded=spec.decoding is not None))


def _sampled(ports: Ports, spec: PipelineSpec, slices: Sequence[Slice]) -> Sequence[Sample]:
    return ports.source.sample(slices, spec.isolation) if slices else ()


def _deadline(ports: Ports, plan: Plan) -> Deadline:
    topics = ports.source.describe(sorted({item.stream.topic for item in plan.ranges})) if plan.waves else ()
    firsts = first_records(plan, topics)
    return undated(topics, firsts) or deadline(topics, firsts, _sampled(ports, plan.spec, heaviest(firsts)))


T = TypeVar("T")
_DAY, _NEVER = timedelta(days=1), datetime.max.replace(tzinfo=UTC)
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 15.0


def open_transactions(
    source: OffsetSource, waiting: Iterable[PartitionSnapshot]
) -> tuple[tuple[OpenTransaction, ...], str]:
    """Return, for each waiting partition, the open transaction that it waits for; and `observed`, or why none is known.

    It is shown with a plan and is no part of its decision.
    """
    keys = [item.stream.place for item in waiting]
    try:
        return oldest(source.transactions(keys, None)) if keys else (), OBSERVED
    except KafkaLakeError as error:
        return (), f"unknown: {error.message}"


def hanging(plan: Plan, transactions: Iterable[OpenTransaction], bounds: Bounds) -> tuple[OpenTransaction, ...]:
    """Return the transactions that no producer will end, and that the plan ends before."""
    if bounds.end is not None:  # a period that reaches beyond the stable end is refused
        return ()
    reached = {item.snapshot.stream.place for item in plan.streams if item.end >= item.snapshot.last_stable}
    return tuple(
        item for item in transactions if item.hangs(plan.observed_at) and (item.topic, item.partition) in reached
    )


def once_stable(ports: Ports, decide: Callable[[], T], timeout: timedelta) -> T:
    """Decide again while a group's commits are pending, until they have ended or the time is over.

    Raises PendingCommitError, which names the partitions and the transactions that they wait for.
    """
    until, pause = ports.clock.monotonic() + timeout.total_seconds(), _FIRST_PAUSE_SECONDS
    while True:
        try:
            return decide()
        except PendingCommitError as pending:
            if ports.clock.monotonic() >= until:
                raise _named(ports, pending) from None
            ports.progress(f"waiting: {pending.message}")
        ports.clock.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _named(ports: Ports, pending: PendingCommitError) -> PendingCommitError:
    try:
        found = ports.source.transactions([], str(pending.facts["group"]))
    except KafkaLakeError as error:
        ports.progress(f"which transactions are open is not known: {error.message}")
        found = ()
    now = ports.clock.now()
    # The partition of group commits is shared: the transactions may be other groups'.
    named = "; ".join(item.describe(now) for item in found)
    where = f". Open where the group's commits are written: {named}" if named else ""
    facts = {**pending.facts, "transactions": [item.to_json(now) for item in found]}
    return PendingCommitError(f"{pending.message}{where}", **facts)
