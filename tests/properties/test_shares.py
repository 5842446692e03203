"""Shares of a cut range: sums per piece and per class hold, nothing is negative, and what Kafka says counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_lake.core.accounting import (
    CLASSES,
    Accounting,
    Explanation,
    Fate,
    shares,
)
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet

FATES = (None, Fate.CONTROL, Fate.ABORTED, Fate.COMPACTED)


@st.composite
def cut_ranges(draw: st.DrawFn) -> tuple[list[Fate | None], OffsetRange, list[OffsetRange], set[int]]:
    """Draw the fate of every offset of a range (None: a row), its pieces, and the offsets Kafka still knows."""
    fates = draw(st.lists(st.sampled_from(FATES), min_size=1, max_size=24))
    start = draw(st.integers(0, 9))
    whole = OffsetRange(start, start + len(fates))
    inside = st.integers(whole.start, whole.end)
    pieces = whole.split_at(draw(st.lists(inside, max_size=3)))
    return fates, whole, list(pieces), draw(st.sets(inside))


def counted(fates: list[Fate | None]) -> Accounting:
    """Count fates."""
    return Accounting(visible=fates.count(None), **{name: fates.count(Fate(name)) for name in CLASSES})


@given(cut_ranges(), st.booleans())
def test_shares_add_up(drawn: tuple[list[Fate | None], OffsetRange, list[OffsetRange], set[int]], wrong: bool) -> None:
    """Per piece to its span, per class to the old total; exact where Kafka could say; it may say otherwise now."""
    fates, whole, pieces, known = drawn
    fate_of = dict(zip(range(whole.start, whole.end), fates, strict=True))
    visible = RangeSet(OffsetRange(at, at + 1) for at, fate in fate_of.items() if fate is None)
    said = [
        Explanation(range=OffsetRange(at, at + 1), fate=Fate.COMPACTED if wrong else fate)
        for at, fate in fate_of.items()
        if fate is not None and at in known
    ]
    total = counted(fates)
    found = shares(total, pieces, visible, said)
    assert [item.span for item in found] == [piece.span for piece in pieces]
    assert sum(found, Accounting()) == total
    for item, piece in zip(found, pieces, strict=True):
        assert min(item.to_json().values()) >= 0
        inside = [fate_of[at] for at in range(piece.start, piece.end)]
        assert item.visible == inside.count(None)
        told = [fate_of[at] for at in range(piece.start, piece.end) if at in known]
        for name in CLASSES if not wrong else ():
            assert getattr(item, name) >= told.count(Fate(name))
    everything_known = known >= {at for at, fate in fate_of.items() if fate is not None}
    if everything_known and not wrong:
        assert list(found) == [counted([fate_of[at] for at in range(p.start, p.end)]) for p in pieces]


def test_rows_that_are_not_what_was_counted_are_refused() -> None:
    """A table that lost rows shows no shares."""
    whole = Accounting(visible=3, control=1)
    with pytest.raises(ValueError, match="not the 3 visible"):
        shares(whole, [OffsetRange(0, 2), OffsetRange(2, 4)], RangeSet.of((0, 2)), [])
