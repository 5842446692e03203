"""What a driver writes of its progress: what Spark has counted, and a sign that changes whenever Spark has moved."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_lake.core.reports.progress import Counters
from airflow_kafka_lake.jobs.driver import (
    PROGRESS_FILE,
    Counts,
    progress_lines,
    report_progress,
)


def java(**values: object) -> SimpleNamespace:
    """Return an object whose methods return these values."""
    return SimpleNamespace(**{name: lambda *_, value=value: value for name, value in values.items()})


def listed(*items: object) -> SimpleNamespace:
    """Return a sequence as Scala has it."""
    return SimpleNamespace(size=lambda: len(items), apply=lambda number: items[number])


_ids = itertools.count(1)


def node(name: str, **metrics: int) -> SimpleNamespace:
    """Return a step of a query's plan with its metrics, by name and number."""
    found = (java(name=metric.replace("_", " "), accumulatorId=number) for metric, number in metrics.items())
    return java(id=next(_ids), name=name, metrics=listed(*found))


class FakeSession:
    """A Spark session: `stages` are id → (tasks done, tasks, bytes), `queries` id → (plan, metrics, whether over)."""

    def __init__(self) -> None:
        self.stages: dict[int, tuple[int, int, int]] = {}
        self.queries: dict[int, tuple[tuple[Any, ...], str, bool]] = {}
        self.forgotten: set[int] = set()
        self.planned = 0
        status = SimpleNamespace(activeStages=self._active)
        self.awaited: list[int] = []
        bus = SimpleNamespace(waitUntilEmpty=self.awaited.append)
        context = java(statusStore=status, listenerBus=bus)
        self._jsparkSession = java(sharedState=java(statusStore=self), sparkContext=context)

    def _active(self) -> SimpleNamespace:
        return listed(
            *(
                java(stageId=number, numCompleteTasks=done, numTasks=tasks, outputBytes=size)
                for number, (done, tasks, size) in self.stages.items()
            )
        )

    def _query(self, number: int) -> SimpleNamespace:
        return java(executionId=number, completionTime=java(isDefined=self.queries[number][2]))

    def executionsList(self) -> SimpleNamespace:  # noqa: N802 (Spark's name)
        return listed(*map(self._query, sorted(self.queries.keys() - self.forgotten)))

    def execution(self, number: int) -> SimpleNamespace:
        is_known = number not in self.forgotten
        return java(isDefined=is_known, get=self._query(number))

    def executionMetrics(self, number: int) -> SimpleNamespace:  # noqa: N802 (Spark's name)
        return java(toString=f"Map({self.queries[number][1]})")

    def planGraph(self, number: int) -> SimpleNamespace:  # noqa: N802 (Spark's name)
        self.planned += 1
        nodes = self.queries[number][0]
        edges = (java(fromId=scan.id(), toId=above.id()) for scan, above in pairwise(nodes) if above.name() == "Filter")
        return java(allNodes=listed(*nodes), edges=listed(*edges))


READ = (
    node("Scan KafkaRelation(strategy=Assign[…])", number_of_output_rows=4, other=9),
    node("WholeStageCodegen (1)", duration=5),
    node("Scan ExistingRDD", number_of_output_rows=6),
    node("AppendData"),
)
TABLE = (
    node("BatchScan lake.raw.orders", number_of_output_rows=7),
    node("Scan OneRowRelation", number_of_output_rows=8),
)


def told(counts: Counts) -> Counters:
    """Return what is told now."""
    found = Counters.from_json(counts.read())
    assert found is not None
    return found


def sign(counts: Counts) -> str:
    """Return the sign that is told now."""
    return str(json.loads(counts.read())["sign"])


def test_rows_are_those_of_the_sources() -> None:
    """Kafka's and tables' are told apart; a metric of another step, or one that is no number, counts nothing."""
    spark = FakeSession()
    spark.queries = {
        0: (READ, "4 -> 1,234,567, 5 -> 13.7 s (0 ms, 13.7 s), 6 -> 3, 9 -> 70", False),
        1: (TABLE, "7 -> 40, 8 -> 1", False),
    }
    assert told(Counts(spark)) == Counters(rows=1_234_570)


