"""What a ledger lets an attempt do, and when it no longer does: one suite over all adapters of `ports.Ledger`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_kafka_lake.core.accounting import Accounting, Receipt
from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    StaleFenceError,
    StateError,
    UnknownSubjectError,
)
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
from airflow_kafka_lake.core.ledger.decisions import Revoke
from airflow_kafka_lake.core.ledger.guards import MAX_LEASE
from airflow_kafka_lake.core.ledger.history import Event
from airflow_kafka_lake.core.ledger.plans import BindTable
from airflow_kafka_lake.core.ledger.records import Claim, PublishedWave, RangeDecision
from airflow_kafka_lake.core.ledger.waves import (
    WAVE_TRANSITIONS,
    Act,
    AttemptCause,
    AttemptKey,
    AttemptOutcome,
    RangeState,
    WaveState,
)
from airflow_kafka_lake.core.offsets import OffsetRange, Slice
from airflow_kafka_lake.core.reports.progress import Progress, Step
from airflow_kafka_lake.ports import Ledger
from tests.contracts.ledger_world import (
    HOLDER,
    LEASE,
    OTHER,
    SPEC,
    attempt_id,
    claimed,
    committed,
    outbox_of,
    planned,
    publishing,
    receipts_of,
    staged,
    taken,
)
from tests.kit.clock import FakeClock
from tests.kit.memory_ledger import MemoryLedger

Write = Callable[[Ledger, AttemptKey], None]


def _settle(ledger: Ledger, key: AttemptKey) -> None:
    ranges = ledger.ranges(wave=key.wave, states={RangeState.PLANNED})
    ledger.commit(RecordCommit(key=key, attempt=key.attempt, snapshot=5, receipts=receipts_of(ranges)))


WRITES: dict[str, Write] = {
    "renew": lambda ledger, key: ledger.commit(Renew(key=key, lease=LEASE)),
    "record_base": lambda ledger, key: ledger.commit(RecordBase(key=key, base=1)),
    "record_job": lambda ledger, key: ledger.commit(RecordJob(key=key, job="job")),
    "mark_staged": lambda ledger, key: ledger.commit(MarkStaged(key=key, audited=1, staged_bytes=1)),
    "mark_publishing": lambda ledger, key: ledger.commit(MarkPublishing(key=key)),
    "recover": _settle,
    "give up": lambda ledger, key: ledger.commit(EndAttempt(key=key, outcome=AttemptOutcome.FAILED, error="no")),
    "unknown": lambda ledger, key: ledger.commit(EndAttempt(key=key, outcome=AttemptOutcome.UNKNOWN, error="no")),
    "revoke": lambda ledger, key: taken(ledger, key.wave, f"{key.wave}r0", key=key),
}


def everything(ledger: Ledger) -> object:
    """Return all that a refused write must leave as it is; that it was refused is told besides."""
    waves = ledger.waves(SPEC.name)
    return (
        waves,
        ledger.ranges(pipeline=SPEC.name),
        [ledger.attempts(wave.id) for wave in waves],
        [event for event in ledger.events(SPEC.name) if event.kind != "refused"],
        ledger.outbox(SPEC.name),
    )


def refusals(ledger: Ledger) -> list[Event]:
    """Return what is told of writes that came too late."""
    return [event for event in ledger.events(SPEC.name) if event.kind == "refused"]


def test_claim_gives_everything_a_job_needs(ledger: Ledger) -> None:
    """Fence 1, the PLANNED ranges in order, the configuration, the table and its UUID."""
    (wave,) = planned(ledger, [(1, 0, 5), (0, 10, 20), (0, 0, 10)])
    ledger.commit(BindTable(pipeline=SPEC.name, table="raw.orders", uuid="u1"))
    claim = ledger.commit(ClaimWave(wave=wave, attempt="a" * 16, holder=HOLDER, lease=LEASE))
    assert claim.key == AttemptKey(wave=wave, fence=1, attempt="a" * 16)
    assert (claim.pipeline, claim.spec, claim.table, claim.table_uuid) == (SPEC.name, SPEC, "raw.orders", "u1")
    assert claim.ranges == ledger.ranges(wave=wave)
    assert [item.range.start for item in claim.ranges] == [0, 10, 0]
    assert claim.attempts == ()
    record = ledger.wave(wave)
    assert (record.state, record.fence, record.holder, record.lease_live) == (WaveState.CLAIMED, 1, HOLDER, True)
    assert record.lease_until is not None
    (attempt,) = ledger.attempts(wave)
    assert (attempt.key, attempt.holder, attempt.outcome) == (claim.key, str(HOLDER), AttemptOutcome.RUNNING)
    assert (attempt.job, attempt.base, attempt.audited, attempt.ended_at) == (None, None, None, None)
    assert timedelta() < record.lease_until - attempt.started_at <= LEASE + timedelta(seconds=5)


def test_live_lease_refuses_others(ledger: Ledger) -> None:
    """Who comes second is told who works on the wave; nothing changes."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    claimed(ledger, wave)
    before = everything(ledger)
    with pytest.raises(ConcurrentError, match="alpha/1"):
        claimed(ledger, wave)
    with pytest.raises(ConcurrentError):
        claimed(ledger, wave, over=7)
    assert everything(ledger) == before


