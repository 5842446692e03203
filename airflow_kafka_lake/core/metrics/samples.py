"""Which metrics a fact gives: a landed wave, a failure, a plan, moved watermarks, a status, an audit."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from airflow_kafka_lake.core.documents.landed import LandedWave
from airflow_kafka_lake.core.errors import (
    AttemptRejectedError,
    ConcurrentError,
    GateClosedError,
    HeldError,
    JobFailedError,
    KafkaLakeError,
    PausedError,
    StaleFenceError,
    TransientError,
    UnknownOutcomeError,
)
from airflow_kafka_lake.core.metrics import table
from airflow_kafka_lake.core.metrics.table import Metric, Outcome, Sample
from airflow_kafka_lake.core.progress import Step

Json = Mapping[str, Any]

_WAITS = (ConcurrentError, GateClosedError, PausedError, StaleFenceError)
"""What a task waits for: another that works on the wave, the wave's turn, the end of a pause."""

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


def of_wave(pipeline: str, wave: LandedWave, steps: Mapping[Step, float]) -> tuple[Sample, ...]:
    """Return what a committed wave gives; `steps` are the seconds that each step took in this process."""
    rows: Counter[str] = Counter()
    for item in wave.ranges:
        rows[item.stream.topic] += item.rows or 0
    here = {"pipeline": pipeline}
    return (
        _sample(table.WAVES, 1, **here, outcome=Outcome.COMMITTED),
        *(_sample(table.ROWS, number, **here, topic=topic) for topic, number in sorted(rows.items()) if number),
        *([_sample(table.BYTES, wave.bytes, **here)] if wave.bytes else []),
        _sample(table.WAVE_DURATION, _ms(wave.seconds), **here),
        *(_sample(table.STEP_DURATION, _ms(seconds), **here, step=step) for step, seconds in steps.items()),
    )


def of_failure(pipeline: str, error: BaseException) -> tuple[Sample, ...]:
    """Return what a wave gives that did not land; nothing where the task only waits for another."""
    if isinstance(error, _WAITS):
        return ()
    outcome = next(outcome for kind, outcome in _OUTCOMES if isinstance(error, kind))
    return (_sample(table.WAVES, 1, pipeline=pipeline, outcome=outcome),)


def of_plan(result: Json) -> tuple[Sample, ...]:
    """Return what a recorded plan gives, from the XCom of its task; numbers that are not known are not sent."""
    if result["dry_run"]:
        return ()
    found = {
        table.PLANNED_RECORDS: result["records"],
        table.PLANNED_BYTES: result["bytes"],
        table.BLOCKED: result["blocked"],
        table.HANGING: None if result["hanging"] is None else len(result["hanging"]),
    }
    return _gauges(result["pipeline"], found)


def of_moves(events: Iterable[Json]) -> tuple[Sample, ...]:
    """Return what moved watermarks give, from the extras of the asset events that tell of them."""
    number: Counter[tuple[str, str]] = Counter()
    offsets: Counter[tuple[str, str]] = Counter()
    for event in events:
        for stream in event["streams"]:
            number[event["pipeline"], stream["topic"]] += 1
            offsets[event["pipeline"], stream["topic"]] += max(0, stream["to"] - stream["from"])
    return tuple(
        _sample(metric, value, pipeline=pipeline, topic=topic)
        for metric, found in ((table.MOVES, number), (table.MOVED, offsets))
        for (pipeline, topic), value in sorted(found.items())
        if value
    )


def of_status(document: Json) -> tuple[Sample, ...]:
    """Return what `status --json` gives; what Kafka did not say is not sent, and its gauge keeps its last value."""
    pipeline, summary = document["pipeline"], document["summary"]
    at = datetime.fromisoformat(document["observed_at"])
    deadline = summary["retention_deadline"]
    found = {
        table.OBSERVED: at.timestamp(),
        table.HOLDS: sum(item["need"] in {"held", "cancelled"} for item in document["needs_person"]),
        table.NEEDS_PERSON: summary["needs_person"],
        table.HELD_OFFSETS: summary["held_offsets"],
        table.LOST_OFFSETS: summary["lost_offsets"],
        table.RETENTION: deadline and max(0.0, (datetime.fromisoformat(deadline) - at).total_seconds()),
    }
    return (*_gauges(pipeline, found), *_lags(pipeline, document["groups"]))


def of_audit(numbers: Json) -> tuple[Sample, ...]:
    """Return what the numbers of an audit give."""
    found = {metric: numbers[metric.name.removeprefix("audit.")] for metric in _AUDITED}
    return _gauges(numbers["pipeline"], found)


_AUDITED = (table.UNEXPLAINED, table.MISSING, table.DUPLICATES)


def _lags(pipeline: str, groups: Iterable[Json]) -> Iterator[Sample]:
    """Give the lags of each topic; a topic of which one group is not known has none."""
    topics: dict[str, list[Json]] = defaultdict(list)
    for item in groups:
        if item["state"] != "gone":
            topics[item["topic"]].append(item)
    for topic, found in sorted(topics.items()):
        lags = [item["lag"] for item in found]
        if None in lags:
            continue
        yield _sample(table.LAG_RECORDS, sum(lags), pipeline=pipeline, topic=topic)
        ages = [item["behind_seconds"] for item in found if item["behind_seconds"] is not None]
        if ages or not sum(lags):
            yield _sample(table.LAG_SECONDS, max(ages, default=0), pipeline=pipeline, topic=topic)


def _gauges(pipeline: str, found: Mapping[Metric, float | None]) -> tuple[Sample, ...]:
    return tuple(_sample(metric, value, pipeline=pipeline) for metric, value in found.items() if value is not None)


def _sample(metric: Metric, value: float, **tags: str) -> Sample:
    return Sample(metric=metric, value=value, tags={name: str(tags[name]) for name in metric.tags})


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
