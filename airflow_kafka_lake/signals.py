"""Signals: links, metrics and lineage of a task. They decide nothing and fail nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Any, assert_never

from airflow.sdk.configuration import conf

from airflow_kafka_lake.core.addresses import dry_run_page, pipeline_page, snapshot_page
from airflow_kafka_lake.core.ledger.attempts import RecordCommit
from airflow_kafka_lake.core.ledger.records import WaveRecord
from airflow_kafka_lake.core.reports.lineage import (
    MOST_SLICES,
    TopicRead,
    WaveLineage,
    catalog_namespace,
    kafka_namespace,
    name_of_location,
    topics_read,
)
from airflow_kafka_lake.core.reports.metrics import MetricKind, MetricSample, of_failure, of_wave
from airflow_kafka_lake.core.reports.progress import Moment, ProgressEvent, Step
from airflow_kafka_lake.core.reports.status import LandedWave
from airflow_kafka_lake.core.spark.job import Application
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.links import PAGE, SNAPSHOT, SPARK, never_failing, show
from airflow_kafka_lake.ports import Clock, Ports
from airflow_kafka_lake.wiring.connections import KafkaConnection, LakeConnection

# The link from a task to the page of its pipeline.


def show_page(task: Any, pipeline: str, *, wave: str | None = None, at_once: Mapping[str, Any] | None = None) -> None:
    """Link to the page of a pipeline, or of a wave on it; with a context `at_once`, before the task
    has ended."""
    with never_failing("the link to the page"):
        show(task, PAGE, pipeline_page(conf.get("api", "base_url", fallback=""), pipeline, wave), at_once=at_once)


def go_on_address(context: Mapping[str, Any]) -> str:
    """Return the page from which a person goes on after the dry run of a task's Dag run."""
    ti = context["ti"]
    return dry_run_page(conf.get("api", "base_url", fallback=""), ti.dag_id, ti.run_id)


# Metrics by Airflow's own Stats, to whichever collector Airflow sends its own: StatsD, Datadog or OpenTelemetry.

_SWITCHES = ("statsd_on", "statsd_datadog_enabled", "otel_on")


def send(make: Callable[[], Iterable[MetricSample]]) -> None:
    """Send the metrics of a fact where Airflow sends its own; a failure of that is no business of the task."""
    with never_failing("metrics"):
        if any(conf.getboolean("metrics", name, fallback=False) for name in _SWITCHES):
            for sample in make():
                _send(sample)


def _send(sample: MetricSample) -> None:
    from airflow.sdk.observability import stats

    name, tags = sample.metric.full_name, dict[str, Any](sample.tags)
    match sample.metric.kind:
        case MetricKind.COUNTER:
            stats.incr(name, int(sample.value), tags=tags)
        case MetricKind.GAUGE:
            stats.gauge(name, sample.value, tags=tags)
        case MetricKind.TIMER:
            stats.timing(name, sample.value, tags=tags)
        case _:
            assert_never(sample.metric.kind)


# Lineage of a wave for OpenLineage, in the way of Airflow's provider: a task has a method that its listener asks.
#
# The listener asks in a process of its own when the task has ended. So its facts are gathered before, while the task
# may still use its connections, and only where the provider is installed and has somewhere to send events.


def is_sent() -> bool:
    """Return whether OpenLineage's provider is installed here, and sends events."""
    try:
        from airflow.providers.openlineage import conf
    except ImportError:
        return False
    return not conf.is_disabled()


def lineage_of(spec: PipelineSpec, wave: LandedWave) -> WaveLineage:
    """Gather the inputs and outputs of a committed wave: one look at its table."""
    return WaveLineage(
        pipeline=spec.name,
        wave=wave.record.id,
        attempt=wave.attempt.attempt if wave.attempt else None,
        kafka=kafka_namespace(KafkaConnection(spec.kafka_connection).settings.bootstrap),
        topics=topics_read(wave.ranges),
        table=wave.record.table,
        described=LakeConnection(spec.lake_connection).describe(wave.record.table),
        snapshot=wave.record.snapshot,
        rows=wave.rows,
        bytes=wave.bytes,
        application=wave.application.id if wave.application else None,
    )


class WithLineage:
    """A task that landed a wave; `kafka_lake_lineage` is there once it has."""

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002  # the provider's signature
        """Return `OperatorLineage` with the topics and the table; nothing where the task has landed nothing."""
        found: WaveLineage | None = getattr(self, "kafka_lake_lineage", None)
        return None if found is None else operator_lineage(found)


