"""The refusals that several writes of the ledger share: leases, limits, clocks, pauses; and which are no errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import TypeVar

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import FEW, count, some, span
from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    GateClosedError,
    KafkaLakeError,
    LimitReachedError,
    NotWantedError,
    PausedError,
    StaleFenceError,
    StateError,
    UnavailableError,
    UnknownSubjectError,
)
from airflow_kafka_lake.core.ledger.waves import AttemptKey, RangeState, WaveState
from airflow_kafka_lake.core.remedies import Remedy
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.core.wire import timestamp

# The refusals and limits that several writes share; a refusal of one write alone is beside that write.

Transition = tuple[frozenset[WaveState], WaveState]
"""The states an act may start from, and the state it ends in."""

OWNER_WAVE = "owner"
"""The wave that an ownership commit names."""

THROUGHPUT_WAVES, THROUGHPUT_HISTORY = 10, 1000
"""How many committed waves of each table an estimate is made from, and among how many of the last they are searched."""

RESTORED_HOLDER = "rebuild/0/0"
"""The holder of an attempt that is known only from the lake: its costs are not known."""

LEASE = timedelta(minutes=2)
"""How long a wave belongs to an attempt after each renewal."""

RENEW_AFTER = timedelta(seconds=10)
"""Spark's executors report their counts every ten seconds: a shorter time would record nothing new."""

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
        f"Wave {wave} is being worked on by {holder} (fence {fence}). Nothing was changed; repeat when that is over. A "
        f"dead worker loses it after {span(LEASE.total_seconds())}; from one that hangs, take it with: "
        f"{remedies.cancel(wave)}",
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
    return ConcurrentError(f"{what} Nothing was recorded.").mended_by("Plan again to see what is left.")


def overtaken_rebuild(pipeline: str) -> ConcurrentError:
    """Return the refusal: others have changed the pipeline's records since a rebuild has read them."""
    return ConcurrentError(
        f"Pipeline {pipeline} was worked on while it was rebuilt. Nothing was changed; run {remedies.rebuild()} again."
    )


# How many waves of a pipeline are at work at once, and how fast each of them reads.


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a pipeline; `waves` is None where any number may be at work, `rate` where they read unhindered.

    `rate` is that of one wave, in Kafka's bytes per second: so many at once make the pipeline's rate together.
    """

    waves: int | None = None
    rate: int | None = None

    @classmethod
    def of(cls, spec: PipelineSpec, bytes_per_second: int | None = None) -> Limits:
        """Return a pipeline's limits, with another rate where a run asks for one.

        A rate counts for the whole pipeline: where it does not say how many waves are at work at once, one is.
        """
        total = spec.bytes_per_second if bytes_per_second is None else bytes_per_second
        if total is None:
            return cls(waves=spec.waves_at_once)
        waves = spec.waves_at_once or 1
        return cls(waves=waves, rate=max(1, total // waves))


def refuse_above(limits: Limits, pipeline: str, at_work: Sequence[str]) -> None:
    """Raise LimitReachedError when as many other waves are at work as may be at once."""
    if limits.waves is None or len(at_work) < limits.waves:
        return
    raise LimitReachedError(
        f"Pipeline {pipeline} allows {count(limits.waves, 'wave')} at once, and at work already: "
        f"{some(at_work, FEW)}. Nothing was begun; repeat when one of them has ended: "
        f"{remedies.status(pipeline)}",
        pipeline=pipeline,
        limit=limits.waves,
    )


# The most that a machine's clock may be off the ledger's, by which all others are judged.

TOLERANCE = timedelta(minutes=1)
"""A lake may refuse a commit that is dated further before the last one; a topic comes to rest in several of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostClock:
    """The time of a machine's clock when it asked the ledger for something."""

    host: str
    now: datetime

    def require_near(self, at: datetime, why: str) -> timedelta:
        """Return how far the clock is off the ledger's, which says `at`; refuse one that is far off."""
        off = self.now - at
        if abs(off) > TOLERANCE:
            raise self.wrong(off, why)
        return abs(off)

    def wrong(self, by: timedelta, why: str) -> UnavailableError:
        """Return the refusal of a clock that is ahead of the ledger's, or, by less than nothing, behind it."""
        where = "ahead of" if by > timedelta() else "behind"
        return UnavailableError(
            f"the clock of {self.host} is {abs(by).total_seconds():.0f} s {where} the ledger's. {why}. Set the clock, "
            "then repeat",
            ahead_seconds=by.total_seconds(),
        )


