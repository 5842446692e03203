"""The how-to pages print what the package prints, numbers and ids aside: here it is printed, and compared."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.audit.report import sentence
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.reports.plan import waiting_of
from airflow_kafka_lake.core.reports.progress import Moment, Progress, ProgressEvent, Step, WavePosition
from tests.world import World

pytestmark = pytest.mark.unit

PAGES = Path(__file__).parents[3] / "docs" / "how-to"
FENCE = re.compile(r"^```\w*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


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
    """Return a text on one line, with the same number for each number."""
    return re.sub(r"\d[\d,.]*\d|\d", "0", " ".join(text.split()))


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
