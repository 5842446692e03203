"""Avro by its writers' schemas: a reader in Python where Spark's own cannot tell them apart.

A value is resolved as Avro says: fields by their names, promotions, defaults. Beyond that its logical type is the
writer's, because a number has its writer's meaning: it is converted into the reader's, or does not decode.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from airflow_kafka_lake.core.ddl import MOST_DIGITS
from airflow_kafka_lake.core.decoding import zigzag
from airflow_kafka_lake.jobs.decoding.avro_schema import (
    _EPOCH,
    _INT,
    _LONG,
    _MERGED,
    _MOST_EMPTY,
    _PER_SECOND,
    _PROMOTED,
    MISSING,
    AvroField,
    Logical,
    Node,
    Unfit,
    _type,
    layout,
    members,
    named,
    parsed,
    row_of,
)


class Bytes:
    """A value that is read from its begin."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        end = self.at + count
        if count < 0 or end > len(self.data):
            raise Unfit("the bytes end before the value does, or a length in them is none")
        found = self.data[self.at : end]
        self.at = end
        return found

    def number(self, bits: int) -> int:
        found = shift = 0
        while True:
            byte = self.take(1)[0]
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > bits:
                raise Unfit("a number has too many bytes")
        value = (found >> 1) ^ -(found & 1)
        if not -(1 << bits) <= value < 1 << bits:
            raise Unfit("a number is too large for its type")
        return value

    def blocks(self, read: Callable[[], None]) -> None:
        """Read the items of a list or map."""
        empty = 0
        while count := self.number(_LONG):
            if count < 0:
                count, _ = -count, self.number(_LONG)
            begin = self.at
            for number in range(count):
                read()
                if self.at == begin:
                    empty += 1
                    if (number == 0 and count > _MOST_EMPTY) or empty > _MOST_EMPTY:
                        raise Unfit("a list has too many items without content")


Read = Callable[[Bytes], Any]


