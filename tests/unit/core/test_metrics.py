"""Which metrics a fact gives, and that their names and tags are those of the table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_kafka_lake.core.errors import (
    AttemptRejectedError,
    ConcurrentError,
    DamagedTableError,
    GateClosedError,
    HeldError,
    JobFailedError,
    OwnershipError,
    PausedError,
    StaleFenceError,
    UnavailableError,
    UnknownOutcomeError,
)
from airflow_kafka_lake.core.ledger.records import RangeRecord, WaveRecord
from airflow_kafka_lake.core.ledger.waves import AttemptCause, AttemptOutcome, AttemptRecord, RangeState, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream
from airflow_kafka_lake.core.planning.selection import StreamScope
from airflow_kafka_lake.core.reports.attention import Attention, Need
from airflow_kafka_lake.core.reports.metrics import (
    METRICS,
    MetricKind,
    MetricSample,
    Outcome,
    of_audit,
    of_failure,
    of_moves,
    of_plan,
    of_status,
    of_wave,
)
from airflow_kafka_lake.core.reports.plan import PlanSummary
from airflow_kafka_lake.core.reports.progress import Step
from airflow_kafka_lake.core.reports.status import LandedWave, PipelineReport, StreamGroup
from airflow_kafka_lake.core.reports.streams import StreamState
from airflow_kafka_lake.services import pipeline_audit, reporting
from tests.world import World

pytestmark = pytest.mark.unit

DOCS = Path(__file__).parents[3] / "docs"
PREFIX = "airflow_"
TIMER_SUFFIXES = ("_bucket", "_sum", "_count")


def seen(samples: Iterable[MetricSample]) -> dict[tuple[str, ...], float]:
    """Return samples by name and tag values; each belongs to one metric, with all of its tags."""
    found = {}
    for item in samples:
        assert item.metric in METRICS
        assert tuple(item.tags) == item.metric.tags
        assert all(type(value) is str for value in item.tags.values())
        found[item.metric.name, *item.tags.values()] = item.value
    return found


def range_of(topic: str, rows: int | None, state: RangeState = RangeState.COMMITTED) -> RangeRecord:
    slice_ = Slice(Stream(topic, "T", 0), OffsetRange(0, 10))
    return RangeRecord(
        id=topic, pipeline="p", plan="1", wave="w", slice=slice_, state=state, reason=None, estimated_bytes=1, rows=rows
    )


def landed(
    *ranges: RangeRecord, staged_bytes: int | None = 500, error: str | None = None, cause: AttemptCause | None = None
) -> LandedWave:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    record = WaveRecord(
        id="w", pipeline="p", plan="1", ordinal=0, table="raw.t", state=WaveState.COMMITTED, lease_live=False,
        ranges=len(ranges), rows=3, snapshot=77,
    )  # fmt: skip
    old = AttemptRecord(
        wave="w",
        fence=1,
        attempt="a" * 16,
        holder="h/1/1",
        started_at=at,
        outcome=AttemptOutcome.FAILED,
        error=error,
        cause=cause,
    )
    new = AttemptRecord(
        wave="w", fence=2, attempt="b" * 16, holder="h/1/1", started_at=at, outcome=AttemptOutcome.COMMITTED,
        staged_bytes=staged_bytes,
    )  # fmt: skip
    return LandedWave.of(record, ranges, (old, new), seconds=12.25, application=None)


def test_landed_wave_gives_rows_by_topic_bytes_and_seconds() -> None:
    """What was held of it does not count, nor a topic without rows; steps are timed one by one."""
    wave = landed(range_of("a", 3), range_of("b", 4), range_of("c", 0), range_of("d", None, RangeState.HELD))
    assert seen(of_wave("p", wave, {Step.READ: 10.0, Step.PUBLISH: 0.5})) == {
        ("waves", "p", "committed"): 1,
        ("rows", "p", "a"): 3,
        ("rows", "p", "b"): 4,
        ("bytes", "p"): 500,
        ("wave.duration", "p"): 12250,
        ("step.duration", "p", "read"): 10000,
        ("step.duration", "p", "publish"): 500,
    }


def test_landed_wave_is_named_by_all_that_finds_it_again() -> None:
    """Wave, attempt and snapshot; what is not known is left out."""
    assert landed(range_of("a", 3)).describe() == (
        f"wave w is in raw.t, attempt {'b' * 16}, snapshot 77: 3 rows of 1 range, 500 bytes, 12.2 s"
    )
    assert "None" not in landed(range_of("a", 3), staged_bytes=None).describe()
    assert "own" not in landed(range_of("a", 3), error="split in two", cause=AttemptCause.JOB_FAILED).describe()
    why = "split in two: workers died over it twice"
    halved = landed(range_of("a", 3), error=why, cause=AttemptCause.SPLIT).describe()
    assert halved.endswith(
        " s. It was split in two: workers died over it twice; the other part is a wave of its own, for the next run"
    )
    assert ("bytes", "p") not in seen(of_wave("p", landed(range_of("a", 3), staged_bytes=None), {}))


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (HeldError("x"), Outcome.HELD),
        (JobFailedError("x"), Outcome.JOB_FAILED),
        (UnavailableError("x"), Outcome.UNAVAILABLE),
        (AttemptRejectedError("x"), Outcome.REFUSED),
        (OwnershipError("x"), Outcome.REFUSED),
        (UnknownOutcomeError("x"), Outcome.UNKNOWN),
        (KeyboardInterrupt(), Outcome.INTERRUPTED),
        (RuntimeError(), Outcome.INTERRUPTED),
    ],
)
def test_wave_that_did_not_land_is_counted_by_its_outcome(error: BaseException, outcome: Outcome) -> None:
    """One word of a few for every error, that of a signal included."""
    assert seen(of_failure("p", error)) == {("waves", "p", outcome): 1}


@pytest.mark.parametrize("error", [ConcurrentError("x"), StaleFenceError("x"), GateClosedError("x"), PausedError("x")])
def test_wave_that_waits_for_its_turn_is_not_counted(error: BaseException) -> None:
    """It is tried again, and counts then."""
    assert of_failure("p", error) == ()


def test_plan_gives_what_is_known_of_it() -> None:
    """A dry run gives nothing; a number that is not known is not sent."""
    plan = PlanSummary(pipeline="p", records=7, bytes=None, hanging=["x"])
    assert seen(of_plan(plan)) == {("planned.records", "p"): 7, ("blocked", "p"): 0, ("hanging", "p"): 1}
    assert ("hanging", "p") not in seen(of_plan(replace(plan, hanging=None))), "not known is not none"
    assert of_plan(replace(plan, dry_run=True)) == ()


def test_moves_are_added_up_by_topic() -> None:
    """Two partitions of a topic are one number; a move back, by a reopen, is a move of no offset."""
    assert seen(of_moves("p", [("a", 0, 0, 10), ("a", 1, 5, 7), ("b", 2, 9, 3)])) == {
        ("watermark.moves", "p", "a"): 2,
        ("watermark.moves", "p", "b"): 1,
        ("watermark.offsets", "p", "a"): 12,
    }


@pytest.fixture(scope="module")
def status() -> PipelineReport:
    """A pipeline of five topics that differ, of which three things wait for a person."""
    world = World()
    world.produce(1)
    world.run()
    found = reporting.status(world.worker(), world.spec)
    at = datetime(2026, 3, 1, tzinfo=UTC)
    summary = replace(found.summary, needs_person=3, held_offsets=10, retention_deadline=at + timedelta(hours=6))
    needs = tuple(Attention(need=need, text="") for need in (Need.HELD, Need.CANCELLED, Need.ORDER))
    groups = tuple(
        StreamGroup(
            topic=topic,
            topic_id="A" * 22,
            state=state,
            partitions=1,
            numbers=RangeSet((OffsetRange(0, 1),)),
            lag=lag,
            behind_seconds=seconds,
        )
        for topic, state, lag, seconds in (
            ("a", StreamState.BLOCKED, 7, 60),
            ("a", StreamState.BEHIND, 3, 600),
            ("b", StreamState.UP_TO_DATE, 0, None),
            ("c", StreamState.UNKNOWN, None, None),
            ("c", StreamState.UP_TO_DATE, 0, None),
            ("d", StreamState.BEHIND, 5, None),
            ("e", StreamState.GONE, None, None),
        )
    )
    return replace(found, facts=replace(found.facts, at=at), summary=summary, needs=needs, groups=groups)


def test_status_gives_lags_by_topic_and_what_waits_for_a_person(status: PipelineReport) -> None:
    """What Kafka did not say of a part of a topic is not sent as if it were zero, nor is an age that is not known."""
    assert seen(of_status(status)) == {
        ("observed.seconds", "orders"): 1772323200,
        ("holds", "orders"): 2,
        ("needs_person", "orders"): 3,
        ("held.offsets", "orders"): 10,
        ("lost.offsets", "orders"): 0,
        ("retention.seconds", "orders"): 6 * 3600,
        ("lag.records", "orders", "a"): 10,
        ("lag.seconds", "orders", "a"): 600,
        ("lag.records", "orders", "b"): 0,
        ("lag.seconds", "orders", "b"): 0,
        ("lag.records", "orders", "d"): 5,
    }


def test_deadline_that_is_over_or_not_known_is_no_negative_time(status: PipelineReport) -> None:
    """Retention that may begin any moment is in 0 seconds; without a deadline nothing is sent."""
    late = replace(status, summary=replace(status.summary, retention_deadline=status.at - timedelta(days=28)))
    assert seen(of_status(late))["retention.seconds", "orders"] == 0
    none = replace(status, summary=replace(status.summary, retention_deadline=None))
    assert ("retention.seconds", "orders") not in seen(of_status(none))


def gauges(world: World) -> dict[tuple[str, ...], float]:
    """Return the gauges of a status now."""
    return seen(of_status(reporting.status(world.worker(), world.spec)))


def two_partitions() -> World:
    """Two partitions of which five offsets each have landed."""
    world = World(partitions=2)
    world.produce(5)
    world.produce(5, 1)
    world.run()
    return world


def test_lost_offsets_are_not_zero_while_their_partition_has_no_leader() -> None:
    """What depends on bounds that are not known is not sent, nor that the gauges were true; nor 0 for a person."""
    world = two_partitions()
    world.produce(10)
    world.retain_from(12)
    before = gauges(world)
    assert (before["lost.offsets", "orders"], before["needs_person", "orders"]) == (7, 1)
    world.kafka.log("orders", 0).unreachable = "no leader"
    assert gauges(world) == {
        ("holds", "orders"): 0,
        ("held.offsets", "orders"): 0,
    }
    world.kafka.down = True
    assert gauges(world).keys() == {("holds", "orders"), ("held.offsets", "orders")}


def test_loss_that_is_a_recorded_hold_waits_for_a_person_without_a_leader() -> None:
    """The ledger knows it, whatever Kafka says."""
    world = two_partitions()
    world.produce(10)
    world.plan()
    world.retain_from(12)
    for wave in world.ledger.waves("orders"):
        if wave.state is WaveState.PLANNED:
            world.ingest(wave.id)
    before = gauges(world)
    assert before["holds", "orders"] == before["needs_person", "orders"] == 1
    world.kafka.log("orders", 0).unreachable = "no leader"
    assert gauges(world) == {key: before[key] for key in before if key[0] in {"holds", "held.offsets", "needs_person"}}


def test_new_partition_without_a_leader_is_not_a_lag_of_zero() -> None:
    """No plan has seen it, and no status knows its lag."""
    world = two_partitions()
    world.kafka.add_partitions("orders", 3)
    world.kafka.log("orders", 2).unreachable = "no leader"
    assert gauges(world).keys() == {("holds", "orders"), ("held.offsets", "orders")}


def test_age_is_not_sent_where_it_is_not_known_of_each_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of the others, which are up to date."""
    world = two_partitions()
    world.produce(1000)
    world.clock.advance(timedelta(days=5))
    asked = world.kafka.offsets_at
    monkeypatch.setattr(world.kafka, "offsets_at", raising(UnavailableError("no answer")))
    found = gauges(world)
    assert (found["lag.records", "orders", "orders"], found["lost.offsets", "orders"]) == (1000, 0)
    assert ("lag.seconds", "orders", "orders") not in found
    monkeypatch.setattr(world.kafka, "offsets_at", asked)
    assert 4 * 86_400 <= gauges(world)["lag.seconds", "orders", "orders"] <= 5 * 86_400


