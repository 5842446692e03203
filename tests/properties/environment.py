"""What happens around the workers of a history: to Kafka, to jobs that no worker waits for, to the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.spec import PipelineSpec
from tests.kit.memory_lake import Row
from tests.kit.memory_runner import Position
from tests.properties.scheduler import Jobs
from tests.world import World

BESIDE = "returns"
"""Another topic of the pipeline, which may be deleted: that is its own business."""
SPEC = PipelineSpec(
    name="orders", topics=("orders", BESIDE), table="raw.orders", target_range_bytes=200, max_wave_bytes=500
)
PARTITIONS = 2
MOST_PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens; what the numbers mean is the thing's own business."""

    what: str
    a: int = 0
    b: int = 0
    stop: str = ""
    late: bool = False


class Surroundings:
    """A world, and the jobs and transactions that are open in it."""

    def __init__(self, world: World | None = None) -> None:
        self.world = world or World(PARTITIONS, SPEC)
        self.jobs = Jobs()
        self._transactions = 0
        self._running: list[str] = []
        self.world.produce(3, 0)
        self.world.produce(2, 1)
        self.make_beside()

    # Kafka

    @property
    def is_beside(self) -> bool:
        """Whether the other topic is there."""
        return BESIDE in self.world.kafka._topics

    def make_beside(self) -> None:
        """Create the other topic, where it is not there."""
        if not self.is_beside:
            self.world.create(BESIDE)
            self.world.produce(1, topic=BESIDE)

    def produce_beside(self, step: Step) -> None:
        """Write records to the other topic, where it is there."""
        if self.is_beside:
            self.world.produce(step.b, topic=BESIDE)

    def delete_beside(self) -> None:
        """Delete the other topic, with what was not read of it."""
        self.world.kafka.delete_topic(BESIDE)

    def transact(self, step: Step) -> None:
        """Write a transaction: aborted, committed, or left open."""
        self._transactions += 1
        name = f"t{self._transactions}"
        self.world.produce(2, step.a, transaction=name)
        if step.b == 2:
            self._running.append(name)
        else:
            self.world.end(name, commit=bool(step.b))

    def end_transaction(self, *, commit: bool) -> None:
        """End the oldest open transaction."""
        if self._running:
            self.world.end(self._running.pop(0), commit=commit)

    def recreate(self) -> None:
        """Delete the topic and create it anew, with records at the same offsets."""
        self._running.clear()
        self.world.create("orders", PARTITIONS)
        self.world.produce(4, 0)
        self.world.produce(4, 1)

    def produce(self, step: Step) -> None:
        """Write records to a partition, if it is there."""
        if step.a < len(self.world.kafka._topics["orders"].logs):
            self.world.produce(step.b, step.a)

    def expand(self) -> None:
        """Give the topic one more partition, with records in it."""
        described = self.world.kafka.describe(["orders"]) if not self.world.kafka.down else ()
        if described and described[0].partitions < MOST_PARTITIONS:
            self.world.kafka.add_partitions("orders", described[0].partitions + 1)
            self.world.produce(2, described[0].partitions)

    def retain(self, step: Step) -> None:
        """Let retention pass some offsets."""
        log = self.world.kafka.log("orders", step.a)
        self.world.retain_from(log.log_start + step.b, step.a)

    def time_passes(self, seconds: int) -> None:
        """Move the clock, or set it back."""
        if seconds < 0:
            self.world.clock.step(timedelta(seconds=seconds))
        else:
            self.world.clock.advance(timedelta(seconds=seconds))

    # Jobs and the lake

    def finish_orphan(self) -> None:
        """Let a job whose worker is gone finish."""
        if self.jobs.orphans:
            job = self.jobs.orphans.pop(next(iter(self.jobs.orphans)))
            try:
                self.world.runner.finish(job)
            except KafkaLakeError as error:
                self.world.said.append(str(error))

    def tamper(self, how: int) -> None:
        """Let the next job write a row twice, leave one out, or write one too many."""

        def once(rows: list[Position]) -> list[Position]:
            self.world.runner.tamper = lambda later: later
            if not rows:
                return rows
            topic, topic_id, partition, offset, *record = rows[-1]
            stray = (topic, topic_id, partition, offset + 50, *record)
            return [[*rows, rows[-1]], rows[:-1], [*rows, stray]][how]

        self.world.runner.tamper = once

    def in_the_lake(self, step: Step) -> None:
        """Let something happen to the table, if it is there."""
        table = self.world.table
        if table._store is not None and self.world.lake.reachable:
            LAKE_HAPPENINGS[step.what](table)

    def delete_rows(self, step: Step) -> None:
        """Let another engine delete old rows of a partition, as row retention does, or one of them."""
        table, partition = self.world.table, step.a
        if table._store is None or not self.world.lake.reachable:
            return
        mine = sorted(row.offset for row in table.rows() if (row.topic, row.partition) == ("orders", partition))
        gone = set(mine[: step.b] if step.b else mine[-1:])
        for row in table.rows():
            if row.partition == partition and row.offset in gone:
                self.world.deleted[row.stream].add(row.offset)
        table.delete_foreign(lambda row: row.partition == partition and row.offset in gone)


FOREIGN = Row(topic="foreign", topic_id="foreign", partition=0, offset=0, key=None, value=None, attempt="")
LAKE_HAPPENINGS: dict[str, Callable] = {  # type: ignore[type-arg]
    "expire": lambda table: table.expire(),
    "foreign": lambda table: table.write_foreign([FOREIGN]),
    "respec": lambda table: table.change_spec(),
    "late answer": lambda table: table.land_late(),
}
