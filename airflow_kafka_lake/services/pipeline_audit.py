"""Audit a pipeline: gather ledger, lake and receipts, and check them against each other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.audit.check import (
    AuditInputs,
    Finding,
    FindingKind,
    LedgerInputs,
    TableInputs,
    check,
    offsets_seen,
)
from airflow_kafka_lake.core.audit.report import AuditReport, ObservedBounds, StreamBounds, about, audited_streams
from airflow_kafka_lake.core.errors import (
    DamagedTableError,
    KafkaLakeError,
    StateError,
    TransientError,
    UnavailableError,
    UnknownSubjectError,
    UsageError,
)
from airflow_kafka_lake.core.kafka.losses import believed
from airflow_kafka_lake.core.ledger.decisions import needed_reason
from airflow_kafka_lake.core.ledger.deletions import RECEIPT as DELETED
from airflow_kafka_lake.core.ledger.deletions import AcceptDeletes, DeletedRange, undecided, unrecorded
from airflow_kafka_lake.core.ledger.records import AttemptRows, StreamRecord
from airflow_kafka_lake.core.ledger.reopening import RECEIPT as REOPENED
from airflow_kafka_lake.core.ledger.waves import RESOLVED, UNRESOLVED
from airflow_kafka_lake.core.offsets import OffsetRange, offsets_by
from airflow_kafka_lake.core.planning.selection import EVERYTHING, StreamScope
from airflow_kafka_lake.core.reports.streams import UnknownState, bounds_states
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Lake, LakeTable, LedgerReader, Ports
from airflow_kafka_lake.services.advance import flush
from airflow_kafka_lake.services.claims import new_id
from airflow_kafka_lake.services.cutover import CutoverCheck
from airflow_kafka_lake.services.deep_audit import DeepCheck
from airflow_kafka_lake.services.identity import check_table
from airflow_kafka_lake.services.reporting import observe

FurtherCheck = DeepCheck | CutoverCheck


def further_checks(
    *, deep: bool = False, deep_rate: int | None = None, cutover: str | None = None, cutover_columns: str | None = None
) -> tuple[FurtherCheck, ...]:
    """Return the checks that a person asks for beside the comparison of ledger and lake.

    Raises UsageError for an option without the one that it refines.
    """
    if deep_rate and not deep:
        raise UsageError("--deep-rate bounds what --deep reads: give --deep too")
    if cutover_columns and not cutover:
        raise UsageError("--cutover-columns names columns of the table that --cutover names: give --cutover too")
    found: list[FurtherCheck] = []
    if deep:
        found.append(DeepCheck(bytes_per_second=deep_rate))
    if cutover:
        found.append(CutoverCheck(table=cutover, columns=cutover_columns))
    return tuple(found)


def audit(
    ports: Ports,
    spec: PipelineSpec,
    *,
    scope: StreamScope = EVERYTHING,
    ask_kafka: bool = False,
    checks: Sequence[FurtherCheck] = (),
) -> AuditReport:
    """Compare ledger, lake and receipts.

    Rows are read from the tables themselves, only the columns that name their attempt and offset. `ask_kafka` adds
    Kafka's bounds; a Kafka that does not answer is no finding. `checks` are those of `further_checks`.
    Raises TransientError when anything else could not be read, which is no finding either, and UnknownSubjectError when
    no stream is in scope.
    """
    scope.require(spec.name, ports.ledger.streams(spec.name))
    foreign = _foreign_owners(ports, spec, scope)
    inputs = gather_audit(ports.ledger, ports.lake, spec, scope=scope)
    for further in checks:
        inputs = further.narrow(inputs)
    observed = observe_streams(ports, spec, inputs.ledger.streams) if ask_kafka or checks else ObservedBounds()
    if checks:
        _require_observed(observed, inputs.ledger.streams, scope)
    parts = {further.name: further.check(ports, spec, inputs, observed, scope) for further in checks}
    found = [*check(inputs), *(item for part in parts.values() for item in part.findings())]
    findings = about(scope, inputs, (*foreign, *sorted(found, key=lambda item: item.place)))
    segments = ports.ledger.segments(spec.name)
    return AuditReport(
        pipeline=spec.name,
        at=ports.clock.now(),
        streams=tuple(audited_streams(inputs, findings, segments, scope=scope, observed=observed)),
        findings=findings,
        checks=parts,
        scope=scope,
    )


def observe_streams(ports: Ports, spec: PipelineSpec, streams: Sequence[StreamRecord]) -> ObservedBounds:
    """Ask Kafka for the bounds of streams; for a stream without bounds the reason is kept."""
    seen = observe(ports.source, sorted({stream.key.topic for stream in streams}), spec.end.group).snapshot
    if isinstance(seen, str):
        return ObservedBounds(states={stream.key: UnknownState(seen) for stream in streams})
    seen = believed(seen, {stream.key: stream.leader_epoch for stream in streams})
    return ObservedBounds(
        bounds={
            item.stream: StreamBounds(
                log_start=item.log_start,
                readable_end=item.readable_end(spec.isolation),
                group_offset=item.group_offset,
                leader_epoch=item.leader_epoch,
            )
            for item in seen.partitions
        },
        states=bounds_states(streams, seen),
    )


def _require_observed(observed: ObservedBounds, streams: Sequence[StreamRecord], scope: StreamScope) -> None:
    """Refuse an audit that needs Kafka, when Kafka does not answer."""
    for stream in streams:
        state = observed.states.get(stream.key, "")
        if stream.key in scope and isinstance(state, UnknownState):
            raise UnavailableError(
                f"the bounds of {stream.key} are {state}. Audit again when Kafka answers",
                **stream.key.facts,
            )


def gather_audit(
    ledger: LedgerReader, lake: Lake, spec: PipelineSpec, *, scope: StreamScope = EVERYTHING
) -> AuditInputs:
    """Read ledger, tables, ledger, each ledger at one moment: ranges committed before the lake was read have their rows
    there, and all that the lake has is on record after it. So a pipeline that goes on meanwhile seems neither ahead of
    its lake nor behind it.

    Only tables of the scope are read: findings about other streams mean nothing then.
    """
    before = _ledger_inputs(ledger, spec.name)
    histories = {table: _history(lake.table(table)) for table in _topics_of(before, spec, scope)}
    # After the histories: every topic that they have a publish of is on record.
    topic_ids = sorted({stream.key.topic_id for stream in ledger.streams(spec.name)})
    tables = tuple(
        _read(ledger, lake.table(table), spec.name, topic_ids=topic_ids, behind=behind)
        for table, behind in histories.items()
    )
    return AuditInputs(before=before, ledger=_ledger_inputs(ledger, spec.name), tables=tables)


def _ledger_inputs(ledger: LedgerReader, pipeline: str) -> LedgerInputs:
    return ledger.at_once(
        lambda read: LedgerInputs(
            pipeline=pipeline,
            streams=read.streams(pipeline),
            ranges=read.ranges(pipeline=pipeline),
            waves=read.waves(pipeline),
            attempts=read.attempts(pipeline=pipeline),
        )
    )


def topics_of(ledger: LedgerReader, spec: PipelineSpec, scope: StreamScope = EVERYTHING) -> dict[str, list[str]]:
    """Return the tables that the scope's streams go to, or ever went to, sorted, with the topic ids that go there now.

    Tables written so far are those of waves, in a scope of waves with ranges in it; a rebuild's waves may have none.
    """
    return _topics_of(_ledger_inputs(ledger, spec.name), spec, scope)


def _topics_of(ledger: LedgerInputs, spec: PipelineSpec, scope: StreamScope) -> dict[str, list[str]]:
    in_scope = {item.wave for item in ledger.ranges if item.stream in scope}
    tables = {wave.table for wave in ledger.waves if wave.table and (scope == EVERYTHING or wave.id in in_scope)}
    tables |= {spec.table_for(stream.key.topic) for stream in ledger.streams if stream.key in scope}
    there = spec.tables_of(stream.key for stream in ledger.streams)
    return {table: there.get(table, []) for table in sorted(tables)}


def _history(table: LakeTable) -> frozenset[int]:
    try:
        return frozenset(commit.snapshot for commit in table.commits())
    except UnknownSubjectError:
        return frozenset()


def _read(
    ledger: LedgerReader, table: LakeTable, pipeline: str, *, topic_ids: Sequence[str], behind: frozenset[int]
) -> TableInputs:
    damaged: str | None = None
    attempt_rows: tuple[AttemptRows, ...] = ()
    try:
        attempt_rows = table.attempt_rows(topic_ids)
    except UnknownSubjectError:
        return TableInputs(identifier=table.identifier)
    except DamagedTableError as error:
        damaged = error.message
    # Commits and receipts after the rows: visible rows were accounted for and committed before. Anything that waits for
    # the lake before the receipts there: it is in one of the two.
    waiting = [item for item in ledger.outbox(pipeline) if item.row.kind in {DELETED, REOPENED}]
    return TableInputs(
        identifier=table.identifier,
        commits=table.commits(),
        behind_rows=behind,
        attempt_rows=attempt_rows,
        receipts=(
            *(row for row in table.all_receipts() if row.pipeline == pipeline),
            *(item.row for item in waiting if item.table == table.identifier),
        ),
        damaged=damaged,
    )


def _foreign_owners(ports: Ports, spec: PipelineSpec, scope: StreamScope) -> list[Finding]:
    """Find tables that are not the recorded ones, belong to others, were rolled back, or know more than the ledger."""
    found = []
    for table, topic_ids in topics_of(ports.ledger, spec, scope).items():
        ports.progress(f"reading {table}")
        try:
            check_table(ports, spec.name, table, topic_ids)
        except TransientError:
            raise
        except KafkaLakeError as error:
            found.append(Finding(kind=FindingKind.INCONSISTENT, table=table, message=error.message))
    return found


# Rows that were deleted from the lake on purpose, by retention or by an erasure request.


def digest_of(deleted: Iterable[DeletedRange]) -> str:
    """Return 16 hex digits for which rows are missing."""
    rows = [[found.item.id, found.before, found.rows, found.offsets.to_pairs()] for found in deleted]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]


def accept_deletes(
    ports: Ports,
    spec: PipelineSpec,
    scope: StreamScope,
    asked: OffsetRange | None,
    *,
    reason: str,
    dry_run: bool = False,
    shown: str | None = None,
) -> tuple[str | None, tuple[DeletedRange, ...]]:
    """Record for each committed range how many of its rows are missing now, as deleted on purpose; safe to repeat.

    Returns the id of the decision, None for a dry run, and the deletes.

    Raises IdentityError for a table that was rolled back, whose rows were not deleted, DamagedTableError for one
    whose files are missing, StateError when no row is missing, or when only a part of a range is asked for and the
    number of rows that it had is unknown, or when other rows are missing than those of the digest that was `shown`.
    """
    reason = needed_reason(reason)
    scope.require(spec.name, ports.ledger.streams(spec.name))
    for table, topic_ids in topics_of(ports.ledger, spec, scope).items():
        check_table(ports, spec.name, table, topic_ids)
    inputs = gather_audit(ports.ledger, ports.lake, spec, scope=scope)
    for item in inputs.tables:
        if item.damaged:
            raise DamagedTableError(f"{item.damaged}. Nothing was recorded", table=item.identifier)
    seen = offsets_seen(inputs)
    landed = [item for item in inputs.landed if item.stream in scope]
    found = tuple(unrecorded(landed, seen, inputs.deletions, asked))
    if not found:
        waiting = (item for item in inputs.ledger.ranges if item.state in UNRESOLVED and item.stream in scope)
        again = next((item.slice for item in waiting if item.generation), None)
        beside = f". {again} is to be read again: that run is held where rows of it were deleted since" if again else ""
        raise StateError(
            f"no row of pipeline {spec.name} is gone from the lake there, beyond what is recorded: nothing to record"
            f"{beside}. See {remedies.audit(spec.name)}",
            pipeline=spec.name,
        )
    if problem := undecided(found):
        raise StateError(problem, pipeline=spec.name)
    if dry_run:
        return None, found
    if shown not in (None, digest_of(found)):
        raise StateError("these are not the rows that were shown. Nothing was recorded; show it again, and decide then")
    decision, now = new_id(), ports.clock.now()
    receipts = [(inputs.tables_of_waves[item.item.wave], item.receipt(decision, now)) for item in found]
    meant = offsets_by((item.item.stream, item.item.range) for item in found)
    ranges = [row for row in inputs.before.ranges if row.state in RESOLVED and meant[row.stream].within(row.range)]
    how = {"decision": decision, "reason": reason, "actor": ports.actor}
    ports.ledger.commit(AcceptDeletes(pipeline=spec.name, receipts=receipts, ranges=ranges, **how))
    flush(ports, spec.name)
    return decision, found
