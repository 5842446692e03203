"""What a person is shown of a piece of work while it goes on, and the sentence that says it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from airflow_kafka_lake.core.amounts import count, size, span
from airflow_kafka_lake.core.progress import KNOWN_AFTER_SECONDS, Progress, Step

DOING = {Step.READ: "reading", Step.AUDIT: "auditing", Step.PUBLISH: "publishing"}
_DONE = {Step.READ: "read", Step.AUDIT: "audited", Step.PUBLISH: "published"}


def silence(seconds: float, free_in: float) -> str:
    """Return since when a worker has given no sign of life, and in how many seconds another may take its wave over."""
    when = f"in {span(free_in)}" if free_in else "now"
    return f"no sign of life for {span(seconds)}; another worker can take it over {when}"


class Moment(StrEnum):
    """What has happened: a step has begun, goes on, or has ended; or a wave has landed."""

    BEGUN = "begun"
    GOING = "going"
    ENDED = "ended"
    LANDED = "landed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
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
class Live:
    """One moment of a piece of work.

    `subject` names it ("wave p1w3"), `note` what else there is to say of it. `at` are seconds on a clock that does not
    run backwards, `seconds` how long the step has taken until then, and of a wave that has landed, all of it.
    """

    subject: str
    moment: Moment
    progress: Progress
    at: float
    seconds: float
    rows_per_second: float | None = None
    place: Place | None = None
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
        match self.moment:
            case Moment.BEGUN:
                return f"{self.name}: {DOING[self.progress.step]}{self._expected()}{self._beside()}"
            case Moment.GOING:
                return f"{self.name}: {self.going()}"
            case Moment.ENDED:
                step = self.progress.step
                done = f"{_DONE[step]} {count(self.progress.rows, step.counts)} in {span(self.seconds)}"
                return f"{self.name}: {done}{self._beside()}"
            case Moment.LANDED:
                rows, lake = count(self.progress.rows, "row"), self.progress.bytes
                landed = ", ".join((rows, *([size(lake)] if lake else []), span(self.seconds)))
                return f"{self.name} landed: {landed}{self._beside()}"
            case _:
                assert_never(self.moment)

    def going(self) -> str:
        """Return how far the step is, and how long the whole run still takes."""
        left = self.seconds_left
        return self._step() + ("" if left is None else f"; all waves: about {span(left)} left")

    def _step(self) -> str:
        progress, step = self.progress, self.progress.step
        if step is Step.PUBLISH:
            return f"{DOING[step]}{self._expected()}, {span(self.seconds)} so far"
        if not progress.rows:
            return f"{DOING[step]}, nothing counted yet, {span(self.seconds)} so far"
        return f"{_DONE[step]} {progress.describe(self.rows_per_second)}"

    def _expected(self) -> str:
        progress = self.progress
        if progress.rows_expected is None:
            return ""
        kafka = f", about {size(progress.bytes_expected)} in Kafka" if progress.bytes_expected else ""
        return f" {count(progress.rows_expected, progress.step.expects)}{kafka}"

    def _beside(self) -> str:
        return f": {self.note}" if self.note else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """Which moments become a line of a log: beginnings and ends all, what goes on once in `seconds`."""

    seconds: float = 30.0
    last: float | None = None

    def is_due(self, live: Live) -> bool:
        """Return whether a moment is worth a line."""
        return live.moment is not Moment.GOING or self.last is None or live.at - self.last >= self.seconds

    def after(self, live: Live) -> Quiet:
        """Return what is due once a moment has become a line."""
        return Quiet(seconds=self.seconds, last=live.at)