def test_claim_over_a_dead_holder(ledger: Ledger) -> None:
    """Naming the current fence vouches for the holder's death; the fence grows, the attempt is abandoned."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    first = claimed(ledger, wave)
    second = ledger.commit(ClaimWave(wave=wave, attempt=attempt_id(), holder=OTHER, lease=LEASE, over=1))
    assert (second.key.fence, ledger.wave(wave).holder) == (2, OTHER)
    (earlier,) = second.attempts
    assert (earlier.key, earlier.outcome) == (first.key, AttemptOutcome.ABANDONED)
    assert earlier.ended_at is not None
    with pytest.raises(ConcurrentError):
        claimed(ledger, wave, over=1)


def test_ended_lease_can_be_claimed(ledger: Ledger) -> None:
    """A lease of no length is over at once, whatever `over` says."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    claimed(ledger, wave, lease=timedelta())
    assert not ledger.wave(wave).lease_live
    assert claimed(ledger, wave, lease=timedelta(), over=9).key.fence == 2
    assert claimed(ledger, wave).key.fence == 3


def test_lease_ends_when_its_time_has_come(clock: FakeClock) -> None:
    """The moment it names no longer belongs to it."""
    ledger = MemoryLedger(clock)
    (wave,) = planned(ledger, [(0, 0, 10)])
    claimed(ledger, wave)
    clock.advance(LEASE - timedelta(seconds=1))
    assert ledger.wave(wave).lease_live
    clock.advance(timedelta(seconds=1))
    assert not ledger.wave(wave).lease_live
    assert claimed(ledger, wave).key.fence == 2


def test_lease_from_a_wrong_clock_does_not_block(ledger: Ledger) -> None:
    """A lease that ends further away than twice the longest was never real."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    claimed(ledger, wave, lease=2 * MAX_LEASE + timedelta(minutes=1))
    assert not ledger.wave(wave).lease_live
    claimed(ledger, wave, lease=2 * MAX_LEASE - timedelta(minutes=1))
    with pytest.raises(ConcurrentError):
        claimed(ledger, wave)


def test_renew_prolongs(ledger: Ledger) -> None:
    """A renewed lease is live again as long as no other worker has claimed."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    claim = claimed(ledger, wave, lease=timedelta())
    ledger.commit(Renew(key=claim.key, lease=LEASE))
    assert ledger.wave(wave).lease_live
    assert (ledger.wave(wave).state, ledger.wave(wave).fence) == (WaveState.CLAIMED, 1)


def test_renewal_carries_how_far_the_attempt_is(ledger: Ledger) -> None:
    """The ledger's clock stamps it: each report when it came, and a step when it began; without one all stays."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    key = claimed(ledger, wave).key
    read = Progress(step=Step.READ, rows_expected=10, bytes_expected=2**40)

    def reported() -> Progress:
        (attempt,) = ledger.attempts(wave)
        assert attempt.progress is not None
        assert attempt.progress.since is not None
        assert attempt.progress.at is not None
        assert attempt.started_at <= attempt.progress.since <= attempt.progress.at
        return attempt.progress

    assert ledger.attempts(wave)[0].progress is None
    ledger.commit(RecordJob(key=key, job="application_1", progress=read))
    first = reported()
    assert first == replace(read, since=first.at, at=first.at)
    ledger.commit(Renew(key=key, lease=LEASE, progress=read.counted(4)))
    second = reported()
    assert second == replace(read.counted(4), since=first.since, at=second.at)
    ledger.commit(Renew(key=key, lease=LEASE))
    assert reported() == second
    ledger.commit(Renew(key=key, lease=LEASE, progress=Progress(step=Step.AUDIT, rows=3)))
    third = reported()
    assert (third.step, third.rows, third.rows_expected, third.since) == (Step.AUDIT, 3, None, third.at)
    publish = Progress(step=Step.PUBLISH, rows=4)
    ledger.commit(MarkStaged(key=key, audited=1, staged_bytes=1, progress=publish))
    assert (reported().step, reported().rows) == (Step.PUBLISH, 4)
    ledger.commit(EndAttempt(key=key, outcome=AttemptOutcome.FAILED, error="no"))
    assert reported().step is Step.PUBLISH, "where it ended stays on record"


def test_late_report_changes_nothing(ledger: Ledger) -> None:
    """A worker that lost the wave cannot say how far the attempt of another is."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    stale = claimed(ledger, wave, lease=timedelta()).key
    claimed(ledger, wave)
    with pytest.raises(StaleFenceError):
        ledger.commit(Renew(key=stale, lease=LEASE, progress=Progress(step=Step.READ, rows=9)))
    assert [item.progress for item in ledger.attempts(wave)] == [None, None]


