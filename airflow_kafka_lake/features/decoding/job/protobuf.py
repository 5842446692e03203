"""Protobuf messages as Spark rows, by the Python library of Protobuf: it must be installed where executors run.

Numbers keep their values: unsigned ones become the next wider type. A field with presence that was not set is null, one
without has its default; an enum is its name, a number without a name its digits.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.core.decoding import Decoder
from airflow_kafka_lake.core.errors import RefusedError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_SCALARS = {
    "bool": "boolean",
    "bytes": "binary",
    "double": "double",
    "enum": "string",
    "fixed32": "bigint",
    "fixed64": "decimal(20,0)",
    "float": "float",
    "int32": "int",
    "int64": "bigint",
    "sfixed32": "int",
    "sfixed64": "bigint",
    "sint32": "int",
    "sint64": "bigint",
    "string": "string",
    "uint32": "bigint",
    "uint64": "decimal(20,0)",
}


def descriptor(decoder: Decoder) -> Any:
    """Return the message's descriptor from a pool of its own."""
    from google.protobuf import descriptor_pb2, descriptor_pool

    files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(decoder.schema))
    pool = descriptor_pool.DescriptorPool()
    left = {file.name: file for file in files.file}

    def add(name: str) -> None:
        file = left.pop(name, None)
        if file is not None:
            for needed in file.dependency:
                add(needed)
            pool.Add(file)

    for name in list(left):
        add(name)
    return pool.FindMessageTypeByName(decoder.message)


def struct_of(decoder: Decoder) -> StructType:
    """Return the columns of the message; RefusedError for one that contains itself."""
    return _struct(descriptor(decoder), ())


def reader(decoder: Decoder) -> Callable[[bytes | None], tuple[Any, ...] | None]:
    """Return the function that makes a row of a message's bytes, None when they are none."""
    made: list[Any] = []

    def read(payload: bytes | None) -> tuple[Any, ...] | None:
        from google.protobuf.message import DecodeError
        from google.protobuf.message_factory import GetMessageClass

        if payload is None:
            return None
        if not made:
            made.append(GetMessageClass(descriptor(decoder)))
        try:
            return _row(made[0].FromString(bytes(payload)))
        except (DecodeError, OverflowError, ValueError):
            return None

    return read


def _struct(message: Any, above: tuple[str, ...]) -> StructType:
    from pyspark.sql.types import StructField, StructType

    if message.full_name in above:
        raise RefusedError(f"[decode] message {message.full_name} contains itself, and a table has no such columns.")
    inside = (*above, message.full_name)
    return StructType([StructField(field.name, _type(field, inside)) for field in message.fields])


def _type(field: Any, above: tuple[str, ...]) -> DataType:
    from pyspark.sql.types import ArrayType, MapType

    if _is_map(field):
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        return MapType(_one_type(key, above), _one_type(value, above))
    one = _one_type(field, above)
    return ArrayType(one) if field.is_repeated else one


def _one_type(field: Any, above: tuple[str, ...]) -> DataType:
    from pyspark.sql.types import TimestampType

    if field.message_type is None:
        return _scalar(field)
    name = field.message_type.full_name
    if name == _TIMESTAMP:
        return TimestampType()
    if name in _WRAPPERS:
        return _scalar(field.message_type.fields_by_name["value"])
    inside: StructType = _struct(field.message_type, above)
    return inside


def _scalar(field: Any) -> DataType:
    from pyspark.sql import types as t

    kinds: dict[str, DataType] = {
        "boolean": t.BooleanType(),
        "binary": t.BinaryType(),
        "double": t.DoubleType(),
        "float": t.FloatType(),
        "int": t.IntegerType(),
        "bigint": t.LongType(),
        "string": t.StringType(),
        "decimal(20,0)": t.DecimalType(20, 0),
    }
    return kinds[_SCALARS[_name_of_type(field)]]


def _name_of_type(field: Any) -> str:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    return FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _row(message: Any) -> tuple[Any, ...]:
    return tuple(_value(message, field) for field in message.DESCRIPTOR.fields)


def _value(message: Any, field: Any) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if _is_map(field):
        key, kind = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        return {_one(key, name): _one(kind, value[name]) for name in value}
    if field.is_repeated:
        return [_one(field, item) for item in value]
    return _one(field, value)


def _one(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        name = field.message_type.full_name
        if name == _TIMESTAMP:
            return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
        if name in _WRAPPERS:
            return _one(field.message_type.fields_by_name["value"], value.value)
        return _row(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else str(value)
    if _SCALARS[_name_of_type(field)] == "decimal(20,0)":
        return Decimal(value)
    return bytes(value) if isinstance(value, bytes) else value
