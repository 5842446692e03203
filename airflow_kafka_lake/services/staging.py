"""One wave from claim to commit: search the lake, resume or stage, audit, publish."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.accounting import Receipt
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.decoding import Decoding
from airflow_kafka_lake.core.errors import (
    AttemptRejectedError,
    ConcurrentError,
    HeldError,
    JobFailedError,
    SchemaMismatchError,
    StaleFenceError,
    StateError,
    UnexplainedError,
    expected,
)
from airflow_kafka_lake.core.kafka.losses import Losses
from airflow_kafka_lake.core.ledger.attempts import EndAttempt, MarkStaged, RecordBase
from airflow_kafka_lake.core.ledger.guards import Postponement, outcome_of, refuse_paused
from airflow_kafka_lake.core.ledger.records import Claim, RangeDecision, RangeRecord, StagedContent, WaveRecord
from airflow_kafka_lake.core.ledger.reopening import RECEIPT as REOPENED
from airflow_kafka_lake.core.ledger.waves import (
    EMPTY_TABLE,
    AttemptOutcome,
    AttemptRecord,
    Found,
    RangeState,
    WaveState,
)
from airflow_kafka_lake.core.ordering.segments import gate_closed
from airflow_kafka_lake.core.reports.progress import Progress, Step
from airflow_kafka_lake.ports import LakeTable, Ports
from airflow_kafka_lake.services.advance import known_receipts, send_first
from airflow_kafka_lake.services.attempt_audit import audit_attempt, refuse_replacing, refuse_undecoded, remarks_on
from airflow_kafka_lake.services.claims import Heartbeat, InDoubt, claim_wave, ending_on_error
from airflow_kafka_lake.services.identity import check_head, check_losses, known_spec, require_published
from airflow_kafka_lake.services.only_copies import newest_resumable, refuse_to_drop
from airflow_kafka_lake.services.publishing import (
    AuditedAttempt,
    adopt,
    probe,
    publish,
    receipt_rows,
    receipts_left_by,
    replaced,
    require_replaceable,
    rows_replaced,
    topic_ids_of,
)
from airflow_kafka_lake.services.reading import decoders, lost_ranges, read, split_deadly
from airflow_kafka_lake.services.recovery import Shortfall, revoke
from airflow_kafka_lake.services.reporting import describe_landed

OTHERWISE_DECODED = (
    "It was decoded otherwise than the pipeline says now. Put [decode] back as it was and plan once, then "
    f"{remedies.run()} publishes it"
)
"""Why an audited branch is not published."""
UNUSABLE = (AttemptRejectedError, JobFailedError, SchemaMismatchError, UnexplainedError)
"""Errors of a branch that can never be published as it is."""
_POLL_SECONDS = 1.0


def ingest(ports: Ports, wave: str, *, bytes_per_second: int | None = None) -> WaveRecord | Postponement:
    """Bring one wave into the lake and record it; ranges that fail their audit are held, and the rest is published.

    Ranges of partitions that stay unknown, and the rest of those that Kafka cut under a job, go on in a wave of their
    own. `bytes_per_second` is asked for by a run, instead of the pipeline's rate. Returns the wave as it is then, or
    the reason for which it waits. Raises JobFailedError when the Spark job ended without a result (the wave can be
    tried again), UnavailableError when nothing of it can be read now, ConnectionSettingsError where a right is missing
    for it, UnknownOutcomeError when a commit's answer was lost for good, HeldError when every range of the wave ended
    on hold.
    """
    return outcome_of(lambda: _bring(ports, wave, bytes_per_second))


def _bring(ports: Ports, wave: str, bytes_per_second: int | None) -> WaveRecord:
    if (record := ports.ledger.wave(wave)).state is WaveState.COMMITTED:
        require_published(ports, record)
        ports.progress(describe_landed(ports.ledger, record))
        return record
    while (record := ports.ledger.wave(wave)).state is not WaveState.COMMITTED:
        if record.state is WaveState.DISSOLVED:
            raise _nothing_left(record)
        if record.state is WaveState.PLANNED:  # an open one may be in the lake already, and is searched for first
            _pass_gate(ports, wave, record.pipeline)
        try:
            claim = claim_wave(ports, wave, bytes_per_second=bytes_per_second)
        except StateError:
            if ports.ledger.wave(wave).state is record.state:
                raise
            continue  # another process has ended it in between
        if short := _attempt(ports, claim):
            with suppress(ConcurrentError, StateError):  # decided about since: all is looked at again
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
    """Refuse to start a wave that must come later in the order of the records (law L14)."""
    if closed := ports.ledger.gate(wave):
        raise gate_closed(wave, pipeline, closed)


def _attempt(ports: Ports, claim: Claim) -> Shortfall | None:
    """Work on a claimed wave; return the ranges that must be revoked before the rest can be published."""
    in_doubt = InDoubt(claim.attempts)
    with ending_on_error(ports, [claim], in_doubt):
        try:
            short = _work(ports, claim, in_doubt)
        except StaleFenceError:
            # A pause with --now takes the wave from its worker: what it waits for is the resume.
            known = ports.ledger.pipeline(claim.pipeline)
            refuse_paused(known.pauses if known else (), ports.ledger.wave(claim.key.wave).plan)
            raise
        except Exception as error:
            problem = expected(error, f"wave {claim.key.wave} (attempt {claim.key.attempt})", wave=claim.key.wave)
            problem = in_doubt.explained(claim, problem)
            if problem is error:
                raise
            raise problem from error
    if short:
        why = short.verdicts[0]
        failed = AttemptOutcome.FAILED
        ports.ledger.commit(EndAttempt(key=claim.key, outcome=failed, error=why.reason, cause=why.attempt_cause))
    return short


def _work(ports: Ports, claim: Claim, in_doubt: InDoubt) -> Shortfall | None:
    # The worker of an earlier attempt may have died between its commit and the record of it.
    found = probe(ports, claim, claim.attempts)
    in_doubt.searched(found)
    if isinstance(found, Found):
        adopt(ports, claim, found)
        return None
    # Once more under the claim: a person may have reopened what comes before since the first look.
    _pass_gate(ports, claim.key.wave, claim.pipeline)
    check_head(ports, claim.pipeline, claim.table, head=found.head, topic_ids=topic_ids_of(claim))
    require_replaceable(ports.lake.table(claim.table), replaced(claim))
    ports.ledger.commit(
        RecordBase(key=claim.key, base=EMPTY_TABLE if found.head.snapshot is None else found.head.snapshot)
    )
    heartbeat = Heartbeat(ports, claim.key)
    # As the pipeline decodes now, not as it was planned: a corrected schema helps held ranges.
    asked = known_spec(ports.ledger, claim.pipeline).decoding
    proven = _resume(ports, claim, asked, heartbeat) or _stage_anew(
        ports, claim, asked, heartbeat, is_proven=found.head.is_proven
    )
    if isinstance(proven, Shortfall):
        return proven
    heartbeat()
    send_first(ports, claim)
    # Staged before its receipts are written: an attempt that resumes this one looks for its record.
    rows = sum(item.rows for item in proven.receipts)
    offsets = sum(item.range.span for item in claim.ranges)
    heartbeat.watch.end(offsets, f"{count(rows, 'row')}, every offset is accounted for")
    step = heartbeat.watch.begin(Progress(step=Step.PUBLISH, rows_expected=rows))
    size, told = proven.bytes, proven.remarks
    done = MarkStaged(key=claim.key, audited=proven.snapshot, staged_bytes=size, progress=step, remarks=told)
    ports.ledger.commit(done)
    if told:
        ports.progress(f"wave {claim.key.wave}: {told}")
    ports.lake.table(claim.table).add_receipts(receipt_rows(ports, claim, proven))
    publish(ports, claim, proven, in_doubt, watch=heartbeat.watch)
    heartbeat.watch.landed(rows=rows, lake_bytes=proven.bytes)
    return None


def _resume(
    ports: Ports, claim: Claim, asked: Decoding | None, heartbeat: Heartbeat
) -> AuditedAttempt | Shortfall | None:
    """Return the rows that the newest earlier attempt has staged, proven again under this claim; None without them.

    The earlier worker may still live and publish it. Both would commit one branch, which the commit drops: so one of
    them lands, and both find it. Revoking ranges drops the branch.
    Rows that cannot be proven any more are dropped. Rows that are read again on purpose, or were decoded in another way
    than the pipeline asks for now, are staged again.
    """
    if replaced(claim):
        return None
    table = ports.lake.table(claim.table)
    source = newest_resumable(claim.attempts, table)
    if source is None:
        return None
    try:
        proven = _prove_again(ports, claim, source, table=table, asked=asked, heartbeat=heartbeat)
    except UNUSABLE as error:
        why = f"It cannot be published as it is: {error.message.rstrip('.')}"
        refuse_to_drop(ports, claim, table, [source], why=why)
        ports.progress(f"what attempt {source.attempt} has staged of wave {claim.key.wave} is dropped: {error.message}")
        table.drop(source.attempt)
        return None
    if isinstance(proven, AuditedAttempt):
        ports.progress(f"wave {claim.key.wave} goes on with what attempt {source.attempt} has staged: no job is run")
    return proven


def _prove_again(
    ports: Ports, claim: Claim, source: AttemptRecord, *, table: LakeTable, asked: Decoding | None, heartbeat: Heartbeat
) -> AuditedAttempt | Shortfall | None:
    heartbeat.watch.begin(Progress(step=Step.AUDIT, rows_expected=sum(item.range.span for item in claim.ranges)))
    heartbeat.renew()
    staged = table.staged(source.attempt, heartbeat)
    if staged is None or staged.snapshot != source.audited:
        raise AttemptRejectedError("its branch is not what was audited", attempt=source.attempt)
    if staged.decoding != (asked.digest if asked else None):
        return None
    if (receipts := _complete_receipts(ports, claim, source, staged)) is None:
        audited = audit_attempt(ports, claim, staged, heartbeat)
        if audited.rest_is_proven:
            return Shortfall(verdicts=audited.failed, spared=source.attempt)
        if failed := audited.failed or refuse_undecoded(asked, claim, staged):
            raise UnexplainedError(failed[0].reason, attempt=source.attempt)
        receipts = audited.receipts
    return AuditedAttempt(attempt=source.key, snapshot=staged.snapshot, bytes=staged.bytes, receipts=receipts)


def _complete_receipts(
    ports: Ports, claim: Claim, source: AttemptRecord, staged: StagedContent
) -> tuple[Receipt, ...] | None:
    """Return the attempt's own receipts, when they are of this claim's ranges and of every row that is staged.

    They were written when its audit had proven every offset, and prove it for good: Kafka may have deleted the records
    since that would prove it again.
    """
    receipts = receipts_left_by(ports, claim, source.attempt)
    rows = sum(item.offsets.span + item.duplicates for item in staged.streams)
    is_all = len(receipts) == len(claim.ranges) and sum(item.rows for item in receipts.values()) == rows
    return tuple(receipts.values()) if is_all else None


def _stage_anew(
    ports: Ports, claim: Claim, asked: Decoding | None, heartbeat: Heartbeat, *, is_proven: bool
) -> AuditedAttempt | Shortfall:
    """Stage and audit the wave; where some of it fails, return the ranges to revoke.

    The catalog is tried before, unless it `is_proven` that it keeps branches.
    """
    table = ports.lake.table(claim.table)
    refuse_to_drop(ports, claim, table, claim.attempts, why=OTHERWISE_DECODED)
    if not is_proven:
        table.ensure(claim.spec.partition_by)
    if failed := split_deadly(ports, claim) or _precheck(ports, claim, heartbeat):
        return Shortfall(verdicts=failed)
    staged = read(ports, claim, decoders(ports, asked, {item.stream.topic for item in claim.ranges}), heartbeat)
    if isinstance(staged, tuple):
        return Shortfall(verdicts=staged)
    heartbeat.renew()
    audited = audit_attempt(ports, claim, staged, heartbeat)
    if audited.rest_is_proven:
        told = remarks_on(asked, staged)
        ports.ledger.commit(MarkStaged(key=claim.key, audited=staged.snapshot, staged_bytes=staged.bytes, remarks=told))
        return Shortfall(verdicts=audited.failed, spared=claim.key.attempt)
    if audited.failed:
        return Shortfall(verdicts=audited.failed)
    shown = rows_replaced(ports, claim, heartbeat)
    decided = known_receipts(ports, claim.table, claim.pipeline, REOPENED) if replaced(claim) else ()
    if failed := refuse_replacing(claim, staged, shown, decided) or refuse_undecoded(asked, claim, staged):
        return Shortfall(verdicts=failed)
    told, receipts = remarks_on(asked, staged), audited.receipts
    return AuditedAttempt(
        attempt=claim.key, snapshot=staged.snapshot, bytes=staged.bytes, receipts=receipts, replaces=shown, remarks=told
    )


def _precheck(ports: Ports, claim: Claim, heartbeat: Heartbeat) -> tuple[RangeDecision, ...]:
    """Return the ranges that cannot be read any more, or not now, before a job is started for them.

    Ranges of partitions that stay unknown longer than `leader_wait` go to a wave of their own, so that the rest goes
    on.
    """
    losses = _check_until_known(ports, claim.ranges, timedelta(seconds=claim.spec.leader_wait), heartbeat)
    lost = lost_ranges(losses, claim.ranges)
    if len(lost) + len(losses.unknown) < len(claim.ranges):
        return lost + tuple(
            RangeDecision(range_id=item, state=RangeState.PLANNED, reason=error.message)
            for item, error in losses.unknown.items()
        )
    if not lost:
        text = f"nothing of wave {claim.key.wave} can be read now: {{}}. Repeat when that has changed"
        raise losses.refusal(text, wave=claim.key.wave)
    return lost


def _check_until_known(
    ports: Ports, ranges: Sequence[RangeRecord], timeout: timedelta, heartbeat: Callable[[], None]
) -> Losses:
    """Check again while partitions are unknown, such as between two leaders, until they are known or time is over."""
    until = ports.clock.monotonic() + timeout.total_seconds()
    losses = check_losses(ports, ranges)
    while losses.may_change and ports.clock.monotonic() < until:
        heartbeat()
        ports.clock.sleep(_POLL_SECONDS)
        losses = check_losses(ports, ranges)
    return losses
