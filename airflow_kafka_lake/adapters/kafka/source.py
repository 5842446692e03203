"""Offsets of a real cluster: read (`ports.OffsetSource`), sampled, committed to a group (`ports.GroupCommitter`)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, ListOffsetsResultInfo, OffsetSpec

from airflow_kafka_lake.adapters.kafka.client import (
    MISSING,
    NONE,
    Client,
    DescribedTopic,
    GroupOffset,
    Key,
    LogToPython,
    TopicIds,
    error_name,
    topic_id,
)
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import (
    KafkaLakeError,
    UnavailableError,
    UnknownPartitionError,
    UnknownTopicError,
    UnstableError,
)
from airflow_kafka_lake.core.kafka.batches import NO_TIMESTAMP
from airflow_kafka_lake.core.kafka.losses import EpochEnds, EpochKey
from airflow_kafka_lake.core.kafka.snapshots import (
    OpenTransaction,
    PartitionSnapshot,
    Sample,
    Snapshot,
    TopicDescription,
    UnknownPartition,
)
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream, dealt
from airflow_kafka_lake.core.spec import TOPIC_NAME, Isolation, topic_matcher
from airflow_kafka_lake.ports import NONE_KNOWN, Clock

# Read a few records at the start of some slices, to estimate the records' size and age.

SLICES = 16
SECONDS = 5.0
RECORDS = 100
BYTES = 1024 * 1024
_TOGETHER_SECONDS = 2.5


def sample(settings: KafkaSettings, slices: Sequence[Slice], isolation: Isolation) -> tuple[Sample, ...]:
    """Read at the start of at most `SLICES` slices, spread evenly over all, within `SECONDS` altogether; one without a
    record is left out. Nothing is committed to a group."""
    if not slices:
        return ()
    until = time.monotonic() + SECONDS
    readings = [SampleReading(slice_) for slice_ in slices[:: math.ceil(len(slices) / SLICES)]]
    consumer = Consumer(_settings(settings, isolation), logger=LogToPython())
    try:
        for together in _of_different_partitions(readings):
            _read(consumer, together, min(until, time.monotonic() + _TOGETHER_SECONDS))
    finally:
        consumer.close()
    return tuple(found for reading in readings if (found := reading.sample()))


class SampleReading:
    """The records of a slice that were read so far."""

    def __init__(self, slice_: Slice) -> None:
        self.slice = slice_
        self.place = slice_.stream.place
        self._records = self._bytes = 0
        self._seen_to = slice_.range.start
        self._first: int | None = None
        self._last: int | None = None
        self._earliest: int | None = None

    def is_over_with(self, message: Message) -> bool:
        """Take a record, the partition's end or its error; return whether it ends the reading."""
        end = self.slice.range.end
        if error := message.error():
            if error.name() == "_PARTITION_EOF" and message.offset() >= end:
                self._seen_to = end
            return True
        if message.offset() < self.slice.range.start:
            return False
        if message.offset() >= end:
            self._seen_to = end
            return True
        kind, milliseconds = message.timestamp()
        self._last = None if kind == TIMESTAMP_NOT_AVAILABLE or milliseconds == NO_TIMESTAMP else milliseconds
        if not self._records:
            self._first = self._last
        self._earliest = min((at for at in (self._earliest, self._last) if at is not None), default=None)
        self._records += 1
        self._bytes += len(message.key() or b"") + len(message.value() or b"")
        self._bytes += sum(len(name) + len(value or b"") for name, value in message.headers() or [])
        self._seen_to = message.offset() + 1
        return self._records >= RECORDS or self._bytes >= BYTES or self._seen_to == end

    def sample(self) -> Sample | None:
        """Return the weight of the records; None without any."""
        if not self._records:
            return None
        span = self._seen_to - self.slice.range.start
        return Sample(
            stream=self.slice.stream,
            bytes_per_offset=self._bytes / span,
            first_timestamp_ms=self._first,
            last_timestamp_ms=self._last,
            earliest_timestamp_ms=self._earliest,
            read=OffsetRange(self.slice.range.start, self._seen_to),
        )


