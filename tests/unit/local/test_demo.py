"""The demonstration on a machine that has nothing yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from airflow_kafka_lake.adapters.jars import cache
from airflow_kafka_lake.adapters.jars.cache import JarSet
from airflow_kafka_lake.adapters.spark_submit import runner as spark
from airflow_kafka_lake.cli.output import Output
from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.local import demo
from airflow_kafka_lake.local.demo import AcknowledgedRecords, prove


class Quiet:
    """A screen that shows nothing."""

    def progress(self, text: str) -> None: ...
    def note(self, text: str) -> None: ...
    def line(self, text: str) -> None: ...
    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None: ...


class AllFetchedError(Exception):
    """The demonstration would start its broker now."""


def test_before_a_demonstration_starts_its_broker_it_has_fetched_the_jars_of_every_job(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fetched: list[JarSet] = []
    archived: list[Sequence[Path]] = []

    def fetch(jar_set: JarSet, *, progress: Callable[[str], None]) -> list[Path]:
        progress(f"fetching {jar_set}")
        fetched.append(jar_set)
        return [tmp_path / f"{jar_set}.jar"]

    def broker(*_: object, **__: object) -> None:
        raise AllFetchedError

    monkeypatch.setattr(cache, "fetch", fetch)
    monkeypatch.setattr(demo, "fetch", fetch)
    monkeypatch.setattr(demo, "LocalKafka", broker)
    monkeypatch.setattr(spark, "archive_path", lambda _: tmp_path / "archive")
    monkeypatch.setattr(spark, "make_archive", archived.append)

    with pytest.raises(AllFetchedError):
        demo.demonstrate(Quiet(), keep_running=False, report=None)

    assert set(fetched) == {JarSet.SPARK, JarSet.KAFKA_BROKER}
    assert archived == [[tmp_path / "spark.jar"]], "the archive fits what a job is given"


@pytest.mark.parametrize(
    ("rows", "unexplained", "ok"),
    [
        ({(0, 0, b"a"): 1, (0, 1, b"b"): 1}, 0, True),
        ({(0, 0, b"a"): 1}, 0, False),
        ({(0, 0, b"a"): 2, (0, 1, b"b"): 1}, 0, False),
        ({(0, 0, b"a"): 1, (0, 1, b"x"): 1}, 0, False),
        ({(0, 0, b"a"): 1, (0, 1, b"b"): 1, (0, 2, b"c"): 1}, 0, False),
        ({(0, 0, b"a"): 1, (0, 1, b"b"): 1}, 1, False),
    ],
    ids=["sound", "missing", "twice", "different", "unexpected", "unexplained"],
)
def test_demonstration_proves_the_table_by_what_was_acknowledged(
    rows: dict[tuple[int, int, bytes], int], unexplained: int, *, ok: bool
) -> None:
    """One row for each acknowledged record, with its bytes, and every offset accounted for."""
    audit = {"orders": Accounting(visible=2 - unexplained, unexplained=unexplained)}
    acknowledged = AcknowledgedRecords(topic="orders", partitions=1, visible={(0, 0): b"a", (0, 1): b"b"})
    (proof,) = prove([acknowledged], {"orders": 2}, {"orders": Counter(rows)}, audit)
    assert proof.ok is ok


def test_tables_of_the_proof_fit_a_hundred_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of them is folded on a terminal."""
    numbers = Accounting(visible=43_260, control=30, aborted=540)
    (proof,) = prove(
        [AcknowledgedRecords(topic="payments", partitions=220)], {"payments": 43_830}, {}, {"payments": numbers}
    )
    report = demo.DemoReport(
        ok=False,
        kafka={},
        dag_run={"dag_id": "d", "run_id": "r", "state": "success"},
        topics=[proof],
        watermarks_match=True,
        table="t",
        ledger="l",
        catalog="c",
        seconds={},
    )
    demo._show_proof(Output(as_json=False), report)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert any("43,830" in line for line in lines)


def test_demonstration_without_a_record_proves_nothing() -> None:
    """A producer that was told of none has nothing to hold the table against."""
    (proof,) = prove([AcknowledgedRecords(topic="orders", partitions=1)], {"orders": 0}, {}, {"orders": Accounting()})
    assert not proof.ok
