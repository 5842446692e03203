"""From the facts of a plan to the demand of each stream and to the plan; the effects of a changed pipeline file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from airflow_kafka_lake.core.amounts import FEW, count
from airflow_kafka_lake.core.errors import (
    EmptyPeriodError,
    GroupOffsetError,
    IdentityError,
    KafkaLakeError,
    PendingCommitError,
    RangeExpiredError,
)
from airflow_kafka_lake.core.kafka.losses import EpochEnds, EpochKey, epochs_in_doubt
from airflow_kafka_lake.core.kafka.snapshots import (
    GroupOffsetState,
    PartitionSnapshot,
    Sample,
    Snapshot,
    UnknownPartition,
    waiting_for_stable,
)
from airflow_kafka_lake.core.ledger.records import PipelineRecord, StreamRecord
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream, grouped, merged, summed
from airflow_kafka_lake.core.ordering.layouts import (
    KnownLayouts,
    Layout,
    LayoutChange,
    LayoutPlan,
    ObservedTopic,
    apply_layout_change,
    check_seals,
    evolve,
    topics_seen,
)
from airflow_kafka_lake.core.ordering.segments import Graph
from airflow_kafka_lake.core.planning.costs import WaveCost, to_read, weights
from airflow_kafka_lake.core.planning.plan import Elsewhere, Period, Plan, PlanBlock, StreamDemand, build_plan
from airflow_kafka_lake.core.planning.policies import (
    Bounds,
    Times,
    asked_of,
    generation_gap,
    gone_in_doubt,
    start_in_doubt,
    together,
)
from airflow_kafka_lake.core.spec import PipelineSpec, PolicyKind
from airflow_kafka_lake.core.wire import instant, milliseconds, timestamp

# The facts that a plan is decided from: observations, and answers to questions they left open; a service gathers them.

SAMPLED = 8
"""Partitions whose first and last records are read to learn which records Kafka no longer has, or for a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The observations of a plan: Kafka's partitions, the ones asked about, the streams on record, and the topics that
    are left out."""

    snapshot: Snapshot
    selected: tuple[PartitionSnapshot, ...]
    known: Mapping[Stream, StreamRecord]
    blocked: tuple[PlanBlock, ...] = ()

    @property
    def new(self) -> tuple[PartitionSnapshot, ...]:
        """The selected partitions that the ledger knows nothing of."""
        return tuple(item for item in self.selected if item.stream not in self.known)

    def arrived(self, spec: PipelineSpec, bounds: Bounds) -> int:
        """Return how many offsets have arrived since the newest plan, if the next one reads all of them: else 0."""
        if bounds.is_period or (spec.start.kind, spec.end.kind) != (PolicyKind.EARLIEST, PolicyKind.LATEST):
            return 0
        planned = {stream: record.end_seen for stream, record in self.known.items()}
        return sum(
            max(0, item.readable_end(spec.isolation) - planned.get(item.stream, item.log_start))
            for item in self.selected
        )

    @property
    def epochs_in_doubt(self) -> tuple[EpochKey, ...]:
        """The leader epochs under which streams were planned that are not the partitions' any more."""
        known = ((item, self.known.get(item.stream)) for item in self.selected)
        return epochs_in_doubt((item, record.leader_epoch) for item, record in known if record)

    def without(self, problems: Mapping[str, KafkaLakeError]) -> Observation:
        """Leave topics out of the plan; raises the problem when none is left."""
        topics = {item.stream.topic for item in self.selected} - problems.keys()
        if problems and not topics:
            raise next(iter(problems.values()))
        return replace(
            self,
            snapshot=replace(
                self.snapshot,
                partitions=tuple(item for item in self.snapshot.partitions if item.stream.topic not in problems),
                unknown=tuple(item for item in self.snapshot.unknown if item.topic not in problems),
            ),
            selected=tuple(item for item in self.selected if item.stream.topic not in problems),
            blocked=self.blocked + blocked_topics(problems),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFacts:
    """All that a plan is decided from, but for the weight of its records.

    `starts` has the start policy's group offsets of new streams where another group rules the end; `ends` has where
    leader epochs in doubt ended; `costs` are those of the last waves; `before` is the pipeline as it is on record, and
    `elsewhere` the ranges committed in other tables than its file names now.
    """

    plan_id: str
    spec: PipelineSpec
    bounds: Bounds
    seen: Observation
    times: Times
    starts: Mapping[Stream, PartitionSnapshot]
    ends: EpochEnds
    graph: Graph
    layouts: Sequence[Layout]
    costs: Sequence[WaveCost]
    before: PipelineRecord | None = None
    elsewhere: Sequence[Elsewhere] = ()

    @property
    def recorded(self) -> KnownLayouts:
        """The ledger's streams, segments and layouts."""
        return KnownLayouts(streams=self.seen.known, graph=self.graph, layouts=self.layouts)

    @property
    def sizes(self) -> dict[str, int]:
        """How many partitions each topic has."""
        there = [item.stream.place for item in self.seen.snapshot.partitions]
        there += [(item.topic, item.partition) for item in self.seen.snapshot.unknown]
        return {topic: partition + 1 for topic, partition in sorted(there)}


# The next questions, from the facts so far.


def doubtful_heads(spec: PipelineSpec, bounds: Bounds, seen: Observation, times: Times) -> list[Slice]:
    """Return where to read first records: of partitions that may have lost the begin of the period, or of their
    slice."""
    doubts = [
        item
        for item in seen.selected
        if gone_in_doubt(bounds, item, seen.known.get(item.stream), times)
        or (item.stream not in seen.known and start_in_doubt(spec, item, times))
    ]
    return [head for item in doubts[:SAMPLED] if (head := item.readable(spec.isolation))]


def start_group(spec: PipelineSpec, seen: Observation) -> str | None:
    """Return the start policy's group where it is another one than the end policy's, for new streams only."""
    needed = spec.start.kind is PolicyKind.GROUP and spec.end.group not in (None, spec.start.group)
    return spec.start.group if needed and seen.new else None


def start_offsets(seen: Observation, answer: Iterable[PartitionSnapshot]) -> dict[Stream, PartitionSnapshot]:
    """Return new streams with the start policy's group offsets.

    A partition that is not in the answer has an offset that is not known: the other group's is none of its own.
    """
    unknown = {
        item.stream: replace(item, group_offset=None, group_offset_state=GroupOffsetState.UNKNOWN) for item in seen.new
    }
    return unknown | {item.stream: item for item in answer}


def blocked_topics(problems: Mapping[str, KafkaLakeError]) -> tuple[PlanBlock, ...]:
    """Return the problems that leave whole topics out of a plan."""
    return tuple(PlanBlock(topic=topic, partition=None, reason=error.message) for topic, error in problems.items())


# The generations of topics that are on record, gone through once for all partitions of a plan.


@dataclass(frozen=True, slots=True, kw_only=True)
class Generations:
    """`older` are the streams of older generations, by topic and the partition that judges them: their own, and of one
    that the topic has no longer another. `at_first` is how many partitions each `(topic, topic_id)` on record had when
    it was first planned."""

    older: Mapping[tuple[str, int], Sequence[StreamRecord]]
    at_first: Mapping[tuple[str, str], int]

    @classmethod
    def of(cls, facts: PlanFacts) -> Generations:
        """Return the generations of the topics that were observed."""
        sizes, ids = facts.sizes, {item.stream.topic: item.stream.topic_id for item in facts.seen.selected}
        older = grouped(
            ((key.topic, key.partition % sizes[key.topic]), stream)
            for key, stream in facts.seen.known.items()
            if ids.get(key.topic, key.topic_id) != key.topic_id
        )
        known = merged(max, ((key[:2], key.partition + 1) for key in facts.seen.known))
        seen = merged(min, ((layout.topic_id, layout.partitions) for layout in facts.layouts))
        at_first = {generation: seen.get(generation[1], partitions) for generation, partitions in known.items()}
        return cls(older=older, at_first=at_first)


# How much lies in a period that is asked for, and the refusal of one that holds nothing.

NOT_KNOWN = "a time that is not known"
_TAIL = 10
"""Offsets at a log's end that are searched for a record: the last ones may be transaction markers."""


def period_of(
    bounds: Bounds, asked: Iterable[StreamDemand], known: Mapping[Stream, StreamRecord], times: Times
) -> Period | None:
    """Return the content of the period, None where none was asked for."""
    if not bounds.is_period:
        return None
    asked = tuple(asked)
    offsets = landed = planned = 0
    for item in asked:
        if item.start < item.end:
            interval, record = OffsetRange(item.start, item.end), known.get(item.snapshot.stream)
            offsets += interval.span
            landed += record.covered.within(interval).span if record else 0
            planned += (record.planned - record.covered).within(interval).span if record else 0
    until = bounds.end if isinstance(bounds.end, datetime) else None
    unended = [item.snapshot for item in asked if until and times.found(milliseconds(until), item.snapshot) is None]
    return Period(
        offsets=offsets,
        landed=landed,
        planned=planned,
        landed_below=any(item.landed_below for item in asked),
        by_time=isinstance(bounds.start, datetime) or until is not None,
        until=until,
        unended=tuple(item.stream for item in unended),
        without=tuple(
            i.snapshot.stream for i in asked if i.start >= i.end and i.snapshot.log_start < i.snapshot.high_watermark
        ),
    )


def ends_of(facts: PlanFacts, asked: Sequence[StreamDemand]) -> list[Slice]:
    """Return where records are sampled to say which times Kafka has: both ends of the largest partitions."""
    wholes = [whole for item in _largest(asked) if (whole := item.readable(facts.spec.isolation))]
    edges = ((item, max(item.range.start, item.range.end - _TAIL), item.range.end) for item in wholes)
    return [*wholes, *(item.part(OffsetRange(start, end)) for item, start, end in edges)]


def _largest(asked: Sequence[StreamDemand]) -> list[PartitionSnapshot]:
    return sorted((item.snapshot for item in asked), key=lambda item: item.log_start - item.high_watermark)[:SAMPLED]


def nothing_lies(facts: PlanFacts, asked: Sequence[StreamDemand], samples: Sequence[Sample]) -> EmptyPeriodError:
    """Return the refusal of a period in which nothing lies: it names the times that Kafka has instead."""
    spec, bounds, largest = facts.spec, facts.bounds, _largest(asked)
    earliest, newest = _times([part for item in largest if (part := item.readable(spec.isolation))], samples)
    whose = "Kafka's records" if len(largest) == len(asked) else f"records of the {len(largest)} largest partitions"
    has = (
        [f"{whose} go from {earliest or NOT_KNOWN} to {newest or NOT_KNOWN} in the order of offsets"]
        if earliest or newest
        else []
    )
    has += [
        f"{item.stream} has offsets {item.log_start}-{item.readable_end(spec.isolation)}"
        if item.log_start < item.readable_end(spec.isolation)
        else f"{item.stream} has none"
        for item in sorted(largest[:FEW], key=lambda item: item.stream)
    ]
    if any(item.landed_below for item in asked):
        has += ["no row of the deleted offsets is of that time"]
    has += [f"{count(len(asked) - FEW, 'more partition')} not shown"] if len(asked) > FEW else []
    if any(isinstance(at, datetime) for at in (bounds.start, bounds.end)):
        has += ["Kafka finds a time by the first offset that is as late, be it a marker of a transaction"]
    open_ = [
        f"{item.stream} is stable to {item.last_stable} of {item.high_watermark}: a transaction is open"
        for item in waiting_for_stable(largest, spec.isolation)
    ]
    start, end = (timestamp(at) if isinstance(at, datetime) else at for at in (bounds.start, bounds.end))
    period = f"from {'the origin' if start is None else start} to {'the end policy' if end is None else end}"
    return EmptyPeriodError(
        f"nothing lies in the period {period} of pipeline {spec.name}: {'; '.join((*has, *open_))}. Correct "
        "the period, or leave it out to read what is missing",
        pipeline=spec.name,
        earliest=earliest,
        newest=newest,
    )


def _times(wholes: Sequence[Slice], samples: Sequence[Sample]) -> tuple[str | None, str | None]:
    """Return the earliest and the newest time of some partitions; None unless that end of each of them was read."""
    firsts = {(s.stream, s.read.start): s.first_timestamp_ms for s in samples if s.read}
    lasts = {(s.stream, s.read.end): s.last_timestamp_ms for s in samples if s.read}
    earliest = [at for item in wholes if (at := firsts.get((item.stream, item.range.start))) is not None]
    newest = [at for item in wholes if (at := lasts.get((item.stream, item.range.end))) is not None]
    return (
        timestamp(instant(min(earliest))) if wholes and len(earliest) == len(wholes) else None,
        timestamp(instant(max(newest))) if wholes and len(newest) == len(wholes) else None,
    )


# From facts to a plan: the demand of each stream, and the plan made of it. Pure: no port is asked.

Declare = Callable[[KnownLayouts, Sequence[ObservedTopic]], LayoutChange]
"""A person's declaration about the segments that there are then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The demand of the streams, and the topics left out; `period` is None where none was asked for."""

    asked: tuple[StreamDemand, ...]
    blocked: tuple[PlanBlock, ...]
    unknown: tuple[UnknownPartition, ...]
    period: Period | None
    slices: tuple[Slice, ...]
    """The part of it that may be read."""

    @property
    def holds_nothing(self) -> bool:
        """Whether nothing lies in the period, though everything that was asked for was observed."""
        everything, period = not self.blocked and not self.unknown, self.period
        return period is not None and everything and not period.offsets and not period.deleted_rows


def want(facts: PlanFacts) -> Demand:
    """Decide the demand of each stream.

    Raises PendingCommitError where group offsets are not stable, GroupOffsetError where no stream has one that can be
    used, RefusedError leaves for bounds that cannot be met.
    """
    asked: list[StreamDemand] = []
    blocked, generations = list(facts.seen.blocked), Generations.of(facts)
    refused: list[GroupOffsetError] = []
    failed: list[KafkaLakeError] = []
    for item in facts.seen.selected:
        try:
            answer = _answer(facts, item, generations)
        except (PendingCommitError, RangeExpiredError) as error:
            failed.append(error)
        except GroupOffsetError as error:
            refused.append(error)
            blocked.append(PlanBlock.of(item.stream, error.message))
        else:
            (blocked if isinstance(answer, PlanBlock) else asked).append(answer)  # type: ignore[arg-type]
    if failed:
        raise together(failed, [item.snapshot.stream for item in asked])
    if refused and not asked:
        raise refused[0]
    partitions = facts.bounds.partitions
    unknown = (item for item in facts.seen.snapshot.unknown if partitions is None or item.partition in partitions)
    return Demand(
        asked=tuple(asked),
        blocked=tuple(blocked),
        unknown=tuple(unknown),
        period=period_of(facts.bounds, asked, facts.seen.known, facts.times),
        slices=tuple(to_read(asked, facts.seen.known)),
    )


def _answer(facts: PlanFacts, item: PartitionSnapshot, generations: Generations) -> StreamDemand | PlanBlock:
    record = facts.seen.known.get(item.stream)
    older, at_first = generations.older.get(item.stream.place, ()), generations.at_first.get(item.stream[:2])
    # One that was there and was not observed or not asked for begins where the policy says; where that is the end, the
    # end has moved since, so that only the log's begin is sure to lose nothing.
    is_latest = facts.spec.start.kind is PolicyKind.LATEST
    return generation_gap(facts.spec.name, item, record, older=older, graph=facts.graph, ends=facts.ends) or asked_of(
        facts.spec,
        facts.bounds,
        item,
        record=record,
        times=facts.times,
        start_snapshot=facts.starts.get(item.stream, item),
        expanded=at_first is not None and (item.stream.partition >= at_first or is_latest),
    )


def decide(facts: PlanFacts, wanted: Demand, samples: Iterable[Sample], declare: Declare | None = None) -> Plan:
    """Decide ranges, waves and segments; `declare` adds a person's declaration about the segments."""
    segments = _apply_layout_change(facts, wanted.asked, declare)
    waiting = segments.layout_change.waiting
    asked = [item for item in wanted.asked if item.snapshot.stream not in waiting]
    overruns = [PlanBlock.of(*overrun) for overrun in segments.layout_change.overruns]
    made = build_plan(
        facts.plan_id,
        facts.spec,
        facts.seen.snapshot.observed_at,
        asked=asked,
        known=facts.seen.known,
        weights=weights({item.stream.topic for item in wanted.slices}, samples, facts.costs),
        blocked=[*wanted.blocked, *overruns],
        unknown=wanted.unknown,
        segments=segments,
        acknowledge_order=facts.bounds.acknowledge_order,
    )
    return replace(made, period=wanted.period)


def _apply_layout_change(facts: PlanFacts, asked: Sequence[StreamDemand], declare: Declare | None) -> LayoutPlan:
    """Decide the segments of every topic that was observed."""
    known = facts.recorded
    topics = topics_seen(facts.seen.snapshot, {item.snapshot.stream for item in asked})
    layouts = grouped((item.topic, item) for item in known.layouts)
    changes = []
    for topic in topics:
        own = replace(known, layouts=layouts[topic.name])
        changes += [check_seals(facts.spec, topic, own), evolve(facts.spec, topic, own)]
    layout_change = LayoutChange.of_all(changes)
    applied = apply_layout_change(known.graph, layout_change)
    if declare is None:
        return applied
    then = replace(known, graph=applied.graph)
    return apply_layout_change(known.graph, layout_change | declare(then, topics))


# The effects of a changed pipeline file on a pipeline that is on record, key by key: a plan names them before it acts.
#
# No key takes back committed rows, and each has its effect, or none, from a moment on that a person cannot guess.

_FROM_NOW_ON = "it counts from now on"
_PLANNED = "it holds for what is planned from now on; waves that are planned already keep what they were planned with"

EFFECTS: Mapping[str, tuple[str, str]] = {
    "kafka_connection": (
        "[source] connection",
        "Kafka is reached by it from now on; it must lead to the cluster that the topics were planned from",
    ),
    "topics": (
        "[source] topics",
        "what is committed of a topic that is not named any more stays, and no more is planned",
    ),
    "topic_pattern": (
        "[source] topic_pattern",
        "what is committed of a topic that it does not match any more stays, and no more is planned",
    ),
    "isolation": (
        "[source] isolation",
        "what is planned from now on is read so; what is committed stays as it was read, until it is reopened",
    ),
    "start": (
        "[source] start",
        "it sets where new partitions begin, others keep their origins; what lies below is read with --from and --to",
    ),
    "end": ("[source] end", "plans end there from now on; what is committed beyond it stays"),
    "ordering": ("[source] ordering", _PLANNED),
    "partitioner": ("[source] partitioner", "it decides about expansions that are seen from now on"),
    "leader_wait": ("[source] leader_wait", _FROM_NOW_ON),
    "stable_wait": ("[source] stable_wait", _FROM_NOW_ON),
    "layout_grace": ("[source] layout_grace", "it counts for expansions and seals that are seen from now on"),
    "sync_group": (
        "[source] sync_group",
        "watermarks are committed to it from now on; a group that had them before keeps what it has",
    ),
    "lake_connection": (
        "[lake] connection",
        "the tables are looked for there from now on; what is in a lake is not moved to another",
    ),
    "table": ("[lake] table", "what is planned from now on lands there; what is committed stays where it is"),
    "partition_by": ("[lake] partition_by", "it is for a table that does not exist yet; one that does keeps its own"),
    "decoding": (
        "[decode]",
        "what is staged from now on is decoded so; rows in the lake stay as they are, until they are decoded again",
    ),
    "spark_connection": ("[spark] connection", "jobs run there from now on"),
    "target_range_bytes": ("[sizes] target_range_bytes", _PLANNED),
    "max_wave_bytes": ("[sizes] max_wave_bytes", _PLANNED),
    "audit_rate": ("[sizes] audit_rate", _FROM_NOW_ON),
    "waves_at_once": ("[limits] waves_at_once", "it counts for every wave that is claimed from now on"),
    "bytes_per_second": ("[limits] bytes_per_second", "it counts for every wave that is claimed from now on"),
}
"""Field of the configuration → its place in the file, and the effect of a change. Not in it: `name`, whose change makes
another pipeline."""


def elsewhere(spec: PipelineSpec, topics: set[str], landed: Mapping[str, Sequence[Slice]]) -> tuple[Elsewhere, ...]:
    """Return the offsets of some topics in other tables than theirs, sorted, from the slices that each table has."""
    found = summed(
        ((item.stream.topic, table), item.range.span)
        for table, slices in landed.items()
        for item in slices
        if item.stream.topic in topics and table != spec.table_for(item.stream.topic)
    )
    return tuple(Elsewhere(topic=topic, table=table, offsets=n) for (topic, table), n in sorted(found.items()))


def refuse_another_cluster(facts: PlanFacts) -> None:
    """Refuse topics that another connection leads to and that are not those on record: all of their records would land
    beside the rows of the old ones, which are perhaps the same."""
    before = facts.before
    if before is None or before.spec.kafka_connection == facts.spec.kafka_connection:
        return
    older = _ids_on_record(facts)
    for item in facts.seen.selected:
        if known := older.get((item.stream.topic, item.stream.topic_id)):
            raise IdentityError(
                f"[source] connection was {before.spec.kafka_connection!r} and is {facts.spec.kafka_connection!r}, and "
                f"topic {item.stream.topic} is another one there: its id is {item.stream.topic_id}, pipeline "
                f"{facts.spec.name} has read {known}. Nothing was planned. To read it too, give the file another "
                "pipeline name; if the topic was only created anew, plan once with the connection before",
                topic=item.stream.topic,
            )


def _ids_on_record(facts: PlanFacts) -> Mapping[tuple[str, str], str]:
    """Return the newest id on record of each topic, with its id now, that has another one now."""
    now = {item.stream.topic: item.stream.topic_id for item in facts.seen.selected}
    older = sorted(facts.seen.known.values(), key=lambda item: item.since or datetime.min.replace(tzinfo=UTC))
    known = ((item.key.topic, item.key.topic_id) for item in older)
    return {(topic, now[topic]): id_ for topic, id_ in known if now.get(topic, id_) != id_}


def nothing_lands(facts: PlanFacts, plan: Plan) -> tuple[PlanBlock, ...]:
    """Return the topics whose rows are in another table than the one that is named now, which has nothing of the
    pipeline, nor would have after this plan: to call that done would be to say that it has them."""
    written = {*(facts.before.tables if facts.before else ()), *(wave.table for wave in plan.waves)}
    return tuple(
        PlanBlock(
            topic=item.topic,
            partition=None,
            reason=f"nothing of it is in table {table}, and nothing is planned to land there: what is committed, "
            f"{count(item.offsets, 'offset')}, is in {item.table} and stays there; only new records land in {table}. "
            f"For a second copy give the file another pipeline name; else set [lake] table to {item.table} again",
        )
        for item in facts.elsewhere
        if (table := facts.spec.table_for(item.topic)) not in written
    )


def notes(facts: PlanFacts, plan: Plan) -> tuple[str, ...]:
    """Return the notes for a person: records that Kafka deleted before a partition's first plan; after a change of the
    file, where rows are that are not in its tables, and the effect of each key that has changed since the last plan."""
    return (*_begins_late(plan, facts), *_created_anew(plan, facts), *_in_other_tables(facts), *_changed(facts))


def behind_the_end(facts: PlanFacts, asked: Iterable[StreamDemand]) -> list[Slice]:
    """Return where the records behind the end of a period by time begin."""
    if not isinstance(facts.bounds.end, datetime):
        return []
    ends = ((item.snapshot, item.end, item.snapshot.readable_end(facts.spec.isolation)) for item in asked)
    return [Slice(item.stream, OffsetRange(end, last)) for item, end, last in ends if end < last]


def left_behind(facts: PlanFacts, samples: Sequence[Sample]) -> Iterator[str]:
    """Give the note for a person where a record right behind the end of a period is from before it: Kafka found the end
    by a marker of a transaction, whose time is the broker's, or by a record that is ahead of its time."""
    end = milliseconds(facts.bounds.end) if isinstance(facts.bounds.end, datetime) else None
    read = ((item.stream, item.earliest_timestamp_ms, item.read) for item in samples)
    early = [(key, at, part) for key, at, part in read if at is not None and end is not None and part and at < end]
    if early:
        key, at, part = min(early)
        more = f" (the same in {len(early) - 1:,} more of {len(samples):,} that were looked at)" if early[1:] else ""
        yield (
            f"{key} has a record of {timestamp(instant(at))} behind the end of the period, at offset {part.start} or "
            f"later{more}: Kafka finds a time by the first offset that is as late, be it a marker of a transaction or "
            "a record ahead of its time. Ask for offsets to have such records too"
        )


def _begins_late(plan: Plan, facts: PlanFacts) -> Iterator[str]:
    new = [item.snapshot for item in plan.streams if item.version is None and item.snapshot.log_start]
    if new and facts.spec.start.kind is PolicyKind.EARLIEST:
        first = min(new, key=lambda item: item.stream)
        yield (
            f"{first.stream} begins at {first.log_start}, where its log starts now: Kafka deleted the records before "
            f"that, and no plan had seen them{f' (the same in {len(new) - 1:,} more)' if new[1:] else ''}"
        )


def _created_anew(plan: Plan, facts: PlanFacts) -> Iterator[str]:
    new = {(i.snapshot.stream.topic, i.snapshot.stream.topic_id) for i in plan.streams if i.version is None}
    older = _ids_on_record(facts)
    for topic, topic_id in sorted(new & older.keys()):
        yield (
            f"topic {topic} is another one than before (id {topic_id}, before {older[topic, topic_id]}): it was "
            "created anew, or Kafka is another cluster. All that it has lands beside the rows of the old one, whose "
            "records after the last look are lost, if there were any"
        )


def _in_other_tables(facts: PlanFacts) -> Iterator[str]:
    for item in facts.elsewhere:
        yield (
            f"{count(item.offsets, 'committed offset')} of {item.topic} {'is' if item.offsets == 1 else 'are'} in "
            f"{item.table}, not in {facts.spec.table_for(item.topic)}, and not read again: a second copy needs "
            "another pipeline name"
        )


def _changed(facts: PlanFacts) -> Iterator[str]:
    if facts.before is None or not facts.seen.known:
        return
    for name, (place, effect) in EFFECTS.items():
        before, now = (getattr(spec, name) for spec in (facts.before.spec, facts.spec))
        if before != now:
            yield f"{place} was changed since the last plan: {effect}"
