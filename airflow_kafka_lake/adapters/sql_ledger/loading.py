"""Load the scope of a write: streams are locked first, then waves, each in a fixed order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, func, or_, select

from airflow_kafka_lake.adapters.sql_ledger import reading, requests, streams
from airflow_kafka_lake.adapters.sql_ledger.events import lock_sequences
from airflow_kafka_lake.adapters.sql_ledger.tables import (
    attempt,
    binding,
    notified,
    pipeline,
    range_,
    skip,
    stream,
    wave,
)
from airflow_kafka_lake.adapters.sql_ledger.tables import plan as plan_
from airflow_kafka_lake.adapters.sql_ledger.types import now
from airflow_kafka_lake.adapters.sql_ledger.values import rows
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import Records, Scope, Turn
from airflow_kafka_lake.core.ledger.records import RangeRecord, WaveRow
from airflow_kafka_lake.core.ledger.rows import ConfigurationRow, LayoutRow, NotifiedRow, PlanRecord, SegmentRow
from airflow_kafka_lake.core.ledger.streams import StreamRow
from airflow_kafka_lake.core.ledger.waves import OPEN, AttemptRecord, RangeState
from airflow_kafka_lake.core.slices import Stream

BOUND_ONE_BY_ONE = 1000
"""More names than this are bound as one document, because SQLite takes at most 32,766 values."""


@dataclass(slots=True)
class Loading:
    """Loads one scope; `ids` are the numbers of the streams that it has read."""

    connection: Connection
    scope: Scope
    ids: dict[Stream, int] = field(default_factory=dict)
    now: datetime | None = None

    def load(self) -> Records:
        """Lock and read the whole scope."""
        scope = self.scope
        if scope.alone:
            lock_sequences(self.connection)
        mine = self._take_turn(scope.turn) if scope.turn else None
        locked = self._streams()
        chosen = self._chosen()
        waves = self._waves({*scope.waves, *(self._homes(*chosen) if chosen and scope.follow else ())})
        if scope.planned:
            chosen = [self._among(range_.c.wave, waves), range_.c.state == RangeState.PLANNED]
        ranges = self._ranges(*chosen) if chosen else ()
        told = self._notified() if scope.notified else None
        return Records(
            now=self.now or self.connection.execute(select(now())).scalar_one(),
            ledger_id=reading.ledger_id(self.connection) if scope.ledger_id else "",
            streams=locked,
            waves=waves,
            ranges=ranges,
            counts=self._counts(waves) if scope.counts else {},
            attempts=self._attempts(waves) if scope.attempts else (),
            plans=self._plans(waves.values(), ranges),
            tables=self._tables(waves) if scope.tables else {},
            gate=streams.gate(self.connection, *waves) if scope.gate and waves else (),
            skips=self._skips() if scope.skips else (),
            configurations=self._configurations(scope.pipeline or mine) if scope.configurations else (),
            pauses=reading.pauses(self.connection, mine) if mine else (),
            notified=told,
            requests=requests.of_waves(self.connection, scope.waves) if scope.requests else (),
            at_work=self._at_work(mine) if mine and scope.turn is Turn.CLAIM else (),
            **(self._layouts(scope.pipeline) if scope.layouts and scope.pipeline else {}),
        )

    def _take_turn(self, turn: Turn) -> str | None:
        """Lock the oldest configuration of the pipeline, a row that stays; return the pipeline's name, None before its
        first one.

        The three locks are those of PostgreSQL: plans share theirs with each other and with a claim.
        """
        name: Any = self.scope.pipeline
        if name is None:
            name = select(wave.c.pipeline).where(self._among(wave.c.id, self.scope.waves)).scalar_subquery()
        oldest = select(func.min(pipeline.c.version)).where(pipeline.c.name == name).scalar_subquery()
        query = select(pipeline.c.name).where(pipeline.c.name == name, pipeline.c.version == oldest)
        locked = query.with_for_update(read=turn is Turn.PLAN, key_share=turn is not Turn.PAUSE)
        return self.connection.execute(locked).scalar()

    def _streams(self) -> dict[Stream, StreamRow]:
        if not self.scope.streams and not self.scope.every:
            return {}
        query = select(stream).where(stream.c.pipeline == self.scope.pipeline)
        if not self.scope.every:
            query = query.join(*streams.same_streams(self.connection, self.scope.streams))
        locked = query.order_by(stream.c.id).with_for_update(of=stream)
        return {row.key: row for row in map(self._stream, self._locked(locked))}

    def _stream(self, row: Any) -> StreamRow:
        found = reading.stream_row(row)
        self.ids[found.key] = row.id
        return found

    def _locked(self, query: Any) -> list[Any]:
        """Read rows under lock, and the database's clock when the last of them is locked."""
        locked = query.cte("locked")
        found = list(self.connection.execute(select(locked, now().label("now"))))
        if found:
            self.now = found[-1].now
        return found

    def _waves(self, names: Collection[str]) -> dict[str, WaveRow]:
        if not names and not self.scope.every:
            return {}
        chosen = self._among(wave.c.id, names)
        if self.scope.every:
            chosen = chosen | (wave.c.pipeline == self.scope.pipeline)
        query = select(wave).where(chosen).order_by(wave.c.id).with_for_update()
        return {row.id: reading.wave_row(row) for row in self._locked(query)}

    def _chosen(self) -> list[ColumnElement[bool]]:
        """Return the condition of the ranges that the scope names itself."""
        if self.scope.every:
            return [stream.c.pipeline == self.scope.pipeline]
        if self.scope.ranges:
            given = rows(self.connection, [range_.c.id], ({"id": name} for name in self.scope.ranges))
            return [range_.c.id.in_(select(given.c.id))]
        if (asked := self.scope.crossing) is not None:
            return [range_.c.stream == self.ids.get(asked.stream), *reading.overlapping(asked.range)]
        return []

    def _ranges(self, *chosen: ColumnElement[bool]) -> tuple[RangeRecord, ...]:
        return reading.ranges(self.connection, *chosen, ids=self.ids)

    def _among(self, column: Column[str], names: Collection[str]) -> ColumnElement[bool]:
        if len(names) <= BOUND_ONE_BY_ONE:
            return column.in_(sorted(names))
        given = rows(self.connection, [column], ({column.name: name} for name in sorted(names)))
        return column.in_(select(given))

    def _homes(self, *chosen: ColumnElement[bool]) -> set[str]:
        query = select(range_.c.wave).where(*chosen, range_.c.wave.is_not(None)).distinct()
        return set(self.connection.execute(query).scalars())

    def _counts(self, waves: Collection[str]) -> Mapping[str, Mapping[RangeState, int]]:
        query = select(range_.c.wave, range_.c.state, func.count()).where(self._among(range_.c.wave, waves))
        found: dict[str, dict[RangeState, int]] = defaultdict(dict)
        for name, state, number in self.connection.execute(query.group_by(range_.c.wave, range_.c.state)):
            found[name][state] = number
        return found

    def _attempts(self, waves: Collection[str]) -> tuple[AttemptRecord, ...]:
        mine = [self._among(attempt.c.wave, waves)]
        if self.scope.every:
            mine = [attempt.c.wave.in_(select(wave.c.id).where(wave.c.pipeline == self.scope.pipeline))]
        if self.scope.attempt_ids:
            mine.append(self._among(attempt.c.attempt, self.scope.attempt_ids))
        return reading.attempts_where(self.connection, or_(*mine))

    def _plans(self, waves: Collection[WaveRow], ranges: Collection[RangeRecord]) -> dict[str, PlanRecord]:
        names = {*self.scope.plan_ids}
        if self.scope.plans:
            names |= {item.plan for item in waves} | {item.plan for item in ranges}
        if not names:
            return {}
        version = (pipeline.c.name == plan_.c.pipeline) & (pipeline.c.version == plan_.c.pipeline_version)
        last = select(func.max(wave.c.ordinal)).where(wave.c.plan == plan_.c.id).scalar_subquery().label("last")
        query = select(plan_.c.id, plan_.c.number, last, pipeline.c.spec).join(pipeline, version)
        return {
            row.id: PlanRecord(
                id=row.id, number=row.number, next_ordinal=(row.last or 0) + 1, spec=reading.spec_of(row.spec)
            )
            for row in self.connection.execute(query.where(self._among(plan_.c.id, names)))
        }

    def _notified(self) -> NotifiedRow | None:
        query = select(notified).where(notified.c.pipeline == self.scope.pipeline).with_for_update()
        for row in self._locked(query):
            return NotifiedRow(
                pipeline=row.pipeline,
                sequence=row.sequence,
                through=row.through,
                holder=row.lease_holder,
                until=row.lease_until,
            )
        return None

    def _skips(self) -> Collection[str]:
        query = select(skip.c.id).where(self._among(skip.c.id, self.scope.skips))
        return frozenset(self.connection.execute(query).scalars())

    def _at_work(self, name: str) -> Collection[str]:
        """Return the waves whose leases are live, by the clock of this moment: claims wait for each other's turn."""
        live = (wave.c.lease_until > now()) & (wave.c.lease_until <= now(2 * guards.MAX_LEASE))
        query = select(wave.c.id).where(wave.c.pipeline == name, wave.c.state.in_(OPEN), live)
        return self.connection.execute(query).scalars().all()

    def _configurations(self, name: str | None) -> tuple[ConfigurationRow, ...]:
        mine = pipeline.c.name == name
        newest = select(func.max(pipeline.c.version)).where(mine).scalar_subquery()
        wanted = or_(pipeline.c.version == newest, pipeline.c.digest == self.scope.digest)
        return tuple(
            ConfigurationRow(version=row.version, spec=reading.spec_of(row.spec), recorded_at=row.recorded_at)
            for row in self.connection.execute(select(pipeline).where(mine, wanted).order_by(pipeline.c.version))
        )

    def _layouts(self, name: str) -> dict[str, Any]:
        layouts = streams.layouts(self.connection, name)
        segments = streams.segments(self.connection, name)
        return {
            "layouts": tuple(LayoutRow(pipeline=name, layout=item) for item in layouts),
            "segments": tuple(SegmentRow(pipeline=name, segment=item) for item in segments),
        }

    def _tables(self, waves: Mapping[str, WaveRow]) -> dict[str, str]:
        names = {row.pipeline for row in waves.values()} | {self.scope.pipeline}
        query = select(binding.c.table_name, binding.c.uuid).where(binding.c.pipeline.in_(sorted(names - {None})))
        return {row.table_name: row.uuid for row in self.connection.execute(query)}
