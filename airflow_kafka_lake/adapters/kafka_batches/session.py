"""The protocol client of one reading: bounded repeats, moved leaders, topic identity."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from airflow_kafka_lake.adapters.kafka_python import (
    DescribeConfigsRequest,
    FetchRequest,
    KafkaNetClient,
    ListOffsetsRequest,
    MetadataRequest,
    errors,
    raise_for,
)
from airflow_kafka_lake.core.errors import ConnectionSettingsError, IdentityError, KafkaLakeError, UnavailableError
from airflow_kafka_lake.core.kafka.batches import AbortedTransaction
from airflow_kafka_lake.core.slices import Stream

T = TypeVar("T")

_EARLIEST = -2
_TOPIC_CONFIG = 2
_ANY_SIZE = 2**31 - 1
_LAST_FETCH_BY_NAME = 12
_MAX_WAIT_MS = 100
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
_GONE_AFTER = 6
_QUOTA_TIMEOUT = 10

LOGIN_REFUSED = (
    errors.SaslAuthenticationFailedError,
    errors.UnsupportedSaslMechanismError,
    errors.IllegalSaslStateError,
)
"""Errors that no repeat mends: the login, or its mechanism, is not accepted."""
_NO_ID = uuid.UUID(int=0)


class _ThrottledError(errors.RetriableError):
    """A quota of the broker delays the data by some seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__("a quota keeps the data back")
        self.seconds = seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A Fetch's answer for one partition; `last_stable` and `high_watermark` are exclusive ends."""

    records: bytes
    aborted: tuple[AbortedTransaction, ...]
    log_start: int
    last_stable: int
    high_watermark: int


