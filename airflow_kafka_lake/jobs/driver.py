"""A driver around a job: take its request, open a session, write its application, its progress and its result."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.core.reports.progress import Counters
from airflow_kafka_lake.jobs.caller import MESSAGES_FILE, PROGRESS_FILE, RESULT_FILE
from airflow_kafka_lake.jobs.java import java_context, java_of, java_session, meet_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_whole(file: Path, text: str) -> None:
    unfinished = file.with_name(f"{file.name}.part")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.rename(file)


def _application(context: Any) -> dict[str, Any]:
    """Return the facts of an application in `Counters`; its page is behind the master's reverse proxy if it has one."""
    conf, page = context.getConf(), context.uiWebUrl
    proxy = conf.get("spark.ui.reverseProxyUrl", "")
    if proxy and conf.get("spark.ui.reverseProxy", "false").lower() == "true":
        page = f"{proxy.rstrip('/')}/proxy/{context.applicationId}/"
    is_logged = conf.get("spark.eventLog.enabled", "false").lower() == "true"
    return {"application": str(context.applicationId), "page": page, "is_logged": is_logged}


# Write a driver's counts to a file beside its request.
#
# When the file no longer changes, the driver hangs or was stopped, and its worker no longer renews the lease. Its
# counts are shown to people, and nothing is decided by them.

_SECONDS = 2.0
_LAST_MS = 5_000
_ROOM = 512
"""Bytes that the file has from the first write on: a disk that is full later has room for every other one."""

_ROWS = "number of output rows"
_KAFKA, _FILTER = ("Scan KafkaRelation", "Scan ExistingRDD"), "Filter"
"""How Spark names the sources in a query's plan."""

_WITHIN = " kafka"
"""Ends the name of a query that Spark makes to plan a read of Kafka: its rows are those of the read."""

_VALUE = re.compile(r"(\d+) -> (\d+(?:,\d{3})*)")
_NESTED = 16
"""Spark lists a query after the queries that were begun while it was planned, so many at most; they may be over."""

_LOOK_AGAIN = 15
"""After so many looks the plan of a running query is read again: it may have changed while it runs."""


@contextmanager
def progress_lines(spark: SparkSession, folder: Path) -> Iterator[None]:
    """Write Spark's progress to `folder` whenever it changes, and once more when the block has ended."""
    ended, file = threading.Event(), folder / PROGRESS_FILE
    counts = Counts(spark, before=newest_query(spark), written=written(spark))
    reporter = threading.Thread(target=report_progress, args=(counts, file, ended), daemon=True)
    reporter.start()
    try:
        yield
    finally:
        await_counts(spark)
        ended.set()
        reporter.join()


def await_counts(spark: Any) -> None:
    """Wait a moment for the last counts, which are on their way to the place where they are looked up."""
    with suppress(Exception):  # the counts shown may be old
        java_context(spark).listenerBus().waitUntilEmpty(_LAST_MS)


def written(spark: Any) -> int:
    """Return how many rows this driver has written without a query (`TableAppend.java`)."""
    with suppress(Exception):  # a session without our jar, or without a Java: it has written none
        return int(java_of(spark).airflow_kafka_lake.TableAppend.rows())
    return 0


def newest_query(spark: Any) -> int:
    """Return the newest query of a session that has worked before; -1 for none."""
    with suppress(Exception):  # shown numbers may be wrong, and the job must go on
        queries = java_session(spark).sharedState().statusStore().executionsList()
        last = range(max(0, queries.size() - _NESTED - 1), queries.size())
        return max((queries.apply(place).executionId() for place in last), default=-1)
    return -1


def report_progress(counts: Counts, file: Path, ended: Any) -> None:
    """Read a Spark session's progress every few seconds and write it when it has changed, until `ended` is set.

    A failed read or write is tried again, because a worker ends a driver without progress.
    """
    last, is_over = "", False
    while True:
        try:
            if (found := counts.read()) != last:
                _write_progress(file, found)
                last = found
        except Exception:  # noqa: BLE001 - a full disk, a folder that is gone, whatever the gateway to Java raises
            last = ""
        if is_over:
            return
        is_over = ended.wait(_SECONDS)


