"""Every metric of this package, and which of them a fact gives. Airflow sends them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from airflow_kafka_lake.core.audit.report import AuditReport
from airflow_kafka_lake.core.errors import (
    AttemptRejectedError,
    HeldError,
    JobFailedError,
    KafkaLakeError,
    TransientError,
    UnknownOutcomeError,
)
from airflow_kafka_lake.core.ledger.guards import Postponement
from airflow_kafka_lake.core.reports.attention import Need
from airflow_kafka_lake.core.reports.plan import PlanSummary
from airflow_kafka_lake.core.reports.progress import Step
from airflow_kafka_lake.core.reports.status import LandedWave, PipelineReport, StreamGroup
from airflow_kafka_lake.core.reports.streams import StreamState

# Every metric of this package: name, kind, unit, tags and meaning; docs/reference/metrics.md is made of it.
#
# Tags are bounded: pipelines, topics and a few words. No partition, wave, attempt or snapshot is ever one.

PREFIX = "kafka_lake."


class MetricKind(StrEnum):
    """The way in which a collector combines the values of a metric, in the words of Airflow's Stats."""

    COUNTER = "counter"
    GAUGE = "gauge"
    TIMER = "timer"


class Outcome(StrEnum):
    """How the work of one task on a wave ended."""

    COMMITTED = "committed"
    HELD = "held"
    REFUSED = "refused"
    JOB_FAILED = "job_failed"
    UNAVAILABLE = "unavailable"
    UNKNOWN = "unknown"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric; timers are in milliseconds, as all of Airflow's are."""

    name: str
    kind: MetricKind
    unit: str
    tags: tuple[str, ...]
    sent_by: str
    help: str

    @property
    def full_name(self) -> str:
        """Its name in Airflow's Stats, before Airflow's own prefix."""
        return PREFIX + self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSample:
    """One value of a metric."""

    metric: Metric
    value: float
    tags: Mapping[str, str]


_PIPELINE, _TOPIC = ("pipeline",), ("pipeline", "topic")
_STEPS = ", ".join(f"`{step}`" for step in Step)
_OUTCOME_NAMES = ", ".join(f"`{outcome}`" for outcome in Outcome)


def _metric(name: str, kind: MetricKind, unit: str, tags: tuple[str, ...], *, sent_by: str, means: str) -> Metric:
    return Metric(name=name, kind=kind, unit=unit, tags=tags, sent_by=sent_by, help=means)


def _of_wave(name: str, kind: MetricKind, unit: str, tags: tuple[str, ...], *, means: str) -> Metric:
    return _metric(name, kind, unit, tags, sent_by="ingest", means=means)


def _seen(name: str, unit: str, tags: tuple[str, ...], means: str) -> Metric:
    return _metric(name, MetricKind.GAUGE, unit, tags, sent_by="advance", means=means)


def _planned(name: str, unit: str, means: str) -> Metric:
    return _metric(name, MetricKind.GAUGE, unit, _PIPELINE, sent_by="plan", means=means)


def _audited(name: str, unit: str, means: str) -> Metric:
    return _metric(f"audit.{name}", MetricKind.GAUGE, unit, _PIPELINE, sent_by="audit", means=means)


WAVES = _of_wave(
    "waves",
    MetricKind.COUNTER,
    "waves",
    ("pipeline", "outcome"),
    means=f"tasks that worked on a wave, by how that ended: {_OUTCOME_NAMES}",
)
ROWS = _of_wave("rows", MetricKind.COUNTER, "rows", _TOPIC, means="rows that became visible")
BYTES = _of_wave("bytes", MetricKind.COUNTER, "bytes", _PIPELINE, means="size of the files in which they are")
WAVE_DURATION = _of_wave(
    "wave.duration", MetricKind.TIMER, "ms", _PIPELINE, means="how long the work on a committed wave took"
)
STEP_DURATION = _of_wave(
    "step.duration", MetricKind.TIMER, "ms", ("pipeline", "step"), means=f"how long each of its steps took: {_STEPS}"
)

