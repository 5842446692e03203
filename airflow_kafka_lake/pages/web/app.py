"""The application that Airflow's API server mounts: every route needs a user of Airflow."""

from __future__ import annotations

from typing import Any, cast

from airflow.api_fastapi.core_api.security import get_user
from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.pages.web import answers, routes
from airflow_kafka_lake.pages.web.access import Headers, OpenPorts, Server
from airflow_kafka_lake.pages.web.actions import actions


def build(open_ports: OpenPorts) -> FastAPI:
    """Return the application; it has no description of itself (`/openapi.json`, `/docs`)."""
    app = FastAPI(title="Kafka Lake", dependencies=[Depends(get_user)], openapi_url=None, docs_url=None, redoc_url=None)
    app.state.server = Server(open_ports=open_ports)
    app.include_router(routes.api)
    app.include_router(actions)
    app.include_router(routes.pages)
    app.add_middleware(Headers)
    for kind, handler in (
        (KafkaLakeError, answers.refused),
        (HTTPException, answers.not_allowed),
        (RequestValidationError, answers.malformed),
    ):
        app.add_exception_handler(kind, cast("Any", handler))
    return app
