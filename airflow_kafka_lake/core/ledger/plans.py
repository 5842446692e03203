"""The writes of a planner: configurations, the tables that they name, and plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import KafkaLakeError, StateError
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import (
    BindingRow,
    Change,
    ConfigurationRow,
    Edit,
    Entry,
    LayoutRow,
    PipelineLock,
    PlanRow,
    Records,
    SegmentRow,
    SnapshotRow,
    Write,
    WriteScope,
    origin_receipt,
)
from airflow_kafka_lake.core.ledger.guards import HostClock, refuse_paused
from airflow_kafka_lake.core.ledger.records import RangeRecord, ReceiptRow, StreamRow, WaveRow
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import Stream
from airflow_kafka_lake.core.ordering.segments import Segment, SegmentKey
from airflow_kafka_lake.core.planning.plan import Plan, StreamDemand
from airflow_kafka_lake.core.spec import PipelineSpec


class SavePipeline(Write[None]):
    """Record a configuration; a changed digest is a new version, older plans keep theirs."""

    spec: PipelineSpec

    def scope(self) -> WriteScope:
        return WriteScope(pipeline=self.spec.name, configurations=True, alone=True)

    def decide(self, records: Records) -> Change[None]:
        if records.newest is not None and records.newest.spec.digest == self.spec.digest:
            return Change(result=None)
        new = _new_version(records, self.spec)
        detail = f"version {new.version}"
        entry = Entry(pipeline=self.spec.name, actor="ledger", kind="pipeline", subject=self.spec.name, detail=detail)
        return Change(result=None, edits=(Edit(after=new),), entries=(entry,))


def _new_version(records: Records, spec: PipelineSpec) -> ConfigurationRow:
    version = records.newest.version + 1 if records.newest is not None else 1
    return ConfigurationRow(version=version, spec=spec, recorded_at=records.now)


def version_of(records: Records, spec: PipelineSpec) -> tuple[int, tuple[Edit, ...]]:
    """Return the newest version with a configuration's digest, and its edit where it is new."""
    known = [row.version for row in records.configurations if row.spec.digest == spec.digest]
    if known:
        return max(known), ()
    new = _new_version(records, spec)
    return new.version, (Edit(after=new),)


class BindTable(Write[str]):
    """Record a table's UUID if none is recorded; answers with the recorded one."""

    pipeline: str
    table: str
    uuid: str

    def scope(self) -> WriteScope:
        return WriteScope(pipeline=self.pipeline, tables=True, alone=True)

    def decide(self, records: Records) -> Change[str]:
        if (known := records.tables.get(self.table)) is not None:
            return Change(result=known)
        new = BindingRow(pipeline=self.pipeline, table=self.table, uuid=self.uuid)
        entry = Entry(pipeline=self.pipeline, actor="ledger", kind="table", subject=self.table, detail=self.uuid)
        return Change(result=self.uuid, edits=(Edit(after=new),), entries=(entry,))


