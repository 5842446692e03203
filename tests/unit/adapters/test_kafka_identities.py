"""What brokers that differ, or do not answer, make known about a topic: nothing."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_lake.adapters.kafka.client import TopicIds
from airflow_kafka_lake.adapters.kafka.cluster import _ids_of

pytestmark = pytest.mark.unit

SILENT = {2: "connection refused"}


@pytest.mark.parametrize(
    ("ids", "silent", "doubt"),
    [
        ({"AAAA"}, {}, ""),
        ({"AAAA"}, SILENT, ""),
        ({None}, {}, ""),
        ({None}, SILENT, "broker 2 did not say whether topic 't' exists: connection refused"),
        ({"AAAA", None}, {}, "the brokers do not agree about topic 't': they say AAAA, no such topic"),
        ({"AAAA", "BBBB"}, {}, "the brokers do not agree about topic 't': they say AAAA, BBBB"),
        (set(), SILENT, "the brokers do not agree about topic 't': they say nothing"),
    ],
)
def test_what_one_broker_says_alone_is_in_doubt(ids: set[str | None], silent: dict[int, str], doubt: str) -> None:
    """A deletion needs the word of every broker; an id needs that no broker that answers says another."""
    answered = TopicIds(ids={"t": frozenset(ids), "u": frozenset({"CCCC"})}, silent=silent)
    assert answered.doubts(["t", "u"]) == ({"t": doubt} if doubt else {})


def test_broker_without_ids_tells_the_one_that_stands_for_none() -> None:
    """As librdkafka shows it, so that the two compare; a topic that the broker does not know has none at all."""

    class Manager:
        async def send(self, _request: object, *, node_id: int) -> Any:
            led = [SimpleNamespace(partition_index=number, leader_epoch=epoch) for number, epoch in ((0, 5), (1, None))]
            topics = [("old", None, 0, led), ("gone", None, 3, None)]
            return SimpleNamespace(
                topics=[
                    SimpleNamespace(name=name, topic_id=it, error_code=code, partitions=its)
                    for name, it, code, its in topics
                ]
            )

    ids, epochs = asyncio.run(_ids_of(Manager(), 1, ["old", "gone"]))
    assert ids == {"old": "A" * 22, "gone": None}
    assert epochs == {("old", 0): 5}
