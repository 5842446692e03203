"""Receipts: those that a commit is recorded by are checked, and those for the lake are made from what is on record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from airflow_kafka_lake.core.lake.accounting import Accounting, Receipt
from airflow_kafka_lake.core.ledger.records import RangeRecord, ReceiptRow
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.slices import Slice, Stream


def origin_receipt(
    pipeline: str, plan: str, stream: Stream, origin: int, *, ledger_id: str, at: datetime
) -> ReceiptRow:
    """Return the receipt of a new stream's origin; `plan` is the decision that gave it its origin."""
    return ReceiptRow(
        pipeline=pipeline,
        wave=plan,
        attempt=ledger_id,
        fence=0,
        kind="origin",
        slice=Slice(stream, OffsetRange(origin, origin + 1)),
        generation=0,
        rows=0,
        first_offset=None,
        last_offset=None,
        accounting=Accounting(),
        recorded_at=at,
    )


def range_receipt(kind: str, item: RangeRecord, *, attempt: str, fence: int, at: datetime) -> ReceiptRow:
    """Return a receipt of a range as the ledger has it; numbers that it does not have yet are zero."""
    return ReceiptRow(
        pipeline=item.pipeline,
        wave=item.wave,
        attempt=attempt,
        fence=fence,
        kind=kind,
        slice=item.slice,
        generation=item.generation,
        rows=item.rows or 0,
        first_offset=item.first_offset,
        last_offset=item.last_offset,
        accounting=item.accounting or Accounting(),
        recorded_at=at,
    )


def check_receipts(planned: Iterable[RangeRecord], receipts: Sequence[Receipt]) -> None:
    """Refuse receipts that are not exactly the planned ranges, each fully accounted for (law L8)."""
    wanted = {item.id: item.slice for item in planned}
    given = {item.range_id: item.slice for item in receipts}
    if len(given) != len(receipts) or given != wanted:
        odd = sorted(key for key in given.keys() | wanted.keys() if given.get(key) != wanted.get(key))
        raise ValueError(f"receipts are not exactly the wave's planned ranges: {', '.join(odd[:5]) or 'one twice'}")
    for item in receipts:
        sums = item.accounting
        if sums.unexplained or sums.span != item.range.span or sums.visible != item.rows:
            raise ValueError(
                f"range {item.range_id} is not accounted for: {sums.to_json()} of {item.range.span} offsets"
            )
        if min(sums.to_json().values()) < 0:
            raise ValueError(f"range {item.range_id} has a negative number in its accounting: {sums.to_json()}")
