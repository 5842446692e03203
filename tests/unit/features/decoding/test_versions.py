"""Values of older versions mean what their writers meant: Avro's logical types, Protobuf's messages and fields."""

from __future__ import annotations

import base64
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from pyspark.sql import types as t

from airflow_kafka_lake.core.decoding import Decoder, Format
from airflow_kafka_lake.jobs.decoding import protobuf
from airflow_kafka_lake.jobs.decoding.avro import Resolution, reader
from airflow_kafka_lake.jobs.decoding.avro_schema import Unfit, column_types, parsed, row_of
from tests.protos import compiled, message_class

pytestmark = pytest.mark.unit

NOW = datetime(2026, 1, 1, 10, 0, 0, 123000, UTC)


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    """Return a record's schema; a field is its type, its name a letter, or a whole field."""
    named = [f if isinstance(f, dict) and "name" in f and "type" in f and "fields" not in f else None for f in fields]
    return {
        "type": "record",
        "name": name,
        "fields": [whole or {"name": chr(97 + i), "type": fields[i]} for i, whole in enumerate(named)],
    }


def written(schema: Any, value: Any) -> bytes:
    """Return a value as an independent library writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def resolution(writer: Any, reader: Any) -> Resolution:
    return Resolution(parsed(json.dumps(writer)), parsed(json.dumps(reader)))


def read(writer: Any, reader: Any, value: Any) -> Any:
    """Return the columns of a value, or why there are none."""
    try:
        return resolution(writer, reader).row(written(writer, value))
    except Unfit as error:
        return str(error)


def of(kind: str, logical: str, **further: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **further}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return of("bytes", "decimal", precision=precision, scale=scale)


@pytest.mark.parametrize(
    ("was", "now", "value", "found"),
    [
        (decimal(10, 2), decimal(12, 4), Decimal("123.45"), Decimal("123.4500")),
        (decimal(12, 4), decimal(10, 2), Decimal("-123.4500"), Decimal("-123.45")),
        (decimal(12, 4), decimal(10, 2), Decimal("123.4501"), "more digits behind the point than decimal(10,2)"),
        (decimal(12, 2), decimal(4, 2), Decimal("123.45"), "more digits than decimal(4,2)"),
        (of("long", "timestamp-millis"), of("long", "timestamp-micros"), NOW, NOW),
        (of("long", "timestamp-micros"), of("long", "timestamp-millis"), NOW, NOW),
        (of("long", "timestamp-millis"), of("long", "timestamp-nanos"), NOW, 1767261600123000000),
        (of("long", "local-timestamp-millis"), of("long", "local-timestamp-micros"), NOW, NOW.replace(tzinfo=None)),
        (of("int", "time-millis"), of("long", "time-micros"), NOW.time(), 36000123000),
        (of("int", "date"), of("int", "date"), date(2026, 1, 1), date(2026, 1, 1)),
        (of("long", "timestamp-millis"), of("long", "local-timestamp-millis"), NOW, "the newest version says"),
        (
            of("long", "timestamp-millis"),
            "long",
            NOW,
            "it was written as timestamp-millis, and the newest version says",
        ),
        ("long", of("long", "timestamp-millis"), 7, "it was written as long, and the newest version says timestamp"),
        (of("int", "date"), of("long", "timestamp-millis"), date(2026, 1, 1), "it was written as date"),
        (of("int", "date"), "long", date(2026, 1, 1), "it was written as date"),
        ("bytes", decimal(10, 2), b"\1", "it was written as bytes, and the newest version says decimal(10,2)"),
        (of("string", "uuid"), "string", "a", ("a")),
        (["null", decimal(10, 2)], ["null", decimal(12, 4)], Decimal("1.25"), Decimal("1.2500")),
        (["null", "int", "long"], ["null", "int", "long"], None, None),
        (["null", "int", "long"], ["null", "int", "long"], 5, 5),
    ],
    ids=str,
)
def test_logical_types_are_the_writers(was: Any, now: Any, value: Any, found: Any) -> None:
    """Neither Avro nor registries compare them: a number is converted, or does not decode, and is never another one."""
    if was == of("string", "uuid"):
        was, value = of("string", "none"), "a"
    seen = read(record(was), record(now), {"a": value})
    if isinstance(found, str) and found != "a":
        assert seen.startswith("field a: ")
        assert found in seen
    else:
        assert seen == (found,)


@pytest.mark.parametrize("nanos", [1767261600123456789, 1])
def test_nanoseconds_that_a_column_of_times_cannot_hold_are_an_error(nanos: int) -> None:
    """Microseconds of the same moment are not the same moment."""
    was, now = record(of("long", "timestamp-nanos")), record(of("long", "timestamp-micros"))
    with pytest.raises(Unfit, match=r"field a: it is a time between two that the column holds"):
        resolution(was, now).row(written(record("long"), {"a": nanos}))


@pytest.mark.parametrize(
    ("was", "now", "is_plain"),
    [
        (record({"type": "array", "items": ["null"]}), record({"type": "array", "items": ["null"]}), False),
        (record({"type": "map", "values": "null"}), record({"type": "map", "values": "null"}), False),
        (record("int", decimal(10, 2)), record("long", decimal(10, 2)), True),
        (record(decimal(10, 2)), record(decimal(12, 2)), False),
        (record(["null", of("long", "timestamp-millis")]), record(["null", of("long", "timestamp-micros")]), False),
        (record({"type": "array", "items": decimal(9, 1)}), record({"type": "array", "items": decimal(9, 2)}), False),
        (record("int"), record({"name": "b", "type": "int", "aliases": ["a"]}), True),
        (record("string"), record("int"), False),
        (record(record(name="E")), record(record(name="E")), False),
        (record(decimal(64, 18)), record(decimal(64, 18)), False),
        (["null", record("int")], ["null", record("int")], False),
        (record(["null", "R"]), record(["null", "R"]), False),
        (record("null"), record("null"), False),
        (record("int", ["null", "R"]), record("int"), False),  # Java would end where such a value is deep
        (record("int", record("int", name="Q"), "Q"), record("int"), True),
        (record(["null", "int", "long"]), record(["null", "int", "long"]), True),
    ],
    ids=str,
)
def test_spark_reads_the_versions_that_mean_the_same(was: Any, now: Any, is_plain: bool) -> None:
    """Every other version is read in Python, value by value."""
    assert resolution(was, now).is_plain is is_plain


def test_what_no_table_holds_has_a_substitute() -> None:
    """An empty record says whether it is there, a decimal of many digits is text, a record in itself is JSON."""
    schema = record("int", ["null", "R"], ["null", record(name="E")], decimal(64, 18), "null", ["int", "string"])
    kinds = dict(column_types(row_of(parsed(json.dumps(schema)))))
    union = t.StructType([t.StructField("member0", t.IntegerType()), t.StructField("member1", t.StringType())])
    expected = {"a": t.IntegerType(), "b": t.StringType(), "c": t.BooleanType(), "d": t.StringType(), "f": union}
    assert kinds == expected
    inner = {"a": 2, "b": None, "c": None, "d": Decimal("1.5"), "e": None, "f": "x"}
    a, b, c, d, f = read(
        schema, schema, {"a": 1, "b": inner, "c": {}, "d": Decimal("-0.000000000000000001"), "e": None, "f": 3}
    )
    assert (a, c, d, f) == (1, True, "-0.000000000000000001", (3, None))
    assert json.loads(b) == inner | {"d": "1.500000000000000000"}


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        (b"\2\xff", "field a: the text is not UTF-8"),
        (b"\2a\0", "1 bytes are left behind the value"),
        (b"\4a", "field a: the bytes end before the value does, or a length in them is none"),
        (b"\1", "field a: the bytes end before the value does, or a length in them is none"),
        (b"\xff" * 11, "field a: a number has too many bytes"),
    ],
)
def test_bytes_that_are_no_value_are_an_error_with_the_field(value: bytes, cause: str) -> None:
    with pytest.raises(Unfit) as refused:
        resolution(record("string"), record("string")).row(value)
    assert str(refused.value) == cause


def test_number_of_more_digits_than_python_writes_ends_no_job() -> None:
    """Bytes of a decimal may be any, and a reader in Spark must not raise."""
    schema = json.dumps(record(decimal(10, 2)))
    why = "field a: it has more digits than decimal(10,2)"
    assert reader(schema, [(1, schema)])(1, written(record("bytes"), {"a": b"\x7f" * 4000})) == (None, why)


@pytest.mark.parametrize("text", ["", "[", "{}", '{"type": "record"}', '"nothing"', "[" * 3000, '{"type": 5}'])
def test_schema_that_is_none_is_unfit(text: str) -> None:
    """Not an exception that ends the job."""
    with pytest.raises(Unfit):
        row_of(parsed(text))


V1 = 'syntax = "proto3"; package p; message A { int32 n = 1; string s = 2; } message B { int32 n = 1; }'
V2 = """syntax = "proto3"; package p;
message B { int32 n = 1; }
message A { int64 n = 1; int32 s = 2; optional int32 o = 3; Empty e = 4; A self = 5; message Empty {} }
"""


def described(text: str) -> str:
    """Return a file as the registry's client gives it to a job."""
    return base64.b64encode(compiled("p.proto", {"p.proto": text}).SerializeToString()).decode()


