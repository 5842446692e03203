"""The one stand-in for Spark where lake and ledger are real: what a job does to a table, done by PyIceberg.

`MemoryRunner` reads records and judges what fails, as it does in memory; `TableJobs` is the table it writes to. The two
pass the same tests as Spark does, `tests/contracts/test_job_runner.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.exceptions import BadRequestError, CommitFailedException
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, StringType

from airflow_kafka_lake.core.decoding import ERROR_COLUMN
from airflow_kafka_lake.core.errors import JobFailedError
from airflow_kafka_lake.core.kafka.batches import EARLIEST_MS, LATEST_MS, NO_TIMESTAMP
from airflow_kafka_lake.core.ledger.records import UndecodedOffsets
from airflow_kafka_lake.core.offsets import Stream
from airflow_kafka_lake.core.spark.job import branch_of
from airflow_kafka_lake.jobs.formats import DECODED_AS, STAGED_BY
from tests.kit.memory_runner import Position

if TYPE_CHECKING:
    from airflow_kafka_lake.jobs.decoding.redecode import RedecodeJob

Load = Callable[[str], Table]
Decoded = Callable[[bytes | None], Mapping[str, Any]]

MOVED = (CommitFailedException, ValueError, BadRequestError)
"""The errors of PyIceberg when another commit was first: the last two are for a column or a sequence number of theirs,
found by PyIceberg or by a REST server."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TableJobs:
    """`adapters.memory_runner.Stage` over real tables; `load` gives a table by its name.

    `columns` are those that decoding adds, and `decoded` gives a value's; where there are none, what did not decode
    still says why.
    """

    def __init__(
        self, load: Load, *, columns: Mapping[str, IcebergType] | None = None, decoded: Decoded = lambda _: {}
    ) -> None:
        self._load = load
        self._columns = columns or {}
        self._decoded = decoded

    def begin(self, identifier: str, attempt: str) -> None:
        """Create an attempt's branch at main's head; an existing one is an error."""
        table = self._load(identifier)
        if branch_of(attempt) in table.metadata.refs:
            raise JobFailedError(f"Branch {branch_of(attempt)} exists already.", reason="branch-exists")
        try:
            begin(table, attempt)
        except MOVED as error:
            raise JobFailedError(f"the branch could not be made: {error}", attempt=attempt) from error

    def stage(
        self,
        identifier: str,
        attempt: str,
        rows: Iterable[Position],
        *,
        undecoded: Sequence[UndecodedOffsets] = (),
        decoding: str | None = None,
        filled: object = None,
    ) -> None:
        """Commit rows to the attempt's branch, some of which did not decode."""
        table = self._load(identifier)
        columns = {**({ERROR_COLUMN: StringType()} if undecoded else {}), **self._columns}
        table = widened(table, columns)
        wrong = {item.stream: item for item in undecoded}

        def error(row: Position) -> dict[str, Any]:
            found = wrong.get(Stream(*row[:3]))
            return {ERROR_COLUMN: found.reason} if found is not None and row[3] in found.offsets else {}

        told = [{**landed(row, attempt), **error(row), **self._decoded(row[5])} for row in rows]
        try:
            commit(table, attempt, told, decoding)
        except Exception as error:
            if is_staged(self._load(identifier), attempt):
                return
            if not isinstance(error, MOVED):
                raise
            raise JobFailedError(f"the staging commit failed: {error}", attempt=attempt) from error

    def records(self, identifier: str, snapshot: int) -> Iterable[Position]:
        """Return the rows that a snapshot shows."""
        table = self._load(identifier)
        if table.snapshot_by_id(snapshot) is None:
            raise JobFailedError(f"Snapshot {snapshot} of {identifier} is gone.", table=identifier)
        return [position(row) for row in table.scan(snapshot_id=snapshot).to_arrow().to_pylist()]

    def redecode(self, job: RedecodeJob, problem: Callable[[str, bytes | None], str | None]) -> dict[str, Any]:
        """Commit main's rows to the job's branch, those that it is about decoded again."""
        table = widened(self._load(job.table), {ERROR_COLUMN: StringType(), **self._columns})
        topics = {topic for decoder in job.decoders for topic in decoder.topics}
        base, errors = table.metadata.current_snapshot_id, list[str | None]()

        def again(row: Mapping[str, Any]) -> Mapping[str, Any]:
            mine = row["ingest_attempt"] is not None and row["kafka_topic"] in topics
            if not mine or (job.only_failed and row[ERROR_COLUMN] is None):
                return row
            made = {**row, ERROR_COLUMN: problem(row["kafka_topic"], row["value"]), **self._decoded(row["value"])}
            errors.append(made[ERROR_COLUMN])
            return made

        if base is None:
            return {"rows": 0, "failed": 0}
        try:
            staged = rewrite(table, job.branch, again)
        except MOVED as error:
            forget(table, job.branch)
            raise JobFailedError(f"the staging commit failed: {error}", table=job.table) from error
        if not errors:
            forget(table, job.branch)
            return {"rows": 0, "failed": 0}
        failed = sum(error is not None for error in errors)
        return {"rows": len(errors), "failed": failed, "base": base, "staged": staged}


