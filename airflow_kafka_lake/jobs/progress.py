"""Write what a driver has counted to a file beside its request.

When the file no longer changes, the driver hangs or was stopped, and its worker no longer renews the lease. What it
counts is shown to people, and nothing is decided by it.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.core.progress import Counters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRESS_FILE = "progress"
_SECONDS = 2.0
_LAST_MS = 5_000
_ROOM = 512
"""Bytes that the file has from the first write on: a disk that is full later has room for every other one."""

_ROWS = "number of output rows"
_KAFKA, _TABLE, _FILTER = ("Scan KafkaRelation", "Scan ExistingRDD"), "BatchScan ", "Filter"
"""How Spark names the sources in a query's plan."""

_WITHIN = " kafka"
"""Ends the name of a query that Spark makes to plan a read of Kafka: its rows are those of the read."""

_VALUE = re.compile(r"(\d+) -> (\d+(?:,\d{3})*)")
_NESTED = 16
"""Spark lists a query after those that it has begun while it was planned, so many at most; they may be over by then."""

_LOOK_AGAIN = 15
"""After so many looks the plan of a running query is read again: it may have changed while it runs."""


@contextmanager
def progress_lines(spark: SparkSession, folder: Path) -> Iterator[None]:
    """Write Spark's progress to `folder` whenever it changes, and once more when the block has ended."""
    ended, file = threading.Event(), folder / PROGRESS_FILE
    counts = Counts(spark, before=newest_query(spark), stages_before=active_stages(spark))
    reporter = threading.Thread(target=report_progress, args=(counts, file, ended), daemon=True)
    reporter.start()
    try:
        yield
    finally:
        await_counts(spark)
        ended.set()
        reporter.join()


def await_counts(spark: Any) -> None:
    """Wait a moment for what was counted last, which is on its way to where it is looked up."""
    with suppress(Exception):  # what is shown may be old
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_LAST_MS)  # noqa: SLF001 - no public door in Python


def newest_query(spark: Any) -> int:
    """Return the newest query of a session that has worked before; -1 for none."""
    with suppress(Exception):  # shown numbers may be wrong, and the job must go on
        queries = spark._jsparkSession.sharedState().statusStore().executionsList()  # noqa: SLF001 - no public door in Python
        last = range(max(0, queries.size() - _NESTED - 1), queries.size())
        return max((queries.apply(place).executionId() for place in last), default=-1)
    return -1


def active_stages(spark: Any) -> frozenset[int]:
    """Return the stages that work already: those of an earlier job, whose end is not noted yet."""
    with suppress(Exception):  # as above
        return frozenset(Counts(spark).active())
    return frozenset()


def report_progress(counts: Counts, file: Path, ended: Any) -> None:
    """Read a Spark session's progress every few seconds and write it when it has changed, until `ended` is set.

    A failed read or write is tried again, because a worker ends a driver without progress.
    """
    last, is_over = "", False
    while True:
        try:
            if (found := counts.read()) != last:
                _write(file, found)
                last = found
        except Exception:  # noqa: BLE001 - a full disk, a folder that is gone, whatever the gateway to Java raises
            last = ""
        if is_over:
            return
        is_over = ended.wait(_SECONDS)