def test_age_behind_a_record_of_the_future_is_not_sent() -> None:
    """The record of the future has landed, and says nothing of those behind it."""
    world = two_partitions()
    ahead = int((world.clock.now() + timedelta(days=3650)).timestamp() * 1000)
    world.kafka.produce("orders", 0, b"future", timestamp_ms=ahead)
    world.run()
    world.produce(1000)
    world.produce(1, 1)
    world.clock.advance(timedelta(days=3))
    found = gauges(world)
    assert found["lag.records", "orders", "orders"] == 1001
    assert ("lag.seconds", "orders", "orders") not in found
    assert found["observed.seconds", "orders"] == world.clock.now().timestamp()


def raising(error: Exception) -> Callable[..., Any]:
    """Return a call that only raises."""

    def call(*_: Any, **__: Any) -> Any:
        raise error

    return call


def test_audit_gives_what_must_be_zero() -> None:
    """Also when it is."""
    world = World()
    world.produce(3)
    world.run()
    report = pipeline_audit.audit(world.worker(), world.spec)
    (stream,) = report.streams
    assert seen(of_audit(replace(report, streams=(replace(stream, missing=2),)))) == {
        ("audit.findings", "orders"): 0,
        ("audit.unexplained", "orders"): 0,
        ("audit.missing", "orders"): 2,
        ("audit.duplicates", "orders"): 0,
    }


