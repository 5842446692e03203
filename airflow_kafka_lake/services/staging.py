"""One wave from claim to commit: probe, stage, audit, publish."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.decoding import Decoder, Decoding
from airflow_kafka_lake.core.errors import (
    HeldError,
    JobFailedError,
    KafkaLakeError,
    StaleFenceError,
    StateError,
    TransientError,
    UnavailableError,
    expected,
)
from airflow_kafka_lake.core.kafka.loss_check import Losses
from airflow_kafka_lake.core.kafka.losses import held_by
from airflow_kafka_lake.core.lake.halving import History
from airflow_kafka_lake.core.lake.staging import StageJob, packing
from airflow_kafka_lake.core.ledger.attempts import EndAttempt, MarkStaged, RecordBase, RecordJob, Renew
from airflow_kafka_lake.core.ledger.records import Claim, RangeRecord, Staged, Verdict, WaveRecord
from airflow_kafka_lake.core.ledger.waves import EMPTY_TABLE, AttemptOutcome, Found, RangeState, WaveState
from airflow_kafka_lake.core.ordering.segments import gate_closed
from airflow_kafka_lake.core.slices import Slice, SliceSet
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.attempt_audit import audit_attempt, refuse_fewer
from airflow_kafka_lake.services.bisection import lighten, read_otherwise
from airflow_kafka_lake.services.claims import LEASE, Heartbeat, claim, ending_on_error
from airflow_kafka_lake.services.earlier_attempts import resumed
from airflow_kafka_lake.services.identity import check_head
from airflow_kafka_lake.services.in_doubt import InDoubt
from airflow_kafka_lake.services.losses import check_losses, check_until_known
from airflow_kafka_lake.services.only_copies import cancelled, refuse_to_lose
from airflow_kafka_lake.services.outbox import send_first
from airflow_kafka_lake.services.polling import careful
from airflow_kafka_lake.services.publishing import (
    Proven,
    adopt,
    probe,
    publish,
    receipt_rows,
    replaced,
    require_replaceable,
)
from airflow_kafka_lake.services.reporting import describe_landed
from airflow_kafka_lake.services.revocation import Shortfall, revoke

OTHERWISE_DECODED = (
    "It was decoded otherwise than the pipeline says now. Put [decode] back as it was and plan once, then "
    f"{remedies.run()} publishes it"
)
"""Why a branch that was audited is not gone on with."""
TASK_BYTES = 64 * 1024 * 1024


def ingest(ports: Ports, wave: str) -> WaveRecord:
    """Bring one wave into the lake and record it; ranges that fail their audit are held and the rest goes on.

    Ranges of partitions that stay unknown go on in a wave of their own. Returns the wave as it stands then. Raises
    ConcurrentError while another attempt works on it, JobFailedError when the Spark job ended without a result (the
    wave can be tried again), UnavailableError when nothing of it can be read now, UnknownOutcomeError when a commit's
    answer was lost for good, HeldError when every range of the wave ended on hold, GateClosedError while it must wait
    for its turn.
    """
    if (record := ports.ledger.wave(wave)).state is WaveState.COMMITTED:
        ports.progress(describe_landed(ports.ledger, record))
        return record
    while (record := ports.ledger.wave(wave)).state is not WaveState.COMMITTED:
        if record.state is WaveState.DISSOLVED:
            raise _nothing_left(record)
        if record.state is WaveState.PLANNED:  # an open one may be in the lake already, and is looked for first
            _pass_gate(ports, wave, record.pipeline)
        try:
            held = claim(ports, wave)
        except StateError:
            if ports.ledger.wave(wave).state is record.state:
                raise
            continue  # another process has ended it in between
        if short := _attempt(ports, held):
            revoke(ports, ports.ledger.wave(wave), short.verdicts, spared=short.spared)
    return record


def _nothing_left(record: WaveRecord) -> HeldError | StateError:
    if record.ranges:
        return HeldError(
            f"every range of wave {record.id} is held or cancelled: see {remedies.wave(record.id)}", wave=record.id
        )
    return StateError(
        f"wave {record.id} was withdrawn: nothing of it is planned any more. Plan its offsets again with: "
        f"{remedies.plan(record.pipeline)}",
        wave=record.id,
    )


def _pass_gate(ports: Ports, wave: str, pipeline: str) -> None:
    """Refuse to start what must come later in the order of the records (law L14)."""
    if closed := ports.ledger.gate(wave):
        raise gate_closed(wave, pipeline, closed)


def _attempt(ports: Ports, held: Claim) -> Shortfall | None:
    """Work on a claimed wave; returns what must be taken away before the rest can be published. What was staged goes
    with it, by the fence commit, unless it is spared."""
    in_doubt = InDoubt(held.attempts)
    with ending_on_error(ports, [held], in_doubt):
        try:
            short = _work(ports, held, in_doubt)
        except StaleFenceError:
            raise
        except Exception as error:
            problem = expected(error, f"wave {held.key.wave} (attempt {held.key.attempt})", wave=held.key.wave)
            problem = in_doubt.explained(held, problem)
            if problem is error:
                raise
            raise problem from error
    if short:
        ports.ledger.commit(EndAttempt(key=held.key, outcome=AttemptOutcome.FAILED, error=short.verdicts[0].reason))
    return short


def _work(ports: Ports, held: Claim, in_doubt: InDoubt) -> Shortfall | None:
    found = probe(ports, held, held.attempts)
    in_doubt.looked(found)
    if isinstance(found, Found):
        adopt(ports, held, found)
        return None
    _pass_gate(ports, held.key.wave, held.pipeline)
    topic_ids = sorted({item.stream.topic_id for item in held.ranges})
    check_head(ports, held.pipeline, held.table, head=found.head, topic_ids=topic_ids)
    require_replaceable(ports.lake.table(held.table), replaced(held))
    ports.ledger.commit(
        RecordBase(key=held.key, base=EMPTY_TABLE if found.head.snapshot is None else found.head.snapshot)
    )
    heartbeat = Heartbeat(ports, held.key)
    asked = _decoding_of(ports, held.pipeline)
    proven = resumed(ports, held, asked, heartbeat) or _staged_anew(ports, held, asked, heartbeat)
    if isinstance(proven, Shortfall):
        return proven
    heartbeat()
    send_first(ports, held)
    # First: what has a receipt is on record as audited, so that an attempt that goes on with it finds it.
    ports.ledger.commit(MarkStaged(key=held.key, audited=proven.snapshot, staged_bytes=proven.bytes))
    ports.lake.table(held.table).add_receipts(receipt_rows(ports, held, proven))
    ports.progress(f"publishing wave {held.key.wave}")
    publish(ports, held, proven, in_doubt)
    return None


def _decoding_of(ports: Ports, pipeline: str) -> Decoding | None:
    """Return what the pipeline asks for now: not at the plan, so that a corrected schema helps what is held."""
    record = ports.ledger.pipeline(pipeline)
    return record.spec.decoding if record else None


def _staged_anew(ports: Ports, held: Claim, asked: Decoding | None, heartbeat: Heartbeat) -> Proven | Shortfall:
    """Stage and audit the wave; where it fails, return what the rest need not wait for."""
    table, give_up = ports.lake.table(held.table), cancelled(held.key.wave)
    refuse_to_lose(
        ports, held.pipeline, table, attempts=held.attempts, ranges=held.ranges, give_up=give_up, why=OTHERWISE_DECODED
    )
    if failed := lighten(ports, held) or _precheck(ports, held, heartbeat):
        return Shortfall(verdicts=failed)
    how = ports.features.decoders(ports, asked, {item.stream.topic for item in held.ranges})
    staged = _stage_or_find(ports, held, how, heartbeat)
    if isinstance(staged, tuple):
        return Shortfall(verdicts=staged)
    ports.ledger.commit(Renew(key=held.key, lease=LEASE))
    audited = audit_attempt(ports, held, staged, heartbeat)
    if audited.stands:
        ports.ledger.commit(MarkStaged(key=held.key, audited=staged.snapshot, staged_bytes=staged.bytes))
        return Shortfall(verdicts=audited.failed, spared=held.key.attempt)
    if failed := (
        audited.failed
        or refuse_fewer(ports, held, staged, heartbeat)
        or ports.features.refuse_undecoded(asked, held, staged)
    ):
        return Shortfall(verdicts=failed)
    return Proven(attempt=held.key, snapshot=staged.snapshot, bytes=staged.bytes, receipts=audited.receipts)


def _stage_or_find(
    ports: Ports, held: Claim, how: tuple[Decoder, ...], heartbeat: Heartbeat
) -> Staged | tuple[Verdict, ...]:
    """Run the job; where it fails over its records, return those that the others need not wait for."""
    try:
        return _stage(ports, held, how, heartbeat=heartbeat)
    except Exception as error:
        if isinstance(error, KafkaLakeError) and not isinstance(error, JobFailedError):
            raise
        if failed := _lost_meanwhile(ports, held):
            return failed

        def again(part: Sequence[RangeRecord], overflowing: Sequence[Slice]) -> Staged:
            return _stage(ports, replace(held, ranges=tuple(part)), how, heartbeat=heartbeat, overflowing=overflowing)

        if found := read_otherwise(ports, held, error, stage=again, heartbeat=heartbeat):
            return found
        raise


def _precheck(ports: Ports, held: Claim, heartbeat: Heartbeat) -> tuple[Verdict, ...]:
    """Find what cannot be read any more, or not now, before a job is started for it.

    What stays unknown beyond the pipeline's patience goes to a wave of its own, so that the others go on.
    """
    seen = check_until_known(ports, held.ranges, timedelta(seconds=held.spec.leader_wait), heartbeat)
    lost = _held(seen)
    if len(lost) + len(seen.unknown) < len(held.ranges):
        return lost + tuple(
            Verdict(range_id=item, state=RangeState.PLANNED, reason=reason) for item, reason in seen.unknown.items()
        )
    if not lost:
        raise UnavailableError(
            f"nothing of wave {held.key.wave} can be read now: {next(iter(seen.unknown.values())).rstrip('.')}. Repeat "
            "when that has changed",
            wave=held.key.wave,
        )
    return lost


def _lost_meanwhile(ports: Ports, held: Claim) -> tuple[Verdict, ...]:
    """Look once more at what an attempt could not read: Kafka may have lost it since the job began."""
    try:
        return _held(check_losses(ports, held.ranges))
    except TransientError as error:
        ports.progress(f"whether Kafka lost offsets of wave {held.key.wave} is not known: {error}")
        return ()


def _held(seen: Losses) -> tuple[Verdict, ...]:
    return tuple(held_by(item, error) for item, error in seen.failed.items())


def _stage(
    ports: Ports, held: Claim, how: tuple[Decoder, ...], *, heartbeat: Heartbeat, overflowing: Sequence[Slice] = ()
) -> Staged:
    job = stage_job(held, how, overflowing)
    if History.of(held.attempts).in_doubt:
        job = careful(ports, job, heartbeat)
    ports.progress(f"staging wave {held.key.wave} with Spark: {len(held.ranges)} ranges, {job.tasks} tasks")
    ports.runner.stage(
        job,
        started=lambda reference: ports.ledger.commit(RecordJob(key=held.key, job=reference)),
        heartbeat=heartbeat,
    )
    staged = ports.lake.table(held.table).staged(held.key.attempt, heartbeat)
    if staged is None:
        raise JobFailedError(
            f"the Spark job of wave {held.key.wave} ended, and its staging branch is empty: run it again",
            wave=held.key.wave,
        )
    return staged


def stage_job(held: Claim, how: tuple[Decoder, ...] = (), overflowing: Sequence[Slice] = ()) -> StageJob:
    """Build the request for a claim's ranges: touching ranges are read as one slice, and what is overflowing apart."""
    asked, apart = SliceSet(item.slice for item in held.ranges), SliceSet(overflowing)
    slices = tuple(asked - apart)
    tasks, per_task = packing(slices, sum(item.estimated_bytes for item in held.ranges), TASK_BYTES)
    return StageJob(
        pipeline=held.pipeline,
        wave=held.key.wave,
        attempt=held.key.attempt,
        table=held.table,
        isolation=held.spec.isolation,
        slices=slices,
        tasks=tasks,
        max_records_per_partition=per_task,
        decoders=how,
        overflowing=tuple(asked & apart),
    )
