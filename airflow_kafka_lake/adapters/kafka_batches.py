"""`ports.BatchReader`: the gaps of a partition, explained from Kafka's raw record batches."""

from __future__ import annotations

import base64
import time
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.adapters.kafka_python import (
    FAILED,
    NO_ID,
    DescribeConfigsRequest,
    FetchRequest,
    KafkaClient,
    LegacyRecordBatch,
    ListOffsetsRequest,
    MemoryRecords,
    MetadataRequest,
    arguments,
    errors,
    failure,
    raise_for,
    text_of,
    try_login,
)
from airflow_kafka_lake.core.accounting import Explanation, Fate
from airflow_kafka_lake.core.errors import IdentityError, UnavailableError
from airflow_kafka_lake.core.kafka.batches import (
    AbortedTransaction,
    Batch,
    Control,
    Pieces,
    divided,
    explain,
    is_beyond_spark,
    joined,
    lost,
    unexplained,
)
from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet, Slice, Stream, grouped
from airflow_kafka_lake.core.spark.job import Tip, record_digest
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.ports import NONE_KNOWN

# The protocol client of one reading: bounded repeats, moved leaders, topic identity.

T = TypeVar("T")

_EARLIEST = -2
_TOPIC_CONFIG = 2
_ANY_SIZE = 2**31 - 1
_LAST_FETCH_BY_NAME = 12
_MAX_WAIT_MS = 100
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
_GONE_AFTER = 6
_QUOTA_TIMEOUT = 10


class _ThrottledError(errors.RetriableError):
    """A quota of the broker delays the data by some seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__("a quota keeps the data back")
        self.seconds = seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer:
    """A Fetch's answer for one partition; `last_stable` and `high_watermark` are exclusive ends."""

    records: bytes
    aborted: tuple[AbortedTransaction, ...]
    log_start: int
    last_stable: int
    high_watermark: int


