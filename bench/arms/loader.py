"""A loader as a person writes it without Spark, and what bounds every writer: encoding rows that are in memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.arms.arm import Arm
from bench.arms.place import TABLE, Place
from bench.content import Content
from bench.measuring import COMMITTED, Cost
from bench.workloads import DECODED

PROGRAM = Path(__file__).with_name("loader_program.py")
PYTHON_PATH = {"PYTHONPATH": str(Path(__file__).parents[2])}


class Loader(Arm):
    """One process: librdkafka reads, Arrow holds, PyIceberg writes and commits."""

    name = "loader"
    says = "confluent-kafka, pyarrow and pyiceberg in one process, one commit"

    def prepare(self, place: Place) -> None:
        place.create_table(without=("headers",))

    def command(self, place: Place) -> Sequence[str]:
        return _command(place, "load")

    def environment(self, place: Place) -> Mapping[str, str]:
        return place.environment | PYTHON_PATH

    def phases(self, cost: Cost) -> Mapping[str, float]:
        return _phases(cost)


class Encode(Arm):
    """The rows as Parquet, by Arrow on all cores, from memory: only this is counted."""

    name = "encode"
    says = "upper limit: rows that are in memory as Parquet, zstd 1, by Arrow on all cores; reading is not counted"
    lands = False

    def prepare(self, place: Place) -> None:
        _ = place.settings

    def command(self, place: Place) -> Sequence[str]:
        return _command(place, "encode")

    def counted(self, cost: Cost) -> tuple[float, float]:
        return cost.marks[COMMITTED] - cost.marks["start"], cost.marks["cpu"]

    def problem(self, place: Place, expected: Content, cost: Cost) -> str | None:
        said = (place.home / "stdout").read_text().split()
        return None if said == [str(expected.rows)] else f"it wrote {said}, not {expected.rows} rows"

    def environment(self, place: Place) -> Mapping[str, str]:
        return place.environment | PYTHON_PATH

    def phases(self, cost: Cost) -> Mapping[str, float]:
        return {"encode": self.counted(cost)[0]}


def _command(place: Place, mode: str) -> Sequence[str]:
    request = place.home / "loader.json"
    asked = {
        "mode": mode,
        "bootstrap": place.bootstrap,
        "topics": list(place.topics),
        "lake": place.settings.pyiceberg(),
        "table": TABLE,
        "decoded": DECODED if place.workload.decoded else {},
        "cores": place.cores,
    }
    request.write_text(json.dumps(asked), encoding="utf-8")
    return [sys.executable, str(PROGRAM), str(request)]


def _phases(cost: Cost) -> Mapping[str, float]:
    """Return what the program has summed up: its steps take turns."""
    sums = {name.removeprefix("took "): took for name, took in cost.marks.items() if name.startswith("took ")}
    begin = cost.marks.get("start", cost.begun) - cost.begun
    ended = cost.marks.get(COMMITTED, cost.begun + cost.seconds) - cost.begun
    rest = ended - begin - sum(sums.values())
    return {"start": begin, **sums, **({"commit": rest} if rest > 0 else {})}
