"""The keys of a pipeline file: section and name, the keyword of `Pipeline`, and how the value is read.

A reader takes the raw value and the folder that relative paths start from, and returns the typed value or raises
`IllegalValueError` with what is legal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from airflow_kafka_lake.core.ddl import DdlError, columns
from airflow_kafka_lake.core.decoding import ERROR_COLUMN, SCHEMA_ID_COLUMN, Format, Limit
from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.kafka.times import milliseconds
from airflow_kafka_lake.core.lake.staging import LANDED
from airflow_kafka_lake.core.naming import nearest
from airflow_kafka_lake.core.spec import (
    CONNECTION_ID,
    GROUP_ID,
    PIPELINE_NAME,
    TABLE_PART,
    TOPIC_NAME,
    Isolation,
    Ordering,
    Partitioner,
    Policy,
    PolicyKind,
)
from airflow_kafka_lake.pipeline.offsets_file import read_offsets_file
from airflow_kafka_lake.pipeline.units import (
    parse_count,
    parse_limit,
    parse_rate,
    parse_size,
    parse_span,
    parse_time,
    shown,
)

RECEIPTS_SUFFIX = "__receipts"
MAX_PATTERN = 1000
MAX_DDL = 100_000
MAX_SUBJECT = 500
DDL_FORM = 'columns as Spark\'s DDL, such as "amount DECIMAL(10,2), placed TIMESTAMP"'
SUBJECT_FORM = "the name of a subject, 1 to 500 characters; {topic} stands for the topic"
MESSAGE_FORM = "the full name of a Protobuf message, such as shop.Order"
GROUP_FORM = "the id of a group without consumers: 1 to 255 characters, no control characters, no outer spaces"

NAME_FORM = "1 to 100 of a-z 0-9 _ . -, beginning with a letter or digit, not ending in .toml"
TOPIC_FORM = "1 to 249 of A-Z a-z 0-9 . _ -, and neither '.' nor '..'"
CONNECTION_FORM = "the id of an Airflow connection: 1 to 200 of A-Z a-z 0-9 _ . : # -"
TABLE_FORM = (
    "namespace.table, each 1 to 128 of A-Z a-z 0-9 _; {topic} at most once, in the table part; "
    f"names that end in {RECEIPTS_SUFFIX} are the receipts'"
)
COLUMNS = (
    "kafka_timestamp",
    "kafka_topic",
    "kafka_partition",
    "kafka_offset",
    "kafka_topic_id",
    "kafka_timestamp_type",
    "ingest_attempt",
    "key",
    "value",
)
"""The table's columns that it can be partitioned by; only the first is a time."""

_MESSAGE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_TAKEN = frozenset({*LANDED, ERROR_COLUMN, SCHEMA_ID_COLUMN})
COLUMN_FORM = "the name of a column: 1 to 128 of A-Z a-z 0-9 _, not beginning with a digit, none that every table has"

PARTITION_FORM = (
    "terms joined by commas: a column, years|months|days|hours(kafka_timestamp), bucket(N, column), "
    f"truncate(N, column) but not of the time; columns are {', '.join(COLUMNS)}"
)


class IllegalValueError(Exception):
    """A value is not legal; `legal` says what is, `found` replaces the plain rendering of the value."""

    def __init__(self, legal: str, found: str | None = None) -> None:
        super().__init__(legal)
        self.legal = legal
        self.found = found


