"""Decode values in Spark, into columns beside the raw bytes; a value that does not decode says why, and stays.

Every decoder turns the value into one struct and one reason, in a projection of its own, so that Spark parses a value
once. Columns of the same name from several decoders are one column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.core.decoding import ERROR_COLUMN, SCHEMA_ID_COLUMN, Decoder, Format
from airflow_kafka_lake.core.errors import RefusedError
from airflow_kafka_lake.features.decoding.job.quirks import alone, out_of_bounds, quirks
from airflow_kafka_lake.jobs.formats import METADATA_COLUMNS, aligned, field_of, widen

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_CORRUPT, _READ = "__corrupt", "__read"
_FRAME_BYTES = 5


def with_decoded(spark: SparkSession, rows: DataFrame, decoders: Sequence[Decoder], table: str) -> DataFrame:
    """Return rows of the landing table with what decodes beside them, as columns of `table` (a quoted name).

    The table is widened first where it lacks columns. Raises RefusedError for a schema that Spark cannot read, or whose
    columns the table cannot take.
    """
    from pyspark.sql import functions as f

    found = decoded(spark, rows, decoders)
    wanted = found.schema.fields[len(rows.columns) :]
    whose = ", ".join(decoder.name for decoder in decoders)
    widen(spark, table, wanted, whose)
    there = spark.table(table).schema
    columns = []
    for field in wanted:
        column = field_of(there, field.name)
        assert column is not None
        columns.append(aligned(f.col(field.name), field.dataType, column.dataType).alias(column.name))
    return found.select(*rows.columns, *columns)


def decoded(spark: SparkSession, rows: DataFrame, decoders: Sequence[Decoder]) -> DataFrame:
    """Return the rows with their decoded columns behind them: those of the schemas, the schema's id, the error.

    Raises RefusedError for a schema that Spark cannot read, and for names that clash.
    """
    from pyspark.sql import functions as f

    parts = [_part(spark, number, decoder) for number, decoder in enumerate(decoders)]
    found = rows
    for part in parts:
        found = found.select("*", *part.columns())
    found = found.select("*", f.coalesce(*[part.error() for part in parts]).alias(ERROR_COLUMN))
    reserved = {name.lower() for name in (*rows.columns, ERROR_COLUMN, SCHEMA_ID_COLUMN)}
    columns = []
    for name, fields in _by_name(parts, reserved).items():
        value = f.coalesce(*[f.col(part.value)[field] for part, field in fields])
        # What does not decode is null in every column, whatever of it could be read.
        columns.append(f.when(f.col(ERROR_COLUMN).isNull(), value).alias(name))
    if ids := [f.col(part.id) for part in parts if part.decoder.format.is_registered]:
        columns.append(f.coalesce(*ids).alias(SCHEMA_ID_COLUMN))
    return found.select(*rows.columns, *columns, ERROR_COLUMN)


def _by_name(parts: Sequence[_Part], reserved: set[str]) -> dict[str, list[tuple[_Part, str]]]:
    """Return which decoders give each column; RefusedError for names that cannot be columns here."""
    found: dict[str, list[tuple[_Part, str]]] = {}
    types: dict[str, tuple[str, str, str]] = {}
    taken = reserved | METADATA_COLUMNS
    for part in parts:
        for field in part.fields():
            lower, kind = field.name.lower(), field.dataType.simpleString()
            if not _COLUMN.fullmatch(field.name):
                raise _refusal(part, f"field {field.name!r} cannot be a column: use letters, digits and _")
            if lower in taken:
                raise _refusal(part, f"field {field.name} would be a column that every table has")
            name, other, whose = types.setdefault(lower, (field.name, kind, part.decoder.name))
            if (other, name) != (kind, field.name) or (name in found and found[name][-1][0] is part):
                raise _refusal(part, f"field {field.name} is {kind}, and {name} is {other} in {whose}")
            found.setdefault(name, []).append((part, field.name))
    return found


@dataclass(frozen=True)
class _Part:
    """One decoder with the names of its columns while rows are made."""

    spark: SparkSession
    decoder: Decoder
    value: str
    id: str

    def columns(self) -> list[Column]:
        """Return the columns that hold the struct and, for framed values, the schema id."""
        raise NotImplementedError

    def fields(self) -> list[StructField]:
        """Return what the struct has for people."""
        raise NotImplementedError

    def problem(self) -> Column:
        """Return the reason why a value that is there does not decode, or null."""
        raise NotImplementedError

    def error(self) -> Column:
        """Return the reason for values of this decoder's topics; a tombstone is nothing to decode."""
        from pyspark.sql import functions as f

        return self.of_topics(f.when(f.col("value").isNotNull(), self.problem()))

    def of_topics(self, column: Column) -> Column:
        """Return the column where the value is of this decoder's topics, else null."""
        from pyspark.sql import functions as f

        return f.when(f.col("kafka_topic").isin(list(self.decoder.topics)), column)

    def text(self) -> Column:
        """Return the value as text, whether or not it is UTF-8."""
        from pyspark.sql import functions as f

        return f.col("value").cast("string")


