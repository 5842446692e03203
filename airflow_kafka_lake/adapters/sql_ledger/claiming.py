"""The guarded writes of an attempt: the WHERE clause is the referee, the row count the verdict (law L10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, func, insert, literal, not_, or_, select, update

from airflow_kafka_lake.adapters.sql_ledger import reading, segmenting
from airflow_kafka_lake.adapters.sql_ledger.recording import record_event
from airflow_kafka_lake.adapters.sql_ledger.tables import attempt as attempt_
from airflow_kafka_lake.adapters.sql_ledger.tables import binding, outbox, pipeline, range_, wave
from airflow_kafka_lake.adapters.sql_ledger.tables import plan as plan_
from airflow_kafka_lake.adapters.sql_ledger.types import now, rows
from airflow_kafka_lake.core.lake.accounting import Receipt
from airflow_kafka_lake.core.ledger import guards, history
from airflow_kafka_lake.core.ledger.records import Claim
from airflow_kafka_lake.core.ledger.waves import (
    WAVE_TRANSITIONS,
    Act,
    AttemptKey,
    AttemptOutcome,
    Holder,
    RangeState,
)
from airflow_kafka_lake.core.ordering.segments import gate_closed

FREE = {"attempt": None, "holder": None, "lease_until": None}
"""What a wave has while nobody works on it."""


def claim(connection: Connection, name: str, attempt: str, holder: Holder, lease: timedelta, over: int | None) -> Claim:
    """See `ports.Ledger.claim`."""
    sources, target = WAVE_TRANSITIONS[Act.CLAIM]
    free = not_(reading.lease_live()) if over is None else or_(not_(reading.lease_live()), wave.c.fence == over)
    taken = connection.execute(
        update(wave)
        .where(wave.c.id == name, wave.c.state.in_(sources), free)
        .values(state=target, fence=wave.c.fence + 1, attempt=attempt, holder=str(holder), lease_until=now(lease))
    )
    if taken.rowcount != 1:
        found = reading.one_wave(connection, name)
        if found.state not in sources:
            raise guards.forbidden(name, found.pipeline, found.state, (sources, target))
        raise guards.busy(name, found.fence, str(found.holder))
    if connection.execute(select(attempt_.c.wave).where(attempt_.c.attempt == attempt)).first():
        raise guards.taken_id("attempt", attempt)
    abandon(connection, [name], guards.ENDED_BY_CLAIM)
    earlier = reading.attempts(connection, name)
    row = connection.execute(_claimed().where(wave.c.id == name)).one()
    key = AttemptKey(wave=name, fence=row.fence, attempt=attempt)
    claimed_at = connection.execute(
        insert(attempt_)
        .values(
            wave=name,
            fence=row.fence,
            attempt=attempt,
            holder=str(holder),
            outcome=AttemptOutcome.RUNNING,
            started_at=now(),
        )
        .returning(attempt_.c.started_at)
    ).scalar_one()
    result = Claim(
        claimed_at=claimed_at,
        key=key,
        pipeline=row.pipeline,
        spec=reading.spec_of(row.spec),
        table=row.table_name,
        table_uuid=row.uuid,
        ranges=planned(connection, name),
        attempts=earlier,
    )
    record_event(connection, row.pipeline, str(holder), "claim", name, f"attempt {attempt}, fence {row.fence}")
    return result


def _claimed() -> Any:
    bound = (binding.c.pipeline == wave.c.pipeline) & (binding.c.table_name == wave.c.table_name)
    version = (pipeline.c.name == plan_.c.pipeline) & (pipeline.c.version == plan_.c.pipeline_version)
    return (
        select(wave.c.fence, wave.c.pipeline, wave.c.table_name, pipeline.c.spec, binding.c.uuid)
        .join(plan_, plan_.c.id == wave.c.plan)
        .join(pipeline, version)
        .outerjoin(binding, bound)
    )


def planned(connection: Connection, name: str) -> tuple[Any, ...]:
    """Return a wave's PLANNED ranges."""
    return reading.ranges(connection, range_.c.wave == name, range_.c.state == RangeState.PLANNED)


def abandon(connection: Connection, waves: Sequence[str], outcomes: Iterable[AttemptOutcome]) -> None:
    """End what still runs on some waves."""
    connection.execute(
        update(attempt_)
        .where(attempt_.c.wave.in_(waves), attempt_.c.outcome.in_(list(outcomes)))
        .values(outcome=AttemptOutcome.ABANDONED, ended_at=func.coalesce(attempt_.c.ended_at, now()))
    )


def referee(connection: Connection, key: AttemptKey, transition: guards.Transition | None, **values: Any) -> str:
    """Write to the wave if the attempt still holds it, and lock it until the end; returns the pipeline.

    Raises StaleFenceError when it does not, StateError when the wave's state does not allow the transition.
    """
    where = [wave.c.id == key.wave, wave.c.fence == key.fence, wave.c.attempt == key.attempt]
    if transition is not None:
        where.append(wave.c.state.in_(transition[0]))
        values["state"] = transition[1]
    written = connection.execute(
        update(wave).where(*where).values(values or {"fence": wave.c.fence}).returning(wave.c.pipeline)
    ).scalar()
    if written is not None:
        return str(written)
    held = select(wave.c.pipeline, wave.c.state, wave.c.fence, wave.c.attempt).where(wave.c.id == key.wave)
    found = connection.execute(held).first()
    if found is None:
        raise guards.unknown("wave", key.wave)
    if transition is not None and (found.fence, found.attempt) == (key.fence, key.attempt):
        raise guards.forbidden(key.wave, found.pipeline, found.state, transition)
    raise guards.stale(key, found.state, found.fence)


