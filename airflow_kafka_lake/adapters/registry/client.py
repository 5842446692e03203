"""A schema registry, asked over HTTP, and its Protobuf schemas compiled to descriptors."""

from __future__ import annotations

import base64
import binascii
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from airflow_kafka_lake.adapters.registry.settings import RegistrySettings
from airflow_kafka_lake.core.decoding import Format, RegisteredSchema, zigzag
from airflow_kafka_lake.core.errors import (
    ConnectionSettingsError,
    KafkaLakeError,
    LibraryError,
    SchemaMismatchError,
    UnavailableError,
    UnknownSubjectError,
)

# The text of .proto files compiled by protoc, for registries that do not give descriptors themselves.

_LIMIT_SECONDS = 60
_WARNING = re.compile(r"WARNING|[IW]\d{4} ")


def compiled(
    main: str, texts: Mapping[str, str], descriptors: Mapping[str, FileDescriptorProto]
) -> dict[str, FileDescriptorProto]:
    """Return a file and all that it imports, by import name; `descriptors` are files that need no compiling.

    Raises SchemaMismatchError for text that protoc refuses, or where protoc is not installed.
    """
    if find_spec("grpc_tools") is None:
        raise SchemaMismatchError(
            "the registry gives it as text only, and there is no compiler here. "
            "Run: pip install 'airflow-kafka-lake[schema-registry]'"
        )
    with tempfile.TemporaryDirectory(prefix="kafka-lake-protoc-") as scratch:
        folder = Path(scratch)
        for name, text in texts.items():
            file = folder / "source" / _legal(name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        (folder / "given").write_bytes(FileDescriptorSet(file=descriptors.values()).SerializeToString())
        _run(folder, main)
        made = FileDescriptorSet.FromString((folder / "made").read_bytes())
    return {file.name: file for file in made.file}


def _legal(name: str) -> PurePosixPath:
    """Refuse an import name that would be written elsewhere than into the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or not name.isprintable():
        raise SchemaMismatchError("one of its references has a name that is no path below a folder")
    return path


def _run(folder: Path, main: str) -> None:
    # Nothing is imported from the folder we are in (-P): other people's files may lie there.
    command = [
        sys.executable, "-P", "-m", "grpc_tools.protoc", f"--proto_path={folder / 'source'}", "--include_imports",
        f"--descriptor_set_in={folder / 'given'}", f"--descriptor_set_out={folder / 'made'}", main,
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"Compiling a Protobuf schema took over {_LIMIT_SECONDS} s. Repeat it.") from None
    if done.returncode != 0:
        lines = done.stderr.replace(f"{folder / 'source'}/", "").splitlines()
        message = " ".join(line.strip() for line in lines if not _WARNING.match(line))
        raise SchemaMismatchError(f"protoc refuses it: {message[:300]}")


# Protobuf files as descriptors: the text of a registry, the messages of a file, and all that it imports.

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
    ordered = list(_in_order(main, {**well_known(), **files}, set()))
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
    return b"".join(map(zigzag, (len(path), *path)))


# A schema registry with Confluent's API, asked through Confluent's client.

_Answer = TypeVar("_Answer")
_NEEDED = ("attrs", "authlib", "cachetools", "certifi", "google.protobuf")
_NO_SUBJECT, _NO_VERSION = 40401, 40402
_LATER = frozenset({408, 429})
_MAIN = "registered.proto"


class ConfluentRegistry:
    """`SchemaRegistry` over HTTP; connects on first use. Close it when done.

    A request takes at most about 40 seconds, its one repetition included.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._older: dict[tuple[str, int], RegisteredSchema] = {}

    def versions(self, subject: str) -> tuple[RegisteredSchema, ...]:
        numbers = self._asked(subject, lambda: [int(item) for item in self._client.get_versions(subject)])
        if not numbers:
            raise self._unknown(subject)
        # A version never changes; only the number of a newest one that was deleted for good can be given once more.
        *older, newest = sorted(numbers)
        for number in older:
            if (subject, number) not in self._older:
                self._older[subject, number] = self._older_version(subject, number)
        try:
            last = self._usable(self._read(subject, newest))
        except SchemaMismatchError as error:
            message = f"Subject {subject} version {newest} cannot be used: {error.message}."
            raise SchemaMismatchError(message, subject=subject, version=newest) from None
        return (*(self._older[subject, number] for number in older), last)

    def check(self) -> str:
        """Ask for the kinds of schemas and return the answer in words."""
        kinds = self._asked("", lambda: ", ".join(map(str, self._client.get_schema_types())))
        return f"The schema registry at {self._settings.url} answers; it knows {kinds}."

    def close(self) -> None:
        client = self.__dict__.pop("_client", None)
        if client is not None:
            with client:  # has no `close` before 2.16
                return

    @cached_property
    def _client(self) -> Any:
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
        except ImportError:
            missing = [name for name in _NEEDED if not _installed(name)]
            raise LibraryError(
                f"Confluent's client for schema registries does not load ({', '.join(missing) or 'a part'} missing). "
                "Run: pip install 'airflow-kafka-lake[schema-registry]'"
            ) from None
        try:
            return SchemaRegistryClient(self._settings.confluent())
        except (OSError, ValueError, TypeError) as error:
            # The text of an error may repeat a secret of the settings.
            problem = getattr(error, "strerror", None) or type(error).__name__
            raise self._refusal(f"the client does not take its certificates or key ({problem})") from None

    def _older_version(self, subject: str, number: int) -> RegisteredSchema:
        found = self._read(subject, number)
        try:
            return self._usable(found)
        except SchemaMismatchError as error:
            why = f"version {number} of {subject} cannot be used: {error.message}"
            return RegisteredSchema(id=int(found.schema_id), version=number, format=None, text="", refused=why)

    def _usable(self, found: Any) -> RegisteredSchema:
        text, messages = found.schema.schema_str, None
        kind = found.schema.schema_type
        if kind == "AVRO":
            form = Format.AVRO
            if found.schema.references:
                names = ", ".join(str(item.name) for item in found.schema.references)
                raise SchemaMismatchError(
                    f"it refers to {names} in other subjects, which Spark cannot resolve. Register the schema whole"
                )
        elif kind == "PROTOBUF":
            form = Format.PROTOBUF
            text, messages = self._descriptors(found)
        else:
            raise SchemaMismatchError(f"its schemas are of type {kind}; only AVRO and PROTOBUF are decoded")
        return RegisteredSchema(
            id=int(found.schema_id), version=int(found.version), format=form, text=text, messages=messages
        )

    # Protobuf

    def _descriptors(self, found: Any) -> tuple[str, dict[str, str]]:
        """Return a Protobuf schema with all that it imports, in base64, and its messages."""

        texts: dict[str, str] = {}
        files: dict[str, FileDescriptorProto] = {}
        for name, text in self._texts(found).items():
            file = serialized(text)
            if file is None:
                texts[name] = text
            else:
                file.name = name
                files[name] = file
        if texts:
            given = {name: file for name, file in (well_known() | files).items() if name not in texts}
            files |= compiled(_MAIN, texts, given)
        whole = closed(_MAIN, files)
        return base64.b64encode(whole.SerializeToString(deterministic=True)).decode(), messages(whole.file[-1])

    def _texts(self, found: Any) -> dict[str, str]:
        """Return a Protobuf schema and all that it refers to, near or far, by import name; the nearest wins."""
        texts: dict[str, str] = {}
        waiting = [(_MAIN, str(found.subject), int(found.version))]
        while waiting:
            name, subject, number = waiting.pop(0)
            if name not in texts:
                schema = self._read(subject, number, serialized=True).schema
                texts[name] = schema.schema_str
                waiting += [(item.name, item.subject, int(item.version)) for item in schema.references or ()]
        return texts

    # The conversation

    def _read(self, subject: str, number: int, *, serialized: bool = False) -> Any:
        """Read one version; a version that another refers to may be deleted softly, and is still there."""

        def read() -> Any:
            # The client remembers a version in the form in which it was first asked for.
            self._client.clear_caches()
            form = "serialized" if serialized else None
            found = self._client.get_version(subject, number, deleted=serialized, fmt=form)
            if not isinstance(found.schema.schema_str, str):
                raise TypeError
            return found

        try:
            return self._asked(subject, read)
        except UnknownSubjectError:
            raise UnavailableError(
                f"Subject {subject} version {number} vanished from the schema registry while it was read. Repeat it.",
                subject=subject,
            ) from None

    def _asked(self, subject: str, ask: Callable[[], _Answer]) -> _Answer:
        httpx: Any = sys.modules[type(self._client).__module__].httpx  # the one of several that its version uses
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return ask()
        except SchemaRegistryError as error:
            raise self._answered(error.http_status_code, error.error_code, subject) from None
        except httpx.HTTPError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                problem = "the registry's certificate is not trusted. Name who signed it in ssl.ca.location"
                raise self._refusal(problem) from None
            raise UnavailableError(
                f"The schema registry at {self._settings.url} does not answer ({type(error).__name__}).",
                connection=self._settings.connection,
            ).mended_by("Repeat when it does, or correct host and port of its connection.") from None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise self._refusal("what answers there is no schema registry with Confluent's API") from None

    def _answered(self, status: int, code: object, subject: str) -> KafkaLakeError:
        if status in {401, 403}:
            return self._refusal(f"the registry refuses the login or token (HTTP {status}). Correct login and password")
        if status >= 500 or status in _LATER:
            return UnavailableError(
                f"The schema registry at {self._settings.url} failed (HTTP {status}). Repeat when it works.",
                connection=self._settings.connection,
            )
        if status == 404 and code in {_NO_SUBJECT, _NO_VERSION}:
            return self._unknown(subject)
        return self._refusal(f"the registry answers HTTP {status}. Correct its address, which may need a path")

    def _unknown(self, subject: str) -> UnknownSubjectError:
        return UnknownSubjectError(
            f"The schema registry of connection {self._settings.connection!r} has no subject {subject}. "
            "Correct [decode] subject, or register the topic's schema.",
            subject=subject,
        )

    def _refusal(self, problem: str) -> ConnectionSettingsError:
        return ConnectionSettingsError(
            f"Connection {self._settings.connection!r} (a schema registry at {self._settings.url}): {problem}.",
            connection=self._settings.connection,
        )


def _installed(name: str) -> bool:
    with suppress(ImportError, ValueError):
        return find_spec(name) is not None
    return False