class _Text(_Part):
    def columns(self) -> list[Column]:
        from pyspark.sql import functions as f

        text = self.of_topics(self.text())
        return [f.struct(f.when(f.is_valid_utf8(text), text).alias(self.decoder.column)).alias(self.value)]

    def fields(self) -> list[StructField]:
        from pyspark.sql.types import StringType, StructField

        return [StructField(self.decoder.column, StringType())]

    def problem(self) -> Column:
        from pyspark.sql import functions as f

        return f.when(f.col(f"{self.value}.{self.decoder.column}").isNull(), f.lit("the value is not UTF-8"))


class _Json(_Part):
    @cached_property
    def schema(self) -> StructType:
        """What the values are read as; Spark parses the DDL."""
        return _ddl(self, self.decoder.schema)

    def columns(self) -> list[Column]:
        from pyspark.sql import functions as f
        from pyspark.sql.types import StringType, StructField, StructType

        text = self.of_topics(self.text())
        asked = StructType([*self.schema.fields, StructField(_CORRUPT, StringType())])
        # Without a zone a time is UTC's, as the session's is. The fallback takes "20240101" for so many days.
        options = {
            "mode": "PERMISSIVE",
            "columnNameOfCorruptRecord": _CORRUPT,
            "enableDateTimeParsingFallback": "false",
        }
        read = f.when(~quirks(text, self.schema), f.from_json(text, asked, options))
        return [f.when(f.is_valid_utf8(text), read).alias(self.value)]

    def fields(self) -> list[StructField]:
        return list(self.schema.fields)

    def problem(self) -> Column:
        from pyspark.sql import functions as f

        read, text = f.col(self.value), self.text()
        wrong = read.isNull() | read[_CORRUPT].isNotNull() | ~alone(text)
        wrong |= out_of_bounds(read, self.schema, text)
        reason = f"the value is not a JSON object that fits {self.decoder.name}"
        return f.when(~f.is_valid_utf8(text), f.lit("the value is not UTF-8")).when(wrong, f.lit(reason))


class _Framed(_Part):
    """Values with the id of their schema before them."""

    def read(self) -> Column:
        """Return the struct of a value whose frame is good, or null."""
        raise NotImplementedError

    def unread(self) -> Column:
        """Return whether a value whose frame is good could not be read."""
        raise NotImplementedError

    def columns(self) -> list[Column]:
        return [self.of_topics(self.read()).alias(self.value), self.of_topics(self.schema_id()).alias(self.id)]

    def schema_id(self) -> Column:
        """Return the id in the frame; null where there is no frame."""
        from pyspark.sql import functions as f

        framed = (f.length("value") >= _FRAME_BYTES) & (f.hex(f.substring("value", 1, 1)) == "00")
        return f.when(framed, f.conv(f.hex(f.substring("value", 2, 4)), 16, 10).cast("int"))

    def is_known(self, schema_id: Column) -> Column:
        """Return whether an id is one of the subject's."""
        return schema_id.isin([number for number, _ in self.decoder.writers])

    def problem(self) -> Column:
        from pyspark.sql import functions as f

        found = f.col(self.id)
        unframed = f.lit("the value does not begin with a zero byte and a schema id")
        foreign = f.concat(f.lit("schema id "), found, f.lit(f" is no version of {self.decoder.subject}"))
        unfit = f.concat(f.lit("the value does not fit schema id "), found, f.lit(f" read as {self.decoder.name}"))
        return f.when(found.isNull(), unframed).when(~self.is_known(found), foreign).when(self.unread(), unfit)


