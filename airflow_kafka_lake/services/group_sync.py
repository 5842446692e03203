"""Commit the watermarks to a Kafka group, for tools that look at groups; the group is never read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_kafka_lake.core.errors import KafkaLakeError, UnknownTopicError
from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState, PartitionSnapshot, Snapshot
from airflow_kafka_lake.core.ledger.records import StreamRecord
from airflow_kafka_lake.core.offsets import Stream
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.identity import existing_topics

# Which watermarks are committed to a Kafka group: strictly forward, and only while the topic id is the same.


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncedGroup:
    """The result of a group sync: offsets that were `committed`, and those `refused`, with the reason."""

    group: str
    committed: Mapping[Stream, int]
    refused: Mapping[Stream, str]

    def to_json(self) -> dict[str, Any]:
        """Return the value of `group_sync` in the documents of `run` and `advance`."""
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


# Commit watermarks to a Kafka group, for tools that look at groups; the group is never read back as truth.


def sync_group(ports: Ports, spec: PipelineSpec, before: SyncedGroup | None = None) -> SyncedGroup | None:
    """Commit the pipeline's watermarks to its group; None when it has no group, or was never planned.

    The answer has the commits `before` it in the same run too. Errors are in it, and not raised. The group's offsets
    are read first, with pending commits apart, and the topic ids with them; the adapter compares the ids again right
    before it commits.
    """
    if spec.sync_group is None or ports.ledger.pipeline(spec.name) is None:
        return None
    done = _synced(ports, spec.name, spec.sync_group)
    for (topic, _, partition), reason in sorted(done.refused.items()):
        ports.progress(f"group {spec.sync_group!r} was not told of {topic}/{partition}: {reason}")
    return replace(done, committed={**before.committed, **done.committed}) if before else done


def _synced(ports: Ports, pipeline: str, group: str) -> SyncedGroup:
    streams = ports.ledger.streams(pipeline)
    try:
        existing, problems = existing_topics(ports.source, {stream.key.topic for stream in streams})
        silent = {name: error.message for name, error in problems.items() if not isinstance(error, UnknownTopicError)}
        refused = {stream.key: silent[stream.key.topic] for stream in streams if stream.key.topic in silent}
        there = [stream for stream in streams if stream.key.topic in existing]
        if not there:
            return SyncedGroup(group=group, committed={}, refused=refused)
        wanted, left = to_commit(there, ports.source.snapshot(sorted(existing), group))
        refused |= left
        if wanted:
            refused |= ports.group_sync.commit(group, wanted)
    except KafkaLakeError as error:
        return SyncedGroup(group=group, committed={}, refused={stream.key: error.message for stream in streams})
    committed = {key: offset for key, offset in wanted.items() if key not in refused}
    return SyncedGroup(group=group, committed=committed, refused=refused)
