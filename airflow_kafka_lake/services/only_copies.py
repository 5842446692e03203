"""Refuse to drop a staging branch that is the only copy of records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import NAMED, count, some
from airflow_kafka_lake.core.errors import (
    AttemptRejectedError,
    JobFailedError,
    LostRecordsError,
    OnlyCopyError,
    SchemaMismatchError,
)
from airflow_kafka_lake.core.ledger.records import Claim, RangeRecord
from airflow_kafka_lake.core.ledger.waves import AttemptRecord, RangeState, is_resumable
from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet, Slice, Stream, grouped
from airflow_kafka_lake.core.spark.job import RETAIN_DAYS, branch_of
from airflow_kafka_lake.core.spec import sql_table
from airflow_kafka_lake.core.wire import timestamp
from airflow_kafka_lake.ports import LakeTable, Ports
from airflow_kafka_lake.services.identity import check_losses

# Which records of a staging branch exist nowhere else, and the refusal that names the two ways on.

Offsets = Mapping[Stream, RangeSet]


def _refusal(
    table: LakeTable, attempt: str, offsets: Offsets, *, known: AttemptRecord | None = None, why: str, give_up: str
) -> str:
    """Return the refusal: the records that are only in an attempt's branch, and the remedy: publish them, or give them
    up.

    `known` is the ledger's record of the attempt, `why` the way to publish it, or the reason against that.
    """
    parts = (f"{key} {found.describe()}, {count(found.span, 'offset')}" for key, found in sorted(offsets.items()))
    whose = until = ""
    if known:
        whose, expiry = f" of wave {known.wave}", known.started_at + timedelta(days=RETAIN_DAYS)
        until = f", which an expiry of snapshots may drop from {timestamp(expiry)} on"
    return (
        f"what attempt {attempt} has staged{whose} is the only copy of {some(parts, NAMED, 'partition', by='; ')}: "
        f"Kafka has them no more. It stays on branch {branch_of(attempt)} of {table.identifier}{until}. {why}. "
        f"To give it up: {give_up}"
    )


# Refuse to drop a staging branch that is the only copy of records: Kafka has deleted them, and main lacks them.

REPEAT = "repeat with --drop-staged"
"""How a person gives a branch up with the command that was refused."""


def cancelled(wave: str) -> str:
    """Return how a person gives up a wave's branch where the command has no such flag."""
    return f"{remedies.cancel(wave, drop_staged=True)}; {remedies.release(wave)} has it read anew"


def newest_resumable(attempts: Iterable[AttemptRecord], table: LakeTable) -> AttemptRecord | None:
    """Return the newest of a wave's attempts, oldest first, whose branch exists and may be published."""
    candidates = [item for item in attempts if is_resumable(item)]
    branches = frozenset(table.branches()) if candidates else frozenset()
    return next((item for item in reversed(candidates) if item.attempt in branches), None)


def refuse_to_lose(
    ports: Ports,
    pipeline: str,
    table: LakeTable,
    *,
    attempts: Iterable[AttemptRecord],
    ranges: Sequence[RangeRecord],
    give_up: str,
    passed: Slice | None = None,
    why: str | None = None,
) -> None:
    """Raise OnlyCopyError where the branch of one of a wave's attempts was audited, may still be published, and is the
    only copy of offsets of the wave's `ranges`; that of a missing answer when Kafka does not answer.

    `passed` are offsets that a person leaves unread. Ranges that are read again do not count: main has their rows.
    """
    first_read = [item for item in ranges if not item.generation]
    newest = newest_resumable(attempts, table) if first_read else None
    if newest and (lost := gone_from_kafka(ports, first_read, passed)):
        why = why or f"Let it be published first: {remedies.run(pipeline)}"
        refusal = _refusal(table, newest.attempt, lost, known=newest, why=why, give_up=give_up)
        raise OnlyCopyError(refusal, wave=newest.wave, attempt=newest.attempt)


