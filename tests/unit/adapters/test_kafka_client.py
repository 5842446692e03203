"""What librdkafka's admin client says, as ours: refused or out of reach, and leaders that move while they are asked."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition, Uuid
from confluent_kafka.admin import OffsetSpec

from airflow_kafka_lake.adapters.kafka import client as module
from airflow_kafka_lake.adapters.kafka import cluster
from airflow_kafka_lake.adapters.kafka.client import NONE, Client, DescribedTopic, TopicIds
from airflow_kafka_lake.adapters.kafka.source import KafkaOffsetSource
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.core.errors import ConnectionSettingsError, UnavailableError, UnknownTopicError
from tests.kit.clock import FakeClock

pytestmark = pytest.mark.unit

KEY = ("orders", 0)
LATEST = OffsetSpec.latest()


class Admin:
    """A cluster as librdkafka shows it: `hears` are errors of its threads, one per poll; offsets are told as scripted,
    and no leader is looked up anew but by `list_topics`."""

    def __init__(self, *, hears: Iterable[int] = (), leader_moves: int = 0) -> None:
        self.hears, self.stale = iter(hears), leader_moves
        self.polls = itertools.count(1)
        self.error_cb: Callable[[KafkaError], None] = lambda _: None

    def connect(self, settings: Mapping[str, Any], **_: object) -> Any:
        self.error_cb = settings["error_cb"]
        return self

    def poll(self, _: float) -> None:
        for code in itertools.islice(self.hears, 1):
            self.error_cb(KafkaError(code))
        assert next(self.polls) < 50, "still waiting for an answer"

    def list_topics(self, **_: object) -> Any:
        self.stale = 0
        return SimpleNamespace(topics={})

    def list_offsets(
        self, asked: Mapping[TopicPartition, OffsetSpec], **_: object
    ) -> dict[TopicPartition, Future[Any]]:
        return {partition: self._told() for partition in asked}

    def _told(self) -> Future[Any]:
        told: Future[Any] = Future()
        if self.stale:
            told.set_exception(KafkaException(KafkaError(self.stale)))
        else:
            told.set_result(SimpleNamespace(offset=7))
        return told


def client(admin: Admin, *, timeout: float = 5) -> Client:
    """Return a client of a scripted cluster."""
    settings = KafkaSettings.parse({"bootstrap.servers": "127.0.0.1:1"})
    return Client(settings, timeout=timeout, clock=FakeClock(), connect=admin.connect)


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError._UNSUPPORTED_FEATURE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    ],
)
def test_what_a_cluster_refuses_is_not_called_silence(code: int) -> None:
    """To repeat it does not help: a person looks at the connection."""
    error = client(Admin()).translated(KafkaException(KafkaError(code)), "listing topics")
    assert isinstance(error, ConnectionSettingsError)
    assert "refused listing topics" in error.message


def test_cluster_out_of_reach_has_refused_nothing() -> None:
    """What its threads hear on the way is told, and the command may be repeated."""
    one = client(Admin(hears=[KafkaError._TRANSPORT]))
    assert one.topic_names() == []
    error = one.translated(KafkaException(KafkaError(KafkaError._TIMED_OUT)), "listing topics")
    assert isinstance(error, UnavailableError)
    assert KafkaError(KafkaError._TRANSPORT).str() in error.message


def test_login_that_stays_refused_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka goes on trying until the time is over; a wrong password gets no better by that."""
    monkeypatch.setattr(module, "_REFUSED_SECONDS", 0)
    monkeypatch.setattr(module, "_POLL_SECONDS", 0.001)
    with pytest.raises(ConnectionSettingsError, match="refused describing topics"):
        client(Admin(hears=[KafkaError._TRANSPORT, KafkaError._AUTHENTICATION]), timeout=3600).completed(
            [Future[object]()], "describing topics"
        )


def test_answer_that_comes_within_the_grace_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka ends a call by itself after our time, and says why: we wait a moment longer than it."""
    monkeypatch.setattr(module, "_POLL_SECONDS", 0.001)
    admin, late = Admin(), Future[object]()
    monkeypatch.setattr(admin, "poll", lambda _: late.set_result(None) if next(admin.polls) == 3 else None)
    client(admin, timeout=0).completed([late], "describing topics")


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
    ],
)
def test_leader_that_moved_is_looked_up_before_it_is_asked_again(code: int) -> None:
    """Else librdkafka would ask the old one under the epoch that it once learned, for minutes."""
    found, errors = client(Admin(leader_moves=code)).offsets({KEY: LATEST}, IsolationLevel.READ_UNCOMMITTED)
    assert ({key: told.offset for key, told in found.items()}, errors) == ({KEY: 7}, {})


def failed(code: int) -> Future[Any]:
    """Return an answer that is an error."""
    told: Future[Any] = Future()
    told.set_exception(KafkaException(KafkaError(code)))
    return told


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError._TRANSPORT])
def test_broker_that_has_died_is_asked_no_further(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """librdkafka waits for the one that the metadata name; with another's metadata it asks one that is alive, whose
    metadata can name the dead one for a while."""
    admin, seconds = Admin(leader_moves=code), list[float]()

    def described(_: object, *, request_timeout: float) -> dict[str, Future[Any]]:
        seconds.append(request_timeout)
        return {"orders": failed(admin.stale) if admin.stale or len(seconds) < 3 else admin._told()}

    admin.stale = code
    monkeypatch.setattr(
        admin, "list_topics", lambda **_: vars(admin).update(stale=0 if len(seconds) > 1 else code) or 1
    )
    told = client(admin, timeout=15).asked(partial(described, ["orders"]), "describing topics")
    assert told["orders"].result().offset == 7
    assert seconds == [5, 5, 15]


def test_cluster_without_a_living_broker_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has metadata that could help."""
    admin, asked = Admin(), list[float]()

    def described(*, request_timeout: float) -> dict[str, Future[Any]]:
        asked.append(request_timeout)
        return {"orders": failed(KafkaError._TIMED_OUT)}

    def silent(**_: object) -> Any:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    monkeypatch.setattr(admin, "list_topics", silent)
    told = client(admin).asked(described, "describing topics")
    assert told["orders"].exception()
    assert len(asked) == 1


