"""Timelines of partitions, the graph of segments, and the page of an audit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from itertools import accumulate, groupby

from markupsafe import Markup

from airflow_kafka_lake.core.amounts import count, word_of
from airflow_kafka_lake.core.audit.report import MEANINGS, URGENCY, AuditReport, OffsetStatus, TimelineSlice
from airflow_kafka_lake.core.offsets import summed
from airflow_kafka_lake.core.ordering.segments import Segment, SegmentKey, SegmentOrder
from airflow_kafka_lake.core.wire import timestamp
from airflow_kafka_lake.pages.rendering import IDLE, Visitor, draw, render, visible

# One partition's timeline: a box for each part of its offsets, told apart by pattern as well as by colour.

EXACT = 200
"""Parts that are drawn one by one; of more, each of `COLUMNS` columns shows the most urgent part in it."""

COLUMNS = 500
LEAST = 0.4
"""Width of the smallest part, in per cent."""

ALARMING = 1.2
"""The same of a part that is on hold or lost: one offset among millions must be seen."""


_DRAWING = Markup('<svg class="timeline" role="img" aria-label="{}">{}</svg>')
_BOX = Markup('<rect class="{}" x="{:.6g}%" width="{:.6g}%"><title>{}</title></rect>')
_MARK = Markup('<rect class="{}" x="{:.6g}%"><title>{} {}</title></rect>')
"""Their values are text."""

_ALARMS = frozenset({OffsetStatus.HELD, OffsetStatus.LOST})


def timeline_of(
    partition: int, parts: Sequence[TimelineSlice], *, watermark: int | None, seals: Sequence[int] = ()
) -> Markup:
    """Draw a partition's timeline; each part has its status as a tooltip, and the whole has them as a label."""
    if not parts:
        return Markup('<span class="faint">no offset is known of yet</span>')
    start, end = parts[0].range.start, parts[-1].range.end
    drawn = _exact(parts, start, end) if len(parts) <= EXACT else _columns(parts, start, end)
    # The most urgent last: a narrow part is widened, and must not vanish under its neighbour.
    boxes = [box for _, box in sorted(drawn, key=lambda item: item[0])]
    label = f"partition {partition}, offsets {start} to {end}: {summary(parts)}"
    return _DRAWING.format(visible(label), Markup().join((*boxes, *_marks(start, end, watermark, seals))))


def shares_bar(shares: Iterable[tuple[str, int]], label: str) -> Markup:
    """Draw how many offsets have which status, one box for each, in the order in which they are given."""
    counted = list(shares)
    whole = sum(number for _, number in counted)
    sides = accumulate((100 * number / whole for _, number in counted), initial=0.0)
    boxes = [
        _box(kind, left, 100 * number / whole, f"{word_of(kind)}: {number:,}")
        for (kind, number), left in zip(counted, sides, strict=False)
    ]
    words = ", ".join(f"{number:,} {word_of(kind)}" for kind, number in counted) or "nothing"
    return _DRAWING.format(visible(f"{label}: {words}"), Markup().join(boxes))


def summary(parts: Sequence[TimelineSlice]) -> str:
    """Return how many offsets of a timeline have which status."""
    spans = summed((part.status, part.range.span) for part in parts)
    return ", ".join(f"{spans[status]:,} {word_of(status)}" for status in OffsetStatus if status in spans)


def _exact(parts: Sequence[TimelineSlice], start: int, end: int) -> Iterator[tuple[int, Markup]]:
    scale = 100 / (end - start)
    for part in parts:
        title = f"{word_of(part.status)} [{part.range.start}, {part.range.end})"
        title += f": {part.message}" if part.message else ""
        left, width = (part.range.start - start) * scale, part.range.span * scale
        yield URGENCY[part.status], _box(part.status, left, width, title)


def _columns(parts: Sequence[TimelineSlice], start: int, end: int) -> Iterator[tuple[int, Markup]]:
    """Show the most urgent part of each column; neighbours that show the same become one box."""
    size = (end - start) / COLUMNS
    worst: dict[int, OffsetStatus] = {}
    for part in parts:
        first, last = int((part.range.start - start) / size), int((part.range.end - 1 - start) / size)
        for column in range(first, min(last, COLUMNS - 1) + 1):
            worst[column] = max(worst.get(column, part.status), part.status, key=URGENCY.__getitem__)
    # Within an unbroken run of columns, a column's number less its place in the list stays the same.
    runs = groupby(enumerate(sorted(worst)), key=lambda item: (worst[item[1]], item[1] - item[0]))
    for (status, _), run in runs:
        columns = [column for _, column in run]
        interval = (start + int(columns[0] * size), start + int((columns[-1] + 1) * size))
        width = len(columns) * 100 / COLUMNS
        title = f"{word_of(status)} somewhere in [{interval[0]}, {interval[1]})"
        yield URGENCY[status], _box(status, columns[0] * 100 / COLUMNS, width, title)


def _box(status: str, left: float, width: float, title: str) -> Markup:
    wide = max(width, ALARMING if status in _ALARMS else LEAST)
    return _BOX.format(status, min(left, 100 - wide), wide, visible(title))


def _marks(start: int, end: int, watermark: int | None, seals: Sequence[int]) -> Iterator[Markup]:
    """Draw a line at each seal, and one at the watermark."""
    for offset in seals:
        if start <= offset <= end:
            yield _MARK.format("sealed", _share(offset, start, end), "sealed at", offset)
    if watermark is not None and start < watermark < end:
        yield _MARK.format("watermark", _share(watermark, start, end), "watermark", watermark)