def refuse_to_drop(ports: Ports, claim: Claim, table: LakeTable, some: Sequence[AttemptRecord], *, why: str) -> None:
    """Raise as `refuse_to_lose` for branches of a claimed wave."""
    give_up = cancelled(claim.key.wave)
    refuse_to_lose(ports, claim.pipeline, table, attempts=some, ranges=claim.ranges, give_up=give_up, why=why)


def refuse_to_lose_waves(ports: Ports, pipeline: str, attempts: Mapping[str, Iterable[AttemptRecord]]) -> None:
    """Raise as `refuse_to_lose` for attempts of several waves, by table."""
    for identifier, found in attempts.items():
        for wave, mine in grouped((item.wave, item) for item in found).items():
            if any(map(is_resumable, mine)):
                ranges = ports.ledger.ranges(wave=wave, states=(RangeState.PLANNED,))
                table = ports.lake.table(identifier)
                refuse_to_lose(ports, pipeline, table, attempts=mine, ranges=ranges, give_up=REPEAT)


def refuse_to_lose_unknown(ports: Ports, pipeline: str, table: LakeTable, attempts: Iterable[str]) -> None:
    """Raise OnlyCopyError where a branch of an attempt that the ledger does not know has rows that exist nowhere else.

    Its rows are read for that. Raises as `refuse_to_lose`.
    """
    for attempt in attempts:
        if not (rows := _rows(ports, table, attempt)):
            continue
        ranges = [_range_of(pipeline, attempt, key, offsets) for key, offsets in sorted(rows.items())]
        gone = {key: rows[key] & offsets for key, offsets in gone_from_kafka(ports, ranges).items()}
        wanted = [item.slice for item in ranges if gone.get(item.stream)]
        for seen in table.visible(wanted) if wanted else ():
            gone[seen.stream] = gone.get(seen.stream, NOTHING) - seen.offsets
        if lost := {key: offsets for key, offsets in gone.items() if offsets}:
            why = (
                "This ledger does not know that attempt, so no run publishes it. Keep what is wanted of it first: "
                f"SELECT * FROM {sql_table(table.identifier)} VERSION AS OF '{branch_of(attempt)}' "
                f"WHERE ingest_attempt = '{attempt}'"
            )
            raise OnlyCopyError(_refusal(table, attempt, lost, why=why, give_up=REPEAT), attempt=attempt)


def _rows(ports: Ports, table: LakeTable, attempt: str) -> dict[Stream, RangeSet]:
    try:
        staged = table.staged(attempt)
    except (AttemptRejectedError, JobFailedError, SchemaMismatchError) as error:
        ports.progress(f"what attempt {attempt} has staged cannot be read: {error.message}")
        return {}
    streams = staged.streams if staged else ()
    return {item.stream: item.offsets for item in streams if item.offsets}


def _range_of(pipeline: str, attempt: str, key: Stream, offsets: RangeSet) -> RangeRecord:
    """Return the range around staged rows, as if it had been planned."""
    return RangeRecord(
        id=f"{attempt} {key.topic_id}/{key.partition}",
        pipeline=pipeline,
        plan="",
        wave="",
        slice=Slice(key, OffsetRange(offsets.first, offsets.last + 1)),
        state=RangeState.PLANNED,
    )


def gone_from_kafka(ports: Ports, ranges: Sequence[RangeRecord], passed: Slice | None = None) -> Offsets:
    """Return which offsets of some ranges Kafka cannot give again, less the ones that a person passes unread; raises
    that of an answer it does not give."""
    seen = check_losses(ports, ranges)
    if seen.unknown:
        raise seen.refusal(
            "{}, so whether what is staged is the only copy of its records cannot be told. Nothing was dropped: "
            "repeat when Kafka answers"
        )
    found: dict[Stream, RangeSet] = {}
    for item in ranges:
        if (error := seen.failed.get(item.id)) is None:
            continue
        gone = RangeSet((error.lost if isinstance(error, LostRecordsError) and error.lost else item.range,))
        if passed and item.stream[1:] == passed.stream[1:]:
            gone -= RangeSet((passed.range,))
        if gone:
            found[item.stream] = found.get(item.stream, NOTHING) | gone
    return found
