"""What the task of a wave tells others while it works and when the wave has landed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from airflow_kafka_lake.core.addresses import snapshot_page
from airflow_kafka_lake.core.documents.landed import LandedWave, seconds_of
from airflow_kafka_lake.core.ledger.records import WaveRecord
from airflow_kafka_lake.core.metrics.samples import of_failure, of_wave
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.links.task_links import SNAPSHOT, never_failing, show
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.signals import lineage, metrics
from airflow_kafka_lake.signals.page import show_page
from airflow_kafka_lake.signals.spark import SparkPage
from airflow_kafka_lake.signals.steps import CommittingLedger, StepTimes
from airflow_kafka_lake.wiring.lake import LakeConnection

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
                    metrics.send(partial(of_failure, pipeline, error))
                raise

    def needs(self) -> dict[str, Any]:
        """Return what `open_ports` is given besides: who hears of an application, and who is named as its parent."""
        return {"application": self._spark.began, "spark_conf": self._parent()}

    def _parent(self) -> dict[str, str]:
        with never_failing("the parent of the Spark application"):
            if self._task.openlineage_inject_parent_job_info:
                return lineage.parent_properties(self._context)
        return {}

    def landed(self, ports: Ports, spec: PipelineSpec, record: WaveRecord, *, by_worker: bool = False) -> None:
        """Log the wave by all of its names, and link to what is left to see of it.

        One that a worker has brought took as long as its attempt; the steps of that are known to the worker.
        """
        self._has_landed = True
        with never_failing("the landed wave"):
            attempts = ports.ledger.attempts(record.id)
            wave = LandedWave.of(
                record,
                ports.ledger.ranges(wave=record.id),
                attempts,
                seconds=seconds_of(attempts) if by_worker else ports.clock.monotonic() - self._began,
                application=self._spark.application,
            )
            _logger.info("%s", wave.describe())
            if by_worker:
                metrics.send(partial(of_wave, spec.name, wave, {}))
            elif self._steps is not None and self._ledger is not None and self._ledger.has_committed:
                metrics.send(partial(of_wave, spec.name, wave, self._steps.seconds()))
            self._keep_lineage(spec, wave)
        with never_failing("the link to the snapshot"):
            self._link_snapshot(spec, record)

    def _keep_lineage(self, spec: PipelineSpec, wave: LandedWave) -> None:
        with never_failing("lineage"):
            if lineage.is_sent():
                self._task.kafka_lake_lineage = lineage.lineage_of(spec, wave)

    def _link_snapshot(self, spec: PipelineSpec, record: WaveRecord) -> None:
        if record.snapshot is None:
            return
        template = LakeConnection(spec.lake_connection).settings.snapshot_url
        if address := snapshot_page(template, record.table, record.snapshot):
            _logger.info("snapshot %s: %s", record.snapshot, address)
            show(self._task, SNAPSHOT, address)
