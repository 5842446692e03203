"""Which of a partition's producers hold its last stable offset, as brokers tell it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_lake.adapters.kafka import cluster
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.adapters.kafka_python import errors, failure
from airflow_kafka_lake.core.errors import ConnectionSettingsError, UnavailableError
from airflow_kafka_lake.core.kafka.snapshots import OpenTransaction

pytestmark = pytest.mark.unit

AT_MS = 1_700_000_000_000


def producer(number: int, first: int) -> Any:
    return SimpleNamespace(producer_id=number, current_transaction_start_offset=first, last_timestamp=AT_MS)


class Admin:
    """A cluster with producers 1, which is between two transactions, and 2, which is in one."""

    def __init__(self, *, tells: bool = True) -> None:
        self.tells = tells

    def describe_producers(self, wanted: list[Any]) -> Any:
        return {place: SimpleNamespace(active_producers=[producer(1, -1), producer(2, 0)]) for place in wanted}

    def list_transactions(self, producer_id_filters: list[int]) -> Any:
        return {1: [SimpleNamespace(producer_id=number, transactional_id="t") for number in producer_id_filters]}

    def describe_transactions(self, names: list[str]) -> Any:
        if not self.tells:
            raise errors.TransactionalIdAuthorizationFailedError
        told = SimpleNamespace(transaction_start_time_ms=AT_MS, transaction_timeout_ms=60_000)
        return dict.fromkeys(names, told)


def found(admin: Admin) -> tuple[OpenTransaction, ...]:
    """Look at one partition."""
    place = cluster.TopicPartition("orders", 0)
    return cluster._described(admin, cluster._producers(admin, [place]))


def test_topic_whose_producers_may_not_be_seen_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """kafka-python's error names none; and where Kafka says no more than that, no right is made up."""
    admin = Admin()

    def refused(wanted: list[Any]) -> Any:
        if wanted[0].topic == "hidden":
            raise errors.TopicAuthorizationFailedError
        return {}

    monkeypatch.setattr(admin, "describe_producers", refused)
    monkeypatch.setattr(admin, "close", lambda: None, raising=False)
    monkeypatch.setattr(cluster, "KafkaAdminClient", lambda **_: admin)
    settings = KafkaSettings.parse({"bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(ConnectionSettingsError, match=r"the right Read on topic hidden.* --topic hidden"):
        cluster.open_transactions(settings, [("a", 0), ("hidden", 1)], None, timeout=1)
    hidden = [{"error_code": errors.TopicAuthorizationFailedError.errno, "partitions": []}]
    monkeypatch.setattr(admin, "describe_topics", lambda _: hidden, raising=False)
    with pytest.raises(ConnectionSettingsError, match="the right Describe on topic __consumer_offsets"):
        cluster.open_transactions(settings, [], "group", timeout=1)
    error = failure(settings, errors.ClusterAuthorizationFailedError(), "looking")
    assert "its user lacks a right. Look for it" in error.message


def test_producer_between_two_transactions_holds_nothing() -> None:
    """One that is in a transaction does, also from offset 0 on."""
    (one,) = found(Admin())
    assert (one.producer_id, one.first_offset, one.transactional_id) == (2, 0, "t")
    assert one.started_at is not None


def test_transaction_that_may_not_be_described_is_still_named() -> None:
    """Its start and its limit are unknown then, not its existence."""
    (one,) = found(Admin(tells=False))
    assert (one.producer_id, one.transactional_id, one.started_at, one.timeout) == (2, "t", None, None)


@pytest.mark.parametrize(("group", "of_50"), [("", 0), ("g", 3), ("orders", 31), ("polygenelubricants", 0)])
def test_home_of_a_group_is_javas(group: str, of_50: int) -> None:
    """`abs(hashCode)`, where the smallest number counts as 0: as Kafka's brokers have it."""
    assert cluster.partition_of(group, 50) == of_50


def test_cluster_that_says_nothing_has_not_said_that_none_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan would end before a transaction that hangs, and call that done."""

    def silent(**_: Any) -> Any:
        raise errors.KafkaConnectionError("no broker answers")

    monkeypatch.setattr(cluster, "KafkaAdminClient", silent)
    settings = KafkaSettings.parse({"bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(UnavailableError, match="did not answer while looking for open transactions"):
        cluster.open_transactions(settings, [("orders", 0)], None, timeout=0.2)
