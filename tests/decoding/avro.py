"""Avro: schemas, versions of them and values drawn at random; fastavro says what they mean.

Values are drawn as trees of raw parts and written by an encoder of its own, so that bytes can be what no library would
write: text that is not UTF-8, a key of a map twice, times of any year.
"""

from __future__ import annotations

import copy
import io
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from itertools import count
from typing import Any
from uuid import UUID

from airflow_kafka_lake.core.decoding import Decoding, Format, RegisteredSchema
from tests.decoding.cases import (
    ANY,
    NONE,
    Case,
    Draw,
    Drawn,
    Stage,
    as_micros,
    column,
    entries,
    narrowed,
    part,
    same_float,
)

Schema = Any

# Schemas


def _logical(base: str, name: str, **more: int) -> Callable[[Draw], Schema]:
    return lambda _: {"type": base, "logicalType": name, **more}


def _decimal(draw: Draw, most: int = 38) -> Schema:
    precision = draw.randint(1, most)
    found = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": draw.randint(0, precision)}
    if draw.chance(0.3):
        size = next(size for size in count(1) if 10**precision <= 2 ** (8 * size - 1))
        found |= {"type": "fixed", "name": f"D{draw.getrandbits(48):x}", "size": size}
    return found


def _wide_decimal(draw: Draw) -> Schema:
    return {"type": "bytes", "logicalType": "decimal", "precision": draw.randint(39, 76), "scale": draw.randint(0, 20)}


def _enum(draw: Draw) -> Schema:
    return {"type": "enum", "name": f"E{draw.getrandbits(48):x}", "symbols": ["A", "B", "C"][: draw.randint(1, 3)]}


def _fixed(draw: Draw) -> Schema:
    return {"type": "fixed", "name": f"F{draw.getrandbits(48):x}", "size": draw.pick([1, 2, 16])}


def _itself(draw: Draw) -> Schema:
    name = f"N{draw.getrandbits(48):x}"
    next_ = draw.pick([["null", name], {"type": "array", "items": name}, {"type": "map", "values": name}])
    return {"type": "record", "name": name, "fields": [{"name": "n", "type": "int"}, {"name": "next", "type": next_}]}


PRIMITIVES = ("boolean", "int", "long", "float", "double", "bytes", "string")
USUAL: Mapping[str, Callable[[Draw], Schema]] = {
    **{name: lambda _, name=name: name for name in PRIMITIVES},  # type: ignore[misc]
    "decimal": _decimal,
    "enum": _enum,
    "fixed": _fixed,
    "date": _logical("int", "date"),
    "timestamp-millis": _logical("long", "timestamp-millis"),
    "timestamp-micros": _logical("long", "timestamp-micros"),
    "local-timestamp-millis": _logical("long", "local-timestamp-millis"),
    "local-timestamp-micros": _logical("long", "local-timestamp-micros"),
    "uuid": _logical("string", "uuid"),
}
ODD: Mapping[str, Callable[[Draw], Schema]] = {
    "avro: a decimal beyond 38 digits": _wide_decimal,
    "avro: a time of a day": lambda draw: draw.pick(
        [{"type": "int", "logicalType": "time-millis"}, {"type": "long", "logicalType": "time-micros"}]
    ),
    "avro: a timestamp in nanoseconds": lambda draw: {
        "type": "long",
        "logicalType": draw.pick(["timestamp-nanos", "local-timestamp-nanos"]),
    },
    "avro: a duration": lambda draw: {
        "type": "fixed",
        "name": f"U{draw.getrandbits(48):x}",
        "size": 12,
        "logicalType": "duration",
    },
    "avro: a field of type null": lambda _: "null",
    "avro: a record without fields": lambda draw: {
        "type": "record",
        "name": f"Z{draw.getrandbits(48):x}",
        "fields": [],
    },
    "avro: a union without a type but null": lambda _: ["null"],
    "avro: a record that holds itself": _itself,
    "avro: an unknown logical type": lambda _: {"type": "string", "logicalType": "country"},
    "avro: a decimal that its schema does not allow": lambda _: {
        "type": "bytes",
        "logicalType": "decimal",
        "precision": 4,
        "scale": 9,
    },
}


