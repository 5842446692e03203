"""Metrics by Airflow's own Stats, to whichever collector Airflow sends its own: StatsD, Datadog or OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, assert_never

from airflow_kafka_lake.core.metrics.samples import of_status
from airflow_kafka_lake.core.metrics.table import Kind, Sample
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.links.task_links import never_failing
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.reporting import status

_SWITCHES = ("statsd_on", "statsd_datadog_enabled", "otel_on")


def are_sent() -> bool:
    """Return whether this Airflow sends metrics anywhere."""
    from airflow.sdk.configuration import conf

    return any(conf.getboolean("metrics", name, fallback=False) for name in _SWITCHES)


def send(make: Callable[[], Iterable[Sample]]) -> None:
    """Send what a fact gives; whatever goes wrong with that is no business of the task."""
    with never_failing("metrics"):
        if are_sent():
            for sample in make():
                _send(sample)


def send_status(ports: Ports, spec: PipelineSpec) -> None:
    """Ask ledger and Kafka how a pipeline is, as `status` does, and send that; asks neither where nothing is sent."""
    send(lambda: of_status(status(ports, spec)))


def _send(sample: Sample) -> None:
    from airflow.sdk.observability import stats

    name, tags = sample.metric.full_name, dict[str, Any](sample.tags)
    match sample.metric.kind:
        case Kind.COUNTER:
            stats.incr(name, int(sample.value), tags=tags)
        case Kind.GAUGE:
            stats.gauge(name, sample.value, tags=tags)
        case Kind.TIMER:
            stats.timing(name, sample.value, tags=tags)
        case _:
            assert_never(sample.metric.kind)
