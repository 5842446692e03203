"""One partition's timeline: a box for each part of its offsets, told apart by pattern as well as by colour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby

from markupsafe import Markup

from airflow_kafka_lake.core.audit.timeline import OffsetStatus
from airflow_kafka_lake.features.pages.rendering import Json, visible

EXACT = 200
"""Parts that are drawn one by one; of more, each of `COLUMNS` columns shows the most urgent part in it."""

COLUMNS = 500
LEAST = 0.4
"""Width of the smallest part, in per cent."""

ALARMING = 1.2
"""The same of a part that is on hold or lost: one offset among millions must be seen."""


MEANINGS: Mapping[str, str] = {
    OffsetStatus.COMMITTED: "in the lake, every offset accounted for",
    OffsetStatus.RUNNING: "being read now",
    OffsetStatus.PLANNED: "planned, and not begun",
    OffsetStatus.UNREAD: "in Kafka, not planned yet",
    OffsetStatus.WAITING: "not stable yet, an open transaction is before it",
    OffsetStatus.SKIPPED: "passed by a person's decision",
    OffsetStatus.HELD: "needs a person",
    OffsetStatus.LOST: "gone from Kafka before it was read",
}
"""The legend, in its order."""


def word(status: str) -> str:
    """Return a status for people: what is committed has landed."""
    return "landed" if status == OffsetStatus.COMMITTED.value else status


_DRAWING = Markup('<svg class="timeline" role="img" aria-label="{}">{}</svg>')
_BOX = Markup('<rect class="{}" x="{:.6g}%" width="{:.6g}%"><title>{}</title></rect>')
_MARK = Markup('<rect class="{}" x="{:.6g}%"><title>{} {}</title></rect>')
"""What is put into these is text."""

_ALARMS = frozenset({OffsetStatus.HELD, OffsetStatus.LOST})
_URGENCY = {status.value: number for number, status in enumerate(OffsetStatus)}


def timeline_of(stream: Json) -> Markup:
    """Draw a stream's timeline; each part has what it is as a tooltip, and the whole has it as a label."""
    parts = stream["timeline"]
    if not parts:
        return Markup('<span class="faint">no offset is known of yet</span>')
    start, end = parts[0]["from"], parts[-1]["to"]
    drawn = _exact(parts, start, end) if len(parts) <= EXACT else _columns(parts, start, end)
    # The most urgent last: a narrow part is widened, and must not vanish under its neighbour.
    boxes = [box for _, box in sorted(drawn, key=lambda item: item[0])]
    label = f"partition {stream['partition']}, offsets {start} to {end}: {summary(parts)}"
    return _drawing(label, (*boxes, *_marks(stream, start, end)))


def shares_bar(shares: Iterable[tuple[str, int]], label: str) -> Markup:
    """Draw how many offsets have which status, one box for each, in the order in which they are given."""
    counted = list(shares)
    whole = sum(number for _, number in counted)
    sides = accumulate((100 * number / whole for _, number in counted), initial=0.0)
    boxes = [
        _box(kind, left, 100 * number / whole, f"{word(kind)}: {number:,}")
        for (kind, number), left in zip(counted, sides, strict=False)
    ]
    words = ", ".join(f"{number:,} {word(kind)}" for kind, number in counted) or "nothing"
    return _drawing(f"{label}: {words}", boxes)


def _drawing(label: str, boxes: Iterable[Markup]) -> Markup:
    return _DRAWING.format(visible(label), Markup().join(boxes))


def summary(parts: Sequence[Json]) -> str:
    """Return how many offsets of a timeline have which status."""
    spans = dict.fromkeys(_URGENCY, 0)
    for part in parts:
        spans[part["status"]] += part["to"] - part["from"]
    return ", ".join(f"{span:,} {word(status)}" for status, span in spans.items() if span)


def _exact(parts: Sequence[Json], start: int, end: int) -> Iterator[tuple[int, Markup]]:
    scale = 100 / (end - start)
    for part in parts:
        width = (part["to"] - part["from"]) * scale
        title = f"{word(part['status'])} [{part['from']}, {part['to']})"
        title += f": {part['message']}" if part["message"] else ""
        yield _URGENCY[part["status"]], _box(part["status"], (part["from"] - start) * scale, width, title)


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
        width = len(columns) * 100 / COLUMNS
        title = f"{word(status)} somewhere in [{interval[0]}, {interval[1]})"
        yield _URGENCY[status], _box(status, columns[0] * 100 / COLUMNS, width, title)


def _box(status: str, left: float, width: float, title: str) -> Markup:
    wide = max(width, ALARMING if status in _ALARMS else LEAST)
    return _BOX.format(status, min(left, 100 - wide), wide, visible(title))


def _marks(stream: Json, start: int, end: int) -> Iterator[Markup]:
    """Draw a line at each seal, and one at the watermark."""
    for offset in stream.get("seals", ()):
        if start <= offset <= end:
            yield _MARK.format("sealed", _share(offset, start, end), "sealed at", offset)
    watermark = stream.get("watermark")
    if watermark is not None and start < watermark < end:
        yield _MARK.format("watermark", _share(watermark, start, end), "watermark", watermark)


def _share(offset: int, start: int, end: int) -> float:
    return min((offset - start) * 100 / (end - start), 100 - LEAST)
