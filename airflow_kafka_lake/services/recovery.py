"""Finish waves that earlier runs left open, by what the lake has of them, and drop abandoned staging branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_kafka_lake.core.errors import ConcurrentError, KafkaLakeError, StaleFenceError, StateError, expected
from airflow_kafka_lake.core.ledger.attempts import EndAttempt
from airflow_kafka_lake.core.ledger.records import WaveRecord
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, AttemptRecord, Found, WaveState, is_over
from airflow_kafka_lake.ports import LakeTable, Ports
from airflow_kafka_lake.services.advance import flush
from airflow_kafka_lake.services.claims import claim_wave, ending_on_error
from airflow_kafka_lake.services.publishing import adopt, probe

OPEN = (WaveState.CLAIMED, WaveState.STAGED, WaveState.PUBLISHING)
OVERTAKEN = (ConcurrentError, StaleFenceError, StateError)
"""Errors of a wave that another process works on, or has ended since it was listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What `recover` found: waves that were in the lake, waves to stage again, waves that others work on; branches."""

    adopted: tuple[str, ...]
    returned: tuple[str, ...]
    busy: tuple[str, ...]
    swept: Swept


def recover(ports: Ports, pipeline: str) -> Recovered:
    """Search the lake for every wave that an earlier run left open; safe to repeat at any time.

    A wave that cannot be recovered does not stop the others; the first error is raised at the end.
    """
    adopted: list[str] = []
    returned: list[str] = []
    busy: list[str] = []
    problems: list[KafkaLakeError] = []
    for wave in ports.ledger.waves(pipeline, OPEN):
        try:
            (adopted if recover_wave(ports, wave) else returned).append(wave.id)
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


def recover_wave(ports: Ports, wave: WaveRecord, *, by_force: bool = False, asked: str = "") -> bool:
    """Commit a wave that is in the lake, else return it to be staged again; returns whether it was there.

    `by_force` takes it from a living holder too, who can then neither go on nor record anything more of it. `asked` is
    kept with an attempt that is given up: who wanted that, and why. Raises ConcurrentError while another process works
    on it.
    """
    claim = claim_wave(ports, wave.id, by_force=by_force, to_decide=True)
    with ending_on_error(ports, [claim]):
        found = probe(ports, claim, claim.attempts)
        if isinstance(found, Found):
            adopt(ports, claim, found)
            return True
    error = f"{asked}the lake holds nothing of it: to be tried again"
    ports.ledger.commit(EndAttempt(key=claim.key, outcome=AttemptOutcome.ABANDONED, error=error))
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """Attempts whose branches were dropped, and attempts that this ledger does not know, whose branches stay; tables
    that could not be swept, with the reason."""

    dropped: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)


def sweep(ports: Ports, tables: Sequence[str]) -> Swept:
    """Drop the staging branches of attempts that are over; what fails is dropped next time.

    Only the ledger says what is over, so the branch of an attempt that it does not know is left alone: it belongs to
    another ledger, or to a part of this one that was lost. A branch is listed before the ledger is asked about it, and
    what is over stays so. Should an ended attempt still be about to publish, its commit requires the branch and fails.
    """
    dropped: list[str] = []
    foreign: list[str] = []
    left: dict[str, str] = {}
    for table in tables:
        try:
            _sweep_table(ports, table, dropped, foreign)
        except KafkaLakeError as error:
            ports.progress(f"staging branches of {table} are swept next time: {error}")
            left[table] = error.message
    return Swept(dropped=tuple(dropped), foreign=tuple(foreign), left=left)


def _sweep_table(ports: Ports, name: str, dropped: list[str], foreign: list[str]) -> None:
    table = ports.lake.table(name)
    branches = table.branches()
    if not branches:
        return
    known = ports.ledger.standing(branches)
    for attempt in branches:
        if attempt not in known:
            foreign.append(attempt)
            ports.progress(
                f"{name} has a staging branch of attempt {attempt}, which this ledger does not know: left alone"
            )
        elif _is_only_recorded(table, known[attempt][0]):
            ports.progress(f"main of {name} does not show attempt {attempt}, which is recorded as published: kept")
        elif is_over(*known[attempt]):
            table.drop(attempt)
            dropped.append(attempt)


def _is_only_recorded(table: LakeTable, attempt: AttemptRecord) -> bool:
    """Return whether an attempt is recorded as published, and main does not show it.

    Its commit would have taken the branch along, so this may be the only copy of its rows.
    """
    return attempt.outcome is AttemptOutcome.COMMITTED and not isinstance(table.find_commit([attempt]), Found)


def clean_up(ports: Ports, wave: WaveRecord) -> None:
    """Sweep the table of a wave that took more than one attempt."""
    if len(ports.ledger.attempts(wave.id)) > 1:
        sweep(ports, [wave.table])
