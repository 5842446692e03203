"""The grammar of `partition_by`."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.adapters.iceberg.schema import LANDING, partition_spec
from airflow_kafka_lake.core.errors import PipelineFileError
from airflow_kafka_lake.pipeline import Pipeline


def kept(text: str) -> str:
    """Return `partition_by` as a pipeline keeps it."""
    return Pipeline(name="orders", topics=["orders"], table="raw.orders", partition_by=text).spec.partition_by


def parse(text: str) -> list[tuple[str, str, str]]:
    """Return `(source column, transform, partition field)` of each term."""
    fields = partition_spec(kept(text), LANDING).fields
    return [(LANDING.find_column_name(f.source_id) or "", str(f.transform), f.name) for f in fields]


@pytest.mark.parametrize("text", ["", "   "])
def test_empty_text_is_unpartitioned(text: str) -> None:
    """Nothing asked for, nothing partitioned."""
    assert partition_spec(kept(text), LANDING).is_unpartitioned()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kafka_topic", ("kafka_topic", "identity", "kafka_topic")),
        ("identity(kafka_topic)", ("kafka_topic", "identity", "kafka_topic")),
        ("years(kafka_timestamp)", ("kafka_timestamp", "year", "kafka_timestamp_year")),
        ("month(kafka_timestamp)", ("kafka_timestamp", "month", "kafka_timestamp_month")),
        ("days(kafka_timestamp)", ("kafka_timestamp", "day", "kafka_timestamp_day")),
        (" hours( kafka_timestamp ) ", ("kafka_timestamp", "hour", "kafka_timestamp_hour")),
        ("bucket(16, key)", ("key", "bucket[16]", "key_bucket")),
        ("truncate(8,kafka_topic)", ("kafka_topic", "truncate[8]", "kafka_topic_trunc")),
    ],
)
def test_each_transform_is_understood(text: str, expected: tuple[str, str, str]) -> None:
    """Singular and plural, with and without spaces."""
    assert parse(text) == [expected]


def test_terms_keep_their_order() -> None:
    """The first term is the outermost partition; commas inside parentheses do not separate."""
    assert [transform for _, transform, _ in parse("days(kafka_timestamp), bucket(16, key), kafka_partition")] == [
        "day",
        "bucket[16]",
        "identity",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "daily(kafka_timestamp)",
        "days(nothing)",
        "days(kafka_topic)",
        "days(4, kafka_timestamp)",
        "days()",
        "bucket(key)",
        "bucket(0, key)",
        "bucket(-1, key)",
        "bucket(x, key)",
        "bucket(16, headers)",
        "headers",
        "void(key)",
        "days(kafka_timestamp) bucket(16, key)",
        "days(kafka_timestamp),",
        "days(kafka_timestamp), days(kafka_timestamp)",
        "days(kafka_timestamp); drop table x",
    ],
)
def test_what_is_not_in_the_grammar_is_refused(text: str) -> None:
    """A partitioning is never guessed."""
    with pytest.raises(PipelineFileError, match="partition_by"):
        kept(text)
