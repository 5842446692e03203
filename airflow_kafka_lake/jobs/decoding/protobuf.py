"""Protobuf messages as Spark rows, by the Python library of Protobuf: it must be installed where executors run.

Each value is read as the message that its writer's file has at its index, then field by field, by number, as the newest
version's: a number that means something else there is an error, not another value. Numbers keep their values: unsigned
ones become the next wider type. A field with presence that was not set is null, one without has its default; an enum is
its name, a number without a name its digits.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql import types as t

from airflow_kafka_lake.core.ddl import DEEPEST
from airflow_kafka_lake.core.decoding import Decoder
from airflow_kafka_lake.jobs.decoding.avro_schema import _EPOCH, Unfit

_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_AS_JSON = frozenset(f"google.protobuf.{kind}" for kind in ("Struct", "Value", "ListValue"))
_SCALARS: Mapping[str, t.DataType] = {
    "bool": t.BooleanType(),
    "bytes": t.BinaryType(),
    "double": t.DoubleType(),
    "enum": t.StringType(),
    "fixed32": t.LongType(),
    "fixed64": t.DecimalType(20, 0),
    "float": t.FloatType(),
    "int32": t.IntegerType(),
    "int64": t.LongType(),
    "sfixed32": t.IntegerType(),
    "sfixed64": t.LongType(),
    "sint32": t.IntegerType(),
    "sint64": t.LongType(),
    "string": t.StringType(),
    "uint32": t.LongType(),
    "uint64": t.DecimalType(20, 0),
}


_BITS = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), (-(1 << 31), 1 << 31)),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), (-(1 << 63), 1 << 63)),
    **dict.fromkeys(("uint32", "fixed32"), (0, 1 << 32)),
    **dict.fromkeys(("uint64", "fixed64"), (0, 1 << 64)),
}
_FLOATS, _TEXTS = frozenset({"float", "double"}), frozenset({"string", "bytes"})


class _File:
    """One version of a subject: the messages of its file by their index, and all that it imports."""

    def __init__(self, text: str) -> None:
        from google.protobuf import descriptor_pb2, descriptor_pool

        files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(text))
        self._main = files.file[-1]
        self._pool = descriptor_pool.DescriptorPool()
        for file in files.file:  # each behind its imports
            self._pool.Add(file)

    def message(self, name: str) -> Any:
        """Return a message by its full name."""
        return self._pool.FindMessageTypeByName(name)

    def name_of(self, path: Sequence[int]) -> str:
        """Return the full name of the message at some indexes. Raises Unfit where the file has none."""
        name, inside = self._main.package, self._main.message_type
        for number in path:
            if not 0 <= number < len(inside):
                raise Unfit(f"the schema has no message at index {'.'.join(map(str, path))}")
            name, inside = f"{name}.{inside[number].name}".lstrip("."), inside[number].nested_type
        return name


def indexed(payload: bytes) -> tuple[tuple[int, ...], bytes]:
    """Return the indexes of the message that stand before a value, and the value. Raises Unfit where there are none."""
    count, at = _varint(payload, 0)
    if count < 0:
        raise Unfit("the value has no index of a message behind its schema id")
    path = []
    for _ in range(count):
        number, at = _varint(payload, at)
        path.append(number)
    return tuple(path) or (0,), payload[at:]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        found |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), at
    raise Unfit("the value has no index of a message behind its schema id")


def struct_of(decoder: Decoder) -> t.StructType:
    """Return the columns of the message. Raises Unfit for one that is too deep."""
    message = _File(decoder.schema).message(decoder.message)
    above = (message.full_name,)
    return t.StructType([t.StructField(field.name, _type(field, above)) for field in message.fields])


def reader(decoder: Decoder) -> Callable[[int | None, bytes | None], tuple[Any, Any]]:
    """Return the function that makes a row of a value and the id of its schema: the columns, or why there are none."""
    made: list[_Messages] = []

    def read(number: int | None, payload: bytes | None) -> tuple[Any, Any]:
        from google.protobuf.message import DecodeError

        if number is None or payload is None:
            return None, None
        if not made:
            made.append(_Messages(decoder))
        try:
            return made[0].row(number, bytes(payload)), None
        except Unfit as error:
            return None, str(error)
        except (DecodeError, OverflowError, ValueError, RecursionError):
            return None, f"the bytes are no {decoder.message}"
        except Exception as error:  # noqa: BLE001 - whatever a value does to its reader, its bytes land
            return None, f"it cannot be read ({type(error).__name__})"

    return read


class _Messages:
    """The message of a decoder, and the writers' messages of that name."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder, self._texts = decoder, dict(decoder.writers)
        self._newest = _File(decoder.schema).message(decoder.message)
        self._files: dict[int, _File] = {}

    def row(self, number: int, payload: bytes) -> tuple[Any, ...]:
        """Return the columns of a value. Raises Unfit, and the errors of Protobuf's library."""
        from google.protobuf.message_factory import GetMessageClass

        if number not in self._files:
            self._files[number] = _File(self._texts[number])
        path, data = indexed(payload)
        if (name := self._files[number].name_of(path)) != self._decoder.message:
            raise Unfit(f"it is a {name}, another message than {self._decoder.message}")
        message = GetMessageClass(self._files[number].message(name)).FromString(data)
        if not message.IsInitialized():
            raise Unfit(f"it lacks {', '.join(message.FindInitializationErrors()[:3])}, which it must have")
        _refuse_put_aside(message)
        return _row(message, self._newest, (name,))