Reader = Callable[[object, Path | None], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key: `[section] name` in a file, `keyword` of `Pipeline(...)`."""

    section: str
    name: str
    keyword: str
    read: Reader
    required: str = ""
    """What is legal, when the key must be there."""


def _text(value: object, legal: str) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise IllegalValueError(f"text, {legal}" if not isinstance(value, str) else legal)
    return value


def _text_that(legal: str, fits: Callable[[str], object]) -> Reader:
    def read(value: object, _: Path | None) -> str:
        text = _text(value, legal)
        if not fits(text):
            raise IllegalValueError(legal)
        return text

    return read


def _parsed_by(parse: Callable[[Any], object]) -> Reader:
    def read(value: object, _: Path | None) -> object:
        try:
            return parse(value)
        except UsageError as error:
            raise IllegalValueError(error.message.removesuffix(".")) from None

    return read


def _is_pipeline_name(text: str) -> bool:
    # Commands take a file or a name: a name must not look like a file.
    return bool(PIPELINE_NAME.fullmatch(text)) and not text.endswith(".toml")


def _is_group(text: str) -> bool:
    return bool(GROUP_ID.fullmatch(text)) and text == text.strip()


def _is_subject(text: str) -> bool:
    return 0 < len(text) <= MAX_SUBJECT and text == text.strip()


def _is_message(text: str) -> bool:
    return bool(_MESSAGE.fullmatch(text)) and len(text) <= MAX_SUBJECT


def _is_column(text: str) -> bool:
    return bool(_COLUMN.fullmatch(text)) and text.lower() not in _TAKEN


def _limit(value: object) -> Limit:
    found = parse_limit(value)
    return Limit(share=found) if isinstance(found, float) else Limit(records=found)


def _connection(value: object, _: Path | None) -> str:
    text = value if isinstance(value, str) else _text(value, CONNECTION_FORM)
    if not CONNECTION_ID.fullmatch(text):
        # An address that is written here may hold a password.
        secret = "@" in text or "/" in text
        raise IllegalValueError(CONNECTION_FORM, "an address (not shown, it may hold a secret)" if secret else None)
    return text


def _topics(value: object, _: Path | None) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise IllegalValueError('a list with at least one topic name, such as ["orders"]')
    for index, item in enumerate(value):
        if not isinstance(item, str) or not TOPIC_NAME.fullmatch(item) or item in {".", ".."}:
            raise IllegalValueError(f"topic names are {TOPIC_FORM}", f"{shown(item)} (item {index + 1})")
        if item in value[:index]:
            raise IllegalValueError("each topic once", f"{shown(item)} twice")
    return tuple(value)


def _topic_pattern(value: object, _: Path | None) -> str:
    text = _text(value, "a regular expression")
    if not 0 < len(text) <= MAX_PATTERN:
        raise IllegalValueError(f"a regular expression of 1 to {MAX_PATTERN} characters")
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise IllegalValueError(f"a regular expression in Python's syntax ({error})") from None
    return text


def _choice(kind: type[StrEnum]) -> Reader:
    def read(value: object, _: Path | None) -> StrEnum:
        words = [item.value for item in kind]
        if not isinstance(value, str) or value not in words:
            raise IllegalValueError(one_of(words) + nearest(value, words))
        return kind(value)

    return read


def _policy(*kinds: PolicyKind) -> Reader:
    forms = {
        PolicyKind.GROUP: "group:<id>",
        PolicyKind.TIMESTAMP: "timestamp:<RFC 3339 time>",
        PolicyKind.OFFSETS: "offsets:<file.json>",
    }
    legal = one_of([forms.get(kind, kind.value) for kind in kinds])

    def read(value: object, folder: Path | None) -> object:
        text = _text(value, legal)
        word, colon, argument = text.partition(":")
        kind = next((kind for kind in kinds if kind.value == word), None)
        if kind is None or bool(colon) != (kind in forms):
            raise IllegalValueError(legal + nearest(word, [kind.value for kind in kinds]))
        return _parsed_by(lambda text: _policy_of(kind, text, folder))(argument, folder)

    return read


def _policy_of(kind: PolicyKind, argument: str, folder: Path | None) -> Policy:
    if kind is PolicyKind.GROUP:
        if not _is_group(argument):
            raise IllegalValueError(
                "group:<id> with an id of 1 to 255 characters, no control characters, no outer spaces"
            )
        return Policy(kind=kind, group=argument)
    if kind is PolicyKind.TIMESTAMP:
        return Policy(kind=kind, timestamp_ms=milliseconds(parse_time(argument)))
    if kind is PolicyKind.OFFSETS:
        path = Path(argument)
        if not argument or (folder is None and not path.is_absolute()):
            raise IllegalValueError(
                "offsets:<file.json>, relative to the pipeline file; an absolute path where there is no pipeline file"
            )
        return Policy(kind=kind, offsets=read_offsets_file(folder / path if folder else path))
    return Policy(kind=kind)


def _table(value: object, _: Path | None) -> str:
    text = _text(value, TABLE_FORM)
    namespace, _dot, name = text.partition(".")
    if not TABLE_PART.fullmatch(namespace) or not TABLE_PART.fullmatch(name.replace("{topic}", "t", 1)):
        raise IllegalValueError(TABLE_FORM)
    if name.lower().endswith(RECEIPTS_SUFFIX):
        raise IllegalValueError(TABLE_FORM)
    return text


_TIMES = {"year", "month", "day", "hour"}
_TERM = re.compile(r"([a-z]+)\( *(?:([1-9][0-9]{0,8}) *, *)?([a-z_]+) *\)|([a-z_]+)")


def _partition_by(value: object, _: Path | None) -> str:
    text = _text(value, PARTITION_FORM)
    terms = [_term(part.strip()) for part in re.split(r",(?![^()]*\))", text)] if text.strip() else []
    if len({(name, column) for name, _, column in terms}) < len(terms):
        raise IllegalValueError("each transform of a column once")
    return ", ".join(f"{name}({width}{column})" if name else column for name, width, column in terms)


def _term(text: str) -> tuple[str, str, str]:
    """Return transform, width with its comma, and column: one spelling for what means the same."""
    match = _TERM.fullmatch(text)
    if match is None:
        raise IllegalValueError(PARTITION_FORM)
    name, width, column = match[1] or "", match[2], match[3] or match[4]
    if column not in COLUMNS or (column == "kafka_timestamp" and name == "truncate"):
        raise IllegalValueError(PARTITION_FORM)
    if name in {"bucket", "truncate"} and width:
        return name, f"{width}, ", column
    if name in {"", "identity"} and not width:
        return "", "", column
    if name.removesuffix("s") in _TIMES and column == "kafka_timestamp" and not width:
        return name.removesuffix("s") + "s", "", column
    raise IllegalValueError(PARTITION_FORM)


def _ddl(value: object, _: Path | None) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_DDL:
        raise IllegalValueError(DDL_FORM)
    try:
        columns(value)
    except DdlError as error:
        raise IllegalValueError(DDL_FORM, f"{shown(value)}, where {error}") from None
    return value.strip()


def one_of(words: list[str]) -> str:
    """Render a closed set for a message."""
    return "one of " + ", ".join(words)


_GROUPS = (PolicyKind.GROUP, PolicyKind.TIMESTAMP, PolicyKind.OFFSETS)

KEYS: tuple[Key, ...] = (
    Key(
        section="pipeline",
        name="name",
        keyword="name",
        read=_text_that(NAME_FORM, _is_pipeline_name),
        required=NAME_FORM,
    ),
    Key(section="source", name="connection", keyword="kafka_connection", read=_connection),
    Key(section="source", name="topics", keyword="topics", read=_topics),
    Key(section="source", name="topic_pattern", keyword="topic_pattern", read=_topic_pattern),
    Key(section="source", name="isolation", keyword="isolation", read=_choice(Isolation)),
    Key(section="source", name="start", keyword="start", read=_policy(PolicyKind.EARLIEST, *_GROUPS)),
    Key(section="source", name="end", keyword="end", read=_policy(PolicyKind.LATEST, *_GROUPS)),
    Key(section="source", name="ordering", keyword="ordering", read=_choice(Ordering)),
    Key(section="source", name="partitioner", keyword="partitioner", read=_choice(Partitioner)),
    Key(section="source", name="leader_wait", keyword="leader_wait", read=_parsed_by(parse_span)),
    Key(section="source", name="stable_wait", keyword="stable_wait", read=_parsed_by(parse_span)),
    Key(section="source", name="layout_grace", keyword="layout_grace", read=_parsed_by(parse_span)),
    Key(section="source", name="sync_group", keyword="sync_group", read=_text_that(GROUP_FORM, _is_group)),
    Key(section="lake", name="connection", keyword="lake_connection", read=_connection),
    Key(section="lake", name="table", keyword="table", read=_table, required=TABLE_FORM),
    Key(section="lake", name="partition_by", keyword="partition_by", read=_partition_by),
    Key(section="decode", name="format", keyword="decode_format", read=_choice(Format)),
    Key(section="decode", name="schema", keyword="decode_schema", read=_ddl),
    Key(section="decode", name="registry", keyword="decode_registry", read=_connection),
    Key(section="decode", name="subject", keyword="decode_subject", read=_text_that(SUBJECT_FORM, _is_subject)),
    Key(section="decode", name="message", keyword="decode_message", read=_text_that(MESSAGE_FORM, _is_message)),
    Key(section="decode", name="column", keyword="decode_column", read=_text_that(COLUMN_FORM, _is_column)),
    Key(section="decode", name="limit", keyword="decode_limit", read=_parsed_by(_limit)),
    Key(section="spark", name="connection", keyword="spark_connection", read=_connection),
    Key(section="sizes", name="target_range_bytes", keyword="target_range_bytes", read=_parsed_by(parse_size)),
    Key(section="sizes", name="max_wave_bytes", keyword="max_wave_bytes", read=_parsed_by(parse_size)),
    Key(section="sizes", name="audit_rate", keyword="audit_rate", read=_parsed_by(parse_size)),
    Key(section="limits", name="waves_at_once", keyword="waves_at_once", read=_parsed_by(parse_count)),
    Key(section="limits", name="bytes_per_second", keyword="bytes_per_second", read=_parsed_by(parse_rate)),
)

SECTIONS: Mapping[str, tuple[Key, ...]] = {
    section: tuple(key for key in KEYS if key.section == section) for section in dict.fromkeys(k.section for k in KEYS)
}