PLANNED_RECORDS = _planned("planned.records", "offsets", "offsets of the plan, at most so many records")
PLANNED_BYTES = _planned("planned.bytes", "bytes", "estimate of their size in Kafka")
BLOCKED = _planned("blocked", "slices", "what the plan left out, for reasons that its log names")
HANGING = _planned("hanging", "transactions", "open transactions that no producer will end, with unread records behind")

_MOVING = "ingest, advance"
MOVES = _metric(
    "watermark.moves", MetricKind.COUNTER, "moves", _TOPIC, sent_by=_MOVING, means="how often a watermark was moved"
)
MOVED = _metric(
    "watermark.offsets", MetricKind.COUNTER, "offsets", _TOPIC, sent_by=_MOVING, means="by how much they were moved"
)

OBSERVED = _seen("observed.seconds", "s since 1970", _PIPELINE, "when the gauges of this task were last true")
LAG_RECORDS = _seen(
    "lag.records", "offsets", _TOPIC, "offsets that can be read and are not in the lake, all partitions of the topic"
)
LAG_SECONDS = _seen(
    "lag.seconds", "s", _TOPIC, "age of the oldest record that can be read and is not in the lake; 0 without such"
)
HOLDS = _seen("holds", "holds", _PIPELINE, "what is held or cancelled, and waits for a person")
NEEDS_PERSON = _seen("needs_person", "things", _PIPELINE, "everything that waits for a person, holds included")
HELD_OFFSETS = _seen("held.offsets", "offsets", _PIPELINE, "offsets that are on hold")
LOST_OFFSETS = _seen("lost.offsets", "offsets", _PIPELINE, "offsets that Kafka deleted before they were read")
RETENTION = _seen(
    "retention.seconds", "s", _PIPELINE, "time until retention may delete the first unread record; not sent without one"
)

UNEXPLAINED = _audited("unexplained", "offsets", "offsets that nothing accounts for; must be 0")
MISSING = _audited("missing", "offsets", "offsets that should have a row in the table, and have none; must be 0")
DUPLICATES = _audited("duplicates", "rows", "rows beyond one for each offset; must be 0")

METRICS: tuple[Metric, ...] = (
    *(LAG_RECORDS, LAG_SECONDS, RETENTION, HOLDS, NEEDS_PERSON, HELD_OFFSETS, LOST_OFFSETS, OBSERVED),
    *(WAVES, ROWS, BYTES, WAVE_DURATION, STEP_DURATION),
    *(PLANNED_RECORDS, PLANNED_BYTES, BLOCKED, HANGING),
    *(MOVES, MOVED),
    *(UNEXPLAINED, MISSING, DUPLICATES),
)
"""All of them, those first that tell how a pipeline is."""


# Which metrics a fact gives: a landed wave, a failure, a plan, moved watermarks, a status, an audit.

Json = Mapping[str, Any]

_OUTCOMES: tuple[tuple[type[BaseException], Outcome], ...] = (
    (UnknownOutcomeError, Outcome.UNKNOWN),
    (JobFailedError, Outcome.JOB_FAILED),
    (AttemptRejectedError, Outcome.REFUSED),
    (HeldError, Outcome.HELD),
    (TransientError, Outcome.UNAVAILABLE),
    (KafkaLakeError, Outcome.REFUSED),
    (BaseException, Outcome.INTERRUPTED),
)
"""The first that fits counts."""


def of_wave(pipeline: str, wave: LandedWave, steps: Mapping[Step, float]) -> tuple[MetricSample, ...]:
    """Return the samples of a committed wave; `steps` are the seconds that each step took in this process."""
    rows: Counter[str] = Counter()
    for item in wave.ranges:
        rows[item.stream.topic] += item.rows or 0
    here = {"pipeline": pipeline}
    return (
        _sample(WAVES, 1, **here, outcome=Outcome.COMMITTED),
        *(_sample(ROWS, number, **here, topic=topic) for topic, number in sorted(rows.items()) if number),
        *([_sample(BYTES, wave.bytes, **here)] if wave.bytes else []),
        _sample(WAVE_DURATION, _ms(wave.seconds), **here),
        *(_sample(STEP_DURATION, _ms(seconds), **here, step=step) for step, seconds in steps.items()),
    )


