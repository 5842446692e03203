"""The keys of a pipeline file, and the times, sizes, limits and offsets that people write in them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

from airflow_kafka_lake.core.ddl import DdlError, columns
from airflow_kafka_lake.core.decoding import ERROR_COLUMN, SCHEMA_ID_COLUMN, Format, Limit
from airflow_kafka_lake.core.errors import UsageError, nearest
from airflow_kafka_lake.core.spark.job import LANDED
from airflow_kafka_lake.core.spec import (
    CONNECTION_ID,
    GROUP_ID,
    PIPELINE_NAME,
    RECEIPTS_SUFFIX,
    TABLE_PART,
    TOPIC_NAME,
    Isolation,
    Ordering,
    Partitioner,
    Policy,
    PolicyKind,
)
from airflow_kafka_lake.core.wire import milliseconds

# Parse times, spans, sizes, limits and bounds as people write them.

MAX_OFFSET = 2**63 - 1
"""Kafka's offsets, and the sizes we store, are signed 64-bit numbers."""

UNITS: Mapping[str, int] = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
SIZE_FORM = 'a whole number of bytes, or a number and a unit (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB) such as "256 MiB"'
TIME_FORM = 'a time with its offset from UTC, such as "2026-01-31T06:00:00Z" or "2026-01-31T06:00:00+01:00"'

