"""What brokers that differ, or do not answer, make known about a topic: nothing."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.adapters.kafka.identities import Heard

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
    """A deletion needs the word of every broker; an id needs that nobody who answers says another."""
    heard = Heard(ids={"t": frozenset(ids), "u": frozenset({"CCCC"})}, silent=silent)
    assert heard.doubts(["t", "u"]) == ({"t": doubt} if doubt else {})
