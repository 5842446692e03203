"""Which faults come when: decided from the seed before anything starts, so that a run can be played again."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SMALLEST, LARGEST = 2, 4
HEALING_SECONDS = 20
"""What healing and looking take of a round, about."""
APART = ("compaction", "catalog-answer-lost")
"""Two faults that no round has together: where a SQL catalog's answer to a commit of Spark's is lost, Iceberg's pool
repeats it, takes its own success for a conflict, and deletes the manifest list that it has just committed. A compaction
commits on main, and no reader can open main then. The documents tell its owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round: its number, how long its faults may strike, and which ones."""

    number: int
    seconds: float
    quiet_seconds: float
    faults: tuple[str, ...]

    def recipe(self, seed: int, flags: str) -> str:
        """Return how to play this round alone; `flags` name its place."""
        size = "--minutes 3 --records 30000"
        return f'make soak ARGS="{size} --seed {seed} {flags}--faults {",".join(self.faults)}"'


def decide(*, seed: int, minutes: float, faults: Sequence[str]) -> tuple[Round, ...]:
    """Deal the faults over as many rounds as fit; each comes before any comes twice."""
    choose = random.Random(f"rounds/{seed}")
    deck, rounds, left = Deck(faults, choose), [], minutes * 60
    while left > 0:
        seconds, quiet = choose.uniform(25, 50), choose.uniform(6, 14)
        picked = deck.deal(choose.randint(SMALLEST, LARGEST))
        rounds.append(Round(number=len(rounds) + 1, seconds=seconds, quiet_seconds=quiet, faults=picked))
        left -= seconds + quiet + HEALING_SECONDS
    return tuple(rounds)


class Deck:
    """Names in random order, dealt until none is left, then shuffled again."""

    def __init__(self, names: Sequence[str], choose: random.Random) -> None:
        self.names = list(names)
        self._choose = choose
        self._left: list[str] = []

    def deal(self, count: int) -> tuple[str, ...]:
        """Return up to `count` different names."""
        found: list[str] = []
        possible = len(self.names) - (set(APART) <= set(self.names))
        while len(found) < min(count, possible):
            if not self._left:
                self._left = self._choose.sample(self.names, len(self.names))
            found.append(self._take(found))
        return tuple(found)

    def _take(self, found: Iterable[str]) -> str:
        taken = set(found).union(APART if set(APART) & set(found) else ())
        name = next((name for name in self._left if name not in taken), None)
        if name is None:
            name = self._choose.choice([name for name in self.names if name not in taken])
        else:
            self._left.remove(name)
        return name
