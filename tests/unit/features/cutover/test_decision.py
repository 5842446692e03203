"""Where a pipeline's committed offsets end and a live stream's rows begin."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_lake.core.accounting import Explanation, Fate
from airflow_kafka_lake.core.audit.report import StreamBounds
from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream
from airflow_kafka_lake.core.spark.job import PositionColumns
from airflow_kafka_lake.services.cutover import (
    Cutover,
    ask,
    judge,
    position_columns,
)

pytestmark = pytest.mark.unit

STREAM = Stream("orders", "id", 0)
COMMITTED = RangeRecord(
    id="r",
    pipeline="orders",
    plan="p",
    wave="w",
    slice=Slice(Stream("orders", "id", 0), OffsetRange(0, 50)),
    state=RangeState.COMMITTED,
    reason=None,
    estimated_bytes=0,
)


def asked(live: RangeSet, *further: RangeRecord, group: int | None = None) -> Cutover:
    return ask(
        STREAM,
        0,
        (COMMITTED, *further),
        rows=RangeSet(),
        live=live,
        bounds=StreamBounds(log_start=0, readable_end=99, group_offset=group),
    )


def ranged(start: int, end: int, state: RangeState) -> RangeRecord:
    return replace(COMMITTED, id=str(start), slice=Slice(STREAM, OffsetRange(start, end)), state=state)


def test_a_live_stream_that_begins_where_the_pipeline_ends_is_sound() -> None:
    """Nothing between them, nothing in both."""
    question = asked(RangeSet.of((50, 80)))
    assert (question.at, question.live_from) == (50, 50)
    assert judge(question, ()).sound


def test_what_neither_has_is_missing_unless_kafka_explains_it() -> None:
    """Markers, aborted and cleaned records have no row anywhere."""
    question = asked(RangeSet.of((54, 80)))
    assert question.open == RangeSet.of((50, 54))
    marker = Explanation(range=OffsetRange(50, 52), fate=Fate.CONTROL)
    record = Explanation(range=OffsetRange(52, 54), fate=Fate.UNEXPLAINED)
    assert judge(question, (marker, record)).missing == RangeSet.of((52, 54))
    aborted = replace(record, fate=Fate.ABORTED)
    assert judge(question, (marker, aborted)).sound


def test_what_both_have_is_twice() -> None:
    """A live stream that wrote rows before the cutover."""
    question = asked(RangeSet.of((45, 80)))
    assert (question.twice, question.live_from) == (RangeSet.of((45, 50)), 50)
    assert not judge(question, ()).sound


def test_a_skipped_offset_may_be_the_live_streams() -> None:
    """No other wave has a row there."""
    assert not asked(RangeSet.of((50, 80)), ranged(50, 60, RangeState.SKIPPED)).twice


def test_what_is_planned_is_not_committed_yet() -> None:
    """Not missing, and not proven."""
    cutover = judge(asked(RangeSet.of((60, 80)), ranged(50, 60, RangeState.HELD)), ())
    assert (cutover.pending, cutover.missing, cutover.sound) == (RangeSet.of((50, 60)), RangeSet(), False)


def test_a_live_stream_without_rows_must_have_those_up_to_its_group() -> None:
    """It has told Kafka that it is done with them; without a group nothing is said."""
    assert asked(RangeSet()).open == RangeSet()
    assert not asked(RangeSet()).judged
    assert [asked(RangeSet(), group=group).judged for group in (70, 99)] == [False, True]
    assert asked(RangeSet.of((10, 20)), group=70).open == RangeSet.of((50, 70))
    assert asked(RangeSet(), group=30).open == RangeSet()


def test_columns_are_read_as_people_write_them() -> None:
    """Each may be left out; a table without a topic is of the pipeline's only topic."""
    assert position_columns("partition=p, offset = o", ["a", "b"]) == PositionColumns(partition="p", offset="o")
    found = position_columns("topic=,partition=p", ["a"])
    assert (found.topic, found.only_topic, found.partition) == (None, "a", "p")


@pytest.mark.parametrize("text", ["", "topic", "where=x", "topic=a,topic=b", "topic="])
def test_columns_that_cannot_be_read_are_refused(text: str) -> None:
    """In words."""
    with pytest.raises(UsageError):
        position_columns(text, ["a", "b"])
