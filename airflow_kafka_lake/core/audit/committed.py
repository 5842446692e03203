"""Does a committed range show what was published of it?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from airflow_kafka_lake.core.audit.inputs import Finding, FindingKind, StreamTruth
from airflow_kafka_lake.core.lake.accounting import Accounting
from airflow_kafka_lake.core.ledger.deletions import Deletions
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.offsets import RangeSet


def check_committed(
    item: RangeRecord,
    rows: RangeSet,
    truth: StreamTruth | None,
    deletions: Deletions,
    *,
    by_others: Callable[[], str] = str,
) -> Iterator[Finding]:
    """A committed range accounts for every offset, shows as many rows as it says, less those that were deleted on
    purpose, and every acknowledged record. `by_others` tells what is known of rows that others took away."""
    asked = RangeSet((item.range,))
    recorded = item.accounting or Accounting()
    if recorded.span != item.range.span or recorded.unexplained:
        message = f"range {item.range}: {recorded.span} of {item.range.span} offsets are accounted for"
        yield Finding(kind=FindingKind.INCONSISTENT, stream=item.stream, offsets=asked, wave=item.wave, message=message)
    inside = rows.within(item.range)
    deleted = deletions.rows(item, inside)
    missing = truth.acknowledged.within(item.range) - inside if truth else RangeSet()
    numbers = f"range {item.range}: {inside.span} rows are in the table, {recorded.visible} were published"
    if deleted:
        numbers += f", {deleted} of them deleted on purpose"
    if missing.span > deleted or inside.span < recorded.visible - deleted:
        lost = missing or asked - inside
        lost = lost - deletions.offsets(item, inside) or lost
        named = f"; {missing.span} acknowledged records are missing" if missing else ""
        message = numbers + named + by_others()
        yield Finding(kind=FindingKind.LOST, stream=item.stream, offsets=lost, wave=item.wave, message=message)
    elif inside.span > recorded.visible:
        yield Finding(
            kind=FindingKind.INCONSISTENT, stream=item.stream, offsets=inside, wave=item.wave, message=numbers
        )
    elif inside and not deleted and _ends(inside) != (item.first_offset, item.last_offset):
        # As many rows as there should be, and not at the same offsets: they were moved.
        first, last = _ends(inside)
        message = f"range {item.range}: its rows are at {first} to {last}, published were {item.first_offset} to "
        message += f"{item.last_offset}"
        yield Finding(
            kind=FindingKind.INCONSISTENT, stream=item.stream, offsets=inside, wave=item.wave, message=message
        )


def _ends(offsets: RangeSet) -> tuple[int, int]:
    return offsets.first, offsets.last
