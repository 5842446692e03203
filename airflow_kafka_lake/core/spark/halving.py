"""When a wave is searched for records that cannot be read, and how it is halved for that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import (
    UNREADABLE_RECORD,
    JobFailedError,
    KafkaLakeError,
    UnexpectedError,
    UnreadableRecordError,
)
from airflow_kafka_lake.core.ledger.records import RangeDecision, RangeRecord, held_by, skipping
from airflow_kafka_lake.core.ledger.waves import AttemptCause, AttemptOutcome, AttemptRecord, RangeState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice

SPLIT = "split in two"
"""How the reason begins for which a wave is halved."""

MOST_FOUND = 8
"""Records that trials find in one wave; a wave with more has another problem than single records."""

MOST_OVERFLOWING, MOST_OVERFLOWING_BYTES = 20_000, 64 * 1024 * 1024
"""The most that a driver reads one by one of a wave: about ten seconds."""

MOST_PARTS = 20
"""Parts of a range that are held one by one; nearer ones are held together."""

OUT_OF_MEMORY = "out-of-memory"
_UNKNOWN_REASONS = {None, OUT_OF_MEMORY, UNREADABLE_RECORD}
_FAILURES = {AttemptCause.JOB_FAILED, AttemptCause.UNEXPECTED}
_DEATHS, _SMALL_CAUSE = 2, 300


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The outcomes of a wave's attempts, since it was last halved."""

    failures: int
    deaths: int
    found: int

    @classmethod
    def of(cls, attempts: Sequence[AttemptRecord]) -> History:
        """Count jobs that failed, workers that died over a job, and searches that found unreadable records.

        A worker whose wave a person took from him has not died over it.
        """
        begin = max((n for n, item in enumerate(attempts, 1) if item.cause is AttemptCause.SPLIT), default=0)
        since = attempts[begin:]
        abandoned = [item for item in since if item.outcome is AttemptOutcome.ABANDONED and item.job is not None]
        return cls(
            failures=sum(item.cause in _FAILURES for item in since),
            deaths=sum(item.cause is not AttemptCause.TAKEN for item in abandoned),
            found=sum(item.cause is AttemptCause.UNREADABLE for item in since),
        )

    @property
    def is_deadly(self) -> bool:
        """Whether workers died over the wave so often that it is halved before another one tries."""
        return self.deaths >= _DEATHS

    @property
    def in_doubt(self) -> bool:
        """Whether the wave may hold a record that no job can read, or stand just before it."""
        return bool(self.failures or self.found)

    def asks_for_batches(self, error: Exception) -> bool:
        """Return whether Kafka's raw batches are asked for the records that a job ending so could not read."""
        return _reason(error) == UNREADABLE_RECORD or self.asks_for_trials(error)

    def asks_for_trials(self, error: Exception) -> bool:
        """Return whether the wave is searched by trials, after a failure that nothing explains.

        At the second failure, the fourth, the eighth, …: where the cause is not in the records, a search finds nothing,
        and would otherwise take its jobs at every repetition.
        """
        failures = self.failures + 1
        return is_unknown(error) and self.found < MOST_FOUND and failures > 1 and failures & (failures - 1) == 0


def why_halved(attempts: Iterable[AttemptRecord]) -> str | None:
    """Return why a wave was halved the last time, as its attempts say it; None for one that never was."""
    reasons = [item.error for item in attempts if item.error and item.cause is AttemptCause.SPLIT]
    return reasons[-1] if reasons else None


def is_unknown(error: Exception) -> bool:
    """Return whether a job may have failed because of its records; False where the world around it is named."""
    return _reason(error) in _UNKNOWN_REASONS


def cause_of(error: BaseException) -> AttemptCause | None:
    """Return the cause that an attempt's last error leaves to the next attempt."""
    if isinstance(error, JobFailedError):
        return AttemptCause.JOB_FAILED
    return AttemptCause.UNEXPECTED if isinstance(error, UnexpectedError) else None


def _reason(error: Exception) -> object:
    """Return the usual reason that a failure names; None for one that names none, as an unexpected exception."""
    if isinstance(error, KafkaLakeError) and not isinstance(error, JobFailedError):
        return type(error).__name__
    return error.facts.get("reason") if isinstance(error, JobFailedError) else None


