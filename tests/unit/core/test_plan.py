"""What a plan decides, by example; the laws over generated worlds are in tests/properties."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot, UnknownPartition
from airflow_kafka_lake.core.ledger.records import StreamRecord
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Stream
from airflow_kafka_lake.core.planning.plan import (
    MAX_WAVE_OFFSETS,
    MAX_WAVE_RANGES,
    Plan,
    StreamDemand,
    Weights,
    build_plan,
    cut,
    missing,
)
from airflow_kafka_lake.core.spec import Isolation, PipelineSpec

pytestmark = pytest.mark.unit

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def _seen(partition: int = 0, topic: str = "orders", log_start: int = 0, end: int = 100) -> PartitionSnapshot:
    return PartitionSnapshot(
        stream=Stream(topic, f"id-{topic}", partition),
        leader_epoch=1,
        log_start=log_start,
        last_stable=end,
        high_watermark=end,
    )


def _asked(snapshot: PartitionSnapshot, start: int, end: int, origin: int = 0) -> StreamDemand:
    return StreamDemand(snapshot=snapshot, origin=origin, start=start, end=end, reason="asked")


def _record(snapshot: PartitionSnapshot, planned: RangeSet, origin: int = 0) -> StreamRecord:
    return StreamRecord(
        pipeline="orders",
        key=snapshot.stream,
        origin=origin,
        watermark=origin,
        version=7,
        planned=planned,
        covered=RangeSet(),
        end_seen=0,
    )


def _plan(
    *asked: StreamDemand,
    known: tuple[StreamRecord, ...] = (),
    target: int = 1000,
    limit: int = 10_000,
    table: str = "raw.t",
) -> Plan:
    spec = PipelineSpec(name="orders", topics=("orders",), table=table, target_range_bytes=target, max_wave_bytes=limit)
    weights = Weights(by_stream={}, fallback=10.0)
    return build_plan("p1", spec, NOW, asked=asked, known={record.key: record for record in known}, weights=weights)


def test_only_what_is_missing_is_planned() -> None:
    """Planned slices are left alone, islands included."""
    seen = _seen()
    plan = _plan(_asked(seen, 0, 50), known=(_record(seen, RangeSet.of((0, 10), (20, 30))),))
    assert [item.range for item in plan.ranges] == [OffsetRange(10, 20), OffsetRange(30, 50)]
    assert missing(OffsetRange(0, 3), RangeSet.of((0, 5))) == RangeSet()


def test_new_stream_gets_the_origin_that_was_asked() -> None:
    """An unknown stream has no version; a known one keeps its origin whatever is asked."""
    seen = _seen()
    fresh = _plan(_asked(seen, 5, 9, origin=5)).streams[0]
    assert (fresh.version, fresh.origin) == (None, 5)
    kept = _plan(_asked(seen, 5, 9, origin=5), known=(_record(seen, RangeSet(), origin=2),)).streams[0]
    assert (kept.version, kept.origin) == (7, 2)


def test_recreated_topic_inherits_nothing() -> None:
    """What is planned of the old id says nothing about the new one (law L12)."""
    old = _record(_seen(), RangeSet.of((0, 50)))
    new = PartitionSnapshot(
        stream=Stream("orders", "id-new", 0), leader_epoch=1, log_start=0, last_stable=50, high_watermark=50
    )
    assert [item.range for item in _plan(_asked(new, 0, 50), known=(old,)).ranges] == [OffsetRange(0, 50)]


def test_slice_is_cut_at_the_origin() -> None:
    """An ingest across the origin leaves the watermark on the edge of a range."""
    seen = _seen()
    plan = _plan(_asked(seen, 0, 20), known=(_record(seen, RangeSet(), origin=8),))
    assert [item.range for item in plan.ranges] == [OffsetRange(0, 8), OffsetRange(8, 20)]


def test_expired_slice_blocks_itself_only() -> None:
    """What retention has passed is named with the way out; the rest goes on (law L13)."""
    plan = _plan(_asked(_seen(log_start=10), 4, 20), _asked(_seen(partition=1), 0, 20))
    assert [(item.stream.partition, item.range) for item in plan.ranges] == [
        (0, OffsetRange(10, 20)),
        (1, OffsetRange(0, 20)),
    ]
    assert len(plan.blocked) == 1
    assert "offsets 4-10 are gone: the log starts at 10" in plan.blocked[0].reason
    assert "kafka-lake skip orders --topic orders --partition 0 --from 4 --to 10 --reason" in plan.blocked[0].reason


def test_expired_and_committed_is_no_loss() -> None:
    """Retention may pass over what is planned or committed already."""
    seen = _seen(log_start=10)
    assert _plan(_asked(seen, 0, 20), known=(_record(seen, RangeSet.of((0, 10))),)).blocked == ()


def test_unknown_partition_is_named_not_read_as_empty() -> None:
    """A partition that could not be observed is in the plan, with its reason."""
    unknown = UnknownPartition(topic="orders", partition=4, reason="leader not available")
    spec = PipelineSpec(name="orders", topics=("orders",), table="raw.t")
    plan = build_plan("p1", spec, NOW, asked=[], known={}, weights=Weights(by_stream={}), unknown=[unknown])
    assert [(item.partition, item.reason) for item in plan.blocked] == [(4, "not observed: leader not available")]


def test_early_offsets_of_all_streams_come_first() -> None:
    """No stream waits for another one's whole backlog."""
    plan = _plan(_asked(_seen(0), 0, 40), _asked(_seen(1), 0, 40), target=200, limit=400)
    assert [[(item.stream.partition, item.range.start) for item in wave.ranges] for wave in plan.waves] == [
        [(0, 0), (1, 0)],
        [(0, 20), (1, 20)],
    ]


