"""What a terminal shows while a command works, and what is written where there is none."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console
from rich.text import Text

from airflow_kafka_lake.cli.output import Display, Output
from airflow_kafka_lake.core.reports.progress import Moment, Progress, ProgressEvent, Step, WavePosition

READ = Progress(step=Step.READ, rows_expected=1_234_000, bytes_expected=1_200_000_000)


def live(
    progress: Progress = READ, moment: Moment = Moment.GOING, *, at: float = 100, place: WavePosition | None = None
) -> ProgressEvent:
    """Return a moment of a wave."""
    return ProgressEvent(
        subject="wave 70b5e5333a94-w1",
        moment=moment,
        progress=progress,
        at=at,
        seconds=12,
        rows_per_second=None if progress.rows == 0 else 12_340,
        place=place,
    )


@pytest.fixture
def display() -> Display:
    """A display on a terminal of 80 columns."""
    return Display(Console(file=io.StringIO(), force_terminal=True, width=80, soft_wrap=True, color_system=None))


@pytest.fixture
def seen(display: Display) -> Callable[[], list[str]]:
    """Returns the lines that the terminal shows now."""

    def lines() -> list[str]:
        console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
        with console.capture() as found:
            console.print(display.rendered())
        return [line.rstrip() for line in found.get().splitlines()]

    return lines


def test_wave_has_a_bar_within_80_columns(display: Display, seen: Callable[[], list[str]]) -> None:
    """Its name with its place, its share, and beneath it what is done of how many; nothing is cut."""
    place = WavePosition(number=2, of=29, bytes_before=9, bytes_here=9, bytes_after=243, seconds_before=60, begun=90)
    display.show(live(READ.counted(617_000), place=place))
    heading, *beneath = seen()
    assert heading.split()[1:6] == ["wave", "70b5e5333a94-w1", "(2", "of", "29)"]
    assert heading.endswith(" 50%")
    assert " ".join(map(str.strip, beneath)) == (
        "read 617,000 rows of 1,234,000 offsets, about 600.0 MB of 1.2 GB, 12.0 MB/s, about 50 s left; all waves: "
        "about 27 min 50 s left"
    )
    assert max(map(len, (heading, *beneath))) <= 80


def test_share_that_is_not_known_is_not_guessed(display: Display, seen: Callable[[], list[str]]) -> None:
    """The bar is empty, also on a terminal without colours, and has no number."""
    for unknown in (Progress(step=Step.AUDIT, rows=7), READ, Progress(step=Step.PUBLISH, rows_expected=7)):
        display.show(live(unknown, Moment.GOING))
        assert not {"%", "━"} & {*seen()[0]}


def test_what_landed_stays_above(display: Display, seen: Callable[[], list[str]]) -> None:
    """It is one line of the terminal's history, and the next sentence follows."""
    display.show(live())
    display.show(live(Progress(step=Step.PUBLISH, rows=5, bytes=7), Moment.LANDED))
    assert isinstance(display._console.file, io.StringIO)
    assert display._console.file.getvalue() == "wave 70b5e5333a94-w1 landed: 5 rows, 7 bytes, 12 s\n"
    display.message(Text("moving watermarks"))
    assert [line.split(maxsplit=1)[1] for line in seen()] == ["moving watermarks"]


def test_beginnings_and_ends_are_said_beneath_the_bar(display: Display, seen: Callable[[], list[str]]) -> None:
    """Without the name, which stands beside the bar."""
    display.show(live(moment=Moment.BEGUN))
    assert seen()[1] == "  reading 1,234,000 offsets, about 1.2 GB in Kafka"
    display.show(live(READ.counted(99), Moment.ENDED))
    assert seen()[1] == "  read 99 rows in 12 s"


@pytest.mark.parametrize("as_json", [True, False])
def test_without_a_terminal_there_are_lines_on_stderr(capsys: pytest.CaptureFixture[str], *, as_json: bool) -> None:
    """Also beside a JSON document: stdout has nothing of it."""
    output = Output(as_json=as_json)
    with output.working():
        output.live(live(moment=Moment.BEGUN, at=0))
        output.live(live(READ.counted(9), at=29))
        output.live(live(READ.counted(617_000), at=30))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "wave 70b5e5333a94-w1: reading 1,234,000 offsets, about 1.2 GB in Kafka\n"
        "wave 70b5e5333a94-w1: read 617,000 rows of 1,234,000 offsets, about 600.0 MB of 1.2 GB, 12.0 MB/s, about 50 s "
        "left\n"
    )


def test_result_finds_the_terminal_free(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The last thing that was shown is gone before the first line of the result; what comes later is shown again."""
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    output = Output(as_json=False)
    assert output._display is not None
    screen = output._display._screen
    with output.working():
        output.live(live())
        assert screen.is_started
        output.line("done")
        assert not screen.is_started
        output.progress("once more")
        assert screen.is_started
        output.document({})
        assert not screen.is_started
        output.live(live())
        assert screen.is_started
    assert not screen.is_started
    output.progress("too late")
    assert not screen.is_started
    assert "done" in capsys.readouterr().out