_OFFSET = re.compile(r"[0-9]{1,19}")
_SIZE = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,9})?) ?([A-Za-z]+)")
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
_TIME = re.compile(rf"{_DATE}[T ]{_CLOCK}(?:Z|[+-][0-9]{{2}}:[0-9]{{2}})", re.IGNORECASE)
_BARE_DATE = re.compile(_DATE)
_NAIVE = re.compile(rf"{_DATE}[T ]{_CLOCK}", re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_time(text: str) -> datetime:
    """Read an RFC 3339 time as an aware UTC datetime (to the microsecond; finer digits are cut off).

    Seconds may be left out. Refused with UsageError: a time without `Z` or offset, a bare date (in which zone would the
    day begin?), a time before 1970 (Kafka reads negative timestamps as "latest" and "earliest").
    """
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        raise UsageError(f"{shown(text)} is not a time{_time_advice(text)}: use {TIME_FORM}.", value=shown(text))
    # Only here: pendulum takes longer to import than a whole Dag file that names no time.
    import pendulum

    try:
        parsed = pendulum.parse(text.upper(), exact=True)
        assert isinstance(parsed, datetime)
        utc = parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(f"{shown(text)} is not a time of the calendar: use {TIME_FORM}.", value=text) from None
    if utc < _EPOCH:
        raise UsageError(f"{shown(text)} is before 1970, where Kafka has no times: use a later one.", value=text)
    return datetime(utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, utc.microsecond, tzinfo=UTC)


SPANS: Mapping[str, int] = {"s": 1, "min": 60, "h": 3600, "d": 86400}
SPAN_FORM = 'a whole number of seconds, or a number and a unit (s, min, h, d) such as "5 min"'
MAX_SPAN = 30 * 86400
_SPAN = re.compile(r"([0-9]{1,9}) ?([a-z]+)")


def parse_span(value: object) -> int:
    """Read a span of time as whole seconds, 30 days at most; UsageError names the legal form."""
    match = _SPAN.fullmatch(value) if isinstance(value, str) else None
    seconds = int(match[1]) * SPANS.get(match[2], -1) if match else value
    if not isinstance(seconds, int) or isinstance(seconds, bool) or not 0 <= seconds <= MAX_SPAN:
        raise UsageError(f"{shown(value)} is not a span of time up to 30 days: use {SPAN_FORM}.")
    return seconds


LIMIT_FORM = 'a whole number of records, or a share such as "1 %" or "0.1 %"'
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%")


def parse_limit(value: object) -> Limit:
    """Read a number of records, or a share of them; UsageError names the legal form."""
    if match := _SHARE.fullmatch(value) if isinstance(value, str) else None:
        share = float(match[1]) / 100
        if share <= 1:
            return Limit(share=share)
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MAX_OFFSET:
        raise UsageError(f"{shown(value)} is not a limit: use {LIMIT_FORM}.")
    return Limit(records=number)


PARTITIONS_FORM = 'partition numbers and spans of them, such as "0-5, 9"'
MAX_PARTITION = 2**31 - 1
MAX_PARTITIONS = 10_000
"""How many partitions a list may name."""

_SPAN_OF_PARTITIONS = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?")


def parse_partitions(text: str) -> tuple[int, ...]:
    """Read a list of partitions as a person types it, `0-5, 9`, sorted and each once; UsageError names the wrong part.

    Both ends of a span belong to it. Parts are separated by commas, semicolons, spaces or line ends.
    """
    parts = [part for part in re.split(r"[,;\s]+", re.sub(r"\s*-\s*", "-", text)) if part]
    if not parts:
        raise UsageError(f"{shown(text)} names no partition: use {PARTITIONS_FORM}, or leave it empty for all of them")
    found: set[int] = set()
    for part in parts:
        found |= set(_partitions_of(part))
        if len(found) > MAX_PARTITIONS:
            raise UsageError(f"{shown(text)} names more than {MAX_PARTITIONS:,} partitions: leave it empty for all")
    return tuple(sorted(found))


def _partitions_of(part: str) -> range:
    match = _SPAN_OF_PARTITIONS.fullmatch(part)
    if match is None:
        raise UsageError(f"{shown(part)} is not a partition: use {PARTITIONS_FORM}.", value=shown(part))
    first = int(match[1])
    last = int(match[2]) if match[2] else first
    if last > MAX_PARTITION:
        raise UsageError(f"{shown(part)} is above the largest partition number, {MAX_PARTITION}.", value=part)
    if last < first:
        raise UsageError(f"{shown(part)} ends before it begins: write {last}-{first}.", value=part)
    if last - first >= MAX_PARTITIONS:
        raise UsageError(f"{shown(part)} names more than {MAX_PARTITIONS:,} partitions: leave it empty for all")
    return range(first, last + 1)


def _time_advice(text: object) -> str:
    if not isinstance(text, str):
        return ""
    if _BARE_DATE.fullmatch(text):
        return f' but a date, and days begin at different moments (UTC: "{text}T00:00:00Z")'
    if _NAIVE.fullmatch(text):
        return f' anybody could place, because it has no offset (UTC: "{text}Z")'
    return ""


def parse_size(value: str | int) -> int:
    """Read a size in bytes: a positive integer, or text such as "256 MiB" (rounded down). Raises UsageError."""
    number = value if isinstance(value, int) and not isinstance(value, bool) else _size_of_text(value)
    if number is None:
        raise UsageError(f"{shown(value)} is not a size{_unit_advice(value)}: use {SIZE_FORM}.", value=shown(value))
    if not 0 < number <= MAX_OFFSET:
        raise UsageError(f"{shown(value)} is not a usable size: use at least 1 byte, below 8 EiB.", value=shown(value))
    return number


MAX_COUNT = 10_000
SLOWEST = 100_000
"""Bytes per second below which a large record would keep a job silent for longer than its worker waits for it."""
COUNT_FORM = f"a whole number from 1 to {MAX_COUNT}"
RATE_FORM = f"bytes per second: {SIZE_FORM}, at least {SLOWEST}"


def parse_count(value: object) -> int:
    """Read a number of waves; UsageError names the legal form."""
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 9 else value
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MAX_COUNT:
        raise UsageError(f"{shown(value)} is not a number of waves: use {COUNT_FORM}.")
    return number


def parse_rate(value: str | int) -> int:
    """Read bytes per second, written as a size; UsageError for a rate at which nothing would come to an end."""
    rate = parse_size(value)
    if rate < SLOWEST:
        raise UsageError(f"{shown(value)} is too slow: use {RATE_FORM}.")
    return rate


def _size_of_text(value: object) -> int | None:
    if not isinstance(value, str):
        return None
    if _OFFSET.fullmatch(value):
        return int(value)
    match = _SIZE.fullmatch(value)
    if match is None or match[2] not in UNITS:
        return None
    return int(Decimal(match[1]) * UNITS[match[2]])


def _unit_advice(value: object) -> str:
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return ""
    letters = match[2].lower()
    near = [unit for unit in UNITS if unit.lower() == letters] or [unit for unit in UNITS if unit[0].lower() == letters]
    return f" (did you mean {match[1]} {' or '.join(near)}?)" if near else f" (no unit is called {match[2][:20]!r})"


def parse_bound(text: str) -> int | datetime:
    """Read `--from` or `--to`: digits are an offset, all else a time (`parse_time`). Raises UsageError."""
    if not isinstance(text, str) or not _OFFSET.fullmatch(text):
        try:
            return parse_time(text)
        except UsageError as error:
            raise UsageError(f"{error.message} An offset is digits only.", **error.facts) from None
    offset = int(text)
    if offset > MAX_OFFSET:
        raise UsageError(f"{shown(text)} is above the largest offset Kafka has ({MAX_OFFSET}).", value=text)
    return offset


def shown(value: object, limit: int = 60) -> str:
    """Render a value for a message: quoted, escaped, never longer than about `limit` characters."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) > MAX_OFFSET:
        return "a number beyond 64 bits"
    text = repr(value) if isinstance(value, str | int | float) else f"a value of type {type(value).__name__}"
    return text if len(text) <= limit else text[:limit] + "…"


# Explicit offsets in a file: `{"<topic>": {"<partition>": <offset>}}`.

MAX_OFFSETS_FILE_BYTES = 16 * 1024 * 1024
"""Half a million partitions fit; a file beyond this is not an offsets file."""

OFFSETS_FORM = '{"<topic>": {"<partition>": <offset>}}'

_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}")


class _RepeatedKeyError(ValueError):
    """A JSON object has a key twice: the parser would silently keep the last one."""


def read_text_file(path: Path, limit: int) -> str:
    """Read a regular UTF-8 file of at most `limit` bytes; UsageError with the reason otherwise."""
    try:
        # A pipe or device would block or never end.
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is not a regular file.", file=str(path))
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist.", file=str(path)) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the path holds a NUL"
        raise UsageError(f"{str(path)!r} cannot be read: {reason}.", file=str(path)) from None
    if len(data) > limit:
        raise UsageError(f"{path} is larger than {limit} bytes.", file=str(path))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 (byte {error.start}).", file=str(path)) from None


def read_offsets_file(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Return the file's `(topic, partition, offset)`, sorted; UsageError names file, place and the legal form."""
    text = read_text_file(path, MAX_OFFSETS_FILE_BYTES)
    try:
        data = json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise UsageError(f"{path} is not JSON: {error.msg} at {place}.", file=str(path)) from None
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, _RepeatedKeyError) else "it holds a number or nesting beyond reason"
        raise UsageError(f"{path} is not usable JSON: {reason}.", file=str(path)) from None
    try:
        found = tuple(sorted(_entries(data)))
    except ValueError as error:
        raise UsageError(f"{path}: {error}; the file must be {OFFSETS_FORM}.", file=str(path)) from None
    if not found:
        raise UsageError(f"{path} names no partition; the file must be {OFFSETS_FORM}.", file=str(path))
    return found


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result: dict[str, object] = {}
    for key, value in pairs:
        if key in result:
            raise _RepeatedKeyError(f"the key {shown(key)} occurs twice")
        result[key] = value
    return result


