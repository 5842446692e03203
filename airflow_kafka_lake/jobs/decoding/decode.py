"""Decode values in Spark, into columns beside the raw bytes; a value that does not decode says why, and stays.

Every decoder turns the value into one struct and one reason, in projections of its own, so that Spark parses a value
once. Columns of the same name from several decoders are one column. A schema is judged as a whole before the table is
touched: where it cannot be columns of this table, the values of its topics have the reason, and the bytes land.

The drivers of jobs that decode import these modules, and need Spark for them; the modules of their requests do not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.avro.functions import from_avro

from airflow_kafka_lake.core.ddl import DdlError, changes, refused
from airflow_kafka_lake.core.ddl import columns as ddl_columns
from airflow_kafka_lake.core.decoding import ERROR_COLUMN, SCHEMA_ID_COLUMN, Decoder, Format, column_of, zigzag
from airflow_kafka_lake.core.errors import RefusedError
from airflow_kafka_lake.core.spark.job import OWN_COLUMNS
from airflow_kafka_lake.jobs.decoding import avro, avro_schema, protobuf
from airflow_kafka_lake.jobs.decoding.avro_schema import Node, Unfit
from airflow_kafka_lake.jobs.decoding.quirks import (
    STRICT,
    Flaw,
    alone,
    bounds,
    far,
    misfit,
    quirks,
    reason,
    single,
    surrogates,
    times,
    wrapped,
)
from airflow_kafka_lake.jobs.formats import aligned, field_of, widen
from airflow_kafka_lake.jobs.java import java_of

_CORRUPT, _END = "kafka-lake corrupt", "kafka_lake_end"
_FRAME_BYTES = 5
_ROW = "row"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedRows:
    """Rows with their decoded columns; `refused` says by topic why none of its values can be decoded."""

    spark: SparkSession
    rows: DataFrame
    columns: tuple[str, ...]
    whose: str
    refused: Mapping[str, str]

    def fitted(self, table: str) -> DataFrame:
        """Widen the table (a quoted name) where it lacks columns, and return the rows in its types."""
        wanted = [field for field in self.rows.schema.fields if field.name not in self.columns]
        widen(self.spark, table, wanted, self.whose)
        there = self.spark.table(table).schema
        found = []
        for field in wanted:
            column = field_of(there, field.name)
            assert column is not None
            mine = f.col(f"`{field.name}`")
            found.append(aligned(mine, field.dataType, column.dataType).alias(column.name))
        return self.rows.select(*self.columns, *found)


def decode(spark: SparkSession, rows: DataFrame, decoders: Sequence[Decoder], table: str) -> DecodedRows:
    """Decode rows of the landing table; nothing is changed before `DecodedRows.fitted`."""
    parts, named = _judged(spark, decoders, rows.columns, spark.table(table).schema)
    return DecodedRows(
        spark=spark,
        rows=_with_columns(rows, parts, named),
        columns=tuple(rows.columns),
        whose=", ".join(decoder.name for decoder in decoders),
        refused={topic: part.why for part in parts if isinstance(part, _Refused) for topic in part.decoder.topics},
    )


def decoded(spark: SparkSession, rows: DataFrame, decoders: Sequence[Decoder]) -> DataFrame:
    """Return the rows with their decoded columns behind them: those of the schemas, the schema's id, the error."""
    return _with_columns(rows, *_judged(spark, decoders, rows.columns, None))


_Named = dict[str, list[tuple["_Part", str]]]


def _with_columns(rows: DataFrame, parts: Sequence[_Part], named: _Named) -> DataFrame:
    found = rows
    for part in parts:
        for columns in part.steps():
            found = found.select("*", *columns)
    found = found.select("*", f.coalesce(*[part.error() for part in parts]).alias(ERROR_COLUMN))
    columns = []
    for name, fields in named.items():
        value = f.coalesce(*[f.col(part.value).getField(field) for part, field in fields])
        # A value that does not decode is null in every column, even if a part of it could be read.
        columns.append(f.when(f.col(ERROR_COLUMN).isNull(), value).alias(name))
    if ids := [f.col(part.id) for part in parts if part.decoder.format.is_registered]:
        columns.append(f.coalesce(*ids).alias(SCHEMA_ID_COLUMN))
    return found.select(*rows.columns, *columns, ERROR_COLUMN)


