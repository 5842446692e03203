"""Recorded proof: what was played, when, on which commit, and how far the code has moved on since.

A record is true of the commit that it names and of no other. So it counts the commits since that touched the code it
speaks of, and a test is red when they are too many: a green of long ago is no green.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ("airflow_kafka_lake",)
LENGTH = 12


class UnknownCommitError(AssertionError):
    """A record names a commit that is not in this history: nothing can be said about its age."""


@dataclass(frozen=True, slots=True, order=True)
class Played:
    """On which commit something was played, and on which day. A tree with changes of its own is no commit."""

    day: str
    commit: str

    def __str__(self) -> str:
        return f"{self.commit}, {self.day}"

    @classmethod
    def parse(cls, text: str) -> Played:
        """Read what `str` wrote."""
        commit, day = text.split(", ")
        return cls(day, commit)

    @classmethod
    def now(cls) -> Played:
        """Return the commit of this tree; one with uncommitted changes of the package is marked, and counts as old."""
        changed = "+" if _git("status", "--porcelain", "--", *PACKAGE) else ""
        commit = _git("rev-parse", f"--short={LENGTH}", "HEAD")
        return cls(datetime.now(UTC).date().isoformat(), f"{commit}{changed}")

    def commits_since(self, paths: Sequence[str] = PACKAGE) -> int:
        """Return how many commits since then touched some paths; UnknownCommitError when it is no commit of ours."""
        try:
            return int(_git("rev-list", "--count", f"{self.commit}..HEAD", "--", *paths))
        except subprocess.CalledProcessError as error:
            raise UnknownCommitError(f"{self}: {error.stderr.strip()}") from None


@dataclass(slots=True)
class Record:
    """Results by name (the empty text is green), each with what it was played on; kept as JSON, newest first."""

    file: Path
    results: dict[str, str] = field(default_factory=dict)
    played: dict[str, Played] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> Record:
        """Read a file; an empty record where there is none."""
        found = cls(file)
        for text, results in (json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}).items():
            found.add(results, Played.parse(text))
        return found

    def add(self, results: Mapping[str, str], played: Played) -> None:
        """Take results in, in the place of earlier ones of the same names."""
        self.results |= results
        self.played |= dict.fromkeys(results, played)

    def keep(self, names: Iterable[str]) -> None:
        """Forget whatever has another name: the code has moved on from it."""
        for name in self.results.keys() - set(names):
            del self.results[name], self.played[name]

    def write(self) -> None:
        """Write the file."""
        text = json.dumps({str(played): self._of(played) for played in self.plays()}, indent=0, ensure_ascii=False)
        self.file.write_text(text + "\n", encoding="utf-8")

    def plays(self) -> list[Played]:
        """Return what results were played on, newest first."""
        return sorted(set(self.played.values()), reverse=True)

    def _of(self, played: Played) -> dict[str, str]:
        return {name: self.results[name] for name in sorted(self.results) if self.played[name] == played}

    def stale(self, allowed: int) -> Iterator[str]:
        """Yield a sentence for each commit that the code has left too far behind."""
        for played in self.plays():
            if (since := played.commits_since()) > allowed:
                yield f"{len(self._of(played))} results played at {played}: {since} commits changed the package since"


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()
