"""Evidence: what each part of the proof found, on which commit, when and with what. One JSON file for each part.

A part is played in chunks, and a chunk is true of the commit that it names. The documents say which commit that is; no
test reads it.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("evidence")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a chunk reports: cases by their end, facts worth knowing, and where cases have names, what was wrong."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    cases: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One process, played to its end. `code` is negative for a signal; `seed` is None where nothing was dealt."""

    commit: str
    date: str
    command: str
    seed: int | None
    seconds: float
    code: int
    counts: Counts
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def red(self) -> str:
        """Return why it proves nothing, or nothing."""
        if self.code < 0:
            return f"killed by {signal.Signals(-self.code).name}"
        if self.counts.failed:
            return f"{self.counts.failed} failed"
        if self.code:
            return f"exit code {self.code}"
        if self.counts.skipped:
            return f"{self.counts.skipped} skipped"
        return "" if self.counts.passed else "no case was played"


@dataclass(slots=True)
class Evidence:
    """What is known of a part, chunk by chunk."""

    file: Path
    chunks: dict[str, Chunk] = field(default_factory=dict)

    @classmethod
    def read(cls, part: str, folder: Path = FOLDER) -> Evidence:
        """Read a part's file; nothing is known where there is none."""
        found = cls(folder / f"{part}.json")
        if found.file.exists():
            document = json.loads(found.file.read_text(encoding="utf-8"))
            for name, item in document["chunks"].items():
                found.chunks[name] = Chunk(**{**item, "counts": Counts(**item["counts"])})
        return found

    def write(self) -> None:
        """Write the file; it is never there in part."""
        chunks = {name: asdict(item) for name, item in sorted(self.chunks.items())}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps({"chunks": chunks}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        new.replace(self.file)

    @property
    def passed(self) -> int:
        """Return how many cases passed in all chunks."""
        return sum(item.counts.passed for item in self.chunks.values())

    @property
    def cases(self) -> dict[str, str]:
        """Return the named cases of all chunks, each with what was wrong."""
        return {case: why for item in self.chunks.values() for case, why in item.counts.cases.items()}

    @property
    def seconds(self) -> float:
        """Return how long it took to play."""
        return sum(item.seconds for item in self.chunks.values())

    def played(self) -> str:
        """Return commit and day of what was played, with the number of cases of each: the newest, how many others, and
        the oldest."""
        found = Counter[tuple[str, str]]()
        for item in self.chunks.values():
            found[item.date[:10], item.commit] += item.counts.passed + item.counts.failed
        several = len(found) > 1
        told = [
            f"{commit}, {day}" + (f" ({count:,})" if several else "")
            for (day, commit), count in sorted(found.items(), reverse=True)
        ]
        return "; ".join(told if len(told) < 4 else (told[0], f"{len(told) - 2} others", told[-1]))