def test_attempt_ids_are_used_once(ledger: Ledger) -> None:
    """Rows and branches carry the id: a second use is refused, and the wave stays as it was."""
    first, second = planned(ledger, [(0, 0, 10)], [(0, 10, 20)])
    ledger.commit(ClaimWave(wave=first, attempt="b" * 16, holder=HOLDER, lease=LEASE))
    before = everything(ledger)
    with pytest.raises(StateError, match="b" * 16):
        ledger.commit(ClaimWave(wave=second, attempt="b" * 16, holder=HOLDER, lease=LEASE))
    assert everything(ledger) == before


def test_progress_is_recorded(ledger: Ledger) -> None:
    """Base, job, audited snapshot and bytes stand on the attempt."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    key = claimed(ledger, wave).key
    ledger.commit(RecordBase(key=key, base=-1))
    ledger.commit(RecordJob(key=key, job="application_1"))
    ledger.commit(MarkStaged(key=key, audited=2**62, staged_bytes=123))
    (attempt,) = ledger.attempts(wave)
    assert (attempt.base, attempt.job, attempt.audited) == (-1, "application_1", 2**62)
    assert (attempt.outcome, attempt.ended_at) == (AttemptOutcome.STAGED, None)
    ledger.commit(MarkPublishing(key=key))
    ledger.commit(MarkPublishing(key=key))
    assert ledger.wave(wave).state is WaveState.PUBLISHING


def _claimed_only(ledger: Ledger, wave: str) -> Claim:
    return claimed(ledger, wave)


REACHED: dict[WaveState, Callable[[Ledger, str], Claim]] = {
    WaveState.CLAIMED: _claimed_only,
    WaveState.STAGED: staged,
    WaveState.PUBLISHING: publishing,
}
GUARDED: dict[str, tuple[frozenset[WaveState], WaveState | None]] = {
    "renew": (frozenset(REACHED), None),
    "record_base": (frozenset(REACHED), None),
    "record_job": (frozenset(REACHED), None),
    "mark_staged": WAVE_TRANSITIONS[Act.STAGE],
    "mark_publishing": WAVE_TRANSITIONS[Act.PUBLISH],
    "recover": WAVE_TRANSITIONS[Act.COMMIT],
    "give up": WAVE_TRANSITIONS[Act.GIVE_UP],
    "unknown": (frozenset({WaveState.CLAIMED, WaveState.PUBLISHING}), WaveState.PUBLISHING),
    "revoke": WAVE_TRANSITIONS[Act.CANCEL],
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("state", REACHED)
def test_only_the_named_transitions_happen(ledger: Ledger, state: WaveState, write: str) -> None:
    """From each state in which an attempt holds a wave, each write does what the table says, or nothing."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    key = REACHED[state](ledger, wave).key
    sources, target = GUARDED[write]
    before = everything(ledger)
    if state in sources:
        WRITES[write](ledger, key)
        assert ledger.wave(wave).state is (target or state)
        return
    with pytest.raises(StateError, match=state.value):
        WRITES[write](ledger, key)
    assert everything(ledger) == before


