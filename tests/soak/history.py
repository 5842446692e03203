"""The history that every process wrote, judged with ledger, lake and the producers' notes by the product's checker."""

from __future__ import annotations

import os
from unittest.mock import patch

import numpy as np

from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.offsets import Stream as KafkaStream
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.wiring.assemble import open_ports
from tests.faults.check import check
from tests.kit.producers_truth import StreamTruth
from tests.soak.acknowledged import Acknowledged, Numbers, Stream
from tests.soak.checking import beyond_the_last_plan, read
from tests.soak.lanes import LANES, TOPICS
from tests.soak.place import Place


def check_history(place: Place, acknowledged: Acknowledged) -> list[str]:
    """Return what the checker finds, in words."""
    truth = truths(place, acknowledged)
    found = []
    for lane in LANES.values():
        spec = Pipeline.from_toml(place.pipeline(lane.name)).spec
        own = {KafkaStream(*stream): said for stream, said in truth.items() if stream[0] in lane.topics}
        with (
            patch.dict(os.environ, place.connections()),
            open_ports(spec, actor="soak", progress=lambda _: None) as ports,
        ):
            findings = check(ports.ledger, ports.lake, spec, history=place.home / "history", truth=own, at_rest=True)
        found += [f"checker, {lane.name}: {item.kind}: {item.message}" for item in findings]
    return found


def truths(place: Place, acknowledged: Acknowledged) -> dict[Stream, StreamTruth]:
    """Return what readers must see: all that was acknowledged, without what was gone before anybody could read it.

    Of a compacted topic the producers cannot tell what must be there; only what is visible is held against their notes.
    """
    ends = beyond_the_last_plan(place)
    seen, _ = read(place, contents=False)
    found = {}
    for stream in acknowledged.streams():
        offsets, _, _ = acknowledged.numbers(stream)
        if stream[1] in place.gone:
            offsets = offsets[offsets < ends.get(stream, 0)]
        if "compact" in TOPICS[stream[0]].settings.get("cleanup.policy", "") and stream in seen:
            offsets = np.intersect1d(offsets, seen[stream].offsets)
        uncertain = _uncertain(acknowledged, stream, seen[stream].offsets if stream in seen else offsets[:0])
        found[stream] = StreamTruth(
            acknowledged=_set(np.union1d(offsets, uncertain)), aborted=_set(acknowledged.aborted_offsets(stream))
        )
    return found


def _uncertain(acknowledged: Acknowledged, stream: Stream, visible: Numbers) -> Numbers:
    own = [r.offset for transaction in acknowledged.uncertain for r in transaction if r.stream == stream]
    return np.intersect1d(np.array(own, dtype=np.int64), visible)


def _set(offsets: Numbers) -> RangeSet:
    """Return offsets as a set of ranges."""
    ordered = np.unique(offsets)
    if not len(ordered):
        return RangeSet()
    breaks = np.flatnonzero(np.diff(ordered) != 1)
    starts = ordered[np.concatenate([[0], breaks + 1])]
    ends = ordered[np.concatenate([breaks, [len(ordered) - 1]])] + 1
    return RangeSet(OffsetRange(int(start), int(end)) for start, end in zip(starts, ends, strict=True))
