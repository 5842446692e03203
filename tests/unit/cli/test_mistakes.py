"""`docs/how-to/mistakes.md` quotes what a newcomer is told: here it is said, and compared."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from airflow_kafka_lake.adapters.kafka.client import Client
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.adapters.spark_submit.failures import recognised
from airflow_kafka_lake.cli.command import bounds_of
from airflow_kafka_lake.cli.entry_point import build_parser, main, run_parsed
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.services.identity import known_spec
from tests.world import World

pytestmark = pytest.mark.unit

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "mistakes.md"
ELSEWHERE = ("kill -9", "ended the forgotten job")
"""What the page says beside it of a killed run; `tests/faults/test_standalone.py` hears it."""
FILE = """
[pipeline]
name = "orders"
[source]
topcs = ["orders"]
[lake]
table = "raw.orders"
"""


@pytest.fixture
def world() -> World:
    """Two partitions of a hundred records, all of them in the table."""
    world = World(partitions=2)
    for partition in (0, 1):
        world.produce(100, partition)
    world.run()
    return world


def wrong_year(world: World) -> None:
    """Ask for ten years ago."""
    world.plan(Bounds(start=datetime(2016, 3, 1, tzinfo=UTC), end=datetime(2016, 3, 8, tzinfo=UTC)))


def date_for_a_time(_: World) -> None:
    """Leave out hours, minutes and zone."""
    bounds_of(build_parser().parse_args(["run", "orders.toml", "--from", "2026-03-01"]))


def wrong_key(_: World) -> None:
    """Leave out a letter."""
    Path("orders.toml").write_text(FILE)
    Pipeline.from_toml(Path("orders.toml"))


def unknown_name(world: World) -> None:
    """Leave out a letter of a pipeline's name."""
    known_spec(world.ledger, "ordrs")


def interrupt(_: World) -> None:
    """Press Ctrl-C."""
    raise KeyboardInterrupt


def broker_that_is_down(_: World) -> None:
    """Ask a broker, and hear nothing."""
    settings = KafkaSettings.parse({"bootstrap.servers": "broker:9092"})
    client = Client(settings, timeout=5, clock=SystemClock(), connect=lambda *_, **__: pytest.fail("not asked"))
    said = "Connect to ipv4#10.0.0.1:9092 failed: Connection refused (after 0ms in state CONNECT)"
    refused = KafkaError(KafkaError._TRANSPORT, said)
    raise client.translated(KafkaException(refused), "describing topics")


@pytest.mark.parametrize(
    ("number", "mistake", "code"),
    [
        (1, wrong_year, 1),
        (2, date_for_a_time, 2),
        (3, wrong_key, 1),
        (4, unknown_name, 1),
        (5, interrupt, 130),
        (6, broker_that_is_down, 3),
    ],
)
def test_words_are_those_that_the_page_quotes(
    number: int,
    mistake: Callable[[World], None],
    code: int,
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The exit code, too; times are others at each run, and `…` on the page is for what it leaves out."""
    monkeypatch.chdir(tmp_path)
    assert run_parsed(argparse.Namespace(run=lambda *_: mistake(world), json=False)) == code
    said = _on_one_line(capsys.readouterr().err.replace(f"{tmp_path}/", ""))
    assert f"exit {code}, see ({number})" in PAGE.read_text(encoding="utf-8")
    quoted = [text for text in _quotes(number) if not text.startswith(ELSEWHERE)]
    assert quoted
    assert [text for text in quoted if not re.search(_pattern(text), said)] == [], said


def test_full_disk_is_named_as_the_page_quotes_it() -> None:
    """Spark's own words for it are many."""
    reason = recognised(["java.io.IOException: No space left on device"])
    assert reason is not None
    assert _quotes(7)[0].partition("exit code 1. ")[2] == reason.advice


def _quotes(number: int) -> list[str]:
    """Return what an item of the page's list quotes of the command line: all that is more than a word."""
    text = PAGE.read_text(encoding="utf-8")
    (item,) = re.findall(rf"^{number}\. (.*?)(?=^\d\. |^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    return [quote for quote in re.findall(r"`([^`]*)`", _on_one_line(item)) if " " in quote]


def _pattern(quote: str) -> str:
    return re.escape(quote).replace("…", ".*")


def _on_one_line(text: str) -> str:
    """Return a text without its line ends, and with the same moment for each time of this year's records."""
    return re.sub(r"2026-(11|01)-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "2026-11-23T05:59:47.094Z", " ".join(text.split()))


@pytest.mark.parametrize("command", ["recover", "advance"])
def test_pipeline_that_the_ledger_does_not_know_is_no_answer_of_nothing(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No wave was looked for in the lake, and no watermark is there that could move: that is no "0 waves", exit 0."""
    file = tmp_path / "orders.toml"
    file.write_text(FILE.replace("topcs", "topics"))
    lake = {
        "format": "iceberg",
        "catalog": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"{tmp_path}",
    }
    for name, value in {
        "KAFKA_DEFAULT": {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}},
        "LAKE_DEFAULT": {"conn_type": "lake", "extra": lake},
        "KAFKA_LAKE_LEDGER": {"conn_type": "sqlite", "host": f"{tmp_path}/ledger.db"},
    }.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(value))
    assert main([command, str(file)]) == 1
    assert "the ledger knows no pipeline 'orders'; it knows: none yet" in capsys.readouterr().err