@pytest.mark.parametrize("write", WRITES)
def test_overtaken_attempt_writes_nothing(ledger: Ledger, write: str) -> None:
    """After a takeover every write of the earlier attempt is stale, also with the new fence or the new id."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    old = publishing(ledger, wave).key
    new = claimed(ledger, wave, over=1).key
    before = everything(ledger)
    for key in (old, replace(old, fence=new.fence), replace(new, fence=old.fence), replace(new, fence=9)):
        with pytest.raises(StaleFenceError):
            WRITES[write](ledger, key)
        assert everything(ledger) == before


@pytest.mark.parametrize("write", WRITES)
def test_late_outcome_of_an_old_fence_is_recorded(ledger: Ledger, write: str) -> None:
    """Refused, and one event names the attempt, its fence and what the wave was by then."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    old = publishing(ledger, wave).key
    claimed(ledger, wave, over=1)
    with pytest.raises(StaleFenceError):
        WRITES[write](ledger, old)
    (event,) = refusals(ledger)
    assert (event.actor, event.subject) == (old.attempt, wave)
    assert f"of attempt {old.attempt}, fence 1: the wave is CLAIMED at fence 2" in event.detail


def test_writes_that_are_not_late_leave_no_refusal(ledger: Ledger) -> None:
    """A state that does not allow a write, or receipts that do not fit, are no late outcome."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    key = staged(ledger, wave).key
    with pytest.raises(StateError):
        ledger.commit(MarkStaged(key=key, audited=1, staged_bytes=1))
    with pytest.raises(ValueError, match="receipts"):
        ledger.commit(RecordCommit(key=key, attempt=key.attempt, snapshot=1, receipts=[]))
    settled_key = publishing(ledger, planned(ledger, [(0, 10, 20)])[0]).key
    _settle(ledger, settled_key)
    assert refusals(ledger) == []


def test_standing_of_attempts_that_are_on_record(ledger: Ledger) -> None:
    """Each known attempt, with the state of its wave; of others nothing is said."""
    first, second = planned(ledger, [(0, 0, 10)], [(0, 10, 20)])
    over, done = claimed(ledger, first).key, committed(ledger, second).key
    now = claimed(ledger, first, over=1).key
    asked = {over.attempt, done.attempt, now.attempt, "f" * 16}
    records = {item.attempt: item for wave in (first, second) for item in ledger.attempts(wave)}
    assert ledger.standing(asked) == {
        over.attempt: (records[over.attempt], WaveState.CLAIMED),
        done.attempt: (records[done.attempt], WaveState.COMMITTED),
        now.attempt: (records[now.attempt], WaveState.CLAIMED),
    }
    assert [records[key.attempt].outcome for key in (over, done, now)] == [
        AttemptOutcome.ABANDONED,
        AttemptOutcome.COMMITTED,
        AttemptOutcome.RUNNING,
    ]
    assert ledger.standing(()) == {}


@pytest.mark.parametrize("write", sorted(set(WRITES) - {"revoke"}))
def test_ended_attempt_writes_nothing(ledger: Ledger, write: str) -> None:
    """An attempt that gave up, committed, or does not know must claim again."""
    endings: list[Callable[[Ledger, AttemptKey], None]] = [WRITES["give up"], WRITES["recover"], WRITES["unknown"]]
    waves = planned(ledger, *[[(0, n * 10, n * 10 + 10)] for n in range(len(endings))])
    for wave, ending in zip(waves, endings, strict=True):
        key = publishing(ledger, wave).key
        ending(ledger, key)
        before = everything(ledger)
        with pytest.raises(StaleFenceError):
            WRITES[write](ledger, key)
        assert everything(ledger) == before


@pytest.mark.parametrize("write", sorted(set(WRITES) - {"revoke", "recover"}))
def test_attempt_of_no_wave_is_refused(ledger: Ledger, write: str) -> None:
    """A key that names a wave we do not know is a mistake, not a race."""
    with pytest.raises(UnknownSubjectError):
        WRITES[write](ledger, AttemptKey(wave="w9", fence=1, attempt="a"))


@pytest.mark.parametrize("state", [WaveState.COMMITTED, WaveState.CANCELLED, WaveState.DISSOLVED])
def test_finished_waves_are_not_claimed(ledger: Ledger, state: WaveState) -> None:
    """The refusal names the state."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    if state is WaveState.COMMITTED:
        committed(ledger, wave)
    else:
        taken(ledger, wave, state=RangeState.CANCELLED if state is WaveState.CANCELLED else RangeState.HELD)
    assert ledger.wave(wave).state is state
    for over in (None, 0, 1):
        with pytest.raises(StateError, match=state.value):
            claimed(ledger, wave, over=over)