def operator_lineage(found: WaveLineage) -> Any:
    """Return a wave's lineage in the provider's form."""
    from airflow.providers.openlineage.extractors import OperatorLineage

    _, wave_facet = _facets()
    return OperatorLineage(
        inputs=[_topic(found.kafka, topic) for topic in found.topics],
        outputs=[_table(found)],
        run_facets={
            "kafkaLake_wave": wave_facet(
                pipeline=found.pipeline, wave=found.wave, attempt=found.attempt, sparkApplication=found.application
            )
        },
    )


def parent_properties(context: Mapping[str, Any]) -> dict[str, str]:
    """Return the Spark settings that name a task as the parent of its Spark application; none without the provider."""
    from airflow.providers.common.compat.openlineage.utils.spark import (
        inject_parent_job_information_into_spark_properties as injected,
    )

    return {key: str(value) for key, value in injected({}, context).items()}


def _topic(namespace: str, topic: TopicRead) -> Any:
    from openlineage.client.event_v2 import InputDataset
    from openlineage.client.facet_v2 import input_statistics_input_dataset

    offsets_facet, _ = _facets()
    offsets = offsets_facet(
        topicId=topic.topic_id,
        offsets=topic.offsets,
        rangeCount=len(topic.slices),
        ranges=[
            {"partition": partition, "from": start, "to": end} for partition, start, end in topic.slices[:MOST_SLICES]
        ],
    )
    return InputDataset(
        namespace=namespace,
        name=topic.topic,
        inputFacets={
            "inputStatistics": input_statistics_input_dataset.InputStatisticsInputDatasetFacet(rowCount=topic.rows),
            "kafkaLake_offsets": offsets,
        },
    )


def _table(found: WaveLineage) -> Any:
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import (
        dataset_version_dataset,
        output_statistics_output_dataset,
        schema_dataset,
        storage_dataset,
        symlinks_dataset,
    )

    named = name_of_location(found.described.location)
    fields = [
        schema_dataset.SchemaDatasetFacetFields(name=item.name, type=item.type, description=item.doc)
        for item in found.described.columns
    ]
    facets: dict[str, Any] = {
        "schema": schema_dataset.SchemaDatasetFacet(fields=fields),
        "storage": storage_dataset.StorageDatasetFacet(
            storageLayer=found.described.format, fileFormat=found.described.file_format
        ),
    }
    if found.snapshot is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(found.snapshot))
    if found.described.catalog:
        identifier = symlinks_dataset.Identifier(
            namespace=catalog_namespace(found.described.catalog), name=found.table, type="TABLE"
        )
        facets["symlinks"] = symlinks_dataset.SymlinksDatasetFacet(identifiers=[identifier])
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=found.rows, size=found.bytes
    )
    return OutputDataset(
        namespace=named.namespace, name=named.name, facets=facets, outputFacets={"outputStatistics": statistics}
    )


@cache
def _facets() -> tuple[Any, Any]:
    """Return the classes of our own facets: of the offsets that were read, and of the wave."""
    import attr
    from openlineage.client.facet_v2 import InputDatasetFacet, RunFacet

    @attr.define
    class KafkaLakeOffsetsInputDatasetFacet(InputDatasetFacet):
        topicId: str  # noqa: N815  # OpenLineage's spelling
        offsets: int
        rangeCount: int  # noqa: N815
        ranges: list[dict[str, int]]

    @attr.define
    class KafkaLakeWaveRunFacet(RunFacet):
        pipeline: str
        wave: str
        attempt: str | None
        sparkApplication: str | None  # noqa: N815

    return KafkaLakeOffsetsInputDatasetFacet, KafkaLakeWaveRunFacet


# The link from a task to its Spark application.


