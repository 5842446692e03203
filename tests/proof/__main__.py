"""`make proof`: the nightly. It goes on where a stopped one was; a part that is not green makes the whole red.

    make proof                                    # everything that is not green for this commit yet
    make proof ARGS="--list"                      # the parts, their minutes, and what is known of them
    make proof ARGS="--only histories --seed 7"
    make proof ARGS="--only suite --chunk tests/faults/test_reading.py"

Exit code: 0 all of the chosen parts are green, 1 one is not, 2 it cannot begin or the tree changed, 130 stopped.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from airflow_kafka_lake.adapters.jars.cache import JarSet, pinned
from airflow_kafka_lake.local.processes import Keeper
from tests.proof.evidence import FOLDER, Chunk, Counts, Evidence
from tests.proof.parts import EMPTY, HISTORIES, PARTS, REPORT, ROOT, SOAK_MINUTES, Part, Wish, Work
from tests.soak.screen import Screen

UNPROVED = (":!docs", ":!tests/proof/evidence", ":!tests/durations.json")
"""What no part speaks of: documents and records may change without playing anything again."""
LEAST_MINUTES, PATIENCE, LINE_SECONDS, STOP_SECONDS, LOG_LINES = 30, 5, 600, 60, 30
"""A chunk is killed after PATIENCE times its minutes, and never before the least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A proof of one tree. `folder` holds the evidence; what the programs write goes to `build/proof`."""

    folder: Path
    root: Path = ROOT
    chunk: str = ""
    """Part of a chunk's name: only such chunks are played."""
    screen: Screen = field(default_factory=Screen)
    versions: Mapping[str, str] = field(default_factory=dict)

    def git(self, *words: str) -> str:
        """Return what git says of the tree."""
        done = subprocess.run(["git", *words], cwd=self.root, capture_output=True, text=True, check=True)
        return done.stdout.rstrip("\n")

    def commit(self) -> str:
        """Return the commit that is checked out."""
        return self.git("rev-parse", "--short=12", "HEAD")

    def changed(self) -> list[str]:
        """Return the files that differ from the commit, new ones included; documents and evidence do not count."""
        return [line[3:] for line in self.git("status", "--porcelain", "--", ".", *UNPROVED).splitlines()]

    def waiting(self, part: Part, works: Sequence[Work]) -> Iterator[Work]:
        """Yield what is not green for this commit; documents and evidence make no other one."""
        known = Evidence.read(part.name, self.folder).chunks
        for work in works:
            chunk = known.get(work.name)
            if chunk is None or chunk.red or chunk.command != str(work) or not self._same(chunk.commit):
                yield work

    def _same(self, commit: str) -> bool:
        words = ("git", "diff", "--quiet", commit, "HEAD", "--", ".", *UNPROVED)
        return subprocess.run(words, cwd=self.root, capture_output=True, check=False).returncode == 0

    def play(self, part: Part, works: Sequence[Work], seed: int) -> bool:
        """Play what waits, and keep each chunk when it ends; returns whether the tree stayed as it is."""
        evidence = Evidence.read(part.name, self.folder)
        for work in [item for item in self.waiting(part, works) if self.chunk in item.name]:
            commit, began, date = self.commit(), time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
            self.screen.line(f"{part.name}, {work.name} · about {in_minutes(60 * work.minutes)} · {work}")
            place = self.root / "build" / "proof" / part.name / work.name.replace("/", ".")
            place.parent.mkdir(parents=True, exist_ok=True)
            report, log = place.with_name(f"{place.name}.report"), place.with_name(f"{place.name}.log")
            report.unlink(missing_ok=True)
            log.unlink(missing_ok=True)
            code = self._run(work, report, log)
            if self.changed() or self.commit() != commit:
                self.screen.line("the tree changed while it was played, so this proves nothing")
                return False
            try:
                counts = part.read(report)
            except Exception as error:  # noqa: BLE001  # killed, it leaves no report or half of one: no case counts
                counts = Counts(facts={"report": f"{type(error).__name__}: {error}"})
            seconds = round(time.monotonic() - began, 1)
            chunk = Chunk(
                commit=commit, date=date, command=str(work), seed=seed, seconds=seconds, code=code, counts=counts,
                versions=self.versions,
            )  # fmt: skip
            evidence.chunks[work.name] = chunk
            evidence.write()
            self._tell(part, work, chunk, log)
        names = {work.name for work in works}
        evidence.chunks = {name: item for name, item in evidence.chunks.items() if name in names}
        evidence.write()
        return True

    def _run(self, work: Work, report: Path, log: Path) -> int:
        """Run a process to its end; all that it started ends with it, and with this process."""
        words = [word.replace(REPORT, str(report)) for word in work.words]
        outside = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
        outside["PYTHONPATH"] = os.pathsep.join(filter(None, [str(self.root), os.environ.get("PYTHONPATH", "")]))
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="proof-", ignore_cleanup_errors=True) as empty, Keeper() as keeper:
            special = {key: value.replace(EMPTY, empty) for key, value in work.environment.items()}
            keeper.start([sys.executable, "-m", *words], log=log, env={**outside, **special}, cwd=self.root)
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

    def _tell(self, part: Part, work: Work, chunk: Chunk, log: Path) -> None:
        found = f"{chunk.counts.passed:,} {part.cases} in {in_minutes(chunk.seconds)}"
        self.screen.line(f"{part.name}, {work.name}: {f'RED, {chunk.red}' if chunk.red else 'green'}; {found}")
        if chunk.red and log.exists():
            for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]:
                self.screen.line(f"  {line}")
            self.screen.line(f"  all of it: {log}")

    def show(self, works: Mapping[Part, Sequence[Work]]) -> int:
        """Show a line for each part; returns 0 when all of them are green for this commit."""
        rows = []
        for part, items in works.items():
            evidence = Evidence.read(part.name, self.folder)
            waiting = len(list(self.waiting(part, items)))
            red = "; ".join(f"{name}: {item.red}" for name, item in evidence.chunks.items() if item.red)
            state = f"RED {red}" if red else "not played" if waiting or not items else "green"
            took = in_minutes(evidence.seconds or sum(60 * work.minutes for work in items))
            done = f"{len(items) - waiting} of {len(items)}"
            rows.append((part.name, state, done, f"{evidence.passed:,} {part.cases}", took, evidence.played()))
        self.screen.table("proof", ("part", "is", "#chunks", "#passed", "#takes", "played at"), rows)
        return int(any(row[1] != "green" for row in rows))


