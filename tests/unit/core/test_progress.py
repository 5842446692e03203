"""How far, how fast, how long: from counts alone, and unknown until it is known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_kafka_lake.core.amounts import size, span
from airflow_kafka_lake.core.reports.progress import Progress, Speed, Step
from airflow_kafka_lake.core.reports.status import progress_document

AT = datetime(2026, 3, 1, tzinfo=UTC)
READ = Progress(step=Step.READ, rows_expected=1000, bytes_expected=5000)


def speed_of(*counts: tuple[float, int]) -> Speed:
    """Return the speed after some counts."""
    speed = Speed()
    for now, rows in counts:
        speed = speed.after(now, rows)
    return speed


def test_bytes_are_the_share_of_the_rows() -> None:
    """The estimate is shared out over the offsets; more rows than offsets, as a repeated task counts, add nothing."""
    assert [READ.counted(rows).bytes for rows in (0, 1, 500, 1000, 2000)] == [0, 5, 2500, 5000, 5000]
    assert Progress(step=Step.AUDIT).counted(7) == Progress(step=Step.AUDIT, rows=7)


def test_count_never_falls() -> None:
    """A task that is repeated counts anew; what was shown is not taken back."""
    assert READ.counted(700).counted(300).rows == 700


def test_end_of_a_step_has_all_bytes() -> None:
    """Offsets without a row are read too."""
    done = READ.counted(10).finished()
    assert (done.rows, done.bytes, done.share) == (10, 5000, 1.0)


@pytest.mark.parametrize(
    ("progress", "share"),
    [
        (Progress(step=Step.READ), None),
        (Progress(step=Step.READ, rows_expected=0), None),
        (READ, None),
        (READ.counted(250), 0.25),
        (READ.counted(3000), 1.0),
    ],
)
def test_share_is_known_with_the_whole(progress: Progress, share: float | None) -> None:
    """It is between nothing and all, and not known before anything was counted."""
    assert progress.share == share


def test_step_keeps_its_beginning() -> None:
    """Reports of the same step have one beginning; another step, or the first report, begins now."""
    later = AT + timedelta(seconds=30)
    first = READ.recorded(None, AT)
    assert (first.since, first.at) == (AT, AT)
    assert READ.counted(5).recorded(first, later) == Progress(
        step=Step.READ, rows=5, rows_expected=1000, bytes=25, bytes_expected=5000, since=AT, at=later
    )
    assert Progress(step=Step.AUDIT).recorded(first, later).since == later


@pytest.mark.parametrize(
    ("rows", "seconds", "rate"), [(0, 60, None), (100, 4.9, None), (100, 5, 20.0), (100, 100, 1.0)]
)
def test_recorded_rate_is_the_mean_of_its_step(rows: int, seconds: float, rate: float | None) -> None:
    """It is unknown before anything was counted, and in the first seconds."""
    progress = READ.counted(rows).recorded(READ.recorded(None, AT), AT + timedelta(seconds=seconds))
    assert progress.rows_per_second == rate


def test_unrecorded_progress_has_no_rate() -> None:
    """It has no times."""
    assert READ.counted(100).rows_per_second is None


def test_time_left_needs_a_rate_and_a_whole() -> None:
    """What is not known is not guessed."""
    half = READ.counted(500)
    assert half.seconds_left(10) == 50
    assert half.bytes_per_second(10) == 50
    assert READ.counted(2000).seconds_left(10) == 0
    assert half.seconds_left(None) is half.seconds_left(0) is half.bytes_per_second(None) is None
    assert Progress(step=Step.AUDIT, rows=5).seconds_left(10) is None
    assert Progress(step=Step.AUDIT, rows=5, rows_expected=9).bytes_per_second(10) is None


@pytest.mark.parametrize(
    ("counts", "now", "rate"),
    [
        ((), 0, None),
        (((0, 0), (50, 0)), 50, None),
        (((10, 100),), 100, None),
        (((10, 100), (14, 200)), 14, None),
        (((10, 100), (20, 200)), 20, 10.0),
        (((10, 100), (20, 200), (30, 200)), 30, 10.0),
        (((10, 100), (20, 200)), 80, 10.0),
        (((10, 100), (20, 200)), 80.1, None),
        (((0, 1), (10, 101), (65, 651)), 65, 10.0),
        (((0, 1), (200, 2001)), 200, 10.0),
        (((10, 100), (20, 200), (30, 50)), 30, None),
        (((10, 100), (20, 200), (30, 50), (40, 90)), 40, 4.0),
    ],
)
def test_speed_is_that_of_the_last_minute(
    counts: tuple[tuple[float, int], ...], now: float, rate: float | None
) -> None:
    """A job that starts has none, nor one that has stood still for a minute; a count that falls begins anew."""
    assert speed_of(*counts).rows_per_second(now) == rate


def test_speed_keeps_a_minute_of_counts() -> None:
    """However long a job runs, what is kept is bounded."""
    speed = speed_of(*((float(second), 1 + second * 7) for second in range(1000)))
    assert len(speed.counts) <= 62
    assert speed.rows_per_second(999) == 7


@pytest.mark.parametrize(
    ("progress", "rate", "text"),
    [
        (READ, None, "0 rows of 1,000 offsets, about 0 bytes of 5.0 kB"),
        (READ.counted(500), 10.0, "500 rows of 1,000 offsets, about 2.5 kB of 5.0 kB, 50 bytes/s, about 50 s left"),
        (READ.counted(1000), 10.0, "1,000 rows of 1,000 offsets, about 5.0 kB of 5.0 kB, 50 bytes/s"),
        (Progress(step=Step.READ, rows=3), None, "3 rows"),
        (Progress(step=Step.AUDIT, rows=3), None, "3 offsets"),
        (
            Progress(step=Step.AUDIT, rows=3, rows_expected=9000),
            1500.0,
            "3 of 9,000 offsets, 1,500 offsets/s, about 6 s left",
        ),
        (Progress(step=Step.PUBLISH, rows=3, rows_expected=3), None, "3 of 3 rows"),
    ],
)
def test_description_leaves_out_what_is_not_known(progress: Progress, rate: float | None, text: str) -> None:
    """It is one line."""
    assert progress.describe(rate) == text


def test_document_has_null_for_what_is_not_known() -> None:
    """Its numbers are whole."""
    assert progress_document(None, 1.0) is None
    fresh = progress_document(READ.recorded(None, AT), None)
    assert fresh == {
        "step": "read",
        "rows_done": 0,
        "rows_expected": 1000,
        "bytes_done": 0,
        "bytes_expected": 5000,
        "rows_per_second": None,
        "bytes_per_second": None,
        "seconds_left": None,
        "step_at": "2026-03-01T00:00:00.000Z",
        "progress_at": "2026-03-01T00:00:00.000Z",
    }
    later = READ.counted(500).recorded(READ.recorded(None, AT), AT + timedelta(seconds=9))
    document = progress_document(later, later.rows_per_second)
    assert document is not None
    assert (document["rows_per_second"], document["bytes_per_second"], document["seconds_left"]) == (56, 278, 9)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (61, "1 min 1 s"),
        (3599.4, "59 min 59 s"),
        (3600, "1 h"),
        (5429, "1 h 30 min"),
        (86399, "1 d"),
        (90000, "1 d 1 h"),
        (200000, "2 d 8 h"),
    ],
)
def test_span_has_two_units(seconds: float, text: str) -> None:
    """The smaller is rounded."""
    assert span(seconds) == text


def test_size_has_a_unit() -> None:
    """Units of a thousand."""
    assert [size(number) for number in (1, 999, 1500, 12_345_678)] == ["1 byte", "999 bytes", "1.5 kB", "12.3 MB"]
