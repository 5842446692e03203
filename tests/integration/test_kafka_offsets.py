"""What a cluster does now and then, done to a real one: leaders move, topics change, answers are missing."""

from __future__ import annotations

import gc
import logging
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition, Uuid
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from airflow_kafka_lake.adapters.kafka import cluster as groups
from airflow_kafka_lake.adapters.kafka.client import TopicIds
from airflow_kafka_lake.adapters.kafka.source import KafkaOffsetSource
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.adapters.kafka_python import errors
from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.core.errors import (
    ConnectionSettingsError,
    IdentityError,
    UnavailableError,
    UnknownTopicError,
    UnstableError,
)
from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState
from airflow_kafka_lake.local.processes import wait_until
from tests.kit.clock import FakeClock

if TYPE_CHECKING:
    from airflow_kafka_lake.local.kafka import LocalKafka

Change = Callable[[dict[Any, Future[Any]]], dict[Any, Future[Any]]]


class ChangedClient(AdminClient):
    """A real admin client that notes its calls, runs something before one, or changes an answer."""

    def __init__(self, settings: dict[str, Any], **more: Any) -> None:
        super().__init__(settings, **more)
        self.calls: list[str] = []
        self.asked: set[int] = set()
        self.before: dict[str, Callable[[], object]] = {}
        self.changes: dict[str, Change] = {}

    def _noted(self, name: str, answer: Callable[[], dict[Any, Future[Any]]]) -> dict[Any, Future[Any]]:
        self.calls.append(name)
        known = dict.fromkeys([name.partition(" ")[0], name])
        for key in known.keys() & self.before.keys():
            self.before[key]()
        futures = answer()
        for key in known.keys() & self.changes.keys():
            futures = self.changes[key](futures)
        return futures

    def describe_topics(self, *given: Any, **more: Any) -> Any:
        return self._noted("describe", lambda: super(ChangedClient, self).describe_topics(*given, **more))

    def list_offsets(self, wanted: Any, **more: Any) -> Any:
        kind = "earliest" if next(iter(wanted.values()))._value == -2 else "latest"
        level = "stable" if more["isolation_level"] is IsolationLevel.READ_COMMITTED else "all"
        name = f"offsets {kind} {level}"
        self.asked |= {key.partition for key in wanted}
        return self._noted(name, lambda: super(ChangedClient, self).list_offsets(wanted, **more))


class Cluster:
    """A topic of three partitions on the shared broker, and a source whose client can be changed."""

    def __init__(self, bootstrap: str, *, timeout: float = 10.0) -> None:
        self.settings = {"bootstrap.servers": bootstrap, "log_level": 0}
        self.admin = AdminClient(self.settings)
        self.clock = FakeClock()
        self.source = KafkaOffsetSource(
            KafkaSettings.parse({"bootstrap.servers": bootstrap}),
            clock=self.clock,
            timeout_seconds=timeout,
            connect=self._connect,
            committed=self._committed,
        )
        self.client: ChangedClient
        self.topic = f"t-{uuid.uuid4().hex}"
        self.create()

    def _connect(self, settings: dict[str, Any], **more: Any) -> ChangedClient:
        self.client = ChangedClient(settings, **more)
        return self.client

    def _committed(self, *given: Any, **more: Any) -> dict[Any, Any]:
        self.client.calls.append("group")
        self.client.before.get("group", lambda: None)()
        return groups.committed(*given, **more)

    def create(self) -> None:
        self.admin.create_topics([NewTopic(self.topic, 3, 1)])[self.topic].result(120)
        wait_until(self._created, timeout=120, failed=AssertionError)

    def _created(self) -> bool:
        try:
            return len(self.source.snapshot([self.topic], None).partitions) == 3
        except Exception:  # noqa: BLE001
            return False

    def produce(self, count: int) -> None:
        producer = Producer(self.settings)
        for _ in range(count):
            producer.produce(self.topic, b"x", partition=0)
        assert producer.flush(120) == 0


@pytest.fixture
def cluster(kafka: LocalKafka) -> Cluster:
    """One per test."""
    made = Cluster(kafka.bootstrap)
    made.client.calls.clear()
    return made


def failing(code: int, partition: int, *, times: int = 1000) -> Change:
    """Replace one partition's answer by an error, so many times."""
    left = [times]

    def change(futures: dict[Any, Future[Any]]) -> dict[Any, Future[Any]]:
        return {key: failed(code) if key.partition == partition and take() else value for key, value in futures.items()}

    def take() -> bool:
        left[0] -= 1
        return left[0] >= 0

    return change


def failed(code: int) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(KafkaException(KafkaError(code)))
    return future


