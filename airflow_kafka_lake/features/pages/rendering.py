"""Documents through templates to HTML, in which text cannot become markup: names and reasons come from anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from airflow_kafka_lake.core.amounts import age, count, size

Json = Mapping[str, Any]
"""A document, or a part of one."""

HERE = Path(__file__).parent
STATIC = HERE / "static"
"""What a page loads: a style sheet and a script, from here and nowhere else."""


def render(template: str, **values: object) -> str:
    """Return a template of `templates/` with its values; functions among them are called by it."""
    return _environment().get_template(template).render(values)


def macro(name: str, *arguments: object) -> Markup:
    """Return one component of `templates/parts.html`, for a caller that has no template."""
    return getattr(_environment().get_template("parts.html").module, name)(*arguments)


@cache
def static_text(name: str) -> str:
    """Return a static file, to be written into a page that stands alone."""
    return (STATIC / name).read_text(encoding="utf-8")


@cache
def version_of(name: str) -> str:
    """Return what changes with a static file: a browser keeps one version for good."""
    return sha256((STATIC / name).read_bytes()).hexdigest()[:12]


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=visible,
    )
    made.filters |= {"count": count, "number": number, "size": size, "utc": utc, "last_column": last_column}
    made.globals |= {"style": static_text, "version_of": version_of}
    return made


def visible(value: object) -> object:
    """Return what a template writes: nothing for None, and characters that a reader cannot see by their codes."""
    if value is None:
        return ""
    if isinstance(value, Markup) or not isinstance(value, str) or value.isprintable():
        return value
    return "".join(map(_shown, value))


def _shown(character: str) -> str:
    return character if character.isprintable() or character == "\n" else character.encode("unicode_escape").decode()


def number(value: int | None, unknown: str = "not known") -> str:
    """Return a number in groups of three digits."""
    return unknown if value is None else f"{value:,}"


def percent(part: float, whole: float) -> float:
    """Return a share between 0 and 100; of nothing it is 0."""
    return 0.0 if whole <= 0 else round(min(max(100 * part / whole, 0.0), 100.0), 2)


def last_column(stream: Json) -> str:
    """Return by how much time a partition is behind, or why that is not known."""
    if stream["bounds_state"] != "observed":
        return stream["bounds_state"]
    return age(stream["behind_seconds"]) if stream["lag"] else ""


def utc(timestamp: str) -> str:
    """Return an RFC 3339 time in UTC as people write it, to the second."""
    return timestamp.replace("T", " ").split(".", maxsplit=1)[0].removesuffix("Z") + " UTC"