class Session:
    """Requests about a fixed set of streams, whose topics must keep their ids. Every call repeats retriable errors
    for at most `timeout` seconds and then raises them; waits for a quota come on top, up to ten times as long. Raises
    IdentityError when a topic has another id or no longer exists.
    """

    def __init__(
        self, client: KafkaClient, streams: Iterable[Stream], *, timeout: float, epochs: Mapping[Stream, int]
    ) -> None:
        self._client = client
        self._manager = client.manager
        self._ids: dict[str, uuid.UUID] = {}
        for topic, topic_id, _ in streams:
            if self._ids.setdefault(topic, _uuid(topic_id)) != _uuid(topic_id):
                raise IdentityError(f"Topic {topic!r} was asked for under two ids; only one of them can exist.")
        self._timeout = timeout
        self._leaders: dict[tuple[str, int], int] = {}
        self._known = {stream.place: epoch for stream, epoch in epochs.items()}
        self._epochs: dict[tuple[str, int], int] = {}

    async def sleep(self, seconds: float) -> None:
        """Let the other tasks go on for some seconds."""
        await self._client.loop.sleep(seconds)

    async def side_by_side(self, conversations: Iterable[Callable[[], Awaitable[None]]]) -> None:
        """Run several tasks concurrently; when one fails the others still come to their end."""
        running = [self._manager.call_soon(conversation) for conversation in conversations]
        failures = []
        for future in running:
            try:
                await future
            except Exception as error:  # noqa: BLE001  # raised below
                failures.append(error)
        if failures:
            raise failures[0]

    async def check_identity(self) -> None:
        """Compare every topic's id with the recorded one, and learn the partitions' leaders."""
        await self._patiently(self._describe)

    def leader(self, stream: Stream) -> int | None:
        """Return the broker that leads a partition, by the newest metadata."""
        return self._leaders.get(stream.place)

    async def fetch(self, stream: Stream, offset: int, *, isolation: int, max_bytes: int) -> FetchAnswer | None:
        """Read batches from the one that owns `offset`, or the first after it; None when the offset is out of range.

        However small `max_bytes` is, one whole batch comes back if there is one below the end that the isolation
        allows (0: high watermark, 1: last stable). An empty answer that a quota explains is asked again.
        """
        return await self._patiently(lambda: self._fetch(stream, offset, isolation, max_bytes))

    async def first_offset(self, stream: Stream) -> int:
        """Ask for the first offset that can be read."""
        return await self._patiently(lambda: self._first_offset(stream))

    async def compacted(self) -> Mapping[str, bool | None]:
        """Return by topic whether Kafka compacts it; None: we may not read its settings."""
        return await self._patiently(self._compacted)

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        until, pause, unknown = time.monotonic() + self._timeout, _FIRST_PAUSE_SECONDS, 0
        for_quotas = _QUOTA_TIMEOUT * self._timeout
        while True:
            try:
                return await ask()
            except _ThrottledError as error:
                for_quotas -= error.seconds
                if for_quotas < 0:
                    raise
                until += error.seconds
                await self.sleep(error.seconds)
                continue
            except (errors.KafkaError, OSError) as error:
                unknown += isinstance(error, errors.UnknownTopicOrPartitionError | errors.UnknownTopicIdError)
                # A broker that has just started knows no topic yet: one such answer is no proof.
                if unknown == _GONE_AFTER:
                    raise IdentityError(
                        f"Kafka no longer knows {', '.join(sorted(self._ids))} with the recorded ids and partitions. "
                        "Was a topic deleted? What was planned of it can no longer be explained."
                    ) from error
                if not _worth_repeating(error) or time.monotonic() >= until:
                    raise
                if getattr(error, "invalid_metadata", False):
                    # The leader has moved: the next try asks for it.
                    self._leaders.clear()
            await self.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _describe(self) -> None:
        wanted = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=NO_ID) for name in self._ids]
        response = await self._send(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
        self._manager.cluster.update_metadata(response)
        for topic in response.topics:
            raise_for(topic.error_code, "Describe", "topic", topic.name)
            if (found := topic.topic_id or NO_ID) != self._ids[topic.name]:
                raise IdentityError(
                    f"Topic {topic.name!r} has the id {text_of(found)}, recorded is {text_of(self._ids[topic.name])}: "
                    "it was deleted and created again. What was planned of the former one can no longer be explained.",
                    topic=topic.name,
                    topic_id=text_of(self._ids[topic.name]),
                )
            for item in topic.partitions:
                self._learn((topic.name, item.partition_index), item)

    def _learn(self, place: tuple[str, int], said: Any) -> None:
        """Keep the leader of a partition; a broker that has not heard of its newest leader is asked no further."""
        epoch = -1 if said.leader_epoch is None else said.leader_epoch
        if 0 <= epoch < self._known.get(place, 0):
            raise errors.LeaderNotAvailableError(
                f"a broker knows of leader epoch {epoch} of {place[0]}/{place[1]}, which was led under "
                f"{self._known[place]} before"
            )
        self._leaders[place], self._epochs[place] = said.leader_id, epoch

    async def _epoch(self, stream: Stream) -> int:
        """Return the epoch under which a partition is led, asking first for a leader that is not known."""
        if self.leader(stream) is None:
            await self._describe()
        return self._epochs.get(stream.place, -1)

    async def _ask_leader(self, stream: Stream, request: Any) -> Any:
        leader = self.leader(stream)
        if leader is None:
            raise errors.UnknownTopicOrPartitionError
        if leader < 0:
            raise errors.LeaderNotAvailableError
        return await self._send(request, leader)

    async def _send(self, request: Any, broker: int | None = None) -> Any:
        brokers = [item.node_id for item in self._manager.cluster.brokers()] if broker is None else [broker]
        if (throttled_ms := min(map(self._client.throttle_delay, brokers), default=0)) > 0:
            raise _ThrottledError(throttled_ms / 1000)
        return await self._manager.send(request, node_id=broker)

    async def _fetch(self, stream: Stream, offset: int, isolation: int, max_bytes: int) -> FetchAnswer | None:
        topic, _, partition = stream
        part = FetchRequest.FetchTopic.FetchPartition(
            partition=partition,
            fetch_offset=offset,
            partition_max_bytes=max_bytes,
            current_leader_epoch=await self._epoch(stream),
        )
        response = await self._ask_leader(
            stream,
            FetchRequest(
                max_wait_ms=_MAX_WAIT_MS,
                min_bytes=1,
                # The partition's own limit decides, and a batch that is larger comes whole.
                max_bytes=_ANY_SIZE,
                isolation_level=isolation,
                # Older versions send the name, newer ones only the id; a broker without ids gets the name.
                topics=[FetchRequest.FetchTopic(topic=topic, topic_id=self._ids[topic], partitions=[part])],
                max_version=_LAST_FETCH_BY_NAME if self._ids[topic] == NO_ID else None,
            ),
        )
        raise_for(response.error_code or 0)
        # A broker over its quota answers at once, with nothing.
        if not response.responses:
            raise _ThrottledError(max(response.throttle_time_ms / 1000, _FIRST_PAUSE_SECONDS))
        data = response.responses[0].partitions[0]
        if data.error_code == errors.OffsetOutOfRangeError.errno:
            return None
        raise_for(data.error_code, "Read", "topic", topic)
        if not data.records and response.throttle_time_ms:
            raise _ThrottledError(max(response.throttle_time_ms / 1000, _FIRST_PAUSE_SECONDS))
        return FetchAnswer(
            records=data.records or b"",
            aborted=tuple(
                AbortedTransaction(producer_id=item.producer_id, first_offset=item.first_offset)
                for item in data.aborted_transactions or ()
            ),
            log_start=data.log_start_offset,
            last_stable=data.last_stable_offset,
            high_watermark=data.high_watermark,
        )

    async def _first_offset(self, stream: Stream) -> int:
        topic, _, partition = stream
        part = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
            partition_index=partition,
            timestamp=_EARLIEST,
            current_leader_epoch=await self._epoch(stream),
        )
        asked = ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[part])
        response = await self._ask_leader(
            stream, ListOffsetsRequest(topics=[asked], replica_id=-1, isolation_level=0, min_version=1)
        )
        data = response.topics[0].partitions[0]
        raise_for(data.error_code, "Describe", "topic", topic)
        return int(data.offset)

    async def _compacted(self) -> Mapping[str, bool | None]:
        asked = [
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=_TOPIC_CONFIG, resource_name=topic, configuration_keys=["cleanup.policy"]
            )
            for topic in self._ids
        ]
        response = await self._send(DescribeConfigsRequest(resources=asked))
        found: dict[str, bool | None] = dict.fromkeys(self._ids)
        for result in response.results:
            if result.error_code != errors.TopicAuthorizationFailedError.errno:
                raise_for(result.error_code)
                found[result.resource_name] = any("compact" in (config.value or "") for config in result.configs)
        return found