def test_bounds_are_read_in_the_safe_order(cluster: Cluster) -> None:
    """Each bound comes from one call for all partitions, and each call can only be later than what it must not miss."""
    cluster.source.snapshot([cluster.topic], "g")
    assert cluster.client.calls == [
        "describe",
        "group",
        "offsets latest stable",
        "offsets latest all",
        "offsets earliest all",
        "describe",
    ]


def test_moving_leader_is_asked_again(cluster: Cluster) -> None:
    """Right after a leader has moved, one partition answers with an error; only that one is asked again."""
    cluster.produce(4)
    cluster.client.changes["offsets latest stable"] = failing(KafkaError.NOT_LEADER_FOR_PARTITION, 0, times=2)
    snapshot = cluster.source.snapshot([cluster.topic], None)
    assert cluster.client.calls.count("offsets latest stable") == 3
    assert [(p.stream.partition, p.last_stable) for p in snapshot.partitions] == [(0, 4), (1, 0), (2, 0)]


@pytest.mark.parametrize("bound", ["offsets latest stable", "offsets latest all", "offsets earliest all"])
def test_partition_that_stays_silent_is_unknown(cluster: Cluster, bound: str) -> None:
    """After a bounded number of tries a partition is unknown with its reason, and the others are observed."""
    cluster.client.changes[bound] = failing(KafkaError.NOT_LEADER_FOR_PARTITION, 1)
    snapshot = cluster.source.snapshot([cluster.topic], None)
    assert [p.stream.partition for p in snapshot.partitions] == [0, 2]
    assert [(p.topic, p.partition) for p in snapshot.unknown] == [(cluster.topic, 1)]
    assert "leader" in snapshot.unknown[0].reason
    assert snapshot.unknown[0].topic_id == snapshot.partitions[0].stream.topic_id
    assert cluster.client.calls.count(bound) <= 10


def test_error_that_does_not_pass_is_not_repeated(cluster: Cluster) -> None:
    """A refused partition is unknown at the first answer."""
    cluster.client.changes["offsets"] = failing(KafkaError.TOPIC_AUTHORIZATION_FAILED, 2)
    snapshot = cluster.source.snapshot([cluster.topic], None)
    assert [p.partition for p in snapshot.unknown] == [2]
    assert cluster.client.calls.count("offsets latest stable") == 1


def test_partition_left_out_of_an_answer_is_unknown(cluster: Cluster) -> None:
    """An answer that does not name a partition says nothing about it."""
    cluster.client.changes["offsets latest all"] = lambda futures: {k: f for k, f in futures.items() if k.partition}
    snapshot = cluster.source.snapshot([cluster.topic], None)
    assert [p.partition for p in snapshot.unknown] == [0]


def test_partition_without_leader_is_unknown_and_not_asked(cluster: Cluster) -> None:
    """A partition without a leader would hold up the answer of all others."""

    def headless(futures: dict[Any, Future[Any]]) -> dict[Any, Future[Any]]:
        for future in futures.values():
            future.result(10).partitions[1].leader = None
        return futures

    cluster.client.changes["describe"] = headless
    cluster.client.asked.clear()
    snapshot = cluster.source.snapshot([cluster.topic], None)
    assert [p.stream.partition for p in snapshot.partitions] == [0, 2]
    assert [(p.partition, p.reason) for p in snapshot.unknown] == [(1, "it has no leader now")]
    assert cluster.client.asked == {0, 2}


def test_partitions_added_meanwhile_are_in_the_snapshot(cluster: Cluster) -> None:
    """A topic that grows while it is observed is observed again."""

    def grow() -> None:
        del cluster.client.before["group"]
        cluster.admin.create_partitions([NewPartitions(cluster.topic, 5)])[cluster.topic].result(120)
        wait_until(
            lambda: cluster.source.describe([cluster.topic])[0].partitions == 5, timeout=120, failed=AssertionError
        )

    cluster.client.before["group"] = grow
    snapshot = cluster.source.snapshot([cluster.topic], "g")
    assert [*(p.stream.partition for p in snapshot.partitions), *(p.partition for p in snapshot.unknown)] == [
        0,
        1,
        2,
        3,
        4,
    ]


def test_topic_that_never_rests_is_unstable(cluster: Cluster) -> None:
    """A topic that is another one after every pass is not described by any of them."""
    ids = iter(range(1, 100))

    def renamed(futures: dict[Any, Future[Any]]) -> dict[Any, Future[Any]]:
        for future in futures.values():
            future.result(10).topic_id = Uuid(0, next(ids))
        return futures

    cluster.client.changes["describe"] = renamed
    with pytest.raises(UnstableError, match=cluster.topic):
        cluster.source.snapshot([cluster.topic], None)
    assert cluster.client.calls.count("describe") == 6


