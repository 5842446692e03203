"""The report as a page: whole, safe, and readable whatever the size."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from airflow_kafka_lake.core.audit.timeline import OffsetStatus
from airflow_kafka_lake.features.pages.audit import audit_page
from airflow_kafka_lake.features.pages.timeline import COLUMNS, EXACT, WIDTH, timeline_of

pytestmark = pytest.mark.unit

EVIL = "<script>alert('x')</script>\"onload=\"\x1b[31m\u202e"


class Reader(HTMLParser):
    """Collects elements, attributes and text."""

    VOID = frozenset({"meta"})

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


def piece(start: int, end: int, status: OffsetStatus = OffsetStatus.COMMITTED, message: str = "") -> dict[str, Any]:
    return {"from": start, "to": end, "status": status.value, "message": message}


def stream(partition: int = 0, *pieces: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "topic": "orders",
        "topic_id": "AAAAAAAAAAAAAAAAAAAAAA",
        "partition": partition,
        "sentence": "of [0, 10): 10 visible",
        "problems": [],
        "notes": [],
        "bounds_state": "observed",
        "timeline": list(pieces or (piece(0, 10),)),
        **changes,
    }


def document(*streams: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "pipeline": "orders",
        "audited_at": "2026-03-01T12:00:00Z",
        "ok": True,
        "totals": {"sentence": "of 10 offsets", "rows": 10, "duplicates": 0, "missing": 0},
        "streams": list(streams),
        "findings": [],
        **changes,
    }


def test_a_page_needs_nothing_else() -> None:
    """No script, no link, no address; the browser itself is told to load nothing."""
    html = audit_page(document(stream()))
    reader = read(html)
    assert not {tag for tag, _ in reader.tags} & {"script", "link", "img", "iframe", "a", "object", "image", "use"}
    assert not {name for _, given in reader.tags for name in given if name in {"src", "href"} or name.startswith("on")}
    assert "://" not in html
    assert "url(" not in html
    policies = [given["content"] for _, given in reader.tags if given.get("http-equiv") == "Content-Security-Policy"]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]
    assert "prefers-color-scheme: dark" in html


def test_what_strangers_wrote_stays_text() -> None:
    """Topic names, reasons, findings and states can be anything."""
    finding = {"kind": EVIL, "topic": EVIL, "partition": 0, "wave": None, "table": None, "message": EVIL}
    evil = stream(0, piece(0, 5, OffsetStatus.HELD, EVIL), topic=EVIL, topic_id=EVIL, sentence=EVIL, notes=[EVIL])
    evil |= {"problems": [EVIL], "bounds_state": EVIL}
    part = {"sentence": EVIL, "lines": [EVIL]}
    html = audit_page(document(evil, pipeline=EVIL, findings=[finding], ok=False, deep=part, cutover=part))
    reader = read(html)
    assert "script" not in {tag for tag, _ in reader.tags}
    assert not {name for _, given in reader.tags for name in given if name.startswith("on")}
    assert sum("<script>alert('x')</script>" in word for word in reader.words) >= 10
    assert "\x1b" not in html
    assert "\u202e" not in html


def test_the_verdict_and_every_problem_are_said_in_words() -> None:
    """Not by a colour alone."""
    finding = {
        "kind": "lost",
        "topic": "orders",
        "partition": 3,
        "wave": "w",
        "table": None,
        "message": "3 rows are gone",
    }
    words = read(audit_page(document(stream(3), findings=[finding], ok=False))).words
    assert {"✗ the audit failed", "1 finding", "lost", "orders/3", "3 rows are gone"} <= set(words)
    assert "✓ nothing is missing, twice or unexplained" in read(audit_page(document(stream()))).words


def rects(html: str) -> list[tuple[str, float, float]]:
    """Return `(class, x, width)` of every box."""
    found = re.findall(r'<rect class="(\w+)" x="([\d.]+)" y="0" width="([\d.]+)"', html)
    return [(status, float(x), float(width)) for status, x, width in found]


def test_a_timeline_shows_every_piece_and_says_it_when_pointed_at() -> None:
    """Where it is, how wide, and what it is."""
    html = timeline_of(
        stream(0, piece(0, 50), piece(50, 75, OffsetStatus.HELD, "no file"), piece(75, 100, OffsetStatus.UNREAD))
    )
    assert sorted(rects(html)) == [("committed", 0, 500), ("held", 500, 250), ("unread", 750, 250)]
    assert "<title>held [50, 75): no file</title>" in html
    assert 'aria-label="offsets 0 to 100 of partition 0: 50 committed, 25 unread, 25 held"' in html


def test_a_hold_of_one_offset_among_millions_is_seen() -> None:
    """It is wider than it should be, within the timeline, and above its neighbours."""
    last = 10_000_000
    html = timeline_of(stream(0, piece(0, last - 1), piece(last - 1, last, OffsetStatus.HELD)))
    (status, left, width) = rects(html)[-1]
    assert (status, left + width) == ("held", WIDTH)
    assert width >= 1


@pytest.mark.parametrize("urgent", [OffsetStatus.LOST, OffsetStatus.HELD])
def test_a_timeline_of_many_pieces_shows_the_most_urgent(urgent: OffsetStatus) -> None:
    """However many pieces, the drawing stays small and one hold or loss shows."""
    pieces = [
        piece(n * 10, n * 10 + 10, OffsetStatus.PLANNED if n % 2 else OffsetStatus.COMMITTED) for n in range(20_000)
    ]
    pieces[7777] = piece(77770, 77780, urgent)
    assert len(pieces) > EXACT
    boxes = rects(timeline_of(stream(0, *pieces)))
    assert len(boxes) <= COLUMNS
    ((_, left, width),) = [box for box in boxes if box[0] == urgent.value]
    assert left <= 77770 / 200_000 * WIDTH <= left + width


def test_seals_are_marked() -> None:
    """A line at the offset, with its words; also at the very end."""
    html = timeline_of(stream(0, piece(0, 100), seals=[40, 100, 4000]))
    assert [(round(x), status) for status, x, _ in rects(html) if status == "sealed"] == [
        (400, "sealed"),
        (997, "sealed"),
    ]
    assert "<title>sealed at 40</title>" in html


def test_a_stream_without_offsets_has_no_drawing() -> None:
    """Nothing to show is said in words."""
    assert "no offset is known of yet" in timeline_of(stream() | {"timeline": []})


def test_a_thousand_partitions_are_one_small_page() -> None:
    """A few hundred bytes each, grouped by topic."""
    streams = [stream(n, topic=f"topic-{n // 100}") for n in range(1000)]
    html = audit_page(document(*streams))
    assert len(html) < 1_000_000
    assert sum(tag == "h2" for tag, _ in read(html).tags) == 10
    assert sum(tag == "svg" for tag, _ in read(html).tags) == 1000


def test_many_findings_are_counted() -> None:
    """The page stays readable; the rest is in the JSON document."""
    finding = {"kind": "lost", "topic": None, "partition": None, "wave": None, "table": "raw.t", "message": "gone"}
    words = read(audit_page(document(stream(), findings=[finding] * 1234, ok=False))).words
    assert "1,234 findings" in words
    assert "… and 734 more: all of them are in the JSON document" in words
