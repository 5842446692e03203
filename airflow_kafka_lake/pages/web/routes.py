"""The reports as JSON and as pages; each is made in a thread, once for all requests within some seconds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

from airflow.api_fastapi.core_api.security import get_user
from fastapi import APIRouter, Depends, FastAPI, Path, Query, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from airflow_kafka_lake import __version__
from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.ledger.waves import WaveState
from airflow_kafka_lake.core.reports.status import EventList, wave_line
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.pages import charts, pipeline
from airflow_kafka_lake.pages.rendering import Visitor, static_files
from airflow_kafka_lake.pages.web import answers
from airflow_kafka_lake.pages.web.access import (
    AskedDep,
    Headers,
    Name,
    OpenPorts,
    PageRequest,
    Server,
    configured,
    unknown,
)
from airflow_kafka_lake.pages.web.actions import actions
from airflow_kafka_lake.pages.web.answers import CachedDocument, as_json, digest, named, unchanged
from airflow_kafka_lake.ports import OffsetSource
from airflow_kafka_lake.services import reporting
from airflow_kafka_lake.services.identity import known_spec

if TYPE_CHECKING:
    from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger

Id = Annotated[str, Path(min_length=1, max_length=200)]
AirflowId = Annotated[str, Path(min_length=1, max_length=250)]
States = Annotated[list[WaveState] | None, Query()]
Skip = Annotated[int, Query(ge=0, le=10_000_000)]
Limit = Annotated[int, Query(ge=1, le=500)]
Before = Annotated[int | None, Query(ge=0, le=2**63 - 1)]

api = APIRouter(prefix="/api")
pages = APIRouter(default_response_class=HTMLResponse)

# The reports of a pipeline: each is served as JSON and as a page, at the same path.


async def status(asked: AskedDep, name: Name) -> CachedDocument:
    """Return the progress of a pipeline, and its blockers, with the partitions that a page lists."""

    def make(ledger: SqlLedger) -> CachedDocument:
        spec = known_spec(ledger, name)
        with asked.ports(spec) as ports:
            report = reporting.status(ports, spec, most=pipeline.LISTED)
        return CachedDocument.of(report.to_json(), lambda visitor: pipeline.pipeline_page(visitor, report))

    return await _of_pipeline(asked, name, ("status",), make)


async def segments(asked: AskedDep, name: Name) -> CachedDocument:
    """Return the segments of a pipeline."""

    def make(ledger: SqlLedger) -> CachedDocument:
        order = reporting.segments(ledger, known_spec(ledger, name))
        return CachedDocument.of(order.to_json(), lambda visitor: charts.segments_page(visitor, order))

    return await _of_pipeline(asked, name, ("segments",), make)


async def waves(
    asked: AskedDep, name: Name, *, state: States = None, skip: Skip = 0, limit: Limit = 100
) -> CachedDocument:
    """Return a part of a pipeline's waves, newest first."""

    def make(ledger: SqlLedger) -> CachedDocument:
        found, count = ledger.page_of_waves(name, state or (), skip=skip, limit=limit)
        document = {"pipeline": name, "skip": skip, "limit": limit, "count": count, "waves": [*map(wave_line, found)]}
        return CachedDocument.of(
            document, lambda visitor: pipeline.waves_page(visitor, name, found, count, skip=skip, limit=limit)
        )

    return await _of_pipeline(asked, name, ("waves", tuple(state or ()), skip, limit), make)


async def wave(asked: AskedDep, name: Name, wave: Id) -> CachedDocument:
    """Return one wave with its ranges and attempts."""

    def make(ledger: SqlLedger) -> CachedDocument:
        if not ledger.has_wave(name, wave):
            raise unknown("wave")
        report = reporting.wave(ledger, wave)
        return CachedDocument.of(report.to_json(), lambda visitor: pipeline.wave_page(visitor, report))

    return await _of_pipeline(asked, name, ("wave", wave), make)


async def events(asked: AskedDep, name: Name, before: Before = None, limit: Limit = 100) -> CachedDocument:
    """Return a part of a pipeline's history, newest first."""

    def make(ledger: SqlLedger) -> CachedDocument:
        lines = ledger.page_of_events(name, before=before, limit=limit + 1)
        found = EventList(pipeline=name, events=lines[:limit])
        older = found.events[-1].sequence if len(lines) > limit else None
        return CachedDocument.of(found.to_json(), lambda visitor: pipeline.history_page(visitor, found, older))

    return await _of_pipeline(asked, name, ("events", before, limit), make)


async def _of_pipeline(
    asked: PageRequest, name: str, key: tuple[Hashable, ...], make: Callable[[SqlLedger], CachedDocument]
) -> CachedDocument:
    """Return a report of a pipeline. Raises UnknownSubjectError for one that the user may not see."""
    await asked.dags(name)
    return await asked.shared(("pipeline", name, *key), make)


