"""What the runs of one report say: medians with their spread, ratios within rounds, growth with its exponent."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import linear_regression, median
from typing import Any

from bench.racing import Run

BUSY = 0.1
"""A run beside others that had more than this share of the machine is marked."""

RESUMED_WITH = ("commit", "versions", "arms")
"""What must be the same before a report may be gone on with."""

Scale = tuple[float, float]
Key = tuple[str, Scale]


@dataclass(frozen=True, slots=True)
class Spread:
    """A median, with the least and the most, of so many."""

    median: float
    least: float
    most: float
    count: int

    @classmethod
    def of(cls, numbers: Iterable[float]) -> Spread | None:
        """Return it; None of nothing."""
        found = sorted(numbers)
        return cls(median(found), found[0], found[-1], len(found)) if found else None

    def text(self, unit: str = "", digits: int = 1) -> str:
        """Return it for a table: the median, and the spread where there is one."""
        middle = f"{self.median:,.{digits}f}{unit}"
        return middle if self.count == 1 else f"{middle} ({self.least:,.{digits}f}–{self.most:,.{digits}f})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Runs, steps of this package by themselves, and on what they were measured."""

    described: Mapping[str, Any]
    runs: Sequence[Run] = ()
    parts: Sequence[Mapping[str, Any]] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the form that is committed."""
        return {**self.described, "runs": [asdict(run) for run in self.runs], "parts": list(self.parts)}

    def write(self, file: Path) -> None:
        """Write that form, whole or not at all: a race of hours may be stopped at any moment."""
        scratch = file.with_name(f".{file.name}")
        scratch.write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")
        scratch.replace(file)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Report:
        """Read that form."""
        known = {item.name for item in fields(Run)}
        runs = [
            Run(**{key: value for key, value in run.items() if key in known} | {"scale": tuple(run["scale"])})
            for run in found["runs"]
        ]
        described = {key: value for key, value in found.items() if key not in {"runs", "parts"}}
        return cls(described=described, runs=runs, parts=found["parts"])

    @classmethod
    def read(cls, file: Path) -> Report:
        """Read a committed file."""
        return cls.from_json(json.loads(file.read_text(encoding="utf-8")))

    def resumed(self, fresh: Report) -> Report:
        """Return this report's right runs for `fresh` to go on with; ValueError where they were measured otherwise."""
        other = [key for key in RESUMED_WITH if self.described[key] != fresh.described[key]]
        if other:
            raise ValueError(f"it was measured with other {' and '.join(other)}")
        return replace(fresh, runs=good(self.runs))

    def races(self) -> dict[Key, dict[str, list[Run]]]:
        """Return the runs of each arm by workload and scale, in the order in which they came first."""
        found: dict[Key, dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
        for run in self.runs:
            found[run.workload, run.scale][run.arm].append(run)
        return {key: dict(arms) for key, arms in found.items()}


def good(runs: Iterable[Run]) -> list[Run]:
    """Return the runs whose work was right: only they have numbers."""
    return [run for run in runs if run.problem is None]


def spread(runs: Iterable[Run], number: Callable[[Run], float | None]) -> Spread | None:
    """Return a number's median and spread over the runs that have it."""
    return Spread.of(value for run in good(runs) if (value := number(run)) is not None)


def ratio(runs: Iterable[Run], to: Iterable[Run], number: Callable[[Run], float | None]) -> Spread | None:
    """Return how many times as much, round by round: what disturbed a round has disturbed both."""
    base = {run.round: number(run) for run in good(to)}
    pairs = ((number(run), base.get(run.round)) for run in good(runs))
    return Spread.of(mine / theirs for mine, theirs in pairs if mine is not None and theirs)


def is_busy(run: Run, cores: int) -> bool:
    """Return whether others had so much of the machine that the run is no evidence."""
    if run.seconds is None or run.others_cpu_seconds is None:
        return False
    return run.others_cpu_seconds > BUSY * run.seconds * cores


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How an arm's time grows with its work: `exponent` 1 is in proportion, 0 not at all."""

    workload: str
    arm: str
    of: str
    points: Sequence[tuple[float, float]]
    exponent: float


def growths(report: Report) -> list[Growth]:
    """Return the growth of every arm that has run at several scales: records alone, or records and partitions."""
    series: dict[tuple[str, str], dict[Scale, float]] = defaultdict(dict)
    for (workload, scale), arms in report.races().items():
        for arm, runs in arms.items():
            if found := spread(runs, lambda run: run.seconds):
                series[workload, arm][scale] = found.median
    return [
        Growth(workload=workload, arm=arm, of=of, points=points, exponent=exponent_of(points))
        for (workload, arm), medians in series.items()
        for of, points in _lines(medians)
        if len(points) > 1
    ]


def _lines(medians: Mapping[Scale, float]) -> Iterable[tuple[str, Sequence[tuple[float, float]]]]:
    fixed = {scale: seconds for scale, seconds in medians.items() if scale[1] == 1.0}
    both = {scale: seconds for scale, seconds in medians.items() if scale[0] == scale[1]}
    for of, chosen in (("records", fixed), ("records and partitions", both)):
        yield of, sorted((scale[0], seconds) for scale, seconds in chosen.items())


def exponent_of(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of time over size, both as logarithms."""
    sizes, seconds = zip(*points, strict=True)
    return linear_regression([math.log(size) for size in sizes], [math.log(taken) for taken in seconds]).slope