def test_waves_never_mix_tables() -> None:
    """One commit can publish to one table only."""
    plan = _plan(_asked(_seen(topic="b"), 0, 10), _asked(_seen(topic="a.x"), 0, 10), table="raw.{topic}")
    assert [(wave.table, [item.stream.topic for item in wave.ranges]) for wave in plan.waves] == [
        ("raw.a_d_x", ["a.x"]),
        ("raw.b", ["b"]),
    ]


def test_wave_holds_no_more_ranges_than_spark_can_plan() -> None:
    """However small the ranges are, a wave stays below the number at which Spark's planning gets slow."""
    seen = [_seen(partition, end=1) for partition in range(MAX_WAVE_RANGES + 1)]
    plan = _plan(*[_asked(item, 0, 1) for item in seen], limit=10**9)
    assert [len(wave.ranges) for wave in plan.waves] == [MAX_WAVE_RANGES, 1]


def test_nothing_to_read_still_records_new_streams() -> None:
    """An empty new stream changes the ledger; an empty known one does not."""
    seen = _seen(end=0)
    assert not _plan(_asked(seen, 0, 0)).changes_nothing
    assert _plan(_asked(seen, 0, 0), known=(_record(seen, RangeSet()),)).changes_nothing
    assert _plan().changes_nothing


def test_open_transactions_are_named() -> None:
    """Offsets above the last stable one are waited for, visibly."""
    seen = PartitionSnapshot(
        stream=Stream("orders", "id", 0), leader_epoch=1, log_start=0, last_stable=5, high_watermark=9
    )
    assert _plan(_asked(seen, 0, 5)).waiting_for_stable == (seen,)
    assert _plan(_asked(_seen(), 0, 5)).waiting_for_stable == ()
    spec = PipelineSpec(name="orders", table="raw.t", isolation=Isolation.READ_UNCOMMITTED)
    assert (
        build_plan(
            "p1", spec, NOW, asked=[_asked(seen, 0, 9)], known={}, weights=Weights(by_stream={})
        ).waiting_for_stable
        == ()
    )


def test_cut_makes_equal_pieces() -> None:
    """Ten offsets of 10 bytes and a target of 40 are three pieces, none more than one offset longer than another."""
    assert cut(OffsetRange(5, 15), 10.0, 40) == (OffsetRange(5, 9), OffsetRange(9, 12), OffsetRange(12, 15))
    assert cut(OffsetRange(5, 15), 10.0, 100) == (OffsetRange(5, 15),)
    assert cut(OffsetRange(5, 8), 1e9, 1) == (OffsetRange(5, 6), OffsetRange(6, 7), OffsetRange(7, 8))


def test_a_wave_of_light_records_is_bounded_by_its_offsets() -> None:
    """However little they weigh: every second one may be a marker, and the audit keeps something of each gap."""
    end = 10 * MAX_WAVE_OFFSETS
    plan = _plan(_asked(_seen(end=end), 0, end), target=2**50, limit=2**50)
    assert [sum(item.range.span for item in wave.ranges) for wave in plan.waves] == [MAX_WAVE_OFFSETS] * 10


def test_weights_fall_back_and_are_never_zero() -> None:
    """A partition that was not weighed costs the default; work is never free."""
    weights = Weights(by_stream={Stream("a", "id", 0): 0.0, Stream("a", "id", 1): 2.5}, fallback=100.0)
    assert weights.bytes_of(Stream("a", "id", 0), 10) == 1
    assert weights.bytes_of(Stream("a", "id", 1), 10) == 25
    assert weights.bytes_of(Stream("b", "id", 0), 10) == 1000