def _judged(
    spark: SparkSession, decoders: Sequence[Decoder], raw: Iterable[str], there: t.StructType | None
) -> tuple[list[_Part], _Named]:
    """Return the decoders' parts, and which of them give each column; a part whose schema cannot be columns of this
    table beside those before it decodes nothing."""
    taken = {name.lower() for name in raw} | OWN_COLUMNS
    parts: list[_Part] = []
    named: _Named = {}
    types: dict[str, tuple[str, t.DataType, str]] = {}
    if any(decoder.format is Format.JSON for decoder in decoders):
        spark.conf.set("spark.sql.mapKeyDedupPolicy", "LAST_WIN")
    for number, decoder in enumerate(decoders):
        try:
            part = _part(spark, number, decoder)
            named_as = ((field, column_of(field.name, taken)) for field in part.fields())
            fields = [(field.name, t.StructField(name, field.dataType)) for field, name in named_as]
            _refuse_unfit(fields, decoder, types, there)
        except (Unfit, DdlError, RefusedError) as error:
            parts.append(_Refused(spark, decoder, f"__value{number}", f"__id{number}", why=str(error)))
            continue
        parts.append(part)
        for source, field in fields:
            name, _, _ = types.setdefault(field.name.lower(), (field.name, field.dataType, decoder.name))
            named.setdefault(name, []).append((part, source))
    return parts, named


def _refuse_unfit(
    fields: Sequence[tuple[str, t.StructField]],
    decoder: Decoder,
    types: Mapping[str, tuple[str, t.DataType, str]],
    there: t.StructType | None,
) -> None:
    columns = [field for _, field in fields]
    wanted = t.StructType(columns).jsonValue()
    if columns and (problem := refused(wanted)):
        raise Unfit(f"{decoder.name} {problem}")
    for field in columns:
        name, kind, whose = types.get(field.name.lower(), (field.name, field.dataType, ""))
        if kind != field.dataType:
            one, other = field.dataType.simpleString(), kind.simpleString()
            raise Unfit(f"column {name} is {one} in {decoder.name} and {other} in {whose}: land them in two tables")
    if there is not None:
        changes(there.jsonValue(), wanted, decoder.name)


@dataclass(frozen=True)
class _Part:
    """One decoder with the names of its columns while rows are made."""

    spark: SparkSession
    decoder: Decoder
    value: str
    id: str

    def steps(self) -> list[list[Column]]:
        """Return the columns that make the struct and, for framed values, the schema id: each step from the last."""
        raise NotImplementedError

    def fields(self) -> list[t.StructField]:
        """Return the struct's fields for people. Raises Unfit or DdlError."""
        raise NotImplementedError

    def problem(self) -> Column:
        """Return the reason why a value that is there does not decode, or null."""
        raise NotImplementedError

    def error(self) -> Column:
        """Return the reason for values of this decoder's topics; a tombstone is nothing to decode."""
        return self.of_topics(f.when(f.col("value").isNotNull(), self.problem()))

    def of_topics(self, column: Column) -> Column:
        """Return the column where the value is of this decoder's topics, else null."""
        return f.when(f.col("kafka_topic").isin(list(self.decoder.topics)), column)

    def text(self) -> Column:
        """Return the value as text, whether or not it is UTF-8."""
        return f.col("value").cast("string")

    def schema_id(self) -> Column:
        """Return the id in the frame; null where there is no frame."""
        framed = (f.length("value") >= _FRAME_BYTES) & (f.hex(f.substring("value", 1, 1)) == "00")
        # No registry gives ids beyond 31 bits: four such bytes are something else.
        number = f.conv(f.hex(f.substring("value", 2, 4)), 16, 10).try_cast("int")
        return self.of_topics(f.when(framed, number))


@dataclass(frozen=True)
class _Refused(_Part):
    """Values that are not decoded, all for one reason."""

    why: str = ""

    def steps(self) -> list[list[Column]]:
        return [[self.schema_id().alias(self.id)]] if self.decoder.format.is_registered else []

    def problem(self) -> Column:
        return f.lit(self.why)


