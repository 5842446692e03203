"""The part of the memory ledger that a plan writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from airflow_kafka_lake.core.clocks import HostClock
from airflow_kafka_lake.core.ledger import guards, history
from airflow_kafka_lake.core.ledger.records import RangeRecord, origin_receipt
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.ordering.growth import Growth
from airflow_kafka_lake.core.planning.plan import Plan, PlannedStream, PlannedWave
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.core.spec import PipelineSpec
from tests.kit.memory_ledger.restoring import MemoryRestoring
from tests.kit.memory_ledger.state import State, Wave, ordered


class MemoryPlanning(MemoryRestoring):
    """Configurations, tables, plans."""

    def save_pipeline(self, spec: PipelineSpec) -> None:
        """See `ports.Ledger`, as for all below."""
        with self._writing() as draft:
            versions = draft.specs.get(spec.name, ())
            if versions and versions[-1] == spec:
                return
            draft.specs[spec.name] = (*versions, spec)
            self._event(draft, spec.name, self._actor, "pipeline", spec.name, f"version {len(versions) + 1}")

    def bind_table(self, pipeline: str, table: str, uuid: str) -> str:
        with self._writing() as draft:
            if (pipeline, table) not in draft.tables:
                draft.tables[pipeline, table] = uuid
                self._event(draft, pipeline, self._actor, "table", table, uuid)
            return draft.tables[pipeline, table]

    def record_plan(self, plan: Plan, actor: str, clock: HostClock | None = None) -> None:
        guards.check_plan(plan)
        if clock is not None:
            guards.check_clock(clock, self._clock.now())
        name = plan.spec.name
        with self._writing() as draft:
            if plan.id in draft.plans:
                raise guards.overtaken(f"Plan {plan.id} is on record already.")
            if plan.spec not in draft.specs.get(name, ()):
                draft.specs[name] = (*draft.specs.get(name, ()), plan.spec)
            draft.plans[plan.id] = plan.spec
            for stream in plan.streams:
                self._plan_stream(draft, plan, stream)
            epochs = {stream.snapshot.stream: stream.snapshot.leader_epoch for stream in plan.streams}
            guards.check_origins(
                plan, {key: row.origin for (owner, key), row in draft.streams.items() if owner == name}
            )
            for ordinal, wave in enumerate(plan.waves):
                draft.waves[wave.id] = Wave(id=wave.id, pipeline=name, plan=plan.id, ordinal=ordinal, table=wave.table)
                self._plan_ranges(draft, plan, wave, epochs)
            self._refuse_overlaps(draft, plan)
            self._grow(draft, name, plan.growth)
            self._event(draft, name, actor, "plan", plan.id, history.planned(plan))

    def _plan_stream(self, draft: State, plan: Plan, stream: PlannedStream) -> None:
        seen, key = stream.snapshot, (plan.spec.name, stream.snapshot.stream)
        known = draft.streams.get(key)
        if (known.version if known else None) != stream.version:
            raise guards.overtaken(
                f"Stream {seen.stream} of pipeline {plan.spec.name} was planned by somebody else first."
            )
        if known is None:
            table = plan.spec.table_for(seen.stream.topic)
            told = origin_receipt(
                plan.spec.name, plan.id, seen.stream, stream.origin, ledger_id=self._ledger_id, at=self._clock.now()
            )
            self._send(draft, table, told)
        draft.streams[key] = StreamRecord(
            key=seen.stream,
            origin=known.origin if known else stream.origin,
            watermark=known.watermark if known else stream.origin,
            version=known.version + 1 if known else 1,
            planned=RangeSet(),
            covered=RangeSet(),
            end_seen=seen.readable_end(plan.spec.isolation),
            leader_epoch=seen.leader_epoch,
            since=known.since if known else plan.since(stream),
        )

    @staticmethod
    def _grow(draft: State, name: str, growth: Growth) -> None:
        for layout in growth.layouts:
            key = (name, layout.topic_id, layout.partitions)
            draft.layouts[key] = replace(draft.layouts.get(key, layout), in_force=layout.in_force)
        for segment in growth.segments:
            known = draft.segments.get((name, segment.key), segment)
            if known.seal not in (None, segment.seal):
                raise guards.overtaken("A segment was sealed by somebody else first, and a seal is never moved.")
            draft.segments[name, segment.key] = replace(
                segment,
                sealed=segment.sealed or known.sealed,
                declared_at=known.declared_at or segment.declared_at,
                parents=segment.parents | known.parents,
            )

    @staticmethod
    def _plan_ranges(draft: State, plan: Plan, wave: PlannedWave, epochs: Mapping[Stream, int | None]) -> None:
        for item in wave.ranges:
            draft.ranges[item.id] = RangeRecord(
                id=item.id,
                pipeline=plan.spec.name,
                plan=plan.id,
                wave=wave.id,
                slice=item.slice,
                state=RangeState.PLANNED,
                reason=None,
                estimated_bytes=item.estimated_bytes,
                leader_epoch=epochs[item.stream],
            )

    @staticmethod
    def _refuse_overlaps(draft: State, plan: Plan) -> None:
        live = ordered(item for item in draft.ranges.values() if item.pipeline == plan.spec.name)
        for a, b in pairwise(live):
            if a.stream == b.stream and a.range.overlaps(b.range):
                raise guards.overlaps_recorded(plan)
