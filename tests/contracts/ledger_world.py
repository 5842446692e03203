"""A small world to put into a ledger: pipelines, plans, receipts, and a wave's way through its states."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from airflow_kafka_lake.core.accounting import Accounting, Receipt
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.ledger.attempts import ClaimWave, MarkPublishing, MarkStaged, RecordBase, RecordCommit
from airflow_kafka_lake.core.ledger.decisions import Revoke, Skip
from airflow_kafka_lake.core.ledger.plans import RecordPlan, SavePipeline
from airflow_kafka_lake.core.ledger.records import (
    Claim,
    OutboxItem,
    RangeDecision,
    RangeRecord,
)
from airflow_kafka_lake.core.ledger.waves import AttemptKey, LeaseHolder, RangeState
from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet, Slice, Stream
from airflow_kafka_lake.core.ordering.layouts import LayoutChange
from airflow_kafka_lake.core.planning.plan import Plan, PlannedRange, PlannedWave, StreamDemand
from airflow_kafka_lake.core.remedies import Cause
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Ledger

SPEC = PipelineSpec(name="orders", topics=("orders",), table="raw.orders")
HOLDER = LeaseHolder(host="alpha", pid=1, started=1.5)
OTHER = LeaseHolder(host="beta", pid=2, started=2.5)
LEASE = timedelta(minutes=5)
AT = datetime(2026, 3, 1, tzinfo=UTC)
_numbers = itertools.count(1)


def attempt_id() -> str:
    """Return a new attempt id."""
    return f"{next(_numbers):016x}"


def key_of(partition: int = 0, topic: str = "orders") -> Stream:
    """Return the stream of a partition."""
    return Stream(topic, f"id-{topic}", partition)


def snapshot_of(key: Stream, end: int = 1000) -> PartitionSnapshot:
    """Return what Kafka would say of a stream."""
    return PartitionSnapshot(stream=key, leader_epoch=3, log_start=0, last_stable=end, high_watermark=end)


def plan_of(
    ledger: Ledger,
    *waves: Sequence[tuple[int, int, int]],
    plan: str | None = None,
    spec: PipelineSpec = SPEC,
    origin: int = 0,
    topic: str = "orders",
    layout_change: LayoutChange | None = None,
) -> Plan:
    """Build a plan whose waves hold `(partition, start, end)`, with the stream versions that are on record."""
    name = plan or f"p{next(_numbers)}"
    known = {record.key: record for record in ledger.streams(spec.name)}
    keys = sorted({key_of(partition, topic) for wave in waves for partition, _, _ in wave})
    streams = [
        StreamDemand(
            snapshot=snapshot_of(key),
            origin=origin,
            version=known[key].version if key in known else None,
            start=0,
            end=1000,
            reason="test",
        )
        for key in keys
    ]
    return Plan(
        id=name,
        spec=spec,
        observed_at=AT,
        layout_change=layout_change or LayoutChange(),
        streams=tuple(streams),
        waves=tuple(
            PlannedWave(
                id=f"{name}-w{number}",
                table=spec.table_for(topic),
                ranges=tuple(_planned(f"{name}-w{number}r{n}", topic, *item) for n, item in enumerate(wave)),
            )
            for number, wave in enumerate(waves)
        ),
    )


def _planned(name: str, topic: str, partition: int, start: int, end: int) -> PlannedRange:
    key = key_of(partition, topic)
    return PlannedRange(
        id=name,
        slice=Slice(Stream(key[0], key[1], partition), OffsetRange(start, end)),
        estimated_bytes=(end - start) * 10,
    )


def planned(ledger: Ledger, *waves: Sequence[tuple[int, int, int]], **options: object) -> list[str]:
    """Record a plan and return its wave ids."""
    plan = plan_of(ledger, *waves, **options)  # type: ignore[arg-type]
    ledger.commit(SavePipeline(spec=plan.spec))
    ledger.commit(RecordPlan(plan=plan, actor="tester"))
    return [wave.id for wave in plan.waves]


def claimed(ledger: Ledger, wave: str, *, lease: timedelta = LEASE, over: int | None = None) -> Claim:
    """Claim a wave."""
    return ledger.commit(ClaimWave(wave=wave, attempt=attempt_id(), holder=HOLDER, lease=lease, over=over))


def receipts_of(ranges: Iterable[RangeRecord], control: int = 0) -> list[Receipt]:
    """Return receipts that account for every offset; the last `control` offsets of each range have no row."""
    found = []
    for item in ranges:
        rows = item.range.span - control
        found.append(
            Receipt(
                range_id=item.id,
                slice=item.slice,
                rows=rows,
                first_offset=item.range.start if rows else None,
                last_offset=item.range.start + rows - 1 if rows else None,
                accounting=Accounting(visible=rows, control=control),
            )
        )
    return found


def staged(ledger: Ledger, wave: str) -> Claim:
    """Claim a wave and stage it."""
    claim = claimed(ledger, wave)
    ledger.commit(RecordBase(key=claim.key, base=7))
    ledger.commit(MarkStaged(key=claim.key, audited=8, staged_bytes=1000))
    return claim


def publishing(ledger: Ledger, wave: str) -> Claim:
    """Bring a wave to the moment of its commit."""
    claim = staged(ledger, wave)
    ledger.commit(MarkPublishing(key=claim.key))
    return claim


def committed(ledger: Ledger, wave: str, control: int = 0) -> Claim:
    """Bring a wave all the way."""
    claim = publishing(ledger, wave)
    receipts = receipts_of(claim.ranges, control)
    ledger.commit(RecordCommit(key=claim.key, attempt=claim.key.attempt, snapshot=99, receipts=receipts))
    return claim


def taken(
    ledger: Ledger,
    wave: str,
    *ranges: str,
    state: RangeState = RangeState.CANCELLED,
    key: AttemptKey | None = None,
    held_for: RangeSet = NOTHING,
    cause: Cause | None = None,
) -> None:
    """Take ranges from a wave: all PLANNED ones when none is named."""
    names = ranges or tuple(item.id for item in ledger.ranges(wave=wave, states={RangeState.PLANNED}))
    ledger.commit(
        Revoke(
            wave=wave,
            fence=key.fence if key else 0,
            attempt=key.attempt if key else None,
            verdicts=[
                RangeDecision(range_id=name, state=state, reason="because", cause=cause, held_for=held_for)
                for name in names
            ],
            actor="tester",
        )
    )


def outbox_of(ledger: Ledger) -> tuple[OutboxItem, ...]:
    """Return what waits for the lake, less the origins of new streams."""
    return tuple(item for item in ledger.outbox(SPEC.name) if item.row.kind != "origin")


def skipped(
    ledger: Ledger,
    start: int,
    end: int,
    *held: AttemptKey,
    skip_id: str | None = None,
    partition: int = 0,
    epoch: int | None = None,
    acknowledge_order: bool = False,
) -> int:
    """Skip a slice of a partition; returns how many offsets."""
    passed = ledger.commit(
        Skip(
            pipeline=SPEC.name,
            slice=Slice(key_of(partition), OffsetRange(start, end)),
            id=skip_id or f"s{next(_numbers)}",
            reason="poison",
            actor="tester",
            acknowledge_order=acknowledge_order,
            guards=held,
            epoch=epoch,
        )
    )
    return passed.offsets
