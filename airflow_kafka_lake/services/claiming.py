"""Who works on a wave: claim it, keep it, and know that others cannot."""

from __future__ import annotations

import secrets
from datetime import timedelta

from airflow_kafka_lake.core.records import Claim
from airflow_kafka_lake.core.waves import AttemptKey
from airflow_kafka_lake.ports import Ports

LEASE = timedelta(minutes=2)
RENEW_AFTER = timedelta(seconds=20)


def claim(ports: Ports, wave: str, *, by_force: bool = False) -> Claim:
    """Claim a wave; a holder that is known to be dead on this host is taken over at once, others after their lease.

    `by_force` takes it from a living holder too, for a person's decision: the holder's next heartbeat ends its job.
    Raises ConcurrentError while somebody else works on it, StateError when there is nothing to claim.
    """
    record = ports.ledger.wave(wave)
    dead = record.holder is not None and ports.processes.dead(record.holder)
    over = record.fence if by_force or dead else None
    if dead:
        _end_orphan(ports, wave, record.fence)
    attempt = secrets.token_hex(8)
    return ports.ledger.claim(wave, attempt=attempt, holder=ports.processes.this(), lease=LEASE, over=over)


def _end_orphan(ports: Ports, wave: str, fence: int) -> None:
    """End the job that a dead worker left behind: it could only stage, but it would take the machine's time.

    The job is named by the dead worker's fence: the newest attempt may be a living worker's by now.
    """
    job = next((attempt.job for attempt in ports.ledger.attempts(wave) if attempt.fence == fence), None)
    if job is not None and ports.runner.end_orphan(job):
        ports.say(f"ended the forgotten job {job} of wave {wave}")


class Heartbeat:
    """Renews a lease at most every `RENEW_AFTER`; raises StaleFenceError once the wave is somebody else's."""

    def __init__(self, ports: Ports, key: AttemptKey) -> None:
        self._ports = ports
        self._key = key
        self._renewed = ports.clock.now()

    def __call__(self) -> None:
        now = self._ports.clock.now()
        if now - self._renewed >= RENEW_AFTER:
            self._ports.ledger.renew(self._key, LEASE)
            self._renewed = now