class _Text(_Part):
    def steps(self) -> list[list[Column]]:
        text = self.of_topics(self.text())
        return [[f.struct(f.when(f.is_valid_utf8(text), text).alias(self.decoder.column)).alias(self.value)]]

    def fields(self) -> list[t.StructField]:
        return [t.StructField(self.decoder.column, t.StringType())]

    def problem(self) -> Column:
        return f.when(f.col(self.value).getField(self.decoder.column).isNull(), f.lit("the value is not UTF-8"))


class _Json(_Part):
    @cached_property
    def schema(self) -> t.StructType:
        return t.StructType.fromJson(ddl_columns(self.decoder.schema))

    def steps(self) -> list[list[Column]]:
        text = self.of_topics(self.text())
        asked = t.StructType([*self.schema.fields, t.StructField(_CORRUPT, t.StringType())])
        # Without a zone a time is UTC's, as the session's is. The fallback takes "20240101" for so many days; without a
        # format "1970" is the first day of that year.
        options = {
            "mode": "PERMISSIVE",
            "columnNameOfCorruptRecord": _CORRUPT,
            "enableDateTimeParsingFallback": "false",
            "dateFormat": "yyyy-MM-dd",
            **STRICT,
        }
        read = f.when(f.is_valid_utf8(text) & ~quirks(text, self.schema), f.from_json(text, asked, options))
        return [[single(read, asked).alias(self.value)]]

    def fields(self) -> list[t.StructField]:
        return list(self.schema.fields)

    def problem(self) -> Column:
        read, text = f.col(self.value), self.text()
        no_json = f.json_array_length(f.concat(f.lit("["), text, f.lit("]"))).isNull()
        strict = f.from_json(text, t.MapType(t.StringType(), t.StringType()), STRICT)
        in_field = misfit(text, read, self.schema, self.decoder.name)
        failed = (
            f.when(text.startswith("\ufeff"), f.lit("the value begins with a byte order mark, which is no JSON"))
            .when(~text.rlike(r"^[ \t\r\n]*\{"), f.lit("the value is not a JSON object"))
            .when(no_json, f.lit("the value is not JSON"))
            .when(~alone(text), f.lit("the value has something behind its JSON object"))
            .when(strict.isNull(), f.lit("the value is not JSON: names and texts stand between double quotes"))
            .when(quirks(text, self.schema), f.lit(_QUIRK))
            .otherwise(f.coalesce(in_field, f.lit(f"the value does not fit {self.decoder.name}")))
        )
        beyond = reason(bounds(self.schema, text.rlike("Inf|INF"), far(text)), read)
        flawed = f.coalesce(beyond, wrapped(text, self.schema))
        return (
            f.when(~f.is_valid_utf8(text), f.lit("the value is not UTF-8"))
            .when(read.isNull() | read.getField(_CORRUPT).isNotNull() | ~alone(text), failed)
            .when(surrogates(text), f.lit("the value has half a character (a lone surrogate), which is no text"))
            .otherwise(flawed)
        )


_QUIRK = "a number has too many digits or a comma, or a time has no day"


class _Framed(_Part):
    """Values with the id of their schema before them."""

    def payload(self) -> Column:
        return f.expr(f"substring(value, {_FRAME_BYTES + 1})")

    @property
    def _why(self) -> str:
        return f"{self.value}_why"

    @property
    def _slow(self) -> str:
        return f"{self.value}_slow"

    def is_known(self) -> Column:
        return f.col(self.id).isin([number for number, _ in self.decoder.writers])

    def cause(self) -> Column:
        """Return why a value with a good frame could not be read, or null."""
        raise NotImplementedError

    def in_python(self, read: Callable[[Any, Any], tuple[Any, Any]], number: Column) -> Column:
        """Return a struct of the row and the reason that Python finds for a value, of an id that is not null."""
        fields = self.fields()
        row = t.StructType(fields) if fields else t.BooleanType()
        kind = t.StructType([t.StructField(_ROW, row), t.StructField("why", t.StringType())])
        found = read if fields else lambda number, payload: (None, read(number, payload)[1])
        return f.udf(found, kind)(number, f.when(number.isNotNull(), self.payload()))

    def problem(self) -> Column:
        found = f.col(self.id)
        unframed = f.lit("the value does not begin with a zero byte and a schema id")
        unknown = f.coalesce(
            *[f.when(found == number, f.lit(f": {why}")) for number, why in self.decoder.unusable],
            f.lit(f" is no version of {self.decoder.subject}"),
        )
        foreign = f.concat(f.lit("schema id "), found, unknown)
        begin = f.concat(f.lit("the value does not fit schema id "), found, f.lit(f" read as {self.decoder.name}: "))
        # Where there is no cause the whole is null.
        unfit = f.concat(begin, self.cause())
        return f.when(found.isNull(), unframed).when(~self.is_known(), foreign).otherwise(unfit)


