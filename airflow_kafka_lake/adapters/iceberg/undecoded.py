"""Which offsets of staged rows did not decode, and why the first of each stream did not."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from airflow_kafka_lake.adapters.iceberg.runs import POSITION, Runs
from airflow_kafka_lake.core.decoding import ERROR_COLUMN
from airflow_kafka_lake.core.ledger.records import Undecoded
from airflow_kafka_lake.core.slices import Stream

_STREAM = list(POSITION[:3])


class Failures:
    """Collects row groups; those without the column of errors have none."""

    def __init__(self) -> None:
        self._offsets = Runs()
        self._first: dict[Stream, tuple[int, str]] = {}

    def add(self, group: pa.Table, where: str) -> None:
        """Take the rows of one row group that carry an error."""
        if ERROR_COLUMN not in group.column_names or group.column(ERROR_COLUMN).null_count == group.num_rows:
            return
        failed = group.filter(pc.is_valid(group.column(ERROR_COLUMN)))
        self._offsets.add(failed, where)
        plain = failed.select([*POSITION, ERROR_COLUMN])
        for number, name in enumerate(_STREAM[:2]):
            plain = plain.set_column(number, name, plain.column(name).cast(pa.string()))
        first = plain.sort_by("kafka_offset").group_by(_STREAM, use_threads=False)
        for row in first.aggregate([("kafka_offset", "first"), (ERROR_COLUMN, "first")]).to_pylist():
            self._note(
                Stream(*(row[name] for name in _STREAM)), row["kafka_offset_first"], row[f"{ERROR_COLUMN}_first"]
            )

    def merge(self, other: Failures) -> None:
        """Take over what another one collected."""
        self._offsets.merge(other._offsets)
        for stream, (offset, reason) in other._first.items():
            self._note(stream, offset, reason)

    def found(self) -> tuple[Undecoded, ...]:
        """Return every stream with failures, sorted."""
        return tuple(
            Undecoded(
                stream=item.stream,
                offsets=item.offsets,
                reason=self._first[item.stream][1],
            )
            for item in self._offsets.contents()
        )

    def _note(self, stream: Stream, offset: int, reason: str) -> None:
        self._first[stream] = min((offset, reason), self._first.get(stream, (offset, reason)))
