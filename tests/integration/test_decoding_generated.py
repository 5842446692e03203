"""Topics drawn at random, landed decoded: each row says what an independent library says, or has an error beside it.

KAFKA_LAKE_SEED sets what is drawn, KAFKA_LAKE_CASES how many records the nightly's part has:
`KAFKA_LAKE_CASES=10000 KAFKA_LAKE_SEED=7 python -m pytest -n 0 --whole tests/integration/test_decoding_generated.py`.
"""

from __future__ import annotations

import io
import json
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from airflow_kafka_lake.core.decoding import Decoder, Decoding, Format, RegisteredSchema
from airflow_kafka_lake.jobs.decoding.decode import decoded
from airflow_kafka_lake.services.reading import registered_decoder
from tests.decoding import avro, json_values, protobuf
from tests.decoding.cases import NONE, Case, Drawn, Stage
from tests.decoding.landing import Seen, land

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.spark_lake import SparkLake

pytestmark = [pytest.mark.integration, pytest.mark.timeout(3600)]

SEED = int(os.environ.get("KAFKA_LAKE_SEED", "2026"))
CASES = int(os.environ.get("KAFKA_LAKE_CASES", "3000"))
FORMATS = (avro, protobuf, json_values)
PER_TOPIC = 40

KNOWN: frozenset[str] = frozenset()
"""Peculiarities whose faults are known and not mended yet: a fault that is mended leaves this list."""


@pytest.fixture(scope="module", autouse=True)
def unlogged(spark: SparkSession) -> Iterator[None]:
    """What does not decode is an error in Spark's log, a thousand times."""
    spark.sparkContext.setLogLevel("OFF")
    yield
    spark.sparkContext.setLogLevel("ERROR")


@pytest.mark.parametrize("cases", [60, pytest.param(CASES, marks=pytest.mark.nightly)])
def test_what_lands_is_what_an_independent_library_says(spark: SparkSession, lake: SparkLake, cases: int) -> None:
    """No landing stops, and three readers read every row."""
    print(f"KAFKA_LAKE_SEED={SEED}")  # noqa: T201  # shown when it fails
    seen = Seen()
    number = 0
    with _quiet():
        while seen.cases < cases:
            land(spark, lake, FORMATS[number % len(FORMATS)].drawn(number, SEED, PER_TOPIC), seen)
            number += 1
    found = [item for item in seen.findings if not item.peculiar & KNOWN]
    kinds = Counter((item.kind, *sorted(item.peculiar)) for item in seen.findings)
    # The first of each topic: what is wrong with one record is often wrong with all.
    texts = {item.topic: f"{item.kind}, {item.topic}:\n  {item.text}" for item in reversed(found)}
    said = f"KAFKA_LAKE_SEED={SEED}, {seen.cases} cases, {seen.decoded} decoded\n"
    assert not found, said + "\n".join([*reversed(texts.values())][:20])
    assert seen.decoded, f"KAFKA_LAKE_SEED={SEED}: {kinds}"


@pytest.mark.nightly  # by day: the decoder by itself (unit/features/decoding)
def test_numbers_beyond_their_columns_are_errors(spark: SparkSession, lake: SparkLake) -> None:
    """Spark cuts seconds to 64 bits of microseconds, and a byte to eight; a half of a character may stand anywhere."""
    ddl = "at TIMESTAMP, small TINYINT, word STRING, inside ARRAY<STRUCT<at: TIMESTAMP, id: BIGINT>>"
    wrong = [
        '{"at": 18446744073710}',
        '{"at": -18446744073709}',
        '{"small": 200}',
        '{"word": "\\ud83d\\\\\\ude00"}',
        '{"inside": [{"at": 18446744073710, "id": 1}]}',
    ]
    cases = [Case(value=text.encode(), expected=NONE) for text in wrong]
    good = '{"small": -128, "word": "1234567890123", "inside": [{"id": 1234567890123}]}'
    cases.append(Case(value=good.encode(), expected={"small": -128, "word": "1234567890123"}, must=True))
    _lands(spark, lake, Decoding(format=Format.JSON, schema=ddl), (), cases)


@pytest.mark.nightly  # by day: the decoder by itself (unit/features/decoding)
def test_no_frame_and_no_schema_stops_a_landing(spark: SparkSession, lake: SparkLake) -> None:
    """Java's Avro refuses what registries of other makes hold, and four bytes may be more than an id. Values of a
    version that cannot be used say why."""
    fields: list[dict[str, Any]] = [
        {"name": "plain", "type": "int", "default": "0"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "b-c"], "default": "D"}},
        {"name": "months", "type": {"type": "int", "spark.sql.catalyst.type": "interval year to month"}},
    ]
    versions = _versions([fields, fields[2:]])
    value = b"\0\0\0\0\1" + b"\x02\x02\x06"
    cases = [
        Case(value=value, expected={"plain": 1, "kind": "b-c", "months": 3}, must=True),
        Case(value=b"\0\xff\xff\xff\xff\2", expected=NONE),
        Case(value=b"\0\x80\0\0\0\2", expected=NONE),
    ]
    asked = Decoding(format=Format.AVRO, registry="schemas")
    _lands(spark, lake, asked, versions[:1], cases)
    newest = Case(value=b"\0\0\0\0\2\x06", expected={"months": 3}, must=True)
    _lands(spark, lake, asked, versions, [Case(value=value, expected={"months": 3}, must=True), newest])
    why = "version 0 of it cannot be used: it refers to another"
    unusable = RegisteredSchema(id=3, version=0, format=None, text="", refused=why)
    with _quiet():
        rows = _decoded(spark, registered_decoder(asked, "given", [unusable, *versions]), b"\0\0\0\0\3x", newest.value)
        found = [(row.months, row.decode_error) for row in rows.collect()]
    assert found == [(None, f"schema id 3: {why}"), (3, None)]


