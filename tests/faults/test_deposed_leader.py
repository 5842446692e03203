"""Three real brokers, one of which is cut off from its controller and does not know that it leads no more.

It still answers clients: an unclean election has given its partition to a broker with less, under a later epoch. Every
client that the product has may be sent to the old leader first, as by one address before all brokers.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.adapters.kafka_python import MetadataRequest, ask_brokers
from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.local.kafka import LocalKafka
from airflow_kafka_lake.local.processes import wait_until
from tests.brokers import Brokers
from tests.proxy import Proxy
from tests.sandbox import Ended, Sandbox

pytestmark = [pytest.mark.faults, pytest.mark.nightly]

OLD, NEW = 2, 3
SHARED, OF_THE_OLD, OF_THE_NEW = 20, 40, 20


class OneAddress(Proxy):
    """One address before all brokers: a new connection goes to the broker of its client's kind.

    A client names itself in its first request; what no entry of `of` names goes to the first broker. Of several
    brokers for one kind each takes one connection, and the last one all others.
    """

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self.of: dict[bytes, list[int]] = {}
        super().__init__(_target(brokers[1].bootstrap))

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            seen = client.recv(4096, socket.MSG_PEEK)
            brokers = next((brokers for kind, brokers in self.of.items() if kind in seen), [1])
            number = brokers.pop(0) if len(brokers) > 1 else brokers[0]
            self._chosen.target = _target(self._brokers[number].bootstrap)
            super()._serve(client)

    _chosen = threading.local()

    def _connect(self) -> socket.socket:
        server = socket.create_connection(self._chosen.target, timeout=10)
        server.settimeout(None)
        return server


class ToController(Proxy):
    """The network before a controller, from which one broker can be cut off."""

    def __init__(self, controller: str) -> None:
        self._away: int | None = None
        self._clients: dict[socket.socket, str] = {}
        super().__init__(_target(controller))

    def cut_off(self, broker: int) -> None:
        """Break the connections of a broker, and refuse new ones until `heal`."""
        self._away = broker
        for client, name in list(self._clients.items()):
            if self._is_away(name):
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)

    def heal(self) -> None:
        self._away = None
        super().heal()

    def _is_away(self, name: str) -> bool:
        return self._away is not None and str(self._away) in re.findall(r"[0-9]+", name)

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            seen = client.recv(4096, socket.MSG_PEEK)
            name = seen[14 : 14 + int.from_bytes(seen[12:14], "big")].decode()
            if self._is_away(name):
                client.close()
                return
            self._clients[client] = name
            try:
                super()._serve(client)
            finally:
                del self._clients[client]


SPARKS_OWN = json.dumps(
    {"conn_type": "spark", "host": "local[2]", "extra": {"conf": {"spark.kafka_lake.shared_consumer": "false"}}}
)
JAVA, LIBRDKAFKA, PYTHON = b"apache-kafka-java", b"librdkafka", b"kafka-python"


def _target(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


class Place(Sandbox):
    """A pipeline of one partition that brokers 2 and 3 keep, of which 2 leads."""

    def create_topic(self, topic: str, partitions: int, **config: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        settings = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true", **config}
        placed = NewTopic(topic, partitions, replica_assignment=[[OLD, NEW]] * partitions, config=settings)
        admin.create_topics([placed])[topic].result(60)

    def write(self, what: str, records: int, bootstrap: str) -> None:
        """Produce records whose values say who took them; all replicas that are there have them then."""
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
        for number in range(records):
            producer.produce(self.topic, value=f"{what} {number}".encode(), partition=0)
        assert producer.flush(60) == 0

    def end_at(self, broker: LocalKafka) -> int:
        """Return the end of what can be read at a broker that leads."""
        settings = {"bootstrap.servers": broker.bootstrap, "group.id": "ends", "log_level": 0}
        consumer = Consumer(settings)
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(self.topic, 0), timeout=30)[1])
        finally:
            consumer.close()

    def told_by(self, broker: int, cluster: Brokers) -> tuple[int, list[int]]:
        """Return who leads the partition, and who has all of it, as one broker says."""

        async def ask(manager: Any) -> tuple[int, list[int]]:
            named = [MetadataRequest.MetadataRequestTopic(name=self.topic)]
            request = MetadataRequest(topics=named, allow_auto_topic_creation=False)
            response = await manager.send(request, node_id=broker)
            found = response.topics[0].partitions[0]
            return found.leader_id, found.isr_nodes

        settings = KafkaSettings.parse({"bootstrap.servers": cluster[broker].bootstrap})
        return ask_brokers(settings, ask, "asking who leads", timeout=30, clock=SystemClock())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Brokers]:
    """All brokers speak to their controller through a network that can be cut."""
    brokers = Brokers(3, {"replica.lag.time.max.ms": "3000"})
    first = brokers[1]
    with ToController(first.address("CONTROLLER")) as link:
        # What the controller advertises is what brokers use.
        through = f"127.0.0.1:{link.port}"
        first.settings["advertised.listeners"] = f"PLAINTEXT://{first.bootstrap},CONTROLLER://{through}"
        for number in (OLD, NEW):
            brokers[number].settings["controller.quorum.voters"] = f"1@{through}"
        brokers.link = link  # type: ignore[attr-defined]
        with brokers:
            yield brokers


@pytest.fixture
def place(cluster: Brokers, spark_jars: list[Path], tmp_path: Path) -> Iterator[Place]:
    with OneAddress(cluster) as address:
        made = Place(tmp_path / "place", f"127.0.0.1:{address.port}", partitions=1)
        made.address = address  # type: ignore[attr-defined]
        with closing(made):
            assert made.command("db", "upgrade").code == 0
            yield made


@contextmanager
def deposed(cluster: Brokers, place: Place) -> Iterator[None]:
    """Let broker 2 lead on its own, and broker 3 lead under a later epoch from a lower offset."""
    link: ToController = cluster.link  # type: ignore[attr-defined]
    place.write("shared", SHARED, cluster[1].bootstrap)
    cluster[NEW].kill()
    wait_until(lambda: place.told_by(OLD, cluster) == (OLD, [OLD]), timeout=60, failed=AssertionError)
    place.write("old", OF_THE_OLD, cluster[OLD].bootstrap)
    link.cut_off(OLD)
    cluster[NEW].start()
    wait_until(lambda: place.told_by(1, cluster)[0] == NEW, timeout=60, failed=AssertionError)
    wait_until(lambda: place.told_by(NEW, cluster)[0] == NEW, timeout=60, failed=AssertionError)
    place.write("new", OF_THE_NEW, cluster[NEW].bootstrap)
    wait_until(lambda: place.end_at(cluster[NEW]) == SHARED + OF_THE_NEW, timeout=60, failed=AssertionError)
    assert place.told_by(OLD, cluster)[0] == OLD
    try:
        yield
    finally:
        link.heal()
        cluster.restore()


def values(place: Place) -> dict[str, int]:
    """Count the rows in the lake by who took them."""
    found: dict[str, int] = {}
    for _, _, value in place.rows():
        kind = value.decode().split()[0]
        found[kind] = found.get(kind, 0) + 1
    return found


def said(ended: Ended) -> Any:
    return ended.document if ended.out.startswith("{") else ended.err


def test_a_job_that_is_sent_to_a_deposed_leader_lands_what_the_present_one_has(cluster: Brokers, place: Place) -> None:
    """The plan and its checks ask the new leader, the job's consumer meets the old one first.

    Spark's own source believes the old one, and what it has read is refused; a consumer of ours looks further.
    """
    with deposed(cluster, place):
        address: OneAddress = place.address  # type: ignore[attr-defined]
        address.of = {JAVA: [OLD]}
        refused = place.run(env={"AIRFLOW_CONN_SPARK_DEFAULT": SPARKS_OWN})
        (problem,) = refused.document["problems"]
        assert (refused.code, problem["type"]) == (3, "UnavailableError"), problem
        assert "was read from a broker whose log is not that of the present leader" in str(problem), problem
        refused = place.run()
        (problem,) = refused.document["problems"]
        assert (refused.code, problem["reason"]) == (3, "deposed-leader"), problem["message"]
        address.of = {JAVA: [OLD, 1]}
        ended = place.run()
        assert ended.code == 0, said(ended)
        assert values(place) == {"shared": SHARED, "new": OF_THE_NEW}
        assert place.command("audit", place.name, "--json").code == 0
        address.of = {JAVA: [OLD]}
        compared = place.command("audit", place.name, "--deep", "--json")
        assert (compared.code, compared.document["error"]["reason"]) == (3, "deposed-leader"), said(compared)
        address.of = {JAVA: [OLD], LIBRDKAFKA: [OLD], PYTHON: [OLD]}
        place.run()
        assert values(place) == {"shared": SHARED, "new": OF_THE_NEW}
