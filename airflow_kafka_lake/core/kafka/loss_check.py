"""Can what was planned still be read, and is it what was planned? Judged from what Kafka answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_kafka_lake.core.errors import IdentityError, KafkaLakeError, UnavailableError
from airflow_kafka_lake.core.kafka.epochs import EpochEnds, EpochKey, epochs_in_doubt, leader_epochs
from airflow_kafka_lake.core.kafka.losses import gone_topic, loss
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot, Snapshot
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.slices import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """What became of some ranges, by id: `failed` with what happened to topic or log, `unknown` with the reason why
    that cannot be told; the others are as they were planned. `seen` is what was compared."""

    failed: Mapping[str, KafkaLakeError] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    seen: Mapping[Stream, PartitionSnapshot] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """What Kafka says of the topics and logs of some ranges.

    `changed` are `(topic, topic_id)` that are not there any more, `problems` topics of which nothing can be said;
    `snapshot` has the partitions of the others, and `ends` where leader epochs in doubt ended.
    """

    changed: Mapping[tuple[str, str], IdentityError]
    problems: Mapping[str, KafkaLakeError]
    snapshot: Snapshot | None = None
    ends: EpochEnds = field(default_factory=dict)

    def to_observe(self, ranges: Sequence[RangeRecord]) -> list[str]:
        """Return the topics whose partitions must be observed."""
        streams = {item.stream for item in ranges}
        return sorted({i.topic for i in streams if i[:2] not in self.changed and i.topic not in self.problems})

    def in_doubt(self, ranges: Sequence[RangeRecord]) -> tuple[EpochKey, ...]:
        """Return the leader epochs whose end must be asked for."""
        seen = self._partitions()
        return epochs_in_doubt((seen[item.stream], item.leader_epoch) for item in ranges if item.stream in seen)

    def leader_epochs(self) -> dict[tuple[str, int], int]:
        """Return under which epoch each partition was led when it was observed, where that is known."""
        return leader_epochs(self.snapshot.partitions if self.snapshot else ())

    def losses(self, ranges: Sequence[RangeRecord]) -> Losses:
        """Compare topic ids, log starts, ends and leader epochs with what was planned."""
        failed: dict[str, KafkaLakeError] = {}
        unknown: dict[str, str] = {}
        seen, silent = self._partitions(), self.snapshot.unknown if self.snapshot else ()
        reasons = {(item.topic, item.partition): item.reason for item in silent}
        for item in ranges:
            if gone := self.changed.get(item.stream[:2]):
                failed[item.id] = gone_topic(item, gone)
            elif problem := self.problems.get(item.stream.topic):
                unknown[item.id] = problem.message
            elif item.stream not in seen:
                reason = reasons.get((item.stream.topic, item.stream.partition), "Kafka says nothing about it")
                unknown[item.id] = f"{item.stream} is not known: {reason}"
            else:
                try:
                    if found := loss(item, seen[item.stream], self.ends):
                        failed[item.id] = found
                except UnavailableError as error:
                    unknown[item.id] = error.message
        return Losses(failed=failed, unknown=unknown, seen=seen)

    def _partitions(self) -> dict[Stream, PartitionSnapshot]:
        return {item.stream: item for item in self.snapshot.partitions} if self.snapshot else {}