def main(words: Sequence[str], parts: Sequence[Part] = PARTS, root: Path = ROOT) -> int:
    """Play what was asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make proof ARGS=…", description=(__doc__ or "").splitlines()[0])
    names = [part.name for part in parts]
    parser.add_argument("--only", choices=names, action="append", help="only this part; may be given again")
    parser.add_argument("--chunk", default="", help="only chunks whose name contains this text, such as a file's")
    parser.add_argument("--list", action="store_true", help="show the parts and what is known of them, and end")
    parser.add_argument("--seed", type=int, help="deals histories, faults and orders; the commit deals them without it")
    parser.add_argument("--histories", type=int, default=HISTORIES, help=f"how many are simulated ({HISTORIES:,})")
    parser.add_argument("--minutes", type=float, default=SOAK_MINUTES, help="how long the soak strikes (60)")
    parser.add_argument("--evidence", type=Path, default=FOLDER, help="another folder for the evidence, for a try")
    asked = parser.parse_args(words)
    proof = Proof(folder=asked.evidence, root=root, chunk=asked.chunk, versions=versions())
    if (changed := proof.changed()) and not asked.list:
        proof.screen.line(
            f"{len(changed)} files differ from the commit ({changed[0]}, …). Evidence speaks of a commit: "
            "commit them, or stash them (git stash -u), and run it again"
        )
        return 2
    code = proof.git("log", "-1", "--format=%h", "--abbrev=12", "--", ".", *UNPROVED)
    seed = int(code, 16) % 10**6 if asked.seed is None else asked.seed
    wish = Wish(seed=seed, histories=asked.histories, minutes=asked.minutes)
    works = {part: part.works(wish) for part in parts if not asked.only or part.name in asked.only}
    if asked.list:
        proof.show(works)
        return 0
    proof.screen.line(f"seed {seed}, commit {proof.commit()}")
    try:
        if not all(proof.play(part, items, seed) for part, items in works.items()):
            return 2
    except KeyboardInterrupt:
        proof.screen.line("stopped; run it again, and it goes on with what is not green yet")
        return 130
    return proof.show(works)


def versions() -> dict[str, str]:
    """Return the version of everything real that the product meets in its tests."""

    def jar(jar_set: JarSet, artifact: str) -> str:
        return next(jar.version for jar in pinned(jar_set) if jar.artifact.startswith(artifact))

    return {
        "python": platform.python_version(),
        "airflow": version("apache-airflow"),
        "spark": version("pyspark"),
        "kafka": jar(JarSet.KAFKA_BROKER, "kafka_2.13"),
        "iceberg": jar(JarSet.SPARK, "iceberg-spark-runtime"),
        "pyiceberg": version("pyiceberg"),
    }


def in_minutes(seconds: float) -> str:
    """Return a duration for people."""
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes else f"{seconds:.0f} s"


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _interrupt)
    code = main(sys.argv[1:])
    if "--list" not in sys.argv:  # the reference pages are written from the evidence
        subprocess.run([sys.executable, ROOT / "docs" / "generate.py"], check=True)
    sys.exit(code)
