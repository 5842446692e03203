"""Abandoned staging branches: find them on the table, and drop those that cannot be published any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.ledger.records import WaveRecord
from airflow_kafka_lake.core.ledger.waves import is_over
from airflow_kafka_lake.ports import Ports


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """Attempts whose branches were dropped, and attempts that this ledger does not know, whose branches stay."""

    dropped: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


def sweep(ports: Ports, tables: Sequence[str]) -> Swept:
    """Drop the staging branches of attempts that are over; what fails is dropped next time.

    Only the ledger says what is over, so the branch of an attempt that it does not know is left alone: it belongs to
    another ledger, or to a part of this one that was lost. A branch is listed before the ledger is asked about it, and
    what is over stays so. Should an ended attempt still be about to publish, its commit requires the branch and fails.
    """
    dropped: list[str] = []
    foreign: list[str] = []
    for table in tables:
        try:
            _sweep_table(ports, table, dropped, foreign)
        except KafkaLakeError as error:
            ports.progress(f"staging branches of {table} are swept next time: {error}")
    return Swept(dropped=tuple(dropped), foreign=tuple(foreign))


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
        elif is_over(*known[attempt]):
            table.drop(attempt)
            dropped.append(attempt)


def clean_up(ports: Ports, wave: WaveRecord) -> None:
    """Sweep the table of a wave that took more than one attempt."""
    if len(ports.ledger.attempts(wave.id)) > 1:
        sweep(ports, [wave.table])