def reader_of(*texts: str, message: str = "p.A") -> Any:
    """Return the reader of a subject with these versions; the last is the newest, their ids begin at 1."""
    writers = tuple((number, described(text)) for number, text in enumerate(texts, 1))
    return protobuf.reader(
        Decoder(
            format=Format.PROTOBUF,
            topics=("t",),
            name="t-value",
            schema=writers[-1][1],
            writers=writers,
            message=message,
        )
    )


def sent(text: str, name: str, **fields: Any) -> bytes:
    """Return a message's bytes."""
    found: bytes = message_class(compiled("p.proto", {"p.proto": text}), name)(**fields).SerializeToString()
    return found


def test_index_of_a_message_is_that_of_the_writers_file() -> None:
    """In a version that has them the other way round, an A is an A and a B is no A."""
    read = reader_of(V1, V2)
    assert read(1, b"\0" + sent(V1, "p.A", n=7))[0] == (7, 0, None, None, None)
    assert read(1, b"\2\2" + sent(V1, "p.B", n=7)) == (None, "it is a p.B, another message than p.A")
    assert read(2, b"\2\2" + sent(V2, "p.A", n=7, o=1))[0] == (7, 0, 1, None, None)
    assert read(2, b"\0" + sent(V2, "p.B", n=7)) == (None, "it is a p.B, another message than p.A")
    assert read(1, b"\2\6" + sent(V1, "p.B", n=7))[1] == "the schema has no message at index 3"


