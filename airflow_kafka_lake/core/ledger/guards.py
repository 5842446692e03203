"""The refusals and limits that several writes share; what one write alone refuses is beside that write."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import ConcurrentError, StaleFenceError, StateError, UnknownSubjectError
from airflow_kafka_lake.core.ledger.waves import AttemptKey, RangeState, WaveState
from airflow_kafka_lake.core.remedies import Remedy

Transition = tuple[frozenset[WaveState], WaveState]
"""The states an act may start from, and the state it ends in."""

OWNER_WAVE = "owner"
"""The wave that an ownership commit names."""

THROUGHPUT_WAVES, THROUGHPUT_HISTORY = 10, 1000
"""How many committed waves of each table an estimate is made from, and among how many of the last they are searched."""

RESTORED_HOLDER = "rebuild/0/0"
"""The holder of an attempt that is known only from the lake: what it cost is not known."""

LEASE = timedelta(minutes=2)
"""How long a wave belongs to an attempt after each renewal."""

RENEW_AFTER = timedelta(seconds=10)
"""Spark's executors report what they have counted every ten seconds: a shorter time would record nothing new."""

OVERDUE = 3 * RENEW_AFTER
"""A worker that has not renewed its lease for so long is said to give no sign of life; nothing decides by it."""

MAX_LEASE = timedelta(minutes=10)
"""The longest lease that is asked for; one that ends further away than twice this counts as expired."""


def remedies_for(state: RangeState | WaveState, subject: str, pipeline: str) -> tuple[Remedy, ...]:
    """Return the commands that end a state in which a wave or a range (`subject`) can be stuck; none for the others."""
    match state:
        case RangeState.HELD:
            return remedies.release(subject), remedies.skip(pipeline)
        case RangeState.CANCELLED | WaveState.CANCELLED:
            return (remedies.release(subject),)
        case WaveState.PLANNED | WaveState.CLAIMED | WaveState.STAGED:
            return (remedies.ingest(subject),)
        case WaveState.PUBLISHING:
            return (remedies.recover(pipeline),)
        case _:
            return ()


def lease_is_live(until: datetime | None, now: datetime) -> bool:
    """Return whether a lease holds: not ended, and not absurdly far away (a clock that was wrong when it was taken)."""
    return until is not None and now < until <= now + 2 * MAX_LEASE


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


def taken_id(kind: str, name: str) -> StateError:
    """Return the refusal: an id is in use."""
    return StateError(f"The {kind} id {name} is taken. Nothing was recorded; repeat with a new one.")


def overtaken(what: str) -> ConcurrentError:
    """Return the refusal: another writer was first; nothing was recorded."""
    return ConcurrentError(f"{what} Nothing was recorded; plan again to see what is left.")


def overtaken_rebuild(pipeline: str) -> ConcurrentError:
    """Return the refusal: others have changed the pipeline's records since a rebuild has read them."""
    return ConcurrentError(
        f"Pipeline {pipeline} was worked on while it was rebuilt. Nothing was changed; run {remedies.rebuild()} again."
    )