class Resolution:
    """How values of one schema are read as another's columns.

    `is_plain`: Spark's own reader does the same, because both schemas mean the same by their logical types, and the
    columns need no substitute.
    """

    def __init__(self, writer: Node, reader: Node) -> None:
        self.is_plain = writer.kind == reader.kind == "record"
        self._generic: dict[tuple[int, int], list[Read]] = {}
        self._skips: dict[int, list[Read]] = {}
        self._schemas = (writer, reader)  # whose nodes are known by their identity
        self._read = self._top(writer, row_of(reader))

    def row(self, payload: bytes) -> tuple[Any, ...] | None:
        """Return the columns of a value, None where it is null. Raises Unfit."""
        data = Bytes(payload)
        try:
            found: tuple[Any, ...] | None = self._read(data)
        except RecursionError:
            raise Unfit("it is too deep") from None
        if left := len(payload) - data.at:
            raise Unfit(f"{left} bytes are left behind the value")
        return found

    def _top(self, writer: Node, row: Node) -> Read:
        if writer.kind == "union":
            return _chosen([self._top(item, row) for item in writer.branches])
        if writer.kind == "null":
            return lambda _: None
        return self._record(writer, row, (row.name,), is_top=True)

    def _value(self, writer: Node, reader: Node, above: tuple[str, ...] | None) -> Read:
        """Return how a value becomes a column's; without `above`, how it becomes JSON."""
        if writer.kind == "union":
            return _chosen([self._value(item, reader, above) for item in writer.branches])
        if reader.kind == "union":
            return self._member(writer, reader, above)
        if writer.kind == reader.kind == "record":
            return self._of_record(writer, reader, above)
        if writer.kind == reader.kind and reader.kind in {"array", "map"}:
            if above is not None and _type(reader.content, above) is None:
                self.is_plain = False  # Spark's reader has no type for nulls alone that a table has
            made = _list if reader.kind == "array" else _map
            return made(self._value(writer.content, reader.content, above))
        return self._leaf(writer, reader, is_json=above is None)

    def _of_record(self, writer: Node, reader: Node, above: tuple[str, ...] | None) -> Read:
        if above is not None and reader.name not in above:
            return self._record(writer, reader, (*above, reader.name))
        self.is_plain = False
        known = (id(writer), id(reader))
        if known not in self._generic:
            # It may hold itself: its parts are there before it is made.
            self._generic[known] = made = []
            made.append(self._record(writer, reader, None))
        made = self._generic[known]
        if above is None:
            return lambda data: made[0](data)  # noqa: PLW0108 - it is not made yet where a record holds itself
        return lambda data: json.dumps(made[0](data), ensure_ascii=False, allow_nan=False)

    def _record(self, writer: Node, reader: Node, above: tuple[str, ...] | None, *, is_top: bool = False) -> Read:
        if writer.kind != "record":
            return self._never(writer, reader)
        steps, filled, width = [], [], 0
        mine = {item.name: item for item in writer.fields}
        names = _renamed(mine, reader.fields)
        # Java renames a field although there is one of the new name.
        self.is_plain &= not any(item.name in mine and mine.keys() & set(item.aliases) for item in reader.fields)
        taken = {}
        for item in reader.fields:
            name = names.get(item.name)
            is_column = above is None or _type(item.node, above) is not None
            self.is_plain &= is_column
            place: Any = item.name if above is None else width if is_column else None
            width += is_column
            if name is not None:
                taken[name] = (place, item)
            elif item.default is MISSING:
                return self._failing(f"its version has no such field, and {reader} gives no default", item.name)
            elif place is not None:
                encoded = Bytes(_encoded(item.node, item.default))
                filled.append((place, self._value(item.node, item.node, above)(encoded)))
        for item in writer.fields:
            place, wanted = taken.get(item.name, (None, None))
            read = self._skip(item.node) if wanted is None else self._value(item.node, wanted.node, above)
            steps.append((item.name if wanted is None else wanted.name, place, read))
        if above is not None and not width and not is_top:
            self.is_plain = False
        return _fields(steps, filled, width if above is not None else None, is_top=is_top)

    def _member(self, writer: Node, reader: Node, above: tuple[str, ...] | None) -> Read:
        number = _branch_for(writer, reader.branches)
        if number is None:
            return self._never(writer, reader)
        chosen, inner = reader.branches[number], members(reader)
        if writer.kind == "null":
            return lambda _: None
        if isinstance(inner, Node):
            return self._value(writer, inner if inner in _MERGED.values() else chosen, above)
        if above is None:
            return self._value(writer, chosen, above)
        self.is_plain &= not any(item.logical for item in inner)
        read, place = self._value(writer, chosen, above), inner.index(chosen)
        before, behind = (None,) * place, (None,) * (len(inner) - place - 1)
        return lambda data: (*before, read(data), *behind)

    def _leaf(self, writer: Node, reader: Node, *, is_json: bool) -> Read:  # noqa: C901 - one case for each rule
        if not _is_read_as(writer, reader):
            return self._never(writer, reader)
        raw = _RAW[writer.kind](writer)
        if writer.logical or reader.logical:
            convert = _conversion(writer.logical, reader.logical)
            if convert is None:
                return self._never(writer, reader)
            self.is_plain &= writer.logical == reader.logical
            if reader.logical and reader.logical[0] == "decimal" and reader.logical[1] > MOST_DIGITS:
                self.is_plain = False
            raw = _checked(raw, convert)
            return _checked(raw, _as_json) if is_json else raw
        if writer.name:
            self.is_plain &= writer.name in {reader.name, *reader.aliases}
        if reader.kind == "enum" and writer.symbols != reader.symbols:
            return _checked(raw, _symbol_of(reader))
        if writer.kind != reader.kind and {writer.kind, reader.kind} == {"string", "bytes"}:
            raw = _RAW[reader.kind](reader)
        elif reader.kind in {"float", "double"} and writer.kind in {"int", "long"}:
            raw = _checked(raw, _exact(reader.kind))
            self.is_plain &= (writer.kind, reader.kind) == ("int", "double")
        return _checked(raw, _as_json) if is_json else raw

    def _skip(self, node: Node) -> Read:
        if node.kind == "record":
            if id(node) not in self._skips:
                self._skips[id(node)] = steps = []
                steps += [self._skip(item.node) for item in node.fields]
            elif node.fields and not self._skips[id(node)]:
                self.is_plain = False  # it holds itself: a deep one would end Java, here it is an error
            inner = self._skips[id(node)]

            def skip(data: Bytes) -> None:
                for step in inner:
                    step(data)

            return skip
        if node.kind == "union":
            return _chosen([self._skip(item) for item in node.branches])
        if node.kind in {"array", "map"}:
            content = self._skip(node.content)
            return _list(content) if node.kind == "array" else _list(lambda data: (_bytes(data), content(data)))
        return _bytes if node.kind == "string" else _RAW[node.kind](node)

    def _never(self, writer: Node, reader: Node) -> Read:
        """Return the reader of values that no reading makes right: the writer's type means something else."""
        return self._failing(f"it was written as {writer}, and the newest version says {reader}")

    def _failing(self, cause: str, name: str | None = None) -> Read:
        self.is_plain = False

        def fail(_: Bytes) -> Any:
            raise Unfit(cause, (name,) if name else ())

        return fail


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A version as Spark's own reader is given it: a schema of the same bytes, whose names are in a space of its own.

    `names` are the reader's types there.
    """

    space: str
    schema: Mapping[str, Any]
    names: Mapping[str, str]


def plainly(writer: Node, reader: Node, space: str) -> Written | None:
    """Return a version as Spark's own reader takes it beside others, None where that does not read it right."""
    if not Resolution(writer, reader).is_plain:
        return None
    mine = named(reader)
    former = {name: item.name for item in mine.values() for name in item.aliases}
    names: dict[str, str] = {}
    for name in named(writer):
        wanted = name if name in mine else former.get(name)
        if wanted in names:
            return None  # to Java, two types of a union would be one
        if wanted is not None:
            names[wanted] = name
    schema = layout(writer, space)
    # The records themselves keep their names apart, so Java would not look for the former names of their fields.
    now = {old: new for new, old in _renamed({item.name: item for item in writer.fields}, reader.fields).items()}
    fields = [{**item, "name": now.get(item["name"], item["name"])} for item in schema["fields"]]
    return Written(space=space, schema={**schema, "fields": fields}, names=names)


