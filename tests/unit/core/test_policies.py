"""From policies and bounds to numbers."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from airflow_kafka_lake.core.errors import (
    GroupOffsetError,
    PendingCommitError,
    RangeBeyondEndError,
    RangeExpiredError,
    UnavailableError,
    UsageError,
)
from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState, PartitionSnapshot
from airflow_kafka_lake.core.ledger.records import StreamRecord
from airflow_kafka_lake.core.offsets import RangeSet, Stream
from airflow_kafka_lake.core.ordering.segments import Graph, Segment
from airflow_kafka_lake.core.planning.plan import StreamDemand
from airflow_kafka_lake.core.planning.policies import Bounds, Times, asked_of, generation_gap, times_needed
from airflow_kafka_lake.core.spec import Isolation, PipelineSpec, Policy, PolicyKind
from airflow_kafka_lake.core.wire import milliseconds

pytestmark = pytest.mark.unit

SEEN = PartitionSnapshot(
    stream=Stream("orders", "id", 0), leader_epoch=1, log_start=10, last_stable=90, high_watermark=100
)
SPEC = PipelineSpec(name="orders", topics=("orders",), table="raw.orders")
RECORD = StreamRecord(
    pipeline="orders",
    key=Stream("orders", "id", 0),
    origin=20,
    watermark=30,
    version=1,
    planned=RangeSet.of((20, 40)),
    covered=RangeSet.of((20, 30)),
    end_seen=80,
)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOON_MS = 1_769_860_800_000
GROUP = Policy(kind=PolicyKind.GROUP, group="live")
AT_NOON = Policy(kind=PolicyKind.TIMESTAMP, timestamp_ms=NOON_MS)


def _times(offset: int | None = None) -> Times:
    answers = {0: 10, NOON_MS: offset}
    return Times({at: {("orders", 0): found} for at, found in answers.items()})


def _asked(
    spec: PipelineSpec = SPEC,
    bounds: Bounds = Bounds(),  # noqa: B008  # a frozen value
    *,
    seen: PartitionSnapshot = SEEN,
    record: StreamRecord | None = None,
    times: Times | None = None,
    expanded: bool = False,
) -> StreamDemand:
    return asked_of(spec, bounds, seen, record=record, times=times or _times(), start_snapshot=seen, expanded=expanded)


def _committed(offset: int | None, state: GroupOffsetState) -> PartitionSnapshot:
    return dataclasses.replace(SEEN, group_offset=offset, group_offset_state=state)


def _explicit(offset: int, partition: int = 0) -> Policy:
    return Policy(kind=PolicyKind.OFFSETS, offsets=(("orders", partition, offset),))


def test_following_asks_from_the_origin_on() -> None:
    """What is missing below the watermark is found again, never only what lies above the highest planned offset."""
    asked = _asked(record=RECORD)
    assert (asked.origin, asked.start, asked.end) == (20, 20, 90)


@pytest.mark.parametrize(
    ("start", "seen", "expected"),
    [
        (Policy(kind=PolicyKind.EARLIEST), SEEN, 10),
        (GROUP, _committed(33, GroupOffsetState.KNOWN), 33),
        (_explicit(44), SEEN, 44),
        (_explicit(0), SEEN, 0),
    ],
)
def test_start_policy_sets_the_origin_of_a_new_stream_only(
    start: Policy, seen: PartitionSnapshot, expected: int
) -> None:
    """A stream that has an origin keeps it, whatever the policy says now."""
    spec = dataclasses.replace(SPEC, start=start)
    assert _asked(spec, seen=seen).origin == expected
    assert _asked(spec, seen=seen, record=RECORD).origin == 20


def test_time_policy_without_a_record_that_late_means_the_end() -> None:
    """Kafka's "no such record" is the readable end, never -1 or 0."""
    spec = dataclasses.replace(SPEC, start=AT_NOON)
    assert _asked(spec, times=_times(55)).origin == 55
    assert _asked(spec, times=_times(None)).origin == 90


def test_missing_answer_is_not_the_end() -> None:
    """A partition for which Kafka gave no answer at all is unknown (law L5)."""
    spec = dataclasses.replace(SPEC, start=AT_NOON)
    with pytest.raises(UnavailableError, match="no offset by time for orders partition 0"):
        _asked(spec, times=Times({0: {}, NOON_MS: {}}))


