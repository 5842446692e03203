"""Metrics of tasks by Airflow's Stats: what is sent, when nothing is, and that a collector can fail nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.sdk.observability import stats

from airflow_kafka_lake.core.errors import HeldError, JobFailedError, UnavailableError
from airflow_kafka_lake.core.ledger.attempts import ClaimWave
from airflow_kafka_lake.core.ledger.guards import landed
from airflow_kafka_lake.core.reports.metrics import METRICS
from airflow_kafka_lake.core.reports.progress import Moment, Progress, ProgressEvent, Step
from airflow_kafka_lake.operators.advance import AdvanceWatermarkOperator, confirm_events
from airflow_kafka_lake.operators.audit import AuditOperator
from airflow_kafka_lake.operators.ingest import IngestWaveOperator
from airflow_kafka_lake.operators.plan import PlanIngestOperator
from airflow_kafka_lake.services.decisions import cancel, release
from airflow_kafka_lake.services.staging import ingest
from airflow_kafka_lake.signals import StepTimes

from .conftest import ORDERS, Events, World

Context = dict[str, Any]


class Collector:
    """What Airflow's Stats hand on, by name and tags; `broken` ones refuse everything."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, ...], float] = {}
        self.broken = False

    def incr(self, stat: str, count: int = 1, rate: float = 1, *, tags: dict[str, str] | None = None) -> None:
        self._take(stat, count, tags)

    def gauge(
        self, stat: str, value: float, rate: float = 1, delta: bool = False, *, tags: dict[str, str] | None = None
    ) -> None:
        self._take(stat, value, tags)

    def timing(self, stat: str, dt: float, *, tags: dict[str, str] | None = None) -> None:
        self._take(stat, dt, tags)

    def _take(self, stat: str, value: float, tags: dict[str, str] | None) -> None:
        if self.broken:
            raise OSError("canary: no collector")
        self.values[stat.removeprefix("kafka_lake."), *(tags or {}).values()] = value


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector behind Airflow's Stats."""
    made = Collector()
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
    stats.initialize(factory=lambda: made, export_legacy_names=True)  # type: ignore[arg-type, return-value]
    yield made
    stats.initialize(factory=_no_stats(), export_legacy_names=True)


def _no_stats() -> Any:
    from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger

    return NoStatsLogger


def planned(world: World, context: Context, **given: Any) -> str:
    world.produce(5)
    context["ti"].task_id = "plan"
    (wave,) = PlanIngestOperator(task_id="plan", pipeline=ORDERS, **given).execute(context)
    context["ti"].task_id = "ingest"
    return wave


def test_tasks_send_what_they_have_done(world: World, context: Context, collector: Collector) -> None:
    """A plan, a wave with its steps, an audit."""
    wave = planned(world, context)
    IngestWaveOperator(task_id="ingest", wave=wave).execute(context)
    AuditOperator(task_id="audit", pipeline=ORDERS).execute(context)
    (attempt,) = world.ledger.attempts(wave)
    found = {name: value for name, value in collector.values.items() if not name[0].endswith(".duration")}
    known = {"planned.records", "planned.bytes", "waves", "rows", "bytes"}
    assert {name: value for name, value in found.items() if name[0] in known | {"blocked", "hanging"}} == {
        ("planned.records", "orders"): 5,
        ("planned.bytes", "orders"): context["ti"].xcom_pull("plan", "plan")["bytes"],
        ("blocked", "orders"): 0,
        ("hanging", "orders"): 0,
        ("waves", "orders", "committed"): 1,
        ("rows", "orders", "orders"): 5,
        ("bytes", "orders"): attempt.staged_bytes,
    }
    assert {name: value for name, value in found.items() if name[0].startswith("audit.")} == {
        ("audit.findings", "orders"): 0,
        ("audit.unexplained", "orders"): 0,
        ("audit.missing", "orders"): 0,
        ("audit.duplicates", "orders"): 0,
    }
    timed = {name for name in collector.values if name[0].endswith(".duration")}
    assert timed == {
        ("wave.duration", "orders"),
        *(("step.duration", "orders", s) for s in ("read", "audit", "publish")),
    }


def test_steps_are_timed_from_their_begin_to_their_end(world: World) -> None:
    """One that is repeated counts with both times, and what is shown is still shown."""
    times = StepTimes(world.seen.append, world.clock)
    moments = [
        (Moment.BEGUN, Step.READ, 10), (Moment.GOING, Step.READ, 12), (Moment.ENDED, Step.READ, 15),
        (Moment.BEGUN, Step.AUDIT, 16), (Moment.BEGUN, Step.READ, 20), (Moment.LANDED, Step.PUBLISH, 21),
    ]  # fmt: skip
    for moment, step, at in moments:
        times(ProgressEvent(subject="wave w", moment=moment, progress=Progress(step=step), at=at, seconds=0))
    assert times.seconds() == {Step.READ: 6, Step.AUDIT: 4}
    assert [(item.moment, item.at) for item in world.seen] == [(moment, at) for moment, _, at in moments]


