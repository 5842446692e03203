# noqa: INP001  (a script beside the documents, not a package)
"""Write the pictures of terminals in `docs/images`: `python docs/pictures.py`.

What they show is what the commands print, of a pipeline in memory. A test holds the committed pictures against this
script. (Those of Airflow's page are taken by tests in a real browser: `make pictures`.)
"""

from __future__ import annotations

import io
import random
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))  # where the tests have a world in memory

from airflow_kafka_lake.cli.output import styled
from airflow_kafka_lake.cli.status import status_lines
from airflow_kafka_lake.core.ledger.attempts import Renew
from airflow_kafka_lake.core.ledger.guards import LEASE
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.reports.progress import Progress, Step
from airflow_kafka_lake.core.reports.status import PipelineReport
from airflow_kafka_lake.services import claims, decisions, reporting
from tests.world import World

IMAGES = Path(__file__).parent / "images"
COLUMNS = 80
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\n\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""Rich's own, without fonts from elsewhere: the reader's monospaced one will do."""


def main() -> None:
    """Write the pictures."""
    IMAGES.mkdir(exist_ok=True)
    for name, text in pictures().items():
        (IMAGES / name).write_text(text, encoding="utf-8")


def pictures() -> dict[str, str]:
    """Return every picture of a terminal, by file name."""
    with _same_ids():
        report = _busy_pipeline()
    return {"status.svg": _terminal("kafka-lake status orders", report)}


def _terminal(title: str, report: PipelineReport) -> str:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in status_lines(report, COLUMNS):
        console.print(styled(line), soft_wrap=True)
    return console.export_svg(title=title, unique_id="terminal", code_format=FORMAT) + "\n"


def _busy_pipeline() -> PipelineReport:
    """Return the status of six partitions of which each is something else."""
    world = World(partitions=6)
    for partition in range(6):
        world.produce(800, partition)
    world.run()
    world.produce(300, 1)
    held = world.planned_wave(Bounds(topic="orders", partitions=(1,)))
    decisions.cancel(world.worker(), held, "waiting for the schema change")
    world.clock.advance(timedelta(hours=2))
    world.produce(100, 4)
    world.clock.advance(timedelta(minutes=20))
    world.produce(20, 5, transaction="billing-7")
    for partition in (0, 2):
        world.produce(1500, partition)
    claim = claims.claim_wave(world.worker(), world.planned_wave(Bounds(topic="orders", partitions=(0, 2))))
    progress = Progress(step=Step.READ, rows_expected=3000, bytes_expected=3_100_000)
    for rows in (0, 400, 1_340):
        world.ledger.commit(Renew(key=claim.key, lease=LEASE, progress=progress.counted(rows)))
        world.clock.advance(timedelta(seconds=10))
    return reporting.status(world.worker(), world.spec)


@contextmanager
def _same_ids() -> Iterator[None]:
    """Give the same ids at each run: a picture changes with what it shows only."""
    chance, given = random.Random(14), secrets.token_hex  # ids of nothing
    secrets.token_hex = lambda nbytes=None: chance.randbytes(nbytes or 32).hex()
    try:
        yield
    finally:
        secrets.token_hex = given


if __name__ == "__main__":
    main()
