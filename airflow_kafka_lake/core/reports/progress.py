"""How far a piece of work is: its step, rows, bytes and speed, and the sentence that says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from airflow_kafka_lake.core.amounts import count, size, span

# How far a piece of work is: its step, rows and Kafka's bytes done and expected, how fast, how long it will take.
#
# An unknown number is None and is not guessed. Nothing decides by any of this: it is for people.

KNOWN_AFTER_SECONDS = 5.0
"""A rate is not known before something was counted for so long."""

MOST_LETTERS = 200
"""So much of the id of an application is kept."""

WINDOW_SECONDS = 60.0
"""A rate is that of the last minute; a step that has not moved for so long has none."""


class Step(StrEnum):
    """The step of an attempt: Spark reads Kafka and writes a branch, its rows are audited, one commit shows them."""

    READ = "read"
    AUDIT = "audit"
    PUBLISH = "publish"

    @property
    def counts(self) -> str:
        """The unit of its counts."""
        return "offset" if self is Step.AUDIT else "row"

    @property
    def expects(self) -> str:
        """The unit of its expectation."""
        return "row" if self is Step.PUBLISH else "offset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an attempt is in its step.

    `rows` are counted: reading, the records that Spark has read; auditing, the offsets that are accounted for, with a
    row or without; publishing, the rows that are visible. `rows_expected` is the most there can be, None where it is
    not known: of the first two steps the number of offsets, which may have fewer records. `bytes_expected` are Kafka's
    by the plan's estimate, and `bytes` the share of them that belongs to `rows`; both are about the reading only. The
    ledger stamps `since`, when the step began (for reading: when the job was started), and `at`, when it was last
    reported, by its own clock.
    """

    step: Step
    rows: int = 0
    rows_expected: int | None = None
    bytes: int = 0
    bytes_expected: int | None = None
    since: datetime | None = None
    at: datetime | None = None

    def counted(self, rows: int) -> Progress:
        """Return the progress with so many rows done; a number that falls, as when a task is repeated, is not taken
        back."""
        rows = max(rows, self.rows)
        whole, expected = self.bytes_expected or 0, self.rows_expected
        return replace(self, rows=rows, bytes=min(whole, whole * rows // expected) if expected else 0)

    def finished(self) -> Progress:
        """Return the progress at the end of its step: every expected byte was read, also of offsets without a row."""
        return replace(self, bytes=self.bytes_expected or 0)

    def landed(self, at: datetime) -> Progress:
        """Return the progress of a commit: all rows, at once."""
        return self if self.step is not Step.PUBLISH else replace(self, rows=self.rows_expected or 0, at=at)

    def recorded(self, before: Progress | None, now: datetime) -> Progress:
        """Return the progress as it is recorded `now`, after the record of the same attempt `before`."""
        goes_on = before is not None and before.step is self.step
        return replace(self, since=before.since if before and goes_on else now, at=now)

    @property
    def rows_per_second(self) -> float | None:
        """The mean rate since the step began; None before it is known."""
        if self.since is None or self.at is None or not self.rows:
            return None
        seconds = (self.at - self.since).total_seconds()
        return self.rows / seconds if seconds >= KNOWN_AFTER_SECONDS else None

    def seconds_left(self, rows_per_second: float | None) -> float | None:
        """Return how long the step still takes at a rate, at most; None where that is not known."""
        if not rows_per_second or self.rows_expected is None:
            return None
        return max(0, self.rows_expected - self.rows) / rows_per_second

    def bytes_per_second(self, rows_per_second: float | None) -> float | None:
        """Return the rate in Kafka's bytes, by the plan's estimate."""
        if rows_per_second is None or not self.bytes_expected or not self.rows_expected:
            return None
        return rows_per_second * self.bytes_expected / self.rows_expected

    @property
    def share(self) -> float | None:
        """The share that is done, 0 to 1; None where the whole is not known, or nothing was counted yet."""
        if not self.rows_expected or not self.rows:
            return None
        of_bytes = self.bytes / self.bytes_expected if self.bytes_expected else 0.0
        return min(1.0, max(self.rows / self.rows_expected, of_bytes))

    def describe(self, rows_per_second: float | None = None) -> str:
        """Return the progress as part of a sentence; unknown numbers are left out."""
        return ", ".join(self._parts(rows_per_second))

    @property
    def expected(self) -> str:
        """The amount of work of the step, as the end of a sentence; nothing where that is not known."""
        if self.rows_expected is None:
            return ""
        kafka = f", about {size(self.bytes_expected)} in Kafka" if self.bytes_expected else ""
        return f" {count(self.rows_expected, self.step.expects)}{kafka}"

    def sentence(self, rows_per_second: float | None) -> str:
        """Return the step, and how far it is once something was counted: before that "0 %" would be wrong."""
        if not self.rows:
            return f"{DOING[self.step]}{self.expected}"
        done = f" {min(100, 100 * self.rows // self.rows_expected)} %" if self.rows_expected else ""
        return f"{DOING[self.step]}{done}: {self.describe(rows_per_second)}"

    def _parts(self, rows_per_second: float | None) -> Iterator[str]:
        if self.rows_expected is None:
            yield count(self.rows, self.step.counts)
        elif self.step.counts == self.step.expects:
            yield f"{self.rows:,} of {count(self.rows_expected, self.step.expects)}"
        else:
            yield f"{count(self.rows, self.step.counts)} of {count(self.rows_expected, self.step.expects)}"
        if self.bytes_expected:
            yield f"about {size(self.bytes)} of {size(self.bytes_expected)}"
        if speed := round(self.bytes_per_second(rows_per_second) or 0):
            yield f"{size(speed)}/s"
        elif rows_per_second and round(rows_per_second):
            yield f"{rows_per_second:,.0f} {self.step.counts}s/s"
        if left := self.seconds_left(rows_per_second):
            yield f"about {span(left)} left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The rows of Kafka that a Spark job has read so far, its executors, of a local master the driver, its application:
    the id, empty if unknown, its page, and whether it has an event log; and why it has no executor."""

    rows: int = 0
    executors: int = 1
    application: str = ""
    page: str | None = None
    is_logged: bool = False
    why: str = ""

    @property
    def note(self) -> str:
        """The reason why nothing can be counted, as the end of a sentence."""
        return "" if self.executors else ": ".join(filter(None, ["no executor of the cluster works for it", self.why]))

    def to_json(self, **beside: str) -> str:
        """Return one line of JSON."""
        return json.dumps(asdict(self) | beside)

    @classmethod
    def from_json(cls, text: str) -> Counters | None:
        """Read the form of `to_json`; None for any other text, such as a line that is half written."""
        try:
            found = json.loads(text)
            given = {item.name: found[item.name] for item in fields(cls)}
            numbers = {name: int(given[name]) for name in ("rows", "executors")}
            return cls(**given | numbers | {"application": str(given["application"])[:MOST_LETTERS]})
        except (ValueError, TypeError, KeyError):
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Rows per second over the last minute, from counts at moments of any clock that does not run backwards.

    It begins with the first count above zero: before that a job starts, and says nothing about how fast it reads.
    """

    counts: tuple[tuple[float, int], ...] = ()

    def after(self, now: float, rows: int) -> Speed:
        """Return the speed after a further count; one that falls begins anew."""
        last = self.counts[-1][1] if self.counts else 0
        if rows < last:
            return Speed(counts=((now, rows),) if rows else ())
        if rows == last:
            return self
        recent = tuple(item for item in self.counts if now - item[0] <= WINDOW_SECONDS)
        return Speed(counts=(*(recent or self.counts[-1:]), (now, rows)))

    def rows_per_second(self, now: float) -> float | None:
        """Return the rate; None before it is known, and once nothing has moved for a minute."""
        if not self.counts:
            return None
        (begun, first), (latest, last) = self.counts[0], self.counts[-1]
        if latest - begun < KNOWN_AFTER_SECONDS or now - latest > WINDOW_SECONDS:
            return None
        return (last - first) / (latest - begun)


# The display of a piece of work while it goes on, and its sentence.

DOING = {Step.READ: "reading", Step.AUDIT: "auditing", Step.PUBLISH: "publishing"}
_DONE = {Step.READ: "read", Step.AUDIT: "audited", Step.PUBLISH: "published"}


class Moment(StrEnum):
    """The kind of a moment: a step has begun, goes on, or has ended; or a wave has landed."""

    BEGUN = "begun"
    GOING = "going"
    ENDED = "ended"
    LANDED = "landed"


@dataclass(frozen=True, slots=True, kw_only=True)
class WavePosition:
    """Which of how many waves it is.

    Of a run also how many bytes the waves before it, it and those after it have in Kafka, by the plan's estimate, and
    how long those before it took; it began at `begun`, on the clock of `Live.at`.
    """

    number: int
    of: int
    bytes_before: int = 0
    bytes_here: int = 0
    bytes_after: int = 0
    seconds_before: float = 0.0
    begun: float = 0.0

    def seconds_left(self, now: float) -> float | None:
        """Return how long the run still takes, if all of its waves are as fast as those before this one were; None
        for the first, of which nothing is known.

        So starting jobs, audits and commits are in it. A wave that takes longer than expected leaves those after it.
        """
        if not self.bytes_before or self.seconds_before < KNOWN_AFTER_SECONDS:
            return None
        pace = self.seconds_before / self.bytes_before
        return max(0.0, pace * self.bytes_here - (now - self.begun)) + pace * self.bytes_after


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressEvent:
    """One moment of a piece of work.

    `subject` names it ("wave p1w3"), `note` adds to that. `at` are seconds on a clock that does not run backwards,
    `seconds` how long the step has taken until then, and of a wave that has landed, all of it.
    """

    subject: str
    moment: Moment
    progress: Progress
    at: float
    seconds: float
    rows_per_second: float | None = None
    place: WavePosition | None = None
    note: str = ""

    @property
    def name(self) -> str:
        """The subject with its place: "wave p1w3 (3 of 12)"."""
        return self.subject if self.place is None else f"{self.subject} ({self.place.number:,} of {self.place.of:,})"

    @property
    def seconds_left(self) -> float | None:
        """How long the whole run still takes; None where that is not known."""
        return None if self.place is None else self.place.seconds_left(self.at)

    def sentence(self) -> str:
        """Return one line for a person."""
        return f"{self.name}{' ' if self.moment is Moment.LANDED else ': '}{self.news()}"

    def news(self) -> str:
        """Return the line without the name."""
        progress, step = self.progress, self.progress.step
        match self.moment:
            case Moment.BEGUN:
                return f"{DOING[step]}{progress.expected}{self._beside()}"
            case Moment.GOING:
                left = self.seconds_left
                return self._step() + ("" if left is None else f"; all waves: about {span(left)} left") + self._beside()
            case Moment.ENDED:
                return f"{_DONE[step]} {count(progress.rows, step.counts)} in {span(self.seconds)}{self._beside()}"
            case Moment.LANDED:
                rows, lake = count(progress.rows, "row"), progress.bytes
                landed = ", ".join((rows, *([size(lake)] if lake else []), span(self.seconds)))
                return f"landed: {landed}{self._beside()}"
            case _:
                assert_never(self.moment)

    def _step(self) -> str:
        progress, step = self.progress, self.progress.step
        if step is Step.PUBLISH:
            return f"{DOING[step]}{self.progress.expected}, {span(self.seconds)} so far"
        if not progress.rows:
            nothing = "" if progress.rows_expected is None else ", nothing counted yet"
            return f"{DOING[step]}{nothing}, {span(self.seconds)} so far"
        return f"{_DONE[step]} {progress.describe(self.rows_per_second)}"

    def _beside(self) -> str:
        return f": {self.note}" if self.note else ""
