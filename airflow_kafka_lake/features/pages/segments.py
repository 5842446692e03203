"""The graph of segments: from left to right what comes first to what comes last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.features.pages.rendering import Json, render
from airflow_kafka_lake.features.pages.site import IDLE, draw
from airflow_kafka_lake.features.pages.web.visitor import Visitor

Node = tuple[str, str, int, int]

WIDE, HIGH, GAP_X, GAP_Y, MARGIN = 210, 46, 90, 16, 20
LONGEST_NAME = 24
MOST_BOXES = 400
"""Segments that a page draws; of more it says what waits, and a picture of its own has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One segment where it is drawn; `kind` is a class of the style sheet, none for one that may start."""

    x: int
    y: int
    kind: str
    title: str
    name: str
    line: str


def segments_svg(document: Json) -> str:
    """Return `segments --json` as a picture that stands alone, light and dark."""
    return _graph(document, alone=True)


def segments_page(visitor: Visitor, document: Json) -> str:
    """Draw the page of a pipeline's segments: what waits for what, and the graph where it fits."""
    count = sum(len(stream["segments"]) for stream in document["streams"])
    ordered = any(segment["parents"] for stream in document["streams"] for segment in stream["segments"])
    return draw(
        "segments.html",
        visitor,
        poll=IDLE,
        document=document,
        waits=[
            (f"{stream['topic']}/{stream['partition']}", text)
            for stream in document["streams"]
            for text in stream["blocked_by"]
        ],
        graph=_graph(document) if ordered and count <= MOST_BOXES else None,
        reason=_no_graph(document["pipeline"], count if ordered else 0),
    )


def _no_graph(pipeline: str, count: int) -> str:
    if not count:
        return "No topic of this pipeline has had more than one layout: nothing waits for anything."
    return f"{count:,} segments of {pipeline} are too many for a page: the command segments draws them, with --svg FILE"


def _graph(document: Json, *, alone: bool = False) -> str:
    nodes = {_node(stream, item): (stream, item) for stream in document["streams"] for item in stream["segments"]}
    parents = {node: [p for p in map(_parent, item["parents"]) if p in nodes] for node, (_, item) in nodes.items()}
    places = _places(parents)
    return render(
        "graph.svg",
        alone=alone,
        title=f"Segments of {document['pipeline']}",
        width=max((x for x, _ in places.values()), default=0) + WIDE + MARGIN,
        height=max((y for _, y in places.values()), default=0) + HIGH + MARGIN,
        wide=WIDE,
        high=HIGH,
        edges=[_edge(places[parent], places[node]) for node in nodes for parent in parents[node]],
        boxes=[_box(*nodes[node], *place) for node, place in places.items()],
    )


def _places(parents: Mapping[Node, list[Node]]) -> dict[Node, tuple[int, int]]:
    """Return where each node is drawn: as far to the right as its longest way is long."""
    depth = _depths(parents)
    places: dict[Node, tuple[int, int]] = {}
    filled: dict[int, int] = {}
    for node in sorted(parents, key=lambda n: (depth[n], n)):
        row = filled.get(depth[node], 0)
        filled[depth[node]] = row + 1
        places[node] = (MARGIN + depth[node] * (WIDE + GAP_X), MARGIN + row * (HIGH + GAP_Y))
    return places


def _node(stream: Json, item: Json) -> Node:
    return (stream["topic"], stream["topic_id"], stream["partition"], item["start"])


def _parent(item: Json) -> Node:
    return (item["topic"], item["topic_id"], item["partition"], item["start"])


def _depths(parents: Mapping[Node, list[Node]]) -> dict[Node, int]:
    """Return the length of the longest way to each node; the graph has no cycle, so the rounds come to an end."""
    depth = dict.fromkeys(parents, 0)
    changed = True
    while changed:
        changed = False
        for node, above in parents.items():
            deepest = max((depth[parent] + 1 for parent in above), default=0)
            changed |= deepest != depth[node]
            depth[node] = deepest
    return depth


def _edge(start: tuple[int, int], end: tuple[int, int]) -> tuple[int, int, int, int, int]:
    """Return both ends of a curve, and where it bends."""
    x1, y1, x2, y2 = start[0] + WIDE, start[1] + HIGH // 2, end[0] - 3, end[1] + HIGH // 2
    return x1, y1, x2, y2, (x1 + x2) // 2


def _box(stream: Json, item: Json, x: int, y: int) -> Box:
    kind, state = _state(item)
    full = f"{stream['topic']}/{stream['partition']}"
    end = "open" if item["seal"] is None else item["seal"]
    return Box(
        x=x,
        y=y,
        kind=kind,
        title=f"{full}, topic id {stream['topic_id']}",
        name=full if len(full) <= LONGEST_NAME else "…" + full[-LONGEST_NAME + 1 :],
        line=f"{item['start']} to {end} · {count(item['layout'], 'partition')} · {state}",
    )


def _state(item: Json) -> tuple[str, str]:
    if item["drained"]:
        return "drained", "drained"
    return ("", "may start") if item["launchable"] else ("waits", "waits")
