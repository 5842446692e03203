"""Forms that other programs read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from airflow_kafka_lake.core.ledger.history import EventRef
from airflow_kafka_lake.core.ledger.waves import SnapshotPosition, Token
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream, ranges_digest
from airflow_kafka_lake.core.wire import (
    LAST,
    Last,
    last_by,
    last_from_property,
    last_of_properties,
    last_to_property,
    owner_from_property,
    owner_to_property,
    timestamp,
    token_from_summary,
    token_to_summary,
)

pytestmark = pytest.mark.unit

TOKEN = Token(pipeline="orders", wave="p1-w0", attempt="00ff00ff00ff00ff", fence=3, ranges="ab" * 8, kind="fence")


def test_times_are_utc_with_milliseconds() -> None:
    """RFC 3339, whatever zone the time came in."""
    at = datetime(2026, 1, 31, 1, 2, 3, 456789, tzinfo=timezone(timedelta(hours=2)))
    assert timestamp(at) == "2026-01-30T23:02:03.456Z"
    assert timestamp(datetime(2026, 1, 31, tzinfo=UTC)) == "2026-01-31T00:00:00.000Z"
    assert timestamp(None) is None


def test_digest_ignores_order_and_nothing_else() -> None:
    """The same ranges have the same digest; another offset, partition or topic id has another one."""
    a, b = Slice(Stream("a", "id-a", 0), OffsetRange(0, 5)), Slice(Stream("b", "id-b", 1), OffsetRange(0, 5))
    assert ranges_digest([a, b]) == ranges_digest([b, a])
    different = {
        ranges_digest(ranges)
        for ranges in (
            [],
            [a],
            [b],
            [a, b],
            [a, a],
            [Slice(Stream("a", "id-a", 1), OffsetRange(0, 5))],
            [Slice(Stream("a", "id-a", 0), OffsetRange(0, 6))],
            [Slice(Stream("a", "id-a", 0), OffsetRange(1, 5))],
            [Slice(Stream("a", "id-a", 0), OffsetRange(0, 2)), Slice(Stream("a", "id-a", 0), OffsetRange(2, 5))],
        )
    }
    assert len(different) == 9
    assert all(len(digest) == 16 for digest in different)


def test_token_reads_back_from_a_summary() -> None:
    """A commit says who made it, in text values only, among whatever else the engine wrote there."""
    summary = token_to_summary(TOKEN)
    assert set(summary) == {
        f"kafka-lake.{key}" for key in ("pipeline", "wave", "attempt", "fence", "ranges", "kind", "version")
    }
    assert all(isinstance(value, str) for value in summary.values())
    assert token_from_summary({"operation": "append", **summary}) == TOKEN


def test_foreign_commit_has_no_token() -> None:
    """Compaction and other writers are not ours."""
    assert token_from_summary({"operation": "replace"}) is None
    assert token_from_summary({}) is None


def test_last_commit_of_ours_reads_back() -> None:
    """The table property holds the ledger's id and the token; a table that no ledger owns has none."""
    line = EventRef(sequence=2**40, digest="0123456789abcdef")
    for place, after in ((None, None), (SnapshotPosition(snapshot=2**62, sequence=7), line)):
        last = Last(ledger_id="f" * 32, token=TOKEN, place=place, line=after)
        assert last_from_property(last_to_property(last)) == last
    assert last_from_property(None) is None
    assert last_from_property("") is None


def test_owner_reads_back() -> None:
    """Ledger id and pipeline, in one property value."""
    assert owner_from_property(owner_to_property("f" * 32, "orders.v2-a")) == ("f" * 32, "orders.v2-a")


def test_newest_commit_of_an_older_version_counts() -> None:
    """A table that has only the one property names the newest commit by it; an own property is newer."""
    oldest = Last(ledger_id="f" * 32, token=TOKEN)
    old = {LAST: last_to_property(oldest)}
    assert last_of_properties(old) == {("f" * 32, TOKEN.pipeline): oldest}
    newer = replace(oldest, token=replace(TOKEN, fence=9))
    own = {last_by("f" * 32, TOKEN.pipeline): last_to_property(newer)}
    assert last_of_properties({**old, **own}) == {("f" * 32, TOKEN.pipeline): newer}
    assert last_of_properties({"other": "x"}) == {}