def _type(draw: Draw, depth: int) -> Schema:
    if draw.chance(0.03):
        return draw.odd(ODD)(draw)
    kind = draw.random()
    if depth > 0 and kind < 0.3:
        return draw.pick([_array, _map, _record])(draw, depth - 1)
    if kind < 0.5:
        return _union(draw, depth)
    return USUAL[draw.pick(sorted(USUAL))](draw)


def _array(draw: Draw, depth: int) -> Schema:
    return {"type": "array", "items": _type(draw, depth)}


def _map(draw: Draw, depth: int) -> Schema:
    return {"type": "map", "values": _type(draw, depth)}


def _record(draw: Draw, depth: int) -> Schema:
    fields = [{"name": name, "type": _type(draw, depth)} for name in draw.names(draw.randint(1, 3))]
    return {"type": "record", "name": f"R{draw.getrandbits(48):x}", "fields": fields}


def _union(draw: Draw, depth: int) -> Schema:
    one = _type(draw, depth)
    while isinstance(one, list) or one == "null":
        one = _type(draw, depth)
    found = [one]
    if draw.chance(0.25):
        other = draw.pick([name for name in PRIMITIVES if name != _kind(one)])
        draw.met.add("avro: a union of several types")
        found.append(other)
    if draw.chance(0.9):
        found.insert(draw.randint(0, 1) * len(found), "null")
    return found


def _root(draw: Draw) -> Schema:
    names = draw.names(draw.randint(1, 6), clash=0.04)
    fields = [{"name": name, "type": _type(draw, 3)} for name in names]
    if draw.chance(0.01):
        draw.met.add("avro: names that differ in case only")
        fields += [{"name": fields[0]["name"].swapcase(), "type": "int"}]
    return {"type": "record", "name": "Root", "fields": fields}


def _kind(schema: Schema) -> str:
    return "union" if isinstance(schema, list) else str(schema if isinstance(schema, str) else schema["type"])


# Versions

PROMOTED = {"int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",), "string": ("bytes",)}


def _evolved(draw: Draw, schema: Schema) -> Schema:
    """Return a newer version of a record's schema, compatible or not by rules that no registry checks."""
    found = copy.deepcopy(schema)
    for _ in range(draw.randint(1, 3)):
        draw.pick([_add, _drop, _shuffle, _change, _change, _change])(draw, found["fields"])
    return found