def _write(file: Path, text: str) -> None:
    """Write over what is there, without making room anew."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.pwrite(descriptor, text.ljust(_ROOM).encode(), 0)
    finally:
        os.close(descriptor)


@dataclass(slots=True)
class Query:
    """A query: the metrics that count the rows of its sources, and what they have counted."""

    kafka: tuple[int, ...] = ()
    tables: tuple[int, ...] = ()
    looks: int = 0
    rows: int = 0
    table_rows: int = 0
    is_over: bool = False


@dataclass(slots=True)
class Counts:
    """What a session has counted over the queries after `before`, and over all stages but `stages_before`.

    Executors report the rows of a task that runs every ten seconds, or as `spark.executor.heartbeatInterval` says. In a
    local master the counters of a stage do not change before a task ends, because Spark sends them without names there:
    rows are read from the metrics of queries.
    """

    spark: Any
    before: int = -1
    stages_before: frozenset[int] = frozenset()
    queries: dict[int, Query] = field(default_factory=dict)
    stages: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    def read(self) -> str:
        """Return the present counters as JSON, with a digest that changes with whatever Spark has done."""
        active = self.active()
        found = {number: self._sql().executionMetrics(number).toString() for number in self._running()}
        signs = f"{sorted((number, stage[0]) for number, stage in active.items())} {list(found.values())}"
        with suppress(Exception):  # what is shown may be old; the sign of life may not be lost over it
            self._count_stages(active)
            self._count_rows(found)
        return self._counters().to_json(sign=hashlib.sha256(signs.encode()).hexdigest()[:16])

    def _counters(self) -> Counters:
        return Counters(
            rows=sum(query.rows for query in self.queries.values()),
            table_rows=sum(query.table_rows for query in self.queries.values()),
            tasks_done=sum(done for done, _, _ in self.stages.values()),
            tasks=sum(tasks for _, tasks, _ in self.stages.values()),
            bytes_written=sum(size for _, _, size in self.stages.values()),
            application=self._application(),
        )

    def _application(self) -> str:
        with suppress(Exception):  # what is shown may be missing; the sign of life may not be lost over it
            return str(self.spark.sparkContext.applicationId)
        return ""

    def active(self) -> dict[int, tuple[int, int, int]]:
        """Return of each active stage how many tasks are done, how many it has, and what they have written."""
        stages = self.spark.sparkContext._jsc.sc().statusStore().activeStages()  # noqa: SLF001 - no public door in Python
        listed = (stages.apply(number) for number in range(stages.size()))
        found = {stage.stageId(): (stage.numCompleteTasks(), stage.numTasks(), stage.outputBytes()) for stage in listed}
        return {number: stage for number, stage in found.items() if number not in self.stages_before}

    def _count_stages(self, active: dict[int, tuple[int, int, int]]) -> None:
        for number, (_, tasks, size) in self.stages.items():
            if number not in active:
                self.stages[number] = (tasks, tasks, size)
        self.stages |= active

    def _sql(self) -> Any:
        return self.spark._jsparkSession.sharedState().statusStore()  # noqa: SLF001 - as above

    def _running(self) -> list[int]:
        """Return the queries that run, and once more those that have ended since they were last looked at."""
        listed, new, over = self._sql().executionsList(), dict[int, Any](), 0
        for place in reversed(range(listed.size())):  # by number; thousands may be over
            query = listed.apply(place)
            number = query.executionId()
            over += number in self.queries and self.queries[number].is_over
            if number <= self.before or over > _NESTED:
                break
            if number not in self.queries:
                new[number] = query
        for number, known in self.queries.items():
            if number not in new and not known.is_over:
                found = self._sql().execution(number)
                if found.isDefined():
                    new[number] = found.get()
                known.is_over = not found.isDefined()  # one of thousands, which Spark has forgotten
        for number, query in new.items():
            self.queries.setdefault(number, Query()).is_over = query.completionTime().isDefined()
        return sorted(new)

    def _count_rows(self, found: dict[int, str]) -> None:
        for number, text in found.items():
            query = self.queries[number]
            if query.looks % _LOOK_AGAIN == 0 or query.is_over:
                query.kafka, query.tables = self._sources(number)
            query.looks += 1
            values = {int(name): int(value.replace(",", "")) for name, value in _VALUE.findall(text)}
            query.rows = sum(values.get(metric, 0) for metric in query.kafka)
            query.table_rows = sum(values.get(metric, 0) for metric in query.tables)

    def _sources(self, number: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the metrics of a query's plan that count rows of Kafka, and rows of tables.

        Records that the driver itself has read (`jobs.overflowing`) are Kafka's too. Where a filter follows a read of
        Kafka, its rows count: a paced reader gives signs of life too, which are no records.
        """
        kafka, tables = list[int](), list[int]()
        graph = self._sql().planGraph(number)
        nodes, edges = graph.allNodes(), graph.edges()
        into = {edges.apply(place).fromId(): edges.apply(place).toId() for place in range(edges.size())}
        filters = {node.id(): node for node in map(nodes.apply, range(nodes.size())) if node.name() == _FILTER}
        for place in range(nodes.size()):
            node = nodes.apply(place)
            name = node.name()
            if name.startswith(_KAFKA) and not name.rstrip().endswith(_WITHIN):
                kafka += _rows_of(filters.get(into.get(node.id()), node))
            elif name.startswith(_TABLE):
                tables += _rows_of(node)
        return tuple(kafka), tuple(tables)


def _rows_of(node: Any) -> Iterator[int]:
    metrics = node.metrics()
    for place in range(metrics.size()):
        metric = metrics.apply(place)
        if metric.name() == _ROWS:
            yield metric.accumulatorId()