def of_failure(pipeline: str, error: BaseException) -> tuple[MetricSample, ...]:
    """Return the samples of a wave that did not land; nothing where the task only waits for another."""
    if Postponement.of(error):
        return ()
    outcome = next(outcome for kind, outcome in _OUTCOMES if isinstance(error, kind))
    return (_sample(WAVES, 1, pipeline=pipeline, outcome=outcome),)


def of_plan(plan: PlanSummary) -> tuple[MetricSample, ...]:
    """Return the samples of a recorded plan; numbers that are not known are not sent."""
    if plan.dry_run:
        return ()
    found = {
        PLANNED_RECORDS: plan.records,
        PLANNED_BYTES: plan.bytes,
        BLOCKED: plan.blocked,
        HANGING: None if plan.hanging is None else len(plan.hanging),
    }
    return _gauges(plan.pipeline, found)


def of_moves(pipeline: str, slices: Iterable[tuple[str, int, int, int]]) -> tuple[MetricSample, ...]:
    """Return the samples of moved watermarks: topic, partition, start and end of each."""
    number: Counter[str] = Counter()
    offsets: Counter[str] = Counter()
    for topic, _, start, end in slices:
        number[topic] += 1
        offsets[topic] += max(0, end - start)
    return tuple(
        _sample(metric, value, pipeline=pipeline, topic=topic)
        for metric, found in ((MOVES, number), (MOVED, offsets))
        for topic, value in sorted(found.items())
        if value
    )


def of_status(report: PipelineReport) -> tuple[MetricSample, ...]:
    """Return the samples of a status; a number that Kafka did not tell is not sent, and its gauge stays."""
    summary, deadline = report.summary, report.summary.retention_deadline
    found = {
        OBSERVED: report.at.timestamp(),
        HOLDS: sum(item.need in {Need.HELD, Need.CANCELLED} for item in report.needs),
        NEEDS_PERSON: summary.needs_person,
        HELD_OFFSETS: summary.held_offsets,
        LOST_OFFSETS: summary.lost_offsets,
        RETENTION: max(0.0, (deadline - report.at).total_seconds()) if deadline else None,
    }
    return (*_gauges(report.pipeline, found), *_lags(report.pipeline, report.groups))


def of_audit(report: AuditReport) -> tuple[MetricSample, ...]:
    """Return the samples of an audit."""
    sums = report.totals
    found = {UNEXPLAINED: sums.accounting.unexplained, MISSING: sums.missing, DUPLICATES: sums.duplicates}
    return _gauges(report.pipeline, found)


def _lags(pipeline: str, groups: Iterable[StreamGroup]) -> Iterator[MetricSample]:
    """Give the lags of each topic; a topic of which one group is not known has none."""
    topics: dict[str, list[StreamGroup]] = defaultdict(list)
    for item in groups:
        if item.state is not StreamState.GONE:
            topics[item.topic].append(item)
    for topic, found in sorted(topics.items()):
        lags = [item.lag for item in found if item.lag is not None]
        if len(lags) < len(found):
            continue
        yield _sample(LAG_RECORDS, sum(lags), pipeline=pipeline, topic=topic)
        ages = [item.behind_seconds for item in found if item.behind_seconds is not None]
        if ages or not sum(lags):
            yield _sample(LAG_SECONDS, max(ages, default=0), pipeline=pipeline, topic=topic)


def _gauges(pipeline: str, found: Mapping[Metric, float | None]) -> tuple[MetricSample, ...]:
    return tuple(_sample(metric, value, pipeline=pipeline) for metric, value in found.items() if value is not None)


def _sample(metric: Metric, value: float, **tags: str) -> MetricSample:
    return MetricSample(metric=metric, value=value, tags={name: str(tags[name]) for name in metric.tags})


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
