"""What planning, recording, settling and advancing cost by themselves: a log of numbers, real SQL, a real lake."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.services import planning, staging
from airflow_kafka_lake.services.advance import advance
from airflow_kafka_lake.services.decisions import new_id
from bench.audit import Measured, synthetic
from bench.synthetic import Log

SIZES = (1_000, 10_000, 100_000)
OFFSETS = 10


def growing(partitions: int) -> Iterator[Measured]:
    """Bring one wave of so many partitions (and of fewer) into a lake; say what each step took."""
    for count in (size for size in SIZES if size <= partitions):
        yield from _at(count)


def _at(count: int) -> Iterator[Measured]:
    with (
        tempfile.TemporaryDirectory(prefix="kafka-lake-bench-") as folder,
        synthetic(Path(folder), Log(count, OFFSETS, 0)) as (ports, spec),
    ):
        steps = {
            "plan": lambda: planning.plan(ports, spec, Bounds(), plan_id=new_id(), dry_run=True),
            "plan and record": lambda: planning.plan(ports, spec, Bounds(), plan_id=new_id()),
            "stage, audit, settle": lambda: [staging.ingest(ports, wave.id) for wave in ports.ledger.waves(spec.name)],
            "advance": lambda: advance(ports, spec.name),
        }
        for name, step in steps.items():
            begun = time.monotonic()
            step()
            seconds = time.monotonic() - begun
            mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            yield Measured(arm=f"{count:,} partitions: {name}", records=count, seconds=seconds, mib=mib)
