"""Commit settled watermarks to a Kafka group, for tools that look at groups: told, reported, never believed."""

from __future__ import annotations

from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.mirroring import Mirrored, forward
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.topics import there


def mirror(ports: Ports, spec: PipelineSpec) -> Mirrored | None:
    """Tell the pipeline's group how far the lake is; None when it has no such group. Nothing that goes wrong is raised.

    What the group has is read first, with pending commits told apart, and the topics' ids with it; the adapter compares
    the ids once more right before it commits.
    """
    if spec.mirror_group is None:
        return None
    done = _mirrored(ports, spec.name, spec.mirror_group)
    for (topic, _, partition), reason in sorted(done.refused.items()):
        ports.say(f"group {spec.mirror_group!r} was not told of {topic}/{partition}: {reason}")
    return done


def _mirrored(ports: Ports, pipeline: str, group: str) -> Mirrored:
    streams = ports.ledger.streams(pipeline)
    try:
        topics = sorted(there(ports.source, {stream.key.topic for stream in streams})[0])
        if not topics:
            return Mirrored(group=group, committed={}, refused={})
        to_tell, refused = forward(streams, ports.source.snapshot(topics, group))
        if to_tell:
            refused |= ports.mirror.commit(group, to_tell)
    except KafkaLakeError as error:
        return Mirrored(group=group, committed={}, refused={stream.key: error.message for stream in streams})
    told = {key: offset for key, offset in to_tell.items() if key not in refused}
    return Mirrored(group=group, committed=told, refused=refused)
