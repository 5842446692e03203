"""Every record of some topics, by the plainest of clients; the straight loader starts with it, so it imports little."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_READ_AT_ONCE = 20_000
_METADATA_SECONDS = 60


def consumed(bootstrap: str, topics: Sequence[str], config: Mapping[str, Any] | None = None) -> Iterator[Sequence[Any]]:
    """Yield every committed record of some topics, up to the ends of all partitions."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

    settings = {"group.id": "bench", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings, **(config or {})})
    known = consumer.list_topics(timeout=_METADATA_SECONDS).topics
    places = [TopicPartition(topic, number, OFFSET_BEGINNING) for topic in topics for number in known[topic].partitions]
    consumer.assign(places)
    open_ends = {(place.topic, place.partition) for place in places}
    while open_ends:
        found = consumer.consume(_READ_AT_ONCE, timeout=0.1)
        for message in found:
            if message.error() is None:
                continue
            if message.error().code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  # its public name
                raise KafkaException(message.error())
            open_ends.discard((message.topic(), message.partition()))
        if records := [message for message in found if message.error() is None]:
            yield records
    consumer.close()
