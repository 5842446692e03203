"""The witness while its broker restarts, keeps data back, stands still, or does not want to be asked."""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
from collections.abc import Iterator

import psutil
import pytest
from confluent_kafka import KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_kafka_lake.adapters.kafka_batches import KafkaBatchReader, Session
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.core.accounting import Fate
from airflow_kafka_lake.core.errors import ConnectionSettingsError, UnavailableError
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.local.kafka import LocalKafka
from airflow_kafka_lake.local.processes import wait_until

TRANSACTIONS, RECORDS, SIZE = 30, 4, 40_000
END = TRANSACTIONS * (RECORDS + 1)
LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="x" user_admin="x" user_reader="right";'
)


@pytest.fixture(scope="module")
def broker(service: None) -> Iterator[LocalKafka]:
    """A broker of its own: quotas look at one second, a second listener asks for a password."""
    settings = {
        "quota.window.size.seconds": "1",
        "quota.window.num": "2",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": LOGIN,
    }
    with LocalKafka(settings=settings, listeners={"LOGIN": "SASL_PLAINTEXT"}) as started:
        yield started


@pytest.fixture(scope="module")
def gap(broker: LocalKafka) -> Slice:
    """Some megabytes of aborted transactions: nothing but gaps."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("aborted", 1, 1)])["aborted"].result(120)
    ids: list[str] = []

    def known() -> bool:
        try:
            ids.append(str(admin.describe_topics(TopicCollection(["aborted"]))["aborted"].result(120).topic_id))
        except KafkaException:
            return False
        return True

    wait_until(known, timeout=120, failed=AssertionError)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "a", "log_level": 0})
    producer.init_transactions(120)
    for _ in range(TRANSACTIONS):
        producer.begin_transaction()
        for _ in range(RECORDS):
            producer.produce("aborted", os.urandom(SIZE))
        assert producer.flush(120) == 0
        producer.abort_transaction(120)
    topic_id = ids[0].replace("+", "-").replace("/", "_").rstrip("=")
    return Slice(Stream("aborted", topic_id, 0), OffsetRange(0, END))


def at(bootstrap: str, **more: str) -> KafkaSettings:
    return KafkaSettings.parse({"bootstrap.servers": bootstrap, **more})


def assert_explained(reader: KafkaBatchReader, gap: Slice) -> None:
    """Everything is accounted for, and rightly."""
    said = reader.explain([gap], Isolation.READ_COMMITTED)[gap]
    markers = RangeSet.of(*((at, at + 1) for at in range(RECORDS, END, RECORDS + 1)))
    assert RangeSet(item.range for item in said if item.fate is Fate.CONTROL) == markers
    assert RangeSet(item.range for item in said if item.fate is Fate.ABORTED) == RangeSet.between(0, END) - markers


def test_restart_of_the_broker_is_waited_for(broker: LocalKafka, gap: Slice) -> None:
    """A crash in the middle of the reading only takes time."""
    reader = KafkaBatchReader(
        at(broker.bootstrap), timeout_seconds=30, bytes_per_second=TRANSACTIONS * RECORDS * SIZE / 3
    )
    failures: list[Exception] = []

    def read() -> None:
        try:
            assert_explained(reader, gap)
        except Exception as error:  # noqa: BLE001  # told to the test's own thread
            failures.append(error)

    reading = threading.Thread(target=read)
    reading.start()
    own = psutil.Process()
    port = int(broker.bootstrap.rsplit(":", 1)[1])
    wait_until(
        lambda: any(item.raddr and item.raddr.port == port for item in own.net_connections("tcp")),
        timeout=10,
        failed=AssertionError,
    )
    broker.kill()
    assert reading.is_alive()
    broker.start()
    reading.join(60)
    assert not reading.is_alive()
    assert failures == []


@pytest.mark.nightly
def test_quota_is_sat_out(broker: LocalKafka, gap: Slice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty answers of a throttled client are no evidence, and announced waits no failure."""
    broker.tool(
        "kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap, "--alter", "--add-config",
        "consumer_byte_rate=2500000", "--entity-type", "clients", "--entity-name", "throttled",
    )  # fmt: skip
    reader = KafkaBatchReader(at(broker.bootstrap, **{"client.id": "throttled"}), timeout_seconds=1)
    announced, sleep = list[float](), Session.sleep

    async def noted(session: Session, seconds: float) -> None:
        announced.append(seconds)
        await sleep(session, seconds)

    monkeypatch.setattr(Session, "sleep", noted)
    assert_explained(reader, gap)
    assert sum(announced) > 0, "the quota did nothing"


def test_broker_that_stands_still_is_unavailable(broker: LocalKafka, gap: Slice) -> None:
    """A connection that is open and silent ends the wait after the timeout."""
    reader = KafkaBatchReader(at(broker.bootstrap), timeout_seconds=1)
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        with pytest.raises(UnavailableError, match="did not answer"):
            reader.explain([gap], Isolation.READ_COMMITTED)
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def test_wrong_password_is_a_matter_of_settings(broker: LocalKafka, gap: Slice) -> None:
    """A refused login is told as one, at once, without the password; the right one is let in by topic rights."""
    login = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "reader"}
    wrong, right = (at(broker.address("LOGIN"), **login, **{"sasl.password": word}) for word in ("wrong-one", "right"))
    with pytest.raises(ConnectionSettingsError, match="the login is not accepted") as caught:
        KafkaBatchReader(wrong, timeout_seconds=20).explain([gap], Isolation.READ_COMMITTED)
    assert "wrong-one" not in str(caught.value)
    assert_explained(KafkaBatchReader(right, timeout_seconds=20), gap)


def test_nothing_stays_open_and_nothing_is_logged(
    broker: LocalKafka, gap: Slice, caplog: pytest.LogCaptureFixture
) -> None:
    """Connections end with the call, also when it fails; what the client library has to say stays with it."""
    own = psutil.Process()
    before = own.num_fds()
    with caplog.at_level(logging.DEBUG):
        assert_explained(KafkaBatchReader(at(broker.bootstrap), timeout_seconds=10), gap)
        with pytest.raises(UnavailableError):
            KafkaBatchReader(at("127.0.0.1:1"), timeout_seconds=0.5).explain([gap], Isolation.READ_COMMITTED)
    assert own.num_fds() <= before
    assert caplog.records == []
    gc.collect()