def _renamed(mine: Mapping[str, AvroField], fields: Sequence[AvroField]) -> dict[str, str]:
    """Return the writer's names of the fields; one that was renamed goes before a new one of the old name."""
    found: dict[str, str] = {}
    for item in fields:
        if item.name not in mine:
            alias = next((name for name in item.aliases if name in mine and name not in found.values()), None)
            found |= {item.name: alias} if alias is not None else {}
    return found | {item.name: item.name for item in fields if item.name in mine and item.name not in found.values()}


def _fields(
    steps: Sequence[tuple[str, Any, Read]], filled: Sequence[tuple[Any, Any]], width: int | None, *, is_top: bool
) -> Read:
    def read(data: Bytes) -> Any:
        found: Any = {} if width is None else [None] * width
        for place, value in filled:
            found[place] = value
        for name, place, step in steps:
            try:
                value = step(data)
            except Unfit as error:
                raise error.below(name) from None
            if place is not None:
                found[place] = value
        if width is None:
            return found
        return tuple(found) if width or is_top else True

    return read


def _chosen(reads: Sequence[Read]) -> Read:
    def read(data: Bytes) -> Any:
        number = data.number(_LONG)
        if not 0 <= number < len(reads):
            raise Unfit(f"the type has no branch {number}")
        return reads[number](data)

    return read


def _list(read: Read) -> Read:
    def all_of(data: Bytes) -> list[Any]:
        found: list[Any] = []
        data.blocks(lambda: found.append(read(data)))
        return found

    return all_of


def _map(read: Read) -> Read:
    entries = _list(lambda data: (_text(data), read(data)))
    return lambda data: dict(entries(data))


def _checked(read: Read, convert: Callable[[Any], Any]) -> Read:
    return lambda data: convert(read(data))


