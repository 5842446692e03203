"""Whether a slice can be reopened, in which table its rows are, and which ranges its edges cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import StateError
from airflow_kafka_lake.core.ledger.holds import HoldReason
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import ON_HOLD, RESOLVED, RangeState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.spec import PipelineSpec


def table_of(stream: StreamRecord, spec: PipelineSpec, ranges: Sequence[RangeRecord], tables: Mapping[str, str]) -> str:
    """Return the table that has the rows of some ranges: not the pipeline's of today where it has moved since.

    `tables` has the table of each wave. Raises StateError for rows in several tables: no one commit replaces those.
    """
    found: dict[str, RangeRecord] = {}
    for item in ranges:
        if table := tables.get(item.wave):
            found.setdefault(table, item)
    if len(found) > 1:
        where = "; ".join(f"{item.range} in {table}" for table, item in found.items())
        raise StateError(
            f"the rows of {stream.key} are in {len(found)} tables ({where}), and one commit "
            "replaces rows of one table only. Nothing was reopened; reopen what is in each table by itself",
            topic=stream.key.topic,
            partition=stream.key.partition,
        )
    return next(iter(found), spec.table_for(stream.key.topic))


def to_be_shared(ranges: Sequence[RangeRecord], interval: OffsetRange) -> tuple[RangeRecord, ...]:
    """Return the committed ranges that an edge of the slice cuts: the numbers of their pieces are needed."""
    return tuple(item for item in ranges if item.state is RangeState.COMMITTED and len(parts(item, interval)) > 1)


def parts(item: RangeRecord, interval: OffsetRange) -> tuple[OffsetRange, ...]:
    """Return the pieces of a range beside and inside the slice."""
    return item.range.split_at((interval.start, interval.end))


def refuse_uncommitted(
    stream: StreamRecord, pipeline: str, interval: OffsetRange, ranges: Sequence[RangeRecord], *, accept_fewer: bool
) -> None:
    """Refuse a slice that is not committed or skipped as a whole, saying what its offsets are.

    With `accept_fewer`, what is on hold after it was reopened is taken too: that is how its smaller result is accepted.
    """
    where = f"{stream.key}"
    for item in ranges:
        if item.state in RESOLVED or (accept_fewer and item.generation and item.state in ON_HOLD):
            continue
        if item.state is RangeState.PLANNED:
            words = f"it is planned, and not read yet. Run it with: {remedies.ingest(item.wave)}"
        else:
            words = f"it is {item.state.lower()}: {HoldReason.of(item).text}"
        raise StateError(
            f"range {item.range} of {where} is not committed: {words}. Nothing was reopened",
            range=item.id,
            wave=item.wave,
        )
    if unplanned := RangeSet((interval,)) - RangeSet(item.range for item in ranges):
        raise StateError(
            f"offsets {unplanned} of {where} are neither committed nor skipped: they were never planned. Bring them in "
            f"with: {remedies.run(pipeline)}. Nothing was reopened",
            topic=stream.key.topic,
            partition=stream.key.partition,
        )
