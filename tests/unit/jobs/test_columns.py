"""How a table is widened for decoded columns, in types only: no Spark is started."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import reduce
from typing import Any

import pytest
from pyspark.sql import types as t

from airflow_kafka_lake.core.ddl import changes, refused
from airflow_kafka_lake.core.decoding import column_of
from airflow_kafka_lake.core.errors import RefusedError
from airflow_kafka_lake.core.offsets import Slice, Stream
from airflow_kafka_lake.core.spark.job import OWN_COLUMNS
from airflow_kafka_lake.jobs.decoding import protobuf
from airflow_kafka_lake.jobs.decoding.quirks import _paths
from airflow_kafka_lake.jobs.formats import (
    aligned,
)
from tests.consumer_jar import SOURCE

pytestmark = pytest.mark.unit

S, I, L = t.StringType(), t.IntegerType(), t.LongType()  # noqa: E741


def struct(**fields: t.DataType) -> t.StructType:
    """Return a struct type."""
    return t.StructType([t.StructField(name, kind) for name, kind in fields.items()])


def needed(table: t.StructType, **wanted: t.DataType) -> list[str]:
    """Return the changes of a table."""
    return changes(table.jsonValue(), struct(**wanted).jsonValue(), "the schema")


@pytest.mark.parametrize(
    ("there", "wanted", "change"),
    [
        (None, I, "ADD COLUMNS (`a` int)"),
        (I, I, None),
        (I, L, "ALTER COLUMN `a` TYPE bigint"),
        (L, I, None),
        (I, t.ShortType(), None),
        (t.FloatType(), t.DoubleType(), "ALTER COLUMN `a` TYPE double"),
        (t.DoubleType(), t.FloatType(), None),
        (t.DecimalType(9, 2), t.DecimalType(12, 2), "ALTER COLUMN `a` TYPE decimal(12,2)"),
        (t.DecimalType(12, 2), t.DecimalType(9, 2), None),
        (struct(x=I), struct(x=L, y=S), "ADD COLUMNS (`a`.`y` string); ALTER COLUMN `a`.`x` TYPE bigint"),
        (t.ArrayType(struct(x=I)), t.ArrayType(struct(y=S)), "ADD COLUMNS (`a`.element.`y` string)"),
        (t.MapType(S, I), t.MapType(S, L), "ALTER COLUMN `a`.value TYPE bigint"),
    ],
    ids=str,
)
def test_columns_are_added_and_widened(there: t.DataType | None, wanted: t.DataType, change: str | None) -> None:
    """By Iceberg's rules; a narrower schema leaves the table as it is."""
    table = struct(**({} if there is None else {"a": there}))
    assert "; ".join(needed(table, a=wanted)) == (change or "")


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        (S, I),
        (I, S),
        (t.FloatType(), I),
        (t.DecimalType(9, 2), t.DecimalType(9, 3)),
        (struct(x=I), I),
        (t.MapType(S, I), t.MapType(I, I)),
        (t.ArrayType(S), t.ArrayType(I)),
        (t.TimestampType(), t.TimestampNTZType()),
    ],
    ids=str,
)
def test_another_type_is_refused(there: t.DataType, wanted: t.DataType) -> None:
    """The column, both types and the way out are named."""
    with pytest.raises(RefusedError, match=r"column a.* in the table and .* in the schema: .* Keep its type"):
        needed(struct(a=there), a=wanted)


def test_names_are_compared_as_spark_does() -> None:
    """Regardless of case: two columns that differ in it would be one."""
    assert needed(struct(Amount=I), amount=L) == ["ALTER COLUMN `amount` TYPE bigint"]


class Known:
    """A column of one row, whose value is known: what of Spark's columns the alignment takes, for values of Python."""

    def __init__(self, value: Any, name: str = "") -> None:
        self.value, self.name = value, name

    def getField(self, name: str) -> Known:  # noqa: N802 - Spark's name
        return Known(None if self.value is None else self.value[name])

    def isNotNull(self) -> bool:  # noqa: N802 - Spark's name
        return self.value is not None

    def cast(self, kind: t.DataType) -> Known:
        return Known(self.value if self.value is None else f"{self.value} as {kind.simpleString()}")

    def alias(self, name: str) -> Known:
        return Known(self.value, name)


