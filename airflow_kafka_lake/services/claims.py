"""Claim a wave, keep its lease, end the attempt; and whether its commit may be in the lake though no answer came."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import (
    AttemptRejectedError,
    KafkaLakeError,
    StaleFenceError,
    TransientError,
    UnknownOutcomeError,
)
from airflow_kafka_lake.core.ledger.attempts import ClaimWave, EndAttempt, Renew
from airflow_kafka_lake.core.ledger.guards import LEASE, RENEW_AFTER, TOLERANCE, HostClock
from airflow_kafka_lake.core.ledger.records import Claim
from airflow_kafka_lake.core.ledger.waves import (
    Absent,
    AttemptKey,
    AttemptOutcome,
    AttemptRecord,
    Found,
    LeaseHolder,
    TableHead,
)
from airflow_kafka_lake.core.spark.halving import cause_of
from airflow_kafka_lake.core.spark.job import job_name
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.watching import Watch


def new_id() -> str:
    """Return a fresh opaque id, unique over pipelines."""
    return secrets.token_hex(6)


def claim_wave(
    ports: Ports, wave: str, *, by_force: bool = False, to_decide: bool = False, bytes_per_second: int | None = None
) -> Claim:
    """Claim a wave: at once where its holder is known to be dead on this host, else after the holder's lease.

    `by_force` claims it from a living holder too, for a person's decision: the holder's next heartbeat ends its job.
    `to_decide` claims it while it is paused too: not to bring it into the lake, but to find out or to decide about it.
    `bytes_per_second` is its run's own rate instead of the pipeline's.

    Raises PausedError while its pipeline or plan is paused, LimitReachedError while as many waves of the pipeline are
    at work as it allows, ConcurrentError while another process works on it, StateError when there is nothing to claim,
    UnavailableError when this machine's clock is ahead of the ledger's: the timestamps of its commits would keep all
    other writers from the table.
    """
    record = ports.ledger.wave(wave)
    dead = record.holder is not None and ports.processes.dead(record.holder)
    over = record.fence if by_force or dead else None
    attempt = secrets.token_hex(8)
    clock = host_clock(ports)
    claim = ports.ledger.commit(
        ClaimWave(
            wave=wave,
            attempt=attempt,
            holder=ports.processes.this(),
            lease=LEASE,
            over=over,
            to_decide=to_decide,
            taken=by_force and not dead,
            bytes_per_second=bytes_per_second,
            actor=ports.actor,
        )
    )
    ahead = clock.now - claim.claimed_at
    if ahead > TOLERANCE:
        why = "Commits made by it would keep every other writer from the table until that time has come"
        error = clock.wrong(ahead, f"{why}, so nothing was begun")
        end_attempt(ports, claim, error)
        raise error
    for earlier in claim.attempts:
        if earlier.outcome is AttemptOutcome.ABANDONED:
            _end_orphan(ports, claim.pipeline, earlier)
    return claim


def host_clock(ports: Ports) -> HostClock:
    """Return the time on this machine's clock."""
    return HostClock(host=ports.processes.this().host, now=ports.clock.now())


def _end_orphan(ports: Ports, pipeline: str, attempt: AttemptRecord) -> None:
    """End the job that outlived its worker or its lease: it could only stage, but it takes the cluster's time.

    A process of this host is ended only when its worker is known to be dead: a living worker ends its job by itself.
    """
    name = job_name(pipeline, attempt.wave, attempt.attempt)
    try:
        dead = ports.processes.dead(LeaseHolder.parse(attempt.holder))
        if ports.runner.end_orphan(attempt.job if dead else None, name):
            ports.progress(f"ended the forgotten job of wave {attempt.wave}: {name}")
    except KafkaLakeError as error:
        ports.progress(f"a forgotten job of wave {attempt.wave} may still run, and can only stage: {error}")


