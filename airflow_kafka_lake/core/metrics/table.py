"""Every metric of this package: name, kind, unit, tags and meaning; docs/reference/metrics.md is made of it.

Tags are bounded: pipelines, topics and a few words. No partition, wave, attempt or snapshot is ever one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from airflow_kafka_lake.core.progress import Step

PREFIX = "kafka_lake."


class Kind(StrEnum):
    """What a collector makes of the values of a metric, in the words of Airflow's Stats."""

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
    kind: Kind
    unit: str
    tags: tuple[str, ...]
    sent_by: str
    help: str

    @property
    def full_name(self) -> str:
        """Its name in Airflow's Stats, before Airflow's own prefix."""
        return PREFIX + self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One value of a metric."""

    metric: Metric
    value: float
    tags: Mapping[str, str]


_PIPELINE, _TOPIC = ("pipeline",), ("pipeline", "topic")
_STEPS = ", ".join(f"`{step}`" for step in Step)
_OUTCOMES = ", ".join(f"`{outcome}`" for outcome in Outcome)


def _metric(name: str, kind: Kind, unit: str, tags: tuple[str, ...], *, sent_by: str, means: str) -> Metric:
    return Metric(name=name, kind=kind, unit=unit, tags=tags, sent_by=sent_by, help=means)


def _of_wave(name: str, kind: Kind, unit: str, tags: tuple[str, ...], *, means: str) -> Metric:
    return _metric(name, kind, unit, tags, sent_by="ingest", means=means)


def _seen(name: str, unit: str, tags: tuple[str, ...], means: str) -> Metric:
    return _metric(name, Kind.GAUGE, unit, tags, sent_by="advance", means=means)


def _planned(name: str, unit: str, means: str) -> Metric:
    return _metric(name, Kind.GAUGE, unit, _PIPELINE, sent_by="plan", means=means)


def _audited(name: str, unit: str, means: str) -> Metric:
    return _metric(f"audit.{name}", Kind.GAUGE, unit, _PIPELINE, sent_by="audit", means=means)


WAVES = _of_wave(
    "waves",
    Kind.COUNTER,
    "waves",
    ("pipeline", "outcome"),
    means=f"tasks that worked on a wave, by how that ended: {_OUTCOMES}",
)
ROWS = _of_wave("rows", Kind.COUNTER, "rows", _TOPIC, means="rows that became visible")
BYTES = _of_wave("bytes", Kind.COUNTER, "bytes", _PIPELINE, means="size of the files in which they are")
WAVE_DURATION = _of_wave(
    "wave.duration", Kind.TIMER, "ms", _PIPELINE, means="how long the work on a committed wave took"
)
STEP_DURATION = _of_wave(
    "step.duration", Kind.TIMER, "ms", ("pipeline", "step"), means=f"how long each of its steps took: {_STEPS}"
)

PLANNED_RECORDS = _planned("planned.records", "offsets", "offsets of the plan, at most so many records")
PLANNED_BYTES = _planned("planned.bytes", "bytes", "estimate of their size in Kafka")
BLOCKED = _planned("blocked", "slices", "what the plan left out, for reasons that its log names")
HANGING = _planned("hanging", "transactions", "open transactions that no producer will end, with unread records behind")

_MOVING = "ingest, advance"
MOVES = _metric(
    "watermark.moves", Kind.COUNTER, "moves", _TOPIC, sent_by=_MOVING, means="how often a watermark was moved"
)
MOVED = _metric(
    "watermark.offsets", Kind.COUNTER, "offsets", _TOPIC, sent_by=_MOVING, means="by how much they were moved"
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