class _Avro(_Framed):
    """Spark reads the values whose writer's schema means the same as the newest, and Python those of other versions.

    Behind each value that Spark reads stands its own digest, as one field more: where the bytes end elsewhere than the
    value does, the digest is not found.
    """

    @cached_property
    def _reader(self) -> Node:
        return avro_schema.parsed(self.decoder.schema)

    @cached_property
    def _plain(self) -> Mapping[int, avro.Written]:
        """The versions that Spark reads, by id: the newest first, which most values have."""
        found: dict[int, avro.Written] = {}
        given = json.loads(self.decoder.schema)
        if not isinstance(given, dict) or "fields" not in given or not self._is_javas(self._asked([])):
            return found
        for number, text in reversed(self.decoder.writers):
            try:
                written = avro.plainly(avro_schema.parsed(text), self._reader, f"kafka_lake.v{number}")
            except Unfit:
                continue  # which Python says of each value
            if written is not None and self._is_javas(_ended(written.schema, f"{written.space}.{_END}")):
                found[number] = written
        return found

    def _asked(self, written: Iterable[avro.Written]) -> Any:
        """Return the schema that Spark reads values as, with the names that the writers' types have."""
        found = _raw(json.loads(self.decoder.schema), "", written)
        return _ended(found, f"kafka_lake.{_END}", [f"{item.space}.{_END}" for item in written])

    def _is_javas(self, schema: Any) -> bool:
        """Return whether Java's Avro takes a schema too: it asks for more of names and defaults, and Spark's reader
        would end the job."""
        from py4j.protocol import Py4JJavaError

        try:
            java_of(self.spark).org.apache.avro.Schema.Parser().parse(json.dumps(schema))
        except Py4JJavaError:
            return False
        return True

    def fields(self) -> list[t.StructField]:
        row = avro_schema.row_of(self._reader)
        if any(item.name == _END for item in row.fields):
            raise Unfit(f"a field is named {_END}")
        return [t.StructField(name, kind) for name, kind in avro_schema.column_types(row)]

    @property
    def _needs_python(self) -> bool:
        return len(self._plain) < len(self.decoder.writers)

    def steps(self) -> list[list[Column]]:
        steps = [[self.schema_id().alias(self.id)]]
        is_native = f.col(self.id).isin([*self._plain])
        row = f.lit(None)
        why = f.lit(None).cast("string")
        if self._plain:
            name = f"{self.value}_native"
            steps.append([self._read().alias(name)])
            native = f.col(name)
            why = f.when(is_native, self._flaw(native))
            fields = [
                _landed(item, reach(native)).alias(name)
                for name, reach, item in _fields(avro_schema.row_of(self._reader))
            ]
            row = f.struct(*fields) if fields else row
        steps.append([why.alias(self._why)])
        is_read = is_native & f.col(self._why).isNull()
        if not self._needs_python:
            return [*steps, [f.when(is_read, row).alias(self.value)]]
        number = f.when(self.is_known() & ~is_read, f.col(self.id))
        read = avro.reader(self.decoder.schema, self.decoder.writers)
        steps.append([self.in_python(read, number).alias(self._slow)])
        slow = f.col(self._slow).getField(_ROW)
        return [*steps, [(f.when(is_read, row).otherwise(slow) if self._plain else slow).alias(self.value)]]

    def _read(self) -> Column:
        """Return the struct of a value: one reader for all versions, however many there are.

        To it they are the branches of a union, of which each value tells its own by a number before it.
        """
        begins = [f.lit(item) for place, number in enumerate(self._plain) for item in (number, zigzag(place))]
        data = f.concat(f.create_map(*begins)[f.col(self.id)], self.payload(), self._digest())
        union = [_ended(item.schema, f"{item.space}.{_END}") for item in self._plain.values()]
        options = {"mode": "PERMISSIVE", "avroSchema": json.dumps(self._asked([*self._plain.values()]))}
        return from_avro(data, json.dumps(union), options)

    def _digest(self) -> Column:
        return f.unhex(f.lpad(f.hex(f.xxhash64("value")), 16, "0"))

    def _flaw(self, native: Column) -> Column:
        end = native.getField(_END)
        flaws = [
            flaw.inside(name, reach)
            for name, reach, node in _fields(avro_schema.row_of(self._reader))
            for flaw in _flaws(node)
        ]
        return (
            # Spark reads an unreadable value as a row of nulls.
            f.when(native.isNull() | end.isNull(), f.lit(_NO_VALUE))
            .when(end != self._digest(), f.lit("bytes are left behind the value"))
            .otherwise(reason(flaws, native))
        )

    def cause(self) -> Column:
        if not self._needs_python:
            return f.col(self._why)
        slow = f.col(self._slow)
        unread = f.col(self._why).isNotNull() & slow.getField("why").isNull() & slow.getField(_ROW).isNull()
        return f.coalesce(slow.getField("why"), f.when(unread, f.col(self._why)))


