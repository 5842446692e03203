"""Skips: what a person decided to pass unread, cut out of what was planned."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, select, update

from airflow_kafka_lake.adapters.sql_ledger import reading
from airflow_kafka_lake.adapters.sql_ledger.deciding import dissolve_empty, give_back, lock_waves, new_wave
from airflow_kafka_lake.adapters.sql_ledger.recording import record_event
from airflow_kafka_lake.adapters.sql_ledger.tables import outbox, range_, skip, stream
from airflow_kafka_lake.adapters.sql_ledger.types import Offsets, insert_rows, now, rows
from airflow_kafka_lake.core.ledger import guards, history
from airflow_kafka_lake.core.ledger.holds import Passed
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.waves import AttemptKey, RangeState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.slices import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """What is asked for."""

    id: str
    pipeline: str
    stream: Stream
    stretch: OffsetRange
    reason: str
    actor: str
    acknowledge_order: bool
    held: tuple[AttemptKey, ...]
    epoch: int | None

    @property
    def range(self) -> RangeRecord:
        """The range that it leaves where nobody had planned."""
        return guards.skipped_range(self.id, self.pipeline, self.stream, self.stretch, self.reason)


def record_skip(connection: Connection, asked: Skip) -> Passed:
    """See `ports.Ledger.skip`."""
    home = _lock_stream(connection, asked)
    if connection.execute(select(skip.c.id).where(skip.c.id == asked.id)).first():
        raise guards.taken_id("skip", asked.id)
    before = _touched(connection, home.id, asked.stretch)
    waves = lock_waves(connection, {item.wave for item in before} | {key.wave for key in asked.held})
    touched = _touched(connection, home.id, asked.stretch)
    if {item.wave for item in touched} != {item.wave for item in before}:
        raise guards.overtaken(f"Ranges of stream {asked.stream} were moved by somebody else.")
    losing = sorted({item.wave for item in touched if item.state is RangeState.PLANNED})
    held = {key.wave for key in asked.held if key.wave in waves and _holds(waves[key.wave], key)}
    for name in losing:
        if waves[name].fence and waves[name].state in guards.GUARDED and name not in held:
            raise guards.unguarded(name)
    cut = guards.cut_for_skip(touched, asked.range, home.origin)
    for new, old in cut.waves.items():
        new_wave(connection, new, waves[old], [item for item in cut.pieces if item.wave == new])
    _write_skip(connection, asked, home.id, cut)
    _write_pieces(connection, asked, home.id, cut.pieces, {item.id for item in touched})
    give_back(connection, sorted({*losing, *held}))
    dissolve_empty(connection, {item.wave for item in touched if item.state is RangeState.CANCELLED})
    text = history.skipped(asked.stream, asked.stretch, cut.passed.span, asked.reason, cut.waves)
    record_event(connection, asked.pipeline, asked.actor, "skip", asked.id, text)
    return Passed(offsets=cut.passed.span, waves=tuple(cut.waves))


def _lock_stream(connection: Connection, asked: Skip) -> Any:
    """Lock the stream and raise its version: a plan or an advance made from what was before is refused."""
    topic, topic_id, partition = asked.stream
    epoch = stream.c.leader_epoch if asked.epoch is None else asked.epoch
    written = connection.execute(
        update(stream)
        .where(stream.c.pipeline == asked.pipeline, stream.c.topic == topic)
        .where(stream.c.topic_id == topic_id, stream.c.partition == partition)
        .values(version=stream.c.version + 1, leader_epoch=epoch)
        .returning(stream.c.id, stream.c.origin)
    ).first()
    if written is None:
        raise guards.unknown("stream", f"{topic}/{partition} ({topic_id})")
    return written


def _touched(connection: Connection, key: int, stretch: OffsetRange) -> tuple[RangeRecord, ...]:
    crossing = (range_.c.start_offset < stretch.end, range_.c.end_offset > stretch.start)
    return reading.ranges(connection, range_.c.stream == key, *crossing)


def _holds(row: Any, key: AttemptKey) -> bool:
    return (row.fence, row.attempt) == (key.fence, key.attempt)


def _write_skip(connection: Connection, asked: Skip, key: int, cut: guards.SkipCut) -> None:
    connection.execute(
        insert(skip).values(
            id=asked.id,
            stream=key,
            start_offset=asked.stretch.start,
            end_offset=asked.stretch.end,
            offsets=cut.passed.span,
            reason=asked.reason,
            actor=asked.actor,
            at=now(),
            acknowledge_order=asked.acknowledge_order,
        )
    )
    spec = reading.newest_spec(connection, asked.pipeline)
    assert spec is not None
    insert_rows(
        connection,
        outbox,
        [
            {
                "start_offset": item.start,
                "end_offset": item.end,
                "skipped": item.span,
                "generation": cut.generation(item),
            }
            for item in cut.passed
        ],
        pipeline=asked.pipeline,
        table_name=reading.spec_of(spec.spec).table_for(asked.stream.topic),
        kind="skip",
        wave=asked.id,
        attempt=asked.id,
        fence=0,
        stream=key,
        recorded_at=now(),
        **dict.fromkeys(("row_count", "visible", "control", "aborted", "compacted", "unexplained"), 0),
    )


def _write_pieces(
    connection: Connection, asked: Skip, key: int, pieces: Iterable[RangeRecord], known: Collection[str]
) -> None:
    """Shrink what was cut before its other pieces are inserted: at no moment do two ranges overlap."""
    first = [{"id": piece.id, **_values(piece, asked)} for piece in pieces if piece.id in known]
    if first:
        names = [name for name in first[0] if name != "id"]
        given = rows(connection, [range_.c[name] for name in ("id", *names)], first)
        connection.execute(
            update(range_).where(range_.c.id == given.c.id).values({name: given.c[name] for name in names})
        )
    new = [
        {
            "id": piece.id,
            "start_offset": piece.range.start,
            "plan": None if piece.plan == asked.id else piece.plan,
            "generation": piece.generation,
            "fewer_accepted": piece.fewer_accepted,
            "leader_epoch": piece.leader_epoch,
            **_values(piece, asked),
        }
        for piece in pieces
        if piece.id not in known
    ]
    insert_rows(connection, range_, new, stream=key)


def _values(piece: RangeRecord, asked: Skip) -> dict[str, Any]:
    return {
        "end_offset": piece.range.end,
        "estimated_bytes": piece.estimated_bytes,
        "state": piece.state,
        "reason": piece.reason,
        "held_for": Offsets.text(piece.held_for),
        "wave": None if piece.wave == asked.id else piece.wave,
        "skip": asked.id if piece.state is RangeState.SKIPPED else None,
        "row_count": piece.rows,
        **(piece.accounting.to_json() if piece.accounting else dict.fromkeys(reading.SUMS)),
    }
