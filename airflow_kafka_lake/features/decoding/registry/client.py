"""A schema registry with Confluent's API, asked through Confluent's client."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_kafka_lake.core.decoding import Format, RegisteredSchema
from airflow_kafka_lake.core.errors import (
    ConnectionSettingsError,
    KafkaLakeError,
    SchemaMismatchError,
    TerminalError,
    UnavailableError,
    UnknownSubjectError,
)
from airflow_kafka_lake.features.decoding.registry.settings import RegistrySettings

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

_Answer = TypeVar("_Answer")
_NEEDED = ("attrs", "authlib", "cachetools", "certifi", "google.protobuf")
_NO_SUBJECT, _NO_VERSION = 40401, 40402
_LATER = frozenset({408, 429})
_MAIN = "registered.proto"


class RegistryClientMissingError(TerminalError):
    """What Confluent's client for schema registries needs is not installed."""


class ConfluentRegistry:
    """`SchemaRegistry` over HTTP; connects on first use. Close it when done.

    A request takes at most about 40 seconds, its one repetition included.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._older: dict[tuple[str, int], RegisteredSchema] = {}

    def versions(self, subject: str) -> tuple[RegisteredSchema, ...]:
        """Return the versions of a subject (`SchemaRegistry.versions`)."""
        numbers = self._asked(subject, lambda: [int(item) for item in self._client.get_versions(subject)])
        if not numbers:
            raise self._unknown(subject)
        # A version never changes; only the number of a newest one that was deleted for good can be given once more.
        *older, newest = sorted(numbers)
        for number in older:
            if (subject, number) not in self._older:
                self._older[subject, number] = self._older_version(subject, number)
        return (*(self._older[subject, number] for number in older), self._version(subject, newest))

    def check(self) -> str:
        """Ask for the kinds of schemas and return the answer in words."""
        kinds = self._asked("", lambda: ", ".join(map(str, self._client.get_schema_types())))
        return f"The schema registry at {self._settings.url} answers; it knows {kinds}."

    def close(self) -> None:
        """Close the connections; does nothing when there are none."""
        client = self.__dict__.pop("_client", None)
        if client is None:
            return
        if hasattr(client, "close"):
            client.close()
        else:  # before 2.16
            client._rest_client.session.close()  # noqa: SLF001  # no other door

    @cached_property
    def _client(self) -> Any:
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
        except ImportError:
            missing = [name for name in _NEEDED if not _installed(name)]
            raise RegistryClientMissingError(
                f"Confluent's client for schema registries does not load ({', '.join(missing) or 'a part'} missing). "
                "Run: pip install 'airflow-kafka-lake[schema-registry]'"
            ) from None
        try:
            return SchemaRegistryClient(self._settings.confluent())
        except (OSError, ValueError, TypeError) as error:
            # The text of an error may repeat what was given.
            problem = getattr(error, "strerror", None) or type(error).__name__
            raise self._refusal(f"the client does not take its certificates or key ({problem})") from None

    def _older_version(self, subject: str, number: int) -> RegisteredSchema:
        found = self._read(subject, number)
        try:
            return self._usable(found)
        except SchemaMismatchError as error:
            why = f"version {number} of {subject} cannot be used: {error.message}"
            return RegisteredSchema(id=int(found.schema_id), version=number, format=None, text="", refused=why)

    def _version(self, subject: str, number: int) -> RegisteredSchema:
        try:
            return self._usable(self._read(subject, number))
        except SchemaMismatchError as error:
            message = f"Subject {subject} version {number} cannot be used: {error.message}."
            raise SchemaMismatchError(message, subject=subject, version=number) from None

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
        from airflow_kafka_lake.features.decoding.registry.compiling import compiled
        from airflow_kafka_lake.features.decoding.registry.descriptors import closed, messages, serialized, well_known

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
        """Read one version; what something refers to may be deleted softly and is still there."""

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
        client = self._client
        httpx: Any = sys.modules[type(client).__module__].httpx  # the one of several that its version uses
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        assert client is not None
        try:
            return ask()
        except SchemaRegistryError as error:
            raise self._answered(error.http_status_code, error.error_code, subject) from None
        except httpx.HTTPError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                problem = "the registry's certificate is not trusted. Name who signed it in ssl.ca.location"
                raise self._refusal(problem) from None
            raise UnavailableError(
                f"The schema registry at {self._settings.url} does not answer ({type(error).__name__}). "
                "Repeat when it does.",
                connection=self._settings.connection,
            ) from None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise self._refusal("what answers there is no schema registry with Confluent's API") from None

    def _answered(self, status: int, code: object, subject: str) -> KafkaLakeError:
        if status in {401, 403}:
            return self._refusal(f"the registry refuses the login or token (HTTP {status})")
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