def test_wave_that_another_has_landed_is_not_counted_again(
    world: World, context: Context, collector: Collector
) -> None:
    """Neither by a task that is cleared afterwards, nor by one that meets it while it begins."""
    wave = planned(world, context)
    alive = world.ledger.commit

    def late(write: Any) -> Any:
        if isinstance(write, ClaimWave):
            world.ledger.commit = alive  # type: ignore[method-assign]
            landed(ingest(world.ports(), wave))
        return alive(write)

    world.ledger.commit = late  # type: ignore[method-assign]
    assert IngestWaveOperator(task_id="ingest", wave=wave).execute(context)["state"] == "COMMITTED"
    IngestWaveOperator(task_id="ingest", wave=wave).execute(context)
    assert [name for name in collector.values if name[0] in {"waves", "rows", "bytes"}] == []


def test_failure_is_counted_by_its_outcome(world: World, context: Context, collector: Collector) -> None:
    """A job that fails, then a wave of which everything is held."""
    wave = planned(world, context)
    world.runner.failures.append("the job ended")
    with pytest.raises(JobFailedError):
        IngestWaveOperator(task_id="ingest", wave=wave).execute(context)
    assert collector.values["waves", "orders", "job_failed"] == 1
    world.runner.tamper = lambda rows: rows[1:]
    with pytest.raises(Exception, match=HeldError.__name__):
        IngestWaveOperator(task_id="ingest", wave=wave).execute(context)
    assert collector.values["waves", "orders", "held"] == 1
    assert ("waves", "orders", "committed") not in collector.values


def test_moves_of_watermarks_are_counted_once(world: World, told: Events, collector: Collector) -> None:
    """When Airflow has accepted the event that tells of them; the next task has nothing to tell."""
    world.produce(5)
    (wave,) = PlanIngestOperator(task_id="plan", pipeline=ORDERS).execute(told.task("plan"))
    context = told.task("ingest", 0)
    context["task"] = IngestWaveOperator(task_id="ingest", wave=wave)
    context["task"].execute(context)
    assert [name for name in collector.values if name[0].startswith("watermark.")] == []
    told.end(context)
    confirm_events(context)
    moved = {name: value for name, value in collector.values.items() if name[0].startswith("watermark.")}
    assert moved == {("watermark.moves", "orders", "orders"): 1, ("watermark.offsets", "orders", "orders"): 5}


def test_what_fails_after_a_wave_has_landed_makes_it_no_failure(
    world: World, context: Context, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wave counts as committed, and only so."""
    wave = planned(world, context)

    def refuse(*_: Any) -> None:
        raise UnavailableError("the ledger is gone")

    monkeypatch.setattr(world.ledger, "advance", refuse)
    with contextlib.suppress(UnavailableError):
        IngestWaveOperator(task_id="ingest", wave=wave).execute(context)
    assert {name[2] for name in collector.values if name[0] == "waves"} == {"committed"}


def test_run_ends_with_the_gauges_of_its_status(world: World, context: Context, collector: Collector) -> None:
    """Lag and age by topic, holds and losses: what `status` shows, also when waves have failed."""
    wave = planned(world, context)
    AdvanceWatermarkOperator(task_id="advance", pipeline=ORDERS, plan_task_id="plan").execute(context)
    assert collector.values["lag.records", "orders", "orders"] == 5
    cancel(world.ports(), wave, reason="later")
    AdvanceWatermarkOperator(task_id="advance", pipeline=ORDERS, plan_task_id="plan").execute(context)
    assert {name: collector.values[name, "orders"] for name in ("holds", "needs_person", "held.offsets")} == {
        "holds": 1,
        "needs_person": 1,
        "held.offsets": 5,
    }
    assert collector.values["lost.offsets", "orders"] == 0
    release(world.ports(), wave, reason="now")
    IngestWaveOperator(task_id="ingest", wave=world.ledger.waves("orders")[-1].id).execute(context)
    AdvanceWatermarkOperator(task_id="advance", pipeline=ORDERS, plan_task_id="plan").execute(context)
    assert (collector.values["lag.records", "orders", "orders"], collector.values["holds", "orders"]) == (0, 0)
    assert collector.values["lag.seconds", "orders", "orders"] == 0
    assert collector.values["observed.seconds", "orders"] == world.clock.now().timestamp()


def test_collector_that_is_broken_fails_no_task(
    world: World, context: Context, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    """The wave lands, and the log has the kind of the problem without its text."""
    collector.broken = True
    with caplog.at_level("INFO"):
        task = IngestWaveOperator(task_id="ingest", wave=planned(world, context))
        assert task.execute(context)["state"] == "COMMITTED"
    assert "metrics could not be shown (OSError)" in caplog.text
    assert "canary" not in caplog.text


def test_nothing_is_asked_where_nothing_is_sent(
    world: World, context: Context, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a collector in `[metrics]` a task does nothing for one."""
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "False")
    IngestWaveOperator(task_id="ingest", wave=planned(world, context)).execute(context)
    assert collector.values == {}


def test_opentelemetry_takes_every_metric() -> None:
    """Airflow's own logger for it makes an instrument of each name, with its tags as attributes."""
    from airflow.sdk._shared.observability.metrics.otel_logger import SafeOtelLogger
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    logger = SafeOtelLogger(MeterProvider([reader]))
    for metric in METRICS:
        send = {"counter": logger.incr, "gauge": logger.gauge, "timer": logger.timing}[metric.kind]
        send(metric.full_name, 1, tags=dict.fromkeys(metric.tags, "x"))  # type: ignore[operator]
    data = reader.get_metrics_data()
    assert data is not None
    made = {
        item.name: set(item.data.data_points[0].attributes or {})
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for item in scope.metrics
    }
    assert made == {f"airflow.{metric.full_name}": set(metric.tags) for metric in METRICS}
