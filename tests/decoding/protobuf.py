"""Protobuf: files, versions of them and messages drawn at random; google.protobuf says what they mean.

Messages are written with a twin of their file in which texts are bytes, so that a text can be what no library would
write.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError

from airflow_kafka_lake.adapters.registry.client import messages
from airflow_kafka_lake.core.decoding import Decoding, Format, RegisteredSchema
from tests.decoding.cases import EPOCH, NONE, Case, Draw, Drawn, Stage, column, entries, part, same_float

Field = descriptor_pb2.FieldDescriptorProto
KNOWN = (any_pb2, duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
SCALARS = (
    "BOOL", "BYTES", "DOUBLE", "FIXED32", "FIXED64", "FLOAT", "INT32", "INT64", "SFIXED32", "SFIXED64", "SINT32",
    "SINT64", "STRING", "UINT32", "UINT64",
)  # fmt: skip
KEYS = ("BOOL", "INT32", "INT64", "STRING", "UINT32", "UINT64")
BOUNDS = {"32": 2**31, "64": 2**63}
TIMESTAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
ODD = {
    "protobuf: a message without fields": "empty",
    "protobuf: a message that holds itself": "itself",
    "protobuf: any JSON (google.protobuf.Struct)": "google.protobuf.Struct",
    "protobuf: any message (google.protobuf.Any)": "google.protobuf.Any",
    "protobuf: a duration": DURATION,
    "protobuf: a oneof of a message without fields": "oneof empty",
}


class _File:
    """A file being drawn: every message has a number of its own for its next field."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.proto2 = draw.chance(0.2)
        self.proto = descriptor_pb2.FileDescriptorProto(name="registered.proto", package="p")
        self.proto.syntax = "proto2" if self.proto2 else "proto3"
        self.proto.dependency.extend(module.DESCRIPTOR.name for module in KNOWN)
        kind = self.proto.enum_type.add(name="Kind")
        for number, name in ((0, "NONE"), (1, "NEW"), (5, "PAID")):
            kind.value.add(name=name, number=number)

    def message(self, name: str, depth: int, clash: float = 0.0) -> Any:
        made = descriptor_pb2.DescriptorProto(name=name)
        for field in self.draw.names(self.draw.randint(1, 5), clash=clash):
            self.field(made, field, depth)
        self.proto.message_type.append(made)
        return made

    def field(self, made: Any, name: str, depth: int) -> None:
        draw = self.draw
        taken = [*(field.number for field in made.field), *(old.start for old in made.reserved_range)]
        number = 1 + max(taken, default=0) + draw.choice([0, 0, 20])
        field = made.field.add(name=name, number=number, label=draw.pick([Field.LABEL_OPTIONAL, Field.LABEL_REPEATED]))
        if draw.chance(0.03):
            self._odd(made, field, draw.odd(ODD))
        elif draw.chance(0.15):
            self._map(made, field, depth)
        else:
            self._kind(field, depth)
        once = field.label == Field.LABEL_OPTIONAL
        if once and not self.proto2 and field.type != Field.TYPE_MESSAGE and draw.chance(0.3):
            field.proto3_optional = True
            field.oneof_index = len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{name}")

    def _kind(self, field: Any, depth: int) -> None:
        draw = self.draw
        if depth > 0 and draw.chance(0.25):
            inner = self.message(f"M{draw.getrandbits(40):x}", depth - 1)
            field.type, field.type_name = Field.TYPE_MESSAGE, f".p.{inner.name}"
        elif draw.chance(0.15):
            wrapped = [
                f"google.protobuf.{kind}Value" for kind in ("Int64", "UInt64", "String", "Bool", "Bytes", "Float")
            ]
            field.type, field.type_name = Field.TYPE_MESSAGE, "." + draw.pick([TIMESTAMP, TIMESTAMP, *wrapped])
        elif draw.chance(0.15):
            field.type, field.type_name = Field.TYPE_ENUM, ".p.Kind"
        else:
            field.type = Field.Type.Value(f"TYPE_{draw.pick(SCALARS)}")

    def _map(self, made: Any, field: Any, depth: int) -> None:
        entry = made.nested_type.add(name="".join(part.capitalize() for part in field.name.split("_")) + "Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=1, type=Field.Type.Value(f"TYPE_{self.draw.pick(KEYS)}"))
        self._kind(entry.field.add(name="value", number=2, label=1), depth)
        field.label, field.type = Field.LABEL_REPEATED, Field.TYPE_MESSAGE
        field.type_name = f".p.{made.name}.{entry.name}"

    def _odd(self, made: Any, field: Any, what: str) -> None:
        field.type = Field.TYPE_MESSAGE
        if what == "itself":
            field.type_name = f".p.{made.name}"
        elif what.endswith("empty"):
            empty = self.proto.message_type.add(name=f"Empty{self.draw.getrandbits(40):x}")
            field.type_name = f".p.{empty.name}"
            if what.startswith("oneof") and not made.oneof_decl:  # those of optional fields come last
                field.label = Field.LABEL_OPTIONAL
                field.oneof_index = len(made.oneof_decl)
                made.oneof_decl.add(name="choice")
        else:
            field.type_name = f".{what}"


def _first(draw: Draw) -> Any:
    """Return a file with the message and others, in any order."""
    file = _File(draw)
    file.message("Root", 3, clash=0.04)
    for number in range(draw.choice([0, 0, 1, 2])):
        file.message(f"Other{number}", 1)
    draw.shuffle(order := list(file.proto.message_type))
    del file.proto.message_type[:]
    file.proto.message_type.extend(order)
    return file.proto


def _evolved(draw: Draw, proto: Any) -> Any:
    """Return a newer version: fields come, go and get names; the order of messages may change."""
    found = descriptor_pb2.FileDescriptorProto()
    found.CopyFrom(proto)
    file = _File(draw)
    file.proto, file.proto2 = found, found.syntax == "proto2"
    for _ in range(draw.randint(1, 3)):
        root = next(item for item in found.message_type if item.name == "Root")
        draw.pick([_add, _drop, _rename, _widen, _reorder, _reorder])(file, root)
    return found


def _add(file: _File, root: Any) -> None:
    file.field(root, f"n{file.draw.getrandbits(20):x}", 1)


def _rename(file: _File, root: Any) -> None:
    file.draw.pick(root.field).name = f"r{file.draw.getrandbits(20):x}"


def _widen(file: _File, root: Any) -> None:
    for field in root.field:
        if field.type == Field.TYPE_INT32:
            field.type = Field.TYPE_INT64


def _reorder(file: _File, root: Any) -> None:
    if len(file.proto.message_type) > 1:
        file.draw.met.add("protobuf: the order of messages changes")
    file.draw.shuffle(order := [_copied(item) for item in file.proto.message_type])
    del file.proto.message_type[:]
    file.proto.message_type.extend(order)


def _drop(file: _File, root: Any) -> None:
    plain = [number for number, field in enumerate(root.field) if not field.HasField("oneof_index")]
    if len(plain) > 1:
        gone = file.draw.pick(plain)
        root.reserved_range.add(start=root.field[gone].number, end=root.field[gone].number + 1)
        del root.field[gone]


def _copied(item: Any) -> Any:
    found = descriptor_pb2.DescriptorProto()
    found.CopyFrom(item)
    return found


def _whole(proto: Any) -> Any:
    files = []
    for module in KNOWN:
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        files.append(file)
    return descriptor_pb2.FileDescriptorSet(file=[*files, proto])


def _classes(proto: Any) -> Callable[[str], Any]:
    pool = descriptor_pool.DescriptorPool()
    for file in _whole(proto).file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def _twin(proto: Any) -> Any:
    """Return the file with texts as bytes, but for keys of maps, which cannot be."""
    found = descriptor_pb2.FileDescriptorProto()
    found.CopyFrom(proto)
    for message in found.message_type:
        for item in [message, *message.nested_type]:
            for field in item.field:
                if field.type == Field.TYPE_STRING and not (item.options.map_entry and field.number == 1):
                    field.type = Field.TYPE_BYTES
    return found


# Values


class Values:
    """Fills messages; `edges` is how often a part is at an edge."""

    def __init__(self, draw: Draw, edges: float) -> None:
        self.draw, self.edges = draw, edges

    def fill(self, message: Any, depth: int = 0) -> Any:
        for field in message.DESCRIPTOR.fields:
            if self.draw.chance(0.75) and not (depth > 3 and field.message_type):
                self._field(message, field, depth)
        return message

    def _field(self, message: Any, field: Any, depth: int) -> None:
        if field.message_type and field.message_type.GetOptions().map_entry:
            self._map(getattr(message, field.name), field.message_type, depth)
        elif field.message_type and field.is_repeated:
            for _ in range(self.draw.randint(0, 2)):
                self.message(getattr(message, field.name).add(), depth)
        elif field.message_type:
            getattr(message, field.name).SetInParent()
            self.message(getattr(message, field.name), depth)
        elif field.is_repeated:
            getattr(message, field.name).extend(self.scalar(field) for _ in range(self.draw.randint(0, 3)))
        else:
            setattr(message, field.name, self.scalar(field))

    def _map(self, found: Any, entry: Any, depth: int) -> None:
        key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
        for _ in range(self.draw.randint(0, 3)):
            name = self.scalar(key) if key.type != Field.TYPE_STRING else self.draw.pick(["", "a", "ü"])
            if value.message_type:
                self.message(found[name], depth)
            else:
                found[name] = self.scalar(value)

    def message(self, message: Any, depth: int) -> None:
        name = message.DESCRIPTOR.full_name
        if name in {TIMESTAMP, DURATION}:
            self._time(message)
        elif name == "google.protobuf.Struct":
            message["a"] = self.draw.pick([1.5, "x", None, True])
        elif name == "google.protobuf.Any":
            message.type_url, message.value = "type.googleapis.com/p.Unknown", b"\1\2"
        else:
            self.fill(message, depth + 1)

    def at_edge(self) -> bool:
        return self.draw.chance(self.edges)

    def _time(self, message: Any) -> None:
        message.seconds, message.nanos = self.draw.randint(-(10**9), 4 * 10**9), 1000 * self.draw.randrange(10**6)
        if not self.at_edge():
            return
        message.seconds = self.draw.pick([-62_135_596_800, 253_402_300_799, 0])
        message.nanos = self.draw.pick([0, 1, 999_999_999])
        if self.draw.chance(0.5):
            self.draw.met.add("protobuf: a time of no year that has four digits")
            message.seconds = self.draw.pick([-62_135_596_801, 253_402_300_800, 2**63 - 1, -(2**63)])
        elif self.draw.chance(0.3):
            self.draw.met.add("protobuf: nanoseconds that are more than a second")
            message.nanos = self.draw.pick([-1, 10**9, 2**31 - 1])

    def scalar(self, field: Any) -> Any:
        kind = Field.Type.Name(field.type).removeprefix("TYPE_")
        draw = self.draw
        match kind:
            case "BOOL":
                return draw.chance(0.5)
            case "ENUM":
                return draw.pick([0, 1, 5]) if field.enum_type.is_closed or not self.at_edge() else 77
            case "DOUBLE" | "FLOAT":
                odd = [
                    0.0,
                    -0.0,
                    float("nan"),
                    float("inf"),
                    float("-inf"),
                    5e-324,
                    1e308 if kind == "DOUBLE" else 3e38,
                ]
                return draw.pick(odd) if self.at_edge() else draw.randint(-100, 100) / 4
            case "STRING":
                return draw.pick(["", "a", "ä€😀"])
            case "BYTES":
                return self._bytes()
        bound = BOUNDS[kind[-2:]]
        low, high = (0, 2 * bound - 1) if kind.startswith(("UINT", "FIXED")) else (-bound, bound - 1)
        return draw.pick([0, low, high]) if self.at_edge() else draw.randint(0 if low == 0 else -1000, 1000)

    def _bytes(self) -> bytes:
        if self.at_edge() and self.draw.chance(0.4):
            self.draw.met.add("protobuf: text that is not UTF-8")
            return self.draw.pick([b"\xff", b"a\xc3", b"\xed\xa0\x80"])
        return self.draw.pick([b"", b"abc", "ä€😀".encode()])


# What it means


class Agreement:
    """Compares a message of google.protobuf, of the newest version, with a row.

    JSON in the table has the names of its writer's version: with several versions it is only known to be JSON.
    """

    def __init__(self, versions: int) -> None:
        self.several = versions > 1

    def __call__(self, expected: Any, row: Mapping[str, Any]) -> Iterator[str]:
        for field in expected.DESCRIPTOR.fields:
            have = column(row, field.name)
            if not self.field(expected, field, have):
                want = getattr(expected, field.name)
                yield f"{field.name} is {str(want)!r:.200}, and lands as {have!r:.200}"

    def field(self, message: Any, field: Any, have: Any) -> bool:
        if field.has_presence and not message.HasField(field.name):
            return have is None
        value = getattr(message, field.name)
        if have is None:
            return False
        if isinstance(have, str) and (field.message_type or field.is_repeated) and not self._is_text(field):
            return self._in_text(message, field, have)
        if field.message_type and field.message_type.GetOptions().map_entry:
            one = field.message_type.fields_by_name["value"]
            # A key without a sign is a decimal in the table.
            found = [(int(key) if isinstance(key, Decimal) else key, item) for key, item in entries(have)]
            return len(found) == len(value) and all(
                key in value and self.one(one, value[key], item) for key, item in found
            )
        if field.is_repeated:
            return len(have) == len(value) and all(self.one(field, a, b) for a, b in zip(value, have, strict=True))
        return self.one(field, value, have)

    def one(self, field: Any, value: Any, have: Any) -> bool:
        if field.message_type is not None:
            return self._message(field, value, have)
        if field.enum_type is not None:
            known = field.enum_type.values_by_number.get(value)
            return bool(have == (known.name if known else str(value)))
        if isinstance(value, float):
            return same_float(value, have, narrow=field.type == Field.TYPE_FLOAT)
        return (type(value) is not bool and value == have) or value is have

    def _message(self, field: Any, value: Any, have: Any) -> bool:
        name = field.message_type.full_name
        if name == TIMESTAMP:
            return isinstance(have, datetime) and have.astimezone(UTC) == moment(value)
        if name.endswith("Value") and name.startswith("google.protobuf.") and name != "google.protobuf.Value":
            return self.one(field.message_type.fields_by_name["value"], value.value, have)
        if isinstance(have, str):
            return self._same_json(have, MessageToDict(value, preserving_proto_field_name=True))
        if not field.message_type.fields:
            return have is True or have == {}
        return isinstance(have, dict) and all(
            self.field(value, inner, part(have, inner.name)) for inner in value.DESCRIPTOR.fields
        )

    def _is_text(self, field: Any) -> bool:
        return not field.is_repeated and field.message_type.full_name == "google.protobuf.StringValue"

    def _in_text(self, message: Any, field: Any, have: str) -> bool:
        return self._same_json(have, MessageToDict(message, preserving_proto_field_name=True).get(field.name))

    def _same_json(self, have: str, want: Any) -> bool:
        try:
            found = json.loads(have)
        except ValueError:
            return False
        return self.several or bool(found == want)


def moment(value: Any) -> datetime | None:
    """Return a Timestamp as a time; None for one of no year that has four digits."""
    try:
        return EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    except OverflowError:
        return None


def _fits(message: Any) -> bool:
    """Return whether all times of a message are times of a table."""
    if message.DESCRIPTOR.full_name == TIMESTAMP:
        return moment(message) is not None
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        inner = value.values() if field.message_type.GetOptions().map_entry else value if field.is_repeated else [value]
        if any(not _fits(item) for item in inner if hasattr(item, "DESCRIPTOR")):
            return False
    return True


# Topics


def drawn(number: int, seed: int, cases: int) -> Drawn:
    """Draw a topic with one to four versions of its file, and `cases` records."""
    draw = Draw(f"protobuf {seed} {number}")
    protos = [_first(draw)]
    for _ in range(draw.pick([0, 0, 1, 2, 3])):
        protos.append(_evolved(draw, protos[-1]))
    peculiar = draw.noted()
    asked = Decoding(format=Format.PROTOBUF, registry="schemas", message="p.Root")
    versions = [_registered(number * 10 + at, at + 1, proto) for at, proto in enumerate(protos)]
    last = len(protos) - 1
    stages = []
    for at in sorted({draw.randint(0, last), last}):
        share = cases // (2 if last > 0 and at != last else 1)
        writers = _Writers(versions[: at + 1], protos[: at + 1])
        records = tuple(writers.case(draw) for _ in range(max(1, share)))
        stages.append(Stage(asked=asked, versions=tuple(versions[: at + 1]), cases=records, agrees=Agreement(at + 1)))
    said = tuple(" ".join(_said(item) for item in proto.message_type) for proto in protos)
    return Drawn(name=f"protobuf-{number}", stages=tuple(stages), peculiar=peculiar, versions=said)


def _said(message: Any) -> str:
    labels = {Field.LABEL_REPEATED: "repeated ", Field.LABEL_REQUIRED: "required ", Field.LABEL_OPTIONAL: ""}
    fields = [
        f"{labels[item.label]}{'optional ' if item.proto3_optional else ''}"
        f"{item.type_name or Field.Type.Name(item.type)[5:].lower()} {item.name} = {item.number};"
        for item in message.field
    ]
    return f"message {message.name} {{ {' '.join([*map(_said, message.nested_type), *fields])} }}"


def _registered(number: int, version: int, proto: Any) -> RegisteredSchema:
    text = base64.b64encode(_whole(proto).SerializeToString(deterministic=True)).decode()
    return RegisteredSchema(id=number, version=version, format=Format.PROTOBUF, text=text, messages=messages(proto))


class _Writers:
    def __init__(self, versions: list[RegisteredSchema], protos: list[Any]) -> None:
        self.versions, self.newest = versions, _classes(protos[-1])("p.Root")
        self.twins = [_classes(_twin(proto)) for proto in protos]

    def case(self, draw: Draw) -> Case:
        if draw.chance(0.03):
            odd = [None, b"", b"\0", b"plain", b"\0\0\0\xff\xff\0", b"\0\xff\xff\xff\xff\0"]
            return Case(value=draw.pick(odd), expected=NONE)
        at = draw.randrange(len(self.versions))
        known = self.versions[at].messages or {}
        name = "p.Root" if draw.chance(0.9) else draw.pick(sorted(known))
        edges = draw.pick([0.0, 0.05, 0.5])
        whole = payload = Values(draw, edges).fill(self.twins[at](name)()).SerializeToString()
        peculiar = draw.noted()
        if draw.chance(0.06):
            payload = draw.pick([payload + b"\xfa\7\3abc", payload[:-1], payload + b"\xff"])
        indexes = bytes.fromhex(known[name])
        if indexes == b"\0" and draw.chance(0.3):
            indexes = b"\2\0"
        expected = self._meaning(payload) if name == "p.Root" else NONE
        value = b"\0" + self.versions[at].id.to_bytes(4, "big") + indexes + payload
        must = edges == 0.0 and payload == whole and expected is not NONE
        return Case(value=value, expected=expected, must=must, peculiar=peculiar)

    def _meaning(self, payload: bytes) -> Any:
        try:
            found = self.newest.FromString(payload)
        except DecodeError:
            return NONE
        return found if found.IsInitialized() and _fits(found) else NONE
