"""The inputs and outputs of a wave, under the names that OpenLineage gives to topics and tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.offsets import grouped, offsets_by

MOST_SLICES = 1000
"""How many offset ranges of a topic an event names; it has the number of all."""

_OBJECT_STORES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "abfs": "abfs", "abfss": "abfss", "wasbs": "wasbs"}
"""Where a name is a key and has no slash before it; all ways to reach S3 are one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetName:
    """How a dataset is called."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table."""

    name: str
    type: str
    doc: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDescription:
    """A table's description for people: its format and that of its files, their place, its columns, and the address of
    its catalog, as far as that has one."""

    format: str
    file_format: str
    location: str
    columns: tuple[Column, ...] = ()
    catalog: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRead:
    """A wave's input of a topic: offset ranges `(partition, start, end)`, and the number of their rows."""

    topic: str
    topic_id: str
    slices: tuple[tuple[int, int, int], ...]
    rows: int

    @property
    def offsets(self) -> int:
        """How many offsets were read."""
        return sum(end - start for _, start, end in self.slices)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveLineage:
    """The lineage of a wave: topics of a Kafka in, one version of a table out."""

    pipeline: str
    wave: str
    attempt: str | None
    kafka: str
    topics: tuple[TopicRead, ...]
    table: str
    described: TableDescription
    snapshot: int | None
    rows: int
    bytes: int | None
    application: str | None = None


def kafka_namespace(bootstrap: str) -> str:
    """Return the namespace of topics: the first broker that the connection names, as in Spark's events."""
    return f"kafka://{bootstrap.split(',', 1)[0].strip()}"


def name_of_location(location: str) -> DatasetName:
    """Return the name of a table by the place of its files; a login in it, a query and a fragment are left out."""
    parts = urlsplit(location)
    login, _, host = parts.netloc.rpartition("@")
    container = f"{login}@" if login and ":" not in login else ""
    path = parts.path.rstrip("/")
    if parts.scheme in {"", "file"}:
        return DatasetName(namespace="file", name=path or "/")
    if scheme := _OBJECT_STORES.get(parts.scheme):
        return DatasetName(namespace=f"{scheme}://{container}{host}", name=path.lstrip("/") or "/")
    return DatasetName(namespace=f"{parts.scheme}://{host}", name=path or "/")


def catalog_namespace(address: str) -> str:
    """Return the address of a catalog without login, query and fragment."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def topics_read(ranges: Iterable[RangeRecord]) -> tuple[TopicRead, ...]:
    """Return the inputs of some committed ranges, by topic; ranges that touch are one."""
    found = grouped((item.stream[:2], item) for item in ranges)
    return tuple(
        TopicRead(
            topic=topic,
            topic_id=topic_id,
            slices=tuple(
                (partition, start, end)
                for partition, offsets in sorted(offsets_by((i.stream.partition, i.range) for i in items).items())
                for start, end in offsets.to_pairs()
            ),
            rows=sum(item.rows or 0 for item in items),
        )
        for (topic, topic_id), items in sorted(found.items())
    )
