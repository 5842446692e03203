"""A schema registry in memory: subjects, versions and ids as Confluent's registry gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_kafka_lake.core.decoding import Format, RegisteredSchema
from airflow_kafka_lake.core.errors import SchemaMismatchError, UnavailableError, UnknownSubjectError

_Content = tuple[Format, str]


class MemoryRegistry:
    """`SchemaRegistry` in memory; `down` puts it out of reach.

    One content has one id under all subjects, and one version under each; `Format.JSON` stands for JSON Schema.
    """

    def __init__(self) -> None:
        self.down = False
        self._ids: dict[_Content, int] = {}
        self._subjects: dict[str, list[RegisteredSchema]] = {}
        self._deleted: set[tuple[str, int]] = set()

    def register(self, subject: str, format: Format, text: str, messages: Mapping[str, str] | None = None) -> int:  # noqa: A002
        """Register a schema under a subject and return its id; what the subject has already stays one version.

        `text` and `messages` are those of `RegisteredSchema`. Raises UnavailableError while the registry is down.
        """
        self._reach()
        number = self._ids.setdefault((format, text), len(self._ids) + 1)
        versions = self._subjects.setdefault(subject, [])
        if not any(item.id == number and (subject, item.version) not in self._deleted for item in versions):
            versions.append(
                RegisteredSchema(id=number, version=len(versions) + 1, format=format, text=text, messages=messages)
            )
        return number

    def delete(self, subject: str, version: int) -> None:
        """Delete a version softly: its id stays taken, and so does its number."""
        self._reach()
        self._deleted.add((subject, version))

    def versions(self, subject: str) -> tuple[RegisteredSchema, ...]:
        """Return the versions of a subject (`SchemaRegistry.versions`)."""
        self._reach()
        found = [item for item in self._subjects.get(subject, []) if (subject, item.version) not in self._deleted]
        if not found:
            raise UnknownSubjectError(f"The schema registry has no subject {subject!r}.", subject=subject)
        if not _is_usable(found[-1]):
            raise SchemaMismatchError(f"Subject {subject} {_refusal(found[-1])}.", subject=subject)
        return tuple(
            item if _is_usable(item) else replace(item, format=None, text="", refused=f"{subject} {_refusal(item)}")
            for item in found
        )

    def _reach(self) -> None:
        if self.down:
            raise UnavailableError("The schema registry cannot be reached. Repeat when it can.")


def _is_usable(item: RegisteredSchema) -> bool:
    return item.format is not None and item.format.is_registered


def _refusal(item: RegisteredSchema) -> str:
    return f"version {item.version} cannot be used: it is of kind {item.format}, and not of Avro or Protobuf"
