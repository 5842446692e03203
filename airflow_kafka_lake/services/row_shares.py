"""What the pieces of a committed range count, when a reopen cuts it: asked of the lake, and of Kafka's batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import IdentityError
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.reopening import Share, parts, to_be_shared
from airflow_kafka_lake.core.ledger.shares import shares
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.slices import Slice
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Ports


def count_shares(
    ports: Ports,
    spec: PipelineSpec,
    table: str,
    *,
    interval: OffsetRange,
    ranges: Sequence[RangeRecord],
    seen: PartitionSnapshot,
) -> Mapping[tuple[str, OffsetRange], Share]:
    """Share the numbers of ranges that are cut: rows by the lake, the rest by what Kafka's batches still say."""
    found: dict[tuple[str, OffsetRange], Share] = {}
    for item in to_be_shared(ranges, interval):
        ports.progress(f"counting the rows of {item.range}, which is cut")
        visible = RangeSet.union(holding.offsets for holding in ports.lake.table(table).visible([item.slice]))
        readable = OffsetRange(max(item.range.start, seen.log_start), item.range.end)
        gaps = [Slice(item.stream, gap) for gap in visible.gaps(readable)]
        said = ports.batches.explain(gaps, spec.isolation) if gaps else {}
        assert item.accounting is not None
        try:
            numbers = shares(
                item.accounting, parts(item, interval), visible, [e for each in said.values() for e in each]
            )
        except ValueError as error:
            raise IdentityError(
                f"the table shows other rows of range {item.range} than were published ({error}). See "
                f"{remedies.audit(spec.name)}; the whole range can be reopened: "
                f"--from {item.range.start} --to {item.range.end}",
                range=item.id,
            ) from None
        for part, accounting in zip(parts(item, interval), numbers, strict=True):
            found[item.id, part] = Share(accounting=accounting, visible=visible)
    return found
