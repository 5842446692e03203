"""What every ledger refuses, and how it cuts: the pure rules behind the guarded writes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.clocks import TOLERANCE, HostClock
from airflow_kafka_lake.core.errors import ConcurrentError, StaleFenceError, StateError, UnknownSubjectError
from airflow_kafka_lake.core.lake.accounting import Receipt
from airflow_kafka_lake.core.ledger.records import RangeRecord, Verdict
from airflow_kafka_lake.core.ledger.reopening import Reopening
from airflow_kafka_lake.core.ledger.waves import (
    UNRESOLVED,
    WAVE_TRANSITIONS,
    Act,
    AttemptKey,
    AttemptOutcome,
    RangeState,
    WaveState,
    first_overlap,
    remedies_for,
)
from airflow_kafka_lake.core.planning.plan import Plan
from airflow_kafka_lake.core.slices import Stream

ENDED_BY_CLAIM = frozenset({AttemptOutcome.RUNNING, AttemptOutcome.STAGED})
"""Outcomes that become `abandoned` when the wave goes to another attempt."""

ENDED_BY_RECOVER = ENDED_BY_CLAIM | {AttemptOutcome.UNKNOWN}
"""Outcomes that become `abandoned` when another attempt of the wave is the one in the lake."""

MAY_END_AS = frozenset(
    {AttemptOutcome.REJECTED, AttemptOutcome.FAILED, AttemptOutcome.UNKNOWN, AttemptOutcome.ABANDONED}
)
"""Outcomes that `end_attempt` takes."""

GUARDED = frozenset(WaveState) - {WaveState.COMMITTED, WaveState.CANCELLED, WaveState.DISSOLVED}
"""Wave states in which ranges leave an already claimed wave only under a guard (law L11)."""

Transition = tuple[frozenset[WaveState], WaveState]
"""The states an act may start from, and the state it ends in."""

OWNER_WAVE = "owner"
"""What an ownership commit says as its wave."""

THROUGHPUT_WAVES, THROUGHPUT_HISTORY = 10, 1000
"""How many of the last committed waves of each table tell what the next cost, and how far back they are looked for."""


def stale(key: AttemptKey, state: WaveState, fence: int) -> StaleFenceError:
    """Return the refusal: an attempt no longer holds its wave."""
    return StaleFenceError(
        f"Attempt {key.attempt} no longer holds wave {key.wave}: it had fence {key.fence}, the wave is {state} "
        f"at fence {fence}. Nothing was written; look with: {remedies.wave(key.wave)}",
        wave=key.wave,
        attempt=key.attempt,
    )


def forbidden(wave: str, pipeline: str, state: WaveState, transition: Transition) -> StateError:
    """Return the refusal: a wave's state does not allow an act, and which command ends that state."""
    sources, target = transition
    ways = remedies_for(state, wave, pipeline)
    return StateError(
        f"Wave {wave} is {state}; only {', '.join(sorted(sources))} can become {target}."
        + (f" Next: {', or '.join(map(str, ways))}" if ways else " Nothing is left to do with it."),
        wave=wave,
        state=state.value,
    )


def ending(outcome: AttemptOutcome) -> Transition:
    """Return what the end of an attempt does to its wave: an unknown commit, its own or an earlier one that it could
    not look for, leaves it PUBLISHING."""
    if outcome is AttemptOutcome.UNKNOWN:
        return frozenset({WaveState.CLAIMED, WaveState.PUBLISHING}), WaveState.PUBLISHING
    if outcome not in MAY_END_AS:
        raise ValueError(f"an attempt cannot be ended as {outcome}")
    return WAVE_TRANSITIONS[Act.GIVE_UP]


def busy(wave: str, fence: int, holder: str | None) -> ConcurrentError:
    """Return the refusal: the lease of another attempt is live."""
    return ConcurrentError(
        f"Wave {wave} is being worked on by {holder} (fence {fence}). Nothing was changed; repeat when its lease has "
        f"ended, or take it from its holder now with: {remedies.cancel(wave)}",
        wave=wave,
    )


def unknown(kind: str, name: str) -> UnknownSubjectError:
    """Return the refusal: the ledger has no such subject."""
    return UnknownSubjectError(f"The ledger knows no {kind} {name}. Look with: {remedies.status()}", **{kind: name})


def wrong_state(range_id: str, state: RangeState, wanted: str) -> StateError:
    """Return the refusal: a range's state does not allow the request."""
    return StateError(f"Range {range_id} is {state}, not {wanted}.", range=range_id, state=state.value)


def not_planned(range_id: str, wave: str) -> StateError:
    """Return the refusal: a range is not there to be taken."""
    return StateError(
        f"Range {range_id} is no PLANNED range of wave {wave}. Nothing was taken; look with: {remedies.wave(wave)}",
        range=range_id,
        wave=wave,
    )


def mixed_tables() -> StateError:
    """Return the refusal: one wave cannot hold the ranges (a wave is one commit to one table)."""
    return StateError("The ranges belong to several lake tables. Nothing was released; release them table by table.")


def taken_id(kind: str, name: str) -> StateError:
    """Return the refusal: an id is in use."""
    return StateError(f"The {kind} id {name} is taken. Nothing was recorded; repeat with a new one.")


def unguarded(wave: str) -> ConcurrentError:
    """Return the refusal: ranges would leave a claimed wave that the caller does not hold (law L11)."""
    return ConcurrentError(
        f"Wave {wave} was claimed by another writer meanwhile. Nothing was skipped; repeat.", wave=wave
    )


def overtaken(what: str) -> ConcurrentError:
    """Return the refusal: another writer was first; nothing was recorded."""
    return ConcurrentError(f"{what} Nothing was recorded; plan again to see what is left.")


