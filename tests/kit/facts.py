"""The parts of values that go into a history: numbers and ids, by an allow-list; never a setting, reason or record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from airflow_kafka_lake.core.accounting import Accounting, Receipt
from airflow_kafka_lake.core.decoding import RegisteredSchema
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot, Snapshot, UnknownPartition
from airflow_kafka_lake.core.ledger.records import (
    Advance,
    AttemptRows,
    Claim,
    Commit,
    Publication,
    RangeDecision,
    RangeRecord,
    ReceiptRow,
    StagedContent,
)
from airflow_kafka_lake.core.ledger.reopening import Cut, ReopenDecision
from airflow_kafka_lake.core.ledger.waves import (
    Absent,
    AttemptKey,
    AttemptRecord,
    Committed,
    Found,
    LeaseHolder,
    Rejected,
    TableHead,
    Token,
    Unclear,
)
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice
from airflow_kafka_lake.core.planning.plan import Plan, PlannedRange, PlannedWave
from airflow_kafka_lake.core.spark.job import PositionColumns, StageJob
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.core.wire import timestamp
from airflow_kafka_lake.jobs.compare import CompareJob

LONGEST = 20_000
"""More items than this are only counted, such as all receipts of the lake."""

TOLD: dict[type, tuple[str, ...]] = {
    Absent: ("head",),
    Accounting: ("visible", "control", "aborted", "compacted", "skipped", "unexplained"),
    Advance: ("sequence", "stream", "start", "end", "rows"),
    AttemptKey: ("wave", "fence", "attempt"),
    AttemptRecord: ("wave", "fence", "attempt", "base", "audited", "outcome"),
    Claim: ("key", "table", "ranges", "attempts"),
    Commit: ("snapshot", "parent", "token"),
    Cut: ("record", "source"),
    Committed: ("snapshot",),
    Found: ("attempt", "snapshot", "head"),
    Slice: ("stream", "range"),
    AttemptRows: ("attempt", "stream", "offsets", "duplicates"),
    PartitionSnapshot: ("stream", "leader_epoch", "log_start", "last_stable", "high_watermark"),
    PositionColumns: ("topic", "partition", "offset"),
    Plan: ("id", "spec", "waves"),
    PlannedRange: ("id", "slice"),
    PlannedWave: ("id", "table", "ranges"),
    Publication: ("head", "audited", "token", "replaces"),
    RangeRecord: ("id", "slice", "state", "generation"),
    Receipt: ("slice", "rows", "accounting"),
    ReceiptRow: ("wave", "attempt", "fence", "kind", "slice", "generation", "rows", "accounting"),
    RegisteredSchema: ("id", "version", "format"),
    Rejected: ("requirement",),
    ReopenDecision: ("id", "pipeline", "stream", "interval", "version", "token", "cuts"),
    Snapshot: ("partitions", "unknown"),
    StagedContent: ("snapshot", "bytes"),
    StageJob: ("wave", "attempt", "table", "slices"),
    TableHead: ("uuid", "snapshot"),
    Token: ("pipeline", "wave", "attempt", "fence", "ranges", "kind"),
    CompareJob: ("pipeline", "table", "snapshot", "slices"),
    Unclear: ("head",),
    UnknownPartition: ("topic", "topic_id", "partition"),
    RangeDecision: ("range_id", "state"),
}
"""Type → the fields that are recorded. Of any other type only its name is."""

UNTOLD = frozenset({"reason", "error", "started", "heartbeat", "counted"})
"""Arguments that are free text or no values."""


def arguments(given: Mapping[str, object]) -> dict[str, Any]:
    """Return the arguments of a call as JSON values."""
    return {name: fact(value) for name, value in given.items() if name not in UNTOLD}


def answer(value: object) -> dict[str, Any]:
    """Return the answer of a call as a JSON object; what is no object is called `value`."""
    found = fact(value)
    return found if isinstance(found, dict) else {} if found is None else {"value": found}


def fact(value: object) -> Any:
    """Return a value as JSON: the fields of `TOLD`, ranges as `[start, end]`, times as RFC 3339, spans in seconds."""
    if fields := TOLD.get(type(value)):
        return {name: fact(getattr(value, name)) for name in fields}
    if isinstance(value, tuple | list):
        return [fact(item) for item in value] if len(value) <= LONGEST else {"items": len(value)}
    for kind, written in _AS.items():
        if isinstance(value, kind):
            return written(value)
    return type(value).__name__


_AS: Mapping[type, Callable[[Any], Any]] = {
    type(None): lambda _: None,
    Enum: lambda value: value.value,
    int: lambda value: value,
    float: lambda value: value,
    str: lambda value: value,
    datetime: timestamp,
    timedelta: lambda value: value.total_seconds(),
    LeaseHolder: str,
    OffsetRange: lambda value: [value.start, value.end],
    RangeSet: lambda value: value.to_pairs() if value.range_count <= LONGEST else {"ranges": value.range_count},
    PipelineSpec: lambda value: {"name": value.name, "digest": value.digest},
}
"""How values without fields of their own are written."""
