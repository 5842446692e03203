"""Make a wave ready for its next try, by what became of the last one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from airflow_kafka_lake.core.errors import StateError
from airflow_kafka_lake.core.ledger.waves import FINISHED, RangeState
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.decisions import needed_reason, release
from airflow_kafka_lake.services.recovery import OPEN, recover_wave
from airflow_kafka_lake.services.reporting import describe_landed


class Ready(StrEnum):
    """What a wave was found to be, and how it goes on."""

    RELEASED = "released"
    """It was on hold: its ranges are in a wave of their own now, which the next run reads."""
    ADOPTED = "adopted"
    """Its commit was in the lake: it is recorded, and nothing is left to do."""
    RETURNED = "returned"
    """Its last attempt had left nothing in the lake: the next run stages it again, or what it had staged is used."""
    WAITING = "waiting"
    """No worker had it: the next run takes it as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    """How a wave goes on, and in which wave."""

    ready: Ready
    wave: str


def retry(ports: Ports, wave_id: str, reason: str) -> Retried:
    """Make a wave ready for its next try.

    Raises StateError for a wave that is over and of which nothing is on hold, ConcurrentError while another process
    works on it: `cancel` takes it away from one that hangs.
    """
    reason = needed_reason(reason)
    wave = ports.ledger.wave(wave_id)
    if ports.ledger.ranges(wave=wave_id, states=(RangeState.HELD, RangeState.CANCELLED)):
        released, _ = release(ports, wave_id, reason)
        return Retried(ready=Ready.RELEASED, wave=released)
    if wave.state in OPEN:
        adopted = recover_wave(ports, wave, asked=f"{ports.actor}: {reason}; ")
        return Retried(ready=Ready.ADOPTED if adopted else Ready.RETURNED, wave=wave_id)
    if wave.state in FINISHED:
        landed = describe_landed(ports.ledger, wave) if wave.snapshot else f"wave {wave_id} is over: nothing is left"
        raise StateError(landed, wave=wave_id)
    return Retried(ready=Ready.WAITING, wave=wave_id)