def _settings(settings: KafkaSettings, isolation: Isolation) -> dict[str, object]:
    return settings.librdkafka(
        **{
            # librdkafka wants a group name even where none is joined; without commits it leaves no trace.
            "group.id": "kafka-lake-sample",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "allow.auto.create.topics": False,
            "enable.partition.eof": True,
            "isolation.level": isolation.value,
            "max.partition.fetch.bytes": BYTES // 4,
            "queued.max.messages.kbytes": 2 * BYTES // 1024,
            "fetch.queue.backoff.ms": 10,  # librdkafka waits a second for room in a full queue, unless told
            "fetch.wait.max.ms": 10,
            "log.connection.close": False,
        }
    )


def _of_different_partitions(readings: Sequence[SampleReading]) -> Iterable[list[SampleReading]]:
    """Return readings that one assignment can serve: a consumer is at one place of a partition."""
    return dealt((reading.place, reading) for reading in readings)


def _read(consumer: Consumer, readings: Sequence[SampleReading], until: float) -> None:
    """Read slices of different partitions side by side. One after another, each new topic would cost about a second
    until librdkafka has its metadata."""
    waiting = {reading.place: reading for reading in readings}
    places = [TopicPartition(*place, reading.slice.range.start) for place, reading in waiting.items()]
    consumer.assign(places)
    consumer.resume(places)  # a partition that an earlier assignment paused stays paused
    while waiting and (left := until - time.monotonic()) > 0:
        message = consumer.poll(left)
        if message is None:
            continue
        place = (message.topic(), message.partition())
        reading = waiting.get(place)
        if reading and reading.is_over_with(message):
            del waiting[place]
            consumer.pause([TopicPartition(*place)])


_PASSES = 3
_CONFIRM_SECONDS = 1.0


