"""Answers: documents as JSON, pages, and refusals in words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException

from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    KafkaLakeError,
    TransientError,
    UnexpectedError,
    UnknownOutcomeError,
    UnknownPartitionError,
    UnknownSubjectError,
    UnknownTopicError,
    UsageError,
)
from airflow_kafka_lake.pages import rendering
from airflow_kafka_lake.pages.rendering import Visitor

STATUS: tuple[tuple[type[KafkaLakeError], int], ...] = (
    (UsageError, 400),
    (UnknownSubjectError, 404),
    (UnknownTopicError, 404),
    (UnknownPartitionError, 404),
    (ConcurrentError, 409),
    (UnexpectedError, 500),
    (TransientError, 503),
    (UnknownOutcomeError, 502),
    (KafkaLakeError, 409),
)
"""The HTTP status of an error: that of the first class that it is of."""


@dataclass(frozen=True, slots=True)
class CachedDocument:
    """A report as JSON, and as a page once the visitor is known, made once for all visitors; `version` changes with
    all but the moment of observation."""

    text: bytes
    version: str
    page: Callable[[Visitor], str]

    @classmethod
    def of(cls, document: Mapping[str, Any], page: Callable[[Visitor], str]) -> CachedDocument:
        """Return the report of a document and a page."""
        text = json.dumps(document, separators=(",", ":")).encode()
        return cls(text, digest({key: value for key, value in document.items() if key != "observed_at"}), page)


def digest(*parts: object) -> str:
    """Return a short name of some values, which changes with them."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:20]


def as_json(request: Request, made: CachedDocument) -> Response:
    """Answer with a document; with nothing but its version where the asker has this one already."""
    document = Response(made.text, media_type="application/json", headers=named(made.version))
    return unchanged(request, made.version) or document


def named(version: str) -> dict[str, str]:
    """Return the headers of an answer of a version, which a script keeps to ask whether there is another one."""
    return {"ETag": f'"{version}"', "Cache-Control": "no-store"}


def unchanged(request: Request, version: str) -> Response | None:
    """Answer that nothing has changed, where the asker has a version already; None where not."""
    is_known = f'"{version}"' in request.headers.get("if-none-match", "")
    return Response(status_code=304, headers=named(version)) if is_known else None


def is_api(request: Request) -> bool:
    """Return whether a program asks, and no person's browser for a page."""
    return _path(request).startswith("/api/")


def _path(request: Request) -> str:
    """Return the path below the address of these pages."""
    path: str = request.scope["path"]
    return path.removeprefix(request.scope.get("root_path", ""))


def refused(request: Request, error: KafkaLakeError) -> Response:
    """Answer with a refusal: fault, place, remedy."""
    if rendering.is_missing(error):
        return _refusal(request, 503, error.to_json(), no_ledger=True)
    status = next(status for kind, status in STATUS if isinstance(error, kind))
    return _refusal(request, status, error.to_json())


def not_allowed(request: Request, error: HTTPException) -> Response:
    """Answer a visitor without login or right; a browser that asks for a page is sent to Airflow's login."""
    if error.status_code == 401 and request.method == "GET" and not is_api(request):
        return RedirectResponse(_login(request), status_code=303)
    words = {401: "log in to Airflow first", 404: "there is no such page", 405: "that cannot be done here"}
    message = words.get(error.status_code, str(error.detail))
    return _refusal(request, error.status_code, {"type": "HttpError", "message": message}, error.headers)


def malformed(request: Request, error: RequestValidationError) -> Response:
    """Answer a request whose values do not have the form that is asked for; none of them is repeated."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part not in {"body", "query", "path"})
    message = f"{where or 'the request'}: {first['msg']}. Nothing was done"
    return _refusal(request, 400, {"type": "UsageError", "message": message, "field": where})


def _refusal(
    request: Request,
    status: int,
    error: Mapping[str, Any],
    headers: Mapping[str, str] | None = None,
    *,
    no_ledger: bool = False,
) -> Response:
    if is_api(request):
        return Response(json.dumps({"error": error}), status, headers, media_type="application/json")
    base, message = request.scope.get("root_path", ""), str(error["message"])
    return HTMLResponse(rendering.refusal_page(base, status, message, no_ledger=no_ledger), status)


def _login(request: Request) -> str:
    """Return the address of Airflow's login, which leads back here."""
    from airflow.api_fastapi.app import get_auth_manager

    # Without a host: a proxy may have another one than this server knows itself by.
    query = f"?{request.url.query}" if request.url.query else ""
    back = request.scope.get("root_path", "") + _path(request) + query
    return get_auth_manager().get_url_login(next_url=back)
