"""Which watermarks a Kafka group is told: strictly forward, and each topic id only its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState, PartitionSnapshot, Snapshot
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.slices import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncedGroup:
    """What became of a group's offsets: `committed` were told, `refused` were not and say why; the rest was there."""

    group: str
    committed: Mapping[Stream, int]
    refused: Mapping[Stream, str]

    def to_json(self) -> dict[str, Any]:
        """Return what `run` and `advance` have under `group_sync`."""
        return {
            "group": self.group,
            "committed": [
                {"topic": topic, "topic_id": topic_id, "partition": partition, "offset": offset}
                for (topic, topic_id, partition), offset in sorted(self.committed.items())
            ],
            "refused": [
                {"topic": topic, "topic_id": topic_id, "partition": partition, "reason": reason}
                for (topic, topic_id, partition), reason in sorted(self.refused.items())
            ],
        }


def to_commit(streams: Iterable[StreamRecord], seen: Snapshot) -> tuple[dict[Stream, int], dict[Stream, str]]:
    """Decide which watermarks the group is told, and which it is not although it lacks them, with the reason.

    A stream whose topic is gone or was created again is passed over: its offsets mean nothing in another topic.
    """
    partitions = {item.stream: item for item in seen.partitions}
    topics = {item.stream.topic: item.stream.topic_id for item in seen.partitions}
    wanted_offsets: dict[Stream, int] = {}
    refused: dict[Stream, str] = {}
    for stream in streams:
        found = partitions.get(stream.key)
        if found is None:
            if topics.get(stream.key.topic, stream.key.topic_id) == stream.key.topic_id:
                refused[stream.key] = "the partition could not be observed"
            continue
        reason = _kept_back(found, stream.watermark)
        if reason:
            refused[stream.key] = reason
        elif found.group_offset is None or found.group_offset < stream.watermark:
            wanted_offsets[stream.key] = stream.watermark
    return wanted_offsets, refused


def _kept_back(found: PartitionSnapshot, watermark: int) -> str:
    match found.group_offset_state:
        case GroupOffsetState.UNSTABLE:
            return "a commit of the group is pending in a transaction"
        case GroupOffsetState.UNKNOWN:
            return "what the group has committed is not known"
        case GroupOffsetState.KNOWN if (found.group_offset or 0) > watermark:
            return f"the group is ahead: it has committed {found.group_offset}, the watermark is {watermark}"
        case _:
            return ""
