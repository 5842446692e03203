"""A cluster that speaks Kafka's protocol on real sockets and answers as a test tells it: logs are lists of batches."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from airflow_kafka_lake.adapters.kafka_batches import end_of, opened
from airflow_kafka_lake.core.kafka.batches import AbortedTransaction

UNKNOWN_TOPIC, NOT_LEADER, LATE, OUT_OF_RANGE, NOT_ALLOWED, UNKNOWN_ID = 3, 6, 7, 1, 29, 100
HANG_UP = object()
"""What a script returns so that the broker ends the connection instead of answering."""

Script = Callable[[Any], Any]


@dataclass
class Log:
    """A partition: its batches, who leads it, and where it begins and ends."""

    batches: list[bytearray]
    aborted: tuple[AbortedTransaction, ...] = ()
    leader: int = 1
    log_start: int = 0
    last_stable: int = 10**6
    high_watermark: int = 10**6


@dataclass
class Topic:
    """A topic: its id, its partitions by number, and its `cleanup.policy`."""

    logs: dict[int, Log]
    id: uuid.UUID = field(default_factory=uuid.uuid4)
    policy: str = "delete"


class ScriptedKafka:
    """Some brokers of one cluster; `scripts` may answer a request by its name, None leaves it to the broker.

    `heard` are the requests and `open` counts connections; `fetch_version` is the newest Fetch that the brokers know.
    """

    def __init__(self, topics: dict[str, Topic], *, brokers: int = 1, fetch_version: int = 13) -> None:
        from kafka.protocol.admin.configs import DescribeConfigsRequest, DescribeConfigsResponse
        from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
        from kafka.protocol.metadata import (
            ApiVersionsRequest,
            ApiVersionsResponse,
            MetadataRequest,
            MetadataResponse,
        )
        from kafka.protocol.sasl import SaslHandshakeRequest, SaslHandshakeResponse

        self.topics = topics
        self.heard: list[tuple[int, Any]] = []
        self.scripts: dict[str, Script] = {}
        self.open = 0
        self._known = {
            kind.API_KEY: (kind, answer, newest, handler)
            for kind, answer, newest, handler in (
                (ApiVersionsRequest, ApiVersionsResponse, 4, self._versions),
                (MetadataRequest, MetadataResponse, 12 if fetch_version > 12 else 9, self._metadata),
                (FetchRequest, FetchResponse, fetch_version, self._fetch),
                (ListOffsetsRequest, ListOffsetsResponse, 7, self._list_offsets),
                (DescribeConfigsRequest, DescribeConfigsResponse, 4, self._configs),
                (SaslHandshakeRequest, SaslHandshakeResponse, 1, self._mechanisms),
            )
        }
        self._listeners = {node: socket.create_server(("127.0.0.1", 0)) for node in range(1, brokers + 1)}
        self._closing = threading.Event()
        self._clients: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._turn = threading.Lock()

    @property
    def bootstrap(self) -> str:
        """The address of the first broker."""
        return f"127.0.0.1:{self._listeners[1].getsockname()[1]}"

    def requests(self, name: str) -> list[Any]:
        """Return what was asked under a name, such as Fetch, in order."""
        return [request for _, request in self.heard if request.name == f"{name}Request"]

    def __enter__(self) -> Self:
        for node, listener in self._listeners.items():
            self._start(self._listen, node, listener)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closing.set()
        for some in (*self._listeners.values(), *self._clients):
            with contextlib.suppress(OSError):
                some.shutdown(socket.SHUT_RDWR)
            some.close()
        for thread in self._threads:
            thread.join()

    def _start(self, work: Callable[..., None], *given: Any) -> None:
        thread = threading.Thread(target=work, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _listen(self, node: int, listener: socket.socket) -> None:
        while not self._closing.is_set():
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with self._turn:
                self._clients.append(client)
                self.open += 1
            self._start(self._serve, node, client)

    def _serve(self, node: int, client: socket.socket) -> None:
        try:
            with client, client.makefile("rb") as stream:
                while len(head := stream.read(4)) == 4:
                    answer = self._answer(node, stream.read(struct.unpack(">i", head)[0]))
                    if answer is None:
                        return
                    client.sendall(answer)
        except OSError:
            pass
        finally:
            with self._turn:
                self.open -= 1

    def _answer(self, node: int, data: bytes) -> bytes | None:
        key, version = struct.unpack_from(">hh", data)
        kind, answer, newest, handler = self._known[key]
        request = kind.decode(data, version=version, header=True)
        assert version <= newest, f"{kind.__name__} {version} is not known here"
        with self._turn:
            self.heard.append((node, request))
            script = self.scripts.get(request.name.removesuffix("Request"))
            said = script(request) if script else None
            if said is HANG_UP:
                return None
            response = handler(node, request) if said is None else answer(version=version, **said)
        response.with_header(correlation_id=request.header.correlation_id)
        return bytes(response.encode(header=True, framed=True))

    def _made(self, request: Any, **values: Any) -> Any:
        return self._known[request.API_KEY][1](version=request.header.request_api_version, **values)

    def _versions(self, node: int, request: Any) -> Any:
        from kafka.protocol.metadata import ApiVersionsResponse

        keys = [
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=0, max_version=newest)
            for key, (_, _, newest, _) in self._known.items()
        ]
        return self._made(request, error_code=0, api_keys=keys)

    def _mechanisms(self, node: int, request: Any) -> Any:
        return self._made(request, error_code=34, mechanisms=[])  # there is nothing to log in to

    def _metadata(self, node: int, request: Any) -> Any:
        from kafka.protocol.metadata import MetadataResponse

        kind = MetadataResponse.MetadataResponseTopic
        topics = []
        for asked in request.topics or []:
            topic = self.topics.get(asked.name)
            partitions = [
                kind.MetadataResponsePartition(
                    error_code=0, partition_index=number, leader_id=log.leader, replica_nodes=[1], isr_nodes=[1]
                )
                for number, log in (topic.logs if topic else {}).items()
            ]
            code = 0 if topic else UNKNOWN_TOPIC
            known = topic.id if topic else uuid.UUID(int=0)
            topics.append(kind(error_code=code, name=asked.name, topic_id=known, partitions=partitions))
        brokers = [
            MetadataResponse.MetadataResponseBroker(node_id=number, host="127.0.0.1", port=listener.getsockname()[1])
            for number, listener in self._listeners.items()
        ]
        return self._made(request, brokers=brokers, controller_id=1, cluster_id="scripted", topics=topics)

    def _asked(self, asked: Any, version: int) -> Topic | None:
        if version <= 12:
            return self.topics.get(asked.topic)
        return next((topic for topic in self.topics.values() if topic.id == asked.topic_id), None)

    def _fetch(self, node: int, request: Any) -> Any:
        from kafka.protocol.consumer import FetchResponse

        kind = FetchResponse.FetchableTopicResponse
        version = request.header.request_api_version
        answers = []
        for asked in request.topics:
            topic = self._asked(asked, version)
            pieces = [self._read(kind.PartitionData, node, topic, piece, request) for piece in asked.partitions]
            answers.append(kind(topic=asked.topic, topic_id=asked.topic_id, partitions=pieces))
        return self._made(request, throttle_time_ms=0, error_code=0, session_id=0, responses=answers)

    def _read(self, kind: Any, node: int, topic: Topic | None, asked: Any, request: Any) -> Any:
        log = topic.logs.get(asked.partition) if topic else None
        if log is None:
            by_id = request.header.request_api_version > 12
            return kind(partition_index=asked.partition, error_code=UNKNOWN_ID if by_id else UNKNOWN_TOPIC)
        code = NOT_LEADER if log.leader != node else 0
        if not code and not log.log_start <= asked.fetch_offset <= log.high_watermark:
            code = OUT_OF_RANGE
        data = bytearray()
        for batch in log.batches if not code else ():
            (header,) = opened(bytes(batch))
            if request.isolation_level == 1 and header.base_offset >= log.last_stable:
                break
            whole = end_of(header) > asked.fetch_offset
            if whole and (not data or len(data) + len(batch) <= asked.partition_max_bytes):
                data += batch
        aborted = kind.AbortedTransaction
        return kind(
            partition_index=asked.partition,
            error_code=code,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable,
            log_start_offset=log.log_start,
            aborted_transactions=[
                aborted(producer_id=it.producer_id, first_offset=it.first_offset) for it in log.aborted
            ]
            if request.isolation_level == 1
            else None,
            records=bytes(data),
        )

    def _list_offsets(self, node: int, request: Any) -> Any:
        from kafka.protocol.consumer import ListOffsetsResponse

        kind = ListOffsetsResponse.ListOffsetsTopicResponse
        answers = []
        for asked in request.topics:
            pieces = []
            for piece in asked.partitions:
                log = self.topics[asked.name].logs[piece.partition_index]
                at = {-2: log.log_start, -1: log.last_stable if request.isolation_level else log.high_watermark}
                made = kind.ListOffsetsPartitionResponse
                pieces.append(made(partition_index=piece.partition_index, error_code=0, offset=at[piece.timestamp]))
            answers.append(kind(name=asked.name, partitions=pieces))
        return self._made(request, topics=answers)

    def _configs(self, node: int, request: Any) -> Any:
        from kafka.protocol.admin.configs import DescribeConfigsResponse

        kind = DescribeConfigsResponse.DescribeConfigsResult
        results = []
        for asked in request.resources:
            assert asked.resource_type == 2, "a topic's"
            known = {"cleanup.policy": self.topics[asked.resource_name].policy, "compression.type": "compact"}
            configs = [
                kind.DescribeConfigsResourceResult(name=name, value=value)
                for name, value in known.items()
                if name in (asked.configuration_keys or known)
            ]
            results.append(kind(error_code=0, resource_type=2, resource_name=asked.resource_name, configs=configs))
        return self._made(request, results=results)
