"""The recorded configuration of a pipeline."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from airflow_kafka_lake.core.decoding import Decoding, Format, Limit
from airflow_kafka_lake.core.spec import (
    CONNECTION_ID,
    EARLIEST,
    GROUP_ID,
    PIPELINE_NAME,
    TABLE_PART,
    TOPIC_NAME,
    Isolation,
    Ordering,
    Partitioner,
    PipelineSpec,
    Policy,
    PolicyKind,
    legal_table_part,
    sql_table,
)

pytestmark = pytest.mark.unit

SPEC = PipelineSpec(name="orders", topics=("orders",), table="raw.orders")
OTHER = {
    "name": "payments",
    "kafka_connection": "k",
    "topics": ("a", "b"),
    "topic_pattern": "^a",
    "isolation": Isolation.READ_UNCOMMITTED,
    "start": Policy(kind=PolicyKind.GROUP, group="live"),
    "end": Policy(kind=PolicyKind.OFFSETS, offsets=(("orders", 0, 7),)),
    "ordering": Ordering.NONE,
    "partitioner": Partitioner.CRC32,
    "layout_grace": 60,
    "lake_connection": "l",
    "table": "raw.other",
    "partition_by": "days(kafka_timestamp)",
    "spark_connection": "s",
    "target_range_bytes": 1,
    "max_wave_bytes": 2,
    "leader_wait": 3,
    "stable_wait": 4,
    "audit_rate": 5,
    "sync_group": "g",
    "waves_at_once": 6,
    "bytes_per_second": 700_000,
    "decoding": Decoding(format=Format.AVRO, registry="r", limit=Limit(share=0.01)),
}


def test_stored_form_reads_back() -> None:
    """What the ledger stores is JSON and gives the same value again."""
    rich = PipelineSpec(**OTHER)  # type: ignore[arg-type]
    for spec in (SPEC, rich):
        assert PipelineSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_a_pipeline_without_decoding_is_stored_as_before_there_was_any() -> None:
    """Ledgers of older versions are read, and the digest of what they hold has not changed."""
    assert "decoding" not in SPEC.to_json()
    assert SPEC.digest == "d775ca6ca933a4e1"
    assert PipelineSpec.from_json({**SPEC.to_json(), "decoding": None}) == SPEC


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(PipelineSpec)])
def test_digest_changes_with_every_field(field: str) -> None:
    """No setting can change without a new version of the pipeline."""
    assert dataclasses.replace(SPEC, **{field: OTHER[field]}).digest != SPEC.digest


def test_digest_is_sixteen_hex_digits_of_the_value_alone() -> None:
    """The same configuration has the same digest in every process."""
    assert re.fullmatch("[0-9a-f]{16}", SPEC.digest)
    assert PipelineSpec.from_json(SPEC.to_json()).digest == SPEC.digest


@pytest.mark.parametrize(
    ("pattern", "good"),
    [
        (PIPELINE_NAME, "orders.v2_a-b"),
        (TOPIC_NAME, "Orders._-9"),
        (GROUP_ID, "my group ✓"),
        (CONNECTION_ID, "kafka:prod#1"),
        (TABLE_PART, "Orders_1-a"),
    ],
)
@pytest.mark.parametrize("poison", ["\n", "\r\n", "\x00", "\x1b[31m", "\x7f"])
def test_no_name_admits_control_characters(pattern: re.Pattern[str], good: str, poison: str) -> None:
    """A trailing newline passes `$` but not a match of the whole."""
    assert pattern.fullmatch(good)
    assert not any(map(pattern.fullmatch, (good + poison, poison + good, poison)))


@pytest.mark.parametrize("pattern", [PIPELINE_NAME, TOPIC_NAME, CONNECTION_ID, TABLE_PART])
@pytest.mark.parametrize("bad", ["", "a b", "a'b", 'a"b', "a;b", "a/b", "../a", "a`b", "оrders", "ordérs", "a" * 250])
def test_names_that_reach_statements_are_plain(pattern: re.Pattern[str], bad: str) -> None:
    """Quotes, separators, paths and look-alike letters are in no name that reaches SQL or a path."""
    assert not pattern.fullmatch(bad)


def test_topics_never_share_a_mapped_table() -> None:
    """Names that differ only in `.`, `-` and `_` stay apart, and the result is a legal table part."""
    alphabet = "ad_.-"
    names = [a + b + c + d for a in alphabet for b in alphabet for c in alphabet for d in alphabet]
    names += ["orders_d_eu", "orders.eu", "orders_eu", "orders-eu", "orders__eu", "orders._eu", "orders_.eu", "o_h_x"]
    mapped = {legal_table_part(name) for name in names}
    assert len(mapped) == len(set(names))
    assert all(TABLE_PART.fullmatch(name) for name in mapped)


def test_table_is_quoted_where_sql_needs_it() -> None:
    """Parts of letters alone stay as people write them."""
    assert sql_table("raw.orders_1") == "raw.orders_1"
    assert sql_table("lake-raw.2026.orders") == "`lake-raw`.`2026`.orders"


def test_table_for_puts_the_topic_in() -> None:
    """Without the placeholder all topics share the table."""
    assert SPEC.table_for("a.b") == "raw.orders"
    assert dataclasses.replace(SPEC, table="raw.k_{topic}").table_for("a.b") == "raw.k_a_d_b"


def test_explicit_offset_of_one_partition() -> None:
    """A policy that names no offset of a partition says None, never 0."""
    policy = Policy(kind=PolicyKind.OFFSETS, offsets=(("a", 0, 0), ("a", 1, 5)))
    assert policy.offset_for("a", 0) == 0
    assert policy.offset_for("a", 1) == 5
    assert policy.offset_for("b", 1) is None
    assert EARLIEST.offset_for("a", 0) is None
