"""The graph of segments as a picture: one SVG that stands alone, light and dark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_kafka_lake.features.pages.markup import Markup, joined, tag

Json = Mapping[str, Any]
Node = tuple[str, str, int, int]

WIDE, HIGH, GAP_X, GAP_Y, MARGIN = 210, 46, 90, 16, 20
LONGEST_NAME = 24
STYLE = Markup("""
svg { font: 13px system-ui, sans-serif; background: #fff; color: #1c2733 }
rect { fill: #eef2f6; stroke: #8796a5 } .drained { fill: #d8f0d8; stroke: #4d8f4d }
.waits { fill: #f7dcdc; stroke: #b35959 } text { fill: currentColor } .small { font-size: 11px; opacity: .8 }
path { fill: none; stroke: #8796a5; stroke-width: 1.5 } marker path { fill: #8796a5; stroke: none }
@media (prefers-color-scheme: dark) { svg { background: #14191f; color: #dde5ec } rect { fill: #26303a }
.drained { fill: #1f3d24 } .waits { fill: #4a2626 } }
""")


def segments_svg(document: Json) -> str:
    """Return an SVG of `segments --json`: from left to right what comes first to what comes last."""
    nodes = {_node(stream, item): (stream, item) for stream in document["streams"] for item in stream["segments"]}
    parents = {node: [p for p in map(_parent, item["parents"]) if p in nodes] for node, (_, item) in nodes.items()}
    depth = _depths(parents)
    places: dict[Node, tuple[int, int]] = {}
    filled: dict[int, int] = {}
    for node in sorted(nodes, key=lambda n: (depth[n], n)):
        row = filled.get(depth[node], 0)
        filled[depth[node]] = row + 1
        places[node] = (MARGIN + depth[node] * (WIDE + GAP_X), MARGIN + row * (HIGH + GAP_Y))
    width = 2 * MARGIN + (max(filled, default=0) + 1) * (WIDE + GAP_X) - GAP_X
    height = 2 * MARGIN + max(filled.values(), default=1) * (HIGH + GAP_Y) - GAP_Y
    return tag(
        "svg",
        tag("title", f"Segments of {document['pipeline']}"),
        tag("style", STYLE),
        tag("defs", _arrow_head()),
        *(_edge(places[parent], places[node]) for node in nodes for parent in parents[node]),
        *(_box(*nodes[node], *place) for node, place in places.items()),
        xmlns="http://www.w3.org/2000/svg",
        width=width,
        height=height,
        viewBox=f"0 0 {width} {height}",
    )


def _arrow_head() -> Markup:
    head = tag("path", d="M0 0L8 4L0 8z")
    size = {"markerWidth": 8, "markerHeight": 8, "refX": 7, "refY": 4}
    return tag("marker", head, id="a", viewBox="0 0 8 8", orient="auto", **size)


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


def _edge(start: tuple[int, int], end: tuple[int, int]) -> Markup:
    x1, y1, x2, y2 = start[0] + WIDE, start[1] + HIGH // 2, end[0] - 3, end[1] + HIGH // 2
    bend = (x1 + x2) // 2
    return tag("path", d=f"M{x1} {y1}C{bend} {y1} {bend} {y2} {x2} {y2}", marker_end="url(#a)")


def _box(stream: Json, item: Json, x: int, y: int) -> Markup:
    kind, state = _state(item)
    full = f"{stream['topic']}/{stream['partition']}"
    name = full if len(full) <= LONGEST_NAME else "…" + full[-LONGEST_NAME + 1 :]
    end = "open" if item["seal"] is None else item["seal"]
    return tag(
        "g",
        joined(
            tag("title", f"{full}, topic id {stream['topic_id']}"),
            tag("rect", class_=kind, x=x, y=y, rx=6, width=WIDE, height=HIGH),
            tag("text", name, x=x + 10, y=y + 19),
            tag(
                "text",
                f"{item['start']} to {end} · {item['layout']} partitions · {state}",
                class_="small",
                x=x + 10,
                y=y + 36,
            ),
        ),
    )


def _state(item: Json) -> tuple[str | None, str]:
    if item["drained"]:
        return "drained", "drained"
    return (None, "may start") if item["launchable"] else ("waits", "waits")
