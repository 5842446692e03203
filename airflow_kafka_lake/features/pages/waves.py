"""The pages of waves: one with its ranges, attempts and accounting, and the list of all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import quote

from markupsafe import Markup

from airflow_kafka_lake.core.actors import TaskPlace, place_of
from airflow_kafka_lake.core.addresses import SITE
from airflow_kafka_lake.core.amounts import count, size
from airflow_kafka_lake.features.pages.pipeline import wave_line
from airflow_kafka_lake.features.pages.progress import Bar, bar_of
from airflow_kafka_lake.features.pages.rendering import Json
from airflow_kafka_lake.features.pages.site import BUSY, IDLE, draw
from airflow_kafka_lake.features.pages.timeline import shares_bar
from airflow_kafka_lake.features.pages.web.visitor import Visitor

ACCOUNTS = {
    "visible": "rows in the table",
    "control": "transaction markers",
    "aborted": "records of aborted transactions",
    "compacted": "removed by compaction",
    "skipped": "skipped by a person",
    "unexplained": "unexplained",
}
"""What becomes of an offset, and what a page calls it."""

RANGES = 500
"""Ranges that a page lists; all of them are in the JSON document."""

_OPEN = frozenset({"CLAIMED", "STAGED", "PUBLISHING"})
_OUTCOMES = {
    "committed": "up-to-date",
    "running": "running",
    "staged": "running",
    "failed": "blocked",
    "rejected": "blocked",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One attempt at a wave: what it took, once it has ended, and the task of Airflow that it worked for, if it was
    one, with the addresses of task and run."""

    attempt: Json
    kind: str
    label: str
    bar: Bar | None
    took: str
    place: TaskPlace | None
    run_page: str = ""
    task_page: str = ""


def wave_page(visitor: Visitor, document: Json) -> str:
    """Draw `wave --json`."""
    is_open = document["state"] in _OPEN
    totals = _totals(document["ranges"])
    attempts = [
        _try(visitor, item, document["rows"], is_alive=bool(document["alive"])) for item in document["attempts"]
    ]
    bars = [item.bar for item in attempts if item.bar]
    now = wave_line({**document, "ranges": len(document["ranges"])}, document["pipeline"], visitor)
    return draw(
        "wave.html",
        visitor,
        poll=BUSY if is_open else IDLE,
        document=document,
        line=now,
        bar=bars[-1] if bars else None,
        attempts=list(reversed(attempts)),
        totals=totals,
        accounts=ACCOUNTS,
        chart=_chart(totals),
        ranges=document["ranges"][:RANGES],
        more_ranges=len(document["ranges"][RANGES:]),
    )


def _try(visitor: Visitor, item: Json, rows: int | None, *, is_alive: bool) -> Try:
    place = place_of(item["actor"])
    made = Try(
        attempt=item,
        kind=_OUTCOMES.get(item["outcome"], "waiting"),
        label="landed" if item["outcome"] == "committed" else item["outcome"],
        bar=bar_of(item["progress"]) if is_alive and item["outcome"] in {"running", "staged"} else None,
        took=", ".join(_took(item, rows)),
        place=place,
    )
    if place is None:
        return made
    run = f"{visitor.base.removesuffix(SITE)}/dags/{quote(place.dag, safe='')}/runs/{quote(place.run, safe='')}"
    index = "" if place.mapped is None else f"/mapped/{place.mapped}"
    return replace(made, run_page=run, task_page=f"{run}/tasks/{quote(place.task, safe='')}{index}")


def _took(item: Json, rows: int | None) -> Iterator[str]:
    """Give what an attempt took, as far as it is known; rows and their rate are those of the one that committed."""
    seconds = item["seconds"]
    if seconds is not None:
        yield f"{seconds:,.1f} s"
    if item["outcome"] == "committed" and rows is not None:
        yield count(rows, "row")
        if seconds and rows:
            yield f"{count(round(rows / seconds), 'row')} per second"
    if item["staged_bytes"] is not None:
        yield f"{size(item['staged_bytes'])} written"


def waves_page(visitor: Visitor, document: Json) -> str:
    """Draw a part of the list of all waves, newest first."""
    first, limit = document["skip"], document["limit"]
    return draw(
        "waves.html",
        visitor,
        poll=IDLE,
        document=document,
        waves=[wave_line(wave, document["pipeline"], visitor) for wave in document["waves"]],
        newer=max(0, first - limit) if first else None,
        older=first + limit if first + limit < document["count"] else None,
    )


def _totals(ranges: list[Json]) -> dict[str, int]:
    """Return the sums of all ranges whose accounting is known; nothing where none is."""
    known = [item["accounting"] for item in ranges if item["accounting"]]
    return {name: sum(each[name] for each in known) for name in ACCOUNTS} if known else {}


def _chart(totals: dict[str, int]) -> Markup:
    shown: Iterator[tuple[str, int]] = ((name, number) for name, number in totals.items() if number)
    return shares_bar(shown, "offsets of this wave")
