"""The proof: every row of the table against what the broker acknowledged, byte for byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_kafka_lake.local.demo_topics import Acknowledged, digest

NUMBERS = ("visible", "control", "aborted", "compacted", "skipped", "unexplained")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProof:
    """One topic: what was acknowledged, what is in the table, and the pipeline's own accounting beside it."""

    topic: str
    partitions: int
    offsets: int
    visible_expected: int
    rows: int
    duplicates: int
    missing: int
    different: int
    unexpected: int
    accounting: Mapping[str, int]

    @property
    def ok(self) -> bool:
        """Return whether every acknowledged record, of some at least, is there once and nothing else is."""
        wrong = self.duplicates + self.missing + self.different + self.unexpected + self.accounting["unexplained"]
        return (
            wrong == 0 < self.visible_expected
            and self.rows == self.visible_expected
            and sum(self.accounting.values()) == self.offsets
        )


def read_rows(catalog_uri: str, warehouse: str, table: str) -> dict[str, Counter[tuple[int, int, bytes]]]:
    """Read the table as any reader would and count rows by topic as `(partition, offset, digest)`."""
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("lake", type="sql", uri=catalog_uri, warehouse=warehouse)
    found: dict[str, Counter[tuple[int, int, bytes]]] = {}
    scan = catalog.load_table(table).scan(
        selected_fields=("kafka_topic", "kafka_partition", "kafka_offset", "key", "value", "headers")
    )
    for batch in scan.to_arrow_batch_reader():
        for row in batch.to_pylist():
            headers = [(item["key"], item["value"]) for item in row["headers"] or []]
            content = digest(row["key"], row["value"], headers)
            found.setdefault(row["kafka_topic"], Counter())[row["kafka_partition"], row["kafka_offset"], content] += 1
    return found


def prove(
    topics: Sequence[Acknowledged],
    ends: Mapping[str, int],
    rows: Mapping[str, Counter[tuple[int, int, bytes]]],
    audit: Mapping[str, Any],
) -> list[TopicProof]:
    """Hold the table against the acknowledgements; `ends` is the number of offsets of each topic, `audit` the
    pipeline's own document (only its accounting is taken from it)."""
    return [_prove(topic, ends[topic.topic], rows.get(topic.topic, Counter()), audit) for topic in topics]


def _prove(
    topic: Acknowledged, offsets: int, rows: Counter[tuple[int, int, bytes]], audit: Mapping[str, Any]
) -> TopicProof:
    there = Counter({(partition, offset): 0 for partition, offset, _ in rows})
    for (partition, offset, _), count in rows.items():
        there[partition, offset] += count
    accounting = dict.fromkeys(NUMBERS, 0)
    for stream in audit["streams"]:
        if stream["topic"] == topic.topic:
            for name in NUMBERS:
                accounting[name] += stream["accounting"][name]
    return TopicProof(
        topic=topic.topic,
        partitions=topic.partitions,
        offsets=offsets,
        visible_expected=len(topic.visible),
        rows=sum(rows.values()),
        duplicates=sum(count - 1 for count in there.values()),
        missing=len(topic.visible.keys() - there.keys()),
        different=sum(1 for p, o, content in rows if topic.visible.get((p, o), content) != content),
        unexpected=len(there.keys() - topic.visible.keys()),
        accounting=accounting,
    )
