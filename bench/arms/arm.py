"""What takes part in the benchmark: a way to bring topics into a committed table, as a command."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum

from bench.arms.place import POSITION, Place
from bench.content import Content, of_table
from bench.measuring import COMMITTED, Cost
from bench.workloads import DECODED, Workload


class Start(StrEnum):
    """What a time includes: every process of an arm, or a command to a server that already runs."""

    COLD = "cold"
    WARM = "warm"


class Arm(ABC):
    """One way. `prepare`, then its command is measured, inside `around`; then `problem` judges what it has left.

    `says` is one line for a person. `lands` is False for ceilings, which leave no table.
    """

    name: str
    says: str
    start = Start.COLD
    lands = True
    most_repeats: int | None = None
    """How often it is run at most, where it takes too long for more."""

    def fits(self, workload: Workload) -> bool:
        """Return whether it can do a workload."""
        return not workload.through_airflow

    @abstractmethod
    def prepare(self, place: Place) -> None:
        """Make what a person would have before the work begins: an empty table, files; it is not measured."""

    @contextmanager
    def around(self, place: Place) -> Iterator[Sequence[int]]:
        """Run the servers that the work needs; yields their process ids, whose CPU seconds count too."""
        yield ()

    @abstractmethod
    def command(self, place: Place) -> Sequence[str]:
        """Return the command that is measured."""

    def environment(self, place: Place) -> Mapping[str, str]:
        """Return the command's environment."""
        return place.environment

    def columns(self, workload: Workload) -> Mapping[str, str]:
        """Return the columns that are compared with the topics, and what the arm's table calls them."""
        names = ["key", "value", *(DECODED if workload.decoded else ())]
        return POSITION | {name: name for name in names}

    def problem(self, place: Place, expected: Content, cost: Cost) -> str | None:
        """Return why what the arm has left is not the work that was asked for; None where it is."""
        columns = self.columns(place.workload)
        found = of_table(place.table(), columns)
        return expected.problem(found, [name for name in columns if name not in POSITION])

    def files(self, place: Place) -> Sequence[int]:
        """Return the bytes of each data file that it has left: of a table those that its readers see."""
        if self.lands:
            return [task.file.file_size_in_bytes for task in place.table().scan().plan_files()]
        return [path.stat().st_size for path in place.home.rglob("*.parquet")]

    def counted(self, cost: Cost) -> tuple[float, float]:
        """Return the wall and the CPU seconds that count."""
        return cost.seconds, cost.cpu_seconds

    def phases(self, cost: Cost) -> Mapping[str, float]:
        """Return the seconds of its parts, in their order, as far as the arm tells them apart: by its marks."""
        marks = sorted(cost.marks.items(), key=lambda item: item[1])
        names = {COMMITTED: "read, write, commit"}
        begun = cost.begun
        found: dict[str, float] = {}
        for name, at in marks:
            found[names.get(name, name)] = at - begun
            begun = at
        return found
