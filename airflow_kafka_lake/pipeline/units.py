"""Parse times, spans, sizes, limits and bounds as people write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal

from airflow_kafka_lake.core.errors import UsageError

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
    """Read a span of time as whole seconds, 30 days at most; UsageError names what is legal."""
    match = _SPAN.fullmatch(value) if isinstance(value, str) else None
    seconds = int(match[1]) * SPANS.get(match[2], -1) if match else value
    if not isinstance(seconds, int) or isinstance(seconds, bool) or not 0 <= seconds <= MAX_SPAN:
        raise UsageError(f"{shown(value)} is not a span of time up to 30 days: use {SPAN_FORM}.")
    return seconds


LIMIT_FORM = 'a whole number of records, or a share such as "1 %" or "0.1 %"'
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%")


def parse_limit(value: object) -> int | float:
    """Read a number of records (int), or a share of them (float, 0 to 1); UsageError names what is legal."""
    if match := _SHARE.fullmatch(value) if isinstance(value, str) else None:
        share = float(match[1]) / 100
        if share <= 1:
            return share
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MAX_OFFSET:
        raise UsageError(f"{shown(value)} is not a limit: use {LIMIT_FORM}.")
    return number


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
    """Read a size in bytes: a positive integer, or text such as "256 MiB" or "1.5 GB" (rounded down to whole bytes)."""
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
    """Read a number of waves; UsageError names what is legal."""
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
    """Read `--from` or `--to`: digits are an offset, everything else must be a time as `parse_time` reads it."""
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
