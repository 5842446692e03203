"""The port of decoding: schemas of values, as producers have registered them."""

from __future__ import annotations

from typing import Protocol

from airflow_kafka_lake.core.decoding import RegisteredSchema

PORT = "schemas"
"""The port's name in `Ports.added`."""


class SchemaRegistry(Protocol):
    """A schema registry with Confluent's API; read only."""

    def versions(self, subject: str) -> tuple[RegisteredSchema, ...]:
        """Return every version of a subject that was not deleted, oldest first; an older one that jobs cannot use
        says why.

        Raises UnknownSubjectError for a subject that is not there, UnavailableError when the registry does not answer,
        ConnectionSettingsError when it refuses the credentials, SchemaMismatchError for a newest version that jobs
        cannot use (Avro with references to other subjects; a kind that is neither Avro nor Protobuf).
        """
