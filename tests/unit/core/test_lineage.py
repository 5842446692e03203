"""The names of topics and tables in OpenLineage, and what a wave has read."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.reports.lineage import (
    catalog_namespace,
    kafka_namespace,
    name_of_location,
    topics_read,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("bootstrap", "namespace"),
    [
        ("broker:9092", "kafka://broker:9092"),
        ("b-1:9093, b-2:9093", "kafka://b-1:9093"),
        ("[::1]:9092", "kafka://[::1]:9092"),
    ],
)
def test_topics_are_of_the_first_broker(bootstrap: str, namespace: str) -> None:
    """As the specification has it, and Spark's own events."""
    assert kafka_namespace(bootstrap) == namespace


@pytest.mark.parametrize(
    ("location", "namespace", "name"),
    [
        ("file:///data/warehouse/raw/orders", "file", "/data/warehouse/raw/orders"),
        ("/data/warehouse/raw/orders/", "file", "/data/warehouse/raw/orders"),
        ("s3://lake/raw/orders", "s3://lake", "raw/orders"),
        ("s3a://lake/raw/orders/", "s3://lake", "raw/orders"),
        ("gs://lake/raw/orders", "gs://lake", "raw/orders"),
        ("abfss://box@account.dfs.core.windows.net/raw", "abfss://box@account.dfs.core.windows.net", "raw"),
        ("hdfs://namenode:8020/raw/orders", "hdfs://namenode:8020", "/raw/orders"),
        ("s3://lake", "s3://lake", "/"),
        ("s3://key:canary@lake/raw?token=canary#canary", "s3://lake", "raw"),
        ("hdfs://user:canary@namenode/raw", "hdfs://namenode", "/raw"),
    ],
)
def test_table_is_named_by_the_place_of_its_files(location: str, namespace: str, name: str) -> None:
    """One table has one name, whichever way leads to it; no login is ever part of it."""
    found = name_of_location(location)
    assert (found.namespace, found.name) == (namespace, name)


def test_catalog_is_named_without_what_is_secret() -> None:
    """Its address, neither login nor query."""
    assert catalog_namespace("https://u:canary@catalog:8181/api/?token=canary#x") == "https://catalog:8181/api"
    assert catalog_namespace("file:///data/warehouse") == "file:///data/warehouse"


def test_ranges_that_touch_are_read_as_one() -> None:
    """By topic and partition, with the rows of all."""

    def item(topic: str, partition: int, start: int, end: int, rows: int) -> RangeRecord:
        return RangeRecord(
            id=f"{topic}{partition}{start}", pipeline="p", plan="1", wave="w", state=RangeState.COMMITTED, reason=None,
            slice=Slice(Stream(topic, "T", partition), OffsetRange(start, end)), estimated_bytes=1, rows=rows,
        )  # fmt: skip

    first, second = topics_read(
        [item("b", 0, 0, 4, 1), item("a", 1, 5, 9, 2), item("a", 1, 2, 5, 3), item("a", 0, 0, 1, 1)]
    )
    assert (first.topic, first.slices, first.rows, first.offsets) == ("a", ((0, 0, 1), (1, 2, 9)), 6, 8)
    assert (second.topic, second.slices) == ("b", ((0, 0, 4),))
