"""A person's decision that rows were deleted from the lake on purpose, by retention or by an erasure request."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.audit.check import offsets_seen
from airflow_kafka_lake.core.audit.report import AuditScope
from airflow_kafka_lake.core.errors import DamagedTableError, StateError
from airflow_kafka_lake.core.ledger.deletions import (
    AcceptDeletes,
    DeletedRange,
    undecided,
    unrecorded,
)
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.advance import flush
from airflow_kafka_lake.services.claims import new_id
from airflow_kafka_lake.services.decisions import needed_reason
from airflow_kafka_lake.services.identity import check_table
from airflow_kafka_lake.services.pipeline_audit import gather_audit, require_scope, topics_of


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedDeletes:
    """The deletes recorded, or to be recorded: `decision` is None for a dry run."""

    decision: str | None
    deleted: tuple[DeletedRange, ...]

    @property
    def rows(self) -> int:
        """The number of deleted rows."""
        return sum(item.rows for item in self.deleted)


def accept_deletes(
    ports: Ports,
    spec: PipelineSpec,
    scope: AuditScope,
    asked: OffsetRange | None,
    *,
    reason: str,
    dry_run: bool = False,
) -> AcceptedDeletes:
    """Record for each committed range how many of its rows are missing now, as deleted on purpose; safe to repeat.

    Raises IdentityError for a table that was rolled back, whose rows were not deleted, DamagedTableError for one
    whose files are missing, StateError when no row is missing, or when only a part of a range is asked for and the
    number of rows that it had is unknown.
    """
    reason = needed_reason(reason)
    require_scope(ports.ledger, spec, scope)
    for table, topic_ids in topics_of(ports.ledger, spec, scope).items():
        check_table(ports, spec.name, table, sorted(topic_ids))
    inputs = gather_audit(ports.ledger, ports.lake, spec, scope=scope)
    for item in inputs.tables:
        if item.damaged:
            raise DamagedTableError(f"{item.damaged}. Nothing was recorded", table=item.identifier)
    seen = offsets_seen(inputs)
    committed = [item for item in inputs.committed if item.stream in scope]
    found = tuple(unrecorded(committed, seen, inputs.deletions, asked))
    if not found:
        raise StateError(
            f"no row of pipeline {spec.name} is gone from the lake there, beyond what is recorded: nothing to record. "
            f"See {remedies.audit(spec.name)}",
            pipeline=spec.name,
        )
    if problem := undecided(found):
        raise StateError(problem, pipeline=spec.name)
    if dry_run:
        return AcceptedDeletes(decision=None, deleted=found)
    decision, now = new_id(), ports.clock.now()
    tables = {wave.id: wave.table for wave in inputs.ledger.waves}
    receipts = [(tables[item.item.wave], item.receipt(decision, now)) for item in found]
    ports.ledger.commit(
        AcceptDeletes(pipeline=spec.name, receipts=receipts, decision=decision, reason=reason, actor=ports.actor)
    )
    flush(ports, spec.name)
    return AcceptedDeletes(decision=decision, deleted=found)