def write_attempt(connection: Connection, key: AttemptKey, **values: Any) -> None:
    """Write to the attempt's own row, guarded by wave, fence and attempt id once more."""
    mine = (attempt_.c.wave == key.wave, attempt_.c.fence == key.fence, attempt_.c.attempt == key.attempt)
    connection.execute(update(attempt_).where(*mine).values(**values))


def record_refusal(connection: Connection, key: AttemptKey, write: str) -> None:
    """Leave a trace of a write that came too late."""
    query = select(wave.c.pipeline, wave.c.state, wave.c.fence).where(wave.c.id == key.wave)
    if found := connection.execute(query).first():
        said = history.refused(write, key, found.state, found.fence)
        record_event(connection, found.pipeline, key.attempt, "refused", key.wave, said)


def renew(connection: Connection, key: AttemptKey, lease: timedelta) -> None:
    """See `ports.Ledger.renew`."""
    referee(connection, key, None, lease_until=now(lease))


def record(connection: Connection, key: AttemptKey, **values: Any) -> None:
    """Store a fact about the attempt: its base, or its job."""
    referee(connection, key, None)
    write_attempt(connection, key, **values)


def mark_staged(connection: Connection, key: AttemptKey, audited: int, staged_bytes: int) -> None:
    """See `ports.Ledger.mark_staged`."""
    name = referee(connection, key, WAVE_TRANSITIONS[Act.STAGE])
    write_attempt(connection, key, audited=audited, staged_bytes=staged_bytes, outcome=AttemptOutcome.STAGED)
    record_event(connection, name, key.attempt, "stage", key.wave, f"snapshot {audited}, {staged_bytes} bytes")


def mark_publishing(connection: Connection, key: AttemptKey) -> None:
    """See `ports.Ledger.mark_publishing`."""
    name = referee(connection, key, WAVE_TRANSITIONS[Act.PUBLISH])
    if closed := segmenting.gate(connection, key.wave):
        raise gate_closed(key.wave, name, closed)
    record_event(connection, name, key.attempt, "publish", key.wave, f"attempt {key.attempt}")


def end_attempt(connection: Connection, key: AttemptKey, outcome: AttemptOutcome, error: str | None) -> None:
    """See `ports.Ledger.end_attempt`."""
    name = referee(connection, key, guards.ending(outcome), **FREE)
    write_attempt(connection, key, outcome=outcome, error=error, ended_at=now())
    record_event(connection, name, key.attempt, "end", key.wave, history.ended(outcome, error))


def settle(
    connection: Connection, key: AttemptKey, attempt: str, snapshot: int | None, receipts: Sequence[Receipt]
) -> None:
    """See `ports.Ledger.settle`."""
    settled = {"snapshot_id": snapshot, "settled_at": now(), **FREE}
    name = referee(connection, key, WAVE_TRANSITIONS[Act.SETTLE], **settled)
    where = (attempt_.c.wave == key.wave, attempt_.c.attempt == attempt)
    fence = connection.execute(select(attempt_.c.fence).where(*where)).scalar()
    if fence is None:
        raise ValueError(f"attempt {attempt} is none of wave {key.wave}")
    guards.check_receipts(planned(connection, key.wave), receipts)
    ended = {"ended_at": func.coalesce(attempt_.c.ended_at, now()), "error": None}
    connection.execute(update(attempt_).where(*where).values(outcome=AttemptOutcome.COMMITTED, **ended))
    abandon(connection, [key.wave], guards.ENDED_BY_SETTLE)
    if _settle_ranges(connection, key.wave, receipts) != len(receipts):
        raise guards.overtaken(f"Ranges of wave {key.wave} changed while it was settled.")
    _publish_receipts(connection, key.wave, attempt, fence)
    record_event(connection, name, key.attempt, "settle", key.wave, history.settled(attempt, receipts))


def _settle_ranges(connection: Connection, name: str, receipts: Sequence[Receipt]) -> int:
    numbers = ("row_count", "first_offset", "last_offset", *reading.SUMS)
    given = rows(
        connection,
        [range_.c[column] for column in ("id", *numbers)],
        (
            {
                "id": item.range_id,
                "row_count": item.rows,
                "first_offset": item.first_offset,
                "last_offset": item.last_offset,
                **item.accounting.to_json(),
            }
            for item in receipts
        ),
    )
    statement = (
        update(range_)
        .where(range_.c.id == given.c.id, range_.c.wave == name, range_.c.state == RangeState.PLANNED)
        .values(state=RangeState.SETTLED, **{column: given.c[column] for column in numbers})
    )
    return connection.execute(statement).rowcount


def _publish_receipts(connection: Connection, name: str, attempt: str, fence: int) -> None:
    copied = ("stream", "start_offset", "end_offset", "generation", "row_count", "first_offset", "last_offset")
    names = [*copied, *reading.SUMS]
    said: dict[str, Any] = {
        "kind": literal("published"),
        "attempt": literal(attempt),
        "fence": literal(fence),
        "recorded_at": now(),
    }
    source = (
        select(*(range_.c[n] for n in names), wave.c.pipeline, wave.c.table_name, range_.c.wave, *said.values())
        .join(wave, wave.c.id == range_.c.wave)
        .where(range_.c.wave == name, range_.c.state == RangeState.SETTLED)
        .order_by(range_.c.stream, range_.c.start_offset)
    )
    connection.execute(insert(outbox).from_select([*names, "pipeline", "table_name", "wave", *said], source))