def _entries(data: object) -> Iterator[tuple[str, int, int]]:
    for topic, partitions in _object(data, "the file").items():
        if not TOPIC_NAME.fullmatch(topic):
            raise ValueError(f"{shown(topic)} is not a topic name")
        for partition, offset in _object(partitions, f"topic {topic}").items():
            if not _PARTITION.fullmatch(partition) or int(partition) > MAX_PARTITION:
                raise ValueError(f"topic {topic}: {shown(partition)} is not a partition number")
            if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset <= MAX_OFFSET:
                raise ValueError(f"topic {topic}, partition {partition}: {shown(offset)} is not an offset")
            yield topic, int(partition), offset


def _object(value: object, what: str) -> dict[str, object]:
    if isinstance(value, dict):
        return value
    raise ValueError(f"{what} holds {shown(value)} where an object belongs")


# The keys of a pipeline file: section and name, the keyword of `Pipeline`, and how the value is read.
#
# A reader takes the raw value and the folder that relative paths start from, and returns the typed value or raises
# `IllegalValueError` with the legal form.

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
    "namespace.table (as raw.orders), with as many namespaces as the catalog takes, each 1 to 128 of A-Z a-z 0-9 _ -; "
    f"{{topic}} at most once; no name ends in {RECEIPTS_SUFFIX}: such tables hold receipts"
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
    """A value is not legal; `legal` is the legal form, `found` replaces the plain rendering of the value."""

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
    """The legal form, when the key must be there."""


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
            raise IllegalValueError(error.message.rstrip(".")) from None

    return read


