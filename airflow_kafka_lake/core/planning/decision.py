"""From facts to a plan: what each stream is asked for, and what the plan makes of it. Pure: no port is asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from airflow_kafka_lake.core.errors import GroupOffsetError, PendingCommitError
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot, Sample, UnknownPartition
from airflow_kafka_lake.core.ordering.layout_changes import (
    KnownLayouts,
    Layout,
    LayoutChange,
    LayoutPlan,
    Topic,
    apply_layout_change,
)
from airflow_kafka_lake.core.ordering.layouts import evolve, topics_seen
from airflow_kafka_lake.core.ordering.seals import check_seals
from airflow_kafka_lake.core.planning.estimates import heaviest, to_read, weights
from airflow_kafka_lake.core.planning.facts import Facts
from airflow_kafka_lake.core.planning.generations import Generations
from airflow_kafka_lake.core.planning.in_period import period_of
from airflow_kafka_lake.core.planning.packing import build_plan
from airflow_kafka_lake.core.planning.periods import Period
from airflow_kafka_lake.core.planning.plan import Asked, Blocked, Plan
from airflow_kafka_lake.core.planning.policies import asked_of, generation_gap, together
from airflow_kafka_lake.core.slices import Slice
from airflow_kafka_lake.core.spec import PolicyKind

Declare = Callable[[KnownLayouts, Sequence[Topic]], LayoutChange]
"""What a person declares about the segments that there are then."""


def declare_nothing(_known: KnownLayouts, _topics: Sequence[Topic]) -> LayoutChange:
    """Leave the segments as they come."""
    return LayoutChange()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the streams are asked for, and what is left out; `period` is None where none was asked for."""

    asked: tuple[Asked, ...]
    blocked: tuple[Blocked, ...]
    unknown: tuple[UnknownPartition, ...]
    period: Period | None
    slices: tuple[Slice, ...]
    """What of it may be read."""

    @property
    def holds_nothing(self) -> bool:
        """Whether nothing lies in the period, though everything that was asked for was observed."""
        everything, period = not self.blocked and not self.unknown, self.period
        return period is not None and everything and not period.offsets and not period.landed_below

    @property
    def to_weigh(self) -> list[Slice]:
        """What a sample is read of, to weigh the rest."""
        return heaviest(self.slices)


def want(facts: Facts) -> Wanted:
    """Decide what each stream is asked for.

    Raises PendingCommitError where group offsets are not stable, GroupOffsetError where no stream has one that can be
    used, RefusedError leaves for bounds that cannot be met.
    """
    asked: list[Asked] = []
    blocked, generations = list(facts.seen.blocked), Generations.of(facts)
    refused: list[GroupOffsetError] = []
    pending: list[PendingCommitError] = []
    for item in facts.seen.selected:
        try:
            answer = _answer(facts, item, generations)
        except PendingCommitError as error:
            pending.append(error)
        except GroupOffsetError as error:
            refused.append(error)
            blocked.append(Blocked.of(item.stream, error.message))
        else:
            (blocked if isinstance(answer, Blocked) else asked).append(answer)  # type: ignore[arg-type]
    if pending:
        raise together(pending)
    if refused and not asked:
        raise refused[0]
    partitions = facts.bounds.partitions
    unknown = (item for item in facts.seen.snapshot.unknown if partitions is None or item.partition in partitions)
    return Wanted(
        asked=tuple(asked),
        blocked=tuple(blocked),
        unknown=tuple(unknown),
        period=period_of(facts.bounds, asked, facts.seen.known, facts.times),
        slices=tuple(to_read(asked, facts.seen.known)),
    )


def _answer(facts: Facts, item: PartitionSnapshot, generations: Generations) -> Asked | Blocked:
    record = facts.seen.known.get(item.stream)
    older = generations.older.get((item.stream.topic, item.stream.partition), ())
    return generation_gap(facts.spec.name, item, record, older=older, graph=facts.graph, ends=facts.ends) or asked_of(
        facts.spec,
        facts.bounds,
        item,
        record=record,
        times=facts.times,
        start_snapshot=facts.starts.get(item.stream, item),
        expanded=_is_expanded(facts, item, generations.at_first.get(item.stream[:2])),
    )


def decide(facts: Facts, wanted: Wanted, samples: Iterable[Sample], declare: Declare = declare_nothing) -> Plan:
    """Decide ranges, waves and segments; `declare` adds what a person says about the segments that there are then."""
    segments = _apply_layout_change(facts, wanted.asked, declare)
    waiting = segments.layout_change.waiting
    asked = [item for item in wanted.asked if item.snapshot.stream not in waiting]
    overruns = [Blocked.of(item.stream, item.reason) for item in segments.layout_change.overruns]
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


def _apply_layout_change(facts: Facts, asked: Sequence[Asked], declare: Declare) -> LayoutPlan:
    """Decide what becomes of the segments of every topic that was observed."""
    known = facts.recorded
    topics = topics_seen(facts.seen.snapshot, {item.snapshot.stream for item in asked})
    layouts: dict[str, list[Layout]] = defaultdict(list)
    for item in known.layouts:
        layouts[item.topic].append(item)
    changes = []
    for topic in topics:
        own = replace(known, layouts=layouts[topic.name])
        changes += [check_seals(facts.spec, topic, own), evolve(facts.spec, topic, own)]
    layout_change = LayoutChange.of_all(changes)
    then = replace(known, graph=apply_layout_change(known.graph, layout_change).graph)
    return apply_layout_change(known.graph, layout_change | declare(then, topics))


def _is_expanded(facts: Facts, item: PartitionSnapshot, at_first: int | None) -> bool:
    """Return whether a partition has come since its topic was first planned, when it had `at_first` partitions.

    One that was there and was not observed or not asked for begins where the policy says; where that is the end, the
    end has moved since, so that only the log's begin is sure to lose nothing.
    """
    if at_first is None:
        return False
    return item.stream.partition >= at_first or facts.spec.start.kind is PolicyKind.LATEST