def test_partition_that_was_added_later_starts_at_its_log_start() -> None:
    """All its records are younger than the pipeline, whatever a group has committed there."""
    spec = dataclasses.replace(SPEC, start=GROUP)
    assert _asked(spec, seen=_committed(None, GroupOffsetState.NONE), expanded=True).origin == 10


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (GroupOffsetState.NONE, GroupOffsetError),
        (GroupOffsetState.UNSTABLE, PendingCommitError),
        (GroupOffsetState.UNKNOWN, UnavailableError),
        (GroupOffsetState.KNOWN, UnavailableError),
    ],
)
@pytest.mark.parametrize("where", ["start", "end"])
def test_group_offset_that_is_no_number_is_an_error(
    state: GroupOffsetState, error: type[Exception], where: str
) -> None:
    """None, unstable and unknown are told apart, and none of them is read as an offset (law L5)."""
    spec = dataclasses.replace(SPEC, **{where: GROUP})
    with pytest.raises(error, match="group 'live' on orders partition 0"):
        _asked(spec, seen=_committed(None, state))


@pytest.mark.parametrize(
    ("end", "seen", "expected"),
    [
        (Policy(kind=PolicyKind.LATEST), SEEN, 90),
        (GROUP, _committed(33, GroupOffsetState.KNOWN), 33),
        (GROUP, _committed(95, GroupOffsetState.KNOWN), 90),
        (_explicit(44), SEEN, 44),
        (_explicit(1000), SEEN, 90),
    ],
)
def test_no_end_policy_passes_the_readable_end(end: Policy, seen: PartitionSnapshot, expected: int) -> None:
    """Under read_committed nothing at or above the last stable offset is asked for (law L7)."""
    assert _asked(dataclasses.replace(SPEC, end=end), seen=seen).end == expected


def test_isolation_decides_the_readable_end() -> None:
    """A reader of everything may go up to the high watermark."""
    assert _asked(dataclasses.replace(SPEC, isolation=Isolation.READ_UNCOMMITTED)).end == 100


def test_offsets_file_without_the_partition_is_refused() -> None:
    """A partition that the file does not name has no default."""
    with pytest.raises(UsageError, match="names no offset for orders partition 0"):
        _asked(dataclasses.replace(SPEC, start=_explicit(1, partition=7)))


def test_period_may_lie_below_the_origin() -> None:
    """Any past period can be asked for; it does not move the origin."""
    asked = _asked(bounds=Bounds(start=12, end=18), record=RECORD)
    assert (asked.origin, asked.start, asked.end) == (20, 12, 18)


def test_open_bounds_are_origin_and_end_policy() -> None:
    """A bound that is left out is where following would begin or end."""
    assert (_asked(bounds=Bounds(end=50), record=RECORD).start, _asked(bounds=Bounds(start=50)).end) == (20, 90)
    assert not Bounds(topic="orders").is_period
    assert Bounds(start=0).is_period


def test_period_by_time() -> None:
    """A time is the first record at or after it, and nothing before it lies behind an open transaction."""
    bounds = Bounds(start=12, end=NOON)
    assert _asked(bounds=bounds, times=_times(60)).end == 60
    assert _asked(bounds=bounds, times=_times(90)).end == 90
    assert _asked(bounds=Bounds(start=NOON), times=_times(60)).start == 60
    stable = dataclasses.replace(SEEN, last_stable=100)
    assert _asked(bounds=bounds, seen=stable, times=_times(None)).end == 100


@pytest.mark.parametrize(
    ("bounds", "at_noon"),
    [
        (Bounds(start=12, end=91), None),
        (Bounds(start=91), None),
        (Bounds(start=91, end=95), None),
        (Bounds(start=12, end=NOON), 91),
        (Bounds(start=12, end=NOON), None),
        (Bounds(end=NOON), 95),
    ],
)
def test_offset_beyond_the_last_stable_one_is_refused(bounds: Bounds, at_noon: int | None) -> None:
    """What was asked for is never silently shortened, by number or by time."""
    with pytest.raises(RangeBeyondEndError, match="beyond the last stable offset 90") as caught:
        _asked(bounds=bounds, times=_times(at_noon))
    assert caught.value.facts["last_stable"] == 90


