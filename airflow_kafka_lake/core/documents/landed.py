"""One committed wave with everything by which it is found again: in the ledger, in the lake, in Spark, in a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_kafka_lake.core.amounts import count, size
from airflow_kafka_lake.core.lake.application import Application
from airflow_kafka_lake.core.lake.halving import why_halved
from airflow_kafka_lake.core.ledger.records import RangeRecord, WaveRecord
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, AttemptRecord, RangeState


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedWave:
    """A COMMITTED wave as the ledger has it, and the Spark application that worked for it in this process, if any.

    `seconds` are those of the work in this process; the wave may have been begun by another. `halved` says why a part
    of it went to a wave of its own before.
    """

    record: WaveRecord
    ranges: tuple[RangeRecord, ...]
    attempt: AttemptRecord | None
    seconds: float
    application: Application | None = None
    halved: str | None = None

    @classmethod
    def of(
        cls,
        record: WaveRecord,
        ranges: Sequence[RangeRecord],
        attempts: Sequence[AttemptRecord],
        *,
        seconds: float,
        application: Application | None,
    ) -> LandedWave:
        """Choose what landed of a wave's ranges, and the attempt whose commit is in the lake."""
        ended = [item for item in attempts if item.outcome is AttemptOutcome.COMMITTED]
        return cls(
            record=record,
            ranges=tuple(item for item in ranges if item.state is RangeState.COMMITTED),
            attempt=ended[-1] if ended else None,
            seconds=seconds,
            application=application,
            halved=why_halved(attempts),
        )

    @property
    def rows(self) -> int:
        """How many rows are visible since then."""
        return sum(item.rows or 0 for item in self.ranges)

    @property
    def bytes(self) -> int | None:
        """How large their files are; None where no attempt of ours has measured them."""
        return self.attempt.staged_bytes if self.attempt else None

    def describe(self) -> str:
        """Return the line for a log."""
        found = {
            "attempt": self.attempt.attempt if self.attempt else None,
            "snapshot": self.record.snapshot,
            "Spark application": self.application.id if self.application else None,
        }
        named = "".join(f", {what} {which}" for what, which in found.items() if which is not None)
        weight = f", {size(self.bytes)}" if self.bytes is not None else ""
        rest = f". It was {self.halved}; the other part is a wave of its own, for the next run" if self.halved else ""
        return (
            f"wave {self.record.id} is in {self.record.table}{named}: {count(self.rows, 'row')} of "
            f"{count(len(self.ranges), 'range')}{weight}, {self.seconds:.1f} s{rest}"
        )


def seconds_of(attempts: Sequence[AttemptRecord]) -> float:
    """Return how long the attempt took whose commit is in the lake; 0 where that is not known."""
    took = [item for item in attempts if item.outcome is AttemptOutcome.COMMITTED and item.ended_at is not None]
    return (took[-1].ended_at - took[-1].started_at).total_seconds() if took and took[-1].ended_at else 0.0