def test_audit_of_a_part_gives_nothing() -> None:
    """Its numbers are not those of the pipeline."""
    world = two_partitions()
    world.table.delete_foreign(lambda row: row.partition == 1)
    whole = seen(of_audit(pipeline_audit.audit(world.worker(), world.spec)))
    assert (whole["audit.missing", "orders"], whole["audit.findings", "orders"]) == (5, 1)
    for scope in (StreamScope(topic="orders"), StreamScope(topic="orders", partitions=frozenset({0}))):
        assert of_audit(pipeline_audit.audit(world.worker(), world.spec, scope=scope)) == ()


def test_audit_of_a_table_that_cannot_be_read_gives_its_findings_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not counted is not 0."""
    world = two_partitions()
    monkeypatch.setattr(type(world.table), "attempt_rows", raising(DamagedTableError("a file is missing")))
    (only,) = seen(of_audit(pipeline_audit.audit(world.worker(), world.spec))).items()
    assert only[0] == ("audit.findings", "orders")
    assert only[1] >= 1


def test_names_are_such_as_every_collector_takes() -> None:
    """StatsD, Datadog and OpenTelemetry; no two alike, none too long, and no tag that grows without end."""
    names = [metric.full_name for metric in METRICS]
    assert len(names) == len(set(names)) == len({name.replace(".", "_") for name in names})
    for metric in METRICS:
        assert re.fullmatch(r"kafka_lake(\.[a-z_]+)+", metric.full_name)
        assert len(f"airflow.{metric.full_name}_milliseconds") <= 63
        assert set(metric.tags) <= {"pipeline", "topic", "outcome", "step"}


# Rules and mappings for collectors


def rules() -> list[dict[str, Any]]:
    """Return the rules of the example."""
    document = yaml.safe_load((DOCS / "examples" / "prometheus-rules.yml").read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def exported() -> dict[str, tuple[str, ...]]:
    """Return the names under which the StatsD exporter shows the metrics, with their labels."""
    found: dict[str, tuple[str, ...]] = {}
    for metric in METRICS:
        name = PREFIX + metric.full_name.replace(".", "_")
        suffixes = TIMER_SUFFIXES if metric.kind is MetricKind.TIMER else ("",)
        found |= {name + suffix: metric.tags for suffix in suffixes}
    return found


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_alert_is_by_metrics_and_labels_that_exist(rule: dict[str, Any]) -> None:
    """A rule by a misspelt name never fires."""
    known = exported()
    named = re.findall(r"\b(airflow_kafka_lake_\w+)", rule["expr"])
    assert named
    assert set(named) <= set(known)
    shared = set.intersection(*(set(known[name]) for name in named))
    for labels in re.findall(r"\b(?:by|on) \(([^)]*)\)", rule["expr"]):
        assert set(re.split(r",\s*", labels)) <= shared
    for name, selector in re.findall(r"\b(airflow_kafka_lake_\w+)\{([^}]*)\}", rule["expr"]):
        chosen = dict(re.findall(r'(\w+)!?="([^"]*)"', selector))
        assert set(chosen) <= set(known[name])
        assert chosen.get("outcome", "held") in set(Outcome)
    text = rule["annotations"]["summary"] + rule["annotations"]["action"]
    kept = {label for labels in re.findall(r"\bby \(([^)]*)\)", rule["expr"]) for label in re.split(r",\s*", labels)}
    assert set(re.findall(r"\$labels\.(\w+)", text)) <= kept


def test_alerts_are_described_and_cover_what_must_be_known() -> None:
    """Each is in the how-to; lag, holds, losses, audits and silence have one."""
    page = (DOCS / "how-to" / "watch.md").read_text()
    names = [rule["alert"] for rule in rules()]
    assert [name for name in names if f"`{name}`" not in page] == []
    used = set(re.findall(r"airflow_kafka_lake_(\w+)", " ".join(rule["expr"] for rule in rules())))
    assert {
        "lag_seconds",
        "holds",
        "lost_offsets",
        "audit_findings",
        "audit_unexplained",
        "observed_seconds",
        "waves",
    } <= used


def test_mapping_is_of_timers_that_exist() -> None:
    """Each mapping of the exporter fits a metric, and leaves it its name."""
    document = yaml.safe_load((DOCS / "examples" / "statsd-exporter.yml").read_text())
    timers = {f"airflow.{metric.full_name}" for metric in METRICS if metric.kind is MetricKind.TIMER}
    for mapping in document["mappings"]:
        pattern = re.compile(re.escape(mapping["match"]).replace(r"\*", "([^.]+)"))
        fits = {name: found for name in timers if (found := pattern.fullmatch(name))}
        assert fits
        for name, found in fits.items():
            assert mapping["name"].replace("${1}", found[1]) == name.replace(".", "_")
