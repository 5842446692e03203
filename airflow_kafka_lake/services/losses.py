"""Ask whether what was planned can still be read, and is what was planned: before a job, and after its read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.kafka.epochs import cut_below, epochs_in_doubt
from airflow_kafka_lake.core.kafka.loss_check import LogFacts, Losses
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.topics import compared

_LOOK_AGAIN_SECONDS = 1.0


def check_losses(ports: Ports, ranges: Sequence[RangeRecord]) -> Losses:
    """Ask Kafka for topic ids, log starts, ends and leader epochs, and compare them with what was planned."""
    changed, problems = compared(ports.source, {(item.stream.topic, item.stream.topic_id) for item in ranges})
    facts = LogFacts(changed=changed, problems=problems)
    if topics := facts.to_observe(ranges):
        facts = replace(facts, snapshot=ports.source.snapshot(topics, None))
    if doubts := facts.in_doubt(ranges):
        facts = replace(facts, ends=ports.source.epoch_ends(doubts))
    return facts.losses(ranges)


def check_until_known(
    ports: Ports, ranges: Sequence[RangeRecord], timeout: timedelta, heartbeat: Callable[[], None]
) -> Losses:
    """Look again while partitions are unknown, such as between two leaders, until they are known or time is over."""
    until = ports.clock.monotonic() + timeout.total_seconds()
    seen = check_losses(ports, ranges)
    while seen.unknown and ports.clock.monotonic() < until:
        heartbeat()
        ports.clock.sleep(_LOOK_AGAIN_SECONDS)
        seen = check_losses(ports, ranges)
    return seen


def accepted_epoch(ports: Ports, stream: StreamRecord, interval: OffsetRange) -> int | None:
    """Return the leader epoch of the log as it is, when a skip passes all that the log lost since its newest plan.

    None when it passes less, when nothing was lost, or when that cannot be known now: what stopped the next plan before
    then stops it again.
    """
    if stream.leader_epoch is None or interval.end < stream.end_seen:
        return None
    try:
        snapshot = ports.source.snapshot((stream.key.topic,), None)
        seen = next((item for item in snapshot.partitions if item.stream == stream.key), None)
        if seen is None:
            return None
        doubts = epochs_in_doubt([(seen, stream.leader_epoch)])
        ends = ports.source.epoch_ends(doubts) if doubts else {}
        cut = cut_below(seen, stream.leader_epoch, stream.end_seen, ends, set_back=True)
    except KafkaLakeError as error:
        ports.progress(f"whether {stream.key} lost records is not known: {error.message}")
        return None
    return seen.leader_epoch if cut is not None and interval.start <= cut else None
