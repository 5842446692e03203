# noqa: INP001  (a script beside the documents, not a package)
"""The tables of speeds in the README, the comparison and the page on sizes, from the committed reports.

`python docs/generate.py` writes them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # where the benchmark is

RESULTS = ROOT / "bench" / "results"
BEGIN, END = "<!-- speeds: written by docs/generate.py -->\n", "<!-- end of speeds -->\n"
ARMS = {
    "ours": "this, every process new",
    "ours-warm": "this, Spark already running",
    "loader": "a script of a hundred lines",
    "connect-tuned": "Iceberg sink of Kafka Connect, tuned",
    "available-now": "Structured Streaming, `AvailableNow`",
    "batch": "plain Spark job",
}
COLUMNS = ("seconds", "MB/s", "CPU-seconds", "MB per CPU-second", "memory, MiB", "requests to the broker")


def pages() -> dict[str, str]:
    """Return each page with its table as the report has it, by its path."""
    short = partial(table, ("seconds", "MB/s", "CPU-seconds"))
    tables = {"README.md": short, "docs/explanation/comparison.md": table, "docs/how-to/size.md": rules}
    return {name: _with_table((ROOT / name).read_text(encoding="utf-8"), made()) for name, made in tables.items()}


def _with_table(text: str, made: str) -> str:
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{made}\n{END}{rest.split(END)[1]}"


def rules() -> str:
    """Return the rules by which a run's time is estimated, each with its measurement, as a table."""
    start, in_airflow = _taken("smallest", "ours"), _taken("airflow-one-wave", "ours-in-airflow")
    (less, soon), (more, late) = _taken("growth-records", "ours", 4.0), _taken("growth-records", "ours", 16.0)
    large, small = more - less, late - soon
    hundred, many = _taken("uniform-100b", "ours-warm"), _taken("growth-partitions", "ours", 4.0)
    lines = [
        "| step | measured on two cores | rule |",
        "|---|---|---|",
        f"| start | {start[1]:.0f} s, {in_airflow[1]:.0f} s through Airflow, about 1 s in a worker | each run |",
        f"| 1 KB records | {large:,.0f} MB more in {small:.1f} s more | {_each(large, small)} |",
        f"| 100-byte records | {hundred[0]:,.0f} MB in {hundred[1]:.1f} s, Spark running | {_each(*hundred)} |",
        f"| 4,000 partitions of 1 MB | {many[0]:,.0f} MB in {many[1]:.1f} s | {_each(*many)}, start included |",
    ]
    return "\n".join([*lines, ""])


def _each(megabytes: float, seconds: float) -> str:
    return f"{5 * round(megabytes / seconds / 2 / 5)} MB/s for each core"


def _taken(report: str, arm: str, scale: float | None = None) -> tuple[float, float]:
    """Return the megabytes of an arm's runs and the median of their seconds, of one scale where several are there."""
    from bench.tables import SECONDS

    its = [run for run in _runs(report) if run.arm == arm and scale in {None, run.scale[0]}]
    return its[0].bytes / 1e6, _median(its, SECONDS)


def _median(runs: Iterable[Any], number: Callable[[Any], float | None]) -> float:
    """Return the median that the benchmark's own page has."""
    from bench.results import spread

    found = spread(runs, number)
    assert found is not None
    return found.median


def _runs(report: str) -> list[Any]:
    from bench.results import Report, good

    return list(good(Report.read(RESULTS / f"{report}.json").runs))


def table(columns: Collection[str] = COLUMNS) -> str:
    """Return the medians of the arms that take part, as a table."""
    return "\n".join([f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|", *_rows(columns), ""])


def _rows(columns: Collection[str]) -> Iterator[str]:
    from bench.results import spread
    from bench.tables import MB_A_CPU_SECOND, MB_A_SECOND, NUMBERS, middle

    runs = _runs("uniform")
    shown = (
        *(NUMBERS["seconds"], (MB_A_SECOND, 0), NUMBERS["CPU-s"], (MB_A_CPU_SECOND, 0)),
        *(NUMBERS["memory, MiB"], NUMBERS["requests"]),
    )
    taken = [number for name, number in zip(COLUMNS, shown, strict=True) if name in columns]
    for arm, name in ARMS.items():
        if its := [run for run in runs if run.arm == arm]:
            cells = (middle(spread(its, number), digits) for number, digits in taken)
            yield f"| {name} | {' | '.join(cells)} |"
