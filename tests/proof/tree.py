"""What git knows of this tree: which commit it is, whether it has changes of its own, and how far it has moved on."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
LENGTH = 12
UNPROVED = (":!docs", ":!tests/proof/evidence", ":!tests/durations.json")
"""What no part of the proof speaks of: documents and records may change without playing anything again."""


class UnknownCommitError(AssertionError):
    """Evidence names a commit that is not in this history: nothing can be said about its age."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A work tree of git."""

    root: Path = ROOT

    def commit(self) -> str:
        """Return the commit that is checked out."""
        return self._git("rev-parse", f"--short={LENGTH}", "HEAD")

    def changed(self) -> list[str]:
        """Return the files that differ from the commit, new ones included; documents and evidence do not count."""
        return [line[3:] for line in self._git("status", "--porcelain", "--", ".", *UNPROVED).splitlines()]

    def same(self, commit: str) -> bool:
        """Return whether nothing but documents and evidence has changed since a commit; False for an unknown one."""
        words = ("diff", "--quiet", commit, "HEAD", "--", ".", *UNPROVED)
        return subprocess.run(["git", *words], cwd=self.root, capture_output=True, check=False).returncode == 0

    def commits_since(self, commit: str, paths: Sequence[str]) -> int:
        """Return how many commits since then touched some paths; UnknownCommitError when it is no commit of ours."""
        return _commits_between(self.root, commit, self.commit(), tuple(paths))

    def _git(self, *words: str) -> str:
        return _git(self.root, *words)


@cache
def _commits_between(root: Path, begin: str, end: str, paths: tuple[str, ...]) -> int:
    try:
        _git(root, "merge-base", "--is-ancestor", begin, end)
        return int(_git(root, "rev-list", "--count", f"{begin}..{end}", "--", *paths))
    except subprocess.CalledProcessError:
        raise UnknownCommitError(f"{begin} is no commit of this history (is the clone a shallow one?)") from None


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.rstrip("\n")
