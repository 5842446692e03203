"""Documents as pages: each function returns the HTML of one page for one visitor."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from airflow_kafka_lake.features.pages.markup import Markup, tag
from airflow_kafka_lake.features.pages.web.visitor import Visitor

Json = Mapping[str, Any]
STATIC = Path(__file__).parent.parent / "static"
TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


def overview(visitor: Visitor, document: Json) -> str:
    """Draw all pipelines that the visitor may see."""
    names = [item["pipeline"] for item in document["pipelines"]]
    links = [tag("li", tag("a", name, href=f"{visitor.base}/pipelines/{name}")) for name in names]
    return _page(visitor.base, "Pipelines", tag("ul", *links))


def pipeline(visitor: Visitor, document: Json) -> str:
    """Draw one pipeline."""
    return _page(visitor.base, document["pipeline"], tag("p", f"{len(document['streams'])} streams"))


def segments(visitor: Visitor, document: Json) -> str:
    """Draw the segments of a pipeline."""
    return _page(visitor.base, document["pipeline"])


def waves(visitor: Visitor, document: Json) -> str:
    """Draw a page of a pipeline's waves."""
    return _page(visitor.base, document["pipeline"])


def wave(visitor: Visitor, document: Json) -> str:
    """Draw one wave with its ranges and attempts."""
    return _page(visitor.base, document["wave"])


def events(visitor: Visitor, document: Json) -> str:
    """Draw a pipeline's history."""
    return _page(visitor.base, document["pipeline"])


def refusal(base: str, status: int, message: str) -> str:
    """Draw what is shown in place of a page."""
    return _page(base, str(status), tag("p", message))


def _page(base: str, title: str, *parts: object) -> str:
    head = tag("title", f"{title} · Kafka Lake") + '<meta charset="utf-8">'
    back = tag("p", tag("a", "Pipelines", href=f"{base}/"))
    return "<!doctype html>" + tag("html", tag("head", Markup(head)), tag("body", tag("h1", title), *parts, back))


@cache
def static_files() -> Mapping[str, tuple[bytes, str]]:
    """Return what pages load, by name: the bytes and the media type."""
    files = sorted(STATIC.glob("*")) if STATIC.is_dir() else []
    return {file.name: (file.read_bytes(), TYPES[file.suffix]) for file in files if file.suffix in TYPES}
