"""Evidence: what each part of the proof found, on which commit, when and with what. One JSON file for each part.

A part is played in chunks, and a chunk is true of the commit that it names and of no other. So its age is counted in
commits that touched the code it speaks of, and a test is red when they are too many: a green of long ago is no green.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.proof.tree import Tree

FOLDER = Path(__file__).with_name("evidence")
ALLOWED = 120
"""How many commits may change the code that a chunk speaks of before it counts as not played."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a chunk reports: cases by their end, and what is worth knowing besides.

    `cases` names each case with what was wrong (nothing: green), where single cases are asked about later.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    cases: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, cases: Mapping[str, str]) -> Counts:
        """Count named cases."""
        failed = sum(bool(why) for why in cases.values())
        return cls(passed=len(cases) - failed, failed=failed, cases=dict(sorted(cases.items())))


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

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Chunk:
        """Read what `asdict` wrote."""
        return cls(**{**document, "counts": Counts(**document["counts"])})


@dataclass(slots=True)
class Evidence:
    """What is known of a part. `wanted` names its chunks; others were played by hand, or are of another division."""

    file: Path
    wanted: list[str] = field(default_factory=list)
    chunks: dict[str, Chunk] = field(default_factory=dict)

    @classmethod
    def read(cls, part: str, folder: Path = FOLDER) -> Evidence:
        """Read a part's file; nothing is known where there is none."""
        found = cls(folder / f"{part}.json")
        if found.file.exists():
            document = json.loads(found.file.read_text(encoding="utf-8"))
            found.wanted = document["wanted"]
            found.chunks = {name: Chunk.from_json(item) for name, item in document["chunks"].items()}
        return found

    def write(self) -> None:
        """Write the file; it is never there in part."""
        chunks = {name: asdict(item) for name, item in sorted(self.chunks.items())}
        text = json.dumps({"wanted": self.wanted, "chunks": chunks}, indent=1, ensure_ascii=False)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        new = self.file.with_suffix(".new")
        new.write_text(text + "\n", encoding="utf-8")
        new.replace(self.file)

    def end(self) -> None:
        """Forget what is not a chunk of the part, once all that are have been played: it has been played anew."""
        if set(self.wanted) <= self.chunks.keys():
            self.chunks = {name: self.chunks[name] for name in self.wanted}

    def add(self, name: str, chunk: Chunk) -> None:
        """Take a chunk in, in the place of an earlier one; its named cases are gone from every other chunk."""
        for other, item in list(self.chunks.items()):
            self._narrow(other, item.counts.cases.keys() - chunk.counts.cases.keys())
        self.chunks[name] = chunk

    def keep_cases(self, names: Iterable[str]) -> None:
        """Forget every named case but these: the code has moved on from it."""
        kept = set(names)
        for name, item in list(self.chunks.items()):
            self._narrow(name, item.counts.cases.keys() & kept)

    def _narrow(self, name: str, kept: AbstractSet[str]) -> None:
        item = self.chunks[name]
        if kept == item.counts.cases.keys():
            return
        if kept:
            counts = Counts.of({case: why for case, why in item.counts.cases.items() if case in kept})
            code = item.code if item.code < 0 else int(counts.failed > 0)
            self.chunks[name] = replace(item, counts=replace(counts, facts=item.counts.facts), code=code)
        else:
            del self.chunks[name]
            self.wanted = [other for other in self.wanted if other != name]

    @property
    def counts(self) -> Counts:
        """Return all counts together; facts stay with their chunks."""
        every = [item.counts for item in self.chunks.values()]
        return Counts(
            passed=sum(item.passed for item in every),
            failed=sum(item.failed for item in every),
            skipped=sum(item.skipped for item in every),
            cases={case: why for item in every for case, why in item.cases.items()},
        )

    @property
    def seconds(self) -> float:
        """Return how long it took to play."""
        return sum(item.seconds for item in self.chunks.values())

    def played(self) -> str:
        """Return commit and day of what was played, for people; the newest first, with the number of cases of each."""
        found = Counter[tuple[str, str]]()
        for item in self.chunks.values():
            found[item.date[:10], item.commit] += item.counts.passed + item.counts.failed
        several = len(found) > 1
        return "; ".join(
            f"{commit}, {day}" + (f" ({count:,})" if several else "")
            for (day, commit), count in sorted(found.items(), reverse=True)
        )

    def problems(
        self, tree: Tree, speaks_of: Sequence[str], *, at_least: int = 1, allowed: int = ALLOWED
    ) -> Iterator[str]:
        """Yield why this is no proof of the tree: red or missing chunks, too few cases, code that has moved on."""
        if missing := [name for name in self.wanted if name not in self.chunks]:
            yield f"{len(missing)} of {len(self.wanted)} chunks are not played yet, {missing[0]} is the first"
        if (count := self.counts.passed) < at_least:
            yield f"{count:,} passed, and {at_least:,} is the least"
        for name, item in self.chunks.items():
            if item.red:
                yield f"{name}: {item.red}, played at {item.commit}, {item.date[:10]}"
            if (since := tree.commits_since(item.commit, speaks_of)) > allowed:
                yield (
                    f"{name}: played at {item.commit}, {item.date[:10]}; {since} commits changed "
                    f"{', '.join(speaks_of)} since, and {allowed} may"
                )