# Pauses, and the refusal of everything that would begin something new there.


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseRow:
    """A pause of a pipeline, or of one plan of it: by whom, when and why. It is there as long as it lasts."""

    pipeline: str
    plan: str | None
    reason: str
    actor: str
    at: datetime

    @property
    def id(self) -> str:
        """The name of its subject, unique over pipelines and plans: no pipeline has a slash in its name."""
        return self.pipeline if self.plan is None else f"{self.pipeline}/{self.plan}"

    @property
    def subject(self) -> str:
        """The name by which a person resumes it."""
        return self.plan or self.pipeline

    @property
    def since(self) -> str:
        """Its begin, its person and the reason, in words."""
        return f"since {timestamp(self.at)} by {self.actor}: {self.reason}"


def pause_of(pauses: Iterable[PauseRow], plan: str | None) -> PauseRow | None:
    """Return the pause that keeps a plan's waves from being begun: the pipeline's, else the plan's own."""
    found = {item.plan: item for item in pauses}
    return found.get(None) or (found.get(plan) if plan is not None else None)


def paused(pause: PauseRow) -> PausedError:
    """Return the refusal: the pause, by whom, since when and why, and how it goes on."""
    what, kept = f"Pipeline {pause.pipeline}", "Nothing of it is planned, and no wave is begun"
    if pause.plan is not None:
        what, kept = f"Plan {pause.plan} of pipeline {pause.pipeline}", "No wave of it is begun"
    return PausedError(
        f"{what} is paused {pause.since.rstrip('.')}. {kept} before "
        f"a person resumes it with: {remedies.resume(pause.subject)}",
        pipeline=pause.pipeline,
        plan=pause.plan,
        since=timestamp(pause.at),
        by=pause.actor,
    )


def refuse_paused(pauses: Iterable[PauseRow], plan: str | None = None) -> None:
    """Raise PausedError while a pipeline is paused, or the plan."""
    if pause := pause_of(pauses, plan):
        raise paused(pause)


# Work on a wave has landed it, or the wave waits for others: which refusals are no errors is decided here, once.

T = TypeVar("T")


class WaitReason(Enum):
    """The event that a wave waits for: a resume, room under its pipeline's limit, its turn in the order of the records,
    the process that works on it, a task that asks for it again. Each lists its refusals; the first that fits counts.
    """

    RESUME = (PausedError,)
    LIMIT = (LimitReachedError,)
    TURN = (GateClosedError,)
    HOLDER = (ConcurrentError, StaleFenceError)
    REQUEST = (NotWantedError,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Postponement:
    """A wave that waits; nothing of it is lost or half done. `refusal` says why in a sentence, with its facts."""

    reason: WaitReason
    refusal: KafkaLakeError

    @classmethod
    def of(cls, error: BaseException) -> Postponement | None:
        """Return the answer that an error is, also one that a worker has met; None where it is an error."""
        reason = next((reason for reason in WaitReason if isinstance(error, reason.value)), None)
        return cls(reason=reason, refusal=error) if reason and isinstance(error, KafkaLakeError) else None


def outcome_of(work: Callable[[], T]) -> T | Postponement:
    """Return the result of some work on a wave, or the postponement that ended it."""
    try:
        return work()
    except KafkaLakeError as error:
        if waits := Postponement.of(error):
            return waits
        raise


def landed(outcome: T | Postponement) -> T:
    """Return the landed wave; raise the refusal of one that waits, for a caller that cannot wait."""
    if isinstance(outcome, Postponement):
        raise outcome.refusal
    return outcome
