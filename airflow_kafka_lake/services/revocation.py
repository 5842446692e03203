"""Taking ranges away from a wave: no earlier publisher can show them before it is decided (law L11)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_kafka_lake.core.errors import StateError
from airflow_kafka_lake.core.ledger.records import Verdict, WaveRecord
from airflow_kafka_lake.core.ledger.revoking import Revoke
from airflow_kafka_lake.core.ledger.waves import RangeState, WaveState
from airflow_kafka_lake.core.ledger.withdrawing import NEVER_CLAIMED
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.claims import ending_on_error
from airflow_kafka_lake.services.fencing import fenced
from airflow_kafka_lake.services.only_copies import cancelled


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """What must be taken away from a wave before the rest of it can be published: ranges or parts of them, each to a
    hold or, still PLANNED, to a wave of its own. `spared` is the attempt whose branch holds just that rest."""

    verdicts: tuple[Verdict, ...]
    spared: str | None = None


def revoke(
    ports: Ports,
    wave: WaveRecord,
    verdicts: Sequence[Verdict],
    *,
    by_force: bool = False,
    spared: str | None = None,
    drop_staged: bool = False,
) -> None:
    """Take ranges away from a wave, also while a worker may still be publishing it; PLANNED ones go to a new wave.

    What is staged of the wave goes too. Raises StateError when the wave turns out to be published: what is visible is
    not taken away; OnlyCopyError where what is staged is the only copy of records, unless `drop_staged` gives that up.
    """
    apart = f"{secrets.token_hex(6)}-w0" if any(item.state is RangeState.PLANNED for item in verdicts) else None
    if wave.fence == NEVER_CLAIMED:
        ports.ledger.commit(
            Revoke(wave=wave.id, fence=NEVER_CLAIMED, attempt=None, verdicts=verdicts, actor=ports.actor, apart=apart)
        )
        return
    if wave.state is WaveState.COMMITTED:
        raise StateError(f"wave {wave.id} is published: its rows are visible and stay", wave=wave.id)
    give_up = None if drop_staged else cancelled(wave.id)
    claim = fenced(ports, wave.id, by_force=by_force, spared=spared, give_up=give_up)
    if claim is None:
        raise StateError(f"wave {wave.id} was published meanwhile: its rows are visible and stay", wave=wave.id)
    key = claim.key
    with ending_on_error(ports, [claim]):
        ports.ledger.commit(
            Revoke(
                wave=wave.id, fence=key.fence, attempt=key.attempt, verdicts=verdicts, actor=ports.actor, apart=apart
            )
        )
