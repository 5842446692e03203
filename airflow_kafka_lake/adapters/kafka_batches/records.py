"""Read the record batches of a Fetch answer; no key or value of a record is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from airflow_kafka_lake.adapters.kafka_python import LegacyRecordBatch, MemoryRecords, errors
from airflow_kafka_lake.core.errors import UnavailableError
from airflow_kafka_lake.core.kafka.batches import Batch, Control
from airflow_kafka_lake.core.kafka.timestamps import is_beyond_spark
from airflow_kafka_lake.core.lake.staging import Tip, record_digest
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.slices import Slice, Stream

_LAST_CODEC = 4
_NOTHING = RangeSet()


def opened(data: bytes) -> list[Any]:
    """Split an answer into its batches, bodies unread; a last one that was cut off is left out."""
    with _readable():
        return list(MemoryRecords(data))


def end_of(batch: Any) -> int:
    """Return the offset behind the last one that a batch owns."""
    # A compressed message of the formats before transactions carries the offset of the last message inside it.
    return (batch.base_offset if isinstance(batch, LegacyRecordBatch) else batch.last_offset) + 1


def facts(batches: Sequence[Any], wanted: RangeSet) -> tuple[Batch, ...]:
    """Return the facts of opened batches, in order; a batch can be read once.

    Of batches that own no wanted offset only the header is read: all their offsets are given as present. A wanted batch
    whose body cannot be read has the reason as `damage`. Raises UnavailableError for bytes that are no batch.
    """
    ranges, at = wanted.ranges, 0
    found = []
    with _readable():
        for batch in batches:
            if isinstance(batch, LegacyRecordBatch):
                found.append(_legacy(batch))
                continue
            while at < len(ranges) and ranges[at].end <= batch.base_offset:
                at += 1
            found.append(_facts(batch, wanted=at < len(ranges) and ranges[at].start <= batch.last_offset))
    return tuple(found)


def record_at(data: bytes, stream: Stream, offset: int) -> Tip | None:
    """Return the record that an answer has at an offset, if there is one that can be read."""
    for batch in opened(data):
        if isinstance(batch, LegacyRecordBatch) or not batch.base_offset <= offset <= batch.last_offset:
            continue
        with _readable():
            record = next((item for item in batch if item.offset == offset), None)
        if record is None:
            return None
        return Tip(
            slice=Slice(stream, OffsetRange(offset, offset + 1)),
            leader_epoch=batch.leader_epoch,
            digest=record_digest(record.key, record.value, record.timestamp),
        )
    return None


def _facts(batch: Any, *, wanted: bool) -> Batch:
    owned = OffsetRange(batch.base_offset, batch.last_offset + 1)
    # Without compaction every offset of a batch has a record, and the header says how many there are. It has the latest
    # time and the first record's: an earlier one behind that is found by trials.
    overflowing = is_beyond_spark(batch.max_timestamp) or is_beyond_spark(batch.first_timestamp)
    decoded, damage = None, _damage(batch) if wanted else ""
    if not damage and (batch.is_control_batch or (wanted and (batch.records_count < owned.span or overflowing))):
        try:
            decoded = list(batch)
        except errors.UnsupportedCodecError:
            raise
        except Exception as error:  # noqa: BLE001  # the codecs' errors have no common root
            damage = f"its records cannot be decoded ({type(error).__name__})"
    return Batch(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        present=RangeSet((owned,)) if decoded is None else _offsets(decoded),
        producer_id=batch.producer_id if batch.has_producer_id() else None,
        is_transactional=batch.is_transactional,
        control=_control(decoded or []) if batch.is_control_batch else None,
        damage=damage,
        overflowing=_offsets([item for item in decoded or [] if is_beyond_spark(item.timestamp)])
        if overflowing
        else _NOTHING,
        latest_ms=batch.max_timestamp,
    )


def _damage(batch: Any) -> str:
    """Return why nothing of a batch can be read; empty for a body with a right checksum and a known codec."""
    if not batch.validate_crc():
        return "wrong checksum"
    if batch.compression_type > _LAST_CODEC:
        return f"unknown codec {batch.compression_type}"
    return ""


def _legacy(message: Any) -> Batch:
    present = _offsets(list(message))
    return Batch(base_offset=present.ranges[0].start, last_offset=message.base_offset, present=present)


def _control(records: list[Any]) -> Control:
    match records:
        case [marker] if marker.commit:
            return Control.COMMIT
        case [marker] if marker.abort:
            return Control.ABORT
        case _:
            return Control.OTHER


def _offsets(records: list[Any]) -> RangeSet:
    return RangeSet(OffsetRange(record.offset, record.offset + 1) for record in records)


@contextmanager
def _readable() -> Iterator[None]:
    """Raise UnavailableError for damaged bytes."""
    try:
        yield
    except Exception as error:  # the codecs' errors have no common root
        raise UnavailableError(
            f"A record batch that Kafka returned cannot be read ({error!r}). If it happens again, look at the "
            "partition's files on its leader with kafka-dump-log."
        ) from error