class RecordPlan(Write[None]):
    """Record snapshots, streams, waves, ranges, guarded by each stream's version.

    `clock` is the one that the plan was decided by: UnavailableError where it is more than a minute ahead of the
    ledger's, or behind it; None for the ledger's own.

    Puts one `origin` receipt per new stream into the outbox, and adds the plan's layout change to the segments; a seal
    is never moved. PausedError for a plan with waves while the pipeline is paused. Raises ConcurrentError when another
    planner was first (nothing is recorded). A plan that overlaps a recorded range is refused by constraint. `reason` is
    why a person asked for it: the plan and its event keep it.
    """

    plan: Plan
    actor: str
    clock: HostClock | None = None
    reason: str | None = None

    def scope(self) -> WriteScope:
        plan = self.plan
        _check_plan(plan)
        return WriteScope(
            pipeline=plan.spec.name,
            turn=PipelineLock.PLAN,
            streams={item.snapshot.stream for item in plan.streams}
            | {item.stream for item in plan.layout_change.segments},
            plan_ids=(plan.id,),
            configurations=True,
            digest=plan.spec.digest,
            layouts=bool(plan.layout_change),
            ledger_id=any(item.version is None for item in plan.streams),
        )

    def decide(self, records: Records) -> Change[None]:
        if self.plan.waves:  # a person's declaration about layouts reads nothing
            refuse_paused(records.pauses)
        self._refuse_overtaken(records)
        plan, name = self.plan, self.plan.spec.name
        _check_origins(plan, {key: row.origin for key, row in records.streams.items()})
        version, configured = version_of(records, plan.spec)
        detail = {
            "blocked": [[item.topic, item.partition, item.reason] for item in plan.blocked],
            "estimated_records": plan.forecast.records,
            "estimated_bytes": plan.forecast.bytes,
            "estimated_seconds": plan.forecast.seconds,
        }
        planned = PlanRow(
            id=plan.id,
            spec=plan.spec,
            version=version,
            observed_at=plan.observed_at,
            recorded_at=records.now,
            actor=self.actor,
            detail=detail | ({} if self.reason is None else {"reason": self.reason}),
        )
        numbers = "; ".join((_numbers(plan), *plan.notes))
        told = numbers if self.reason is None else f"{numbers}: {self.reason}"
        return Change(
            result=None,
            edits=(
                *configured,
                Edit(after=planned),
                *(self._stream(records, item) for item in plan.streams),
                *(
                    Edit(after=WaveRow(id=wave.id, pipeline=name, plan=plan.id, ordinal=ordinal, table=wave.table))
                    for ordinal, wave in enumerate(plan.waves)
                ),
                *self._ranges(),
                *self._snapshots(),
                *self._layout_change(records),
            ),
            outbox=tuple(self._origins(records)),
            entries=(Entry(pipeline=name, actor=self.actor, kind="plan", subject=plan.id, detail=told),),
        )

    def refused(self, *, overlap: bool) -> KafkaLakeError | None:
        if overlap:
            return StateError(
                f"Plan {self.plan.id} of pipeline {self.plan.spec.name} overlaps ranges on record. Nothing was "
                "recorded; plan again."
            )
        return guards.overtaken(f"Plan {self.plan.id} met another planner's records.")

    def _refuse_overtaken(self, records: Records) -> None:
        if self.clock is not None:
            # Whether a layout is in force is decided from the clocks of the two workers that saw it first and last.
            why = "By it, a topic's new partitions would be read too early or too late, so nothing was planned"
            self.clock.require_near(records.now, why)
        for item in self.plan.streams:
            found = records.streams.get(item.snapshot.stream)
            if (found.version if found else None) != item.version:
                raise guards.overtaken(
                    f"Stream {item.snapshot.stream} of pipeline {self.plan.spec.name} was planned by another "
                    "writer first."
                )
        if self.plan.id in records.plans:
            raise guards.overtaken(f"Plan {self.plan.id} is on record already.")

    def _stream(self, records: Records, item: StreamDemand) -> Edit:
        seen = item.snapshot
        end = seen.readable_end(self.plan.spec.isolation)
        before = records.streams.get(seen.stream)
        if before is not None:
            after = replace(before.next_version, end_seen=end, leader_epoch=seen.leader_epoch)
            return Edit(before=before, after=after)
        return Edit(
            after=StreamRow(
                pipeline=self.plan.spec.name,
                key=seen.stream,
                origin=item.origin,
                watermark=item.origin,
                version=1,
                end_seen=end,
                leader_epoch=seen.leader_epoch,
                since=self.plan.since(item),
            )
        )

    def _ranges(self) -> Iterator[Edit]:
        plan = self.plan
        epochs = {item.snapshot.stream: item.snapshot.leader_epoch for item in plan.streams}
        for wave in plan.waves:
            for item in wave.ranges:
                yield Edit(
                    after=RangeRecord(
                        id=item.id,
                        pipeline=plan.spec.name,
                        plan=plan.id,
                        wave=wave.id,
                        slice=item.slice,
                        state=RangeState.PLANNED,
                        estimated_bytes=item.estimated_bytes,
                        leader_epoch=epochs[item.slice.stream],
                    )
                )

    def _snapshots(self) -> Iterator[Edit]:
        """Keep the snapshots of the streams that the plan reads."""
        planned = {item.stream for item in self.plan.ranges}
        for item in self.plan.streams:
            if item.snapshot.stream in planned:
                row = SnapshotRow(
                    plan=self.plan.id, seen=item.snapshot, range=(item.start, item.end), reason=item.reason
                )
                yield Edit(after=row)

    def _origins(self, records: Records) -> Iterator[tuple[str, ReceiptRow]]:
        """Yield the receipts of new streams' origins: a rebuild finds them nowhere else."""
        plan, name = self.plan, self.plan.spec.name
        for item in plan.streams:
            if item.version is None:
                key = item.snapshot.stream
                receipt = origin_receipt(name, plan.id, key, item.origin, ledger_id=records.ledger_id, at=records.now)
                yield plan.spec.table_for(key.topic), receipt

    def _layout_change(self, records: Records) -> Iterator[Edit]:
        name, layout_change = self.plan.spec.name, self.plan.layout_change
        layouts = {(row.layout.topic_id, row.layout.partitions): row for row in records.layouts}
        for layout in layout_change.layouts:
            known = layouts.get((layout.topic_id, layout.partitions))
            seen = replace(known.layout, in_force=layout.in_force) if known else layout
            yield Edit(before=known, after=LayoutRow(pipeline=name, layout=seen))
        before = {row.segment.key: row.segment for row in records.segments}
        for key, segment in _apply_layout_change(before, layout_change.segments).items():
            row = SegmentRow(pipeline=name, segment=before[key]) if key in before else None
            yield Edit(before=row, after=SegmentRow(pipeline=name, segment=segment))


