"""This package, from the command to the committed table and the advanced watermark."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bench.arms.arm import Arm
from bench.arms.place import Place
from bench.content import Content
from bench.measuring import Cost

_BEGINS = (
    ("plan", re.compile(r"^observing ")),
    ("read and write", re.compile(r"^wave .*: reading ")),
    ("audit", re.compile(r"^wave .*: auditing ")),
    ("commit", re.compile(r"^wave .*: publishing ")),
    ("advance", re.compile(r"^wave .* landed")),
)
"""Which line on stderr begins which part; Spark's own start belongs to `read and write`."""


WATERMARKS = (
    "SELECT s.topic, s.partition, s.watermark, n.last_stable FROM kafka_lake_stream s "
    "LEFT JOIN kafka_lake_snapshot n ON n.stream = s.id WHERE s.pipeline = 'bench'"
)
"""Asks the ledger how far each stream is, and what the run's plan saw as its end."""


class Ours(Arm):
    """`kafka-lake run`, in a new process with a new Spark."""

    name = "ours"
    says = "`kafka-lake run`: plan, stage, audit, publish, advance; every process new"

    def prepare(self, place: Place) -> None:
        place.write_pipeline()
        _ = place.settings

    def command(self, place: Place) -> Sequence[str]:
        file = place.home / "pipelines" / "bench.toml"
        return [sys.executable, "-m", "airflow_kafka_lake.cli", "run", str(file), "--json"]

    def problem(self, place: Place, expected: Content, cost: Cost) -> str | None:
        return super().problem(place, expected, cost) or watermarks_problem(self.watermarks(place))

    def watermarks(self, place: Place) -> list[tuple[Any, ...]]:
        """Return the ledger's answer to WATERMARKS."""
        with sqlite3.connect(place.home / "ledger.db") as ledger:
            return ledger.execute(WATERMARKS).fetchall()

    def phases(self, cost: Cost) -> Mapping[str, float]:
        found: dict[str, float] = {}
        part, begun = "start", 0.0
        for at, line in cost.lines:
            begins = next((name for name, pattern in _BEGINS if pattern.search(line)), None)
            if begins is not None:
                found[part] = found.get(part, 0.0) + at - begun
                part, begun = begins, at
        found[part] = found.get(part, 0.0) + cost.seconds - begun
        return found


def watermarks_problem(rows: Sequence[tuple[Any, ...]]) -> str | None:
    """Return which streams' watermarks have not reached what the run's plan saw as the end; None where all have."""
    behind = [f"{topic}/{partition}" for topic, partition, watermark, end in rows if watermark != end]
    if not rows:
        return "no watermark was stored"
    return f"{len(behind)} watermarks did not advance, first {behind[0]}" if behind else None
