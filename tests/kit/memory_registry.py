"""A schema registry in memory: subjects, versions and ids as Confluent's registry gives them."""

from __future__ import annotations

from collections.abc import Mapping

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
        for item in found:
            if not item.format.is_registered:
                raise SchemaMismatchError(
                    f"Subject {subject} version {item.version} is of kind {item.format.value}; values are decoded with "
                    "Avro and Protobuf schemas only.",
                    subject=subject,
                )
        return tuple(found)

    def _reach(self) -> None:
        if self.down:
            raise UnavailableError("The schema registry cannot be reached. Repeat when it can.")