def _write_progress(file: Path, text: str) -> None:
    """Overwrite the file, without making room anew."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.pwrite(descriptor, text.ljust(_ROOM).encode(), 0)
    finally:
        os.close(descriptor)


@dataclass(slots=True)
class Query:
    """A query: the metrics that count its rows of Kafka, and their counts."""

    kafka: tuple[int, ...] = ()
    looks: int = 0
    rows: int = 0
    is_over: bool = False


@dataclass(slots=True)
class Counts:
    """The counts of a session over the queries after `before`, and the rows written without one after `written`.

    Executors report the rows of a task that runs every ten seconds, or as `spark.executor.heartbeatInterval` says. In a
    local master the counters of a stage do not change before a task ends, because Spark sends them without names there:
    rows are read from the metrics of queries.
    """

    spark: Any
    before: int = -1
    written: int = 0
    queries: dict[int, Query] = field(default_factory=dict)
    application: dict[str, Any] = field(default_factory=dict)

    def read(self) -> str:
        """Return the present counters as JSON, with a digest that changes with whatever Spark has done."""
        found = {number: self._sql().executionMetrics(number).toString() for number in self._running()}
        rows = written(self.spark) - self.written
        signs = f"{self._tasks_done()} {list(found.values())} {rows}"
        with suppress(Exception):  # the counts shown may be old; the sign of life may not be lost over it
            self._count_rows(found)
        with suppress(Exception):  # Spark Connect has no context: no job fails for want of a link to it
            self.application = self.application or _application(self.spark.sparkContext)
        rows += sum(query.rows for query in self.queries.values())
        counters = Counters(rows=rows, executors=self._executors(), **self.application)
        return counters.to_json(sign=hashlib.sha256(signs.encode()).hexdigest()[:16])

    def _executors(self) -> int:
        with suppress(Exception):  # the number may be missing; the sign of life may not be lost over it
            context = java_context(self.spark)
            return 1 if context.isLocal() else len(context.statusTracker().getExecutorInfos()) - 1
        return 1

    def _tasks_done(self) -> list[tuple[int, int]]:
        stages = java_context(self.spark).statusStore().activeStages()
        listed = map(stages.apply, range(stages.size()))
        return sorted((stage.stageId(), stage.numCompleteTasks()) for stage in listed)

    def _sql(self) -> Any:
        return java_session(self.spark).sharedState().statusStore()

    def _running(self) -> list[int]:
        """Return the queries that run, and once more the ones that have ended since they were last looked at."""
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
                query.kafka = self._sources(number)
            query.looks += 1
            values = {int(name): int(value.replace(",", "")) for name, value in _VALUE.findall(text)}
            query.rows = sum(values.get(metric, 0) for metric in query.kafka)

    def _sources(self, number: int) -> tuple[int, ...]:
        """Return the metrics of a query's plan that count rows of Kafka.

        Records that the driver itself has read (`jobs.stage`) are Kafka's too. Where a filter follows a read of
        Kafka, its rows count: a paced reader gives signs of life too, which are no records.
        """
        kafka = list[int]()
        graph = self._sql().planGraph(number)
        nodes, edges = graph.allNodes(), graph.edges()
        into = {edges.apply(place).fromId(): edges.apply(place).toId() for place in range(edges.size())}
        filters = {node.id(): node for node in map(nodes.apply, range(nodes.size())) if node.name() == _FILTER}
        for place in range(nodes.size()):
            node = nodes.apply(place)
            name = node.name()
            if name.startswith(_KAFKA) and not name.rstrip().endswith(_WITHIN):
                metrics = filters.get(into.get(node.id()), node).metrics()
                found = map(metrics.apply, range(metrics.size()))
                kafka += [metric.accumulatorId() for metric in found if metric.name() == _ROWS]
        return tuple(kafka)


# The steps of a driver around a job: take its request, open a session, show its progress, write its result.

PROPERTIES_FILE, JAVA_OPTIONS_FILE = "spark.properties", "java.options"
"""The other files of a submit that may hold secrets, beside the job's file."""

REFUSED = "refused"
"""Key of the document that a job leaves which refuses the schema of its table: the reason, for people."""
_LEFT = "kafka_lake_document"

Work = Callable[["SparkSession", Mapping[str, Any], Callable[[str], object]], Mapping[str, Any] | None]
"""Takes the session, the request and a function that reports a sentence; returns the job's document, if it has one."""


def run(argv: list[str], work: Work) -> None:
    """Run the one job of this driver, of the file named by the only argument; its secrets are removed first."""
    request, folder = taken(argv), Path(argv[0]).parent
    with session(folder) as spark:
        perform(spark, request, folder, work)


def perform(spark: SparkSession, request: Mapping[str, Any], folder: Path, work: Work) -> None:
    """Do a job whose request was taken from `folder`.

    The document is written last; a job that fails writes the one that it has left for its worker (`leave`).
    """
    messages = (folder / MESSAGES_FILE).open("w", encoding="utf-8", buffering=1)
    with messages, progress_lines(spark, folder):
        try:
            document = work(spark, request, lambda text: messages.write(f"{text}\n"))
        except Exception as error:
            _write(folder, getattr(error, _LEFT, None))
            raise
    _write(folder, document)


def leave(error: Exception, document: Mapping[str, Any]) -> None:
    """Have a document written by a job that ends with an error: its work may have been done."""
    setattr(error, _LEFT, document)


def _write(folder: Path, document: Mapping[str, Any] | None) -> None:
    if document is not None:
        (folder / RESULT_FILE).write_text(json.dumps(document), encoding="utf-8")


def taken(argv: list[str]) -> dict[str, Any]:
    """Return the request in the file named by the only argument, and remove it."""
    (path,) = map(Path, argv)
    request: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()
    return request


def compiled_first(places: Sequence[str], spark_home: str | None) -> list[str]:
    """Return where to look for modules: for PySpark where it is installed, and compiled, before the archive of its
    sources, which spark-submit names first.

    Compiling these takes seconds of every start. Where Spark's home is the installed PySpark, both are the same.
    """
    if spark_home is None or str(Path(spark_home).parent) not in places:
        return list(places)
    sources = f"{spark_home}/python/lib/"
    return sorted(places, key=lambda place: place.startswith(sources))


@contextmanager
def session(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Yield the session that spark-submit has configured, with these settings besides.

    The files of a submit in `folder` are removed: Spark and Java have read them, and a job that dies from here on
    leaves no secret behind.
    """
    sys.path[:] = compiled_first(sys.path, os.environ.get("SPARK_HOME"))
    with hidden("numpy", "pandas", "pyarrow"):  # PySpark does without; they take a quarter of a second and 70 MB
        from pyspark.sql import SparkSession

        meet_java(folder)
        for name in (PROPERTIES_FILE, JAVA_OPTIONS_FILE):
            (folder / name).unlink(missing_ok=True)
        spark = SparkSession.builder.config(map=dict(settings or {})).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def hidden(*modules: str) -> Iterator[None]:
    """Hide modules that are not loaded yet from every import while the block lasts."""
    absent: dict[str, Any] = dict.fromkeys(set(modules) - sys.modules.keys())
    sys.modules.update(absent)
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]
