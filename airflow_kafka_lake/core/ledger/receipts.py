"""The receipts that the ledger sends to the lake, made from what it has on record."""

from __future__ import annotations

from datetime import datetime

from airflow_kafka_lake.core.lake.accounting import Accounting
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
