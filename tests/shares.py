"""What of a large family of tests plays in a run: what the change touches, and a share that moves with the code.

A family are parameter sets that differ in little (failpoints). Its members are marked `rotating(n)`:
each change of the package plays another n-th of them. What is marked `nightly` plays only in a whole run. `--whole`
leaves out nothing, and a run that names its tests (`::`, `-k`) plays all it names. What was left out is written at the
end of the run.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "airflow_kafka_lake"
COMMITS = 10
"""What these last commits and the uncommitted changes touch plays in every run."""
LEFT_OUT = "left_out"


@cache
def share() -> int:
    """Return a number that follows from all of the package: each change of it plays another share."""
    return crc32(b"".join(path.read_bytes() for path in sorted(PACKAGE.rglob("*.py"))))


@cache
def touched() -> frozenset[Path] | None:
    """Return the files that the last commits and the uncommitted changes touch; None where no history says so."""
    words = ["git", "diff", "--name-only", f"HEAD~{COMMITS}", "--"]
    try:
        said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return frozenset(ROOT / name for name in said.splitlines())


def rotating(shares: int, *about: Path) -> tuple[pytest.MarkDecorator, ...]:
    """Return the marks of a family's member: one of so many shares, unless the change touches what it is about."""
    now = touched()
    return () if now is None or not now.isdisjoint(about) else (pytest.mark.rotating(shares),)


def plays(name: str, shares: int, moved: int) -> bool:
    """Return whether a member plays while the share is `moved`; in `shares` successive ones it plays once."""
    return (crc32(name.encode()) + moved) % shares == 0


class Shares:
    """Leaves tests out, and writes at the end how many of which."""

    def __init__(self, config: pytest.Config) -> None:
        self._whole = config.getoption("--whole")
        self._named = bool(config.getoption("keyword")) or any("::" in word for word in config.args)
        self._left_out: Counter[str] = Counter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what does not play."""
        playing: dict[bool, list[pytest.Item]] = {True: [], False: []}
        for item in items:
            playing[self._plays(item)].append(item)
        self._left_out = Counter(_family(item) for item in playing[False])
        config.hook.pytest_deselected(items=playing[False])
        items[:] = playing[True]

    def _plays(self, item: pytest.Item) -> bool:
        if self._whole or item.get_closest_marker("nightly"):
            return self._whole
        mark = item.get_closest_marker("rotating")
        return mark is None or self._named or plays(item.nodeid, mark.args[0], share())

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Tell the process that writes the summary."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[LEFT_OUT] = dict(self._left_out)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker says: each has collected the same."""
        self._left_out = Counter(getattr(node, "workeroutput", {}).get(LEFT_OUT, self._left_out))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write what this run did not play."""
        if self._left_out:
            terminalreporter.section("left to the nightly (--whole plays all)")
            for line in _lines(self._left_out):
                terminalreporter.write_line(line)


def _family(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0].removeprefix("tests/")


def _lines(left: Counter[str]) -> Iterator[str]:
    return (f"{count:5} of {name}" for name, count in sorted(left.items()))