class KafkaOffsetSource:
    """Reads the offsets of a cluster with a few admin calls per broker, and connects on first use. kafka-python, which
    takes a tenth of a second to import, is imported where it is asked: a run's driver starts before. Raises
    UnavailableError within about `timeout_seconds` per call, ConnectionSettingsError for a refused login."""

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        clock: Clock,
        timeout_seconds: float = 15.0,
        connect: Callable[..., AdminClient] = AdminClient,
        committed: Callable[..., dict[Key, GroupOffset]] | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._committed = committed
        self.client = Client(settings, timeout=timeout_seconds, clock=clock, connect=connect)
        self._heard: dict[Key, int] = {}
        """The newest leader epochs that some broker had heard of when the topic was described last."""

    def check(self) -> str:
        """Return in one sentence which cluster answers both clients that Python uses, and of which version."""
        from airflow_kafka_lake.adapters.kafka_python import ask_brokers

        call = self.client.admin.describe_cluster(request_timeout=self.client.timeout)
        found = self.client.answer(call, "describing the cluster", "Describe", "cluster", "kafka-cluster")

        async def version(manager: Any) -> str:
            return ".".join(map(str, manager.broker_version[:2]))

        doing = "asking which requests it takes"
        speaks = ask_brokers(self._settings, version, doing, timeout=self.client.timeout, clock=self._clock)
        return (
            f"Kafka cluster {found.cluster_id} with {count(len(found.nodes), 'broker')} answers over "
            f"{self._settings.protocol}; it speaks Kafka {speaks}."
        )

    def topics(self, names: Sequence[str], pattern: str | None) -> tuple[str, ...]:
        """See `ports.OffsetSource`; PipelineFileError for a pattern that is no regular expression."""
        found = set(self._described(names))
        if pattern is not None:
            matches = topic_matcher(pattern)
            found |= {name for name in self.client.topic_names() if matches(name)}
        return tuple(sorted(found))

    def describe(self, topics: Sequence[str]) -> tuple[TopicDescription, ...]:
        """See `ports.OffsetSource`; an id is that of every broker that answers, so that one of them may be behind."""
        found = self._described(topics)
        if not found:
            return ()
        ids = self._agreed(found)
        asked = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in found]
        doing = "reading the topics' settings"
        calls = self.client.asked(partial(self.client.admin.describe_configs, asked), doing)
        by_name = {resource.name: call for resource, call in calls.items()}
        settings = self.client.about_topics(by_name, doing, "DescribeConfigs")
        return tuple(
            TopicDescription(
                topic=name,
                topic_id=ids[name],
                partitions=len(topic.partitions),
                cleanup_policy=settings[name]["cleanup.policy"].value,
                retention_ms=_limit(settings[name]["retention.ms"].value),
                retention_bytes=_limit(settings[name]["retention.bytes"].value),
            )
            for name, topic in found.items()
        )

    def snapshot(self, topics: Sequence[str], group: str | None, only: Collection[Key] | None = None) -> Snapshot:
        """See `ports.OffsetSource`; UnstableError when the topics changed during every one of a few passes."""
        for left in reversed(range(_PASSES)):
            observed_at = self._clock.now()
            before = self._described(topics)
            keys = _keys(before, only)
            committed = self._group_offsets(group, keys)
            bounds, unknown = self._bounds(before, committed)
            after = self._described(topics)
            if any(
                (was.id, was.partitions) != (after[name].id, after[name].partitions) for name, was in before.items()
            ):
                continue
            # Deletion or truncation came between the calls: once more; at the last try such partitions are unknown.
            untrue = {key: reason for key, item in bounds.items() if (reason := _contradiction(item))}
            if left and untrue:
                continue
            return Snapshot(
                observed_at=observed_at,
                partitions=tuple(item for key, item in sorted(bounds.items()) if key not in untrue),
                unknown=tuple(
                    UnknownPartition(topic=topic, partition=partition, reason=reason, topic_id=before[topic].id)
                    for (topic, partition), reason in sorted({**unknown, **untrue}.items())
                ),
            )
        raise UnstableError(
            f"The topics {', '.join(sorted(set(topics)))} were created anew or got partitions while they were being "
            f"observed, {_PASSES} times in a row. Repeat when they are not being changed.",
            topics=sorted(set(topics)),
        )

    def offsets_at(self, partitions: Sequence[Key], timestamp_ms: int | Mapping[Key, int]) -> Mapping[Key, int | None]:
        """See `ports.OffsetSource`; UnavailableError names a partition that did not answer."""
        times = dict.fromkeys(partitions, timestamp_ms) if isinstance(timestamp_ms, int) else timestamp_ms
        # A negative time would be read as one of Kafka's symbols for earliest and latest.
        asked = {key: OffsetSpec.for_timestamp(max(0, times[key])) for key in partitions}
        found, errors = self.client.offsets(asked, IsolationLevel.READ_UNCOMMITTED)
        if errors:
            raise self._no_offset(errors)
        # Kafka answers -1 where no record is that late.
        return {key: answer.offset if answer.offset >= 0 else None for key, answer in found.items()}

    def _no_offset(self, errors: Mapping[Key, KafkaError]) -> KafkaLakeError:
        """Return the error for partitions without an offset: the first is missing or out of reach."""
        (topic, partition), error = next(iter(sorted(errors.items(), key=lambda item: item[0])))
        facts = {"topic": topic, "partition": partition}
        absent = error.name() in MISSING | {"_NOENT"}
        if absent and partition not in self._described([topic])[topic].partitions:
            return UnknownPartitionError(f"Topic {topic!r} has no partition {partition}. Check the request.", **facts)
        return UnavailableError(
            f"Kafka at {self._settings.bootstrap} did not say which offset partition {partition} of topic {topic!r} "
            f"has at a time: {error.str()}. Check that the partition has a leader, then repeat.",
            **facts,
        )

    def epoch_ends(self, epochs: Sequence[EpochKey], known: Mapping[Key, int] = NONE_KNOWN) -> EpochEnds:
        if not epochs:
            return {}
        from airflow_kafka_lake.adapters.kafka import cluster

        return cluster.epoch_ends(self._settings, epochs, known, timeout=self.client.timeout, clock=self._clock)

    def transactions(self, partitions: Sequence[Key], group: str | None) -> tuple[OpenTransaction, ...]:
        from airflow_kafka_lake.adapters.kafka import cluster

        return cluster.open_transactions(self._settings, partitions, group, timeout=self.client.timeout)

    def sample(self, slices: Sequence[Slice], isolation: Isolation) -> tuple[Sample, ...]:
        """See `ports.OffsetSource`; reads at most 16 slices in about 5 s, spread evenly over those given."""
        return sample(self._settings, slices, isolation)

    def _described(self, topics: Sequence[str]) -> dict[str, DescribedTopic]:
        names = sorted(set(topics))
        if not names:
            return {}
        for _ in range(_PASSES):
            asked = partial(self.client.admin.describe_topics, TopicCollection(names))
            calls = self.client.asked(asked, "describing topics")
            missing = [name for name in names if error_name(calls[name].exception()) in MISSING]
            if not missing:
                break
            self._refuse_missing(missing)
        else:
            raise self._undecided({name: f"topic {name!r} comes and goes" for name in missing})
        answers = self.client.about_topics(calls, "describing topics", "Describe")
        return {
            name: DescribedTopic(
                id=topic_id(name, answer.topic_id),
                partitions=frozenset(item.id for item in answer.partitions),
                led=frozenset(item.id for item in answer.partitions if item.leader and item.leader.id >= 0),
            )
            for name, answer in answers.items()
        }

    def _refuse_missing(self, topics: Sequence[str]) -> None:
        """Raise UnknownTopicError for the topics that no broker knows, asked once more after a pause."""
        self._clock.sleep(_CONFIRM_SECONDS)
        legal = [name for name in topics if TOPIC_NAME.fullmatch(name)]
        answered = self._topic_ids(legal)
        if doubts := answered.doubts(legal):
            raise self._undecided(doubts)
        if missing := [name for name in topics if name not in legal or answered.ids[name] == {None}]:
            listed = ", ".join(map(repr, missing))
            raise UnknownTopicError(
                f"Kafka at {self._settings.bootstrap} has no topic {listed}. Check the pipeline's topics and the "
                f"connection {self._settings.connection!r}.",
                topics=missing,
                connection=self._settings.connection,
            )

    def _agreed(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the ids of existing topics; when brokers differ they are asked again, a bounded number of times."""
        for left in reversed(range(_PASSES)):
            answered = self._topic_ids(topics)
            doubts = answered.doubts(topics) | {
                name: f"topic {name!r} was deleted while it was described"
                for name, found in answered.ids.items()
                if found == {None}
            }
            if not doubts:
                break
            if not left:
                raise self._undecided(doubts)
            self._clock.sleep(_CONFIRM_SECONDS)
        self._heard |= answered.epochs
        return {name: topic_id for name, found in answered.ids.items() for topic_id in found if topic_id is not None}

    def _topic_ids(self, topics: Iterable[str]) -> TopicIds:
        from airflow_kafka_lake.adapters.kafka import cluster

        return cluster.every_broker(self._settings, topics, timeout=self.client.timeout, clock=self._clock)

    def _undecided(self, doubts: Mapping[str, str]) -> UnavailableError:
        return UnavailableError(
            f"Kafka at {self._settings.bootstrap}: {next(iter(doubts.values()))}. A broker may be behind, or the topic "
            "is being created or deleted. Nothing was decided; repeat.",
            topics=sorted(doubts),
        )

    def _bounds(
        self, topics: Mapping[str, DescribedTopic], committed: Mapping[Key, GroupOffset]
    ) -> tuple[dict[Key, PartitionSnapshot], dict[Key, str]]:
        """Read last stable, then high watermark, then log start; a partition that fails once is not asked again."""
        keys: list[Key] = []
        unknown: dict[Key, str] = {}
        for name, partition in committed:
            if partition in topics[name].led:
                keys.append((name, partition))
            else:
                unknown[name, partition] = "it has no leader now"
        steps: list[Mapping[Key, ListOffsetsResultInfo]] = []
        for spec, level in (
            (OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
            (OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED),
            (OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED),
        ):
            found, errors = self.client.offsets(dict.fromkeys(keys, spec), level)
            unknown |= {key: error.str() for key, error in errors.items()}
            keys = [key for key in keys if key in found]
            steps.append(found)
        bounds = {
            key: PartitionSnapshot(
                stream=Stream(key[0], topics[key[0]].id, key[1]),
                leader_epoch=_lower(steps[0][key].leader_epoch, steps[1][key].leader_epoch),
                log_start=steps[2][key].offset,
                last_stable=steps[0][key].offset,
                high_watermark=steps[1][key].offset,
                group_offset=committed[key][0],
                group_offset_state=committed[key][1],
            )
            for key in keys
        }
        for key, item in bounds.items():
            if item.leader_epoch is not None and item.leader_epoch < (newest := self._heard.get(key, 0)):
                unknown[key] = (
                    f"the broker that answers leads it under epoch {item.leader_epoch}, and another broker knows of "
                    f"epoch {newest}: the first is cut off from its controller"
                )
        return {key: item for key, item in bounds.items() if key not in unknown}, unknown

    def _group_offsets(self, group: str | None, keys: Sequence[Key]) -> dict[Key, GroupOffset]:
        if group is None or not keys:
            return dict.fromkeys(keys, NONE)
        from airflow_kafka_lake.adapters.kafka import cluster

        committed = self._committed or cluster.committed
        return committed(self._settings, group, keys, timeout=self.client.timeout, clock=self._clock)


def _keys(topics: Mapping[str, DescribedTopic], only: Collection[Key] | None) -> list[Key]:
    if only is not None:
        return sorted((name, partition) for name, partition in only if partition in topics[name].partitions)
    return [(name, partition) for name, topic in topics.items() for partition in topic.partitions]


def _contradiction(item: PartitionSnapshot) -> str:
    """Say why bounds cannot be true together (deletion or truncation came between), nothing when they can."""
    if 0 <= item.log_start <= item.last_stable <= item.high_watermark:
        return ""
    return (
        f"its bounds contradict each other: log start {item.log_start}, last stable {item.last_stable}, "
        f"high watermark {item.high_watermark}"
    )


def _lower(first: int | None, second: int | None) -> int | None:
    """Return the epoch of the first end: a later comparison must see a truncation between the two."""
    known = [epoch for epoch in (first, second) if epoch is not None and epoch >= 0]
    return min(known, default=None)


def _limit(text: str) -> int | None:
    return int(text) if int(text) >= 0 else None


_COORDINATING = frozenset({"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"})
"""Errors while the group's coordinator moves, or is made for the cluster's first group."""

_COORDINATOR_PAUSES = (0.2, 0.5, 1.0, 2.0)


class KafkaGroupCommitter:
    """Commits offsets to a group without consumers; connects on first use."""

    def __init__(
        self, settings: KafkaSettings, *, clock: Clock, connect: Callable[..., AdminClient] = AdminClient
    ) -> None:
        self._clock = clock
        self._source = KafkaOffsetSource(settings, clock=clock, connect=connect)

    def commit(self, group: str, offsets: Mapping[Stream, int]) -> Mapping[Stream, str]:
        ids = {item.topic: item.topic_id for item in self._source.describe(sorted({key.topic for key in offsets}))}
        # Brokers commit by name alone: a topic that was created anew would get the old one's offsets.
        refused = {
            key: f"the topic has another id now, {ids[key.topic]}" for key in offsets if ids[key.topic] != key.topic_id
        }
        wanted = {key.place: key for key in offsets if key not in refused}
        if not wanted:
            return refused
        for pause in (*_COORDINATOR_PAUSES, None):
            answers = self._commit(group, {place: offsets[key] for place, key in wanted.items()})
            if pause is None or not any(name in _COORDINATING for name, _ in answers.values()):
                break
            self._clock.sleep(pause)
        return refused | {wanted[place]: why for place, (_, why) in answers.items()}

    def _commit(self, group: str, positions: Mapping[Key, int]) -> dict[Key, tuple[str, str]]:
        """Commit once; return the error name and the message of each refusal. Repeating it changes nothing."""
        asked = [TopicPartition(*place, offset) for place, offset in positions.items()]
        client, doing = self._source.client, "committing to a group"
        ask = partial(client.admin.alter_consumer_group_offsets, [ConsumerGroupTopicPartitions(group, asked)])
        try:
            (future,) = client.asked(ask, doing).values()
            answer = client.answer(future, doing, "Read", "group", group)
        except KafkaLakeError as error:
            return dict.fromkeys(positions, ("", error.message))
        # A group with consumers is refused per partition, without an exception.
        errors = {(item.topic, item.partition): item.error for item in answer.topic_partitions}
        refused = {place: ("", "the broker said nothing of it") for place in positions if place not in errors}
        return refused | {
            place: (error.name(), f"the broker refused it: {error.str()} ({error.name()})")
            for place, error in errors.items()
            if error is not None
        }
