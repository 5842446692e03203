"""Play the parts, chunk by chunk; what has ended is kept at once, so that a stopped proof goes on where it was."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from airflow_kafka_lake.local.processes import Keeper
from tests.proof.evidence import Chunk, Counts, Evidence
from tests.proof.parts import EMPTY, REPORT, Part, Work
from tests.proof.tree import Tree
from tests.soak.screen import Screen

LINE_SECONDS = 600
LEAST_MINUTES, PATIENCE = 30, 5
"""A chunk is killed after five times its minutes, and never before so many."""
STOP_SECONDS = 60
LOG_LINES = 30


class MovedError(Exception):
    """The tree changed while a chunk was played: what it found speaks of no commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One proof of one tree. `folder` holds the evidence, `logs` what the programs wrote."""

    tree: Tree
    folder: Path
    logs: Path
    versions: Mapping[str, str]
    screen: Screen
    again: bool = False
    only_red: bool = False

    def play(self, parts: Mapping[str, tuple[Part, Sequence[Work]]], seed: int) -> None:
        """Play whatever is not green for this tree; MovedError when the tree does not stay as it is."""
        waiting = {name: list(self.waiting(part, works, again=self.again)) for name, (part, works) in parts.items()}
        for name, (part, works) in parts.items():
            evidence = Evidence.read(name, self.folder)
            evidence.wanted = [work.name for work in works]
            for work in list(waiting[name]):
                left = sum(self.expected(other, item) for other, items in waiting.items() for item in items)
                self.screen.line(f"{name}, {work.name} · about {in_minutes(left)} left · {work}")
                chunk = self._chunk(part, work, seed)
                waiting[name].remove(work)
                evidence.add(work.name, chunk)
                evidence.write()
                self._tell(part, work, chunk)
            evidence.end()
            evidence.write()

    def waiting(self, part: Part, works: Sequence[Work], *, again: bool) -> Iterator[Work]:
        """Yield what is not played for this tree, or not green; all of it `again`; of a proof of what is red, that."""
        known = Evidence.read(part.name, self.folder).chunks
        for work in works:
            chunk = known.get(work.name)
            done = chunk and not chunk.red and chunk.command == str(work) and self.tree.same(chunk.commit)
            if (chunk and chunk.red) if self.only_red else again or not done:
                yield work

    def expected(self, part: str, work: Work) -> float:
        """Return the seconds that a chunk should take: those of the last time, or what the catalog says."""
        chunk = Evidence.read(part, self.folder).chunks.get(work.name)
        return chunk.seconds if chunk and not chunk.red and chunk.command == str(work) else 60 * work.minutes

    def _chunk(self, part: Part, work: Work, seed: int) -> Chunk:
        commit, began, date = self.tree.commit(), time.monotonic(), datetime.now(UTC)
        place = self.logs / part.name
        place.mkdir(parents=True, exist_ok=True)
        report, log = (place / f"{work.name.replace('/', '.')}.{ending}" for ending in ("report", "log"))
        report.unlink(missing_ok=True)
        log.unlink(missing_ok=True)
        code = self._run(work, report, log)
        if (changed := self.tree.changed()) or not self.tree.same(commit):
            raise MovedError(f"{part.name}, {work.name}: {changed[0] if changed else 'another commit is checked out'}")
        return Chunk(
            commit=commit,
            date=date.isoformat(timespec="seconds"),
            command=str(work),
            seed=seed,
            seconds=round(time.monotonic() - began, 1),
            code=code,
            counts=_counts(part, report),
            versions=self.versions,
        )

    def _run(self, work: Work, report: Path, log: Path) -> int:
        """Run a process to its end; all that it started ends with it, and with this process."""
        words = [word.replace(REPORT, str(report)) for word in work.words]
        outside = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
        path = os.pathsep.join(filter(None, [str(self.tree.root), os.environ.get("PYTHONPATH", "")]))
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="proof-", ignore_cleanup_errors=True) as empty, Keeper() as keeper:
            special = {key: value.replace(EMPTY, empty) for key, value in work.environment.items()}
            keeper.start(
                [sys.executable, "-m", *words],
                log=log,
                env={**outside, "PYTHONPATH": path, **special},
                cwd=self.tree.root,
            )
            try:
                while not keeper.wait_ended(LINE_SECONDS):
                    took = time.monotonic() - began
                    self.screen.line(f"{work.name}: {in_minutes(took)} so far")
                    if took > 60 * max(LEAST_MINUTES, PATIENCE * work.minutes):
                        self.screen.line(f"{work.name}: killed, it takes too long")
                        return -signal.SIGKILL
            except KeyboardInterrupt:
                keeper.signal_group(signal.SIGINT)
                keeper.wait_ended(STOP_SECONDS)
                raise
            return keeper.code

    def _tell(self, part: Part, work: Work, chunk: Chunk) -> None:
        found = f"{chunk.counts.passed:,} {part.cases} in {in_minutes(chunk.seconds)}"
        self.screen.line(f"{part.name}, {work.name}: {f'RED, {chunk.red}' if chunk.red else 'green'}; {found}")
        log = self.logs / part.name / f"{work.name.replace('/', '.')}.log"
        if chunk.red and log.exists():
            for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]:
                self.screen.line(f"  {line}")
            self.screen.line(f"  all of it: {log}")


def _counts(part: Part, report: Path) -> Counts:
    """Read a report; what was killed may have left none, or half of one."""
    try:
        return part.read(report)
    except Exception as error:  # noqa: BLE001  # whatever the reason, there is no case that counts
        return Counts(facts={"report": f"{type(error).__name__}: {error}"})


def in_minutes(seconds: float) -> str:
    """Return a duration for people."""
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes else f"{seconds:.0f} s"