class _Avro(_Framed):
    """Each value is read with its writer's schema and resolved to the newest; a field with a default tells what was
    read from what was not, because Spark's permissive mode answers both with a row."""

    def read(self) -> Column:
        from pyspark.sql import functions as f
        from pyspark.sql.avro.functions import from_avro

        reader = json.loads(self.decoder.schema)
        if not isinstance(reader, dict) or reader.get("type") != "record":
            raise _refusal(self, "it is not a record, so it has no columns")
        reader["fields"] = [*reader["fields"], {"name": _READ, "type": "int", "default": 1}]
        options = {"mode": "PERMISSIVE", "avroSchema": json.dumps(reader)}
        payload = f.expr(f"substring(value, {_FRAME_BYTES + 1})")
        value = f.lit(None)
        for number, text in self.decoder.writers:
            read = from_avro(payload, text, options)
            value = f.when(self.schema_id() == number, read).otherwise(value)
        return value

    def fields(self) -> list[StructField]:
        # Spark says which columns the newest schema has.
        empty = self.spark.createDataFrame([], "kafka_topic STRING, value BINARY")
        read: Any = empty.select(self.columns()[0]).schema[self.value].dataType
        return [field for field in read.fields if field.name != _READ]

    def unread(self) -> Column:
        from pyspark.sql import functions as f

        return f.col(f"{self.value}.{_READ}").isNull()


class _Protobuf(_Framed):
    """Every version is read with the newest descriptors: Protobuf resolves by field number."""

    def read(self) -> Column:
        from pyspark.sql import functions as f

        from airflow_kafka_lake.features.decoding.job.protobuf import reader

        payload = f.lit(None)
        for indexes in _written_as(self.decoder.indexes):
            size = len(indexes) // 2
            mine = f.hex(f.substring("value", _FRAME_BYTES + 1, size)) == indexes.upper()
            payload = f.when(mine, f.expr(f"substring(value, {_FRAME_BYTES + 1 + size})")).otherwise(payload)
        read = f.udf(reader(self.decoder), self._type())
        return f.when(self.is_known(self.schema_id()), read(payload))

    def _type(self) -> StructType:
        from airflow_kafka_lake.features.decoding.job.protobuf import struct_of

        return struct_of(self.decoder)

    def fields(self) -> list[StructField]:
        return list(self._type().fields)

    def unread(self) -> Column:
        from pyspark.sql import functions as f

        return f.col(self.value).isNull()


def _written_as(indexes: str) -> tuple[str, ...]:
    """Return how serializers write the indexes of a message: those of the first have a short form and a long one."""
    return (indexes, "0200") if indexes == "00" else (indexes,)


def _ddl(part: _Part, text: str) -> StructType:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        found = StructType.fromDDL(text)
    except PySparkException as error:
        raise _refusal(part, f"Spark does not read it: {str(error).strip().splitlines()[0]}") from None
    if not isinstance(found, StructType) or not found.fields:
        raise _refusal(part, "it names no columns")
    return found


def _part(spark: SparkSession, number: int, decoder: Decoder) -> _Part:
    kinds = {Format.JSON: _Json, Format.AVRO: _Avro, Format.PROTOBUF: _Protobuf, Format.STRING: _Text}
    return kinds[decoder.format](spark, decoder, f"__value{number}", f"__id{number}")


def _refusal(part: _Part, problem: str) -> RefusedError:
    return RefusedError(f"[decode] {part.decoder.name}: {problem}. Nothing was staged.")
