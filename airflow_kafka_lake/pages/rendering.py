"""Documents through templates to HTML, in which text cannot become markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from hashlib import sha256
from importlib.metadata import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.addresses import SITE, web_address
from airflow_kafka_lake.core.amounts import age, count, moment, size
from airflow_kafka_lake.core.errors import KafkaLakeError, LedgerSchemaError
from airflow_kafka_lake.core.reports.streams import OBSERVED_STATES, StreamStatus
from airflow_kafka_lake.core.wire import timestamp

# For whom a page is drawn.


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """A user before a page: `base` is the address of these pages without a slash at its end, `csrf` goes with every
    decision in the header `X-Kafka-Lake-Token`, `may_decide` whether the user may decide about its subject; `paused`
    are the Dags of it that are paused in Airflow."""

    base: str
    name: str
    csrf: str
    ledger: str
    may_decide: bool = False
    paused: tuple[str, ...] = ()


# Addresses of the pages: below one base, and with the ledger where it is not the usual one.

USUAL_LEDGER = "kafka_lake_ledger"


def address(visitor: Visitor, *parts: str, **asked: object) -> str:
    """Return the address of a page; its parts come from names, and cannot leave their place in it."""
    path = "/".join(quote(part, safe="") for part in parts)
    query = {key: str(value) for key, value in asked.items() if value is not None}
    if visitor.ledger != USUAL_LEDGER:
        query["ledger"] = visitor.ledger
    return f"{visitor.base}/{path}" + (f"?{urlencode(query)}" if query else "")


# Documents through templates to HTML, in which text cannot become markup: names and reasons come from anywhere.

Json = Mapping[str, Any]
"""A document, or a part of one."""

HERE = Path(__file__).parent
STATIC = HERE / "static"
"""The files that a page loads: a style sheet and a script, from here and nowhere else."""


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


TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


@cache
def static_files() -> Mapping[str, tuple[bytes, str]]:
    """Return the files of the pages, by name: the bytes and the media type."""
    files = sorted(STATIC.glob("*")) if STATIC.is_dir() else []
    return {file.name: (file.read_bytes(), TYPES[file.suffix]) for file in files if file.suffix in TYPES}


@cache
def version_of(name: str) -> str:
    """Return the version of a static file: a browser keeps one version for good."""
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
    made.filters |= {
        "count": count,
        "number": number,
        "size": size,
        "utc": moment,
        "rfc3339": timestamp,
        "last_column": last_column,
    }
    made.globals |= {"style": static_text, "version_of": version_of}
    return made


def visible(value: object) -> str:
    """Return a value as templates write it: nothing for None, and characters that no reader sees by their codes."""
    if isinstance(value, Markup):
        return value
    text = "" if value is None else str(value)
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    return character if character.isprintable() or character == "\n" else character.encode("unicode_escape").decode()


def number(value: int | None, unknown: str = "not known") -> str:
    """Return a number in groups of three digits."""
    return unknown if value is None else f"{value:,}"


def last_column(stream: StreamStatus) -> str:
    """Return by how much time a partition is behind, or why that is not known."""
    if stream.bounds_state != OBSERVED_STATES:
        return stream.bounds_state
    return age(stream.behind_seconds) if stream.lag else ""


# The common parts of all pages of the web interface.

BUSY, IDLE, NEVER = 2, 10, 0
"""After how many seconds a page asks whether there is a newer one: while something runs, while nothing does."""


def draw(template: str, visitor: Visitor, *, poll: int, observed_at: datetime | None = None, **values: object) -> str:
    """Return a page for a visitor."""
    own = {"to": partial(address, visitor), "airflow": visitor.base.removesuffix(SITE), "documents": documents()}
    return render(template, visitor=visitor, poll=poll, observed_at=observed_at, **own, **values)


@cache
def documents() -> str | None:
    """Return the address of the documents, where the package's metadata name one, not a reserved name (RFC 2606)."""
    named = (entry.partition(", ") for entry in metadata("airflow-kafka-lake").get_all("Project-URL", []))
    found = (web_address(url) for label, _, url in named if label == "Documentation" and ".example/" not in url)
    return next(found, None)


# The pages before there is anything to show: how a ledger, and a pipeline in it, begin.

FIRST_PLAN = (
    "A pipeline appears when it is planned for the first time: by a Dag with kafka_lake_ingest, by the Dag "
    f"kafka_lake_manual, or on the command line with {remedies.plan('FILE.toml')}."
)


def missing(place: str | None = None) -> LedgerSchemaError:
    """Return the refusal where no ledger was made yet; `place` is for visitors with the right to know it."""
    where = f" at {place}" if place else ""
    return LedgerSchemaError(
        f"there is no ledger{where} yet: the first plan makes one in SQLite, and {remedies.upgrade_ledger()} makes one "
        "in any database",
        found=None,
    )


def is_missing(error: KafkaLakeError) -> bool:
    """Return whether the ledger was not made yet; one that does not answer, or has another schema, is there."""
    return isinstance(error, LedgerSchemaError) and error.facts.get("found", ...) is None


# The refusal in place of a page.

_TITLES = {
    401: "You are not logged in",
    403: "You may not see this",
    404: "Not found",
    503: "Something does not answer",
}
_LINES = {
    404: ("What you may not see is as unknown as what is not there: ask for the right to read the pipeline's Dag.",),
    503: ("Nothing was changed, and nothing that has landed is in doubt: this page only looks. Runs do not need it.",),
}
_NO_LEDGER = (
    FIRST_PLAN,
    "If there was a ledger already, its connection names another place now. Nothing was changed: this page only looks.",
)


def refusal_page(base: str, status: int, message: str, *, no_ledger: bool = False) -> str:
    """Draw a refusal: its cause, its meaning, its remedy."""
    visitor = Visitor(base=base, name="", csrf="", ledger="kafka_lake_ledger")
    title = "There is no ledger yet" if no_ledger else _TITLES.get(status, "That did not work")
    lines: Sequence[str] = _NO_LEDGER if no_ledger else _LINES.get(status, ())
    kind = "calm" if no_ledger else "bad"
    return draw("refusal.html", visitor, poll=NEVER, title=title, message=message, lines=lines, kind=kind)