REOPEN_HOLDER = "reopen/0/0"
"""The holder of the attempt that stands for the commit of a reopen."""

MOVED_MAIN = "moved main for a reopen, by {actor}"
"""What that attempt says."""

RESTORED_HOLDER = "rebuild/0/0"
"""The holder of an attempt that is known only from the lake; nobody knows what it cost."""


def overtaken_reopen(what: Reopening) -> ConcurrentError:
    """Return the refusal: the stream or ranges of it were changed since a reopen has read them."""
    return ConcurrentError(
        f"Stream {what.stream} of pipeline {what.pipeline} was changed by another writer meanwhile. "
        "Nothing was reopened; repeat the call."
    )


def overtaken_rebuild(pipeline: str) -> ConcurrentError:
    """Return the refusal: others have changed the pipeline's records since a rebuild has read them."""
    return ConcurrentError(
        f"Pipeline {pipeline} was worked on while it was rebuilt. Nothing was changed; run {remedies.rebuild()} again."
    )


def overlapping(stream: object, new: object, recorded: object) -> StateError:
    """Return the refusal: two ranges of a stream would share offsets (law L2)."""
    return StateError(f"Range {new} of stream {stream} overlaps range {recorded}. Nothing was recorded; plan again.")


def overlaps_recorded(plan: Plan) -> StateError:
    """Return the refusal: a plan plans what is planned already, though it knows the newest versions (law L2)."""
    return StateError(
        f"Plan {plan.id} of pipeline {plan.spec.name} overlaps ranges on record. Nothing was recorded; plan again."
    )


MAX_LEASE = timedelta(minutes=10)
"""Longest lease that is asked for; one that ends further away than twice this counts as expired."""


def lease_is_live(until: datetime | None, now: datetime) -> bool:
    """Return whether a lease holds: not ended, and not absurdly far away (a clock that was wrong when it was taken)."""
    return until is not None and now < until <= now + 2 * MAX_LEASE


def check_clock(clock: HostClock, at: datetime) -> None:
    """Refuse the plan of a machine whose clock is far off the ledger's, which says `at`.

    When a layout of a topic has committed is told from the clocks of the two workers that saw it first and last.
    """
    off = clock.now - at
    if abs(off) > TOLERANCE:
        why = "By it, a topic's new partitions would be read too early or too late"
        raise clock.wrong(off, f"{why}, so nothing was planned")


def check_plan(plan: Plan) -> None:
    """Refuse a plan whose ranges overlap each other, or belong to no stream of the plan."""
    streams = {stream.snapshot.stream for stream in plan.streams}
    for item in plan.ranges:
        if item.stream not in streams:
            raise ValueError(f"range {item.id} belongs to no stream of plan {plan.id}")
    if found := first_overlap([(item.stream, item.range) for item in plan.ranges]):
        raise overlapping(*found)


def check_origins(plan: Plan, known: Mapping[Stream, int]) -> None:
    """Refuse a range that crosses its stream's origin: the watermark begins there, and always lies on an edge."""
    origins = {stream.snapshot.stream: known.get(stream.snapshot.stream, stream.origin) for stream in plan.streams}
    for item in plan.ranges:
        if item.range.start < origins[item.stream] < item.range.end:
            raise ValueError(f"range {item.id} crosses the origin {origins[item.stream]} of its stream")


def check_verdicts(verdicts: Sequence[Verdict], apart: str | None = None) -> None:
    """Refuse a taking that takes nothing, something twice, or to a state that is no hold.

    To PLANNED is taken what goes to the wave `apart`; naming that wave for nothing is refused too.
    """
    if not verdicts:
        raise ValueError("no range is named to be taken from the wave")
    whole = {verdict.range_id for verdict in verdicts if verdict.part is None}
    if len(whole) + sum(verdict.range_id not in whole for verdict in verdicts) != len(verdicts):
        raise ValueError("a range is named twice")
    for verdict in verdicts:
        if verdict.state not in (RangeState.CANCELLED, RangeState.HELD, *((RangeState.PLANNED,) if apart else ())):
            raise ValueError(f"range {verdict.range_id} cannot be taken to {verdict.state}")
        if verdict.held_for and verdict.state is not RangeState.HELD:
            raise ValueError(f"range {verdict.range_id} is not HELD, but it would be held for {verdict.held_for}")
    if apart and all(verdict.state is not RangeState.PLANNED for verdict in verdicts):
        raise ValueError(f"no range is taken to wave {apart}")


def check_receipts(planned: Iterable[RangeRecord], receipts: Sequence[Receipt]) -> None:
    """Refuse receipts that are not exactly the planned ranges, each fully accounted for (law L8)."""
    wanted = {item.id: item.slice for item in planned}
    given = {item.range_id: item.slice for item in receipts}
    if len(given) != len(receipts) or given != wanted:
        odd = sorted(key for key in given.keys() | wanted.keys() if given.get(key) != wanted.get(key))
        raise ValueError(f"receipts are not exactly the wave's planned ranges: {', '.join(odd[:5]) or 'one twice'}")
    for item in receipts:
        sums = item.accounting
        if sums.unexplained or sums.span != item.range.span or sums.visible != item.rows:
            raise ValueError(
                f"range {item.range_id} is not accounted for: {sums.to_json()} of {item.range.span} offsets"
            )
        if min(sums.to_json().values()) < 0:
            raise ValueError(f"range {item.range_id} has a negative number in its accounting: {sums.to_json()}")


def emptied(states: Collection[RangeState]) -> WaveState:
    """Return what becomes of a wave without PLANNED ranges: CANCELLED can be released as it is, DISSOLVED is over."""
    left = {state for state in states if state in UNRESOLVED}
    return WaveState.CANCELLED if left == {RangeState.CANCELLED} else WaveState.DISSOLVED
