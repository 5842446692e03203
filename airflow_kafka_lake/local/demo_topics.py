"""The demonstration's records, and what the broker acknowledged: the lake is compared with it."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Headers = list[tuple[str, bytes | None]]

RECORDS = 20_000
QUIET_PARTITIONS = 220
BIG_VALUE = 2 * 1024 * 1024
MAX_MESSAGE = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """One topic: digest of every visible record by `(partition, offset)`, and where aborted records are."""

    topic: str
    partitions: int
    visible: dict[tuple[int, int], bytes] = field(default_factory=dict)
    aborted: set[tuple[int, int]] = field(default_factory=set)


def digest(key: bytes | None, value: bytes | None, headers: Headers) -> bytes:
    """Digest a record so that null, empty and missing differ."""
    return hashlib.sha256(repr((key, value, headers)).encode()).digest()


def create_topics(bootstrap: str) -> list[Acknowledged]:
    """Create the demonstration's topics: mixed, transactional, uneven, and many quiet partitions."""
    from confluent_kafka.admin import AdminClient, NewTopic

    partitions = {"orders": 4, "payments": 3, "clicks": 6, "quiet": QUIET_PARTITIONS}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {"max.message.bytes": str(MAX_MESSAGE)}
    for future in admin.create_topics([NewTopic(t, n, 1, config=settings) for t, n in partitions.items()]).values():
        future.result(timeout=30)
    return [Acknowledged(topic=topic, partitions=count) for topic, count in partitions.items()]


def fill(bootstrap: str, topics: Sequence[Acknowledged], progress: Callable[[str], None]) -> None:
    """Produce every topic's records and note what was acknowledged."""
    by_name = {topic.topic: topic for topic in topics}
    for name, records in (("orders", _orders()), ("clicks", _clicks()), ("quiet", _quiet())):
        progress(f"producing {name}")
        _produce(_producer(bootstrap), by_name[name], records, by_name[name].visible)
    progress("producing payments in transactions, some of them aborted")
    _transactions(bootstrap, by_name["payments"])


def _producer(bootstrap: str, **settings: Any) -> Any:
    from confluent_kafka import Producer

    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "message.max.bytes": MAX_MESSAGE,
            "log_level": 2,  # a broker that is still starting needs no log line
            "queue.buffering.max.messages": 200_000,
            "linger.ms": 20,
            "enable.idempotence": True,
            **settings,
        }
    )


Record = tuple[int, bytes | None, bytes | None, Headers]


def _produce(
    producer: Any, topic: Acknowledged, records: Iterator[Record], acknowledged: dict[tuple[int, int], bytes]
) -> None:
    failed: list[str] = []

    def on_delivery(content: bytes) -> Callable[[Any, Any], None]:
        def done(error: Any, message: Any) -> None:
            if error is not None:
                failed.append(str(error))
            else:
                acknowledged[message.partition(), message.offset()] = content

        return done

    for partition, key, value, headers in records:
        producer.poll(0)
        producer.produce(
            topic.topic,
            key=key,
            value=value,
            headers=headers,
            partition=partition,
            on_delivery=on_delivery(digest(key, value, headers)),
        )
    if producer.flush(60) or failed:
        raise RuntimeError(f"the local broker did not take every record of {topic.topic}: {failed[:3]}")


def _orders() -> Iterator[Record]:
    """Keys, null keys, tombstones, empty values, headers with null and empty values, one record of 2 MB."""
    chance = random.Random(1)
    for number in range(RECORDS):
        key = None if number % 11 == 0 else f"customer-{number % 997}".encode()
        value: bytes | None = f'{{"order": {number}, "note": "{"x" * chance.randrange(200)}"}}'.encode()
        if number % 13 == 0:
            value = None
        elif number % 17 == 0:
            value = b""
        headers: Headers = [("trace", str(number).encode())] if number % 3 == 0 else []
        if number % 19 == 0:
            headers = [("empty", b""), ("null", None), ("twice", b"1"), ("twice", b"2")]
        if number == RECORDS // 2:
            value = chance.randbytes(BIG_VALUE)
        yield number % 4, key, value, headers


def _clicks() -> Iterator[Record]:
    """One partition with nine tenths of the bytes."""
    chance = random.Random(2)
    for number in range(RECORDS):
        partition = 0 if number % 10 else 1 + (number // 10) % 5
        yield partition, str(number).encode(), chance.randbytes(1000), []


def _quiet() -> Iterator[Record]:
    for number in range(QUIET_PARTITIONS * 5):
        yield number % QUIET_PARTITIONS, None, f"quiet {number}".encode(), []


def _transactions(bootstrap: str, topic: Acknowledged) -> None:
    """Two producers in turn, so that committed and aborted records lie between each other."""
    producers = [_producer(bootstrap, **{"transactional.id": f"demo-{name}"}) for name in "ab"]
    for producer in producers:
        producer.init_transactions(30)
    for number in range(30):
        producer = producers[number % 2]
        aborted = number % 5 == 4
        seen: dict[tuple[int, int], bytes] = {}
        producer.begin_transaction()
        records: Iterator[Record] = (
            (i % 3, f"{number}".encode(), f"{'no' if aborted else 'yes'} {number} {i}".encode(), []) for i in range(90)
        )
        _produce(producer, topic, records, seen)
        if aborted:
            producer.abort_transaction(30)
            topic.aborted.update(seen)
        else:
            producer.commit_transaction(30)
            topic.visible.update(seen)