def _worth_repeating(error: Exception) -> bool:
    return bool(getattr(error, "retriable", True)) or isinstance(error, errors.UnknownBrokerIdError)


def _uuid(topic_id: str) -> uuid.UUID:
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(topic_id + "=="))
    except ValueError as error:
        raise IdentityError(
            f"{topic_id!r} is not a Kafka topic id (22 characters of URL-safe base64), so no topic can have it.",
            topic_id=topic_id,
        ) from error


# Read the record batches of a Fetch answer; no key or value of a record is kept.

_LAST_CODEC = 4


def opened(data: bytes) -> list[Any]:
    """Split an answer into its batches, bodies unread; a last one that was cut off is left out."""
    with _readable():
        return list(MemoryRecords(data))


def end_of(batch: Any) -> int:
    """Return the offset behind the last one that a batch owns."""
    # A compressed message of the formats before transactions carries the offset of the last message inside it.
    return (batch.base_offset if isinstance(batch, LegacyRecordBatch) else batch.last_offset) + 1


def facts(batches: Sequence[Any], wanted: RangeSet) -> tuple[Batch, ...]:
    """Return the facts of opened batches, in order; a batch can be read once.

    Of batches that own no wanted offset only the header is read: all their offsets are given as present. A wanted batch
    whose body cannot be read has the reason as `damage`. Raises UnavailableError for bytes that are no batch.
    """
    ranges, at = wanted.ranges, 0
    found = []
    with _readable():
        for batch in batches:
            if isinstance(batch, LegacyRecordBatch):
                present, last = _offsets(list(batch)), batch.base_offset
                found.append(Batch(base_offset=present.ranges[0].start, last_offset=last, present=present))
                continue
            while at < len(ranges) and ranges[at].end <= batch.base_offset:
                at += 1
            found.append(_facts(batch, wanted=at < len(ranges) and ranges[at].start <= batch.last_offset))
    return tuple(found)


def record_at(data: bytes, stream: Stream, offset: int) -> Tip | None:
    """Return the record that an answer has at an offset, if there is one that can be read."""
    for batch in opened(data):
        if isinstance(batch, LegacyRecordBatch) or not batch.base_offset <= offset <= batch.last_offset:
            continue
        with _readable():
            record = next((item for item in batch if item.offset == offset), None)
        if record is None:
            return None
        return Tip(
            slice=Slice(stream, OffsetRange(offset, offset + 1)),
            leader_epoch=batch.leader_epoch,
            digest=record_digest(record.key, record.value, record.timestamp),
        )
    return None