KNOWN = {
    "lit": Known,
    "struct": lambda *columns: Known({item.name: item.value for item in columns}),
    "when": lambda holds, column: column if holds else Known(None),
    "transform": lambda column, of: Known([of(Known(item)).value for item in column.value]),
    "transform_values": lambda column, of: Known(
        {key: of(Known(key), Known(item)).value for key, item in column.value.items()}
    ),
}


@pytest.mark.parametrize(
    ("there", "wanted", "value", "found"),
    [
        (struct(x=I), struct(x=I, y=S), {"x": 1}, {"x": 1, "y": None}),
        (struct(X=I), struct(y=S, x=L), {"X": 1}, {"y": None, "x": "1 as bigint"}),
        (struct(x=I), struct(x=I, y=S), None, None),
        (struct(a=struct(x=I)), struct(a=struct(x=I, y=S)), {"a": {"x": 1}}, {"a": {"x": 1, "y": None}}),
        (t.ArrayType(struct(x=I)), t.ArrayType(struct(y=S, x=I)), [{"x": 1}], [{"y": None, "x": 1}]),
        (t.MapType(S, I), t.MapType(S, L), {"k": 1}, {"k": "1 as bigint"}),
        (I, I, 1, 1),
    ],
    ids=str,
)
def test_decoded_value_keeps_what_it_has_and_lacks_what_the_table_has_more(
    there: t.DataType, wanted: t.DataType, value: Any, found: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any depth: an older schema lands in the table of a newer one, and no struct comes into being out of null."""
    from pyspark.sql import functions

    for name, known in KNOWN.items():
        monkeypatch.setattr(functions, name, known)
    assert aligned(Known(value), there, wanted).value == found  # type: ignore[arg-type, comparison-overlap]


def test_columns_that_every_table_has_are_named_once() -> None:
    """What a job writes, what the table is made of, and the list that others read."""
    from airflow_kafka_lake.adapters.iceberg.schema import LANDING
    from airflow_kafka_lake.core.offsets import OffsetRange
    from airflow_kafka_lake.core.spark.job import LANDED, StageJob
    from airflow_kafka_lake.core.spec import Isolation
    from airflow_kafka_lake.jobs.stage import columns

    slice_ = Slice(Stream("orders", "AAAA", 0), OffsetRange(0, 1))
    job = StageJob(
        pipeline="orders",
        wave="w0",
        attempt="0" * 16,
        table="raw.orders",
        isolation=Isolation.READ_COMMITTED,
        slices=(slice_,),
        tasks=1,
        max_records_per_partition=None,
    )
    assert tuple(column.rsplit(" AS ", 1)[-1] for column in columns(job)) == LANDED
    assert tuple(field.name for field in LANDING.fields) == LANDED
    assert tuple(re.findall(r'^ +\.add\("(\w+)"', SOURCE.read_text(encoding="utf-8"), re.MULTILINE)) == LANDED


@pytest.mark.parametrize(
    ("name", "column"),
    [
        *[(name, f"value_{name}") for name in ("_Deleted", "_change_type", "_file", "_partition", "_pos", "_spec_id")],
        ("value", "value_value"),
        ("Key", "value_Key"),
        ("value_key", "value_value_key"),
        ("value_value_key", "value_value_value_key"),
        ("decode_error", "value_decode_error"),
        ("value_schema_id", "value_value_schema_id"),
        ("value_amount", "value_amount"),
        ("id", "id"),
    ],
)
def test_fields_with_names_of_columns_that_are_there_get_a_prefix(name: str, column: str) -> None:
    """Those of every table, and those that Spark reads no table with. No other field ever gets a column of that name,
    whatever a newer schema adds."""
    assert column_of(name, OWN_COLUMNS) == column


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (struct(a=struct()), "has a field a that is a struct without fields"),
        (struct(a=I, A=I), "has fields a and A, which are one to SQL"),
        (struct(**{"a.b": I}), "has a field 'a.b' that has the character '.'"),
        (
            struct(a=t.ArrayType(t.VarcharType(5))),
            "has a field a that is varchar(5), which no table of the lake has: use STRING",
        ),
        (struct(a=t.NullType()), "has a field a that is void, which no table of the lake has"),
        (t.MapType(struct(a=I), I), "has keys of type struct<`a`: int>"),
        (reduce(lambda kind, _: t.ArrayType(kind), range(70), I), "is more than 64 types deep"),
        (struct(**{"zip-code": I, "@type": S, "größe": L}), None),
        (t.MapType(S, t.ArrayType(struct(a=t.DecimalType(38, 38)))), None),
    ],
    ids=str,
)
def test_types_that_no_reader_of_the_table_takes_are_known_before_it_is_touched(
    kind: t.DataType, problem: str | None
) -> None:
    """At any depth, with the field."""
    assert refused(kind.jsonValue()) == problem


def test_names_are_quoted_at_any_depth() -> None:
    """A name is data: none of it becomes SQL."""
    odd = struct(**{"zip-code": I, "a`; DROP": t.ArrayType(struct(**{"x y": S}))})
    assert needed(struct(place=struct()), place=odd, **{"top-most": I}) == [
        "ADD COLUMNS (`place`.`zip-code` int, `place`.`a``; DROP` array<struct<`x y`: string>>, `top-most` int)",
    ]


def test_fields_are_reached_through_structs() -> None:
    """Each by its path; not through lists and maps, and not by a name that would end the path."""
    schema = struct(a=struct(b=I, c=struct(d=S)), e=t.ArrayType(I), **{"o'clock": I})
    found = [(path, kind) for path, kind in _paths(schema, "value") if not isinstance(kind, t.ArrayType)]
    assert found == [("value['a']['b']", I), ("value['a']['c']['d']", S)]


def test_every_kind_of_protobuf_value_has_a_column_type() -> None:
    """A message with one of each; the words for the types are Spark's own. Unsigned ones have the next wider type."""
    from google.protobuf import descriptor_pb2, descriptor_pool

    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="all.proto", syntax="proto3")
    file.enum_type.add(name="Colour").value.add(name="RED", number=0)
    fields = file.message_type.add(name="All").field
    words = {
        "bool": "boolean",
        "bytes": "binary",
        "enum": "string",
        "string": "string",
        "double": "double",
        "float": "float",
        "int32": "int",
        "int64": "bigint",
        "sfixed32": "int",
        "sfixed64": "bigint",
        "sint32": "int",
        "sint64": "bigint",
        "fixed32": "bigint",
        "uint32": "bigint",
        "fixed64": "decimal(20,0)",
        "uint64": "decimal(20,0)",
    }
    assert words.keys() == protobuf._SCALARS.keys()
    for number, name in enumerate(words, 1):
        of = ".Colour" if name == "enum" else None
        fields.add(name=name, number=number, type=kind.Type.Value(f"TYPE_{name.upper()}"), label=1, type_name=of)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found: Any = protobuf._struct(pool.FindMessageTypeByName("All"), ())
    assert {field.name: field.dataType.simpleString() for field in found.fields} == words


def test_unsigned_numbers_of_protobuf_are_whole_decimals() -> None:
    """A bigint would turn the largest ones negative."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="total.proto", syntax="proto3")
    kind = descriptor_pb2.FieldDescriptorProto
    file.message_type.add(name="Total").field.add(
        name="total", number=1, type=kind.TYPE_UINT64, label=kind.LABEL_OPTIONAL
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    message = pool.FindMessageTypeByName("Total")
    assert protobuf._struct(message, ()) == struct(total=t.DecimalType(20, 0))
    value = message_factory.GetMessageClass(message)(total=2**64 - 1)
    assert protobuf._row(value, message, ()) == (Decimal(2**64 - 1),)
