"""The cluster: topics with ids, group offsets, and the ports that read them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from airflow_kafka_lake.core.accounting import Explanation
from airflow_kafka_lake.core.errors import (
    UNREADABLE_RECORD,
    IdentityError,
    JobFailedError,
    RangeBeyondEndError,
    RangeExpiredError,
    UnavailableError,
    UnknownPartitionError,
    UnknownTopicError,
)
from airflow_kafka_lake.core.kafka.losses import EpochEnds, EpochKey
from airflow_kafka_lake.core.kafka.snapshots import (
    GroupOffsetState,
    OpenTransaction,
    PartitionSnapshot,
    Sample,
    Snapshot,
    TopicDescription,
    UnknownPartition,
)
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spark.job import Tip, record_digest
from airflow_kafka_lake.core.spec import Isolation, topic_matcher
from airflow_kafka_lake.ports import NONE_KNOWN
from tests.kit.memory_kafka.log import OVERFLOWING, Entry, Headers, Log
from tests.kit.memory_kafka.sampling import weigh
from tests.kit.memory_kafka.transactions import open_transactions, pending_commits

_PENDING = GroupOffsetState.UNSTABLE


@dataclass(slots=True, kw_only=True)
class _Topic:
    """One generation of a topic."""

    id: str
    logs: list[Log]
    cleanup_policy: str
    retention_ms: int | None
    retention_bytes: int | None


class MemoryKafka:
    """`ports.OffsetSource`, `ports.BatchReader` and a record reader in one; deterministic when `now` is.

    `down` puts the whole cluster out of reach, `log(topic, partition)` gives a partition's log, to look at or to
    damage. Topics in `unlisted` are there and not in the cluster's list, as for a user who may not see them; about
    those in `doubtful` the brokers do not agree.
    """

    def __init__(
        self,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.down = False
        self.unlisted: set[str] = set()
        self.doubtful: set[str] = set()
        self.consumed: set[str] = set()
        self._now = now
        self._topics: dict[str, _Topic] = {}
        self._created = 0
        self._groups: dict[tuple[str, str, int], tuple[int | None, GroupOffsetState]] = {}

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        *,
        cleanup_policy: str = "delete",
        retention_ms: int | None = None,
        retention_bytes: int | None = None,
    ) -> str:
        """Create a topic, or create it anew; return its id, which no other generation ever gets."""
        self.delete_topic(topic)
        self._created += 1
        made = _Topic(
            id=base64.urlsafe_b64encode(self._created.to_bytes(16, "big")).decode().rstrip("="),
            logs=[Log() for _ in range(partitions)],
            cleanup_policy=cleanup_policy,
            retention_ms=retention_ms,
            retention_bytes=retention_bytes,
        )
        self._topics[topic] = made
        return made.id

    def delete_topic(self, topic: str) -> None:
        """Delete a topic with its group offsets, if it exists."""
        self._topics.pop(topic, None)
        self._groups = {key: value for key, value in self._groups.items() if key[1] != topic}

    def add_partitions(self, topic: str, total: int) -> None:
        """Let a topic grow to `total` partitions."""
        logs = self._known([topic])[topic].logs
        logs.extend(Log() for _ in range(total - len(logs)))

    def log(self, topic: str, partition: int) -> Log:
        """Return one partition's log."""
        logs = self._known([topic])[topic].logs
        if not 0 <= partition < len(logs):
            facts = {"topic": topic, "partition": partition}
            raise UnknownPartitionError(f"Topic {topic!r} has no partition {partition}. Check the request.", **facts)
        return logs[partition]

    def produce(
        self,
        topic: str,
        partition: int,
        *values: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        transaction: str | None = None,
        timestamp_ms: int | None = None,
    ) -> list[int]:
        """Append records, all with one key and the same headers; return their offsets. A transaction
        stays open until `end`."""
        log = self.log(topic, partition)
        at = self._milliseconds() if timestamp_ms is None else timestamp_ms
        entries = [Entry(key=key, value=value, headers=headers, timestamp_ms=at) for value in values]
        return [log.append(entry, transaction=transaction) for entry in entries]

    def end(self, transaction: str, *, commit: bool) -> None:
        """Commit or abort a transaction: a marker in every partition it wrote to."""
        for topic in self._topics.values():
            for log in topic.logs:
                log.end(transaction, commit=commit, timestamp_ms=self._milliseconds())

    def commit_group(
        self,
        group: str,
        topic: str,
        partition: int,
        offset: int | None,
        state: GroupOffsetState = GroupOffsetState.KNOWN,
    ) -> None:
        """Set what a group committed; None with state UNSTABLE, UNKNOWN or NONE."""
        self.log(topic, partition)
        self._groups[group, topic, partition] = (offset, state)

    def read(
        self, topic: str, partition: int, slice_: OffsetRange, isolation: Isolation, *, any_time: bool = False
    ) -> list[tuple[int, bytes | None, bytes | None, Headers, int]]:
        """Return `(offset, key, value, headers, timestamp in ms)` of the records that a reader of a slice sees.

        As under Spark's `failOnDataLoss`, a start below the log start or an end beyond the readable end is an error; a
        record that cannot be read fails the job, which does not name it; `any_time` reads those of any time.
        """
        log = self._reached(topic, partition)
        facts = {"topic": topic, "partition": partition, "start": slice_.start, "end": slice_.end}
        what = f"Offsets {slice_} of {topic!r}-{partition}"
        if slice_.start < log.log_start:
            raise RangeExpiredError(f"{what} begin below the log start {log.log_start}.", **facts)
        if slice_.end > log.readable_end(isolation):
            raise RangeBeyondEndError(f"{what} end above {log.readable_end(isolation)}.", **facts)
        problems = {log.unreadable(offset, isolation) for offset in range(slice_.start, slice_.end)}
        if problems - {"", *([OVERFLOWING] if any_time else [])}:
            raise JobFailedError("a record cannot be read", reason=UNREADABLE_RECORD)
        found = log.records(slice_, isolation)
        return [(offset, entry.key, entry.value, entry.headers, entry.timestamp_ms) for offset, entry in found]

    def topics(self, names: Sequence[str], pattern: str | None) -> tuple[str, ...]:
        """See `ports.OffsetSource`."""
        self._reach()
        found = set(self._known(names))
        if pattern is not None:
            matches = topic_matcher(pattern)
            found |= {name for name in self._topics if name not in self.unlisted and matches(name)}
        return tuple(sorted(found))

    def describe(self, topics: Sequence[str]) -> tuple[TopicDescription, ...]:
        """See `ports.OffsetSource`."""
        self._reach()
        return tuple(
            TopicDescription(
                topic=name,
                topic_id=topic.id,
                partitions=len(topic.logs),
                cleanup_policy=topic.cleanup_policy,
                retention_ms=topic.retention_ms,
                retention_bytes=topic.retention_bytes,
            )
            for name, topic in self._known(topics).items()
        )

    def snapshot(
        self, topics: Sequence[str], group: str | None, only: Collection[tuple[str, int]] | None = None
    ) -> Snapshot:
        """See `ports.OffsetSource`."""
        self._reach()
        known = self._known(topics)
        logs = [
            (name, topic.id, number, log)
            for name, topic in known.items()
            for number, log in enumerate(topic.logs)
            if only is None or (name, number) in only
        ]
        return Snapshot(
            observed_at=self._now(),
            partitions=tuple(self._observed(*item, group) for item in logs if not item[-1].unreachable),
            unknown=tuple(
                UnknownPartition(topic=name, topic_id=topic_id, partition=number, reason=log.unreachable)
                for name, topic_id, number, log in logs
                if log.unreachable
            ),
        )

    def offsets_at(
        self, partitions: Sequence[tuple[str, int]], timestamp_ms: int | Mapping[tuple[str, int], int]
    ) -> Mapping[tuple[str, int], int | None]:
        """See `ports.OffsetSource`."""
        times = dict.fromkeys(partitions, timestamp_ms) if isinstance(timestamp_ms, int) else timestamp_ms
        logs = {key: self._reached(*key) for key in partitions}
        return {key: log.first_at(times[key]) for key, log in logs.items()}

    def epoch_ends(self, epochs: Sequence[EpochKey], known: Mapping[tuple[str, int], int] = NONE_KNOWN) -> EpochEnds:
        """See `ports.OffsetSource`."""
        self._reach()
        logs = {key: self._there(*key[:2]) for key in epochs}
        return {
            key: log.epoch_end(key[2])
            for key, log in logs.items()
            if log and not log.unreachable and log.leader_epoch >= known.get(key[:2], 0)
        }

    def transactions(self, partitions: Sequence[tuple[str, int]], group: str | None) -> tuple[OpenTransaction, ...]:
        """See `ports.OffsetSource`; what a group's commits are pending in is called after the group."""
        self._reach()
        found = [item for key in partitions if (log := self._there(*key)) for item in open_transactions(log, *key)]
        if any(name == group and state is _PENDING for (name, _, _), (_, state) in self._groups.items()):
            found += open_transactions(pending_commits(group or "", self._milliseconds()), "__consumer_offsets", 0)
        return tuple(found)

    def commit(self, group: str, offsets: Mapping[Stream, int]) -> Mapping[Stream, str]:
        """See `GroupCommitter`; a group in `consumed` has members, and refuses."""
        self._reach()
        topics = self._known([key[0] for key in offsets])
        refused = {key: "another id" for key in offsets if topics[key[0]].id != key[1]}
        refused |= {key: "UNKNOWN_MEMBER_ID" for key in offsets if group in self.consumed and key not in refused}
        for (topic, topic_id, partition), offset in offsets.items():
            if (topic, topic_id, partition) not in refused:
                self.commit_group(group, topic, partition, offset)
        return refused

    def _there(self, topic: str, partition: int) -> Log | None:
        logs = self._topics[topic].logs if topic in self._topics else []
        return logs[partition] if partition < len(logs) else None

    def sample(self, slices: Sequence[Slice], isolation: Isolation) -> tuple[Sample, ...]:
        """See `ports.OffsetSource`; a partition that is gone has no record, as for librdkafka."""
        self._reach()
        there = ((self._there(item.stream.topic, item.stream.partition), item) for item in slices)
        weighed = (weigh(log, item, isolation) for log, item in there if log)
        return tuple(item for item in weighed if item)

    def explain(
        self,
        gaps: Sequence[Slice],
        isolation: Isolation,
        heartbeat: Callable[[int], None] = lambda _: None,
        *,
        epochs: Mapping[Stream, int] = NONE_KNOWN,
    ) -> Mapping[Slice, tuple[Explanation, ...]]:
        """See `ports.BatchReader`."""
        found: dict[Slice, tuple[Explanation, ...]] = {}
        for gap in gaps:
            topic, log = self._led(gap.stream, epochs)
            found[gap] = tuple(log.explained(gap.range, isolation, compacted="compact" in topic.cleanup_policy))
            heartbeat(gap.range.span)
        return found

    def held(
        self, places: Sequence[tuple[Stream, int]], *, epochs: Mapping[Stream, int] = NONE_KNOWN
    ) -> Mapping[tuple[Stream, int], Tip]:
        """See `ports.BatchReader`."""
        found: dict[tuple[Stream, int], Tip] = {}
        for stream, offset in places:
            _, log = self._led(stream, epochs)
            if offset >= log.log_start and (entry := log.entries.get(offset)):
                found[stream, offset] = Tip(
                    slice=Slice(stream, OffsetRange(offset, offset + 1)),
                    leader_epoch=log.epoch_of(offset),
                    digest=record_digest(entry.key, entry.value, entry.timestamp_ms),
                )
        return found

    def _led(self, stream: Stream, epochs: Mapping[Stream, int]) -> tuple[_Topic, Log]:
        """Return a stream's topic and log, if its leader knows of the newest epoch."""
        self._reach()
        topic = self._topics.get(stream.topic)
        if topic is None or topic.id != stream.topic_id:
            facts = {"topic": stream.topic, "expected": stream.topic_id, "found": topic and topic.id}
            raise IdentityError(f"Topic {stream.topic!r} is gone or was created anew since it was planned.", **facts)
        log = self._reached(stream.topic, stream.partition)
        if log.leader_epoch < epochs.get(stream, 0):
            raise UnavailableError(f"The broker that leads {stream} was deposed. Repeat.")
        return topic, log

    def _observed(self, topic: str, topic_id: str, partition: int, log: Log, group: str | None) -> PartitionSnapshot:
        nothing = (None, GroupOffsetState.NONE)
        offset, state = nothing if group is None else self._groups.get((group, topic, partition), nothing)
        return PartitionSnapshot(
            stream=Stream(topic, topic_id, partition),
            leader_epoch=log.leader_epoch,
            log_start=log.log_start,
            last_stable=log.last_stable,
            high_watermark=log.high_watermark,
            group_offset=offset,
            group_offset_state=state,
        )

    def _known(self, names: Sequence[str]) -> dict[str, _Topic]:
        if doubted := sorted(self.doubtful & set(names)):
            facts = {"topics": doubted}
            raise UnavailableError(f"The brokers do not agree about {', '.join(map(repr, doubted))}. Repeat.", **facts)
        missing = sorted(set(names) - self._topics.keys())
        if missing:
            listed = ", ".join(map(repr, missing))
            raise UnknownTopicError(f"Kafka has no topic {listed}. Check the pipeline's topics.", topics=missing)
        return {name: self._topics[name] for name in sorted(set(names))}

    def _reach(self) -> None:
        if self.down:
            raise UnavailableError("Kafka in memory is down. Repeat when it is up.")

    def _reached(self, topic: str, partition: int) -> Log:
        self._reach()
        log = self.log(topic, partition)
        if log.unreachable:
            facts = {"topic": topic, "partition": partition}
            raise UnavailableError(f"{topic!r}-{partition} is out of reach: {log.unreachable}. Repeat.", **facts)
        return log

    def _milliseconds(self) -> int:
        return int(self._now().timestamp() * 1000)
