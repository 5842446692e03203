"""Why a range is on hold, read from its record as a value."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import LogStartMovedError
from airflow_kafka_lake.core.ledger.records import RangeRecord, explained, held_by, ways_out
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream
from airflow_kafka_lake.core.remedies import Cause

pytestmark = pytest.mark.unit

STREAM = Stream("orders", "id", 1)
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


def test_a_cause_with_remedies_stands_alone() -> None:
    """Nothing is added to its reason, and a program has the kind and the commands as values."""
    skip = remedies.skip("p", ITEM.slice)
    decided = held_by("r-1", LogStartMovedError(f"gone. Skip them with: {skip}", lost=OffsetRange(0, 9)).ended_by(skip))
    held = replace(ITEM, reason=decided.reason, cause=decided.cause, held_for=decided.held_for)
    assert held.cause == Cause(kind="LogStartMovedError", remedies=(skip,))
    assert held.held_for == RangeSet.of((0, 9))
    assert (ways_out(held), explained(held)) == ((skip,), f"LogStartMovedError: gone. Skip them with: {skip}")


@pytest.mark.parametrize("reason", ["JobFailedError: kafka-lake skip p", "wait for kafka-lake release r-2"])
def test_words_of_a_reason_are_no_commands(reason: str) -> None:
    """Whatever a reason says, programs take the kind and the commands from the cause alone."""
    assert ways_out(replace(ITEM, reason=reason)) == (remedies.release("r-1"), remedies.skip("p"))


def test_a_hold_due_to_one_slice_can_be_read_again_or_passed() -> None:
    """The slice is what the skip names; the rest goes on."""
    lost = Slice(STREAM, OffsetRange(40, 43))
    held = replace(ITEM, held_for=RangeSet((lost.range,)), cause=Cause(kind="UnexplainedError"))
    assert ways_out(held) == (remedies.release("r-1"), remedies.skip("p", lost))
    assert explained(held) == (
        "UnexplainedError: 3 offsets are unexplained. Read it again with: kafka-lake release r-1; or pass them with: "
        "kafka-lake skip p --topic orders --partition 1 --from 40 --to 43 --reason TEXT; "
        "the rest, 0-40, 43-100, then goes on with the next run"
    )


def test_a_persons_reason_gets_the_remedy_of_the_state() -> None:
    """It is free text: it has no kind, and names no command."""
    held = replace(ITEM, state=RangeState.CANCELLED, reason="the producer is broken")
    assert ways_out(held) == (remedies.release("r-1"),)
    assert explained(held) == "the producer is broken. End it with: kafka-lake release r-1"
