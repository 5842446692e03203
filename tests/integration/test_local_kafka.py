"""The local broker is a real one, keeps its data over restarts, and leaves nothing behind."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_kafka_lake.local.kafka import LocalKafka
from airflow_kafka_lake.local.processes import LocalServerError

pytestmark = pytest.mark.nightly

QUIET = {"log_level": 0}


@pytest.fixture(scope="module")
def broker(service: None) -> Iterator[LocalKafka]:
    """A broker of this module's own, because these tests stop it."""
    with LocalKafka(settings={"message.max.bytes": "2000000"}) as started:
        yield started


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(120)


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
    producer.produce(topic, value)
    assert producer.flush(120) == 0


def read(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, **QUIET})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = [message.value() for message in consumer.consume(count, timeout=30)]
    consumer.close()
    return values


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_data_and_address_survive_a_restart(broker: LocalKafka, end: str) -> None:
    """After an orderly stop and after a crash the same records are at the same address."""
    create(broker.bootstrap, end)
    produce(broker.bootstrap, end, b"before")
    address = broker.bootstrap
    getattr(broker, end)()
    assert broker.pid == 0
    broker.start()
    produce(address, end, b"after")
    assert read(address, end, 2) == [b"before", b"after"]


def test_tools_run_on_the_broker_s_files(broker: LocalKafka) -> None:
    """DumpLogSegments, from the same jars, reads what was produced."""
    create(broker.bootstrap, "dumped")
    produce(broker.bootstrap, "dumped", b"x")
    segment = broker.log_dir / "dumped-0" / "00000000000000000000.log"
    assert "baseOffset: 0 lastOffset: 0" in broker.tool("kafka.tools.DumpLogSegments", "--files", str(segment))
    with pytest.raises(LocalServerError, match="DumpLogSegments ended with 1"):
        broker.tool("kafka.tools.DumpLogSegments", "--no-such-option")


def test_close_leaves_no_process_port_or_file(service: None) -> None:
    """After the block the process is gone, the port is free and the folder removed; closing again is harmless."""
    with LocalKafka() as kafka:
        process, folder, port = psutil.Process(kafka.pid), kafka.data_dir, int(kafka.bootstrap.split(":")[1])
        addresses = {connection.laddr.ip for connection in process.net_connections("tcp")}
    assert {address.removeprefix("::ffff:") for address in addresses} == {"127.0.0.1"}
    assert not process.is_running()
    assert not folder.exists()
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
    kafka.close()


def test_data_folder_of_the_caller_is_kept(service: None, tmp_path: Path) -> None:
    """A folder that the caller named is the caller's: another broker goes on from it."""
    with LocalKafka(data_dir=tmp_path / "kept") as first:
        create(first.bootstrap, "kept")
        produce(first.bootstrap, "kept", b"x")
    with LocalKafka(data_dir=tmp_path / "kept") as second:
        assert read(second.bootstrap, "kept", 1) == [b"x"]


def test_broker_that_cannot_start_shows_its_log(service: None) -> None:
    """A wrong setting ends in one error that carries the end of the broker's log."""
    with (
        pytest.raises(LocalServerError, match=r"num\.network\.threads"),
        LocalKafka(settings={"num.network.threads": "x"}),
    ):
        pass


def test_sasl_listener_asks_for_the_password(service: None) -> None:
    """An added listener authenticates; the plaintext one stays as it is."""
    users = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
    settings = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.protected.plain.sasl.jaas.config": users,
    }
    with LocalKafka(settings=settings, listeners={"PROTECTED": "SASL_PLAINTEXT"}) as kafka:
        login = {
            "bootstrap.servers": kafka.address("PROTECTED"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "secret",
            **QUIET,
        }
        assert AdminClient(login).list_topics(timeout=20).brokers
