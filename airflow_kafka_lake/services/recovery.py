"""Finish what earlier runs left open, by what the lake has of it."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_kafka_lake.core.errors import ConcurrentError, KafkaLakeError, StaleFenceError, StateError, expected
from airflow_kafka_lake.core.ledger.attempts import EndAttempt
from airflow_kafka_lake.core.ledger.records import WaveRecord
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, Found, WaveState
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.branch_cleanup import Swept, sweep
from airflow_kafka_lake.services.claims import claim as claim_wave
from airflow_kafka_lake.services.claims import ending_on_error
from airflow_kafka_lake.services.outbox import flush
from airflow_kafka_lake.services.publishing import adopt, probe

OPEN = (WaveState.CLAIMED, WaveState.STAGED, WaveState.PUBLISHING)
OVERTAKEN = (ConcurrentError, StaleFenceError, StateError)
"""What it looks like when another process works on a wave, or has ended it since it was listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What `recover` found: waves that were in the lake, waves to stage again, waves that others work on; branches."""

    adopted: tuple[str, ...]
    returned: tuple[str, ...]
    busy: tuple[str, ...]
    swept: Swept


def recover(ports: Ports, pipeline: str) -> Recovered:
    """Ask the lake about every wave that an earlier run left open; safe to repeat at any time.

    A wave that cannot be recovered does not stop the others; the first error is raised at the end.
    """
    adopted: list[str] = []
    returned: list[str] = []
    busy: list[str] = []
    problems: list[KafkaLakeError] = []
    for wave in ports.ledger.waves(pipeline, OPEN):
        try:
            (adopted if _recover_wave(ports, wave) else returned).append(wave.id)
        except OVERTAKEN:
            busy.append(wave.id)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a problem of this wave alone
            problem = expected(error, f"recovering wave {wave.id}", wave=wave.id)
            ports.progress(f"wave {wave.id}: {problem}")
            problems.append(problem)
    flush(ports, pipeline)
    record = ports.ledger.pipeline(pipeline)
    swept = sweep(ports, sorted(record.tables)) if record else Swept()
    if problems:
        raise problems[0]
    return Recovered(adopted=tuple(adopted), returned=tuple(returned), busy=tuple(busy), swept=swept)


def _recover_wave(ports: Ports, wave: WaveRecord) -> bool:
    claim = claim_wave(ports, wave.id)
    with ending_on_error(ports, [claim]):
        look = probe(ports, claim, claim.attempts)
        if isinstance(look, Found):
            adopt(ports, claim, look)
            return True
    ports.ledger.commit(
        EndAttempt(
            key=claim.key, outcome=AttemptOutcome.ABANDONED, error="the lake holds nothing of it: to be tried again"
        )
    )
    return False