def test_number_of_a_field_that_means_something_else_now_is_an_error() -> None:
    """Protobuf itself would leave the text out, and the column would say 0."""
    read = reader_of(V1, V2)
    assert read(1, b"\0" + sent(V1, "p.A", s="5")) == (
        None,
        "field s: it was written as string, and the newest version says int32",
    )


def test_text_of_a_proto2_file_that_is_no_text_is_an_error() -> None:
    """The library takes any bytes there and gives them as bytes, which are not the column's."""
    text = 'syntax = "proto2"; package p; message A { optional string x = 1; }'
    assert reader_of(text)(1, b"\0\x0a\1\xff") == (None, "field x: the text is not UTF-8")
    assert reader_of(text, text.replace("string", "bytes"))(1, b"\0\x0a\1\xff")[1] == "field x: the text is not UTF-8"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"\x0a\5hello", "field n: what was written is no int32"),
        (b"\x10\x4d", "field kind: what was written is no enum"),
        (b"\x18\x4d", "field kinds: what was written is no repeated enum"),
        (b"\x22\3\x0a\1x", "field at.seconds: what was written is no int64"),
        (b"\x2a\4\x2a\2\x10\x4d", "field self.kind: what was written is no enum"),
        (b"\x32\6\x0a\1a\x12\1b", "field sizes: what was written is no repeated p.A.SizesEntry"),
        (b"\x98\6\1", None),
    ],
    ids=str,
)
def test_field_that_is_there_in_another_form_is_an_error(value: bytes, why: str | None) -> None:
    """The library puts it aside, like a number that a closed enum lacks, and the column would be null or a default."""
    text = (
        'syntax = "proto2"; package p; import "google/protobuf/timestamp.proto"; enum E { ONE = 1; } message A '
        "{ optional int32 n = 1; optional E kind = 2; repeated E kinds = 3; optional google.protobuf.Timestamp at = 4; "
        "optional A self = 5; map<string, int32> sizes = 6; }"
    )
    assert reader_of(text)(1, b"\0" + value)[1] == why


def test_messages_that_no_table_holds_have_a_substitute() -> None:
    """An empty one says whether it is there, one in itself is JSON."""
    read = reader_of(V2)
    value = sent(V2, "p.A", e={}, self={"n": 2, "self": {"n": 3}})
    (_, _, _, empty, own), why = read(1, b"\2\2" + value)
    assert (why, empty, json.loads(own)) == (None, True, {"n": "2", "self": {"n": "3"}})


@pytest.mark.parametrize(
    ("was", "now", "value", "found"),
    [
        ("int32", "int64", -1, -1),
        ("int64", "int32", 2**40, "it is no int32"),
        ("sint32", "int32", -5, -5),
        ("int32", "sint32", -5, -5),
        ("uint32", "int32", 2**32 - 1, "it is no int32"),
        ("fixed32", "float", 7, "it was written as fixed32, and the newest version says float"),
        ("double", "float", 0.1, "it is no float"),
        ("float", "double", 0.5, 0.5),
        ("bytes", "string", b"\xff", "its value is none that a column can have"),
        ("string", "bytes", "ä", "ä".encode()),
        ("repeated int32", "int32", [1], 1),
        ("repeated int32", "int32", [1, 2], "it was written as repeated int32 and has 2 of them"),
        ("int32", "repeated int32", 3, [3]),
        ("bool", "int32", True, 1),
        ("E", "int32", 1, 1),
        ("E", "F", 1, "number 1 was written as ONE, which has another number now"),
    ],
    ids=str,
)
def test_scalars_are_the_writers(was: str, now: str, value: Any, found: Any) -> None:
    """Where two kinds share a form on the wire and mean different numbers, the writer's counts."""
    enums = "enum E { NONE = 0; ONE = 1; TWO = 2; } enum F { ZERO = 0; TWICE = 1; F_TWO = 3; %s = 2; }"
    old, new = (
        f'syntax = "proto3"; package p; message A {{ {kind} x = 1; {enums % one} }}'
        for kind, one in ((was, "OTHER"), (now, "SAME"))
    )
    if now == "F":
        new = new.replace("enum E { NONE = 0; ONE = 1; TWO = 2; }", "").replace("SAME", "ONE")
    seen, why = reader_of(old, new)(1, b"\0" + sent(old, "p.A", x=value))
    assert (why if seen is None else seen[0]) == (f"field x: {found}" if isinstance(found, str) else found)