@pytest.mark.nightly  # by day: the decoder by itself (unit/features/decoding)
def test_fields_go_by_their_names_and_numbers_keep_their_digits(spark: SparkSession, lake: SparkLake) -> None:
    """A name that was given away is the old field's; a whole number that no float is, is none."""
    old: dict[str, Any] = {"name": "b", "type": "long"}
    new: list[dict[str, Any]] = [
        {"name": "b", "type": "long", "default": 9},
        {"name": "a", "type": "double", "aliases": ["b"]},
    ]
    versions = _versions([[old], new])
    cases = [
        Case(value=b"\0\0\0\0\1\x0a", expected={"a": 5.0, "b": 9}, must=True),
        Case(value=b"\0\0\0\0\1" + bytes.fromhex("82808080808080 20"), expected=NONE),
        Case(value=b"\0\0\0\0\2\x0a" + bytes(8), expected={"a": 0.0, "b": 5}, must=True),
    ]
    _lands(spark, lake, Decoding(format=Format.AVRO, registry="schemas"), versions, cases)


@pytest.mark.nightly  # by day: unit/features/decoding/test_versions.py
def test_a_hundred_versions_have_one_reader(spark: SparkSession, lake: SparkLake) -> None:
    """What one version needs is what many need: to Spark they are the branches of one union. Types of the same name
    differ between them, fields and types are renamed, and the newest has no values."""
    kind = {"type": "enum", "name": "Kind", "symbols": ["A"]}
    size = {"type": "fixed", "name": "Size", "size": 2}
    records: list[list[dict[str, Any]]] = []
    for number in range(100):
        more = [{"name": f"x{at}", "type": "int", "default": at} for at in range(number % 7)]
        zone = {"name": "zip" if number < 50 else "code", "type": "int"}
        place = {"type": "record", "name": "Place", "fields": [zone, *more, {"name": "kind", "type": kind}]}
        records.append([*more, {"name": "place", "type": ["null", place]}, {"name": "size", "type": size}])
    zone = {"name": "code", "type": "int", "aliases": ["zip"]}
    place = {"type": "record", "name": "Place", "fields": [zone, {"name": "kind", "type": kind}]}
    last = {"name": "x9", "type": "string", "default": "nine"}
    records.append([last, {"name": "place", "type": ["null", place]}, {"name": "size", "type": size}])
    versions = _versions(records)
    asked = Decoding(format=Format.AVRO, registry="schemas")
    cases = []
    for version in versions:
        read = fastavro.parse_schema(json.loads(version.text))
        inside = {"zip": version.id, "code": version.id, "kind": "A", **{f"x{at}": 5 for at in range(7)}}
        out = io.BytesIO()
        fastavro.schemaless_writer(out, read, {**inside, "x9": "given", "place": inside, "size": b"ab"})
        value = b"\0" + version.id.to_bytes(4, "big") + out.getvalue()
        found = {"x9": "given" if version is versions[-1] else "nine", "size": b"ab"}
        cases += [Case(value=value, expected={**found, "place": {"code": version.id, "kind": "A"}}, must=True)]
        cases += [Case(value=value[:-1], expected=NONE), Case(value=value + b"\0", expected=NONE)]
    _lands(spark, lake, asked, versions, cases)
    made: list[Any] = [
        _decoded(spark, registered_decoder(asked, "given", given)) for given in (versions[-1:], versions)
    ]
    plans = [rows._jdf.queryExecution().analyzed().toString() for rows in made]
    assert [plan.count("from_avro(") for plan in plans] == [1, 1]
    assert not any("EvalPython" in plan for plan in plans)


def _decoded(spark: SparkSession, decoder: Decoder, *values: bytes) -> DataFrame:
    given = [("given", value) for value in values]
    return decoded(spark, spark.createDataFrame(given, "kafka_topic string, value binary"), [decoder])


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # PySpark leaves the closing of its sockets to the collector
        warnings.simplefilter("ignore", UserWarning)  # it looks for types of pandas in the hints of functions
        yield


def _versions(records: list[list[dict[str, Any]]]) -> list[RegisteredSchema]:
    texts = [json.dumps({"type": "record", "name": "Root", "fields": fields}) for fields in records]
    return [RegisteredSchema(id=n, version=n, format=Format.AVRO, text=text) for n, text in enumerate(texts, start=1)]


def _lands(
    spark: SparkSession, lake: SparkLake, asked: Decoding, versions: Sequence[RegisteredSchema], cases: Sequence[Case]
) -> None:
    def agrees(expected: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[str]:
        yield from (f"{name} lands as {row.get(name)!r}" for name, item in expected.items() if row.get(name) != item)

    at = Stage(asked=asked, versions=tuple(versions), cases=tuple(cases), agrees=agrees)
    seen = Seen()
    with _quiet():
        land(spark, lake, Drawn(name="given", stages=(at,), peculiar=frozenset(), versions=()), seen)
    assert not seen.findings