def end_attempt(ports: Ports, claim: Claim, error: BaseException, in_doubt: InDoubt | None = None) -> None:
    """Record the error that ended an attempt, unless another attempt has the wave or the ledger is out of reach.

    Nothing depends on this record: the next claim searches the lake in any case. `in_doubt` defaults to that of the
    earlier attempts.
    """
    unknown = InDoubt(claim.attempts) if in_doubt is None else in_doubt
    if isinstance(error, AttemptRejectedError):
        outcome = AttemptOutcome.REJECTED
    elif unknown or isinstance(error, UnknownOutcomeError):
        outcome = AttemptOutcome.UNKNOWN
    else:
        outcome = AttemptOutcome.FAILED
    reason = error.named if isinstance(error, KafkaLakeError) else type(error).__name__
    try:
        ports.ledger.commit(EndAttempt(key=claim.key, outcome=outcome, error=reason, cause=cause_of(error)))
    except KafkaLakeError as problem:
        ports.progress(f"could not record the end of attempt {claim.key.attempt}: {problem}")


@contextmanager
def ending_on_error(ports: Ports, claims: Sequence[Claim], in_doubt: InDoubt | None = None) -> Iterator[None]:
    """End the attempts of some claims when the block ends with any error, also a signal.

    An attempt with a stale fence has ended already: recording that would only record one more refusal.
    """
    try:
        yield
    except BaseException as error:
        stale = error.facts.get("attempt") if isinstance(error, StaleFenceError) else None
        for claim in claims:
            if claim.key.attempt != stale:
                end_attempt(ports, claim, error, in_doubt)
        raise


class Heartbeat:
    """Renews a lease at most every `RENEW_AFTER`; raises StaleFenceError once another attempt has the wave, and the
    errors of `Ports.wanted`.

    Each renewal carries the progress of the attempt, which `watch` shows.
    """

    def __init__(self, ports: Ports, key: AttemptKey, watch: Watch | None = None) -> None:
        self._ports = ports
        self._key = key
        self._renewed = ports.clock.monotonic()
        self.watch = watch or Watch(ports, f"wave {key.wave}")

    def __call__(self, rows: int = 0) -> None:
        """Note that so many more rows are done, and renew the lease when it is time."""
        if rows:
            self.watch.counted(self.watch.rows + rows)
        self.watch.beat()
        if self._ports.clock.monotonic() - self._renewed >= RENEW_AFTER.total_seconds():
            self.renew()

    def renew(self) -> None:
        """Renew at once."""
        self._ports.ledger.commit(Renew(key=self._key, lease=LEASE, progress=self.watch.progress))
        self._ports.wanted(self._key.wave)
        self._renewed = self._ports.clock.monotonic()


_UNDECIDED = frozenset({AttemptOutcome.UNKNOWN, AttemptOutcome.ABANDONED})


class InDoubt:
    """True while a commit of the wave, by this attempt or an earlier one, may have landed or may still land.

    Only a search of the lake decides. Finding nothing proves nothing as long as main has not moved from the head that
    the commit requires: the catalog may still carry it out. Once found, or answered as committed, it stays in doubt
    until it is recorded.
    """

    def __init__(self, attempts: Iterable[AttemptRecord]) -> None:
        self._open = any(item.audited is not None and item.outcome in _UNDECIDED for item in attempts)
        self._required: TableHead | None = None

    def __bool__(self) -> bool:
        return self._open

    def sent(self, head: TableHead) -> None:
        """Note that a commit on this head was sent, and was not rejected."""
        self._open, self._required = True, head

    def searched(self, found: Found | Absent) -> None:
        """Note the answer of a search."""
        moved = self._required is None or (found.head.uuid, found.head.snapshot) != (
            self._required.uuid,
            self._required.snapshot,
        )
        self._open = isinstance(found, Found) or (self._open and not moved)

    def explained(self, claim: Claim, problem: KafkaLakeError) -> KafkaLakeError:
        """Return the error of an attempt: while in doubt, errors that are worth repeating become an unknown outcome."""
        if not self._open or isinstance(problem, AttemptRejectedError) or not isinstance(problem, TransientError):
            return problem
        wave = claim.key.wave
        return UnknownOutcomeError(
            f"wave {wave} may be in the lake: a commit of it was sent, and the look for it or its record failed: "
            f"{problem.message.rstrip('.')}. Run: {remedies.recover(claim.pipeline)}",
            wave=wave,
        )