def _facts(batch: Any, *, wanted: bool) -> Batch:
    owned = OffsetRange(batch.base_offset, batch.last_offset + 1)
    # Without compaction every offset of a batch has a record, and the header says how many there are. It has the latest
    # time and the first record's: an earlier one behind that is found by trials.
    overflowing = is_beyond_spark(batch.max_timestamp) or is_beyond_spark(batch.first_timestamp)
    decoded, damage = None, _damage(batch) if wanted else ""
    if not damage and (batch.is_control_batch or (wanted and (batch.records_count < owned.span or overflowing))):
        try:
            decoded = list(batch)
        except errors.UnsupportedCodecError:
            raise
        except Exception as error:  # noqa: BLE001  # the codecs' errors have no common root
            damage = f"its records cannot be decoded ({type(error).__name__})"
    return Batch(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        present=RangeSet((owned,)) if decoded is None else _offsets(decoded),
        producer_id=batch.producer_id if batch.has_producer_id() else None,
        is_transactional=batch.is_transactional,
        control=_control(decoded or []) if batch.is_control_batch else None,
        damage=damage,
        overflowing=_offsets([item for item in decoded or [] if is_beyond_spark(item.timestamp)])
        if overflowing
        else NOTHING,
        latest_ms=batch.max_timestamp,
    )


def _damage(batch: Any) -> str:
    """Return why nothing of a batch can be read; empty for a body with a right checksum and a known codec."""
    if not batch.validate_crc():
        return "wrong checksum"
    if batch.compression_type > _LAST_CODEC:
        return f"unknown codec {batch.compression_type}"
    return ""


def _control(records: list[Any]) -> Control:
    match records:
        case [marker] if marker.commit:
            return Control.COMMIT
        case [marker] if marker.abort:
            return Control.ABORT
        case _:
            return Control.OTHER


def _offsets(records: list[Any]) -> RangeSet:
    return RangeSet(OffsetRange(record.offset, record.offset + 1) for record in records)


@contextmanager
def _readable() -> Iterator[None]:
    """Raise UnavailableError for damaged bytes."""
    try:
        yield
    except Exception as error:  # the codecs' errors have no common root
        raise UnavailableError(
            f"A record batch that Kafka returned cannot be read ({error!r}). If it happens again, look at the "
            "partition's files on its leader with kafka-dump-log."
        ) from error


# Scan the gaps of one partition: isolated ones with small reads, dense ones as one stream.

_ONE_BATCH = 1
_FIRST_STREAM_BYTES, _LARGEST_STREAM_BYTES = 64 * 1024, 4 * 1024 * 1024
_WORTH_A_PROBE_BYTES = 256 * 1024
"""Reading this much takes about as long as asking once more."""

_SIGN_OF_LIFE_SECONDS = 10.0
_FIRST_GUESS_BYTES = 1024.0
_BELIEVE_SILENCE_AFTER = 3