@pytest.mark.parametrize("outcome", [AttemptOutcome.REJECTED, AttemptOutcome.FAILED, AttemptOutcome.ABANDONED])
def test_ended_attempt_frees_the_wave(ledger: Ledger, outcome: AttemptOutcome) -> None:
    """The wave returns to PLANNED without lease and holder; the error stays on the attempt."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    key = claimed(ledger, wave).key
    ledger.commit(EndAttempt(key=key, outcome=outcome, error="out of disk"))
    record = ledger.wave(wave)
    assert (record.state, record.holder, record.lease_until, record.fence) == (WaveState.PLANNED, None, None, 1)
    (attempt,) = ledger.attempts(wave)
    assert (attempt.outcome, attempt.error) == (outcome, "out of disk")
    assert attempt.ended_at is not None
    assert claimed(ledger, wave).attempts == (attempt,)


def test_claim_says_when_it_was_made_by_the_ledgers_clock(ledger: Ledger) -> None:
    """So a worker learns whether its own clock is another."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    held = claimed(ledger, wave)
    (attempt,) = ledger.attempts(wave)
    assert held.claimed_at == attempt.started_at
    assert held.claimed_at.tzinfo is not None


def test_unknown_outcome_stays_until_a_search(ledger: Ledger) -> None:
    """The wave stays PUBLISHING without a lease; the next claim leaves the outcome unknown."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    key = publishing(ledger, wave).key
    ledger.commit(EndAttempt(key=key, outcome=AttemptOutcome.UNKNOWN, error="connection reset"))
    assert (ledger.wave(wave).state, ledger.wave(wave).lease_live) == (WaveState.PUBLISHING, False)
    (attempt,) = claimed(ledger, wave).attempts
    assert attempt.outcome is AttemptOutcome.UNKNOWN


def test_attempt_that_could_not_look_leaves_the_wave_publishing(ledger: Ledger) -> None:
    """An earlier commit may be in the lake: the wave does not look as if nothing of it had been sent."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    ledger.commit(
        EndAttempt(key=publishing(ledger, wave).key, outcome=AttemptOutcome.UNKNOWN, error="connection reset")
    )
    ledger.commit(
        EndAttempt(key=claimed(ledger, wave).key, outcome=AttemptOutcome.UNKNOWN, error="the catalog is away")
    )
    assert (ledger.wave(wave).state, ledger.wave(wave).lease_live) == (WaveState.PUBLISHING, False)


@pytest.mark.parametrize("outcome", [AttemptOutcome.RUNNING, AttemptOutcome.STAGED, AttemptOutcome.COMMITTED])
def test_attempt_cannot_end_as_if_it_had_not(ledger: Ledger, outcome: AttemptOutcome) -> None:
    """`running` and `staged` are no end, `committed` is commit's word."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    key = claimed(ledger, wave).key
    with pytest.raises(ValueError, match=outcome.value):
        ledger.commit(EndAttempt(key=key, outcome=outcome, error=None))
    assert ledger.wave(wave).state is WaveState.CLAIMED


def test_errors_may_hold_any_text(ledger: Ledger) -> None:
    """What a dying job says is kept, as far as a database can keep it."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    key = claimed(ledger, wave).key
    ledger.commit(
        EndAttempt(
            key=key, outcome=AttemptOutcome.FAILED, error="nul \x00, half a pair \ud800, quote ' % :x {y} ü 🦆 \\"
        )
    )
    (attempt,) = ledger.attempts(wave)
    assert attempt.error is not None
    assert "quote ' % :x {y} ü 🦆 \\" in attempt.error


def test_recover_records_the_numbers(ledger: Ledger) -> None:
    """Wave, ranges, attempt and outbox say what the receipts said."""
    (wave,) = planned(ledger, [(0, 0, 10), (1, 5, 8)])
    key = publishing(ledger, wave).key
    receipts = receipts_of(ledger.ranges(wave=wave), control=3)
    ledger.commit(RecordCommit(key=key, attempt=key.attempt, snapshot=2**62 + 1, receipts=list(reversed(receipts))))
    record = ledger.wave(wave)
    assert (record.state, record.snapshot, record.rows) == (WaveState.COMMITTED, 2**62 + 1, 7)
    assert (record.holder, record.lease_live, record.ranges) == (None, False, 2)
    full, empty = ledger.ranges(wave=wave)
    assert (full.state, full.rows, full.first_offset, full.last_offset) == (RangeState.COMMITTED, 7, 0, 6)
    assert full.accounting == Accounting(visible=7, control=3)
    assert (empty.rows, empty.first_offset, empty.last_offset) == (0, None, None)
    assert empty.accounting == Accounting(control=3)
    (attempt,) = ledger.attempts(wave)
    assert attempt.outcome is AttemptOutcome.COMMITTED
    items = outbox_of(ledger)
    assert [(item.table, item.row.kind, item.row.range) for item in items] == [
        ("raw.orders", "published", OffsetRange(0, 10)),
        ("raw.orders", "published", OffsetRange(5, 8)),
    ]
    row = items[0].row
    assert (row.wave, row.attempt, row.fence, row.generation) == (wave, key.attempt, 1, 0)
    assert (row.stream.topic, row.stream.topic_id, row.stream.partition) == ("orders", "id-orders", 0)
    assert (row.rows, row.first_offset, row.last_offset, row.accounting) == (7, 0, 6, full.accounting)