def test_executors_are_counted_without_the_driver() -> None:
    """A local master works in its driver; where Spark does not say, nothing is told of a wait."""
    spark = FakeSession()
    assert told(Counts(spark)).executors == 1
    context = spark._jsparkSession.sparkContext()
    context.isLocal = lambda: False
    context.statusTracker = lambda: java(getExecutorInfos=["driver"])
    assert told(Counts(spark)).executors == 0
    context.statusTracker = lambda: java(getExecutorInfos=["driver", "0", "1"])
    assert told(Counts(spark)).executors == 2
    context.isLocal = lambda: True
    assert told(Counts(spark)).executors == 1


def test_query_that_is_over_keeps_what_it_has_counted() -> None:
    """It is looked at once more when it has ended, also where it began and ended between two looks, then no more."""
    spark = FakeSession()
    counts = Counts(spark)
    spark.queries[0] = (READ, "4 -> 10", False)
    assert told(counts).rows == 10
    spark.queries |= {0: (READ, "4 -> 15", True), 1: (READ, "4 -> 100", True), 2: (READ, "4 -> 1", False)}
    assert told(counts).rows == 116
    spark.queries |= {0: (READ, "4 -> 99", True), 1: (READ, "4 -> 999", True), 2: (READ, "4 -> 2", False)}
    assert told(counts).rows == 117


def test_long_query_is_found_behind_those_that_are_over() -> None:
    """A query that started others goes on after them; one that Spark has forgotten keeps what it had."""
    spark = FakeSession()
    counts = Counts(spark)
    spark.queries = {0: (READ, "4 -> 1", False), 1: (READ, "4 -> 10", True), 2: (READ, "4 -> 100", False)}
    assert told(counts).rows == 111
    spark.queries |= {0: (READ, "4 -> 2", False), 2: (READ, "4 -> 200", True)}
    assert told(counts).rows == 212
    spark.queries |= {0: (READ, "4 -> 3", False)}
    assert told(counts).rows == 213
    spark.forgotten = {0, 1}
    assert told(counts).rows == 213
    assert told(counts).rows == 213


def test_query_that_is_listed_after_those_that_it_began_is_found() -> None:
    """Spark plans a read of Kafka with a query of its own: that one has a higher number, is listed first, and is over
    before. Its rows are not counted twice."""
    spark = FakeSession()
    counts = Counts(spark)
    within = node("Scan ExistingRDD kafka", number_of_output_rows=3)
    spark.queries[2] = ((within,), "3 -> 50", True)
    assert told(counts).rows == 0
    spark.queries[1] = (READ, "4 -> 50", False)
    assert told(counts).rows == 50


def test_plan_is_read_seldom() -> None:
    """It may have a thousand steps, and each is a call to Java; it is read again, because Spark may have changed it."""
    spark = FakeSession()
    counts = Counts(spark)
    spark.queries[0] = (TABLE, "4 -> 5, 7 -> 1", False)
    for _ in range(15):
        assert told(counts) == Counters()
    assert spark.planned == 1
    spark.queries[0] = (READ, "4 -> 5, 7 -> 1", False)
    assert told(counts) == Counters(rows=5)
    assert spark.planned == 2


def test_earlier_queries_of_a_session_are_not_counted(tmp_path: Path) -> None:
    """A driver that has worked before counts from where it stands; and the end of the work is told."""
    spark = FakeSession()
    spark.queries[7] = (READ, "4 -> 1,000", True)
    with progress_lines(spark, tmp_path):  # type: ignore[arg-type]
        spark.queries[8] = (READ, "4 -> 5", True)
    assert spark.awaited == [5000], "what was counted last is on its way"
    assert Counters.from_json((tmp_path / PROGRESS_FILE).read_text()) == Counters(rows=5)


def test_sign_changes_with_every_task_and_metric() -> None:
    """Also with what counts no row, such as the time that a shuffle takes; and stays as it is otherwise."""
    spark = FakeSession()
    counts = Counts(spark)
    spark.queries[0] = (TABLE, "5 -> 1 s", False)
    spark.stages = {0: (0, 4, 0)}
    signs = [sign(counts), sign(counts)]
    spark.queries[0] = (TABLE, "5 -> 2 s", False)
    signs += [sign(counts), sign(counts)]
    spark.stages = {0: (1, 4, 0)}
    signs += [sign(counts)]
    assert signs[0] == signs[1] != signs[2] == signs[3] != signs[4]


