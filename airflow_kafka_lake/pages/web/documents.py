"""The documents behind the pages; each is made in a thread, once for all who ask within some seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.ledger.waves import WaveState
from airflow_kafka_lake.core.reports.status import wave_line
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.core.wire import timestamp
from airflow_kafka_lake.pages.pipeline import LISTED
from airflow_kafka_lake.pages.web import reads
from airflow_kafka_lake.pages.web.access import PageRequest, unknown
from airflow_kafka_lake.pages.web.answers import CachedDocument
from airflow_kafka_lake.ports import OffsetSource
from airflow_kafka_lake.services import reporting

if TYPE_CHECKING:
    from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger

Json = dict[str, Any]


async def overview(asked: PageRequest, dag: str | None = None) -> CachedDocument:
    """Return the pipelines that the user may see; with a Dag, those that it has planned."""
    planners = await asked.planners()
    names = await asked.run(lambda: asked.access.seen(planners))
    chosen = tuple(name for name in names if dag is None or dag in planners[name])
    return await _shared(asked, ("overview", chosen), partial(_overview, asked, chosen))


def _overview(asked: PageRequest, names: tuple[str, ...], ledger: SqlLedger) -> Json:
    """Return some pipelines of a ledger; of one whose Kafka cannot be asked, what the ledger has.

    What Kafka says of the pipelines of one connection may name any of their topics: so no others are asked about.
    """
    with ExitStack() as opened:

        def source_of(spec: PipelineSpec) -> OffsetSource | str:
            try:
                return opened.enter_context(asked.ports(spec)).source
            except KafkaLakeError as error:
                return error.message

        document = reporting.overview(ledger, SystemClock(), source_of, names=names)
    return {"ledger": asked.ledger, **document}


async def pipeline(asked: PageRequest, name: str) -> CachedDocument:
    """Return `status --json` of a pipeline, with the partitions that a page lists."""
    await asked.dags(name)

    def make(ledger: SqlLedger) -> Json:
        spec = reporting.known_spec(ledger, name)
        with asked.ports(spec) as ports:
            return reporting.status(ports, spec, most=LISTED)

    return await _shared(asked, ("status", name), make)


async def segments(asked: PageRequest, name: str) -> CachedDocument:
    """Return `segments --json` of a pipeline."""
    await asked.dags(name)
    return await _shared(
        asked, ("segments", name), lambda ledger: reporting.segments(ledger, reporting.known_spec(ledger, name))
    )


async def waves(asked: PageRequest, name: str, states: Sequence[WaveState], *, skip: int, limit: int) -> CachedDocument:
    """Return a page of a pipeline's waves, newest first."""
    await asked.dags(name)

    def make(ledger: SqlLedger) -> Json:
        found, count = reads.waves(ledger, name, states, skip=skip, limit=limit)
        return {"pipeline": name, "skip": skip, "limit": limit, "count": count, "waves": [*map(wave_line, found)]}

    return await _shared(asked, ("waves", name, tuple(states), skip, limit), make)


async def wave(asked: PageRequest, name: str, wave_id: str) -> CachedDocument:
    """Return `wave --json` of a wave of the pipeline."""
    await asked.dags(name)

    def make(ledger: SqlLedger) -> Json:
        if not reads.has_wave(ledger, name, wave_id):
            raise unknown("wave")
        return reporting.wave(ledger, wave_id)

    return await _shared(asked, ("wave", name, wave_id), make)


async def events(asked: PageRequest, name: str, *, before: int | None, limit: int) -> CachedDocument:
    """Return lines of a pipeline's history, newest first."""
    await asked.dags(name)

    def make(ledger: SqlLedger) -> Json:
        lines = [
            {
                "sequence": item.sequence,
                "at": timestamp(item.at),
                "actor": item.actor,
                "kind": item.kind,
                "subject": item.subject,
                "detail": item.detail,
            }
            for item in reads.events(ledger, name, before=before, limit=limit)
        ]
        return {"pipeline": name, "events": lines}

    return await _shared(asked, ("events", name, before, limit), make)


async def _shared(asked: PageRequest, key: tuple[Any, ...], make: Callable[[SqlLedger], Json]) -> CachedDocument:
    conn_id, ledgers = asked.ledger, asked.server.ledgers
    return await asked.shared((conn_id, *key), lambda: CachedDocument.of(make(ledgers.ledger(conn_id))))