def _is_group(text: str) -> bool:
    return bool(GROUP_ID.fullmatch(text)) and text == text.strip()


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
    parts = text.replace("{topic}", "t", 1).split(".")
    if len(parts) < 2 or not all(map(TABLE_PART.fullmatch, parts)) or text.lower().endswith(RECEIPTS_SUFFIX):
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
    """Return transform, width with its comma, and column: one spelling for each meaning."""
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

_READERS: Mapping[str, Mapping[str, Reader]] = {
    # Commands take a file or a name: a name must not look like a file.
    "pipeline": {
        "name": _text_that(NAME_FORM, lambda text: bool(PIPELINE_NAME.fullmatch(text)) and not text.endswith(".toml"))
    },
    "source": {
        "connection": _connection,
        "topics": _topics,
        "topic_pattern": _topic_pattern,
        "isolation": _choice(Isolation),
        "start": _policy(PolicyKind.EARLIEST, *_GROUPS),
        "end": _policy(PolicyKind.LATEST, *_GROUPS),
        "ordering": _choice(Ordering),
        "partitioner": _choice(Partitioner),
        "leader_wait": _parsed_by(parse_span),
        "stable_wait": _parsed_by(parse_span),
        "layout_grace": _parsed_by(parse_span),
        "sync_group": _text_that(GROUP_FORM, _is_group),
    },
    "lake": {"connection": _connection, "table": _table, "partition_by": _partition_by},
    "decode": {
        "format": _choice(Format),
        "schema": _ddl,
        "registry": _connection,
        "subject": _text_that(SUBJECT_FORM, lambda text: 0 < len(text) <= MAX_SUBJECT and text == text.strip()),
        "message": _text_that(MESSAGE_FORM, lambda text: bool(_MESSAGE.fullmatch(text)) and len(text) <= MAX_SUBJECT),
        "column": _text_that(COLUMN_FORM, lambda text: bool(_COLUMN.fullmatch(text)) and text.lower() not in _TAKEN),
        "limit": _parsed_by(parse_limit),
    },
    "spark": {"connection": _connection},
    "sizes": {
        "target_range_bytes": _parsed_by(parse_size),
        "max_wave_bytes": _parsed_by(parse_size),
        "audit_rate": _parsed_by(parse_size),
    },
    "limits": {"waves_at_once": _parsed_by(parse_count), "bytes_per_second": _parsed_by(parse_rate)},
}
"""Section → key → how its value is read: the one table of keys, which the keywords of `Pipeline` and the fields of
`PipelineSpec` follow."""

_REQUIRED = {"name": NAME_FORM, "table": TABLE_FORM}


def _keyword(section: str, name: str) -> str:
    """Return the keyword of a key: its name, with that of the system where several sections have the key."""
    if name == "connection":
        return f"{'kafka' if section == 'source' else section}_connection"
    return f"decode_{name}" if section == "decode" else name


KEYS = tuple(
    Key(section=section, name=name, keyword=_keyword(section, name), read=read, required=_REQUIRED.get(name, ""))
    for section, readers in _READERS.items()
    for name, read in readers.items()
)

SECTIONS: Mapping[str, tuple[Key, ...]] = {
    section: tuple(key for key in KEYS if key.section == section) for section in _READERS
}