def test_sign_of_life_survives_counts_that_fail() -> None:
    """A plan that Spark cannot show costs the numbers, not the driver."""
    spark = FakeSession()
    spark.queries[0] = (READ, "4 -> 5", False)
    spark.planGraph = lambda _: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    counts = Counts(spark)
    before = sign(counts)
    spark.queries[0] = (READ, "4 -> 6", False)
    assert sign(counts) != before
    assert told(counts) == Counters()


def context(conf: dict[str, str]) -> SimpleNamespace:
    """Return a session's context."""
    return SimpleNamespace(applicationId="app-1", uiWebUrl="http://driver:4040", getConf=lambda: conf)


def test_application_is_told_with_the_counts() -> None:
    """Only the driver knows its id and its page, and whether a history server will have it."""
    spark = FakeSession()
    spark.sparkContext = context({"spark.eventLog.enabled": "true"})  # type: ignore[attr-defined]
    assert told(Counts(spark)) == Counters(application="app-1", page="http://driver:4040", is_logged=True)


def test_page_behind_the_masters_proxy_is_the_proxys() -> None:
    """A browser reaches the driver only through it; Spark's setting without an address changes nothing."""
    spark, proxy = FakeSession(), {"spark.ui.reverseProxyUrl": "https://spark.example.org/"}
    spark.sparkContext = context(proxy | {"spark.ui.reverseProxy": "true"})  # type: ignore[attr-defined]
    assert told(Counts(spark)).page == "https://spark.example.org/proxy/app-1/"
    spark.sparkContext = context(proxy)  # type: ignore[attr-defined]
    assert told(Counts(spark)) == Counters(application="app-1", page="http://driver:4040")


class Turns:
    """An event that is set after some turns."""

    def __init__(self, turns: int, look: Callable[[], object] = lambda: None) -> None:
        self._left, self._look = turns, look

    def wait(self, _: float) -> bool:
        self._look()
        self._left -= 1
        return self._left == 0


def turning(found: Iterable[str | Exception]) -> Any:
    """Return counts that are found turn by turn."""
    turns = iter(found)

    def read() -> str:
        turn = next(turns)
        if isinstance(turn, Exception):
            raise turn
        return turn

    return SimpleNamespace(read=read)


def test_every_change_is_written_and_the_last_one_too(tmp_path: Path) -> None:
    """What is counted when the work has ended is told once more, in the room that the file has from the beginning."""
    file, seen = tmp_path / PROGRESS_FILE, list[str]()
    report_progress(turning("aabc"), file, Turns(3, lambda: seen.append(file.read_text().strip())))
    assert seen == ["a", "a", "b"]
    assert file.read_text() == "c".ljust(512)


def test_look_that_fails_is_repeated(tmp_path: Path) -> None:
    """A driver that fell silent over one failed look, or over a folder that is not there yet, would be ended."""
    folder = tmp_path / "not there yet"
    found = ["a", RuntimeError("gateway"), "a", RuntimeError("gateway"), "a"]
    report_progress(turning(found), folder / PROGRESS_FILE, Turns(4, lambda: folder.mkdir(exist_ok=True)))
    assert (folder / PROGRESS_FILE).read_text().strip() == "a"


def test_full_disk_ends_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written is written when there is room; and the file takes no more room than at first."""
    file, room = tmp_path / PROGRESS_FILE, [True, False, False, True, True]
    real, sizes = os.pwrite, list[int]()

    def pwrite(descriptor: int, text: bytes, offset: int) -> int:
        if not room.pop(0):
            raise OSError(28, "No space left on device")
        sizes.append(os.fstat(descriptor).st_size)
        return real(descriptor, text, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    seen: list[str] = []
    report_progress(turning("abbbc"), file, Turns(4, lambda: seen.append(file.read_text().strip())))
    assert seen == ["a", "a", "a", "b"]
    assert sizes == [0, 512, 512]


def test_signs_of_life_of_a_paced_reader_are_no_rows() -> None:
    """They move what Spark has counted, and are filtered out behind the read."""
    spark = FakeSession()
    plan = (node("Scan ExistingRDD", number_of_output_rows=6), node("Filter", number_of_output_rows=7))
    spark.queries[1] = (plan, "6 -> 40, 7 -> 38", False)
    counts = Counts(spark)
    first = json.loads(counts.read())
    assert first["rows"] == 38
    spark.queries[1] = (plan, "6 -> 41, 7 -> 38", False)
    again = json.loads(counts.read())
    assert again["rows"] == 38
    assert again != first
