"""Which watermarks are committed to a Kafka group: strictly forward, and only while the topic id is the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState, PartitionSnapshot, Snapshot
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.slices import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncedGroup:
    """The result of a group sync: offsets that were `committed`, and those `refused`, with the reason."""

    group: str
    committed: Mapping[Stream, int]
    refused: Mapping[Stream, str]

    def to_json(self, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return what `run` and `advance` have under `group_sync`, with what was committed `before` in the same run."""
        earlier = {_stream(item): item["offset"] for item in (before or {}).get("committed", ())}
        return {
            "group": self.group,
            "committed": [
                {"topic": topic, "topic_id": topic_id, "partition": partition, "offset": offset}
                for (topic, topic_id, partition), offset in sorted({**earlier, **self.committed}.items())
            ],
            "refused": [
                {"topic": topic, "topic_id": topic_id, "partition": partition, "reason": reason}
                for (topic, topic_id, partition), reason in sorted(self.refused.items())
            ],
        }


def _stream(item: Mapping[str, Any]) -> Stream:
    return Stream(**{name: item[name] for name in Stream._fields})


def to_commit(streams: Iterable[StreamRecord], seen: Snapshot) -> tuple[dict[Stream, int], dict[Stream, str]]:
    """Decide which watermarks are committed to the group, and which it lacks and does not get, with the reason.

    A stream whose topic was deleted or re-created is left out: its offsets mean nothing in another topic.
    """
    partitions = {item.stream: item for item in seen.partitions}
    topics = {item.stream.topic: item.stream.topic_id for item in seen.partitions}
    wanted: dict[Stream, int] = {}
    refused: dict[Stream, str] = {}
    for stream in streams:
        found = partitions.get(stream.key)
        if found is None:
            if topics.get(stream.key.topic, stream.key.topic_id) == stream.key.topic_id:
                refused[stream.key] = "the partition could not be observed"
            continue
        reason = _refusal(found, stream.watermark)
        if reason:
            refused[stream.key] = reason
        elif found.group_offset is None or found.group_offset < stream.watermark:
            wanted[stream.key] = stream.watermark
    return wanted, refused


def _refusal(found: PartitionSnapshot, watermark: int) -> str:
    match found.group_offset_state:
        case GroupOffsetState.UNSTABLE:
            return "a commit of the group is pending in a transaction"
        case GroupOffsetState.UNKNOWN:
            return "what the group has committed is not known"
        case GroupOffsetState.KNOWN if (found.group_offset or 0) > watermark:
            return f"the group is ahead: it has committed {found.group_offset}, the watermark is {watermark}"
        case _:
            return ""
