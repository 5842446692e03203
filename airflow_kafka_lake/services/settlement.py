"""Finish what earlier runs left, from the lake's own testimony; move watermarks; send what the lake still lacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_kafka_lake.core.errors import ConcurrentError, KafkaLakeError, StaleFenceError, StateError, expected
from airflow_kafka_lake.core.ledger.attempts import EndAttempt
from airflow_kafka_lake.core.ledger.records import Advance, Claim, OutboxItem, WaveRecord
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, Found, WaveState
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.branch_cleanup import Swept, sweep
from airflow_kafka_lake.services.claims import claim as claim_wave
from airflow_kafka_lake.services.claims import ending_on_error
from airflow_kafka_lake.services.publishing import adopt, probe

OPEN = (WaveState.CLAIMED, WaveState.STAGED, WaveState.PUBLISHING)
OVERTAKEN = (ConcurrentError, StaleFenceError, StateError)
"""What it looks like when another process works on a wave, or has ended it since it was listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What `settle` found: waves that were in the lake, waves to stage again, waves that others work on; branches."""

    adopted: tuple[str, ...]
    returned: tuple[str, ...]
    busy: tuple[str, ...]
    swept: Swept


def settle(ports: Ports, pipeline: str) -> Settled:
    """Ask the lake about every wave that an earlier run left open; safe to repeat at any time.

    A wave that cannot be settled does not stop the others; the first error is raised at the end.
    """
    adopted: list[str] = []
    returned: list[str] = []
    busy: list[str] = []
    problems: list[KafkaLakeError] = []
    for wave in ports.ledger.waves(pipeline, OPEN):
        try:
            (adopted if _settle_wave(ports, wave) else returned).append(wave.id)
        except OVERTAKEN:
            busy.append(wave.id)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a problem of this wave alone
            problem = expected(error, f"settling wave {wave.id}", wave=wave.id)
            ports.say(f"wave {wave.id}: {problem}")
            problems.append(problem)
    flush(ports, pipeline)
    record = ports.ledger.pipeline(pipeline)
    swept = sweep(ports, sorted(record.tables)) if record else Swept()
    if problems:
        raise problems[0]
    return Settled(adopted=tuple(adopted), returned=tuple(returned), busy=tuple(busy), swept=swept)


def _settle_wave(ports: Ports, wave: WaveRecord) -> bool:
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


def advance(ports: Ports, pipeline: str) -> tuple[Advance, ...]:
    """Move every watermark of the pipeline to the end of its unbroken settled run."""
    moves = ports.ledger.advance(pipeline)
    flush(ports, pipeline)
    return moves


def flush(ports: Ports, pipeline: str) -> None:
    """Send settlements and skips to the receipts tables (ledger first, lake second); what fails is sent next time."""
    for table, items in _by_table(ports.ledger.outbox(pipeline)).items():
        try:
            _send(ports, table, items)
        except KafkaLakeError as error:
            ports.say(f"receipts for {table} are sent next time: {error}")


def tell_first(ports: Ports, claim: Claim) -> None:
    """Send what a table must know before the rows of a claim are there, or a rebuild would read them wrongly.

    That is where each stream begins; and, for what is read again, that it was reopened, with the share of what was cut.
    """
    kind = None if any(item.generation for item in claim.ranges) else "origin"
    if items := _by_table(ports.ledger.outbox(claim.pipeline, kind=kind)).get(claim.table):
        _send(ports, claim.table, items)


def _by_table(items: Sequence[OutboxItem]) -> Mapping[str, list[OutboxItem]]:
    found: dict[str, list[OutboxItem]] = defaultdict(list)
    for item in items:
        found[item.table].append(item)
    return found


def _send(ports: Ports, table: str, items: Sequence[OutboxItem]) -> None:
    ports.lake.table(table).add_receipts([item.row for item in items])
    ports.ledger.sent([item.id for item in items])


def tidy(ports: Ports, wave: WaveRecord) -> None:
    """Sweep the table of a wave that took more than one attempt."""
    if len(ports.ledger.attempts(wave.id)) > 1:
        sweep(ports, [wave.table])
