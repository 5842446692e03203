"""Decoding of values into columns beside the raw bytes: a pipeline's request, and a job's decoder.

A value that does not decode stays in the table, with nulls and the reason in `decode_error`. The frame of Confluent's
serializers is one zero byte, four bytes with the writer's schema id (big endian), for Protobuf the indexes of the
message, then the value.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.document import Document

VALUE_COLUMN = "value"
ERROR_COLUMN = "decode_error"
SCHEMA_ID_COLUMN = "value_schema_id"
PREFIX = "value_"
"""Goes before the name of a field that would be a column which every table has."""


class Format(StrEnum):
    """The format of a topic's values."""

    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    STRING = "string"

    @property
    def is_registered(self) -> bool:
        """Return whether its schemas are in a schema registry."""
        return self in {Format.AVRO, Format.PROTOBUF}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit(Document):
    """How many records of a wave may fail to decode: a number of them, or a share (0 to 1)."""

    records: int | None = None
    share: float | None = None

    def is_exceeded(self, failed: int, rows: int) -> bool:
        """Return whether `failed` of `rows` is too many."""
        if self.records is not None:
            return failed > self.records
        return self.share is not None and failed > self.share * rows

    def __str__(self) -> str:
        return count(self.records, "record") if self.records is not None else f"{100 * (self.share or 0):g} %"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding(Document):
    """A pipeline's request for decoding.

    `schema` is Spark's DDL for JSON; `registry` a connection and `subject` the registry's name of a topic's schemas
    (`{topic}` is replaced) for Avro and Protobuf, `message` the full name of a Protobuf message (None: the first of the
    schema); `column` takes the text of a string. Without a limit nothing stops a wave.
    """

    format: Format
    schema: str | None = None
    registry: str | None = None
    subject: str = "{topic}-value"
    message: str | None = None
    column: str = "value_text"
    limit: Limit | None = None

    def __str__(self) -> str:
        return f"{self.format}, {self.schema or (self.registry and self.subject) or self.column}"

    @property
    def digest(self) -> str:
        """16 hex digits that identify it."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:16]

    def subject_for(self, topic: str) -> str:
        """Return the subject of a topic's values."""
        return self.subject.replace("{topic}", topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """One version of a subject.

    `text` is the Avro schema as JSON, or a Protobuf FileDescriptorSet with all that it imports, in base64. `messages`
    maps the full names of a Protobuf file's messages, in their order, to their indexes as they stand in a frame (hex).
    `refused` says why jobs cannot use it; its format is None where no value is decoded with its kind.
    """

    id: int
    version: int
    format: Format | None
    text: str
    messages: Mapping[str, str] | None = None
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder(Document):
    """How a job decodes the values of some topics.

    `schema` is the reader's: DDL, the newest Avro schema, or the newest Protobuf descriptors. `writers` are the ids a
    frame may name with the schema of each, as values are resolved from it. `name` describes the schema in words,
    `subject` has the writers' versions, `unusable` has the ids of its other versions, each with the reason. `asked` is
    the digest of the `Decoding` that it was made for. `refused` says why no value of the topics can be decoded: they
    land with that reason.
    """

    format: Format
    topics: tuple[str, ...]
    name: str
    subject: str = ""
    schema: str = ""
    writers: tuple[tuple[int, str], ...] = ()
    unusable: tuple[tuple[int, str], ...] = ()
    message: str = ""
    column: str = ""
    asked: str = ""
    refused: str = ""


def column_of(field: str, taken: Collection[str]) -> str:
    """Return the column of a field, where lower-case names are `taken` by columns that every table has.

    A field that would be one of these gets a prefix, and so does one that is called like that column with the prefix: a
    newer schema never gives a column's name to another field.
    """
    name = field
    while name.lower().startswith(PREFIX) and name.lower() not in taken:
        name = name[len(PREFIX) :]
    return f"{PREFIX}{field}" if name.lower() in taken else field


def zigzag(number: int) -> bytes:
    """Return a number as Avro writes it, and Confluent the indexes of a message: small ones take few bytes."""
    value, found = (number << 1) ^ (number >> 63), bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