def test_wave_of_markers_commits_with_zero_rows(ledger: Ledger) -> None:
    """Completion is by position: no row, and no snapshot of its own, is still complete."""
    (wave,) = planned(ledger, [(0, 0, 3)])
    key = claimed(ledger, wave).key
    ledger.commit(
        RecordCommit(
            key=key, attempt=key.attempt, snapshot=None, receipts=receipts_of(ledger.ranges(wave=wave), control=3)
        )
    )
    assert (ledger.wave(wave).rows, ledger.wave(wave).snapshot) == (0, None)


def test_recover_takes_the_planned_ranges_only(ledger: Ledger) -> None:
    """What was taken from the wave before needs no receipt and stays as it is."""
    (wave,) = planned(ledger, [(0, 0, 10), (1, 0, 10)])
    first = claimed(ledger, wave)
    taken(ledger, wave, f"{wave}r1", state=RangeState.HELD, key=first.key)
    committed(ledger, wave)
    assert [item.state for item in ledger.ranges(wave=wave)] == [RangeState.COMMITTED, RangeState.HELD]
    assert (ledger.wave(wave).state, ledger.wave(wave).rows) == (WaveState.COMMITTED, 10)


SPOILT: dict[str, Callable[[Receipt, Receipt], list[Receipt]]] = {
    "missing": lambda first, _: [first],
    "none": lambda *_: [],
    "twice": lambda first, second: [first, second, second],
    "foreign": lambda first, second: [first, second, replace(second, range_id="r9")],
    "shifted": lambda first, second: [first, replace(second, slice=second.slice.part(OffsetRange(0, 11)))],
    "other partition": lambda first, second: [
        first,
        replace(second, slice=Slice(second.stream._replace(partition=7), second.range)),
    ],
    "unexplained": lambda first, second: [
        first,
        replace(second, accounting=Accounting(visible=9, unexplained=1), rows=9),
    ],
    "too few": lambda first, second: [first, replace(second, accounting=Accounting(visible=9), rows=9)],
    "rows unlike visible": lambda first, second: [first, replace(second, rows=9)],
    "negative": lambda first, second: [
        first,
        replace(second, accounting=Accounting(visible=12, control=-2), rows=12),
    ],
}


@pytest.mark.parametrize("how", SPOILT)
def test_receipts_must_be_exact(ledger: Ledger, how: str) -> None:
    """Anything but one complete receipt per PLANNED range is refused, and changes nothing."""
    (wave,) = planned(ledger, [(0, 0, 10), (1, 0, 10)])
    key = publishing(ledger, wave).key
    before = everything(ledger)
    with pytest.raises(ValueError, match=r"receipts|account"):
        ledger.commit(
            RecordCommit(
                key=key, attempt=key.attempt, snapshot=1, receipts=SPOILT[how](*receipts_of(ledger.ranges(wave=wave)))
            )
        )
    assert everything(ledger) == before