class Session:
    """Requests about a fixed set of streams, whose topics must keep their ids.

    Every call repeats retriable errors for at most `timeout` seconds and then raises UnavailableError; waits for a
    quota come on top, up to ten times as long. Raises IdentityError when a topic has another id or no longer exists,
    ConnectionSettingsError when the broker refuses the login or the topic.
    """

    def __init__(
        self, client: KafkaNetClient, streams: Iterable[Stream], *, timeout: float, epochs: Mapping[Stream, int]
    ) -> None:
        self._client = client
        self._manager = client._manager  # noqa: SLF001  # as kafka-python's own clients do
        self._ids: dict[str, uuid.UUID] = {}
        for topic, topic_id, _ in streams:
            if self._ids.setdefault(topic, _uuid(topic_id)) != _uuid(topic_id):
                raise IdentityError(f"Topic {topic!r} was asked for under two ids; only one of them can exist.")
        self._timeout = timeout
        self._leaders: dict[tuple[str, int], int] = {}
        self._known = {(stream.topic, stream.partition): epoch for stream, epoch in epochs.items()}
        self._epochs: dict[tuple[str, int], int] = {}

    async def sleep(self, seconds: float) -> None:
        """Let the other tasks go on for some seconds."""
        await self._manager._net.sleep(seconds)  # noqa: SLF001  # the loop has no other door

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
        topic, _, partition = stream
        return self._leaders.get((topic, partition))

    async def fetch(self, stream: Stream, offset: int, *, isolation: int, max_bytes: int) -> Answer | None:
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
                    raise translated(error, self._timeout) from error
                until += error.seconds
                await self.sleep(error.seconds)
                continue
            except (errors.KafkaError, OSError) as error:
                unknown += isinstance(error, errors.UnknownTopicOrPartitionError | errors.UnknownTopicIdError)
                if unknown == _GONE_AFTER:
                    raise self._gone() from error
                if not _worth_repeating(error) or time.monotonic() >= until:
                    raise translated(error, self._timeout) from error
                if getattr(error, "invalid_metadata", False):
                    self._leaders.clear()
            await self.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _describe(self) -> None:
        wanted = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=_NO_ID) for name in self._ids]
        response = await self._send(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
        self._manager.cluster.update_metadata(response)
        for topic in response.topics:
            raise_for(topic.error_code)
            if (found := topic.topic_id or _NO_ID) != self._ids[topic.name]:
                raise IdentityError(
                    f"Topic {topic.name!r} has the id {_text(found)}, recorded is {_text(self._ids[topic.name])}: it "
                    "was deleted and created again. What was planned of the former one can no longer be explained.",
                    topic=topic.name,
                    topic_id=_text(self._ids[topic.name]),
                )
            for item in topic.partitions:
                self._learn((topic.name, item.partition_index), item)

    def _learn(self, place: tuple[str, int], said: Any) -> None:
        """Keep who leads a partition; a broker that has not heard of its newest leader is asked no further."""
        epoch = -1 if said.leader_epoch is None else said.leader_epoch
        if 0 <= epoch < self._known.get(place, 0):
            raise errors.LeaderNotAvailableError(
                f"a broker knows of leader epoch {epoch} of {place[0]}/{place[1]}, which was led under "
                f"{self._known[place]} before"
            )
        self._leaders[place], self._epochs[place] = said.leader_id, epoch

    async def _know_leader(self, stream: Stream) -> None:
        if self.leader(stream) is None:
            await self._describe()

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

    async def _fetch(self, stream: Stream, offset: int, isolation: int, max_bytes: int) -> Answer | None:
        topic, _, partition = stream
        await self._know_leader(stream)
        part = FetchRequest.FetchTopic.FetchPartition(
            partition=partition,
            fetch_offset=offset,
            partition_max_bytes=max_bytes,
            current_leader_epoch=self._epochs.get((topic, partition), -1),
        )
        response = await self._ask_leader(
            stream,
            FetchRequest(
                max_wait_ms=_MAX_WAIT_MS,
                min_bytes=1,
                max_bytes=_ANY_SIZE,
                isolation_level=isolation,
                # Older versions send the name, newer ones only the id; a broker without ids gets the name.
                topics=[FetchRequest.FetchTopic(topic=topic, topic_id=self._ids[topic], partitions=[part])],
                max_version=_LAST_FETCH_BY_NAME if self._ids[topic] == _NO_ID else None,
            ),
        )
        raise_for(response.error_code or 0)
        if not response.responses:
            raise _ThrottledError(max(response.throttle_time_ms / 1000, _FIRST_PAUSE_SECONDS))
        data = response.responses[0].partitions[0]
        if data.error_code == errors.OffsetOutOfRangeError.errno:
            return None
        raise_for(data.error_code)
        if not data.records and response.throttle_time_ms:
            raise _ThrottledError(max(response.throttle_time_ms / 1000, _FIRST_PAUSE_SECONDS))
        return Answer(
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
        await self._know_leader(stream)
        part = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
            partition_index=partition,
            timestamp=_EARLIEST,
            current_leader_epoch=self._epochs.get((topic, partition), -1),
        )
        asked = ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[part])
        response = await self._ask_leader(
            stream, ListOffsetsRequest(topics=[asked], replica_id=-1, isolation_level=0, min_version=1)
        )
        data = response.topics[0].partitions[0]
        raise_for(data.error_code)
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

    def _gone(self) -> IdentityError:
        return IdentityError(
            f"Kafka no longer knows {', '.join(sorted(self._ids))} with the recorded ids and partitions. Was a topic "
            "deleted? What was planned of it can no longer be explained."
        )


def translated(error: Exception, seconds: float) -> KafkaLakeError:
    """Return what a client error means for us; the text holds no setting."""
    if isinstance(error, (errors.AuthorizationError, *LOGIN_REFUSED)):
        return ConnectionSettingsError(
            f"Kafka refuses to let us read record batches ({type(error).__name__}). Give the connection's user the "
            "operations Read and Describe on the topic, or correct its login."
        )
    return UnavailableError(
        f"Kafka did not answer a read of record batches within {seconds:g} s ({error}). Check that the brokers run and "
        "are reachable at their advertised addresses, then repeat."
    )


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


def _text(topic_id: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
