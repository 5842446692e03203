"""Where documents and pages are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import HTMLResponse

from airflow_kafka_lake import __version__
from airflow_kafka_lake.core.ledger.waves import WaveState
from airflow_kafka_lake.core.spec import PIPELINE_NAME
from airflow_kafka_lake.pages.rendering import Visitor
from airflow_kafka_lake.pages.web import documents, views
from airflow_kafka_lake.pages.web.access import AskedDep, PageRequest, configured, unknown
from airflow_kafka_lake.pages.web.answers import (
    CachedDocument,
    as_json,
    digest,
    is_known,
    named,
    unchanged,
)

Name = Annotated[str, Path(pattern=f"^{PIPELINE_NAME.pattern}$")]
Id = Annotated[str, Path(min_length=1, max_length=200)]
DagId = Annotated[str, Path(min_length=1, max_length=250)]
RunId = Annotated[str, Path(min_length=1, max_length=250)]
States = Annotated[list[WaveState] | None, Query()]
Skip = Annotated[int, Query(ge=0, le=10_000_000)]
Limit = Annotated[int, Query(ge=1, le=500)]
Before = Annotated[int | None, Query(ge=0, le=2**63 - 1)]

api = APIRouter(prefix="/api")
pages = APIRouter(default_response_class=HTMLResponse)


@api.get("/session")
async def session(asked: AskedDep) -> dict[str, Any]:
    """Return who the user is, the token of his decisions, and the ledgers."""
    visitor = asked.visitor()
    return {"user": visitor.name, "token": visitor.csrf, "ledger": visitor.ledger, "ledgers": list(configured())}


@api.get("/pipelines")
async def pipelines(asked: AskedDep, dag: Annotated[str | None, Query(max_length=250)] = None) -> Response:
    """Return the pipelines that the user may see."""
    return as_json(asked.request, await documents.overview(asked, dag))


@api.get("/pipelines/{pipeline}")
async def pipeline(asked: AskedDep, pipeline: Name) -> Response:
    """Return how far a pipeline is, and what blocks it."""
    return as_json(asked.request, await documents.pipeline(asked, pipeline))


@api.get("/pipelines/{pipeline}/rights")
async def rights(asked: AskedDep, pipeline: Name) -> dict[str, Any]:
    """Return what the user may do with a pipeline."""
    return {"pipeline": pipeline, "may_decide": await asked.may_decide(pipeline)}


@api.get("/pipelines/{pipeline}/segments")
async def segments(asked: AskedDep, pipeline: Name) -> Response:
    """Return the segments of a pipeline."""
    return as_json(asked.request, await documents.segments(asked, pipeline))


@api.get("/pipelines/{pipeline}/waves")
async def waves(
    asked: AskedDep, pipeline: Name, *, state: States = None, skip: Skip = 0, limit: Limit = 100
) -> Response:
    """Return a page of a pipeline's waves."""
    return as_json(asked.request, await documents.waves(asked, pipeline, state or (), skip=skip, limit=limit))


@api.get("/pipelines/{pipeline}/waves/{wave}")
async def wave(asked: AskedDep, pipeline: Name, wave: Id) -> Response:
    """Return one wave with its ranges and attempts."""
    return as_json(asked.request, await documents.wave(asked, pipeline, wave))


@api.get("/pipelines/{pipeline}/events")
async def events(asked: AskedDep, pipeline: Name, before: Before = None, limit: Limit = 100) -> Response:
    """Return a pipeline's history, newest first."""
    return as_json(asked.request, await documents.events(asked, pipeline, before=before, limit=limit))


@pages.get("/")
async def overview_page(asked: AskedDep) -> Response:
    """Show all pipelines."""
    return await _page(asked, await documents.overview(asked), views.overview, may_decide=False)


@pages.get("/dags/{dag}")
async def dag_page(asked: AskedDep, dag: DagId) -> Response:
    """Show the pipelines that a Dag has planned."""
    return await _page(asked, await documents.overview(asked, dag), views.overview, may_decide=False)


@pages.get("/dags/{dag}/runs/{run}")
async def dry_run_page(asked: AskedDep, dag: DagId, run: RunId) -> Response:
    """Show what a dry run was asked for, and let Airflow do it: who may, Airflow says when it is asked."""
    return HTMLResponse(views.dry_run(asked.visitor(), dag, run))


@pages.get("/pipelines/{pipeline}")
async def pipeline_page(asked: AskedDep, pipeline: Name) -> Response:
    """Show a pipeline."""
    may_decide = await asked.may_decide(pipeline)
    return await _page(asked, await documents.pipeline(asked, pipeline), views.pipeline, may_decide=may_decide)


@pages.get("/pipelines/{pipeline}/segments")
async def segments_page(asked: AskedDep, pipeline: Name) -> Response:
    """Show the segments of a pipeline."""
    may_decide = await asked.may_decide(pipeline)
    return await _page(asked, await documents.segments(asked, pipeline), views.segments, may_decide=may_decide)


@pages.get("/pipelines/{pipeline}/waves")
async def waves_page(
    asked: AskedDep, pipeline: Name, *, state: States = None, skip: Skip = 0, limit: Limit = 100
) -> Response:
    """Show a page of a pipeline's waves."""
    may_decide = await asked.may_decide(pipeline)
    made = await documents.waves(asked, pipeline, state or (), skip=skip, limit=limit)
    return await _page(asked, made, views.waves, may_decide=may_decide)


@pages.get("/pipelines/{pipeline}/waves/{wave}")
async def wave_page(asked: AskedDep, pipeline: Name, wave: Id) -> Response:
    """Show a wave."""
    may_decide = await asked.may_decide(pipeline)
    return await _page(asked, await documents.wave(asked, pipeline, wave), views.wave, may_decide=may_decide)


@pages.get("/pipelines/{pipeline}/events")
async def events_page(asked: AskedDep, pipeline: Name, before: Before = None, limit: Limit = 100) -> Response:
    """Show a pipeline's history."""
    may_decide = await asked.may_decide(pipeline)
    made = await documents.events(asked, pipeline, before=before, limit=limit)
    return await _page(asked, made, views.events, may_decide=may_decide)


@pages.get("/static/{name}")
async def static(asked: AskedDep, name: str) -> Response:  # noqa: ARG001  # who asks is logged in
    """Return what pages load; its address changes with it."""
    found = views.static_files().get(name)
    if found is None:
        raise unknown("file")
    return Response(found[0], media_type=found[1], headers={"Cache-Control": "private, max-age=31536000, immutable"})


async def _page(
    asked: PageRequest, made: CachedDocument, view: Callable[[Visitor, Any], str], *, may_decide: bool
) -> Response:
    """Draw a page for one visitor, unless he has it: a page changes with its document and with his rights."""
    visitor = asked.visitor(may_decide=may_decide)
    version = digest(made.version, asked.user_id, may_decide, __version__)
    if is_known(asked.request, version):
        return unchanged(version)
    return HTMLResponse(await asked.run(lambda: view(visitor, made.document)), headers=named(version))