def _share(offset: int, start: int, end: int) -> float:
    return min((offset - start) * 100 / (end - start), 100 - LEAST)


# The graph of segments: from left to right the first to the last.

WIDE, HIGH, GAP_X, GAP_Y, MARGIN = 210, 46, 90, 16, 20
LONGEST_NAME = 24
MOST_BOXES = 400
"""Segments that a page draws; of more it lists the waiting ones, and a picture of its own has all."""


def segments_page(visitor: Visitor, order: SegmentOrder) -> str:
    """Draw the page of a pipeline's segments: their blockers, and the graph where it fits."""
    segments = list(order.graph)
    ordered = any(item.parents for item in segments)
    return draw(
        "segments.html",
        visitor,
        poll=IDLE,
        pipeline=order.pipeline,
        waits=[(str(stream), text) for stream in order.streams for text, _ in order.waits(stream)],
        graph=segments_svg(order, alone=False) if ordered and len(segments) <= MOST_BOXES else None,
        reason=_no_graph(order.pipeline, len(segments) if ordered else 0),
    )


def _no_graph(pipeline: str, count: int) -> str:
    if not count:
        return "No topic of this pipeline has had more than one layout: nothing waits for anything."
    return f"{count:,} segments of {pipeline} are too many for a page: the command segments draws them, with --svg FILE"


def segments_svg(order: SegmentOrder, *, alone: bool = True) -> str:
    """Return a pipeline's segments as a picture, light and dark; `alone` with its styles."""
    nodes = {item.key: item for item in sorted(order.graph, key=lambda item: item.key)}
    parents = {key: [parent for parent in sorted(item.parents) if parent in nodes] for key, item in nodes.items()}
    places = _places(parents)
    return render(
        "graph.svg",
        alone=alone,
        title=f"Segments of {order.pipeline}",
        width=max((x for x, _ in places.values()), default=0) + WIDE + MARGIN,
        height=max((y for _, y in places.values()), default=0) + HIGH + MARGIN,
        wide=WIDE,
        high=HIGH,
        edges=[_edge(places[parent], places[node]) for node in nodes for parent in parents[node]],
        boxes=[_segment_box(nodes[node], order.state_of(nodes[node]), *place) for node, place in places.items()],
    )


def _places(parents: Mapping[SegmentKey, list[SegmentKey]]) -> dict[SegmentKey, tuple[int, int]]:
    """Return where each segment is drawn: as far to the right as its longest way is long."""
    depth: dict[SegmentKey, int] = {}
    for node in TopologicalSorter(parents).static_order():
        depth[node] = max((depth[parent] + 1 for parent in parents[node]), default=0)
    places: dict[SegmentKey, tuple[int, int]] = {}
    filled: dict[int, int] = {}
    for node in sorted(parents, key=lambda n: (depth[n], n)):
        row = filled.get(depth[node], 0)
        filled[depth[node]] = row + 1
        places[node] = (MARGIN + depth[node] * (WIDE + GAP_X), MARGIN + row * (HIGH + GAP_Y))
    return places


def _edge(start: tuple[int, int], end: tuple[int, int]) -> tuple[int, int, int, int, int]:
    """Return both ends of a curve, and where it bends."""
    x1, y1, x2, y2 = start[0] + WIDE, start[1] + HIGH // 2, end[0] - 3, end[1] + HIGH // 2
    return x1, y1, x2, y2, (x1 + x2) // 2


def _segment_box(segment: Segment, state: str, x: int, y: int) -> dict[str, object]:
    full = str(segment.stream)
    end = "open" if segment.seal is None else segment.seal
    return {
        "x": x,
        "y": y,
        "kind": state if state in {"drained", "waits"} else "",
        "title": f"{full}, topic id {segment.stream.topic_id}",
        "name": full if len(full) <= LONGEST_NAME else "…" + full[-LONGEST_NAME + 1 :],
        "line": f"{segment.start} to {end} · {count(segment.layout, 'partition')} · {state}",
    }


# The report of an audit as one HTML file that needs nothing else: no network, no script.

SHOWN = 500
"""Findings that a page lists; all of them are in the JSON document."""

_CHECKS = {"deep": "Contents, compared with Kafka", "cutover": "Cutover with the live stream"}
_NEVER = frozenset({OffsetStatus.RUNNING, OffsetStatus.WAITING})
"""The statuses that an audit has not: those of the moment."""


def audit_page(report: AuditReport) -> str:
    """Return the report as a whole HTML document."""
    topics = [(key, list(mine)) for key, mine in groupby(report.streams, key=lambda item: item.record.key[:2])]
    return render(
        "audit.html",
        report=report,
        at=timestamp(report.at),
        totals=report.totals,
        meanings=[(status, meaning) for status, meaning in MEANINGS.items() if status not in _NEVER],
        sealed=any(stream.seals for stream in report.streams),
        found=report.findings[:SHOWN],
        more=len(report.findings[SHOWN:]),
        checks=[(title, report.checks[name]) for name, title in _CHECKS.items() if name in report.checks],
        topics=topics,
        names=[name for (name, _), _ in topics],
        timeline=lambda line: timeline_of(
            line.record.key.partition, line.timeline, watermark=line.record.watermark, seals=line.seals
        ),
    )