def _struct(message: Any, above: tuple[str, ...]) -> t.DataType:
    if message.full_name in above or message.full_name in _AS_JSON:
        return t.StringType()
    if len(above) > DEEPEST:
        raise Unfit(f"it is more than {DEEPEST} messages deep")
    if not message.fields:
        return t.BooleanType()
    inside = (*above, message.full_name)
    return t.StructType([t.StructField(field.name, _type(field, inside)) for field in message.fields])


def _type(field: Any, above: tuple[str, ...]) -> t.DataType:
    if _is_map(field):
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        return t.MapType(_one_type(key, above), _one_type(value, above))
    one = _one_type(field, above)
    return t.ArrayType(one) if field.is_repeated else one


def _one_type(field: Any, above: tuple[str, ...]) -> t.DataType:
    if field.message_type is None:
        return _SCALARS[_name_of_type(field)]
    name = field.message_type.full_name
    if name == _TIMESTAMP:
        return t.TimestampType()
    if name in _WRAPPERS:
        return _SCALARS[_name_of_type(field.message_type.fields_by_name["value"])]
    return _struct(field.message_type, above)


def _name_of_type(field: Any) -> str:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    return FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def _words(field: Any) -> str:
    kind = field.message_type.full_name if field.message_type else _name_of_type(field)
    return f"repeated {kind}" if field.is_repeated else kind


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _refuse_put_aside(message: Any) -> None:
    """Refuse a value of which the library puts a part aside: a field that is there in another form than the schema
    says, and a number that a closed enum lacks. A field that the schema does not have is no fault."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    written = message.DESCRIPTOR.fields_by_number
    for item in UnknownFieldSet(message):
        if (field := written.get(item.field_number)) is not None:
            raise Unfit(f"what was written is no {_words(field)}", (field.name,))


def _refuse_put_aside_below(message: Any) -> None:
    _refuse_put_aside(message)
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for item in value.values() if _is_map(field) else value if field.is_repeated else [value]:
            if hasattr(item, "ListFields"):
                _refuse_put_aside_below(item)


def _row(message: Any, newest: Any, above: tuple[str, ...]) -> tuple[Any, ...]:
    written = message.DESCRIPTOR.fields_by_number
    return tuple(_of_field(message, written.get(field.number), field, above) for field in newest.fields)


def _of_field(message: Any, written: Any, field: Any, above: tuple[str, ...]) -> Any:
    try:
        return _value(message, written, field, above)
    except Unfit as error:
        raise error.below(field.name) from None
    except (OverflowError, ValueError, TypeError):
        raise Unfit("its value is none that a column can have", (field.name,)) from None


def _value(message: Any, written: Any, field: Any, above: tuple[str, ...]) -> Any:
    """Return the value of a newest version's field; `written` is the one of its number in the writer's version."""
    if written is None or not _is_set(message, written, field):
        return _unset(field)
    value = getattr(message, written.name)
    if _is_map(written) != _is_map(field):
        raise _other(written, field)
    if _is_map(written):
        from_, to = written.message_type.fields_by_name, field.message_type.fields_by_name
        return {
            _one(from_["key"], to["key"], key, above): _one(from_["value"], to["value"], value[key], above)
            for key in value
        }
    if written.is_repeated and field.is_repeated:
        return [_one(written, field, item, above) for item in value]
    if written.is_repeated:
        if len(value) > 1:
            raise Unfit(f"it was written as {_words(written)} and has {len(value)} of them")
        return _one(written, field, value[0], above)
    one = _one(written, field, value, above)
    return [one] if field.is_repeated else one


def _is_set(message: Any, written: Any, field: Any) -> bool:
    if written.is_repeated:
        return field.is_repeated or len(getattr(message, written.name)) > 0
    if written.has_presence:
        return bool(message.HasField(written.name))
    # Without presence a default is not written: where the newest version tells it from nothing, it is nothing.
    is_alike = written.type == field.type and field.message_type is None
    is_told = field.has_presence or field.is_repeated or not is_alike
    return not is_told or any(known is written or known.number == written.number for known, _ in message.ListFields())


def _unset(field: Any) -> Any:
    if _is_map(field):
        return {}
    if field.is_repeated:
        return []
    return None if field.has_presence else _one(field, field, field.default_value, ())


def _other(written: Any, field: Any) -> Unfit:
    return Unfit(f"it was written as {_words(written)}, and the newest version says {_words(field)}")


def _one(written: Any, field: Any, value: Any, above: tuple[str, ...]) -> Any:
    if field.message_type is not None and written.message_type is not None:
        return _of_message(written, field, value, above)
    if field.message_type is not None or written.message_type is not None:
        raise _other(written, field)
    from_, to = _name_of_type(written), _name_of_type(field)
    if from_ == "string" and isinstance(value, bytes):
        # In a file of proto2 a text may be any bytes, and the library gives them as they are.
        raise Unfit("the text is not UTF-8")
    if to == "enum":
        return _symbol(written, field, _whole(written, field, from_, value))
    if from_ != to:
        value = _converted(written, field, value)
    if isinstance(_SCALARS[to], t.DecimalType):
        return Decimal(value)
    return bytes(value) if isinstance(value, bytes) else value


def _of_message(written: Any, field: Any, value: Any, above: tuple[str, ...]) -> Any:
    _refuse_put_aside(value)
    name = field.message_type.full_name
    if name == _TIMESTAMP or name in _WRAPPERS or name in _AS_JSON:
        if written.message_type.full_name != name:
            raise _other(written, field)
        if name == _TIMESTAMP:
            return _time(value)
        if name in _WRAPPERS:
            inner = field.message_type.fields_by_name["value"]
            return _one(inner, inner, value.value, above)
    if name in above or name in _AS_JSON:
        return _json(value)
    if not field.message_type.fields:
        return True
    return _row(value, field.message_type, (*above, name))


def _time(value: Any) -> datetime:
    if not 0 <= value.nanos < 10**9:
        raise Unfit("its nanoseconds are not within one second")
    try:
        return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    except OverflowError:
        raise Unfit("its time is not within the years 1 to 9999") from None


def _json(value: Any) -> str:
    from google.protobuf import json_format

    _refuse_put_aside_below(value)
    try:
        return json.dumps(json_format.MessageToDict(value, preserving_proto_field_name=True), ensure_ascii=False)
    except (json_format.Error, TypeError, ValueError):
        raise Unfit("it has no form in JSON") from None


def _symbol(written: Any, field: Any, number: int) -> str:
    known = field.enum_type.values_by_number.get(number)
    if written.enum_type is not None and (meant := written.enum_type.values_by_number.get(number)):
        now = field.enum_type.values_by_name.get(meant.name)
        if now is not None and now.number != number and (known is None or known.name != meant.name):
            raise Unfit(f"number {number} was written as {meant.name}, which has another number now")
    return known.name if known else str(number)


def _whole(written: Any, field: Any, kind: str, value: Any) -> int:
    if kind not in _BITS and kind not in {"bool", "enum"}:
        raise _other(written, field)
    return int(value)


def _converted(written: Any, field: Any, value: Any) -> Any:
    """Return a value as another kind of scalar, where it is one."""
    from_, to = _name_of_type(written), _name_of_type(field)
    if from_ in _FLOATS and to in _FLOATS:
        if to == "float" and math.isfinite(value) and struct.unpack("<f", struct.pack("<f", value))[0] != value:
            raise Unfit("it is no float")
        return value
    if from_ in _TEXTS and to in _TEXTS:
        return value.encode() if to == "bytes" else value.decode()
    if to in _BITS or to == "bool":
        number = _whole(written, field, from_, value)
        low, end = _BITS.get(to, (0, 2))
        if not low <= number < end:
            raise Unfit(f"it is no {to}")
        return bool(number) if to == "bool" else number
    raise _other(written, field)
