"""Holds: ranges that wait for a person, why, the offsets that they wait for, and the commands that end the hold."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import KafkaLakeError, LostRecordsError
from airflow_kafka_lake.core.ledger.guards import remedies_for
from airflow_kafka_lake.core.ledger.records import RangeDecision, RangeRecord
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet
from airflow_kafka_lake.core.remedies import Cause, Remedy
from airflow_kafka_lake.core.slices import Slice

HELD_RANGES = 100
"""How many ranges of offsets a hold names: of more, the last ones are joined into one."""


def hold(
    range_id: str,
    reason: str,
    held_for: RangeSet = NOTHING,
    *,
    cause: Cause | None = None,
    part: OffsetRange | None = None,
) -> RangeDecision:
    """Return a hold; `held_for` are the offsets that it is due to, none where it is due to the range as a whole."""
    due_to = held_for.at_most(HELD_RANGES)
    return RangeDecision(
        range_id=range_id, state=RangeState.HELD, reason=reason, cause=cause, held_for=due_to, part=part
    )


def held_by(
    range_id: str, error: KafkaLakeError, held_for: RangeSet = NOTHING, *, part: OffsetRange | None = None
) -> RangeDecision:
    """Return the hold of a range for an error; it is due to what Kafka lost of it, where the error says what."""
    if isinstance(error, LostRecordsError) and error.lost:
        held_for |= RangeSet((error.lost,))
    return hold(
        range_id, error.named, held_for, cause=Cause(kind=type(error).__name__, remedies=error.remedies), part=part
    )


def ways_out(item: RangeRecord) -> tuple[Remedy, ...]:
    """Return the commands that end a hold, or another open state: those of its cause, else those of its state."""
    if item.cause and item.cause.remedies:
        return item.cause.remedies
    if part := _only_part(item):
        return remedies.release(item.id), skipping(item, part)
    return remedies_for(item.state, item.id, item.pipeline)


def explained(item: RangeRecord) -> str:
    """Return why a range is on hold or unresolved, with the commands that end that, for people."""
    ways = ways_out(item)
    if item.cause and item.cause.remedies:
        return str(item.reason)
    if part := _only_part(item):
        return f"{item.reason}. Read it again with: {ways[0]}; or pass them with: {passing(item, part)}"
    return f"{item.reason}. End it with: {', or '.join(map(str, ways))}"


def _only_part(item: RangeRecord) -> OffsetRange | None:
    """Return the range of offsets that a hold is due to, where there is just one."""
    return item.held_for.ranges[0] if item.held_for.range_count == 1 else None


def skipping(item: RangeRecord, gone: OffsetRange, *, generation: bool = False) -> Remedy:
    """Return the skip of a part of a range; `generation` names the topic id."""
    return remedies.skip(item.pipeline, Slice(item.stream, gone), name_topic_id=generation)


def passing(item: RangeRecord, gone: OffsetRange, *, generation: bool = False) -> str:
    """Return the command that skips part of a range, and what becomes of the rest."""
    command = skipping(item, gone, generation=generation)
    rest = RangeSet((item.range,)) - RangeSet((gone,))
    return f"{command}; the rest, {rest}, then goes on with the next run" if rest else str(command)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipResult:
    """What a skip did: how many offsets it passed, and the waves of what was held for them and goes on without them.

    Of a skip that was only tried, `waves` are those that would lose offsets; `fenced` ones were claimed, and are fenced
    first; `goes_on` are offsets that were held only for the skipped ones.
    """

    offsets: int
    waves: tuple[str, ...] = ()
    fenced: tuple[str, ...] = ()
    goes_on: RangeSet = NOTHING
