"""Every metric of this package, and which of them a fact gives. Airflow sends them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

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
from airflow_kafka_lake.core.offsets import grouped, summed
from airflow_kafka_lake.core.planning.selection import EVERYTHING
from airflow_kafka_lake.core.reports.attention import Need
from airflow_kafka_lake.core.reports.plan import PlanSummary
from airflow_kafka_lake.core.reports.progress import Step
from airflow_kafka_lake.core.reports.status import LandedWave, PipelineReport, StreamGroup
from airflow_kafka_lake.core.reports.streams import OBSERVED_STATES, StreamState

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


@dataclass(frozen=True, slots=True)
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


def _gauge(sent_by: str, name: str, unit: str, help_: str, *, tags: tuple[str, ...] = _PIPELINE) -> Metric:
    return Metric(name, MetricKind.GAUGE, unit, tags, sent_by, help_)


_of_wave = partial(Metric, sent_by="ingest")
_seen, _planned, _audited = (partial(_gauge, task) for task in ("advance", "plan", "audit"))


WAVES = _of_wave(
    "waves",
    MetricKind.COUNTER,
    "waves",
    ("pipeline", "outcome"),
    help=f"tasks that worked on a wave, by how that ended: {_OUTCOME_NAMES}",
)
ROWS = _of_wave("rows", MetricKind.COUNTER, "rows", _TOPIC, help="rows that became visible")
BYTES = _of_wave("bytes", MetricKind.COUNTER, "bytes", _PIPELINE, help="size of the files in which they are")
WAVE_DURATION = _of_wave(
    "wave.duration", MetricKind.TIMER, "ms", _PIPELINE, help="how long the work on a committed wave took"
)
STEP_DURATION = _of_wave(
    "step.duration", MetricKind.TIMER, "ms", ("pipeline", "step"), help=f"how long each of its steps took: {_STEPS}"
)

PLANNED_RECORDS = _planned("planned.records", "offsets", "offsets of the plan, at most so many records")
PLANNED_BYTES = _planned("planned.bytes", "bytes", "estimate of their size in Kafka")
BLOCKED = _planned("blocked", "slices", "what the plan left out, for reasons that its log names")
HANGING = _planned("hanging", "transactions", "open transactions that no producer will end, with unread records behind")

_MOVING = "ingest, advance"
MOVES = Metric(
    "watermark.moves", MetricKind.COUNTER, "moves", _TOPIC, sent_by=_MOVING, help="how often a watermark was moved"
)
MOVED = Metric(
    "watermark.offsets", MetricKind.COUNTER, "offsets", _TOPIC, sent_by=_MOVING, help="by how much they were moved"
)

OBSERVED = _seen("observed.seconds", "s since 1970", "when all partitions were last observed")
LAG_RECORDS = _seen(
    "lag.records", "offsets", "offsets of all partitions that can be read and are not in the lake", tags=_TOPIC
)
LAG_SECONDS = _seen(
    "lag.seconds", "s", "age of the oldest record that can be read and is not in the lake; 0 without such", tags=_TOPIC
)
HOLDS = _seen("holds", "holds", "what is held or cancelled, and waits for a person")
NEEDS_PERSON = _seen(
    "needs_person", "things", "everything that waits for a person, holds included; 0 only where all is known"
)
HELD_OFFSETS = _seen("held.offsets", "offsets", "offsets that are on hold")
LOST_OFFSETS = _seen("lost.offsets", "offsets", "offsets that Kafka deleted before they were read")
RETENTION = _seen(
    "retention.seconds", "s", "time until retention may delete the first unread record; not sent without one"
)

FINDINGS = _audited("audit.findings", "findings", "findings of a whole audit; must be 0")
UNEXPLAINED = _audited("audit.unexplained", "offsets", "offsets that nothing accounts for; must be 0")
MISSING = _audited("audit.missing", "offsets", "offsets that should have a row in the table, and have none; must be 0")
DUPLICATES = _audited("audit.duplicates", "rows", "rows beyond one for each offset; must be 0")

METRICS: tuple[Metric, ...] = (
    *(LAG_RECORDS, LAG_SECONDS, RETENTION, HOLDS, NEEDS_PERSON, HELD_OFFSETS, LOST_OFFSETS, OBSERVED),
    *(WAVES, ROWS, BYTES, WAVE_DURATION, STEP_DURATION),
    *(PLANNED_RECORDS, PLANNED_BYTES, BLOCKED, HANGING),
    *(MOVES, MOVED),
    *(FINDINGS, UNEXPLAINED, MISSING, DUPLICATES),
)
"""All of them, those first that tell how a pipeline is."""


# Which metrics a fact gives: a landed wave, a failure, a plan, moved watermarks, a status, an audit.

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
    rows = summed((item.stream.topic, item.rows or 0) for item in wave.ranges)
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
    by_topic = sorted(grouped((topic, max(0, end - start)) for topic, _, start, end in slices).items())
    return tuple(
        _sample(metric, value, pipeline=pipeline, topic=topic)
        for metric, of in ((MOVES, len), (MOVED, sum))
        for topic, found in by_topic
        if (value := of(found))
    )


def of_status(report: PipelineReport) -> tuple[MetricSample, ...]:
    """Return the samples of a status; a number that Kafka did not tell is not sent, and its gauge stays."""
    summary, deadline, seen = report.summary, report.summary.retention_deadline, report.facts.seen.snapshot
    unseen = set[str]() if isinstance(seen, str) else {*seen.silent, *(item.topic for item in seen.unknown)}
    whole, aged = summary.lag_state == OBSERVED_STATES and not unseen, summary.behind_state == OBSERVED_STATES
    found = {
        OBSERVED: report.at.timestamp() if whole else None,
        HOLDS: sum(item.need in {Need.HELD, Need.CANCELLED} for item in report.needs),
        NEEDS_PERSON: summary.needs_person if whole else summary.needs_person or None,
        HELD_OFFSETS: summary.held_offsets,
        LOST_OFFSETS: summary.lost_offsets if whole else None,
        RETENTION: max(0.0, (deadline - report.at).total_seconds()) if deadline and whole and aged else None,
    }
    return (
        *_gauges(report.pipeline, found),
        *_lags(report.pipeline, (item for item in report.groups if item.topic not in unseen)),
    )


def of_audit(report: AuditReport) -> tuple[MetricSample, ...]:
    """Return the samples of an audit of a whole pipeline; a sum of which a part was not counted is not sent."""
    sums = report.totals
    found = {
        FINDINGS: len(report.findings),
        UNEXPLAINED: None if sums.unread else sums.accounting.unexplained,
        MISSING: sums.missing,
        DUPLICATES: sums.duplicates,
    }
    return _gauges(report.pipeline, found) if report.scope == EVERYTHING else ()


def _lags(pipeline: str, groups: Iterable[StreamGroup]) -> Iterator[MetricSample]:
    """Give the lags of each topic; a topic of which one group is not known has none."""
    topics = grouped((item.topic, item) for item in groups if item.state is not StreamState.GONE)
    for topic, found in sorted(topics.items()):
        lags = [item.lag for item in found if item.lag is not None]
        if len(lags) < len(found):
            continue
        yield _sample(LAG_RECORDS, sum(lags), pipeline=pipeline, topic=topic)
        ages = [item.behind_seconds for item in found if item.lag]
        if None not in ages:
            yield _sample(LAG_SECONDS, max(filter(None, ages), default=0), pipeline=pipeline, topic=topic)


def _gauges(pipeline: str, found: Mapping[Metric, float | None]) -> tuple[MetricSample, ...]:
    return tuple(_sample(metric, value, pipeline=pipeline) for metric, value in found.items() if value is not None)


def _sample(metric: Metric, value: float, **tags: str) -> MetricSample:
    return MetricSample(metric=metric, value=value, tags={name: str(tags[name]) for name in metric.tags})


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