def _bytes(data: Bytes) -> bytes:
    return data.take(data.number(_LONG))


def _text(data: Bytes) -> str:
    try:
        return _bytes(data).decode()
    except UnicodeDecodeError:
        raise Unfit("the text is not UTF-8") from None


def _boolean(data: Bytes) -> bool:
    byte = data.take(1)
    if byte not in {b"\0", b"\1"}:
        raise Unfit("it is neither true nor false")
    return byte == b"\1"


def _symbol(node: Node) -> Read:
    def read(data: Bytes) -> str:
        number = data.number(_INT)
        if not 0 <= number < len(node.symbols):
            raise Unfit(f"the enum has no symbol {number}")
        return node.symbols[number]

    return read


def _symbol_of(reader: Node) -> Callable[[str], str]:
    def convert(symbol: str) -> str:
        if symbol in reader.symbols:
            return symbol
        if reader.default is None:
            raise Unfit(f"the newest version has no symbol {symbol}")
        return reader.default

    return convert


def _exact(kind: str) -> Callable[[int], float]:
    form = "<f" if kind == "float" else "<d"

    def convert(number: int) -> float:
        found: float = struct.unpack(form, struct.pack(form, number))[0]
        if found != number:
            raise Unfit(f"it has more digits than a {kind} holds")
        return found

    return convert


_RAW: Mapping[str, Callable[[Node], Read]] = {
    "null": lambda _: lambda _: None,
    "boolean": lambda _: _boolean,
    "int": lambda _: lambda data: data.number(_INT),
    "long": lambda _: lambda data: data.number(_LONG),
    "float": lambda _: lambda data: struct.unpack("<f", data.take(4))[0],
    "double": lambda _: lambda data: struct.unpack("<d", data.take(8))[0],
    "bytes": lambda _: _bytes,
    "string": lambda _: _text,
    "fixed": lambda node: lambda data: data.take(node.size),
    "enum": _symbol,
}


def _is_read_as(writer: Node, reader: Node) -> bool:
    if writer.kind in {"fixed", "enum"}:
        return writer.kind == reader.kind and writer.size == reader.size
    return reader.kind in _PROMOTED.get(writer.kind, (writer.kind,))


def _branch_for(writer: Node, branches: Sequence[Node]) -> int | None:
    """Return the branch of a union that a type is read as, by Avro's rules: the same, by its name, else a wider one."""

    def first(fits: Callable[[Node], bool]) -> int | None:
        return next((number for number, item in enumerate(branches) if fits(item)), None)

    alike = [item for item in branches if item.kind == writer.kind]
    if writer.name:
        short = writer.name.rpartition(".")[2]
        for fits in (
            lambda item: item.kind == writer.kind and item.name == writer.name,
            lambda item: item.kind == writer.kind and writer.name in item.aliases,
            lambda item: item.kind == writer.kind and item.name.rpartition(".")[2] == short,
            lambda item: item.kind == writer.kind == "record" and len(alike) == 1,
        ):
            if (found := first(fits)) is not None:
                return found
        return None
    if (found := first(lambda item: item.kind == writer.kind)) is not None:
        return found
    return first(lambda item: item.kind in _PROMOTED.get(writer.kind, ()) and item.kind != writer.kind)


# Logical types


def _conversion(writer: Logical | None, reader: Logical | None) -> Callable[[Any], Any] | None:
    """Return how a value of one logical type becomes one of another; None where it has no such value."""
    if writer is None or reader is None or writer[0] != reader[0]:
        return None
    match reader:
        case ("decimal", precision, scale):
            return _decimal(writer[2], precision, scale)
        case ("date",):
            return _date
        case (kind, per_second):
            return _time(kind, writer[1], per_second)
    return None