def test_bounds_that_contradict_each_other_are_read_again(cluster: Cluster) -> None:
    """Records that are deleted between two calls would put the log start above last stable."""
    cluster.produce(5)

    def delete() -> None:
        del cluster.client.before["offsets earliest all"]
        cluster.produce(5)
        next(iter(cluster.admin.delete_records([TopicPartition(cluster.topic, 0, 8)]).values())).result(120)

    cluster.client.before["offsets earliest all"] = delete
    found = cluster.source.snapshot([cluster.topic], None).partitions[0]
    assert (found.log_start, found.last_stable, found.high_watermark) == (8, 10, 10)


def test_broker_without_topic_ids_is_refused(cluster: Cluster) -> None:
    """Without ids a re-created topic looks like the one before."""

    def nameless(futures: dict[Any, Future[Any]]) -> dict[Any, Future[Any]]:
        for future in futures.values():
            future.result(10).topic_id = Uuid(0, 0)
        return futures

    cluster.client.changes["describe"] = nameless
    with pytest.raises(IdentityError, match=cluster.topic):
        cluster.source.describe([cluster.topic])


def forgetful(times: int) -> Change:
    """Let one broker say, so many times, that it knows no such topic."""
    left = [times]

    def change(futures: dict[Any, Future[Any]]) -> dict[Any, Future[Any]]:
        left[0] -= 1
        unknown = KafkaError.UNKNOWN_TOPIC_OR_PART
        return futures if left[0] < 0 else dict.fromkeys(futures, failed(unknown))

    return change


def test_topic_that_one_broker_does_not_know_is_asked_of_all(cluster: Cluster) -> None:
    """A broker that has just started says that there is no such topic: the others know better, and nothing is gone."""
    cluster.client.changes["describe"] = forgetful(1)
    assert cluster.source.describe([cluster.topic])[0].partitions == 3
    cluster.client.changes["describe"] = forgetful(1000)
    with pytest.raises(UnavailableError, match="comes and goes"):
        cluster.source.snapshot([cluster.topic], None)


@pytest.mark.parametrize(
    ("ids", "silent", "says"),
    [
        ({None, "another"}, {}, "do not agree about topic"),
        ({None}, {2: "connection refused"}, "broker 2 did not say whether topic .* exists: connection refused"),
        (set(), {1: "timed out"}, "they say nothing"),
    ],
)
def test_deletion_is_what_every_broker_says(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, ids: set[str | None], silent: dict[int, str], says: str
) -> None:
    """One that knows the topic, or one that does not answer, leaves it unknown."""
    answered = TopicIds(ids={"missing": frozenset(ids)}, silent=silent)
    monkeypatch.setattr(cluster.source, "_topic_ids", lambda _: answered)
    for call in (cluster.source.describe, lambda topics: cluster.source.topics(topics, None)):
        with pytest.raises(UnavailableError, match=says):
            call(["missing"])
    agreed = TopicIds(ids={"missing": frozenset({None})}, silent={})
    monkeypatch.setattr(cluster.source, "_topic_ids", lambda _: agreed)
    with pytest.raises(UnknownTopicError, match="'missing'"):
        cluster.source.describe(["missing"])


def test_id_is_not_one_brokers_word(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that is behind tells the id of a topic that was re-created since: the others are asked, too."""

    def stale(futures: dict[Any, Future[Any]]) -> dict[Any, Future[Any]]:
        for future in futures.values():
            future.result(10).topic_id = Uuid(1, 1)
        return futures

    now = cluster.source.describe([cluster.topic])[0].topic_id
    cluster.client.changes["describe"] = stale
    assert cluster.source.describe([cluster.topic])[0].topic_id == now
    differing = TopicIds(ids={cluster.topic: frozenset({now, "AAAAAAAAAAEAAAAAAAAAAQ"})}, silent={})
    monkeypatch.setattr(cluster.source, "_topic_ids", lambda _: differing)
    with pytest.raises(UnavailableError, match="do not agree about topic"):
        cluster.source.describe([cluster.topic])


class Coordinator:
    """Answers for the group's coordinator: the given errors first (None: it knows no such group), then the truth."""

    def __init__(self, *first: Exception | None) -> None:
        self.left = list(first)
        self.ask = groups._ask_coordinator

    async def __call__(self, *given: Any, **named: Any) -> Any:
        if not self.left:
            return await self.ask(*given, **named)
        if error := self.left.pop(0):
            raise error
        return None


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ([], GroupOffsetState.NONE),
        ([errors.NotCoordinatorError(), errors.CoordinatorLoadInProgressError()], GroupOffsetState.NONE),
        ([None], GroupOffsetState.NONE),
        ([errors.NotCoordinatorError()] * 100_000, GroupOffsetState.UNKNOWN),
    ],
)
def test_only_no_such_group_means_no_offset(
    kafka: LocalKafka, monkeypatch: pytest.MonkeyPatch, said: list[Exception | None], state: GroupOffsetState
) -> None:
    """A moving coordinator is asked again for a while; after any error that stays, it is unknown."""
    cluster = Cluster(kafka.bootstrap, timeout=2)
    monkeypatch.setattr(groups, "_ask_coordinator", Coordinator(*said))
    found = cluster.source.snapshot([cluster.topic], "g").partitions
    assert {(p.group_offset, p.group_offset_state) for p in found} == {(None, state)}


