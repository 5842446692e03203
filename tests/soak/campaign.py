"""One soak from the first record to the verdict: rounds of faults with quiet periods, then healing and the proof."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from tests.soak.acknowledged import Acknowledged
from tests.soak.checking import Verdict, check, unfinished, watermarks
from tests.soak.faults import FAULTS, Fault, Scene
from tests.soak.history import check_history
from tests.soak.lanes import LANES
from tests.soak.person import Person
from tests.soak.place import Place
from tests.soak.producers import Producers
from tests.soak.rounds import Round, decide
from tests.soak.screen import Screen
from tests.soak.workers import Worker

HEALING_SECONDS = 300
SETTLING_SECONDS, BETWEEN_RUNS = 900.0, 3.0
ENOUGH_KINDS = 16
HEAD_START = 1.15
"""The pace is a little above what is asked for: the last records shall not be waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was asked for."""

    place: type[Place]
    minutes: float
    records: int
    seed: int
    faults: tuple[str, ...]
    keep: bool = False


@dataclass(slots=True)
class Findings:
    """What went wrong, and in which round it was seen."""

    problems: list[str] = field(default_factory=list)
    recipes: list[str] = field(default_factory=list)
    struck: Counter[str] = field(default_factory=Counter)


class Campaign:
    """Runs a wish; `report` is what came of it."""

    def __init__(self, wish: Wish, screen: Screen) -> None:
        self.wish = wish
        self.screen = screen
        self.rounds = decide(
            seed=wish.seed,
            minutes=wish.minutes,
            faults=wish.faults,
        )
        self.findings = Findings()
        self.round: Round | None = None
        self.played = 0
        self.began = time.monotonic()
        self._looks = threading.Event()

    def run(self) -> dict[str, Any]:
        """Run everything; whatever was started ends with it, also on Ctrl-C."""
        with ExitStack() as stack:
            self.screen.line(f"starting {self.wish.place.starts}")
            self.place = stack.enter_context(self.wish.place(keep=self.wish.keep))
            self.screen.line(f"everything lies in {self.place.home}")
            self.acknowledged = Acknowledged(self.place.home / "acknowledged")
            stack.callback(self.acknowledged.close)
            self.person = Person(self.place)
            self._prepare()
            self.producers = Producers(self.place, self.acknowledged, seed=self.wish.seed)
            stack.callback(self.producers.stop)
            self.workers = (
                Worker(self.place, "one", ("stream",)),
                Worker(self.place, "two", ("expiring", "reborn", "stream")),
            )
            stack.callback(self._end_workers)
            self.began = time.monotonic()
            self._go()
            report = self._prove()
            self.place.keep |= not report["ok"]
            return report

    def _prepare(self) -> None:
        code, _ = self.person.command("db", "upgrade")
        assert code == 0, "the ledger could not be made"

    def _go(self) -> None:
        self.producers.start()
        self.producers.throughput(HEAD_START * self.wish.records / (self.wish.minutes * 60))
        for worker in self.workers:
            worker.start()
        on_call = threading.Thread(target=self._on_call, daemon=True)
        on_call.start()
        for item in self.rounds:
            self._round(item)
            if time.monotonic() - self.began > self.wish.minutes * 60 and len(+self.findings.struck) >= ENOUGH_KINDS:
                break
        while self.acknowledged.total < self.wish.records and not self.producers.problems():
            self._wait(1, "the last records")
        self._looks.set()
        on_call.join(HEALING_SECONDS)

    def _round(self, item: Round) -> None:
        self.round, self.played = item, item.number
        self.place.journal("round", number=item.number, faults=item.faults)
        self.screen.line(f"round {item.number}/{len(self.rounds)}: {', '.join(item.faults)}")
        scene = Scene(
            place=self.place,
            workers=self.workers,
            producers=self.producers,
            acknowledged=self.acknowledged,
        )
        faults = [FAULTS[name](scene, random.Random(f"{self.wish.seed}/{item.number}/{name}")) for name in item.faults]
        over = threading.Event()
        threads = [threading.Thread(target=fault.run, args=(over,), name=fault.name, daemon=True) for fault in faults]
        for thread in threads:
            thread.start()
        self._wait(item.seconds, "faults strike")
        over.set()
        for thread in threads:
            thread.join(HEALING_SECONDS)
        self._after(item, faults, threads)

    def _after(self, item: Round, faults: Sequence[Fault], threads: Sequence[threading.Thread]) -> None:
        problems = [f"fault {t.name} did not heal in {HEALING_SECONDS} s" for t in threads if t.is_alive()]
        for fault in faults:
            self.findings.struck[fault.name] += fault.struck
            problems += fault.problems
        self._wait(item.quiet_seconds, "quiet")
        marks = watermarks(self.place)
        if marks and self.place.catalog().table_exists("raw.events"):
            verdict = check(self.place, self.acknowledged, below=marks, contents=False)
            problems += verdict.problems
        if problems:
            self.findings.problems += [f"round {item.number}: {problem}" for problem in problems]
            self.findings.recipes.append(item.recipe(self.wish.seed, self.place.flags))
            for problem in problems:
                self.screen.line(f"PROBLEM in round {item.number}: {problem}")
            self.screen.line(f"again: {item.recipe(self.wish.seed, self.place.flags)}")

    def _end_workers(self) -> None:
        for worker in self.workers:
            worker.stop()
        for worker in self.workers:
            if worker.process and worker.process.poll() is None:
                worker.process.kill()
        for worker in self.workers:
            if worker.is_alive():
                worker.join(30)

    def _on_call(self) -> None:
        """Let the person look now and then."""
        while not self._looks.wait(10):
            self.person.try_to_look()

    def _wait(self, seconds: float, what: str) -> None:
        until = time.monotonic() + seconds
        while True:
            self.screen.show(self._facts(what))
            if (left := until - time.monotonic()) <= 0:
                return
            time.sleep(min(0.5, left))

    def _stage(self, what: str) -> None:
        self.round = None
        self.place.journal("stage", name=what)
        self.screen.line(what)
        self.screen.show(self._facts(what))

    def _facts(self, what: str) -> dict[str, object]:
        elapsed = time.monotonic() - self.began
        item = self.round
        return {
            "round": f"{item.number}/{len(self.rounds)} ({what})" if item else what,
            "acknowledged": f"{self.acknowledged.total:,} of {self.wish.records:,}",
            "runs": sum(sum(worker.codes.values()) for worker in self.workers),
            "struck": sum(self.findings.struck.values()),
            "problems": len(self.findings.problems),
            "seconds": f"{elapsed:.0f} of {self.wish.minutes * 60:.0f}",
        }

    # -- the end ------------------------------------------------------------------------------------------------------

    def _prove(self) -> dict[str, Any]:
        self._stage("healing: producers and workers end what they have begun")
        self.producers.stop()
        for worker in self.workers:
            worker.stop()
        for worker in self.workers:
            worker.join(HEALING_SECONDS)
        self.findings.problems += self.producers.problems() + self.producers.late()
        self._stage("resting: every lane runs until nothing is left")
        committed = self._settle()
        self._stage("reading everything")
        verdict = check(self.place, self.acknowledged, below=None, contents=True)
        audits = {name: self.person.command("audit", name)[1] for name in LANES if name in committed}
        return self._report(verdict, committed, audits)

    def _settle(self) -> dict[str, dict[str, Any]]:
        """Run every lane until nothing is left, as cron would; returns the last `status` of each."""
        last = {name: Worker(self.place, f"last of {name}", ()) for name in LANES}
        with ThreadPoolExecutor(max_workers=2) as pool:
            settling = {name: pool.submit(self._settle_lane, name, worker) for name, worker in last.items()}
            while not all(lane.done() for lane in settling.values()):
                self._wait(1, "settling")
        self.workers += tuple(last.values())
        return {name: lane.result() for name, lane in settling.items()}

    def _settle_lane(self, name: str, worker: Worker) -> dict[str, Any]:
        """Run a lane until nothing is left; one that lands nothing for longer than any grace or lease is stuck."""
        until = time.monotonic() + SETTLING_SECONDS
        while (ended := worker.once(name)).code != 0 or ended.document.get("waves"):
            if ended.document.get("waves"):
                until = time.monotonic() + SETTLING_SECONDS
            elif time.monotonic() > until:
                quiet = f"stuck: {name} has landed nothing for {SETTLING_SECONDS:.0f} s and does not end"
                self.findings.problems.append(f"{quiet}, see {ended.err}")
                break
            else:
                time.sleep(BETWEEN_RUNS)
            self.person.try_to_look()
        return self.person.command("status", name)[1]

    def _report(self, verdict: Verdict, status: dict[str, Any], audits: dict[str, Any]) -> dict[str, Any]:
        stuck = unfinished(status)
        problems = self.findings.problems + verdict.problems + stuck + self.person.findings
        for name, audit in audits.items():
            if not audit.get("ok"):
                said = audit.get("problems", []) + [p for s in audit.get("streams", []) for p in s["problems"]]
                problems.append(f"kafka-lake audit {name}: {'; '.join(said)[:600] or audit}")
        for worker in self.workers:
            problems += worker.findings
        problems += check_history(self.place, self.acknowledged)
        accounting = Counter[str]()
        for audit in audits.values():
            for stream in audit.get("streams", ()):
                accounting.update(stream["accounting"])
        problems += _disagreements(verdict, accounting)
        kinds = [name for name in self.wish.faults if self.findings.struck[name]]
        numbers = {
            "seconds": round(time.monotonic() - self.began),
            "records": self.acknowledged.total,
            "fault_kinds": len(kinds),
            "faults": sum(self.findings.struck.values()),
            "rounds": self.played,
            "runs": sum(sum(worker.codes.values()) for worker in self.workers),
            "waves": self._waves(),
            **{name: value for name, value in verdict.to_json().items() if name != "problems"},
            "unexplained": verdict.unexplained + accounting["unexplained"],
            "stuck": len(stuck),
        }
        codes = sum((worker.codes for worker in self.workers), Counter[int]())
        return {
            "ok": not problems,
            "seed": self.wish.seed,
            "numbers": numbers,
            "faults": {
                name: {"struck": self.findings.struck[name], "message": FAULTS[name].words} for name in self.wish.faults
            },
            "exit_codes": {str(code): count for code, count in sorted(codes.items())},
            "accounting": dict(accounting),
            "problems": problems,
            "recipes": self.findings.recipes,
        }

    def _waves(self) -> int:
        with self.place.database("ledger") as cursor:
            cursor.execute("SELECT count(*) FROM kafka_lake_wave WHERE state = 'COMMITTED'")
            return int(cursor.fetchone()[0])


def _disagreements(verdict: Verdict, accounting: Counter[str]) -> list[str]:
    """Compare the pipeline's own numbers with those of the producers."""
    pairs = {"visible": verdict.visible, "compacted": verdict.compacted, "unexplained": 0}
    return [
        f"the ledger accounts for {accounting[name]} {name} offsets, the producers' notes for {number}"
        for name, number in pairs.items()
        if accounting[name] != number
    ]
