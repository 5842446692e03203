"""What an attempt's audit keeps of a range's gaps: numbers."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from airflow_kafka_lake.core.accounting import (
    Accounting,
    Explanation,
    Fate,
    StreamContent,
)
from airflow_kafka_lake.core.ledger.records import StagedContent
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.services import attempt_audit
from airflow_kafka_lake.services.attempt_audit import audit_attempt
from airflow_kafka_lake.services.claims import claim_wave
from tests.world import SPEC, World

pytestmark = pytest.mark.unit


class Markers:
    """`ports.BatchReader` of a log whose every gap is the marker of a transaction."""

    def __init__(self) -> None:
        self.largest = 0

    def explain(
        self,
        gaps: Sequence[Slice],
        isolation: Isolation,
        heartbeat: Callable[[int], None] = lambda _: None,
        *,
        epochs: Mapping[Stream, int],
    ) -> Mapping[Slice, tuple[Explanation, ...]]:
        """Return of every gap that it is a marker, each in words of its own."""
        self.largest = max(self.largest, len(gaps))
        heartbeat(0)
        return {
            gap: (Explanation(range=gap.range, fate=Fate.CONTROL, seen=f"commit marker of producer {gap.range}"),)
            for gap in gaps
        }


def peak_of(transactions: int) -> int:
    """Audit so many transactions of one record each; return the most bytes that it held."""
    world = World(spec=replace(SPEC, target_range_bytes=2**40, max_wave_bytes=2**40))
    log = world.kafka.log("orders", 0)
    log.high_watermark = 2 * transactions
    held = claim_wave(world.worker(), world.planned_wave())
    offsets = RangeSet(OffsetRange(2 * n, 2 * n + 1) for n in range(transactions))
    content = StreamContent(stream=Stream("orders", world.topic_ids["orders"], 0), offsets=offsets)
    staged = StagedContent(snapshot=1, bytes=1, streams=(content,))
    markers = Markers()
    tracemalloc.start()
    try:
        audited = audit_attempt(replace(world.worker(), batches=markers), held, staged)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    (receipt,) = audited.receipts
    assert (audited.failed, receipt.accounting) == ((), Accounting(visible=transactions, control=transactions))
    return peak


@pytest.mark.nightly  # by day: a table of many files (contracts/test_memory.py)
@pytest.mark.slow
def test_ten_times_the_gaps_need_no_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaps are asked about some at a time; nothing of their explanations is kept but how many offsets each fate has."""
    monkeypatch.setattr(attempt_audit, "GAPS_AT_ONCE", 2_000)
    assert peak_of(20_000) < 2 * peak_of(2_000)