def rewrite(table: Table, branch: str, again: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> int:
    """Commit main's rows to a new branch, each as it is made `again`; return the branch's snapshot."""
    head = table.metadata.current_snapshot_id
    assert head is not None
    rows = [dict(again(row)) for row in table.scan(snapshot_id=head).to_arrow().to_pylist()]
    table.manage_snapshots().create_branch(head, branch).commit()
    table.overwrite(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()), branch=branch)
    return table.metadata.refs[branch].snapshot_id


def forget(table: Table, branch: str) -> None:
    """Drop a branch, if there is one."""
    while branch in table.refresh().metadata.refs:
        with suppress(*MOVED):
            table.manage_snapshots().remove_branch(branch).commit()


def begin(table: Table, attempt: str) -> None:
    """Create an attempt's branch, as a job does that then dies."""
    head = table.metadata.current_snapshot_id
    assert head is not None
    table.manage_snapshots().create_branch(head, branch_of(attempt)).commit()


def commit(table: Table, attempt: str, rows: list[dict[str, Any]], decoding: str | None = None) -> None:
    """Commit rows to an attempt's branch, also none."""
    said = {STAGED_BY: attempt, **({DECODED_AS: decoding} if decoding else {})}
    data = pa.Table.from_pylist(rows, schema=table.schema().as_arrow())
    table.append(data, snapshot_properties=said, branch=branch_of(attempt))


def is_staged(table: Table, attempt: str) -> bool:
    """Return whether an attempt's rows are on its branch, whatever was answered to their commit."""
    head = table.snapshot_by_name(branch_of(attempt))
    return (
        head is not None and head.summary is not None and head.summary.additional_properties.get(STAGED_BY) == attempt
    )


def widened(table: Table, columns: Mapping[str, IcebergType]) -> Table:
    """Give a table the columns it lacks, in a commit of their own, as a job does; another may do it too."""
    while lacking := [name for name in columns if name not in table.schema().column_names]:
        try:
            with table.update_schema() as changed:
                for name in lacking:
                    changed.add_column(name, columns[name])
        except MOVED:
            table.refresh()
    return table


def landed(row: Position, attempt: str) -> dict[str, Any]:
    """Return a record as the row that a job lands."""
    topic, topic_id, partition, offset, key, value, headers, timestamp_ms = row
    holdable = EARLIEST_MS <= timestamp_ms <= LATEST_MS and timestamp_ms != NO_TIMESTAMP
    return {
        "key": key,
        "value": value,
        "headers": [{"key": name, "value": content} for name, content in headers] or None,
        "kafka_topic": topic,
        "kafka_topic_id": topic_id,
        "kafka_partition": partition,
        "kafka_offset": offset,
        "kafka_timestamp": _EPOCH + timedelta(milliseconds=timestamp_ms) if holdable else None,
        "kafka_timestamp_type": 0,
        "kafka_timestamp_raw": None if holdable else timestamp_ms,
        "ingest_attempt": attempt,
    }


def position(row: Mapping[str, Any]) -> Position:
    """Return what a landed row holds of its record."""
    raw, moment = row["kafka_timestamp_raw"], row["kafka_timestamp"]
    return (
        row["kafka_topic"],
        row["kafka_topic_id"],
        row["kafka_partition"],
        row["kafka_offset"],
        row["key"],
        row["value"],
        tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        round((moment - _EPOCH) / timedelta(milliseconds=1)) if raw is None else raw,
    )
