"""Why a range is on hold, read from its record as a value."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.ledger.holds import HoldReason
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.slices import Slice, Stream

pytestmark = pytest.mark.unit

STREAM = Stream("orders", "", 1)
ITEM = RangeRecord(
    id="r-1",
    slice=Slice(STREAM, OffsetRange(0, 100)),
    pipeline="p",
    plan="n-1",
    wave="w-1",
    state=RangeState.HELD,
    reason="UnexplainedError: 3 offsets are unexplained",
    estimated_bytes=1,
)


def test_a_reason_that_names_its_remedies_stands_alone() -> None:
    """Nothing is added to it, and a program finds the kind and the commands."""
    told = f"LogStartMovedError: gone. Skip them with: {remedies.skip('p', ITEM.slice)}"
    found = HoldReason.of(replace(ITEM, reason=told))
    assert found == HoldReason(
        kind="LogStartMovedError", slices=(), remedies=(remedies.skip("p", ITEM.slice),), text=told
    )


def test_a_hold_due_to_one_slice_can_be_read_again_or_passed() -> None:
    """The slice is what the skip names; the rest goes on."""
    lost = Slice(STREAM, OffsetRange(40, 43))
    found = HoldReason.of(replace(ITEM, held_for=RangeSet((lost.range,))))
    assert (found.kind, found.slices) == ("UnexplainedError", (lost,))
    assert found.remedies == (remedies.release("r-1"), remedies.skip("p", lost))
    assert found.text == (
        "UnexplainedError: 3 offsets are unexplained. Read it again with: kafka-lake release r-1; or pass them with: "
        "kafka-lake skip p --topic orders --partition 1 --from 40 --to 43 --reason TEXT; "
        "the rest, 0-40, 43-100, then goes on with the next run"
    )


def test_a_persons_reason_gets_the_remedy_of_the_state() -> None:
    """It is free text: it has no kind, and names no command."""
    found = HoldReason.of(replace(ITEM, state=RangeState.CANCELLED, reason="the producer is broken"))
    assert (found.kind, found.remedies) == (None, (remedies.release("r-1"),))
    assert found.text == "the producer is broken. End it with: kafka-lake release r-1"
