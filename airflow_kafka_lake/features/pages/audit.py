"""The report of an audit as one HTML file that needs nothing else: no network, no script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from airflow_kafka_lake.core.audit.timeline import OffsetStatus
from airflow_kafka_lake.features.pages.markup import Markup, joined, tag
from airflow_kafka_lake.features.pages.style import POLICY, STYLE
from airflow_kafka_lake.features.pages.timeline import timeline_of

Json = Mapping[str, Any]

SHOWN = 500
"""Findings that a page lists; all of them are in the JSON document."""

_STATUSES = {
    OffsetStatus.COMMITTED: "in the lake, every offset accounted for",
    OffsetStatus.SKIPPED: "skipped by a person's decision",
    OffsetStatus.RUNNING: "a job works on it",
    OffsetStatus.PLANNED: "planned, not committed yet",
    OffsetStatus.WAITING: "not stable yet: an open transaction is before it",
    OffsetStatus.UNREAD: "in Kafka, not planned yet",
    OffsetStatus.HELD: "held: it needs a person",
    OffsetStatus.LOST: "lost to retention before it was read",
}


def audit_page(document: Json) -> str:
    """Render `audit --json` as a whole HTML document."""
    title = f"Audit of {document['pipeline']}"
    head = tag(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        tag("title", title),
        tag("style", Markup(STYLE)),
    )
    parts = (*_findings(document), *_parts(document), *_streams(document["streams"]))
    body = tag("body", _header(title, document), *parts)
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _header(title: str, document: Json) -> Markup:
    ok = document["ok"]
    verdict = "✓ nothing is missing, twice or unexplained" if ok else "✗ the audit failed"
    totals = document["totals"]
    rows = "not known: a table could not be read" if totals["rows"] is None else f"{totals['rows']:,}"
    return joined(
        tag("header", tag("h1", title), tag("span", verdict, class_=f"verdict {'ok' if ok else 'failed'}")),
        tag("p", totals["sentence"], class_="sum"),
        tag(
            "p",
            f"rows in the lake: {rows}, twice {_number(totals['duplicates'])}, missing {_number(totals['missing'])}. ",
            f"Audited at {document['audited_at']}.",
            class_="faint",
        ),
        tag("ul", *_legend(document["streams"]), class_="legend small"),
    )


def _legend(streams: Sequence[Json]) -> Iterator[Markup]:
    for status, meaning in _STATUSES.items():
        yield tag("li", tag("span", class_=status.value), meaning)
    if any(stream.get("seals") for stream in streams):
        yield tag("li", tag("span", class_="sealed"), "sealed: the layout of the topic ended here")


def _number(number: int | None) -> str:
    return "not known" if number is None else f"{number:,}"


def _findings(document: Json) -> Iterator[Markup]:
    found = document["findings"]
    if not found:
        return
    lines = [
        tag("tr", tag("td", item["kind"], class_="kind"), tag("td", place(item)), tag("td", item["message"]))
        for item in found[:SHOWN]
    ]
    yield tag("h2", f"{len(found):,} finding{'' if len(found) == 1 else 's'}")
    yield tag("div", _table(("finding", "where", "what"), lines), class_="card")
    if len(found) > SHOWN:
        yield tag("p", f"… and {len(found) - SHOWN:,} more: all of them are in the JSON document", class_="faint")


def place(finding: Json) -> str:
    """Return where a finding is: a partition, or a wave, or a table."""
    if finding["topic"]:
        return f"{finding['topic']}/{finding['partition']}"
    return finding["wave"] or finding["table"] or ""


def _table(columns: Sequence[str], lines: Sequence[Markup]) -> Markup:
    head = tag("thead", tag("tr", *(tag("th", column) for column in columns)))
    return tag("table", head, tag("tbody", *lines))


def _parts(document: Json) -> Iterator[Markup]:
    """Return the further checks: contents, and the cutover with a live stream."""
    for name, title in (("deep", "Contents, compared with Kafka"), ("cutover", "Cutover with the live stream")):
        if part := document.get(name):
            yield tag("h2", title)
            yield tag("p", part["sentence"])
            lines = [tag("li", line) for line in part.get("lines", ())]
            yield tag("ul", *lines, class_="words small faint")


def _streams(streams: Sequence[Json]) -> Iterator[Markup]:
    for (topic, topic_id), mine in groupby(streams, key=lambda item: (item["topic"], item["topic_id"])):
        yield tag("h2", topic, " ", tag("span", topic_id, class_="faint small"))
        yield tag("div", *map(_stream, mine), class_="streams")


def _stream(stream: Json) -> Markup:
    parts = stream["timeline"]
    edges = (parts[0]["from"], parts[-1]["to"]) if parts else ()
    notes = [
        tag("li", stream["sentence"]),
        *(tag("li", text, class_="problem") for text in stream["problems"]),
        *(tag("li", text, class_="faint") for text in stream["notes"]),
    ]
    if stream["bounds_state"] != "observed":
        notes.append(tag("li", f"Kafka's bounds: {stream['bounds_state']}", class_="faint"))
    return tag(
        "div",
        tag("div", stream["partition"], class_="number"),
        tag("div", timeline_of(stream), tag("div", *(tag("span", e) for e in edges), class_="edges small faint")),
        tag("div", tag("ul", *notes, class_="words small"), class_="said"),
        class_="stream bad" if stream["problems"] else "stream",
    )