def test_group_that_may_not_be_read_is_a_persons_business(kafka: LocalKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting brings the right that is missing."""
    cluster = Cluster(kafka.bootstrap, timeout=2)
    monkeypatch.setattr(groups, "_ask_coordinator", Coordinator(errors.GroupAuthorizationFailedError()))
    with pytest.raises(ConnectionSettingsError, match=r"offsets of group 'g'.*lacks a right"):
        cluster.source.snapshot([cluster.topic], "g")


def test_group_out_of_reach_is_unknown(service: None) -> None:
    """No coordinator that could say what is committed is no statement about it."""
    settings = KafkaSettings.parse({"bootstrap.servers": "127.0.0.1:1"})
    found = groups.committed(settings, "g", [("t", 0)], timeout=0.5, clock=FakeClock())
    gc.collect()
    assert found == {("t", 0): (None, GroupOffsetState.UNKNOWN)}


def test_time_asked_of_a_silent_partition_is_an_error(cluster: Cluster) -> None:
    """None would mean "the end"; a partition that does not answer has no such offset."""
    cluster.client.changes["offsets"] = failing(KafkaError._TIMED_OUT, 1)
    with pytest.raises(UnavailableError, match="partition 1"):
        cluster.source.offsets_at([(cluster.topic, 0), (cluster.topic, 1)], 0)


def test_answer_that_never_comes_ends_the_wait(kafka: LocalKafka) -> None:
    """Even when the client library would wait on for ever, a call ends."""
    cluster = Cluster(kafka.bootstrap, timeout=0.5)
    cluster.client.changes["describe"] = lambda futures: {key: Future() for key in futures}
    with pytest.raises(UnavailableError, match=r"did not answer.*describing"):
        cluster.source.describe([cluster.topic])


def test_unreachable_broker_is_named(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], service: None
) -> None:
    """The message names servers and connection; librdkafka's own lines go to logging, not to the terminal."""
    settings = KafkaSettings.parse({"bootstrap.servers": "127.0.0.1:1"}, connection="faraway")
    with caplog.at_level(logging.DEBUG), pytest.raises(UnavailableError) as caught:
        KafkaOffsetSource(settings, clock=FakeClock(), timeout_seconds=1).check()
    assert "127.0.0.1:1" in caught.value.message
    assert "faraway" in caught.value.message
    assert "refused" in caught.value.message
    assert any("Connection refused" in record.message for record in caplog.records)
    assert capfd.readouterr().err == ""


def test_settings_that_librdkafka_refuses_are_no_traceback(service: None) -> None:
    """A value that only librdkafka can judge is refused as the connection's mistake."""
    settings = KafkaSettings.parse(
        {"bootstrap.servers": "127.0.0.1:1", "broker.address.family": "v5"}, connection="odd"
    )
    with pytest.raises(ConnectionSettingsError, match="odd"):
        KafkaOffsetSource(settings, clock=FakeClock()).check()


def test_check_names_the_cluster(cluster: Cluster) -> None:
    """A person who tests a connection is told what answered."""
    assert "with 1 broker answers" in cluster.source.check()


@pytest.mark.nightly  # by day: the source of test_loss.py
def test_a_client_that_outlives_a_broker_asks_under_the_new_leader_epoch(service: None) -> None:
    """After a restart the next question is answered; librdkafka by itself would ask the old way for minutes."""
    from airflow_kafka_lake.local.kafka import LocalKafka

    with LocalKafka() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("moved", 1, 1)])["moved"].result(120)
        settings = KafkaSettings.parse({"bootstrap.servers": broker.bootstrap}, connection="kafka_default")
        source = KafkaOffsetSource(settings, clock=SystemClock())
        wait_until(lambda: source.offsets_at([("moved", 0)], 0), timeout=60, failed=AssertionError, every=0.5)
        broker.stop()
        broker.start()
        assert source.offsets_at([("moved", 0)], 0)
