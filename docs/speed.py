# noqa: INP001  (a script beside the documents, not a package)
"""The table of speeds in the README and in the comparison, from the committed report: `python docs/generate.py`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # where the benchmark is

PAGES = ("README.md", "docs/explanation/comparison.md")
REPORT = ROOT / "bench" / "results" / "uniform.json"
BEGIN, END = "<!-- speeds: written by docs/generate.py -->\n", "<!-- end of speeds -->\n"
ARMS = {
    "ours": "this, every process new",
    "ours-warm": "this, Spark already running",
    "loader": "a script of a hundred lines",
    "connect-tuned": "Iceberg sink of Kafka Connect, tuned",
    "available-now": "Structured Streaming, `AvailableNow`",
    "batch": "plain Spark job",
}


def pages() -> dict[str, str]:
    """Return each page with its table as the report has it, by its path."""
    return {name: _with_table((ROOT / name).read_text(encoding="utf-8")) for name in PAGES}


def _with_table(text: str) -> str:
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


def table() -> str:
    """Return the medians of the arms that take part, as a table."""
    head = "| | seconds | MB/s | CPU-seconds | MB per CPU-second | memory, MiB | requests to the broker |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *_rows(), ""])


def _rows() -> Iterator[str]:
    from bench.results import Report, good

    runs = good(Report.read(REPORT).runs)
    for arm, name in ARMS.items():
        if not (its := [run for run in runs if run.arm == arm]):
            continue
        seconds, cpu = median(run.seconds for run in its), median(run.cpu_seconds for run in its)
        megabytes = its[0].bytes / 1e6
        peaks = [run.peak_mib for run in its if run.peak_mib]
        memory = f"{median(peaks):,.0f}" if peaks else "–"
        requests = median(run.requests for run in its)
        speeds = f"{seconds:.1f} | {megabytes / seconds:.0f} | {cpu:.1f} | {megabytes / cpu:.0f}"
        yield f"| {name} | {speeds} | {memory} | {requests:,.0f} |"
