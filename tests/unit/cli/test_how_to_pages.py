"""The how-to pages do what they say: what they print is printed here, and compared, numbers and ids aside; their
commands are carried out one after another, in memory."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from airflow_kafka_lake.cli import command, decisions, running, status
from airflow_kafka_lake.cli.entry_point import main
from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.audit.report import sentence
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.reports.plan import waiting_of
from airflow_kafka_lake.core.reports.progress import Moment, Progress, ProgressEvent, Step, WavePosition
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Clock, Ledger, OffsetSource, Ports
from tests.kit.clock import FakeClock
from tests.world import World

pytestmark = pytest.mark.unit

PAGES = Path(__file__).parents[3] / "docs" / "how-to"
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)


def lost_offsets() -> str:
    """Let retention pass a planned range before it is read."""
    world = World()
    world.produce(20)
    world.plan()
    world.retain_from(6)
    (held,) = world.run().held
    return held


def open_transaction() -> str:
    """Leave a transaction open before the rest of a partition."""
    world = World()
    world.produce(3)
    world.produce(2, transaction="nightly-load")
    (waiting,) = waiting_of(world.plan())
    return waiting.describe()


def audited() -> str:
    """Audit a partition with rows, markers and aborted records."""
    found = Accounting(visible=1150, control=40, aborted=10)
    return f"orders/0   {sentence(RangeSet.between(0, 1200), found)}"


def moment(kind: Moment, step: Step, rows: int, *, size: int = 0, note: str = "", speed: float | None = None) -> str:
    """Tell one moment of a wave of 750,000 offsets."""
    progress = Progress(step=step, rows=rows, rows_expected=750_000, bytes=size, bytes_expected=122_900_000)
    if kind is Moment.LANDED:
        progress = Progress(step=step, rows=rows, bytes=size)
    place = WavePosition(number=1, of=4)
    name = "wave 4efb1c5db64e-w0"
    seconds = 34.0 if kind is Moment.LANDED else 0.2
    event = ProgressEvent(
        subject=name,
        moment=kind,
        progress=progress,
        at=40,
        seconds=seconds,
        rows_per_second=speed,
        place=place,
        note=note,
    )
    return event.sentence()


def progress_lines() -> str:
    """Tell what a wave does, from its first line to its last."""
    return "\n".join(
        [
            moment(Moment.BEGUN, Step.READ, 0, note="4 ranges, 2 tasks"),
            moment(Moment.GOING, Step.READ, 540_434, size=88_500_000, speed=58_600),
            moment(Moment.ENDED, Step.AUDIT, 750_000, note="750,000 rows, every offset is accounted for"),
            moment(Moment.LANDED, Step.PUBLISH, 750_000, size=3_400_000),
        ]
    )


def shape(text: str) -> str:
    """Return a text on one line, with the same number, wave and person for each one."""
    text = re.sub(r"\b[0-9a-f]{12}-w\d+|(?<= by )[\w-]+(?=:)", "X", " ".join(text.split()))
    return re.sub(r"\d[\d,.]*\d|\d", "0", text)


@pytest.mark.parametrize(
    ("page", "printed"),
    [
        ("holds.md", lost_offsets),
        ("holds.md", open_transaction),
        ("audit.md", audited),
        ("status.md", progress_lines),
    ],
)
def test_block_of_a_page_is_printed_so(page: str, printed: Callable[[], str]) -> None:
    """Who compares his terminal with the page finds the same words."""
    blocks = [match["text"] for match in FENCE.finditer((PAGES / page).read_text(encoding="utf-8"))]
    assert shape(printed()) in [shape(block) for block in blocks]


FILE = """
[pipeline]
name = "orders"
[source]
topics = ["orders"]
start = "{start}"
[lake]
table = "raw.orders"
"""
COMMAND = re.compile(r"^ *kafka-lake (?P<words>.*)$", re.MULTILINE)
LEFT_OUT = re.compile(r"\b[A-Z]{4,}\b|--watch|--deep|--cutover|^(check|jars|db|decode|worker)\b|…")
"""Words that stand for others, and what needs more than memory: a terminal, Spark, connections."""
SHOWING = {"pause.md", "rebuild.md", "reopen.md"}
"""Pages that show what these very commands print."""
PLAN = "5f0c2a917d3e"
"""The plan of the page on withdrawals."""


def followed() -> World:
    """A week of March, with everything in the table."""
    world = unread()
    world.run()
    return world


def planned() -> World:
    """Records of January and of another month, each in a plan that no attempt has begun."""
    world = World(clock=FakeClock(datetime(2026, 1, 15, tzinfo=UTC)))
    for _ in range(2):
        world.produce(10)
        world.plan()
        world.clock.advance(timedelta(days=30))
    return world


def unread() -> World:
    """A topic with records of that week, and a ledger that knows nothing."""
    world = World(clock=FakeClock(datetime(2026, 3, 2, 12, 30, tzinfo=UTC)))
    world.produce(2000)
    world.clock.advance(timedelta(days=30))
    return world


def typed(world: World, words: str) -> int:
    """Carry a command out, and return its exit code; rows are deleted before a person says that they were."""
    if words.startswith("accept-deletes"):
        world.table.delete_foreign(lambda row: row.offset < 10)
    return main(shlex.split(words.replace(PLAN, newest_plan(world))))


@pytest.mark.parametrize(
    ("page", "prepared", "start", "least"),
    [
        ("audit.md", followed, "earliest", 5),
        ("disasters.md", followed, "earliest", 2),
        ("ingest-a-period.md", unread, "earliest", 2),
        ("move-from-available-now.md", unread, "offsets:from.json", 4),
        ("move-from-kafka-connect.md", unread, "earliest", 4),
        ("object-store.md", unread, "earliest", 3),
        ("pause.md", planned, "earliest", 5),
        ("rebuild.md", followed, "earliest", 5),
        ("reopen.md", followed, "earliest", 5),
        ("status.md", planned, "earliest", 2),
    ],
)
def test_commands_of_a_page_are_carried_out(
    page: str,
    prepared: Callable[[], World],
    start: str,
    least: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Who types them from the first to the last meets no refusal, and every offset is accounted for at the end."""
    world = prepared()
    in_memory(world, monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.toml").write_text(FILE.format(start=start))
    (tmp_path / "from.json").write_text('{"orders": {"0": 1200}}')
    blocks = list(FENCE.finditer((PAGES / page).read_text(encoding="utf-8")))
    lines = [match["words"] for block in blocks for match in COMMAND.finditer(block["text"])]
    done = [words for line in lines if not LEFT_OUT.search(words := shlex.join(shlex.split(line, comments=True)))]
    codes = [(words, typed(world, words)) for words in done]
    heard = capsys.readouterr()
    assert [item for item in codes if item[1]] == [], heard.err
    assert len(codes) >= least
    if page in SHOWING:
        shown = [line for block in blocks if block["language"] == "text" for line in block["text"].splitlines()]
        assert shown
        assert {shape(line) for line in shown} - {shape(line) for line in heard.out.splitlines()} == set()


def test_plan_tells_earlier_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who plans and finds nothing new would think that all is well."""
    world = unread()
    in_memory(world, monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.toml").write_text(FILE.format(start="earliest"))
    assert typed(world, "plan orders.toml") == 0
    assert "held:" not in capsys.readouterr().out
    (wave,) = (item.id for item in world.ledger.waves("orders"))
    assert typed(world, f"cancel {wave} --reason poison") == 0
    assert typed(world, "plan orders") == 0
    assert f"held: orders/0 0-2000 cancelled: poison. End it with: kafka-lake release {wave}" in capsys.readouterr().out


def newest_plan(world: World) -> str:
    """Return the id of the plan that was recorded last; nothing where there is none."""
    return max((wave.plan for wave in world.ledger.waves("orders")), default="")


def in_memory(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands work with the world's ledger, Kafka and lake."""

    @contextmanager
    def ports(*_: object, **__: object) -> Iterator[Ports]:
        yield world.worker()

    @contextmanager
    def ledger(*_: object, **__: object) -> Iterator[Ledger]:
        yield world.ledger

    @contextmanager
    def sources(*_: object, **__: object) -> Iterator[tuple[Ledger, Clock, Callable[[PipelineSpec], OffsetSource]]]:
        yield world.ledger, world.clock, lambda _: world.kafka

    monkeypatch.setattr(command, "open_ports", ports)
    for module in (command, decisions, running, status):
        monkeypatch.setattr(module, "open_ledger", ledger)
    monkeypatch.setattr(status, "open_sources", sources)
