"""What comes before what, for people and programs: each segment with its parents, and what keeps it from starting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from airflow_kafka_lake.core.ledger.holds import HoldReason
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import UNRESOLVED, RangeState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.ordering.segments import Blocker, Graph, Segment, blockers, describe, is_drained
from airflow_kafka_lake.core.slices import Stream

Json = dict[str, Any]
NAMED = 3
"""How many ranges of a parent are named one by one."""


class Order:
    """The segments of a pipeline beside its streams and unresolved ranges, as one moment had them."""

    def __init__(
        self, pipeline: str, graph: Graph, streams: Iterable[StreamRecord], unresolved: Iterable[RangeRecord]
    ) -> None:
        self._pipeline = pipeline
        self._graph = graph
        self._streams = {item.key: item for item in streams}
        self._open: dict[Stream, list[RangeRecord]] = defaultdict(list)
        for item in unresolved:
            self._open[item.stream].append(item)

    def documents(self, stream: Stream) -> list[Json]:
        """Return a stream's segments as `status --json` lists them."""
        return [self._document(item) for item in self._graph.of(stream)]

    def _document(self, segment: Segment) -> Json:
        return {
            "start": segment.start,
            "seal": segment.seal,
            "sealed": segment.sealed,
            "layout": segment.layout,
            "drained": is_drained(segment, self._streams),
            "launchable": not self._blockers(segment),
            "parents": [
                {
                    "topic": parent.stream.topic,
                    "topic_id": parent.stream.topic_id,
                    "partition": parent.stream.partition,
                    "start": parent.start,
                    "seal": parent.seal,
                }
                for key in sorted(segment.parents)
                if (parent := self._graph[key])
            ],
        }

    def _blockers(self, segment: Segment) -> tuple[Blocker, ...]:
        here = OffsetRange(segment.start, segment.start + 1)
        return blockers(self._graph, self._streams, [(segment.stream, here)]) if segment.parents else ()

    def waits(self, stream: Stream) -> list[str]:
        """Return for each segment of a stream that may not start what it waits for, down to range and reason."""
        return [
            f"order: what lies from {segment.start} on waits: "
            f"{describe(blocker, self._pipeline)}{self.because(blocker)}"
            for segment in self._graph.of(stream)
            for blocker in self._blockers(segment)
        ]

    def because(self, blocker: Blocker) -> str:
        """Name the ranges of a parent that are in the way."""
        found = [item for item in self._open[blocker.parent.stream] if blocker.missing & RangeSet((item.range,))]
        if not blocker.missing:
            return ""
        if not found:
            return " (not planned yet)"
        named = [blocked_by(item) or f"range {item.range} is planned: wave {item.wave}" for item in found[:NAMED]]
        more = [f"and {len(found) - NAMED} more"] if len(found) > NAMED else []
        return f" ({'; '.join(named + more)})"

    def needs_person(self, blocker: Blocker) -> bool:
        """Return whether only a person can lead on: something of the parent is held, cancelled, or skipped without the
        order acknowledged."""
        stuck = (i for i in self._open[blocker.parent.stream] if i.state is not RangeState.PLANNED)
        return bool(blocker.unacknowledged) or any(blocker.missing & RangeSet((item.range,)) for item in stuck)


def blocked_by(item: RangeRecord) -> str | None:
    """Return why a range is held and which command leads it out; None for one that is just planned."""
    if item.state is RangeState.PLANNED or item.state not in UNRESOLVED:
        return None
    return f"range {item.range} {item.state.lower()}: {HoldReason.of(item).text} (wave {item.wave})"


def segments_document(pipeline: str, graph: Graph, order: Order) -> Json:
    """Return `segments --json`: the graph by stream."""
    streams: Sequence[Stream] = sorted({item.stream for item in graph})
    return {
        "pipeline": pipeline,
        "streams": [
            {
                "topic": key.topic,
                "topic_id": key.topic_id,
                "partition": key.partition,
                "segments": order.documents(key),
                "blocked_by": order.waits(key),
            }
            for key in streams
        ],
    }