def _add(draw: Draw, fields: list[Any]) -> None:
    defaults: list[tuple[Schema, Any]] = [
        ("int", 7),
        ("string", "ä"),
        ("double", 0.5),
        ("bytes", "\u00ff"),
        (["null", "string"], None),
        ({"type": "array", "items": "int"}, [1]),
        ({"type": "map", "values": "string"}, {"k": "v"}),
        ({"type": "long", "logicalType": "timestamp-millis"}, 1_700_000_000_000),
        ("boolean", True),
        ({"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}, "\u0001\u0000"),
    ]
    kind, default = draw.pick(defaults)
    fields.insert(
        draw.randint(0, len(fields)), {"name": f"n{draw.getrandbits(20):x}", "type": kind, "default": default}
    )


def _drop(draw: Draw, fields: list[Any]) -> None:
    if len(fields) > 1:
        fields.pop(draw.randrange(len(fields)))


def _shuffle(draw: Draw, fields: list[Any]) -> None:
    draw.shuffle(fields)


def _change(draw: Draw, fields: list[Any]) -> None:
    changed = draw.pick(fields)
    kind = changed["type"]
    if isinstance(kind, str) and kind in PROMOTED:
        wider = draw.pick(PROMOTED[kind])
        if (kind, wider) not in {("int", "long"), ("float", "double")}:
            draw.met.add("avro: a type becomes one that the table does not widen to")
        changed["type"] = wider
    elif isinstance(kind, dict) and "logicalType" in kind:
        _change_logical(draw, changed)
    elif isinstance(kind, dict) and kind["type"] == "record" and kind["fields"] and kind["name"][0] == "R":
        draw.pick([_add, _drop, _change])(draw, kind["fields"])
    elif not isinstance(kind, list) and kind != "null":
        changed["type"] = ["null", kind]
        changed["default"] = None


def _change_logical(draw: Draw, changed: dict[str, Any]) -> None:
    kind = dict(changed["type"])
    changed.pop("default", None)
    name = kind["logicalType"]
    if name == "decimal" and kind["type"] == "bytes" and kind["precision"] <= 38:
        draw.met.add("avro: the scale of a decimal changes")
        kind["scale"] = draw.randint(0, kind["precision"])
    elif name.startswith(("timestamp", "local-timestamp")):
        draw.met.add("avro: the unit of a time changes")
        kind["logicalType"] = draw.pick([item for item in USUAL if "timestamp" in item and item != name])
    elif name == "date":
        draw.met.add("avro: a logical type is dropped")
        changed["type"] = "int"
        return
    changed["type"] = kind


# Values: trees of raw parts, and their bytes


def _varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _sized(data: bytes) -> bytes:
    return _varint(len(data)) + data


TEXTS = (b"", b"a", "ä€😀".encode(), b"zip-code", b" ", b"x" * 300, b"\0")
INTS = (0, 1, -1, 2**31 - 1, -(2**31))
LONGS = (*INTS, 2**63 - 1, -(2**63), 2**53 + 1)
FLOATS = (0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan"), 5e-324, 1.7976931348623157e308)
SECOND, DAY = 10**6, 86_400
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31."""


class Values:
    """Draws values of one schema and writes them; `edges` is how often a part is at an edge."""

    def __init__(self, draw: Draw, schema: Schema, edges: float) -> None:
        self.draw, self.edges = draw, edges
        self.names = _named(schema, {})

    def bytes_of(self, schema: Schema, depth: int = 0) -> bytes:
        if isinstance(schema, list):
            return self._union(schema, depth)
        if isinstance(schema, str):
            schema = self.names.get(schema, {"type": schema})
        if "logicalType" in schema and schema["logicalType"] in LOGICAL:
            return LOGICAL[schema["logicalType"]](self, schema)
        return WRITERS[schema["type"]](self, schema, depth)

    def _union(self, schema: list[Any], depth: int) -> bytes:
        index = self.draw.randrange(len(schema))
        if depth > 6 and "null" in schema:
            index = schema.index("null")
        return _varint(index) + self.bytes_of(schema[index], depth + 1)

    def at_edge(self) -> bool:
        return self.draw.chance(self.edges)

    def text(self) -> bytes:
        if self.at_edge() and self.draw.chance(0.3):
            self.draw.met.add("avro: text that is not UTF-8")
            return self.draw.pick([b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xc0\x80"])
        return self.draw.pick(TEXTS)

    def record(self, schema: Schema, depth: int) -> bytes:
        return b"".join(self.bytes_of(field["type"], depth + 1) for field in schema["fields"])

    def array(self, schema: Schema, depth: int) -> bytes:
        size = 0 if depth > 6 else self.draw.randint(0, 3)
        return self._blocks([self.bytes_of(schema["items"], depth + 1) for _ in range(size)])

    def map(self, schema: Schema, depth: int) -> bytes:
        keys = [b"a", b"b", "ü".encode()][: 0 if depth > 6 else self.draw.randint(0, 3)]
        if keys and self.at_edge():
            self.draw.met.add("avro: a key of a map twice")
            keys.append(keys[0])
        return self._blocks([_sized(key) + self.bytes_of(schema["values"], depth + 1) for key in keys])

    def _blocks(self, items: list[bytes]) -> bytes:
        if items and self.draw.chance(0.2):  # two blocks, the first with its size in bytes
            first = _varint(-1) + _varint(len(items[0])) + items[0]
            return first + self._blocks(items[1:])
        return (_varint(len(items)) + b"".join(items) if items else b"") + b"\0"

    def integer(self, numbers: tuple[int, ...], usual: int) -> bytes:
        return _varint(self.draw.pick(numbers) if self.at_edge() else self.draw.randint(-usual, usual))

    def time(self, per_second: int) -> bytes:
        """Write a time of the years 1 to 9999, or any number."""
        first, last = FIRST_DAY * DAY * per_second, (LAST_DAY + 1) * DAY * per_second - 1
        if not self.at_edge():
            return _varint(self.draw.randint(-(10**9), 4 * 10**9) * per_second + self.draw.randrange(per_second))
        if self.draw.chance(0.5):
            return _varint(self.draw.pick([0, -1, first, last]))
        self.draw.met.add("avro: a time of no year that has four digits")
        return _varint(self.draw.pick([first - 1, last + 1, 2**63 - 1, -(2**63), 1_700_000_000_000_000 * 1000]))

    def day(self) -> bytes:
        if not self.at_edge():
            return _varint(self.draw.randint(-20_000, 50_000))
        if self.draw.chance(0.5):
            return _varint(self.draw.pick([0, -1, FIRST_DAY, LAST_DAY]))
        self.draw.met.add("avro: a day of no year that has four digits")
        return _varint(self.draw.pick([FIRST_DAY - 1, LAST_DAY + 1, 2**31 - 1, -(2**31)]))

    def decimal(self, schema: Schema) -> bytes:
        most = 10 ** schema["precision"] - 1
        number = self.draw.randint(-most, most)
        if self.at_edge():
            number = self.draw.pick([0, most, -most, 1, -1])
            if self.draw.chance(0.3):
                self.draw.met.add("avro: a decimal with more digits than its schema says")
                number = most + 1
        if schema["type"] == "fixed":
            size = schema["size"]
            bound = 2 ** (8 * size - 1) - 1
            return max(-bound, min(bound, number)).to_bytes(size, "big", signed=True)
        size = (number.bit_length() // 8) + 1
        return _sized(number.to_bytes(size, "big", signed=True))


LOGICAL: Mapping[str, Callable[[Values, Schema], bytes]] = {
    "decimal": lambda v, schema: v.decimal(schema),
    "date": lambda v, _: v.day(),
    "timestamp-millis": lambda v, _: v.time(1000),
    "timestamp-micros": lambda v, _: v.time(SECOND),
    "local-timestamp-millis": lambda v, _: v.time(1000),
    "local-timestamp-micros": lambda v, _: v.time(SECOND),
    "time-millis": lambda v, _: _varint(v.draw.randrange(DAY * 1000)),
    "time-micros": lambda v, _: _varint(v.draw.randrange(DAY * SECOND)),
    "uuid": lambda v, _: _sized(str(UUID(int=v.draw.getrandbits(128))).encode()),
}
WRITERS: Mapping[str, Callable[[Values, Schema, int], bytes]] = {
    "null": lambda v, schema, depth: b"",
    "boolean": lambda v, schema, depth: v.draw.pick([b"\0", b"\1"]),
    "int": lambda v, schema, depth: v.integer(INTS, 1000),
    "long": lambda v, schema, depth: v.integer(LONGS, 10**12),
    "float": lambda v, schema, depth: struct.pack("<f", narrowed(v.draw.pick(FLOATS) if v.at_edge() else 0.25)),
    "double": lambda v, schema, depth: struct.pack("<d", v.draw.pick(FLOATS) if v.at_edge() else v.draw.random()),
    "bytes": lambda v, schema, depth: _sized(v.draw.pick([b"", b"\xff\0", b"abc"])),
    "string": lambda v, schema, depth: _sized(v.text()),
    "fixed": lambda v, schema, depth: v.draw.randbytes(schema["size"]),
    "enum": lambda v, schema, depth: _varint(v.draw.randrange(len(schema["symbols"]))),
    "array": Values.array,
    "map": Values.map,
    "record": Values.record,
}


def _named(schema: Schema, found: dict[str, Any]) -> dict[str, Any]:
    for item in schema if isinstance(schema, list) else [schema]:
        if isinstance(item, dict):
            if "name" in item:
                found[item["name"]] = item
            for inner in (item.get("items"), item.get("values"), *(field["type"] for field in item.get("fields", ()))):
                if inner is not None:
                    _named(inner, found)
    return found


# What it means


def meaning(data: bytes, writer: Schema, reader: Schema) -> Any:
    """Return the record by fastavro, NONE where it is none."""
    import fastavro

    stream = io.BytesIO(data)
    try:
        found = fastavro.schemaless_reader(stream, _told(writer), _told(reader), return_record_name=False)
    except Exception:  # noqa: BLE001 - whatever a reader raises, it has no record
        return NONE
    return found if stream.read() == b"" else NONE


def _told(schema: Schema) -> Schema:
    """Return a schema in which texts are texts, whatever they are of."""
    found = copy.deepcopy(schema)
    for item in _all(found):
        if item.get("logicalType") == "uuid" or (item.get("logicalType") == "decimal" and not _is_legal(item)):
            del item["logicalType"]
    return found


def _is_legal(decimal: Mapping[str, Any]) -> bool:
    return bool(decimal.get("scale", 0) <= decimal["precision"])


def _all(schema: Schema) -> Iterator[dict[str, Any]]:
    for item in schema if isinstance(schema, list) else [schema]:
        if isinstance(item, dict):
            yield item
            for inner in (item.get("items"), item.get("values"), *(field["type"] for field in item.get("fields", ()))):
                if inner is not None:
                    yield from _all(inner)


class Agreement:
    """Compares what fastavro says with a row, by the newest schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.names = _named(schema, {})

    def __call__(self, expected: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[str]:
        for field in self.schema["fields"]:
            want, have = expected[field["name"]], column(row, field["name"])
            if not self.same(field["type"], want, have):
                kind = json.dumps(field["type"])[:200]
                yield f"{field['name']} ({kind}) is {want!r:.200}, and lands as {have!r:.200}"

    def same(self, schema: Schema, want: Any, have: Any) -> bool:
        if isinstance(schema, list):
            return self._same_union(schema, want, have)
        if isinstance(schema, str):
            schema = self.names.get(schema, {"type": schema})
        if want is None or have is None:
            return want is None and have is None
        if isinstance(have, str) and not isinstance(want, str | UUID):
            return self._in_text(want, have)
        compound = {"record": self._same_record, "array": self._same_array, "map": self._same_map}
        return compound.get(schema["type"], same_scalar)(schema, want, have)

    def _same_array(self, schema: Schema, want: Any, have: Any) -> bool:
        return len(want) == len(have) and all(self.same(schema["items"], a, b) for a, b in zip(want, have, strict=True))

    def _same_map(self, schema: Schema, want: Any, have: Any) -> bool:
        found = entries(have)
        return len(found) == len(want) and all(
            key in want and self.same(schema["values"], want[key], item) for key, item in found
        )

    def _same_union(self, schema: list[Any], want: Any, have: Any) -> bool:
        inner = [item for item in schema if item != "null"]
        if want is None:
            return have is None
        if len(inner) > 1 and isinstance(have, dict):
            members = [(item, have.get(f"member{number}")) for number, item in enumerate(inner)]
            there = [(item, value) for item, value in members if value is not None]
            if len(there) == 1 and there[0][0] == "string" and isinstance(want, bytes):
                return bool(want == there[0][1].encode())  # fastavro takes the first that fits, Java the same type
            return len(there) == 1 and self.same(there[0][0], want, there[0][1])
        return any(self.same(item, want, have) for item in inner)

    def _same_record(self, schema: Schema, want: Mapping[str, Any], have: Any) -> bool:
        if not schema["fields"]:
            return have is True or have == {}
        return isinstance(have, dict) and all(
            self.same(field["type"], want[field["name"]], part(have, field["name"])) for field in schema["fields"]
        )

    def _in_text(self, want: Any, have: str) -> bool:
        """Return whether a text stands for what the table cannot hold: JSON of a subtree, a decimal, digits."""
        if isinstance(want, Decimal):
            return Decimal(have) == want
        try:
            found = json.loads(have)
        except ValueError:
            return False
        return told(found) == told(want)


def told(value: Any) -> Any:
    """Return a value as JSON would have it, roughly: what is no JSON becomes text."""
    match value:
        case dict():
            return {str(key): told(item) for key, item in value.items()}
        case list() | tuple():
            return [told(item) for item in value]
        case None | bool() | int() | str():
            return value
        case float():
            return value if value == value else "NaN"  # noqa: PLR0124
    return str(value)


def same_scalar(schema: Schema, want: Any, have: Any) -> bool:
    """Return whether a part is the same; a time that the newest schema has as a number is that number."""
    if isinstance(want, str) and schema.get("type") in {"bytes", "fixed"} and not isinstance(have, str):
        # A default, which fastavro leaves as it is, or a text that became bytes.
        if schema.get("logicalType") == "decimal":
            want = Decimal(int.from_bytes(want.encode("latin-1"), "big", signed=True)).scaleb(-schema["scale"])
        elif _same_bytes(want, have):
            return True
    for kinds, same in SAME:
        if isinstance(want, kinds):
            return same(schema, want, have)
    return False


def _same_bytes(want: str, have: Any) -> bool:
    return have in {want.encode(), want.encode("latin-1", "replace")}


def _same_decimal(want: Decimal, have: Any) -> bool:
    if isinstance(have, bytes):
        digits = int("".join(map(str, want.as_tuple().digits)) or "0") * (-1 if want < 0 else 1)
        return int.from_bytes(have, "big", signed=True) == digits
    return isinstance(have, Decimal) and have == want


def _same_number(schema: Schema, want: int, have: Any) -> bool:
    if isinstance(have, int | float | Decimal) and not isinstance(have, bool):
        if schema.get("type") in {"float", "double"}:
            return same_float(want, have, narrow=schema["type"] == "float")
        return have == want
    # The writer's number has no unit, and the newest schema gives it one.
    units = {"timestamp-millis": 1000, "local-timestamp-millis": 1000, "date": 86_400_000_000, "time-millis": 1000}
    found = as_micros(have)
    return found is not None and found == want * units.get(schema.get("logicalType", ""), 1)


def _same_time(want: Any, have: Any) -> bool:
    found = as_micros(want)
    assert found is not None
    if isinstance(have, int) and not isinstance(have, bool):
        return have in {found, found // 1000, found * 1000, found // 86_400_000_000}
    return found == as_micros(have)


SAME: tuple[tuple[Any, Callable[[Schema, Any, Any], bool]], ...] = (
    ((bool, bytes), lambda _, want, have: type(want) is type(have) and want == have),
    ((str, UUID), lambda _, want, have: str(want) == have or (isinstance(have, bytes) and have == str(want).encode())),
    (Decimal, lambda _, want, have: _same_decimal(want, have)),
    (float, lambda schema, want, have: same_float(want, have, narrow=schema.get("type") == "float")),
    (int, _same_number),
    ((date, time), lambda _, want, have: _same_time(want, have)),
)
"""By what the library gave; a time with a day is a day too."""


# Topics


def drawn(number: int, seed: int, cases: int) -> Drawn:
    """Draw a topic with one to four versions of its schema, and `cases` records."""
    draw = Draw(f"avro {seed} {number}")
    name = f"avro-{number}"
    schemas = [_root(draw)]
    for _ in range(draw.pick([0, 0, 1, 2, 3])):
        schemas.append(_evolved(draw, schemas[-1]))
    peculiar = draw.noted()
    asked = Decoding(format=Format.AVRO, registry="schemas")
    versions = [
        RegisteredSchema(id=number * 10 + at, version=at + 1, format=Format.AVRO, text=json.dumps(schema))
        for at, schema in enumerate(schemas)
    ]
    stages = []
    last = len(schemas) - 1
    for at in sorted({draw.randint(0, last), last}):
        share = cases // (2 if last > 0 and at != last else 1)
        records = tuple(_case(draw, versions[: at + 1], schemas[: at + 1]) for _ in range(max(1, share)))
        stages.append(
            Stage(asked=asked, versions=tuple(versions[: at + 1]), cases=records, agrees=Agreement(schemas[at]))
        )
    return Drawn(name=name, stages=tuple(stages), peculiar=peculiar, versions=tuple(item.text for item in versions))


def _case(draw: Draw, versions: list[RegisteredSchema], schemas: list[Schema]) -> Case:
    if draw.chance(0.03):
        odd = [None, b"", b"\0", b"plain", b"\0\0\0\xff\xff\1", b"\0\xff\xff\xff\xff\1"]
        return Case(value=draw.pick(odd), expected=NONE)
    at = draw.randrange(len(versions))
    edges = draw.pick([0.0, 0.05, 0.5])
    payload = Values(draw, schemas[at], edges).bytes_of(schemas[at])
    peculiar = draw.noted()
    whole = payload
    if draw.chance(0.04):
        payload = draw.pick([payload + b"\0", payload[:-1], b""])
        peculiar |= {"avro: bytes behind the record"} if len(payload) > len(whole) else {"avro: bytes that are cut"}
    expected = meaning(payload, schemas[at], schemas[-1])
    # What is replaced by a later entry, and text that becomes bytes, fastavro reads as it was written.
    unsaid = {"avro: a key of a map twice"} | ({"avro: text that is not UTF-8"} if len(versions) > 1 else set())
    if expected is NONE and unsaid & peculiar and payload == whole:
        expected = ANY
    value = b"\0" + versions[at].id.to_bytes(4, "big") + payload
    must = edges == 0.0 and payload == whole and expected is not NONE
    return Case(value=value, expected=expected, must=must, peculiar=peculiar)