def halves(ranges: Sequence[RangeRecord]) -> tuple[tuple[RangeRecord, ...], tuple[RangeRecord, ...]] | None:
    """Halve the suspected ranges: between streams, else between ranges of a stream, else between offsets of a range.

    None for a single offset.
    """
    ordered = sorted(ranges, key=lambda item: (item.stream, item.range))
    streams = [tuple(its) for _, its in groupby(ordered, key=lambda item: item.stream)]
    if len(streams) > 1:
        middle = len(streams) // 2
        return tuple(i for its in streams[:middle] for i in its), tuple(i for its in streams[middle:] for i in its)
    if len(ordered) > 1:
        return tuple(ordered[: len(ordered) // 2]), tuple(ordered[len(ordered) // 2 :])
    (only,) = ordered
    if only.range.span == 1:
        return None
    start, middle, end = only.range.start, only.range.start + only.range.span // 2, only.range.end
    return (only.piece(OffsetRange(start, middle)),), (only.piece(OffsetRange(middle, end)),)


Fails = Callable[[Sequence[RangeRecord]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The outcome of trials: the single offset that fails by itself, as a piece of its range, and whether any other
    part was read well: if none was, the cause is not in the records."""

    culprit: RangeRecord | None
    read_well: bool


def search(ranges: Sequence[RangeRecord], fails: Fails) -> Search:
    """Search ranges that fail together for the single offset that is the cause; one trial per halving.

    A record is believed to be the cause only when it has failed by itself and some other part was read well.
    """
    suspects, read_well, failed = tuple(ranges), False, False
    while parts := halves(suspects):
        failed = fails(parts[0])
        suspects = parts[0] if failed else parts[1]
        if failed and not read_well:
            if all(fails(edge) for edge in _edges(ranges)):
                return Search(culprit=None, read_well=False)
            read_well = True
        read_well |= not failed
    is_cause = read_well and (failed or fails(suspects))
    return Search(culprit=suspects[0] if is_cause else None, read_well=read_well)


def most_trials(ranges: Sequence[RangeRecord]) -> int:
    """Return how many trials a search takes at most: one per halving, two edges, the last record by itself."""
    return 2 * len(ranges).bit_length() + max(item.range.span for item in ranges).bit_length() + 3


def _edges(ranges: Sequence[RangeRecord]) -> tuple[tuple[RangeRecord], tuple[RangeRecord]]:
    """Return the last and the first offset of a wave: where neither can be read, no record is the cause."""
    ordered = sorted(ranges, key=lambda item: (item.stream, item.range))
    first, last = ordered[0], ordered[-1]
    return (
        (last.piece(OffsetRange(last.range.end - 1, last.range.end)),),
        (first.piece(OffsetRange(first.range.start, first.range.start + 1)),),
    )


def held(source: RangeRecord, part: OffsetRange, cause: str) -> RangeDecision:
    """Return the decision that holds unreadable offsets, with the place, the cause, and the remedy."""
    ways = (skipping(source, part), remedies.release(source.piece_id(part.start)))
    error = UnreadableRecordError(
        f"{source.stream} {part} cannot be read: {cause[:_SMALL_CAUSE]}. Skip it with: {ways[0]}; or, once it can be "
        f"read, try again with: {ways[1]}"
    )
    found = held_by(source.id, error.ended_by(*ways), part=_real(source, part))
    return replace(found, attempt_cause=AttemptCause.UNREADABLE)


def apart(ranges: Sequence[RangeRecord], why: str) -> tuple[RangeDecision, ...]:
    """Return the verdicts that give the second half of a wave to a wave of its own; none for a single offset."""
    parts = halves(ranges)
    return tuple(
        RangeDecision(
            range_id=source.id,
            state=RangeState.PLANNED,
            reason=f"{SPLIT}: {why}",
            part=_real(source, item.range),
            attempt_cause=AttemptCause.SPLIT,
        )
        for item in (parts[1] if parts else ())
        for source in [source_of(ranges, item)]
    )


def source_of(ranges: Iterable[RangeRecord], item: RangeRecord) -> RangeRecord:
    """Return the range that a piece is a part of."""
    return next(source for source in ranges if source.stream == item.stream and item.range.start in source.range)


def affordable(
    overflowing: Sequence[tuple[RangeRecord, RangeSet]],
) -> tuple[tuple[Slice, ...], tuple[tuple[RangeRecord, OffsetRange], ...]]:
    """Divide overflowing records of ranges: the ones that a driver can read one by one, and the surplus."""
    few: list[Slice] = []
    left, weight = MOST_OVERFLOWING, float(MOST_OVERFLOWING_BYTES)
    too_many = []
    for item, offsets in overflowing:
        for part in offsets.joined(MOST_PARTS):
            left -= part.span
            weight -= item.estimated_bytes * part.span / item.range.span
            if left < 0 or weight < 0:
                too_many.append((item, part))
            else:
                few.append(replace(item.slice, range=part))
    return tuple(few), tuple(too_many)


def _real(source: RangeRecord, part: OffsetRange) -> OffsetRange | None:
    return None if part == source.range else part