class Throughput:
    """Keeps all scans of a reader below a number of bytes per second; None: no bound. `now` returns seconds."""

    def __init__(self, bytes_per_second: float | None, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = bytes_per_second
        self._now = now
        self._paid_until = 0.0

    @property
    def largest_read(self) -> int:
        """The most bytes of one request: those of one second, so that the broker's load is even."""
        return _LARGEST_STREAM_BYTES if self._rate is None else min(max(1, int(self._rate)), _LARGEST_STREAM_BYTES)

    def pause_after(self, size: int) -> float:
        """Return how many seconds to wait after `size` bytes were read."""
        if self._rate is None:
            return 0.0
        now = self._now()
        self._paid_until = max(now, self._paid_until) + size / self._rate
        return self._paid_until - now


class GapScan:
    """Explains the asked offsets of one stream, in offset order.

    Each Fetch answer is explained by itself: at isolation 1 it lists every aborted transaction that overlaps it, even
    if it began earlier or its marker lies behind.
    """

    def __init__(
        self,
        session: Session,
        stream: Stream,
        asked: RangeSet,
        *,
        isolation: Isolation,
        throughput: Throughput,
        heartbeat: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._session = session
        self.stream = stream
        self._left = Pieces(asked)
        self._level = 1 if isolation is Isolation.READ_COMMITTED else 0
        self._throughput = throughput
        self._heartbeat = heartbeat
        self._bytes_per_offset = _FIRST_GUESS_BYTES
        self._told = 0
        self.found: list[Explanation] = []

    async def run(self) -> None:
        """Explain exactly the asked offsets: `found` is then sorted and disjoint."""
        size, empty_answers = _ONE_BATCH, 0
        while (start := self._left.next) is not None:
            answer = await self._session.fetch(self.stream, start, isolation=self._level, max_bytes=size)
            self._beat()
            if answer is None:
                await self._out_of_range(start)
                continue
            if (reached := self._take(answer)) > start:
                size, empty_answers = self._next_size(size, reached), 0
                await self._rest(self._throughput.pause_after(len(answer.records)))
                continue
            empty_answers += 1
            await self._empty_answer(start, answer, believe=empty_answers == _BELIEVE_SILENCE_AFTER)
        self._beat()
        self.found = list(joined(self.found))

    def _beat(self) -> None:
        """Tell that the scan goes on, and how many offsets it has explained since."""
        explained = sum(item.range.span for item in self.found[self._told :])
        self._told = len(self.found)
        self._heartbeat(explained)

    async def _rest(self, seconds: float) -> None:
        """Wait, with a sign of life now and then: one batch may be worth more than a lease."""
        while seconds > 0:
            await self._session.sleep(min(seconds, _SIGN_OF_LIFE_SECONDS))
            self._beat()
            seconds -= _SIGN_OF_LIFE_SECONDS

    def _take(self, answer: FetchAnswer) -> int:
        """Explain the offsets before the end of the answer's last batch; return that end, 0 for an empty answer."""
        batches = opened(answer.records)
        if not batches:
            return 0
        reached = end_of(batches[-1])
        wanted = RangeSet(self._left.upto(reached))
        read = facts(batches, wanted)
        self.found += explain(wanted, read, answer.aborted, log_start=answer.log_start)
        if any(batch.control is None for batch in read):
            self._bytes_per_offset = len(answer.records) / (reached - batches[0].base_offset)
        return reached

    def _next_size(self, size: int, reached: int) -> int:
        ahead = self._left.next
        if ahead is None or (ahead - reached) * self._bytes_per_offset > _WORTH_A_PROBE_BYTES:
            return _ONE_BATCH
        return min(max(4 * size, _FIRST_STREAM_BYTES), self._throughput.largest_read)

    async def _empty_answer(self, start: int, answer: FetchAnswer, *, believe: bool) -> None:
        """Look behind an empty answer: at isolation 1 nothing is left up to an open transaction, which bounds it."""
        behind = None
        if self._level == 1 and start < answer.last_stable:
            behind = await self._session.fetch(self.stream, start, isolation=0, max_bytes=_ONE_BATCH)
        if behind and (batches := opened(behind.records)) and batches[0].base_offset > start:
            end = batches[0].base_offset
            self.found += explain(RangeSet(self._left.upto(end)), (), (), log_start=behind.log_start, end_known=end)
        elif believe:
            end = answer.last_stable if self._level == 1 else answer.high_watermark
            self._give_up(f"Kafka returned nothing from offset {start} on, with its readable end at {end}")

    async def _out_of_range(self, start: int) -> None:
        log_start = await self._session.first_offset(self.stream)
        if start < log_start:
            self.found += unexplained(RangeSet(self._left.upto(log_start)), f"below the log start {log_start}")
        else:
            self._give_up(f"offset {start} lies beyond the end of the log")

    def _give_up(self, seen: str) -> None:
        self.found += unexplained(RangeSet(self._left.upto()), seen)


_RECONNECT_AFTER_MS = 1000


class KafkaBatchReader:
    """Explains offsets without a row from Kafka's raw record batches (`ports.BatchReader`).

    `timeout_seconds` bounds every single wait for Kafka, not the whole reading; `bytes_per_second` bounds the reading.
    Connections live only as long as a call.
    """

    def __init__(
        self, settings: KafkaSettings, *, timeout_seconds: float = 30.0, bytes_per_second: float | None = None
    ) -> None:
        self._settings = settings
        self._timeout = timeout_seconds
        self._bytes_per_second = bytes_per_second

    def explain(
        self,
        gaps: Sequence[Slice],
        isolation: Isolation,
        heartbeat: Callable[[int], None] = lambda _: None,
        *,
        epochs: Mapping[Stream, int] = NONE_KNOWN,
    ) -> Mapping[Slice, tuple[Explanation, ...]]:
        """Return the explanations of each gap: each offset has exactly one fate, UNEXPLAINED where Kafka has none.

        Under read_uncommitted aborted records have rows, so a missing one is UNEXPLAINED. Raises IdentityError when a
        topic's id is not the gap's, UnavailableError when the brokers cannot be read, ConnectionSettingsError when
        they refuse us.
        """
        if not gaps:
            return {}
        by_stream = grouped((gap.stream, gap) for gap in gaps)
        with self._connected() as client:
            session = Session(client, by_stream, timeout=self._timeout, epochs=epochs)
            found = client.manager.run(self._read, session, by_stream, isolation, heartbeat)
        explained: dict[Slice, tuple[Explanation, ...]] = {}
        for stream, its_gaps in by_stream.items():
            parts = divided(found[stream], [gap.range for gap in its_gaps])
            explained |= {gap: parts[gap.range] for gap in its_gaps}
        return explained

    def held(
        self, places: Sequence[tuple[Stream, int]], *, epochs: Mapping[Stream, int] = NONE_KNOWN
    ) -> Mapping[tuple[Stream, int], Tip]:
        """Return the records at some offsets (`ports.BatchReader.held`), a batch for each; raises as `explain`."""
        if not places:
            return {}
        with self._connected() as client:
            session = Session(client, [stream for stream, _ in places], timeout=self._timeout, epochs=epochs)
            found: Mapping[tuple[Stream, int], Tip] = client.manager.run(self._look_up, session, places)
        return found

    async def _look_up(
        self, session: Session, places: Sequence[tuple[Stream, int]]
    ) -> Mapping[tuple[Stream, int], Tip]:
        await session.check_identity()
        by_leader = grouped((session.leader(place[0]), place) for place in places)
        found: dict[tuple[Stream, int], Tip] = {}

        async def look_up(some: Sequence[tuple[Stream, int]]) -> None:
            for stream, offset in some:
                answer = await session.fetch(stream, offset, isolation=0, max_bytes=1)
                if answer is not None and (tip := record_at(answer.records, stream, offset)):
                    found[stream, offset] = tip

        await session.side_by_side([partial(look_up, some) for some in by_leader.values()])
        await session.check_identity()
        return found

    async def _read(
        self,
        session: Session,
        by_stream: Mapping[Stream, Sequence[Slice]],
        isolation: Isolation,
        heartbeat: Callable[[int], None],
    ) -> Mapping[Stream, Sequence[Explanation]]:
        """Read all streams, one after the other on each leader, the leaders side by side."""
        await session.check_identity()
        throughput = Throughput(self._bytes_per_second)
        by_leader: dict[int | None, list[GapScan]] = defaultdict(list)
        for stream, its_gaps in by_stream.items():
            asked = RangeSet(gap.range for gap in its_gaps)
            scan = GapScan(session, stream, asked, isolation=isolation, throughput=throughput, heartbeat=heartbeat)
            by_leader[session.leader(stream)].append(scan)
        await session.side_by_side([partial(_in_turn, scans) for scans in by_leader.values()])
        await _doubt_holes(session, [scan for scans in by_leader.values() for scan in scans])
        # Once more after the reading: older brokers are asked by name, and the topic of a name may change meanwhile.
        await session.check_identity()
        return {scan.stream: scan.found for scans in by_leader.values() for scan in scans}

    @contextmanager
    def _connected(self) -> Iterator[KafkaClient]:
        timeout_ms = int(self._timeout * 1000)
        own = {"request_timeout_ms": timeout_ms, "receive_message_max_bytes": _ANY_SIZE, "slow_task_threshold_secs": 0}
        client = KafkaClient(**{"reconnect_backoff_max_ms": _RECONNECT_AFTER_MS, **arguments(self._settings), **own})
        try:
            client.manager.run(try_login, client.manager, timeout_ms // 2)
            client.manager.bootstrap(timeout_ms)
            yield client
        except FAILED as error:
            raise failure(self._settings, error, "reading record batches") from error
        finally:
            client.close()


async def _in_turn(scans: Sequence[GapScan]) -> None:
    for scan in scans:
        await scan.run()


_NO_CLEANER = {False: "and the topic is not compacted", None: "and we may not read whether it is (DescribeConfigs)"}


async def _doubt_holes(session: Session, scans: Sequence[GapScan]) -> None:
    """Believe in the cleaner only where there is one: elsewhere an offset without a record is a loss."""
    doubtful = [scan for scan in scans if any(item.fate is Fate.COMPACTED for item in scan.found)]
    if not doubtful:
        return
    compacted = await session.compacted()
    for scan in doubtful:
        if doubt := _NO_CLEANER.get(compacted[scan.stream[0]]):
            scan.found = [*lost(scan.found, doubt)]