def _apply_layout_change(before: Mapping[SegmentKey, Segment], more: tuple[Segment, ...]) -> dict[SegmentKey, Segment]:
    """Return segments as they become; a seal that is there is never moved."""
    found: dict[SegmentKey, Segment] = {}
    for segment in more:
        known = found.get(segment.key) or before.get(segment.key, segment)
        if known.seal not in (None, segment.seal):
            raise guards.overtaken("A segment was sealed by another writer first, and a seal is never moved.")
        found[segment.key] = replace(
            segment,
            sealed=segment.sealed or known.sealed,
            declared_at=known.declared_at or segment.declared_at,
            parents=segment.parents | known.parents,
        )
    return found


def _numbers(plan: Plan) -> str:
    ranges = plan.ranges
    offsets = sum(item.range.span for item in ranges)
    numbers = {"stream": len(plan.streams), "wave": len(plan.waves), "range": len(ranges), "offset": offsets}
    return ", ".join(count(number, noun) for noun, number in numbers.items())


def _check_plan(plan: Plan) -> None:
    """Refuse a plan whose ranges overlap each other, or belong to no stream of the plan."""
    streams = {stream.snapshot.stream for stream in plan.streams}
    for item in plan.ranges:
        if item.stream not in streams:
            raise ValueError(f"range {item.id} belongs to no stream of plan {plan.id}")
    for item, following in pairwise(sorted(plan.ranges, key=lambda item: (item.stream, item.range.start))):
        if item.stream == following.stream and item.range.overlaps(following.range):
            raise StateError(
                f"Range {item.range} of stream {item.stream} overlaps range {following.range}. Nothing was recorded; "
                "plan again."
            )


def _check_origins(plan: Plan, known: Mapping[Stream, int]) -> None:
    """Refuse a range that crosses its stream's origin: the watermark begins there, and always lies on an edge."""
    origins = {stream.snapshot.stream: known.get(stream.snapshot.stream, stream.origin) for stream in plan.streams}
    for item in plan.ranges:
        if item.range.start < origins[item.stream] < item.range.end:
            raise ValueError(f"range {item.id} crosses the origin {origins[item.stream]} of its stream")
