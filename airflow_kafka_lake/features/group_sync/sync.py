"""Commit watermarks to a Kafka group, for tools that look at groups; the group is never read back as truth."""

from __future__ import annotations

from airflow_kafka_lake.core.errors import KafkaLakeError, UnknownTopicError
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.features.group_sync.decision import SyncedGroup, to_commit
from airflow_kafka_lake.features.group_sync.port import PORT, GroupCommitter
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.topics import existing_topics


def sync_group(ports: Ports, spec: PipelineSpec) -> SyncedGroup | None:
    """Commit the pipeline's watermarks to its group; None when it has no group, or was never planned.

    Errors are in the answer, and not raised. The group's offsets are read first, with pending commits apart, and the
    topic ids with them; the adapter compares the ids again right before it commits.
    """
    if spec.sync_group is None or ports.ledger.pipeline(spec.name) is None:
        return None
    done = _synced(ports, spec.name, spec.sync_group)
    for (topic, _, partition), reason in sorted(done.refused.items()):
        ports.progress(f"group {spec.sync_group!r} was not told of {topic}/{partition}: {reason}")
    return done


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
            committer: GroupCommitter = ports.added[PORT]
            refused |= committer.commit(group, wanted)
    except KafkaLakeError as error:
        return SyncedGroup(group=group, committed={}, refused={stream.key: error.message for stream in streams})
    committed = {key: offset for key, offset in wanted.items() if key not in refused}
    return SyncedGroup(group=group, committed=committed, refused=refused)
