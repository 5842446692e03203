"""A small world's evidence for the checker: ledger, lake, what producers were told, and what workers wrote down."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Stream
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.pipeline_audit import gather_audit
from tests.kit.operations import Line, Operation, operations
from tests.kit.producers_truth import Evidence, StreamTruth
from tests.kit.recorder import Recorder, recorded
from tests.world import World

GONE = 10**12
"""Where the log of a deleted topic begins: nothing of it can be read any more."""


class Notes:
    """What the workers of a world have written down; `lines` may be edited by a test."""

    def __init__(self, world: World) -> None:
        self.lines: list[dict[str, Any]] = []
        self._world = world
        self._ticks = itertools.count(1)

    def of(self, ports: Ports) -> Ports:
        """Let a worker write down its calls."""
        recorder = Recorder(
            lambda text: self.lines.append(json.loads(text)),
            ports.processes.this(),
            now=self._world.clock.now,
            tick=self._ticks.__next__,
        )
        return recorded(recorder, ports)

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What was written down, call by call."""
        return operations(map(Line.from_json, self.lines))


def evidence_of(world: World, *, at_rest: bool = False, **truth: Any) -> Evidence:
    """Return all that is known of a world."""
    inputs = gather_audit(world.ledger, world.lake, world.spec)
    return Evidence.of(inputs, truth=truth_of(world, **truth), at_rest=at_rest)


def truth_of(world: World, aborted: Iterable[tuple[Stream, int]] = ()) -> dict[Stream, StreamTruth]:
    """Return what producers were told; `aborted` are offsets of aborted records."""
    gone: dict[Stream, set[int]] = defaultdict(set)
    for stream, offset in aborted:
        gone[stream].add(offset)
    found = {}
    for stream, records in world.visible.items():
        topic, topic_id, partition = stream
        lives = world.topic_ids[topic] == topic_id and topic in world.kafka._topics
        found[stream] = StreamTruth(
            acknowledged=offsets_of(set(records) - gone[stream]),
            aborted=offsets_of(gone[stream]),
            log_start=world.kafka.log(topic, partition).log_start if lives else GONE,
        )
    return found


def offsets_of(offsets: Iterable[int]) -> RangeSet:
    """Return single offsets as a set of ranges."""
    return RangeSet(OffsetRange(offset, offset + 1) for offset in offsets)
