"""Can what was planned still be read, and is it what was planned? Asked before a job, and again after its read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from airflow_kafka_lake.core.errors import KafkaLakeError, UnavailableError
from airflow_kafka_lake.core.kafka.epochs import cut_below, epochs_in_doubt
from airflow_kafka_lake.core.kafka.losses import gone_topic, loss
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot, Snapshot
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.topics import compared

_LOOK_AGAIN_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What became of some ranges, by id: `failed` with what happened to topic or log, `unknown` with the reason why
    nobody can say; the others are as they were planned."""

    failed: Mapping[str, KafkaLakeError] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)


def look(ports: Ports, ranges: Sequence[RangeRecord]) -> Seen:
    """Compare topic ids, log starts, ends and leader epochs with what was planned."""
    changed, problems = compared(ports.source, {(item.stream.topic, item.stream.topic_id) for item in ranges})
    failed: dict[str, KafkaLakeError] = {
        item.id: gone_topic(item, changed[key])
        for item in ranges
        if (key := (item.stream.topic, item.stream.topic_id)) in changed
    }
    unknown = {item.id: problems[item.stream.topic].message for item in ranges if item.stream.topic in problems}
    left = [item for item in ranges if item.id not in failed and item.id not in unknown]
    if not left:
        return Seen(failed=failed, unknown=unknown)
    snapshot = ports.source.snapshot(sorted({item.stream.topic for item in left}), None)
    seen = {item.stream: item for item in snapshot.partitions}
    unknown |= _unknown(snapshot, seen, left)
    left = [item for item in left if item.id not in unknown]
    doubts = epochs_in_doubt((seen[item.stream], item.leader_epoch) for item in left)
    ends = ports.source.epoch_ends(doubts) if doubts else {}
    for item in left:
        try:
            if found := loss(item, seen[item.stream], ends):
                failed[item.id] = found
        except UnavailableError as error:
            unknown[item.id] = error.message
    return Seen(failed=failed, unknown=unknown)


def _unknown(
    snapshot: Snapshot, seen: Mapping[Stream, PartitionSnapshot], ranges: Sequence[RangeRecord]
) -> dict[str, str]:
    said = {(item.topic, item.partition): item.reason for item in snapshot.unknown}
    silent = "Kafka says nothing about it"
    return {
        item.id: f"{item.stream} is not known: {said.get((item.stream.topic, item.stream.partition), silent)}"
        for item in ranges
        if item.stream not in seen
    }


def look_until_known(
    ports: Ports, ranges: Sequence[RangeRecord], patience: timedelta, heartbeat: Callable[[], None]
) -> Seen:
    """Look again while partitions are unknown, such as between two leaders, until they are known or time is over."""
    until = ports.clock.monotonic() + patience.total_seconds()
    seen = look(ports, ranges)
    while seen.unknown and ports.clock.monotonic() < until:
        heartbeat()
        ports.clock.sleep(_LOOK_AGAIN_SECONDS)
        seen = look(ports, ranges)
    return seen


def accepted_epoch(ports: Ports, stream: StreamRecord, stretch: OffsetRange) -> int | None:
    """Return the leader epoch of the log as it is, when a skip passes all that the log lost since its newest plan.

    None when it passes less, when nothing was lost, or when that cannot be known now: what stopped the next plan before
    then stops it again.
    """
    if stream.leader_epoch is None or stretch.end < stream.end_seen:
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
        ports.say(f"whether {stream.key} lost records is not known: {error.message}")
        return None
    return seen.leader_epoch if cut is not None and stretch.start <= cut else None
