"""How a wave is that a task has asked for: who works on it and how far it is, or since when no process does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import span
from airflow_kafka_lake.core.errors import UnfinishedError
from airflow_kafka_lake.core.ledger.guards import LEASE
from airflow_kafka_lake.core.ledger.records import WaveRecord
from airflow_kafka_lake.core.ledger.rows import RequestRow
from airflow_kafka_lake.core.ledger.waves import AttemptRecord
from airflow_kafka_lake.core.live import Live, Moment, silence

TAKEN_SOON = timedelta(seconds=30)
"""A worker that is free takes a wave within some seconds: before this nobody is told that none has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """One sentence for the task's log; `untaken` is for how long no process has worked on the wave, None while one
    does."""

    message: str
    untaken: timedelta | None = None


def serving(request: RequestRow, wave: WaveRecord, attempts: Sequence[AttemptRecord], now: datetime) -> Serving:
    """Return how a wave is that is not finished, from its attempts, oldest first."""
    if wave.lease_live:
        return Serving(message=_at_work(wave, attempts, now))
    last = [attempts[-1].ended_at, wave.lease_until] if attempts else []
    since = max(request.at, *(moment for moment in last if moment is not None and moment <= now), request.at)
    untaken = now - since
    if untaken < TAKEN_SOON:
        return Serving(message=f"wave {wave.id} of pipeline {wave.pipeline} waits for a worker", untaken=untaken)
    return Serving(
        message=f"no worker has taken wave {wave.id} of pipeline {wave.pipeline} for {span(untaken.total_seconds())}: "
        f"all are busy, or none runs. Start one beside Airflow with: {remedies.worker()}",
        untaken=untaken,
    )


def _at_work(wave: WaveRecord, attempts: Sequence[AttemptRecord], now: datetime) -> str:
    process = wave.holder.shown if wave.holder else "another process"
    if wave.overdue is None:
        return f"{process} works on {_how_far(wave, attempts, now)}"
    seconds = wave.overdue.total_seconds()
    return f"wave {wave.id}, {process}: {silence(seconds, max(0.0, LEASE.total_seconds() - seconds))}"


def _how_far(wave: WaveRecord, attempts: Sequence[AttemptRecord], now: datetime) -> str:
    progress = attempts[-1].progress if attempts else None
    if progress is None:
        return f"wave {wave.id}"
    seconds = (now - progress.since).total_seconds() if progress.since else 0.0
    live = Live(
        subject=f"wave {wave.id}",
        moment=Moment.GOING,
        progress=progress,
        at=0.0,
        seconds=seconds,
        rows_per_second=progress.rows_per_second,
    )
    return live.sentence()


def untaken_for_too_long(wave: WaveRecord, found: Serving, longest: timedelta) -> UnfinishedError | None:
    """Return the error that ends a wait in which no worker has come; None while it goes on."""
    if found.untaken is None or found.untaken < longest:
        return None
    return UnfinishedError(
        f"No worker has taken wave {wave.id} of pipeline {wave.pipeline} for {span(longest.total_seconds())}, the "
        f"task's worker_timeout. Nothing was begun. Start one beside Airflow with: {remedies.worker()}; then clear the "
        "task",
        wave=wave.id,
    )