_NO_VALUE = "the bytes end before the value does, or a length, a branch or a symbol in them is none"


def _ended(record: Mapping[str, Any], name: str, aliases: Sequence[str] = ()) -> dict[str, Any]:
    """Return the schema of a record with the digest behind its fields."""
    end = {"type": "fixed", "name": name, "size": 8, "aliases": [*aliases]}
    return {**record, "fields": [*record["fields"], {"name": _END, "type": end}]}


def _raw(schema: Any, space: str, written: Iterable[avro.Written]) -> Any:
    """Return a schema without decimals, of which Spark makes null where they have too many digits, or other numbers;
    and without Spark's own notes of types that no table has. Its types have the names of the writers' as well."""
    if isinstance(schema, list):
        return [_raw(item, space, written) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = dict(schema)
    if isinstance(found.get("name"), str) and found["type"] in ("record", "error", "enum", "fixed"):
        name = avro_schema.full(found["name"], found.get("namespace", space) or "")
        space = name.rpartition(".")[0]
        theirs = [f"{item.space}.{item.names[name]}" for item in written if name in item.names]
        found["aliases"] = [*(found.get("aliases") or ()), *theirs]
    for key in {"type", "items", "values"} & found.keys():
        found[key] = _raw(found[key], space, written)
    if isinstance(found.get("fields"), list):
        found["fields"] = [_raw(item, space, written) for item in found["fields"]]
    found.pop("spark.sql.catalyst.type", None)
    if found.get("logicalType") == "decimal":
        del found["logicalType"]
    return found


def _fields(node: Node) -> list[tuple[str, Callable[[Column], Column], Node]]:
    """Return the name, the access and the type of each part of a record, or of a union of several members."""
    if node.kind == "record":
        inner = [(item.name, item.node) for item in node.fields]
    else:
        found = avro_schema.members(node)
        assert not isinstance(found, Node)
        inner = [(f"member{number}", item) for number, item in enumerate(found)]
    return [(name, lambda column, name=name: column.getField(name), item) for name, item in inner]  # type: ignore[misc]


def _one(node: Node) -> Node:
    """Return the type beside null of a union that is one column of that type."""
    found = avro_schema.members(node) if node.kind == "union" else node
    return found if isinstance(found, Node) else node


def _has_decimal(node: Node) -> bool:
    node = _one(node)
    if node.kind in {"array", "map"}:
        return _has_decimal(node.content)
    if node.kind in {"record", "union"}:
        return any(_has_decimal(item) for _, _, item in _fields(node))
    return bool(node.logical and node.logical[0] == "decimal")


def _landed(node: Node, column: Column) -> Column:
    """Return the values that Spark has read, as the types of the columns."""
    node = _one(node)
    if not _has_decimal(node):
        return column
    if node.kind == "array":
        return f.transform(column, lambda item: _landed(node.content, item))
    if node.kind == "map":
        return f.transform_values(column, lambda _, item: _landed(node.content, item))
    if node.kind in {"record", "union"}:
        inner = [_landed(item, reach(column)).alias(name) for name, reach, item in _fields(node)]
        return f.when(column.isNotNull(), f.struct(*inner))
    assert node.logical is not None
    return _decimal(column, *node.logical[1:])


def _decimal(data: Column, precision: int, scale: int) -> Column:
    """Return the decimal that some bytes are, a number in two's complement; null where it has more digits."""
    digits = f.hex(data)
    sign = f.when(digits.rlike("^[89A-F]"), "F").otherwise("0")
    word = f.conv(f.lpad(digits, 16, sign), 16, -10)
    # Of more than sixteen bytes, those before the last sixteen only repeat the sign, or there are too many digits.
    last = f.right(digits, f.lit(32))
    is_short = (f.lpad(last, f.length(digits), sign) == digits) & (last.rlike("^[89A-F]") == (sign == "F"))
    long = f.when(f.length(data) <= 16, f.lpad(digits, 32, sign)).when(is_short, last)
    high = f.conv(f.substring(long, 1, 16), 16, -10).cast("decimal(20,0)")
    low = f.conv(f.substring(long, 17, 16), 16, 10).cast("decimal(20,0)")
    two = f.try_add(f.try_multiply(high, f.lit("18446744073709551616").cast("decimal(20,0)")), low).cast("string")
    number = f.when(f.length(data) <= 8, word).otherwise(two)
    return f.concat(number, f.lit(f"E-{scale}")).try_cast(f"decimal({precision},{scale})")


def _flaws(node: Node) -> list[Flaw]:
    """Return the faults that a value read by Spark may have."""
    node = _one(node)
    match node.kind:
        case "record" | "union":
            return [flaw.inside(name, reach) for name, reach, item in _fields(node) for flaw in _flaws(item)]
        case "array":
            return [flaw.among(lambda column: column) for flaw in _flaws(node.content)]
        case "map":
            keys = [flaw.among(f.map_keys) for flaw in _flaws(Node(kind="string"))]
            return [*keys, *[flaw.among(f.map_values) for flaw in _flaws(node.content)]]
        case "string":
            return [Flaw("", "the text is not UTF-8", lambda column: ~f.is_valid_utf8(column))]
    if node.logical and node.logical[0] == "decimal":
        _, precision, scale = node.logical
        many = f"it has more digits than decimal({precision},{scale})"
        return [Flaw("", many, lambda column: column.isNotNull() & _decimal(column, precision, scale).isNull())]
    return times(avro_schema.leaf_type(node)) if node.logical else []


class _Protobuf(_Framed):
    """Each value is read as the message that its writer's file has at its index, see `job.protobuf`."""

    def fields(self) -> list[t.StructField]:
        return list(protobuf.struct_of(self.decoder).fields)

    def steps(self) -> list[list[Column]]:
        number = f.when(self.is_known(), f.col(self.id))
        read, slow = self.in_python(protobuf.reader(self.decoder), number), f.col(self._slow)
        return [
            [self.schema_id().alias(self.id)],
            [read.alias(self._slow)],
            [slow.getField(_ROW).alias(self.value), slow.getField("why").alias(self._why)],
        ]

    def cause(self) -> Column:
        return f.col(self._why)


def _part(spark: SparkSession, number: int, decoder: Decoder) -> _Part:
    if decoder.refused:
        raise Unfit(decoder.refused)
    kinds = {Format.JSON: _Json, Format.AVRO: _Avro, Format.PROTOBUF: _Protobuf, Format.STRING: _Text}
    return kinds[decoder.format](spark, decoder, f"__value{number}", f"__id{number}")