def test_earlier_commit_is_adopted(ledger: Ledger) -> None:
    """The current holder commits with the attempt that is in the lake; all others end."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    failed = claimed(ledger, wave).key
    ledger.commit(EndAttempt(key=failed, outcome=AttemptOutcome.FAILED, error="early"))
    first = publishing(ledger, wave).key
    ledger.commit(EndAttempt(key=first, outcome=AttemptOutcome.UNKNOWN, error="lost"))
    lost = publishing(ledger, wave).key
    ledger.commit(EndAttempt(key=lost, outcome=AttemptOutcome.UNKNOWN, error="lost"))
    holder = claimed(ledger, wave).key
    receipts = receipts_of(ledger.ranges(wave=wave))
    ledger.commit(RecordCommit(key=holder, attempt=first.attempt, snapshot=4, receipts=receipts))
    assert [attempt.outcome for attempt in ledger.attempts(wave)] == [
        AttemptOutcome.FAILED,
        AttemptOutcome.COMMITTED,
        AttemptOutcome.ABANDONED,
        AttemptOutcome.ABANDONED,
    ]
    assert all(attempt.ended_at for attempt in ledger.attempts(wave))
    (item,) = outbox_of(ledger)
    assert (item.row.attempt, item.row.fence) == (first.attempt, 2)


def test_attempt_of_another_wave_is_not_adopted(ledger: Ledger) -> None:
    """What is in the lake for one wave says nothing of another."""
    first, second = planned(ledger, [(0, 0, 10)], [(0, 10, 20)])
    foreign = claimed(ledger, first).key
    key = claimed(ledger, second).key
    before = everything(ledger)
    with pytest.raises(ValueError, match=foreign.attempt):
        ledger.commit(
            RecordCommit(key=key, attempt=foreign.attempt, snapshot=1, receipts=receipts_of(ledger.ranges(wave=second)))
        )
    assert everything(ledger) == before


def test_success_that_arrives_late_is_adopted_not_obeyed(ledger: Ledger) -> None:
    """An overtaken attempt cannot commit what it published; the holder can."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    late = publishing(ledger, wave).key
    holder = claimed(ledger, wave, over=1).key
    receipts = receipts_of(ledger.ranges(wave=wave))
    with pytest.raises(StaleFenceError):
        ledger.commit(RecordCommit(key=late, attempt=late.attempt, snapshot=4, receipts=receipts))
    assert ledger.wave(wave).state is WaveState.CLAIMED
    ledger.commit(RecordCommit(key=holder, attempt=late.attempt, snapshot=4, receipts=receipts))
    assert [attempt.outcome for attempt in ledger.attempts(wave)] == [
        AttemptOutcome.COMMITTED,
        AttemptOutcome.ABANDONED,
    ]
    with pytest.raises(StaleFenceError):
        ledger.commit(RecordCommit(key=late, attempt=late.attempt, snapshot=4, receipts=receipts))


def test_attempt_that_another_overtakes_keeps_the_time_at_which_it_ended(ledger: Ledger, clock: FakeClock) -> None:
    """Its outcome was unknown, and is known by the commit of the other; when it ended was known before."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    ledger.commit(EndAttempt(key=publishing(ledger, wave).key, outcome=AttemptOutcome.UNKNOWN, error="no answer"))
    (before,) = ledger.attempts(wave)
    clock.advance(timedelta(minutes=5))
    committed(ledger, wave)
    first, second = ledger.attempts(wave)
    assert (first.outcome, second.outcome) == (AttemptOutcome.ABANDONED, AttemptOutcome.COMMITTED)
    assert before.ended_at is not None
    assert first.ended_at == before.ended_at


def test_success_that_arrives_after_a_cut_is_refused(ledger: Ledger) -> None:
    """An attempt whose range was taken away under a newer fence commits nothing."""
    (wave,) = planned(ledger, [(0, 0, 10), (1, 0, 10)])
    late = publishing(ledger, wave)
    holder = claimed(ledger, wave, over=1).key
    verdict = RangeDecision(range_id=f"{wave}r0", state=RangeState.HELD, reason="poison")
    ledger.commit(Revoke(wave=wave, fence=holder.fence, attempt=holder.attempt, verdicts=[verdict], actor="tester"))
    with pytest.raises(StaleFenceError):
        ledger.commit(
            RecordCommit(key=late.key, attempt=late.key.attempt, snapshot=4, receipts=receipts_of(late.ranges))
        )
    assert [item.state for item in ledger.ranges(wave=wave)] == [RangeState.HELD, RangeState.PLANNED]


def test_every_decision_is_an_event(ledger: Ledger) -> None:
    """One line each, in order, whatever the number of ranges; progress of a job is none."""
    (wave,) = planned(ledger, [(n, 0, 10) for n in range(20)])
    committed(ledger, wave)
    ledger.advance(SPEC.name)
    events = ledger.events(SPEC.name)
    assert [event.kind for event in events] == ["pipeline", "plan", "claim", "stage", "publish", "commit", "advance"]
    assert [event.sequence for event in events] == sorted({event.sequence for event in events})
    assert {event.subject for event in events[2:6]} == {wave}
    assert ledger.events(SPEC.name, after=events[2].sequence, limit=2) == events[3:5]
    assert ledger.events("other") == ()
    assert ledger.events(SPEC.name, limit=2, newest=True) == events[-2:]
    assert ledger.events(SPEC.name, events[-1].sequence, 1, newest=True) == ()
    assert ledger.events(SPEC.name, kind="claim") == events[2:3]
    assert ledger.events(SPEC.name, kind="claim", actor=events[2].actor, newest=True) == events[2:3]
    assert ledger.events(SPEC.name, kind="claim", actor="another") == ()


def test_each_wave_is_claimed_once(ledger: Ledger) -> None:
    """Ten workers that want the same waves: every wave goes to exactly one of them."""
    waves = planned(ledger, *[[(n, 0, 10)] for n in range(4)])

    def claim_all(_: int) -> list[str]:
        got = []
        for wave in waves:
            try:
                got.append(claimed(ledger, wave).key.wave)
            except ConcurrentError:
                continue
        return got

    with ThreadPoolExecutor(10) as pool:
        claims = [wave for got in pool.map(claim_all, range(10)) for wave in got]
    assert sorted(claims) == sorted(waves)
    assert [wave.fence for wave in ledger.waves(SPEC.name)] == [1] * len(waves)


def test_committed_waves_with_rows_are_named_newest_first(ledger: Ledger) -> None:
    """The attempt that is in the lake and its snapshot; a wave of markers only has nothing that could vanish."""
    first, markers, second, left = planned(ledger, [(0, 0, 10)], [(0, 10, 12)], [(1, 0, 5)], [(1, 5, 6)])
    assert ledger.published("orders") == ()
    claims = [committed(ledger, first), committed(ledger, markers, control=2), committed(ledger, second)]
    staged(ledger, left)
    bases = {item.attempt: item.base for item in ledger.attempts(pipeline="orders")}
    found = [
        PublishedWave(
            wave=c.key.wave, table="raw.orders", attempt=c.key.attempt, snapshot=99, base=bases[c.key.attempt]
        )
        for c in claims
    ]
    assert ledger.published("orders") == (found[2], found[0])
    assert ledger.published("orders", table="raw.orders", newest=1) == (found[2],)
    assert ledger.published("orders", table="raw.other") == ledger.published("missing") == ()


def test_committed_wave_has_the_newest_head_that_was_looked_at(ledger: Ledger) -> None:
    """What an earlier attempt has staged was published on a head that a later one looked at."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    first = staged(ledger, wave)
    second = claimed(ledger, wave, over=first.key.fence)
    ledger.commit(RecordBase(key=second.key, base=12))
    third = claimed(ledger, wave, over=second.key.fence)
    ledger.commit(MarkStaged(key=third.key, audited=8, staged_bytes=1000))
    ledger.commit(MarkPublishing(key=third.key))
    ledger.commit(
        RecordCommit(key=third.key, attempt=first.key.attempt, snapshot=99, receipts=receipts_of(third.ranges))
    )
    (found,) = ledger.published("orders")
    assert (found.attempt, found.base) == (first.key.attempt, 12)