def _decimal(written: int, precision: int, scale: int) -> Callable[[bytes], Decimal | str]:
    def convert(data: bytes) -> Decimal | str:
        number, shift = int.from_bytes(data, "big", signed=True), scale - written
        number, left = (number * 10**shift, 0) if shift >= 0 else divmod(number, 10**-shift)
        if left:
            raise Unfit(f"it has more digits behind the point than decimal({precision},{scale})")
        if abs(number) >= 10**precision:  # before its digits, of which Python writes a few thousand only
            raise Unfit(f"it has more digits than decimal({precision},{scale})")
        found = Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))
        return found if precision <= MOST_DIGITS else f"{found:f}"

    return convert


def _date(days: int) -> date:
    try:
        return date(1970, 1, 1) + timedelta(days=days)
    except OverflowError:
        raise Unfit("its day is not within the years 1 to 9999") from None


def _time(kind: str, written: int, per_second: int) -> Callable[[int], Any]:
    # A column of times holds microseconds, whatever the schema counts; others hold the number.
    is_number = kind == "time" or per_second == _PER_SECOND["nanos"]
    unit = per_second if is_number else _PER_SECOND["micros"]

    def convert(value: int) -> Any:
        number, left = divmod(value * unit, written)
        if left:
            raise Unfit("it is a time between two that the column holds")
        if is_number:
            if not -(1 << _LONG) <= number < 1 << _LONG:
                raise Unfit("its time is too far away")
            return number
        try:
            found = _EPOCH + timedelta(microseconds=number)
        except OverflowError:
            raise Unfit("its time is not within the years 1 to 9999") from None
        return found if kind == "timestamp" else found.replace(tzinfo=None)

    return convert


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


# Defaults


def _encoded(node: Node, value: Any) -> bytes:
    """Return the default of a field as it would be written. Raises Unfit for one that is no value of its type."""
    try:
        return _written(node, value)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, struct.error):
        raise Unfit(f"a default is no {node}") from None


def _written(node: Node, value: Any) -> bytes:  # noqa: C901, PLR0911 - one case for each kind
    match node.kind:
        case "null":
            return _only(value is None, b"")
        case "boolean":
            return _only(isinstance(value, bool), bytes([bool(value)]))
        case "int" | "long":
            return _only(isinstance(value, int) and not isinstance(value, bool), zigzag(value))
        case "float" | "double":
            _only(isinstance(value, int | float) and not isinstance(value, bool), b"")
            return struct.pack("<f" if node.kind == "float" else "<d", value)
        case "bytes" | "string" | "fixed":
            data = value.encode("utf-8" if node.kind == "string" else "latin-1")
            return data if node.kind == "fixed" else zigzag(len(data)) + data
        case "enum":
            return zigzag(node.symbols.index(value))
        case "array":
            items = [_written(node.content, item) for item in value]
            return (zigzag(len(items)) + b"".join(items) if items else b"") + b"\0"
        case "map":
            items = [_written(Node(kind="string"), key) + _written(node.content, item) for key, item in value.items()]
            return (zigzag(len(items)) + b"".join(items) if items else b"") + b"\0"
        case "union":
            for number, branch in enumerate(node.branches):
                try:
                    return zigzag(number) + _encoded(branch, value)
                except Unfit:
                    continue
            raise ValueError
    given = {item.name: value.get(item.name, item.default) for item in node.fields}
    return b"".join(_written(item.node, given[item.name]) for item in node.fields)


def _only(holds: bool, found: bytes) -> bytes:
    if not holds:
        raise ValueError
    return found


def reader(schema: str, writers: Sequence[tuple[int, str]]) -> Callable[[int | None, bytes | None], tuple[Any, Any]]:
    """Return the function that makes a row of a value and the id of its schema: the columns, or why there are none."""
    made: dict[int, Resolution] = {}
    texts = dict(writers)

    def read(number: int | None, payload: bytes | None) -> tuple[Any, Any]:
        if number is None or payload is None:
            return None, None
        try:
            if number not in made:
                made[number] = Resolution(parsed(texts[number]), parsed(schema))
            return made[number].row(bytes(payload)), None
        except Unfit as error:
            return None, str(error)
        except Exception as error:  # noqa: BLE001 - whatever a value does to its reader, its bytes land
            return None, f"it cannot be read ({type(error).__name__})"

    return read