def test_leader_that_has_died_is_looked_up_before_it_is_asked_again() -> None:
    found, errors = client(Admin(leader_moves=KafkaError._TIMED_OUT)).offsets(
        {KEY: LATEST}, IsolationLevel.READ_UNCOMMITTED
    )
    assert ({key: told.offset for key, told in found.items()}, errors) == ({KEY: 7}, {})


def test_refused_listing_names_every_topic_that_is_hidden() -> None:
    """One command grants them all."""
    refused = KafkaError.TOPIC_AUTHORIZATION_FAILED
    calls = {"seen": Admin()._told(), "a": failed(refused), "b": failed(refused)}
    with pytest.raises(
        ConnectionSettingsError, match=r"lacks the right Describe on topic a, b.* --topic a --topic b"
    ) as e:
        client(Admin()).about_topics(calls, "describing topics", "Describe")
    assert e.value.facts["topics"] == ("a", "b")


def test_right_that_is_not_known_is_not_guessed() -> None:
    """The brokers' own log has it."""
    error = KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED))
    said = client(Admin()).translated(error, "listing topics").message
    assert "its user lacks a right. Look for it in the brokers' kafka-authorizer.log" in said


def test_host_that_nobody_knows_is_told_before_anything_waits() -> None:
    settings = KafkaSettings.parse({"bootstrap.servers": "no.such.host.invalid:9092"}, connection="mine")
    refused = Client(settings, timeout=3600, clock=FakeClock(), connect=Admin().connect)
    with pytest.raises(UnavailableError, match=r"'mine'\) is not found: .* any host in bootstrap\.servers"):
        refused.topic_names()


def source(admin: Any) -> KafkaOffsetSource:
    """Return a source of a scripted cluster."""
    settings = KafkaSettings.parse({"bootstrap.servers": "127.0.0.1:1"})
    return KafkaOffsetSource(settings, clock=FakeClock(), connect=admin.connect)


def test_topic_that_no_broker_knows_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every broker says so, a moment later too: it neither comes and goes, nor is it a matter of patience."""
    admin, unknown = Admin(), Future[object]()
    unknown.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
    monkeypatch.setattr(admin, "describe_topics", lambda *_, **__: {"missing": unknown}, raising=False)
    answered = TopicIds(ids={"missing": frozenset({None})}, silent={})
    monkeypatch.setattr(KafkaOffsetSource, "_topic_ids", lambda *_: answered)
    with pytest.raises(UnknownTopicError, match="has no topic 'missing'"):
        source(admin).describe(["missing"])


def test_no_epochs_ask_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan of topics whose leaders never changed costs no connection."""
    monkeypatch.setattr(cluster, "epoch_ends", lambda *_, **__: {"asked": 1})
    assert source(Admin()).epoch_ends([]) == {}


def test_limits_of_a_topic_are_told_and_minus_one_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka says -1 where it keeps everything; 0 is a limit, and the tightest."""

    def answered(value: Any) -> Future[Any]:
        told: Future[Any] = Future()
        told.set_result(value)
        return told

    def described(age: str, size: str) -> tuple[int | None, int | None]:
        said = {"cleanup.policy": "delete", "retention.ms": age, "retention.bytes": size}
        configs = {name: SimpleNamespace(value=value) for name, value in said.items()}
        admin = Admin()
        topic = SimpleNamespace(topic_id=Uuid(1, 2), partitions=[SimpleNamespace(id=0, leader=None)])
        monkeypatch.setattr(admin, "describe_topics", lambda *_, **__: {"orders": answered(topic)}, raising=False)
        monkeypatch.setattr(admin, "describe_configs", lambda asked, **_: {asked[0]: answered(configs)}, raising=False)
        agreed = TopicIds(ids={"orders": frozenset({"id"})}, silent={})
        monkeypatch.setattr(KafkaOffsetSource, "_topic_ids", lambda *_: agreed)
        (found,) = source(admin).describe(["orders"])
        return found.retention_ms, found.retention_bytes

    assert described("-1", "-1") == (None, None)
    assert described("604800000", "0") == (604_800_000, 0)


def test_leader_that_another_broker_knows_to_be_deposed_is_not_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers, and another broker has heard of a newer leader epoch: its end is not known, and no number."""
    made = source(Admin())
    made._heard = {("orders", 0): 6, ("orders", 1): 5}
    answers = lambda asked, _: ({key: SimpleNamespace(offset=9, leader_epoch=5) for key in asked}, {})  # noqa: E731
    monkeypatch.setattr(made.client, "offsets", answers)
    topics = {"orders": DescribedTopic(id="id", partitions=frozenset({0, 1}), led=frozenset({0, 1}))}
    bounds, unknown = made._bounds(topics, dict.fromkeys([("orders", 0), ("orders", 1)], NONE))
    assert list(bounds) == [("orders", 1)]
    assert "under epoch 5, and another broker knows of epoch 6" in unknown["orders", 0]


def test_driver_of_a_run_need_not_wait_for_the_second_client() -> None:
    """A tenth of a second of each run: an observation asks librdkafka alone, and the driver starts after it."""
    code = "import sys, airflow_kafka_lake.adapters.kafka.source; sys.exit('kafka' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
