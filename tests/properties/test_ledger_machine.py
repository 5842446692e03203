"""Random acts against the memory ledger and the SQL ledger side by side: they agree, and the laws hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.adapters.sql_ledger import tables
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import JobFailedError, KafkaLakeError
from airflow_kafka_lake.core.ledger import records
from airflow_kafka_lake.core.ledger.attempts import (
    ClaimWave,
    EndAttempt,
    MarkPublishing,
    MarkStaged,
    RecordBase,
    RecordCommit,
    RecordJob,
    Renew,
)
from airflow_kafka_lake.core.ledger.changes import Write
from airflow_kafka_lake.core.ledger.decisions import Pause, Release, Resume, Revoke, Skip, Withdraw
from airflow_kafka_lake.core.ledger.moves import BeginDelivery
from airflow_kafka_lake.core.ledger.plans import RecordPlan, SavePipeline
from airflow_kafka_lake.core.ledger.records import RangeDecision, RangeRecord
from airflow_kafka_lake.core.ledger.reopening import Reopen
from airflow_kafka_lake.core.ledger.requests import (
    AnswerRequests,
    AskForWave,
    EndRequest,
    WaveRequest,
)
from airflow_kafka_lake.core.ledger.waves import (
    FINISHED,
    UNFINISHED,
    UNRESOLVED,
    AttemptKey,
    AttemptOutcome,
    RangeState,
)
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice
from airflow_kafka_lake.core.remedies import Cause
from airflow_kafka_lake.core.reports.progress import Progress, Step
from airflow_kafka_lake.ports import Ledger
from tests.contracts.ledger_world import HOLDER, LEASE, SPEC, key_of, plan_of, receipts_of
from tests.contracts.test_ledger_reopening import decided
from tests.contracts.test_ledger_withdrawing import decided as withdrawal_of
from tests.kit.memory_ledger import MemoryLedger

TOP = 30
EPOCH = None
places = st.integers(min_value=0, max_value=5)
few = st.integers(min_value=0, max_value=2)
partitions = st.integers(min_value=0, max_value=1)
starts = st.integers(min_value=0, max_value=TOP)
spans = st.integers(min_value=1, max_value=8)
slices = st.tuples(partitions, starts, spans).map(lambda item: (item[0], item[1], item[1] + item[2]))
holds = st.sampled_from([RangeState.CANCELLED, RangeState.HELD])
READ = Progress(step=Step.READ, rows_expected=9, bytes_expected=900)
endings = st.sampled_from([AttemptOutcome.FAILED, AttemptOutcome.UNKNOWN, AttemptOutcome.REJECTED])


def timeless(ledger: Ledger) -> dict[str, Any]:
    """Return everything on record but the times, which two clocks never agree on."""
    waves = ledger.waves(SPEC.name)
    return {
        "streams": ledger.streams(SPEC.name),
        "waves": [replace(wave, lease_until=None, committed_at=EPOCH if wave.committed_at else None) for wave in waves],
        "ranges": ledger.ranges(pipeline=SPEC.name),
        "attempts": [
            [
                replace(
                    item,
                    started_at=EPOCH,
                    ended_at=EPOCH if item.ended_at else "open",  # type: ignore[arg-type]
                    progress=item.progress and replace(item.progress, since=EPOCH, at=EPOCH),
                )
                for item in ledger.attempts(wave.id)
            ]
            for wave in waves
        ],
        "events": [replace(item, at=EPOCH) for item in ledger.events(SPEC.name, limit=10_000)],  # type: ignore[arg-type]
        "unnotified": ledger.unnotified(SPEC.name),
        "outbox": [
            replace(item, row=replace(item.row, recorded_at=EPOCH))  # type: ignore[arg-type]
            for item in ledger.outbox(SPEC.name)
        ],
        "requests": sorted(
            (item.id, item.wave, item.live, item.state, item.lease_live, item.answer, item.is_wanted)
            for item in ledger.requests()
        ),
        "costs": sorted((cost.topics, cost.lake_bytes or 0) for cost in ledger.throughput(SPEC.name)),
    }


def said(answer: Any) -> bool:
    """Return what an act about a request gave, but for its times."""
    return bool(answer.request if isinstance(answer, WaveRequest) else answer)


WHY = Cause(kind="JobFailedError", remedies=(remedies.release("r"),))


def due(item: RangeRecord, state: RangeState) -> RangeSet:
    """Return what a range is held for: its odd offsets, some of them; a range that begins at an even one as a whole."""
    odd = range(item.range.start, item.range.end, 4) if item.range.start % 2 and state is RangeState.HELD else ()
    return RangeSet(OffsetRange(offset, offset + 1) for offset in odd)


class LedgerMachine(RuleBasedStateMachine):
    """Two ledgers that live through the same."""

    sql: SqlLedger

    @initialize()
    def begin(self) -> None:
        """Start empty: the SQL ledger is shared between examples, because its creation takes longest."""
        self.memory = MemoryLedger(SystemClock(), ledger_id=self.sql.ledger_id())
        with self.sql.engine.begin() as connection:
            connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
            for name in {*tables.metadata.tables, "sqlite_sequence"} - {tables.meta.name}:
                connection.exec_driver_sql(f"DELETE FROM {name}")
        self.names = 0
        self.keys: list[AttemptKey] = []
        self.before: dict[str, tuple[int, int]] = {}
        self.both(lambda ledger: ledger.commit(SavePipeline(spec=SPEC)))
        self.plan([[(0, 0, 6), (0, 6, 10), (1, 10, 14)], [(0, 10, 20)], [(1, 14, 20), (0, 22, 24)]], tidy=False)

    def name(self, prefix: str) -> str:
        """Return a new name."""
        self.names += 1
        return f"{prefix}{self.names}"

    def both(self, act: Callable[[Ledger], Any]) -> Any:
        """Do the same to both; results, or errors, must be the same."""
        results = [self.outcome(act, ledger) for ledger in (self.memory, self.sql)]
        assert results[0] == results[1]
        return results[0][1]

    @staticmethod
    def outcome(act: Callable[[Ledger], Any], ledger: Ledger) -> tuple[str, Any]:
        """Return what an act gave."""
        try:
            return "done", act(ledger)
        except (KafkaLakeError, ValueError) as error:
            return type(error).__name__, None

    def key(self, place: int) -> AttemptKey:
        """Return a key that holds a wave, most often; else one of all that were ever given out."""
        holding = [key for key in self.keys if self.memory.wave(key.wave).holder and self.is_newest(key)]
        chosen = holding if holding and place else self.keys
        return chosen[-1 - place % len(chosen)]

    def is_newest(self, key: AttemptKey) -> bool:
        """Return whether a key is the last one of its wave."""
        return self.memory.wave(key.wave).fence == key.fence

    def pick(self, names: Iterable[str], place: int) -> str:
        """Return one of some names; a wrong one when there is none."""
        found = sorted(names)
        return found[place % len(found)] if found else "nothing"

    @rule(waves=st.lists(st.lists(slices, min_size=1, max_size=3), min_size=1, max_size=2), tidy=st.booleans())
    def plan(self, waves: list[list[tuple[int, int, int]]], tidy: bool) -> None:
        """Plan slices: as a planner would, only what is missing, or as a mistaken one, whatever was drawn."""
        if tidy:
            waves = self.missing(waves)
        plan = plan_of(self.memory, *waves, plan=self.name("p"), origin=10)
        self.both(lambda ledger: ledger.commit(RecordPlan(plan=plan, actor="planner")))

    def missing(self, waves: list[list[tuple[int, int, int]]]) -> list[list[tuple[int, int, int]]]:
        """Return what of the slices is not planned, cut at the origin."""
        planned = {stream.key.partition: stream.planned for stream in self.memory.streams(SPEC.name)}
        left: list[list[tuple[int, int, int]]] = []
        for wave in waves:
            left.append([])
            for partition, start, end in wave:
                known = planned.get(partition, RangeSet())
                fresh = RangeSet.of((start, end)) - known
                planned[partition] = known | fresh
                left[-1] += [(partition, p.start, p.end) for item in fresh for p in item.split_at((10,))]
        return [wave for wave in left if wave]

    def wave(self, place: int) -> str:
        """Return a wave on which something is left to do, most often; else any."""
        waves = self.memory.waves(SPEC.name, UNFINISHED if place else None) or self.memory.waves(SPEC.name)
        return self.pick((item.id for item in waves), place)

    @rule(place=places, live=st.booleans(), over=st.sampled_from([None, "current", 0]))
    def claim(self, place: int, live: bool, over: Any) -> None:
        """Claim a wave, with a lease that is live or over."""
        wave = self.wave(place)
        if over == "current" and wave != "nothing":
            over = self.memory.wave(wave).fence
        attempt, lease = self.name("a"), LEASE if live else timedelta()
        given = self.both(
            lambda ledger: (
                ledger.commit(ClaimWave(wave=wave, attempt=attempt, holder=HOLDER, lease=lease, over=over)).key
            )
        )
        if given is not None:
            self.keys.append(given)

    @rule(place=places)
    def run(self, place: int) -> None:
        """Bring a wave to its end, whichever worker held it."""
        self.claim(place=place, live=True, over="current")
        if self.keys:
            key = self.keys[-1]
            self.both(lambda ledger: ledger.commit(MarkStaged(key=key, audited=5, staged_bytes=100)))
            self.both(lambda ledger: ledger.commit(MarkPublishing(key=key)))
            receipts = receipts_of(self.memory.ranges(wave=key.wave, states={RangeState.PLANNED}))
            self.both(
                lambda ledger: ledger.commit(RecordCommit(key=key, attempt=key.attempt, snapshot=1, receipts=receipts))
            )

    @precondition(lambda self: self.keys)
    @rule(place=places, number=few)
    def progress(self, place: int, number: int) -> None:
        """Write something about a running attempt."""
        key = self.key(place)
        acts: list[Callable[[Ledger], None]] = [
            lambda ledger: ledger.commit(RecordBase(key=key, base=number)),
            lambda ledger: ledger.commit(RecordJob(key=key, job=f"job {number}", progress=READ)),
            lambda ledger: ledger.commit(Renew(key=key, lease=LEASE, progress=READ.counted(number))),
        ]
        self.both(acts[number])

    @precondition(lambda self: self.keys)
    @rule(place=places)
    def stage(self, place: int) -> None:
        """Stage."""
        key = self.key(place)
        self.both(lambda ledger: ledger.commit(MarkStaged(key=key, audited=5, staged_bytes=100)))

    @precondition(lambda self: self.keys)
    @rule(place=places)
    def publish(self, place: int) -> None:
        """Publish."""
        key = self.key(place)
        self.both(lambda ledger: ledger.commit(MarkPublishing(key=key)))

    @precondition(lambda self: self.keys)
    @rule(place=places, adopted=places, exact=st.integers(min_value=0, max_value=4))
    def recover(self, place: int, adopted: int, exact: int) -> None:
        """Commit, with this attempt's commit or an earlier one's, and sometimes with a receipt missing."""
        key = self.key(place)
        attempt = key.attempt if adopted else self.key(adopted + 2).attempt
        receipts = receipts_of(self.memory.ranges(wave=key.wave, states={RangeState.PLANNED}))
        receipts = receipts if exact else receipts[:-1]
        self.both(
            lambda ledger: ledger.commit(RecordCommit(key=key, attempt=attempt, snapshot=place, receipts=receipts))
        )

    @precondition(lambda self: self.keys)
    @rule(place=places, outcome=endings)
    def end(self, place: int, outcome: AttemptOutcome) -> None:
        """End an attempt."""
        key = self.key(place)
        self.both(lambda ledger: ledger.commit(EndAttempt(key=key, outcome=outcome, error="error")))

    @rule(
        place=places,
        count=st.integers(min_value=1, max_value=2),
        state=holds,
        guarded=st.sampled_from([True, True, False]),
    )
    def take(self, place: int, count: int, state: RangeState, guarded: bool) -> None:
        """Take ranges from a wave, under its newest attempt or as if it never had one."""
        wave = self.wave(place)
        found = self.memory.ranges(wave=wave, states=UNRESOLVED)[:count]
        verdicts = [
            RangeDecision(range_id=item.id, state=state, reason="why", cause=WHY, held_for=due(item, state))
            for item in found
        ]
        verdicts = verdicts or [RangeDecision(range_id="nothing", state=state, reason="why")]
        attempts = self.memory.attempts(wave)
        known = (attempts[-1].fence, attempts[-1].attempt) if attempts else (0, None)
        fence, attempt = known if guarded else (0, None)
        self.both(
            lambda ledger: ledger.commit(
                Revoke(wave=wave, fence=fence, attempt=attempt, verdicts=verdicts, actor="person")
            )
        )

    @rule(place=places, whole=st.booleans(), more=few)
    def release(self, place: int, whole: bool, more: int) -> None:
        """Release ranges on hold, a whole wave or a few."""
        held = self.memory.ranges(pipeline=SPEC.name, states={RangeState.CANCELLED, RangeState.HELD})
        first = self.pick((item.id for item in held), place)
        names = [first]
        if whole and held:
            names = [item.id for item in held if item.wave == self.memory.range(first).wave]
        names += [item.id for item in held[:more]]
        wave = self.name("w")
        self.both(lambda ledger: ledger.commit(Release(ranges=names, wave=wave, actor="person", reason="fixed")))

    @rule(slice_=slices, guarded=st.sampled_from([True, True, False]))
    def skip(self, slice_: tuple[int, int, int], guarded: bool) -> None:
        """Skip a slice, with or without the keys at hand."""
        partition, start, end = slice_
        held = self.keys[-6:] if guarded else []
        skip_id = self.name("s")
        self.both(
            lambda ledger: ledger.commit(
                Skip(
                    pipeline=SPEC.name,
                    slice=Slice(key_of(partition), OffsetRange(start, end)),
                    id=skip_id,
                    reason="poison",
                    actor="person",
                    acknowledge_order=False,
                    guards=held,
                )
            )
        )

    @rule(slice_=slices, whole=st.booleans())
    def withdraw(self, slice_: tuple[int, int, int], whole: bool) -> None:
        """Withdraw what was never begun, of a slice or of everything."""
        _, start, end = slice_
        what, _ = withdrawal_of(self.memory, OffsetRange(0, 10_000) if whole else OffsetRange(start, end))
        if what.ranges:
            self.both(lambda ledger: ledger.commit(Withdraw(what=what, actor="person")))

    @rule(slice_=slices, accept=st.booleans())
    def reopen(self, slice_: tuple[int, int, int], accept: bool) -> None:
        """Read a slice again, where all of it is committed or skipped."""
        partition, start, end = slice_
        (stream,) = (item for item in self.memory.streams(SPEC.name) if item.key.partition == partition)
        if RangeSet.between(start, end) - stream.covered:
            return
        name = self.name("again")
        what = decided(self.memory, start, end, name=name, accept_fewer=accept, partition=partition)
        self.both(lambda ledger: ledger.commit(Reopen(what=what, actor="person")))
        self.before.pop(str(stream.key), None)

    @rule(place=places, plan=st.booleans(), ends=st.booleans())
    def pause(self, place: int, plan: bool, ends: bool) -> None:
        """Pause the pipeline or a plan, claim and plan meanwhile, and most often resume it: nothing begins before."""
        plans = {wave.plan for wave in self.memory.waves(SPEC.name)}
        subject = self.pick(plans, place) if plan else None
        self.both(
            lambda ledger: ledger.commit(Pause(pipeline=SPEC.name, plan=subject, reason="why", actor="person")).changed
        )
        before = {wave.id: wave.fence for wave in self.memory.waves(SPEC.name)}
        self.claim(place=place, live=True, over="current")
        if not plan:
            self.plan([[(0, 0, TOP)]], tidy=True)
            assert {wave.id: wave.fence for wave in self.memory.waves(SPEC.name)} == before
        if ends or place:
            self.both(lambda ledger: ledger.commit(Resume(pipeline=SPEC.name, plan=subject, actor="person")).changed)

    @rule(told=st.booleans(), sent=few)
    def advance(self, told: bool, sent: int) -> None:
        """Advance, and tell some of it."""
        moves = self.both(lambda ledger: ledger.advance(SPEC.name))
        if told and moves:
            self.both(lambda ledger: ledger.mark_notified(SPEC.name, moves[0].sequence))
        items = [item.id for item in self.memory.outbox(SPEC.name)][:sent]
        self.both(lambda ledger: ledger.sent(items))

    @rule(holder=st.sampled_from("ab"), ended=st.booleans(), live=st.booleans(), told=st.booleans())
    def deliver(self, holder: str, ended: bool, live: bool, told: bool) -> None:
        """Take on the delivery of some moves, or take it over; and sometimes have it accepted."""
        moves = self.memory.unnotified(SPEC.name)
        if not moves:
            return
        write = BeginDelivery(
            pipeline=SPEC.name,
            holder=holder,
            through=moves[len(moves) // 2].sequence,
            over="b" if holder == "a" else "a",
            ended=ended,
            lease=timedelta(hours=1 if live else -1),
        )
        row = self.both(lambda ledger: replace(ledger.commit(write), until=None))
        if told and row.holder == holder:
            self.both(lambda ledger: ledger.mark_notified(SPEC.name, row.through))

    @rule(place=places, task=st.sampled_from("abc"), act=st.sampled_from(["ask", "ask", "lapse", "answer", "end"]))
    def request(self, place: int, task: str, act: str) -> None:
        """Ask for a wave, or renew it; let it lapse; answer it; end it. It changes nothing about the wave."""
        wave = self.wave(place)
        before = self.memory.waves(SPEC.name)
        held = timedelta(hours=-1 if act == "lapse" else 1)
        writes: dict[str, Write[Any]] = {
            "answer": AnswerRequests(wave=wave, error=JobFailedError("full"), actor="worker"),
            "end": EndRequest(id=task, wave=wave),
        }
        write = writes.get(act, AskForWave(id=task, wave=wave, actor=task, wanted_for=held))
        self.both(lambda ledger: said(ledger.commit(write)))
        assert self.memory.waves(SPEC.name) == before

    @invariant()
    def both_agree(self) -> None:
        """Everything on record is the same."""
        assert timeless(self.memory) == timeless(self.sql)

    @invariant()
    def laws_hold(self) -> None:
        """Watermarks stay below holds and never fall, ranges never overlap, fences never fall."""
        ranges = self.memory.ranges(pipeline=SPEC.name)
        for stream in self.memory.streams(SPEC.name):
            mine = [item for item in ranges if item.stream == stream.key]
            assert all(not a.range.overlaps(b.range) for a, b in pairwise(mine))
            unresolved = [item.range for item in mine if item.state in UNRESOLVED]
            hold = records.first_held(stream.watermark, unresolved)
            assert hold is None or stream.watermark <= hold
            assert not any(stream.origin <= item.start < stream.watermark for item in unresolved)
            assert records.watermark(stream.origin, stream.covered) >= stream.watermark
            self.grows(str(stream.key), stream.watermark, stream.version)
        assert not any(item.is_wanted for item in self.memory.requests() if item.state in FINISHED)
        for wave in self.memory.waves(SPEC.name):
            self.grows(wave.id, wave.fence, 0)

    def grows(self, name: str, *values: int) -> None:
        """Check that numbers which never fall did not."""
        last = self.before.get(name, (0, 0))
        assert all(new >= old for new, old in zip(values, last, strict=True))
        self.before[name] = (values[0], values[1])


def test_ledgers_agree_and_keep_the_laws() -> None:
    """Whatever happens, in whatever order."""
    LedgerMachine.sql = SqlLedger("sqlite://")
    LedgerMachine.sql.upgrade()
    machine = LedgerMachine.TestCase()
    examples = {"fast": 4, "whole": 30}.get(settings.get_current_profile_name(), 6)
    machine.settings = settings(max_examples=examples, stateful_step_count=30, deadline=None)
    try:
        machine.runTest()
    finally:
        LedgerMachine.sql.close()
