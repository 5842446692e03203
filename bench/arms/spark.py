"""Jobs that a person would write with Spark alone, and what bounds them: reading without writing."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.arms.arm import Arm
from bench.arms.place import SPARK_TABLE, Place
from bench.content import Content
from bench.measuring import Cost
from bench.workloads import DECODED, Workload

PROGRAM = Path(__file__).with_name("spark_program.py")

KAFKA_OPTIONS = {
    "kafka.fetch.max.wait.ms": "10",
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(4 * 1024 * 1024),
    "kafka.receive.buffer.bytes": "-1",
    "kafka.enable.metrics.push": "false",
}
"""What this package has found for reading bounded ranges: a plain job can have them too."""

WRITE_OPTIONS = {
    "compression-codec": "zstd",
    "compression-level": "1",
    "distribution-mode": "none",
    "fanout-enabled": "true",
}
CACHES = {
    "spark.kafka.consumer.fetchedData.cache.timeout": "5s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "5s",
    "spark.kafka.consumer.cache.capacity": "16",
}
_GATHERED = 16
"""Partitions above which a tuned job gathers them into so many tasks."""


class SparkArm(Arm):
    """A program under spark-submit; `mode` is what it does, `tuned` whether it has our options."""

    def __init__(self, name: str, says: str, *, mode: str, tuned: bool = False) -> None:
        self.name, self.says = name, says
        self._mode, self._tuned = mode, tuned
        self.lands = mode in {"batch", "stream"}

    def prepare(self, place: Place) -> None:
        if self.lands:
            place.create_table()

    def command(self, place: Place) -> Sequence[str]:
        return place.spark_submit(PROGRAM, self.request(place), CACHES if self._tuned else {}, name=self.name)

    def request(self, place: Place) -> dict[str, Any]:
        """Return what the program is told."""
        tuned = KAFKA_OPTIONS if self._tuned else {}
        return {
            "mode": self._mode,
            "table": SPARK_TABLE,
            "kafka": {
                "kafka.bootstrap.servers": place.bootstrap,
                "kafka.isolation.level": "read_committed",
                "subscribe": ",".join(place.topics),
                "startingOffsets": "earliest",
                "includeHeaders": "true",
                **tuned,
            },
            "write": WRITE_OPTIONS if self._tuned else {},
            "tasks": _GATHERED if self._tuned and place.workload.partitions > _GATHERED else None,
            "decoded": decoded_ddl(place.workload),
        }

    def environment(self, place: Place) -> Mapping[str, str]:
        return place.rivals_environment

    def problem(self, place: Place, expected: Content, cost: Cost) -> str | None:
        if self.lands:
            return super().problem(place, expected, cost)
        said = (place.home / "stdout").read_text().split()
        return None if said == [str(expected.rows)] else f"it counted {said}, not {expected.rows} rows"


def decoded_ddl(workload: Workload) -> str:
    """Return the columns of a decoded value as Spark's DDL; nothing where values stay as they are."""
    if not workload.decoded:
        return ""
    return ", ".join(f"{name} {'bigint' if kind == 'long' else kind}" for name, kind in DECODED.items())


class SubmitForEach(Arm):
    """A spark-submit for each partition, as many at a time as there are cores: what a mapped task of a Dag is."""

    name = "submit-for-each"
    says = "a spark-submit for each partition, one for each core at a time, without Airflow's own time"
    most_repeats = 1

    def fits(self, workload: Workload) -> bool:
        return workload.through_airflow

    def prepare(self, place: Place) -> None:
        place.create_table()

    def command(self, place: Place) -> Sequence[str]:
        each = place.workload.partitions // len(place.topics)
        commands = []
        for topic in place.topics:
            for number in range(each):
                request = SparkArm("", "", mode="batch").request(place)
                del request["kafka"]["subscribe"]
                request["kafka"] |= {"assign": json.dumps({topic: [number]})}
                (place.home / f"{topic}-{number}").mkdir()
                request["home"] = str(place.home / f"{topic}-{number}")
                commands.append(place.spark_submit(PROGRAM, request, {}, name=f"{topic}-{number}"))
        plan = place.home / "submits.json"
        plan.write_text(json.dumps({"commands": commands, "at_once": place.cores}))
        return [sys.executable, str(Path(__file__).with_name("submits.py")), str(plan)]

    def environment(self, place: Place) -> Mapping[str, str]:
        return place.rivals_environment