def test_attempts_of_a_whole_pipeline(ledger: Ledger) -> None:
    """All of its waves' attempts by wave and fence, and no other wave's."""
    waves = planned(ledger, [(0, 0, 10)], [(0, 10, 20)])
    for wave in (*waves, waves[0]):
        ledger.commit(EndAttempt(key=claimed(ledger, wave).key, outcome=AttemptOutcome.FAILED, error="no"))
    by_wave = [item for wave in sorted(waves) for item in ledger.attempts(wave)]
    assert [item.fence for item in by_wave] == [1, 2, 1]
    assert list(ledger.attempts(pipeline=SPEC.name)) == by_wave
    assert ledger.attempts(pipeline="another") == ()


def test_wave_that_a_person_takes_from_its_holder_is_recorded_as_taken(ledger: Ledger) -> None:
    """Not so where the holder's lease has ended: he may have died over it."""
    first, second = planned(ledger, [(0, 0, 10)], [(0, 10, 20)])
    for wave, lease in ((first, LEASE), (second, timedelta(seconds=-1))):
        held = claimed(ledger, wave, lease=lease)
        over = ClaimWave(
            wave=wave, attempt=attempt_id(), holder=HOLDER, lease=LEASE, over=held.key.fence, to_decide=True, taken=True
        )
        ledger.commit(over)
    causes = [ledger.attempts(wave)[0].cause for wave in (first, second)]
    assert causes == [AttemptCause.TAKEN, None]


def test_cause_of_the_end_of_an_attempt_is_kept(ledger: Ledger) -> None:
    """As a value beside its sentence."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    key = claimed(ledger, wave).key
    failed = AttemptOutcome.FAILED
    ledger.commit(EndAttempt(key=key, outcome=failed, error="a disk is full", cause=AttemptCause.JOB_FAILED))
    (ended,) = ledger.attempts(wave)
    assert (ended.outcome, ended.error, ended.cause) == (failed, "a disk is full", AttemptCause.JOB_FAILED)
