"""One partition's timeline as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from airflow_kafka_lake.core.audit.timeline import OffsetStatus
from airflow_kafka_lake.features.pages.markup import Markup, tag

Json = Mapping[str, Any]

WIDTH, HEIGHT = 1000, 14
"""In the drawing's own units; the page scales it to its column."""

EXACT = 200
"""Parts that are drawn one by one; of more, each of `COLUMNS` columns shows the most urgent part in it."""

COLUMNS = 500
_URGENCY = {status.value: number for number, status in enumerate(OffsetStatus)}
_LEAST = 2.0
"""Width of the smallest part: a hold of one offset among millions must be seen."""


def timeline_of(stream: Json) -> Markup:
    """Draw a stream's timeline; each part has its status as a tooltip."""
    parts = stream["timeline"]
    if not parts:
        return tag("span", "no offset is known of yet", class_="faint")
    start, end = parts[0]["from"], parts[-1]["to"]
    drawn = _exact(parts, start, end) if len(parts) <= EXACT else _columns(parts, start, end)
    # The most urgent last: a narrow part is widened, and must not vanish under its neighbour.
    shapes = [shape for _, shape in sorted(drawn, key=lambda item: item[0])]
    label = f"offsets {start} to {end} of partition {stream['partition']}: {_summary(parts)}"
    return tag(
        "svg",
        *shapes,
        *_marks(stream, start, end),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def _exact(parts: Sequence[Json], start: int, end: int) -> Iterator[tuple[int, Markup]]:
    scale = WIDTH / (end - start)
    for part in parts:
        width = (part["to"] - part["from"]) * scale
        message = f"{part['status']} [{part['from']}, {part['to']})"
        message += f": {part['message']}" if part["message"] else ""
        yield _URGENCY[part["status"]], _box(part["status"], (part["from"] - start) * scale, width, message)


def _columns(parts: Sequence[Json], start: int, end: int) -> Iterator[tuple[int, Markup]]:
    """Show the most urgent part of each column; neighbours that show the same become one box."""
    size = (end - start) / COLUMNS
    worst: dict[int, str] = {}
    for part in parts:
        first, last = int((part["from"] - start) / size), int((part["to"] - 1 - start) / size)
        for column in range(first, min(last, COLUMNS - 1) + 1):
            worst[column] = max(worst.get(column, part["status"]), part["status"], key=_URGENCY.__getitem__)
    # Within an unbroken run of columns, a column's number less its place in the list stays the same.
    runs = groupby(enumerate(sorted(worst)), key=lambda item: (worst[item[1]], item[1] - item[0]))
    for (status, _), run in runs:
        columns = [column for _, column in run]
        interval = (start + int(columns[0] * size), start + int((columns[-1] + 1) * size))
        width = len(columns) * WIDTH / COLUMNS
        message = f"{status} somewhere in [{interval[0]}, {interval[1]})"
        yield _URGENCY[status], _box(status, columns[0] * WIDTH / COLUMNS, width, message)


def _box(status: str, left: float, width: float, message: str) -> Markup:
    wide = max(width, _LEAST)
    left = min(left, WIDTH - wide)
    return tag("rect", tag("title", message), class_=status, x=f"{left:.2f}", y=0, width=f"{wide:.2f}", height=HEIGHT)


def _marks(stream: Json, start: int, end: int) -> Iterator[Markup]:
    """Draw a line at each seal."""
    for offset in stream.get("seals", ()):
        if start <= offset <= end:
            place = min((offset - start) * WIDTH / (end - start), WIDTH - 3)
            title = tag("title", f"sealed at {offset}")
            yield tag("rect", title, class_="sealed", x=f"{place:.2f}", y=0, width=3, height=HEIGHT)


def _summary(parts: Sequence[Json]) -> str:
    spans = dict.fromkeys((status.value for status in OffsetStatus), 0)
    for part in parts:
        spans[part["status"]] += part["to"] - part["from"]
    return ", ".join(f"{span} {status}" for status, span in spans.items() if span)
