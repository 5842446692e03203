"""Show people how far a piece of work is, from its own counts; nothing decides by it, and it fails nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace

from airflow_kafka_lake.core.planning.selection import Work
from airflow_kafka_lake.core.reports.progress import (
    Counters,
    Moment,
    Progress,
    ProgressEvent,
    Speed,
    Step,
    WavePosition,
)
from airflow_kafka_lake.ports import Ports

_SHOWN_AGAIN_SECONDS = 1.0


class Watch:
    """Shows one piece of work, at most once a second while a step goes on; `progress` is how far it is."""

    def __init__(self, ports: Ports, subject: str) -> None:
        self._ports = ports
        self._subject = subject
        self._begun = self._step_begun = self._shown = ports.clock.monotonic()
        self._speed, self._note = Speed(), ""
        self.progress: Progress | None = None

    def begin(self, progress: Progress, note: str = "") -> Progress:
        """Begin a step; it is shown at once."""
        self.progress, self._speed, self._note = progress, Speed(), ""
        self._step_begun = self._ports.clock.monotonic()
        self._show(Moment.BEGUN, note=note)
        return progress

    def counted(self, rows: int, note: str = "") -> None:
        """Note how many rows of the step are done, and a remark on it."""
        self._note = note
        if self.progress is not None:
            self.progress = self.progress.counted(rows)
            self._speed = self._speed.after(self._ports.clock.monotonic(), self.progress.rows)

    @property
    def rows(self) -> int:
        """How many rows of the step are done."""
        return 0 if self.progress is None else self.progress.rows

    def follow(self, counters: Counters) -> None:
        """Show a job's counts of Kafka's records."""
        self.counted(counters.rows, counters.note)
        self.beat()

    def beat(self) -> None:
        """Show that the step goes on."""
        if self._ports.clock.monotonic() - self._shown >= _SHOWN_AGAIN_SECONDS:
            self._show(Moment.GOING, note=self._note)

    def end(self, rows: int | None = None, note: str = "") -> None:
        """End the step, with the number of rows that it had, where that is known."""
        if self.progress is not None:
            self.progress = replace(self.progress.finished(), rows=self.progress.rows if rows is None else rows)
            self._show(Moment.ENDED, note=note)

    def landed(self, *, rows: int, lake_bytes: int) -> None:
        """Show the landed rows."""
        self.progress = Progress(step=Step.PUBLISH, rows=rows, rows_expected=rows, bytes=lake_bytes)
        self._step_begun = self._begun
        self._show(Moment.LANDED)

    def _show(self, moment: Moment, *, note: str = "") -> None:
        if self.progress is None:
            return
        now = self._ports.clock.monotonic()
        self._shown = now
        live = ProgressEvent(
            subject=self._subject,
            moment=moment,
            progress=self.progress,
            at=now,
            seconds=now - self._step_begun,
            rows_per_second=self._speed.rows_per_second(now),
            note=note,
        )
        with suppress(Exception):  # a failure to show progress stops no work
            self._ports.live(live)


LINE_SECONDS = 30.0


class Lines:
    """Writes progress as lines of a log: beginnings and ends, and a line each half minute between."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._last: float | None = None

    def __call__(self, live: ProgressEvent) -> None:
        if live.moment is not Moment.GOING or self._last is None or live.at - self._last >= LINE_SECONDS:
            self._last = live.at
            self._write(live.sentence())


class Places:
    """The waves of a run: shows which of how many is worked on, and how long all of them still take."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._begun = ports.clock.monotonic()
        self._bytes: dict[str, int] = {}

    def of(self, works: Sequence[Work]) -> Sequence[Work]:
        """Learn the waves that are still to be done, and return them."""
        self._bytes = {item.wave: item.estimated_bytes for item in works} | self._bytes
        return works

    def at(self, wave: str, ended: Collection[str]) -> Ports:
        """Return ports that show the place of a wave that begins now, after the ones that have ended."""
        now = self._ports.clock.monotonic()
        here, before = self._bytes.get(wave, 0), sum(self._bytes.get(item, 0) for item in ended)
        return placed(
            self._ports,
            WavePosition(
                number=len(ended) + 1,
                of=len(self._bytes),
                bytes_before=before,
                bytes_here=here,
                bytes_after=sum(self._bytes.values()) - before - here,
                seconds_before=now - self._begun,
                begun=now,
            ),
        )


def placed(ports: Ports, place: WavePosition) -> Ports:
    """Return ports that show which of how many waves is worked on."""
    return replace(ports, live=lambda live: ports.live(replace(live, place=place)))
