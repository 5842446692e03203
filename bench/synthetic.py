"""Millions of records without a Kafka: a log that is only numbers, and a job that writes its rows straight away."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from airflow_kafka_lake.adapters.iceberg.table import IcebergLake
from airflow_kafka_lake.core.accounting import Explanation, Fate
from airflow_kafka_lake.core.kafka.losses import EpochEnds, EpochKey
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot, Sample, Snapshot, TopicDescription
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.reports.progress import Counters
from airflow_kafka_lake.core.spark.job import StageJob, Tip, branch_of
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.jobs.formats import STAGED_BY

TOPIC, TOPIC_ID = "bench", "AAAAAAAAAAAAAAAAAAAAAA"
BYTES = 100
AT = datetime(2026, 3, 1, tzinfo=UTC)


class Log:
    """`ports.OffsetSource` and `ports.BatchReader`: `offsets` per partition, each `marker`-th a marker (0: none)."""

    def __init__(self, partitions: int, offsets: int, marker: int) -> None:
        self.partitions, self.offsets, self.marker = partitions, offsets, marker

    def topics(self, names: Sequence[str], pattern: str | None) -> tuple[str, ...]:
        return (TOPIC,)

    def describe(self, topics: Sequence[str]) -> tuple[TopicDescription, ...]:
        return (TopicDescription(topic=TOPIC, topic_id=TOPIC_ID, partitions=self.partitions),)

    def snapshot(
        self, topics: Sequence[str], group: str | None, only: Collection[tuple[str, int]] | None = None
    ) -> Snapshot:
        bounds = {"log_start": 0, "last_stable": self.offsets, "high_watermark": self.offsets}
        return Snapshot(
            observed_at=AT,
            partitions=tuple(
                PartitionSnapshot(stream=Stream(TOPIC, TOPIC_ID, number), leader_epoch=0, **bounds)
                for number in (range(self.partitions) if only is None else sorted(number for _, number in only))
            ),
        )

    def offsets_at(self, partitions: Sequence[tuple[str, int]], timestamp_ms: int) -> Mapping[tuple[str, int], None]:
        return dict.fromkeys(partitions)

    def sample(self, slices: Sequence[Slice], isolation: Isolation) -> tuple[Sample, ...]:
        return tuple(Sample(stream=item.stream, bytes_per_offset=BYTES, first_timestamp_ms=None) for item in slices)

    def epoch_ends(self, epochs: Sequence[EpochKey], known: Mapping[tuple[str, int], int]) -> EpochEnds:
        return dict.fromkeys(epochs, 2**62)

    def explain(
        self,
        gaps: Sequence[Slice],
        isolation: Isolation,
        heartbeat: Callable[[int], None] = lambda _: None,
        *,
        epochs: Mapping[Stream, int],
    ) -> Mapping[Slice, tuple[Explanation, ...]]:
        return {gap: (Explanation(range=gap.range, fate=Fate.CONTROL),) for gap in gaps}

    def visible(self, slice_: OffsetRange) -> np.ndarray:
        """Return the offsets that have a record."""
        found = np.arange(slice_.start, slice_.end, dtype=np.int64)
        return found[found % self.marker != self.marker - 1] if self.marker else found


class Rows:
    """`ports.JobRunner`: stages a wave through PyIceberg in one commit."""

    def __init__(self, log: Log, lake: IcebergLake) -> None:
        self._log, self._lake = log, lake

    def where(self) -> str:
        return "in this process"

    def end_orphan(self, job: str | None, name: str) -> bool:
        return False

    def stage(
        self,
        job: StageJob,
        *,
        started: Callable[[str], None],
        heartbeat: Callable[[], None],
        counted: Callable[[Counters], None] = lambda _: None,
        read: Callable[[Sequence[Tip]], None] = lambda _: None,
    ) -> None:
        started("here/1/1.00")
        table = self._lake.catalog.load(job.table)
        rows = pa.concat_tables([self._rows(s.stream.partition, s.range, job.attempt) for s in job.parts])
        head = table.metadata.current_snapshot_id
        table.manage_snapshots().create_branch(head, branch_of(job.attempt)).commit()
        wanted = rows.cast(table.schema().as_arrow())
        table.append(wanted, snapshot_properties={STAGED_BY: job.attempt}, branch=branch_of(job.attempt))
        read([Tip(slice=part, leader_epoch=0) for part in job.parts])

    def _rows(self, partition: int, slice_: OffsetRange, attempt: str) -> pa.Table:
        offsets = self._log.visible(slice_)
        count = len(offsets)
        header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
        # Sixteen bytes of each value are the record's own: files are not smaller than life by much more than they must.
        values = np.stack((offsets, offsets * np.int64(2654435761)), axis=1).astype("<i8").tobytes()
        return pa.table(
            {
                "key": pa.array(offsets.astype(str)).cast(pa.binary()),
                "value": pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), count, [None, pa.py_buffer(values)]).cast(
                    pa.binary()
                ),
                "headers": pa.nulls(count, pa.list_(header)),
                "kafka_topic": pa.array([TOPIC] * count),
                "kafka_topic_id": pa.array([TOPIC_ID] * count),
                "kafka_partition": pa.array(np.full(count, partition, dtype=np.int32)),
                "kafka_offset": pa.array(offsets),
                "kafka_timestamp": pa.array(offsets, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
                "kafka_timestamp_type": pa.array(np.zeros(count, dtype=np.int32)),
                "kafka_timestamp_raw": pa.nulls(count, pa.int64()),
                "ingest_attempt": pa.array([attempt] * count),
            }
        )
