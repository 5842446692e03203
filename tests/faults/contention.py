"""Real processes that want the same waves and streams of one ledger at the same moment.

    python -m tests.faults.contention claims --url URL --processes 50 --rounds 2 --seed 7
    python -m tests.faults.contention race   --url URL --processes 6 --seconds 20 --seed 7

The ledger must be there and hold pipeline `orders` (`prepare`). Each process is forked from this one, which has
imported what is heavy and has opened nothing, and then waits for all others before it begins. One JSON document on
stdout has what every process saw; the caller compares it with the ledger.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import secrets
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from airflow_kafka_lake.adapters.machine import HostProcesses
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.core.errors import ConcurrentError, KafkaLakeError, StaleFenceError, StateError
from airflow_kafka_lake.core.ledger.attempts import (
    ClaimWave,
    EndAttempt,
    MarkPublishing,
    MarkStaged,
    RecordBase,
    RecordCommit,
)
from airflow_kafka_lake.core.ledger.decisions import Release, Revoke, Skip
from airflow_kafka_lake.core.ledger.plans import RecordPlan, SavePipeline
from airflow_kafka_lake.core.ledger.records import Claim, RangeDecision, RangeRecord
from airflow_kafka_lake.core.ledger.waves import UNRESOLVED, AttemptOutcome, RangeState, WaveState
from airflow_kafka_lake.core.offsets import Slice
from airflow_kafka_lake.core.planning.plan import Plan
from tests.contracts.ledger_world import SPEC, key_of, plan_of, receipts_of

LEASE = timedelta(minutes=5)
EXPECTED = (StaleFenceError, StateError)
"""Errors of the second of two writers, besides a ConcurrentError that names the first."""
EXHAUSTED = "other transactions hold its rows"
"""What the ledger says when its own repetitions did not help: no caller may see it."""
CONTEXT = multiprocessing.get_context("fork")


@dataclass
class Seen:
    """What one process saw: claims that it won, numbers, and errors that no process should see."""

    won: list[tuple[str, int, str]] = field(default_factory=list)
    kept: list[tuple[str, int, str]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    error_kinds: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def ask(self, act: str, call: Callable[[], Any]) -> Any:
        """Make one call; None when it was refused as it may be."""
        begun = time.monotonic()
        try:
            answer = call()
        except EXPECTED as error:
            return self._refused(act, error)
        except ConcurrentError as error:
            if EXHAUSTED in error.message:
                self.error_kinds.append(f"{act}: {error}")
            return self._refused(act, error)
        except Exception as error:  # noqa: BLE001 - whatever else is said is what this looks for
            self.error_kinds.append(f"{act}: {type(error).__name__}: {error} {traceback.format_exc(limit=-2)}")
            return None
        finally:
            self.slowest = max(self.slowest, time.monotonic() - begun)
        self.counts[act] = self.counts.get(act, 0) + 1
        return True if answer is None else answer

    def _refused(self, act: str, error: KafkaLakeError) -> None:
        name = f"{act} refused by {type(error).__name__}"
        self.counts[name] = self.counts.get(name, 0) + 1


Work = Callable[[SqlLedger, random.Random, Seen, argparse.Namespace], None]


# -- claims -----------------------------------------------------------------------------------------------------------


def claims(ledger: SqlLedger, chance: random.Random, seen: Seen, asked: argparse.Namespace) -> None:
    """Claim every wave in every round, do a little with it, and give it back; some claims are taken by force."""
    waves = [wave.id for wave in ledger.waves(SPEC.name)]
    for _ in range(asked.rounds):
        chance.shuffle(waves)
        for wave in waves:
            over = ledger.wave(wave).fence if chance.random() < 0.2 else None
            if claim := _claim(ledger, seen, wave, over):
                seen.won.append((wave, claim.key.fence, claim.key.attempt))
                _work_a_little(ledger, chance, seen, claim)
    asked.gate.wait()
    chance.shuffle(waves)
    for wave in waves:
        if claim := _claim(ledger, seen, wave, None):
            seen.kept.append((wave, claim.key.fence, claim.key.attempt))


def _claim(ledger: SqlLedger, seen: Seen, wave: str, over: int | None) -> Claim | None:
    holder, attempt = HostProcesses().this(), secrets.token_hex(8)
    return seen.ask(
        "claim", lambda: ledger.commit(ClaimWave(wave=wave, attempt=attempt, holder=holder, lease=LEASE, over=over))
    )


def _work_a_little(ledger: SqlLedger, chance: random.Random, seen: Seen, claim: Claim) -> None:
    key = claim.key
    seen.ask("record_base", lambda: ledger.commit(RecordBase(key=key, base=7)))
    if chance.random() < 0.5:
        seen.ask("mark_staged", lambda: ledger.commit(MarkStaged(key=key, audited=8, staged_bytes=1)))
    seen.ask("end_attempt", lambda: ledger.commit(EndAttempt(key=key, outcome=AttemptOutcome.FAILED, error=None)))


# -- a race of decisions ----------------------------------------------------------------------------------------------


def race(ledger: SqlLedger, chance: random.Random, seen: Seen, asked: argparse.Namespace) -> None:
    """Decide at random about the same streams until the time is over; one process only watches."""
    end = time.monotonic() + asked.seconds
    if asked.number == 0:
        while time.monotonic() < end:
            watch(ledger, seen)
        return
    steps = [_plan, _plan, _settle, _settle, _settle, _skip, _cancel, _release, _advance, _advance]
    while time.monotonic() < end:
        chance.choice(steps)(ledger, chance, seen, asked)


def watch(ledger: SqlLedger, seen: Seen) -> None:
    """Look at one moment, past all code of the ledger: no watermark above an unresolved range, nor one that fell."""
    states = ", ".join(f"'{state}'" for state in sorted(UNRESOLVED))
    above = (
        "SELECT s.id, s.watermark, r.start_offset, r.state FROM kafka_lake_stream s JOIN kafka_lake_range r "
        f"ON r.stream = s.id WHERE r.state IN ({states}) AND r.end_offset > s.origin AND r.start_offset < s.watermark"
    )
    with ledger.engine.connect() as connection:
        seen.error_kinds += [f"watermark above a hold: {tuple(row)}" for row in connection.exec_driver_sql(above)]
        found = connection.exec_driver_sql("SELECT id, watermark FROM kafka_lake_stream").all()
    for stream, watermark in found:
        name = f"watermark {stream}"
        if watermark < seen.counts.get(name, 0):
            seen.error_kinds.append(f"watermark of stream {stream} fell from {seen.counts[name]} to {watermark}")
        seen.counts[name] = watermark
    seen.counts["looks"] = seen.counts.get("looks", 0) + 1


def _some(chance: random.Random, found: tuple[Any, ...]) -> Any:
    return chance.choice(found) if found else None


def _plan(ledger: SqlLedger, chance: random.Random, seen: Seen, _asked: argparse.Namespace) -> None:
    """Plan the next slice of some streams, as the newest records have it."""
    known = {stream.key.partition: stream for stream in ledger.streams(SPEC.name)}
    chosen = chance.sample(sorted(known), k=2)
    slices = []
    for partition in sorted(chosen):
        start = max([item.end for item in known[partition].planned], default=0)
        slices.append((partition, start, start + chance.randint(1, 20)))
    waves = [slices] if chance.random() < 0.5 else [[item] for item in slices]
    plan: Plan = plan_of(ledger, *waves, plan=f"p{secrets.token_hex(6)}")
    seen.ask("plan", lambda: ledger.commit(RecordPlan(plan=plan, actor="planner")))


def _settle(ledger: SqlLedger, chance: random.Random, seen: Seen, _asked: argparse.Namespace) -> None:
    wave = _some(chance, ledger.waves(SPEC.name, {WaveState.PLANNED}))
    claim = _claim(ledger, seen, wave.id, None) if wave else None
    if claim is None:
        return
    key = claim.key
    seen.ask("record_base", lambda: ledger.commit(RecordBase(key=key, base=7)))
    seen.ask("mark_staged", lambda: ledger.commit(MarkStaged(key=key, audited=8, staged_bytes=1)))
    seen.ask("mark_publishing", lambda: ledger.commit(MarkPublishing(key=key)))
    receipts = receipts_of(claim.ranges)
    seen.ask(
        "recover", lambda: ledger.commit(RecordCommit(key=key, attempt=key.attempt, snapshot=99, receipts=receipts))
    )


def _open(ledger: SqlLedger, chance: random.Random, *states: RangeState) -> RangeRecord | None:
    return _some(chance, ledger.ranges(pipeline=SPEC.name, states=states))


def _skip(ledger: SqlLedger, chance: random.Random, seen: Seen, _asked: argparse.Namespace) -> None:
    """Skip in the middle of what is open, under the guard that a claimed wave needs."""
    item = _open(ledger, chance, RangeState.PLANNED, RangeState.CANCELLED)
    if item is None:
        return
    wave = ledger.wave(item.wave)
    held = []
    if wave.fence and wave.state in {WaveState.PLANNED, WaveState.CLAIMED}:
        claim = _claim(ledger, seen, item.wave, wave.fence)
        held = [claim.key] if claim else []
    end = item.range.end + chance.randint(-1, 3)
    slice_ = type(item.range)(item.range.start, max(end, item.range.start + 1))
    seen.ask(
        "skip",
        lambda: ledger.commit(
            Skip(
                pipeline=SPEC.name,
                slice=Slice(key_of(item.stream.partition), slice_),
                id=secrets.token_hex(8),
                reason="poison",
                actor="person",
                acknowledge_order=False,
                guards=held,
            )
        ),
    )


def _cancel(ledger: SqlLedger, chance: random.Random, seen: Seen, _asked: argparse.Namespace) -> None:
    item = _open(ledger, chance, RangeState.PLANNED)
    if item is None:
        return
    wave = ledger.wave(item.wave)
    claim = _claim(ledger, seen, wave.id, wave.fence) if wave.fence else None
    fence, attempt = (claim.key.fence, claim.key.attempt) if claim else (wave.fence, None)
    verdict = RangeDecision(
        range_id=item.id, state=chance.choice([RangeState.CANCELLED, RangeState.HELD]), reason="because"
    )
    seen.ask(
        "cancel",
        lambda: ledger.commit(Revoke(wave=wave.id, fence=fence, attempt=attempt, verdicts=[verdict], actor="person")),
    )


def _release(ledger: SqlLedger, chance: random.Random, seen: Seen, _asked: argparse.Namespace) -> None:
    if item := _open(ledger, chance, RangeState.CANCELLED, RangeState.HELD):
        wave = secrets.token_hex(6)
        seen.ask("release", lambda: ledger.commit(Release(ranges=[item.id], wave=wave, actor="person", reason=None)))


def _advance(ledger: SqlLedger, _chance: random.Random, seen: Seen, _asked: argparse.Namespace) -> None:
    seen.ask("advance", lambda: ledger.advance(SPEC.name))


# -- processes --------------------------------------------------------------------------------------------------------


def prepare(ledger: SqlLedger, waves: int, partitions: int = 4) -> None:
    """Put pipeline `orders` into an empty ledger: some waves of one range each, over some partitions."""
    ledger.commit(SavePipeline(spec=SPEC))
    slices = [[(n % partitions, n // partitions * 10, n // partitions * 10 + 10)] for n in range(waves)]
    ledger.commit(RecordPlan(plan=plan_of(ledger, *slices), actor="preparer"))


def _begin(work: Work, number: int, asked: argparse.Namespace, answer: Any) -> None:
    seen = Seen()
    asked.number = number
    try:
        ledger = SqlLedger(asked.url, actor=f"process-{number}")
        ledger.ledger_id()
        asked.gate.wait()
        work(ledger, random.Random(f"{asked.seed}-{number}"), seen, asked)
        ledger.close()
    except BaseException as error:  # noqa: BLE001 - the parent tells
        seen.error_kinds.append(f"process {number}: {type(error).__name__}: {error} {traceback.format_exc(limit=-3)}")
        asked.gate.abort()
    answer.put(vars(seen))
    answer.close()
    answer.join_thread()
    os._exit(0)


def contend(work: Work, asked: argparse.Namespace) -> list[dict[str, Any]]:
    """Let all processes work at once; returns what each saw."""
    answers = CONTEXT.Queue()
    asked.gate = CONTEXT.Barrier(asked.processes)
    running = [CONTEXT.Process(target=_begin, args=(work, n, asked, answers)) for n in range(asked.processes)]
    for process in running:
        process.start()
    seen = [answers.get(timeout=asked.timeout) for _ in running]
    for process in running:
        process.join()
    return seen


def main() -> int:
    """Read the command line, contend, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", choices=["claims", "race"])
    parser.add_argument("--url", required=True)
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--timeout", type=float, default=600.0)
    parser.add_argument("--seed", default=secrets.token_hex(4))
    asked = parser.parse_args()
    begun = time.monotonic()
    seen = contend({"claims": claims, "race": race}[asked.work], asked)
    document = {"seed": asked.seed, "seconds": round(time.monotonic() - begun, 2), "told": seen}
    json.dump(document, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
