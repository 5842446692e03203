"""What a person is shown of a wave, in one line for each moment."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.core.reports.progress import (
    Counters,
    Moment,
    Progress,
    ProgressEvent,
    Step,
    WavePosition,
)
from airflow_kafka_lake.services.watching import Lines

READ = Progress(step=Step.READ, rows_expected=1000, bytes_expected=50_000_000)
PUBLISH = Progress(step=Step.PUBLISH, rows_expected=900)


def live(
    progress: Progress = READ,
    moment: Moment = Moment.GOING,
    *,
    at: float = 100,
    seconds: float = 10,
    rate: float | None = None,
    place: WavePosition | None = None,
    note: str = "",
) -> ProgressEvent:
    """Return a moment of a wave."""
    return ProgressEvent(
        subject="wave w1",
        moment=moment,
        progress=progress,
        at=at,
        seconds=seconds,
        rows_per_second=rate,
        place=place,
        note=note,
    )


RUN = WavePosition(number=3, of=12, bytes_before=100, bytes_here=50, bytes_after=450, seconds_before=60, begun=90)


@pytest.mark.parametrize(
    ("moment", "sentence"),
    [
        (
            live(moment=Moment.BEGUN, note="3 ranges, 4 tasks"),
            "wave w1: reading 1,000 offsets, about 50.0 MB in Kafka: 3 ranges, 4 tasks",
        ),
        (live(), "wave w1: reading, nothing counted yet, 10 s so far"),
        (
            live(note=Counters(executors=0).note),
            "wave w1: reading, nothing counted yet, 10 s so far: no executor of the cluster works for it",
        ),
        (
            live(READ.counted(500), rate=50),
            "wave w1: read 500 rows of 1,000 offsets, about 25.0 MB of 50.0 MB, 2.5 MB/s, about 10 s left",
        ),
        (
            live(READ.counted(500), rate=50, place=RUN),
            (
                "wave w1 (3 of 12): read 500 rows of 1,000 offsets, about 25.0 MB of 50.0 MB, 2.5 MB/s, about 10 s "
                "left; all waves: about 4 min 50 s left"
            ),
        ),
        (live(READ.counted(990), Moment.ENDED, seconds=61), "wave w1: read 990 rows in 1 min 1 s"),
        (live(Progress(step=Step.AUDIT, rows_expected=9), Moment.BEGUN), "wave w1: auditing 9 offsets"),
        (live(Progress(step=Step.AUDIT, rows=5, rows_expected=9)), "wave w1: audited 5 of 9 offsets"),
        (
            live(Progress(step=Step.AUDIT, rows=9), Moment.ENDED, note="every offset is accounted for"),
            "wave w1: audited 9 offsets in 10 s: every offset is accounted for",
        ),
        (live(PUBLISH, Moment.BEGUN), "wave w1: publishing 900 rows"),
        (live(PUBLISH), "wave w1: publishing 900 rows, 10 s so far"),
        (
            live(
                Progress(step=Step.PUBLISH, rows=900, bytes=2_000_000),
                Moment.LANDED,
                place=WavePosition(number=1, of=2),
            ),
            "wave w1 (1 of 2) landed: 900 rows, 2.0 MB, 10 s",
        ),
        (live(Progress(step=Step.PUBLISH), Moment.LANDED), "wave w1 landed: 0 rows, 10 s"),
    ],
)
def test_every_moment_is_a_sentence(moment: ProgressEvent, sentence: str) -> None:
    """It names the wave and its place, what is done of how many, how fast, and how long it will take."""
    assert moment.sentence() == sentence


@pytest.mark.parametrize(
    ("place", "now", "left"),
    [
        (None, 100, None),
        (WavePosition(number=1, of=2), 100, None),
        (WavePosition(number=1, of=2, bytes_here=9, bytes_after=9, seconds_before=50), 100, None),
        (WavePosition(number=2, of=2, bytes_before=50, bytes_here=50, seconds_before=4.9, begun=100), 100, None),
        (WavePosition(number=2, of=2, bytes_before=50, bytes_here=50, seconds_before=100, begun=100), 100, 100),
        (
            WavePosition(number=2, of=3, bytes_before=50, bytes_here=50, bytes_after=25, seconds_before=100, begun=40),
            100,
            90,
        ),
        (
            WavePosition(number=2, of=3, bytes_before=50, bytes_here=50, bytes_after=25, seconds_before=9, begun=40),
            100,
            4.5,
        ),
    ],
)
def test_time_left_of_a_run_is_known_after_its_first_wave(
    place: WavePosition | None, now: float, left: float | None
) -> None:
    """By what its waves took so far, all of their steps included; one that is late leaves those after it."""
    assert live(Progress(step=Step.AUDIT), at=now, place=place).seconds_left == left


def test_log_has_beginnings_and_ends_and_a_line_each_half_minute() -> None:
    """The half minute counts from the last line, of whatever kind."""
    written: list[str] = []
    lines, expected = Lines(written.append), []
    for at, moment, is_written in (
        (0.0, Moment.BEGUN, True),
        (29.9, Moment.GOING, False),
        (30.0, Moment.GOING, True),
        (31.0, Moment.GOING, False),
        (50.0, Moment.ENDED, True),
        (50.0, Moment.BEGUN, True),
        (60.0, Moment.GOING, False),
        (79.0, Moment.GOING, False),
        (80.0, Moment.GOING, True),
        (80.0, Moment.LANDED, True),
    ):
        now = live(moment=moment, at=at, note=f"{at}")
        lines(now)
        expected += [now.sentence()] if is_written else []
    assert written == expected


def test_first_sign_of_life_is_a_line() -> None:
    """Where nothing was said before."""
    written: list[str] = []
    Lines(written.append)(live(at=5))
    assert len(written) == 1