def test_reader_of_everything_is_refused_beyond_the_high_watermark() -> None:
    """Which is the end that it is told: open transactions bound it no more."""
    everything = dataclasses.replace(SPEC, isolation=Isolation.READ_UNCOMMITTED)
    assert _asked(everything, bounds=Bounds(start=12, end=100)).end == 100
    with pytest.raises(RangeBeyondEndError, match="beyond the high watermark 100"):
        _asked(everything, bounds=Bounds(start=12, end=101))


def test_end_of_the_log_itself_may_be_asked_for() -> None:
    """The exclusive end equals the last stable offset."""
    assert _asked(bounds=Bounds(start=12, end=90)).end == 90


def test_expired_period_is_refused_unless_it_is_planned_already() -> None:
    """Offsets below the log start cannot be read; those that are planned or committed need not be."""
    with pytest.raises(RangeExpiredError, match="offsets 5-10 are gone, the log starts at 10"):
        _asked(bounds=Bounds(start=5, end=20))
    committed = dataclasses.replace(RECORD, planned=RangeSet.of((5, 40)))
    assert _asked(bounds=Bounds(start=5, end=20), record=committed).start == 5


def test_reversed_offsets_are_wrong_usage() -> None:
    """[from, to) holds at least one offset."""
    for bounds in (Bounds(start=20, end=20), Bounds(start=30, end=20)):
        with pytest.raises(UsageError, match="is not before"):
            _asked(bounds=bounds)


def test_log_that_shrank_is_a_stop() -> None:
    """An end below the one that was seen means that Kafka lost records (law L12)."""
    shrunk = dataclasses.replace(SEEN, last_stable=79, high_watermark=79)
    blocked = generation_gap("orders", shrunk, RECORD, older=(), graph=Graph(), ends={})
    assert blocked is not None
    assert (blocked.topic, blocked.partition) == ("orders", 0)
    assert "the log ends at 79, it ended at 80 before" in blocked.reason
    assert "once the log has passed 80" in blocked.reason
    assert generation_gap("orders", SEEN, RECORD, older=(), graph=Graph(), ends={}) is None
    assert generation_gap("orders", SEEN, None, older=(), graph=Graph(), ends={}) is None


def test_unfinished_old_generation_is_a_stop_with_a_way_out() -> None:
    """A re-created topic does not hide what was never read of the old one."""
    old = dataclasses.replace(RECORD, key=Stream("orders", "old", 0))
    blocked = generation_gap("orders", SEEN, None, older=(old,), graph=Graph(), ends={})
    assert blocked is not None
    assert "kafka-lake skip orders --topic" in blocked.reason
    assert "--topic-id=old --partition 0 --from 30 --to 80" in blocked.reason
    done = dataclasses.replace(old, covered=RangeSet.of((20, 80)))
    assert generation_gap("orders", SEEN, None, older=(done,), graph=Graph(), ends={}) is None
    sealed = Graph([Segment(stream=old.key, start=0, layout=1, seal=82, sealed=True)])
    blocked = generation_gap("orders", SEEN, None, older=(done,), graph=sealed, ends={})
    assert blocked is not None, "what an open transaction had at the end, when the log was sealed"
    assert "--from 80 --to 82" in blocked.reason


def test_every_time_is_looked_up_once() -> None:
    """Policies and bounds share one lookup per time."""
    later = NOON + timedelta(hours=1)
    spec = dataclasses.replace(SPEC, start=AT_NOON)
    assert times_needed(spec, Bounds(start=5, end=later), new=True) == (0, NOON_MS, NOON_MS + 3_600_000)
    assert times_needed(spec, Bounds(start=5, end=later), new=False) == (NOON_MS + 3_600_000,)
    assert times_needed(spec, Bounds(start=NOON, end=later), new=True) == (0, NOON_MS, NOON_MS + 3_600_000)
    assert times_needed(SPEC, Bounds(start=5, end=9), new=True) == ()
    assert milliseconds(NOON) == NOON_MS