class SparkPage:
    """Links to the page of a task's Spark application while it runs, and to the history server's afterwards."""

    def __init__(self, task: Any, context: Mapping[str, Any]) -> None:
        self._task = task
        self._context = context
        self.application: Application | None = None
        """The newest one: a wave that is halved has several."""

    def began(self, found: Application) -> None:
        """Link to an application that has begun, at once."""
        self.application = found
        with never_failing("the link to Spark"):
            show(self._task, SPARK, found.page or found.history, at_once=self._context)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Link to nothing that has ended with a block."""
        try:
            yield
        finally:
            if self.application is not None:
                show(self._task, SPARK, self.application.history)


# The signals of the work on a wave: the duration of its steps, and its recorded commit.


class StepTimes:
    """Times the steps of live progress, and passes them on to the display."""

    def __init__(self, live: Callable[[ProgressEvent], None], clock: Clock) -> None:
        self._live = live
        self._clock = clock
        self._seconds: dict[Step, float] = {}
        self._step: Step | None = None
        self._since = 0.0

    def __call__(self, live: ProgressEvent) -> None:
        """Take one moment."""
        if live.moment is not Moment.GOING:
            self._turn(live.progress.step if live.moment is Moment.BEGUN else None, live.at)
        self._live(live)

    def seconds(self) -> Mapping[Step, float]:
        """Return the seconds of each step until now; of a step that was repeated all of them."""
        self._turn(self._step, self._clock.monotonic())
        return dict(self._seconds)

    def _turn(self, step: Step | None, now: float) -> None:
        if self._step is not None:
            self._seconds[self._step] = self._seconds.get(self._step, 0.0) + now - self._since
        self._step, self._since = step, now


class CommittingLedger:
    """A ledger that knows whether a wave was recorded as committed through it, and is the given one in all else."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger
        self.has_committed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def commit(self, write: Any) -> Any:
        """Write, and note the record of a commit."""
        done = self._ledger.commit(write)
        self.has_committed = self.has_committed or isinstance(write, RecordCommit)
        return done


# The signals of a wave's task while it works and when the wave has landed.

_logger = logging.getLogger(__name__)


class WaveSignals:
    """The signals of one task that ingests a wave; each call returns at once, or after one call of Airflow's API."""

    def __init__(self, task: Any, context: Mapping[str, Any]) -> None:
        self._task = task
        self._context = context
        self._spark = SparkPage(task, context)
        self._ledger: CommittingLedger | None = None
        self._steps: StepTimes | None = None
        self._began = 0.0
        self._has_landed = False

    @contextmanager
    def following(self, ports: Ports, pipeline: str, wave: str) -> Iterator[Ports]:
        """Link to the wave's page from the begin of a block on, and to nothing that has ended after it; count a wave
        that fails. Yields the ports by which the block works on the wave."""
        self._began = ports.clock.monotonic()
        self._ledger = CommittingLedger(ports.ledger)
        self._steps = StepTimes(ports.live, ports.clock)
        show_page(self._task, pipeline, wave=wave, at_once=self._context)
        with self._spark.following():
            try:
                yield replace(ports, ledger=self._ledger, live=self._steps)
            except BaseException as error:
                if not self._has_landed:
                    send(partial(of_failure, pipeline, error))
                raise

    def needs(self) -> dict[str, Any]:
        """Return further arguments of `open_ports`: the receiver of an application, and its parent."""
        parent: dict[str, str] = {}
        with never_failing("the parent of the Spark application"):
            parent = parent_properties(self._context) if self._task.openlineage_inject_parent_job_info else {}
        return {"application": self._spark.began, "spark_conf": parent}

    def landed(self, ports: Ports, spec: PipelineSpec, record: WaveRecord, *, by_worker: bool = False) -> None:
        """Log the wave by all of its names, and link to its pages.

        One that a worker has brought took as long as its attempt; the steps of that are known to the worker.
        """
        self._has_landed = True
        with never_failing("the landed wave"):
            attempts = ports.ledger.attempts(record.id)
            wave = LandedWave.of(
                record,
                ports.ledger.ranges(wave=record.id),
                attempts,
                seconds=None if by_worker else ports.clock.monotonic() - self._began,
                application=self._spark.application,
            )
            _logger.info("%s", wave.describe())
            if by_worker:
                send(partial(of_wave, spec.name, wave, {}))
            elif self._steps is not None and self._ledger is not None and self._ledger.has_committed:
                send(partial(of_wave, spec.name, wave, self._steps.seconds()))
            with never_failing("lineage"):
                if is_sent():
                    self._task.kafka_lake_lineage = lineage_of(spec, wave)
        with never_failing("the link to the snapshot"):
            if record.snapshot is not None:
                template = LakeConnection(spec.lake_connection).settings.snapshot_url
                if address := snapshot_page(template, record.table, record.snapshot):
                    _logger.info("snapshot %s: %s", record.snapshot, address)
                    show(self._task, SNAPSHOT, address)
