"""What planning, recording, settling, advancing and looking cost: a log that is numbers, real SQL, a real lake."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from airflow_kafka_lake.adapters.machine import rarely_collecting
from airflow_kafka_lake.core.ledger.guards import landed
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.pages.pipeline import LISTED, pipeline_page
from airflow_kafka_lake.pages.rendering import Visitor
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services import planning, reporting, staging
from airflow_kafka_lake.services.advance import flush
from airflow_kafka_lake.services.decisions import new_id
from bench.audit import Measured, synthetic
from bench.synthetic import Log

SIZES = (1_000, 10_000, 100_000)
OFFSETS = 10
LOOKS = Visitor(base="", name="bench", csrf="", ledger="kafka_lake_ledger")


def growing(partitions: int) -> Iterator[Measured]:
    """Bring waves of so many partitions (and of fewer) into a lake, twice; say what each step took of the processor."""
    for count in (size for size in SIZES if size <= partitions):
        yield from _at(count)


def _at(count: int) -> Iterator[Measured]:
    log = Log(count, OFFSETS, 0)
    with (
        tempfile.TemporaryDirectory(prefix="kafka-lake-bench-") as folder,
        synthetic(Path(folder), log) as (ports, spec),
        rarely_collecting(),
    ):
        for name, step in _steps(ports, spec, log):
            begun = time.process_time()
            step()
            seconds = time.process_time() - begun
            mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            yield Measured(arm=f"{count:,} partitions: {name}", records=count, seconds=seconds, mib=mib)


def _steps(ports: Ports, spec: PipelineSpec, log: Log) -> Iterator[tuple[str, Callable[[], object]]]:
    def plan(*, dry_run: bool = False) -> object:
        return planning.plan(ports, spec, Bounds(), plan_id=new_id(), dry_run=dry_run)

    def settle() -> object:
        return [landed(staging.ingest(ports, wave.id)) for wave in ports.ledger.waves(spec.name)]

    yield "plan", lambda: plan(dry_run=True)
    yield "plan and record", plan
    yield "stage, audit, settle", settle
    yield "advance", lambda: ports.ledger.advance(spec.name)
    yield "send the receipts", lambda: flush(ports, spec.name)
    yield "plan, nothing new", plan
    log.offsets += OFFSETS
    yield "next plan", lambda: plan(dry_run=True)
    yield "next plan and record", plan
    yield "status", lambda: reporting.status(ports, spec)
    yield "page", lambda: pipeline_page(LOOKS, reporting.status(ports, spec, most=LISTED))