def _serve(path: str, make: Callable[..., Awaitable[CachedDocument]]) -> None:
    report = Depends(make)

    async def as_document(asked: AskedDep, made: CachedDocument = report) -> Response:
        return as_json(asked.request, made)

    async def as_page(asked: AskedDep, name: Name, made: CachedDocument = report) -> Response:
        return await _page(asked, made, await asked.before(name))

    api.get(path)(as_document)
    pages.get(path)(as_page)


_serve("/pipelines/{pipeline}", status)
_serve("/pipelines/{pipeline}/segments", segments)
_serve("/pipelines/{pipeline}/waves", waves)
_serve("/pipelines/{pipeline}/waves/{wave}", wave)
_serve("/pipelines/{pipeline}/events", events)


async def _page(asked: PageRequest, made: CachedDocument, visitor: Visitor) -> Response:
    """Draw a page for one visitor, unless he has it: a page changes with its document and with his rights."""
    version = digest(made.version, asked.user_id, visitor.may_decide, visitor.paused, __version__)
    known = unchanged(asked.request, version)
    return known or HTMLResponse(await asked.run(lambda: made.page(visitor)), headers=named(version))


# All pipelines, and what belongs to none.


async def _overview(asked: PageRequest, dag: str | None = None) -> CachedDocument:
    """Return the pipelines that the user may see; with a Dag, those that it has planned."""
    planners = await asked.planners()
    names = await asked.run(lambda: asked.access.seen(planners))
    chosen = tuple(name for name in names if dag is None or dag in planners[name])
    return await asked.shared(("overview", chosen), partial(_of_all, asked, chosen))


def _of_all(asked: PageRequest, names: tuple[str, ...], ledger: SqlLedger) -> CachedDocument:
    """Return some pipelines of a ledger; of one whose Kafka cannot be asked, the ledger's part.

    Kafka's answer about the pipelines of one connection may name any of their topics: so no others are asked about.
    """
    with ExitStack() as opened:

        def source_of(spec: PipelineSpec) -> OffsetSource | str:
            try:
                return opened.enter_context(asked.ports(spec)).source
            except KafkaLakeError as error:
                return error.message

        overview = reporting.overview(ledger, SystemClock(), source_of, names=names)
    document = {"ledger": asked.ledger, **overview.to_json()}
    return CachedDocument.of(document, lambda visitor: pipeline.overview_page(visitor, overview))


@api.get("/session")
async def session(asked: AskedDep) -> dict[str, Any]:
    """Return the name of the user, the token of the user's decisions, and the ledgers."""
    visitor = asked.visitor()
    return {"user": visitor.name, "token": visitor.csrf, "ledger": visitor.ledger, "ledgers": list(configured())}


@api.get("/pipelines")
async def pipelines(asked: AskedDep, dag: Annotated[str | None, Query(max_length=250)] = None) -> Response:
    """Return the pipelines that the user may see."""
    return as_json(asked.request, await _overview(asked, dag))


@api.get("/pipelines/{pipeline}/rights")
async def rights(asked: AskedDep, name: Name) -> dict[str, Any]:
    """Return the rights of the user about a pipeline."""
    return {"pipeline": name, "may_decide": (await asked.before(name)).may_decide}


@pages.get("/")
async def overview_page(asked: AskedDep) -> Response:
    """Show all pipelines."""
    return await _page(asked, await _overview(asked), asked.visitor())


@pages.get("/dags/{dag}")
async def dag_page(asked: AskedDep, dag: AirflowId) -> Response:
    """Show the pipelines that a Dag has planned."""
    return await _page(asked, await _overview(asked, dag), asked.visitor())


@pages.get("/dags/{dag}/runs/{run}")
async def dry_run_page(asked: AskedDep, dag: AirflowId, run: AirflowId) -> Response:
    """Show the request of a dry run, and let Airflow carry it out, which checks the user's right when it is asked."""
    return HTMLResponse(pipeline.dry_run_page(asked.visitor(), dag, run))


@pages.get("/static/{name}")
async def static(asked: AskedDep, name: str) -> Response:  # noqa: ARG001  # the user is logged in
    """Return a file of the pages; its address changes with it."""
    found = static_files().get(name)
    if found is None:
        raise unknown("file")
    return Response(found[0], media_type=found[1], headers={"Cache-Control": "private, max-age=31536000, immutable"})


def build(open_ports: OpenPorts) -> FastAPI:
    """Return the application that Airflow's API server mounts: every route needs a user of Airflow.

    It has no description of itself (`/openapi.json`, `/docs`).
    """
    app = FastAPI(title="Kafka Lake", dependencies=[Depends(get_user)], openapi_url=None, docs_url=None, redoc_url=None)
    app.state.server = Server(open_ports=open_ports)
    app.include_router(api)
    app.include_router(actions)
    app.include_router(pages)
    app.add_middleware(Headers)
    for kind, handler in (
        (KafkaLakeError, answers.refused),
        (HTTPException, answers.not_allowed),
        (RequestValidationError, answers.malformed),
    ):
        app.add_exception_handler(kind, cast("Any", handler))
    return app
