"""The report as a page: whole, safe, and readable whatever the size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.audit.check import Finding, FindingKind
from airflow_kafka_lake.core.audit.report import MEANINGS, AuditedStream, AuditReport, OffsetStatus, TimelineSlice
from airflow_kafka_lake.core.ledger.records import StreamRecord
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Stream
from airflow_kafka_lake.pages.charts import (
    COLUMNS,
    EXACT,
    audit_page,
    timeline_of,
)
from airflow_kafka_lake.pages.rendering import static_text
from airflow_kafka_lake.services.cutover import Cutovers
from tests.reading_html import handlers, read

pytestmark = pytest.mark.unit

EVIL = "<script>alert('x')</script>\"onload=\"\x1b[31m\u202e"


def piece(start: int, end: int, status: OffsetStatus = OffsetStatus.COMMITTED, message: str = "") -> TimelineSlice:
    return TimelineSlice(range=OffsetRange(start, end), status=status, message=message)


def drawn(*pieces: TimelineSlice, seals: Sequence[int] = (), watermark: int | None = None) -> str:
    return timeline_of(0, pieces, watermark=watermark, seals=seals)


def stream(partition: int = 0, *pieces: TimelineSlice, topic: str = "orders", **changes: Any) -> AuditedStream:
    offsets = RangeSet.between(0, 10)
    return AuditedStream(
        record=StreamRecord(
            pipeline="orders",
            key=Stream(topic, "A" * 22, partition),
            origin=0,
            watermark=10,
            version=1,
            end_seen=10,
            planned=offsets,
            covered=offsets,
        ),
        coverage=offsets,
        rows=10,
        duplicates=0,
        missing=0,
        deleted=0,
        accounting=changes.pop("accounting", Accounting(visible=10)),
        bounds=None,
        timeline=pieces or (piece(0, 10),),
        **{"bounds_state": "observed", **changes},
    )


def report(*streams: AuditedStream, **changes: Any) -> AuditReport:
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    return AuditReport(**{"pipeline": "orders", "at": at, "streams": streams, "findings": (), **changes})


def test_a_page_needs_nothing_else() -> None:
    """No script, no link, no address; the browser itself is told to load nothing."""
    html = audit_page(report(stream()))
    page = read(html)
    assert not {item.tag for item in page} & {"script", "link", "img", "iframe", "a", "object", "image", "use"}
    assert not {name for item in page for name in item.attributes if name in {"src", "href"}} | handlers(page)
    assert "://" not in html
    assert set(re.findall(r"url\(([^)]*)\)", html)) <= {"#hatched", "#crossed", "#barred", "#dotted", "#moving"}
    policy = page.one("meta", http_equiv="Content-Security-Policy")
    assert policy.attributes["content"] == "default-src 'none'; style-src 'unsafe-inline'"
    assert "color-scheme: light dark" in page.one("style").text


def test_what_strangers_wrote_stays_text() -> None:
    """Topic names, reasons, findings and states can be anything."""
    finding = Finding(kind=FindingKind.LOST, stream=Stream(EVIL, EVIL, 0), message=EVIL)
    evil = stream(0, piece(0, 5, OffsetStatus.HELD, EVIL), topic=EVIL, problems=(EVIL,), bounds_state=EVIL)
    judged = Cutovers(table=EVIL, cutovers=(), remarks=(EVIL,))
    html = audit_page(report(evil, pipeline=EVIL, findings=(finding,), checks={"deep": judged, "cutover": judged}))
    page = read(html)
    assert "script" not in {item.tag for item in page}
    assert handlers(page) == set()
    assert page.text.count("<script>alert('x')</script>") >= 10
    assert "\x1b" not in html
    assert "\u202e" not in html


def test_the_verdict_and_every_problem_are_said_in_words() -> None:
    """Not by a colour alone."""
    finding = Finding(kind=FindingKind.LOST, stream=Stream("orders", "A" * 22, 3), wave="w", message="3 rows are gone")
    page = read(audit_page(report(stream(3), findings=(finding,))))
    assert page.one("span", class_="verdict").text == "✗ the audit failed"
    assert "1 finding" in {item.text for item in page.all("h2")}
    assert [item.text for item in page.all("td")] == ["lost", "orders/3", "3 rows are gone"]
    for wave, table in (("w", None), (None, "raw.orders"), (None, None)):
        found = audit_page(report(findings=(replace(finding, stream=None, wave=wave, table=table),)))
        assert [item.text for item in read(found).all("td")][1] == (wave or table or "")
    good = read(audit_page(report(stream())))
    assert good.one("span", class_="verdict").text == "✓ nothing that landed is missing, twice or unexplained"


def rects(html: str) -> list[tuple[str, float, float]]:
    """Return `(class, x, width)` of every box, in per cent."""
    found = re.findall(r'<rect class="(\w+)" x="([\d.]+)%" width="([\d.]+)%"', html)
    return [(status, float(x), float(width)) for status, x, width in found]


def test_a_timeline_shows_every_piece_and_says_it_when_pointed_at() -> None:
    """Where it is, how wide, and what it is."""
    html = drawn(piece(0, 50), piece(50, 75, OffsetStatus.HELD, "no file"), piece(75, 100, OffsetStatus.UNREAD))
    assert sorted(rects(html)) == [("committed", 0, 50), ("held", 50, 25), ("unread", 75, 25)]
    assert "<title>held [50, 75): no file</title>" in html
    assert 'aria-label="partition 0, offsets 0 to 100: 50 landed, 25 unread, 25 held"' in html


def test_a_hold_of_one_offset_among_millions_is_seen() -> None:
    """It is wider than it should be, within the timeline, and above its neighbours."""
    last = 10_000_000
    html = drawn(piece(0, last - 1), piece(last - 1, last, OffsetStatus.HELD))
    (status, left, width) = rects(html)[-1]
    assert (status, left + width) == ("held", 100)
    assert width >= 1


@pytest.mark.parametrize("urgent", [OffsetStatus.LOST, OffsetStatus.HELD])
def test_a_timeline_of_many_pieces_shows_the_most_urgent(urgent: OffsetStatus) -> None:
    """However many pieces, the drawing stays small and one hold or loss shows."""
    pieces = [
        piece(n * 10, n * 10 + 10, OffsetStatus.PLANNED if n % 2 else OffsetStatus.COMMITTED) for n in range(20_000)
    ]
    pieces[7777] = piece(77770, 77780, urgent)
    assert len(pieces) > EXACT
    boxes = rects(drawn(*pieces))
    assert len(boxes) <= COLUMNS
    ((_, left, width),) = [box for box in boxes if box[0] == urgent.value]
    assert left <= 77770 / 200_000 * 100 <= left + width


def test_seals_and_the_watermark_are_marked() -> None:
    """A line at the offset, with its words; also at the very end."""
    html = drawn(piece(0, 100), seals=[40, 100, 4000], watermark=70)
    marks = re.findall(r'<rect class="(\w+)" x="([\d.]+)%"><title>([^<]*)</title>', html)
    assert marks == [
        ("sealed", "40", "sealed at 40"),
        ("sealed", "99.6", "sealed at 100"),
        ("watermark", "70", "watermark 70"),
    ]


@pytest.mark.parametrize("status", list(OffsetStatus))
def test_every_status_is_told_apart_and_explained(status: OffsetStatus) -> None:
    """The style sheet draws it, and the legend says what it means."""
    assert re.search(rf"\.{status}(, \.\w+)? \{{ fill: ", static_text("page.css"))
    assert MEANINGS[status]


def test_a_stream_without_offsets_has_no_drawing() -> None:
    """Nothing to show is said in words."""
    assert "no offset is known of yet" in drawn()


def test_a_thousand_partitions_are_one_small_page() -> None:
    """A few hundred bytes each, grouped by topic."""
    streams = [stream(n, topic=f"topic-{n // 100}") for n in range(1000)]
    html = audit_page(report(*streams))
    assert len(html) < 1_000_000
    page = read(html)
    assert len(page.all("h2")) == 10
    assert len(page.all("svg", class_="timeline")) == 1000


def test_many_findings_are_counted() -> None:
    """The page stays readable; the rest is in the JSON document."""
    finding = Finding(kind=FindingKind.LOST, table="raw.t", message="gone")
    text = read(audit_page(report(stream(), findings=(finding,) * 1234))).text
    assert "1,234 findings" in text
    assert "… and 734 more: all of them are in the JSON document" in text
