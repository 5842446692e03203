"""Times, sizes and bounds as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.wire import milliseconds
from airflow_kafka_lake.pipeline.keys import (
    MAX_OFFSET,
    parse_bound,
    parse_partitions,
    parse_size,
    parse_time,
    shown,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31T06:00:00Z", datetime(2026, 1, 31, 6, tzinfo=UTC)),
        ("2026-01-31t06:00:00z", datetime(2026, 1, 31, 6, tzinfo=UTC)),
        ("2026-01-31 06:00Z", datetime(2026, 1, 31, 6, tzinfo=UTC)),
        ("2026-01-31T06:00:00+05:30", datetime(2026, 1, 31, 0, 30, tzinfo=UTC)),
        ("2026-01-31T00:00:00-00:00", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T06:00:00.123456789Z", datetime(2026, 1, 31, 6, 0, 0, 123456, tzinfo=UTC)),
        ("1970-01-01T00:00:00Z", datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_time_is_plain_utc(text: str, expected: datetime) -> None:
    """Whatever the offset, the result is an ordinary aware UTC datetime."""
    got = parse_time(text)
    assert got == expected
    assert type(got) is datetime
    assert got.tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("2026-01-31", '"2026-01-31T00:00:00Z"'),
        ("2026-01-31T06:00:00", '"2026-01-31T06:00:00Z"'),
        ("2026-02-30T06:00:00Z", "not a time of the calendar"),
        ("2026-01-31T24:00:00Z", "not a time of the calendar"),
        ("2026-01-31T06:00:60Z", "not a time of the calendar"),
        ("2026-01-31T06:00:00+25:00", "not a time of the calendar"),
        ("9999-12-31T23:59:59-05:00", "not a time of the calendar"),
        ("1969-12-31T23:59:59.999Z", "before 1970"),
        ("1970-01-01T00:00:00+00:01", "before 1970"),
        ("2026-01-31T06:00:00Z\n", "is not a time"),
        ("2026-W05-6T06:00:00Z", "is not a time"),
        ("20260131T060000Z", "is not a time"),
        ("٢٠٢٦-01-31T06:00:00Z", "is not a time"),
        ("06:00Z", "is not a time"),
        ("P1D", "is not a time"),
        ("yesterday", "is not a time"),
        ("now", "is not a time"),
        ("", "is not a time"),
    ],
)
def test_unclear_time_is_refused_with_advice(text: str, part: str) -> None:
    """No zone is guessed, no calendar stretched; times before 1970 mean something else to Kafka."""
    with pytest.raises(UsageError) as caught:
        parse_time(text)
    assert part in caught.value.message
    assert "\n" not in caught.value.message


@given(st.datetimes(datetime(1970, 1, 2), datetime(9990, 1, 1)), st.integers(-23 * 60, 23 * 60))  # noqa: DTZ001
def test_every_time_reads_back(at: datetime, minutes: int) -> None:
    """What Python prints with any offset is read as the same moment."""
    sign, size = ("-", -minutes) if minutes < 0 else ("+", minutes)
    expected = at.replace(tzinfo=UTC) - timedelta(minutes=minutes)
    if expected.year >= 1970:
        assert parse_time(f"{at.isoformat()}{sign}{size // 60:02}:{size % 60:02}") == expected


def test_kafka_timestamp_is_rounded_up() -> None:
    """A record of the millisecond before must not slip in."""
    assert milliseconds(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == 1000
    assert milliseconds(datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC)) == 1001
    assert milliseconds(datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)) == 253402300799999


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1),
        ("1", 1),
        ("256 MiB", 256 * 2**20),
        ("256MiB", 256 * 2**20),
        ("64 GiB", 64 * 2**30),
        ("1.5 GB", 1_500_000_000),
        ("1 kB", 1000),
        ("1 KB", 1000),
        ("1 KiB", 1024),
        ("2 TB", 2 * 10**12),
        ("0.1 TiB", 109951162777),
        ("0.3 kB", 300),
        ("1.000000001 GB", 1_000_000_001),
        (MAX_OFFSET, MAX_OFFSET),
    ],
)
def test_sizes(value: str | int, expected: int) -> None:
    """Binary and decimal units are told apart, and fractions are exact."""
    assert parse_size(value) == expected


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ("256 mib", "did you mean 256 MiB?"),
        ("1 Mb", "did you mean 1 MB?"),
        ("1 M", "did you mean 1 MB or MiB?"),
        ("1 PB", "no unit is called 'PB'"),
        ("0", "at least 1 byte"),
        ("0 MiB", "at least 1 byte"),
        ("0.5 B", "at least 1 byte"),
        (0, "at least 1 byte"),
        (-5, "at least 1 byte"),
        pytest.param(10**5000, "below 8 EiB", id="endless"),
        ("9999999999 TiB", "below 8 EiB"),
        ("-1 MiB", "is not a size"),
        ("1e3 MiB", "is not a size"),
        ("1,5 GB", "is not a size"),
        ("1 MiB\n", "is not a size"),
        ("MiB", "is not a size"),
        ("", "is not a size"),
        (True, "is not a size"),
        (1.5, "is not a size"),
        (None, "is not a size"),
    ],
)
def test_unclear_size_is_refused(value: object, part: str) -> None:
    """Zero, negatives, foreign units and other types are named with what is legal."""
    with pytest.raises(UsageError) as caught:
        parse_size(value)  # type: ignore[arg-type]
    assert part in caught.value.message
    assert len(caught.value.message) < 300


def test_bound_is_an_offset_or_a_time() -> None:
    """Digits alone are an offset."""
    assert parse_bound("0") == 0
    assert parse_bound("007") == 7
    assert parse_bound("20260131") == 20260131
    assert parse_bound(str(MAX_OFFSET)) == MAX_OFFSET
    assert parse_bound("2026-01-31T06:00:00Z") == datetime(2026, 1, 31, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["-1", "+1", "1.0", "1_000", " 1", "1\n", "٣", "", "latest", "earliest", "2026-01-31", str(MAX_OFFSET + 1)]
)
def test_anything_else_is_no_bound(text: str) -> None:
    """Words, signs and dates are refused as wrong usage, with the text in the message."""
    with pytest.raises(UsageError) as caught:
        parse_bound(text)
    assert shown(text) in caught.value.message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", (0,)),
        ("0-5, 9", (0, 1, 2, 3, 4, 5, 9)),
        (" 9 ,0 - 2;1\n4", (0, 1, 2, 4, 9)),
        ("2147483647", (2147483647,)),
        ("3-3", (3,)),
    ],
)
def test_partitions_are_a_list_that_a_person_can_type(text: str, expected: tuple[int, ...]) -> None:
    """Numbers and spans of them, in any order, with commas or without."""
    assert parse_partitions(text) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "names no partition"),
        ("all", "'all' is not a partition"),
        ("0-", "'0-' is not a partition"),
        ("-1", "'-1' is not a partition"),
        ("0..5", 'such as "0-5, 9"'),
        ("1-2-3", "'1-2-3' is not a partition"),
        ("5-0", "write 0-5"),
        ("2147483648", "above the largest"),
        ("0-10000", "more than 10,000"),
        ("0-9999, 10000-10001", "more than 10,000"),
        ("٣", "is not a partition"),
    ],
)
def test_unclear_partitions_are_refused_with_advice(text: str, part: str) -> None:
    """The message names the part that is wrong; a span too wide is never laid out."""
    with pytest.raises(UsageError) as error:
        parse_partitions(text)
    assert part in error.value.message


def test_message_never_grows_with_the_value() -> None:
    """Whatever a user pastes, the message stays a message."""
    assert len(shown("x" * 10_000)) < 70
    assert shown(10**5000) == "a number beyond 64 bits"
    assert shown("a\nb") == "'a\\nb'"
    assert shown(True) == "true"
    assert shown([1]) == "a value of type list"
