"""Protobuf files as descriptors: what a registry's text says, the messages of a file, and all that it imports."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from airflow_kafka_lake.core.errors import SchemaMismatchError

_GOOGLE = "any api descriptor duration empty field_mask source_context struct timestamp type wrappers"
# Before 2.16 Confluent's client has the module under the older name of its package.
_TYPES = "type" if find_spec("confluent_kafka.schema_registry.confluent.type") else "types"
_KNOWN: Mapping[str, str] = {
    **{f"google/protobuf/{name}.proto": f"google.protobuf.{name}_pb2" for name in _GOOGLE.split()},
    "confluent/meta.proto": "confluent_kafka.schema_registry.confluent.meta_pb2",
    "confluent/type/decimal.proto": f"confluent_kafka.schema_registry.confluent.{_TYPES}.decimal_pb2",
}
"""Imports that need no reference in a registry, and the modules that have them."""


def serialized(text: str) -> FileDescriptorProto | None:
    """Return the file that `format=serialized` stands for; None for the text of a .proto file.

    Raises SchemaMismatchError for base64 of something else.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    try:
        return FileDescriptorProto.FromString(data)
    except DecodeError:
        raise SchemaMismatchError("what the registry has is neither a .proto file nor a file descriptor") from None


def well_known() -> dict[str, FileDescriptorProto]:
    """Return the files that may be imported without a reference, by their import names."""
    found = {}
    for name, module in _KNOWN.items():
        found[name] = FileDescriptorProto()
        import_module(module).DESCRIPTOR.CopyToProto(found[name])
        found[name].name = name
    return found


def closed(main: str, files: Mapping[str, FileDescriptorProto]) -> FileDescriptorSet:
    """Return a file with all that it imports, each file after its imports, the file itself last.

    Raises SchemaMismatchError for an import that is neither in `files` nor well known, or types that do not fit.
    """
    known = {**well_known(), **files}
    ordered = list(_in_order(main, known, set()))
    pool = DescriptorPool()
    for file in ordered:
        try:
            pool.Add(file)
        except TypeError as error:
            raise SchemaMismatchError(f"its types do not fit together: {str(error)[:300]}") from None
    return FileDescriptorSet(file=ordered)


def _in_order(name: str, known: Mapping[str, FileDescriptorProto], seen: set[str]) -> Iterator[FileDescriptorProto]:
    if name in seen:
        return
    seen.add(name)
    if name not in known:
        raise SchemaMismatchError(f"it imports {name}, which is neither among its references nor well known")
    for imported in known[name].dependency:
        yield from _in_order(imported, known, seen)
    yield known[name]


def messages(file: FileDescriptorProto) -> dict[str, str]:
    """Return the full names of a file's messages, an outer one before those inside it, with their indexes (hex).

    The entries of maps are no messages of their own, and count as indexes.
    """
    return {name: indexes(path).hex() for name, path in _walk(file.package, file.message_type, ())}


def _walk(prefix: str, types: Any, path: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
    for number, item in enumerate(types):
        if not item.options.map_entry:
            name = f"{prefix}.{item.name}" if prefix else item.name
            yield name, (*path, number)
            yield from _walk(name, item.nested_type, (*path, number))


def indexes(path: Sequence[int]) -> bytes:
    """Return a message's indexes as Confluent's serializers write them before the message.

    The number of indexes, then each of them, as zigzag varints; the first message of a file is a single zero.
    """
    if list(path) == [0]:
        return b"\x00"
    return b"".join(_varint(2 * number) for number in (len(path), *path))


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
