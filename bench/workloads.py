"""What is read: topics of a shape that is known to be easy or hard, filled with the same bytes in every run."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import Any

import numpy as np

from bench.consuming import consumed
from bench.content import Content

DECODED = {"id": "long", "customer": "string", "amount": "double", "note": "string"}
"""The columns of a JSON record, by Iceberg's types."""

DAYS = 30
FIRST_DAY_MS = 1_767_225_600_000
"""Timestamps of a workload that spreads over days begin here, 2026-01-01."""

_DAY_MS = 86_400_000
_BATCH_BYTES = 64 * 1024
_CREATED_SECONDS, _FLUSH_SECONDS = 300, 600
_TRANSACTIONS_AT_ONCE = 8
_RANDOM_BYTES = 4 * 2**20

Share = Callable[[int, int], Sequence[int]]


def evenly(records: int, partitions: int) -> Sequence[int]:
    """Return how many records each partition has: the same."""
    return [records // partitions + (number < records % partitions) for number in range(partitions)]


def mostly_one(records: int, partitions: int) -> Sequence[int]:
    """Return how many records each partition has: nine of ten are in the first."""
    rest = evenly(records // 10, max(1, partitions - 1))
    return [records - sum(rest), *rest][:partitions] if partitions > 1 else [records]


def zipf(records: int, partitions: int) -> Sequence[int]:
    """Return how many records each partition has: the n-th has a n-th of the first's."""
    weights = 1.0 / np.arange(1, partitions + 1)
    found = np.floor(records * weights / weights.sum()).astype(int)
    found[0] += records - int(found.sum())
    return [int(count) for count in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Topics to land in one table. `records` and `partitions` are those of all topics together.

    `transaction` is how many records one transaction has (0: none), `days` over how many days of timestamps the records
    of each partition spread, which are then the partitions of the table. `decoded`: values are JSON, and become columns
    of the table.
    """

    name: str
    says: str
    records: int
    partitions: int
    record_bytes: int
    topics: int = 1
    share: Share = evenly
    transaction: int = 0
    days: int = 0
    decoded: bool = False
    through_airflow: bool = False

    def scaled(self, records: float, partitions: float = 1.0) -> Workload:
        """Return it larger or smaller: so many times the records, and so many times the partitions."""
        wanted = max(1, round(self.partitions * partitions))
        topics = min(self.topics, wanted)
        wanted -= wanted % topics
        return replace(self, records=max(wanted, round(self.records * records)), partitions=wanted, topics=topics)

    @property
    def bytes(self) -> int:
        """The bytes of its values."""
        return self.records * self.record_bytes

    @property
    def partition_by(self) -> str:
        """What the table is partitioned by, as a pipeline file says it."""
        return "days(kafka_timestamp)" if self.days else ""

    def names(self, run: str) -> list[str]:
        """Return its topics' names in a run."""
        return [f"{self.name}-{run}-{number}" for number in range(self.topics)]


WORKLOADS = {
    item.name: item
    for item in (
        Workload(name="uniform", says="1 KB records, 16 partitions", records=480_000, partitions=16, record_bytes=1024),
        Workload(
            name="uniform-100b", says="100 B records, 16 partitions", records=4_800_000, partitions=16, record_bytes=100
        ),
        Workload(
            name="quiet",
            says="1,000 partitions of 1 MB each, one topic",
            records=1_037_000,
            partitions=1_000,
            record_bytes=1024,
        ),
        Workload(
            name="quiet-topics",
            says="the same in 100 topics of 10 partitions",
            records=1_037_000,
            partitions=1_000,
            record_bytes=1024,
            topics=100,
        ),
        Workload(
            name="skewed",
            says="1 KB records, 90 % of them in one of 16 partitions",
            records=480_000,
            partitions=16,
            record_bytes=1024,
            share=mostly_one,
        ),
        Workload(
            name="zipf",
            says="1 KB records over 200 partitions, the n-th has a n-th of the first's",
            records=480_000,
            partitions=200,
            record_bytes=1024,
            share=zipf,
        ),
        Workload(
            name="json",
            says="JSON of about 200 B, four fields of it as columns",
            records=1_000_000,
            partitions=16,
            record_bytes=200,
            decoded=True,
        ),
        Workload(
            name="dated",
            says="1 KB records of 30 days, a table partitioned by day",
            records=480_000,
            partitions=16,
            record_bytes=1024,
            days=DAYS,
        ),
        Workload(
            name="gaps",
            says="1 KB records in transactions of 99: each hundredth offset is a marker",
            records=240_000,
            partitions=16,
            record_bytes=1024,
            transaction=99,
        ),
        Workload(
            name="one-record-transactions",
            says="a transaction for each record: every second offset is a marker",
            records=20_000,
            partitions=16,
            record_bytes=1024,
            transaction=1,
        ),
        Workload(name="smallest", says="1,000 records, one partition", records=1_000, partitions=1, record_bytes=1024),
        Workload(
            name="airflow",
            says="200 partitions of 5 MB each, through a Dag of a running Airflow",
            records=1_000_000,
            partitions=200,
            record_bytes=1024,
            through_airflow=True,
        ),
    )
}


def fill(bootstrap: str, workload: Workload, topics: Sequence[str]) -> None:
    """Create the topics and produce every record; a partition's bytes are the same in every run of a scale."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    each = workload.partitions // len(topics)
    made = admin.create_topics([NewTopic(topic, each, 1) for topic in topics], operation_timeout=_CREATED_SECONDS)
    for future in made.values():
        future.result(_CREATED_SECONDS)
    counts = workload.share(workload.records, workload.partitions)
    places = {number: (topics[number // each], number % each) for number in range(len(counts))}
    records = {place: records_of(workload, number, counts[number]) for number, place in places.items()}
    if not workload.transaction:
        producer = Producer({"bootstrap.servers": bootstrap, **_PRODUCER})
        for place, some in records.items():
            _send(producer, place, some)
        _flush(producer)
        return
    with ThreadPoolExecutor(_TRANSACTIONS_AT_ONCE) as pool:
        for done in [
            pool.submit(_in_transactions, bootstrap, workload.transaction, place, some)
            for place, some in records.items()
        ]:
            done.result()


Record = tuple[bytes, bytes, int]


def records_of(workload: Workload, number: int, count: int) -> Iterator[Record]:
    """Yield key, value and timestamp (0: now) of each record of a partition."""
    chosen = random.Random(f"{workload.name} {number}")
    text = _text(workload.name)
    for index in range(count):
        at = FIRST_DAY_MS + index * workload.days * _DAY_MS // max(1, count) if workload.days else 0
        start = chosen.randrange(len(text) - workload.record_bytes)
        value = _value(workload, (number, index), text, start)
        yield f"{number}-{index}".encode(), value, at


@cache
def _text(name: str) -> str:
    """Return what values are cut from; it compresses to about half, as much of what is in topics does."""
    return random.Random(name).randbytes(_RANDOM_BYTES // 2).hex()


def _value(workload: Workload, place: tuple[int, int], text: str, start: int) -> bytes:
    number, index = place
    head = f"{number:08x}{index:08x}"
    if not workload.decoded:
        return (head + text[start : start + workload.record_bytes - len(head)]).encode()
    value = {"id": (number << 32) + index, "customer": f"customer {start % 10_000}", "amount": start / 100, "note": ""}
    room = workload.record_bytes - len(json.dumps(value))
    return json.dumps(value | {"note": text[start : start + max(0, room)]}).encode()


_PRODUCER = {"linger.ms": 20, "batch.size": _BATCH_BYTES, "queue.buffering.max.messages": 500_000, "acks": 1}


def _in_transactions(bootstrap: str, size: int, place: tuple[str, int], records: Iterator[Record]) -> None:
    from confluent_kafka import Producer

    own = {"transactional.id": f"{place[0]}-{place[1]}", "acks": "all", "linger.ms": 0}
    producer = Producer({"bootstrap.servers": bootstrap, **_PRODUCER, **own})
    producer.init_transactions(_FLUSH_SECONDS)
    while some := list(islice(records, size)):
        producer.begin_transaction()
        _send(producer, place, some)
        producer.commit_transaction(_FLUSH_SECONDS)


def _send(producer: Any, place: tuple[str, int], records: Iterator[Record] | Sequence[Record]) -> None:
    topic, partition = place
    for key, value, at in records:
        while True:
            try:
                producer.produce(topic, value, key, partition=partition, timestamp=at)
            except BufferError:
                producer.poll(0.1)
            else:
                break
        producer.poll(0)


def _flush(producer: Any) -> None:
    if left := producer.flush(_FLUSH_SECONDS):
        raise SystemExit(f"bench: {left} records were not delivered")


def content_of(bootstrap: str, workload: Workload, topics: Sequence[str]) -> Content:
    """Read the topics with a client that no arm stands on but the straight loader, and return what they hold.

    It also brings every byte into the page cache.
    """
    found = Content()
    for messages in consumed(bootstrap, topics):
        found.add(_columns(workload, messages))
    if found.rows != workload.records:
        raise SystemExit(f"bench: {workload.name} holds {found.rows:,} records, not {workload.records:,}")
    return found


def _columns(workload: Workload, messages: Sequence[Any]) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "topic": [message.topic() for message in messages],
        "partition": np.array([message.partition() for message in messages], dtype=np.int64),
        "offset": np.array([message.offset() for message in messages], dtype=np.int64),
        "key": [message.key() for message in messages],
        "value": [message.value() for message in messages],
    }
    if workload.decoded:
        values = [json.loads(value) for value in columns["value"]]
        kinds: Mapping[str, Any] = {"long": np.int64, "double": np.float64, "string": object}
        columns |= {
            name: np.array([value[name] for value in values], dtype=kinds[kind]) for name, kind in DECODED.items()
        }
    return columns
