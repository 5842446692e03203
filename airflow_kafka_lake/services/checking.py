"""Gather what ledger and lake say, and let the checker judge it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_kafka_lake.core.checking import check
from airflow_kafka_lake.core.checking.evidence import (
    Evidence,
    Finding,
    FindingKind,
    LedgerEvidence,
    StreamTruth,
    TableEvidence,
)
from airflow_kafka_lake.core.documents import audit_document
from airflow_kafka_lake.core.errors import DamagedTableError, KafkaLakeError, TransientError, UnknownSubjectError
from airflow_kafka_lake.core.operations import Operation
from airflow_kafka_lake.core.records import Holding
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.core.streams import StreamKey
from airflow_kafka_lake.core.waves import RangeState
from airflow_kafka_lake.ports import Lake, LakeTable, LedgerReader, Ports
from airflow_kafka_lake.services.identity import look_at_table


def audit(ports: Ports, spec: PipelineSpec, history: Sequence[Operation] = ()) -> dict[str, Any]:
    """Compare ledger, lake, receipts and, where given, a history; returns `audit --json`.

    Rows are read from the tables themselves, only the columns that say whose they are. Raises TransientError when
    something could not be read: that is no finding.
    """
    strangers = _strangers(ports, spec)
    evidence = gather(ports.ledger, ports.lake, spec, history=history)
    return audit_document(evidence, (*strangers, *check(evidence)))


def gather(
    ledger: LedgerReader,
    lake: Lake,
    spec: PipelineSpec,
    *,
    truth: Mapping[StreamKey, StreamTruth] | None = None,
    history: Sequence[Operation] = (),
    at_rest: bool = False,
) -> Evidence:
    """Read ledger, tables, ledger: settled ranges before the lake and all else after it, so that a pipeline that goes
    on meanwhile looks neither ahead of its lake nor behind it."""
    name = spec.name
    settled = ledger.ranges(pipeline=name, states=(RangeState.SETTLED,))
    topics = topics_of(ledger, spec)
    topic_ids = sorted(set().union(*topics.values()))
    tables = tuple(_read(lake.table(table), name, topic_ids) for table in topics)
    return Evidence(
        ledger=LedgerEvidence(
            pipeline=name,
            streams=ledger.streams(name),
            ranges=ledger.ranges(pipeline=name),
            settled=settled,
            waves=ledger.waves(name),
            attempts=ledger.attempts(pipeline=name),
        ),
        tables=tables,
        truth=truth or {},
        history=tuple(history),
        at_rest=at_rest,
    )


def topics_of(ledger: LedgerReader, spec: PipelineSpec) -> dict[str, set[str]]:
    """Return the tables that the pipeline writes to, or ever wrote to, sorted, with the topic ids that go there now."""
    streams = ledger.streams(spec.name)
    written = {wave.table for wave in ledger.waves(spec.name) if wave.table}  # the record of a rebuild has none
    topics: dict[str, set[str]] = {
        table: set() for table in sorted(written | {spec.table_for(stream.topic) for stream in streams})
    }
    for stream in streams:
        topics[spec.table_for(stream.topic)].add(stream.topic_id)
    return topics


def _read(table: LakeTable, pipeline: str, topic_ids: Sequence[str]) -> TableEvidence:
    damaged: str | None = None
    holdings: tuple[Holding, ...] = ()
    try:
        holdings = table.holdings(topic_ids)
    except UnknownSubjectError:
        return TableEvidence(identifier=table.identifier)
    except DamagedTableError as error:
        damaged = error.message
    # Commits and receipts after the rows: what is visible was accounted for and committed before.
    return TableEvidence(
        identifier=table.identifier,
        commits=table.commits(),
        holdings=holdings,
        receipts=tuple(row for row in table.all_receipts() if row.pipeline == pipeline),
        damaged=damaged,
    )


def _strangers(ports: Ports, spec: PipelineSpec) -> list[Finding]:
    """Find tables that are not the recorded ones, belong to others, were rolled back, or know more than the ledger."""
    found = []
    for table, topic_ids in topics_of(ports.ledger, spec).items():
        ports.say(f"reading {table}")
        try:
            look_at_table(ports, spec.name, table, sorted(topic_ids))
        except TransientError:
            raise
        except KafkaLakeError as error:
            found.append(Finding(kind=FindingKind.INCONSISTENT, table=table, words=error.message))
    return found
