"""Record batches as Kafka keeps and sends them: bytes, in every format and codec."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any


def written(
    base: int,
    offsets: Sequence[int],
    *,
    codec: int = 0,
    magic: int = 2,
    producer: int = -1,
    size: int = 10,
    times: Mapping[int, int] = MappingProxyType({}),
) -> bytearray:
    """The bytes of a batch with records at some offsets."""
    from kafka.record.memory_records import MemoryRecordsBuilder

    own: dict[str, Any] = {} if producer < 0 else {"producer_epoch": 0, "base_sequence": 0, "transactional": True}
    builder = MemoryRecordsBuilder(magic, codec, 10**7, producer_id=producer, **own)
    for offset in offsets:
        builder.skip(offset - base - builder.next_offset())
        builder.append(times.get(offset, 1), b"key", b"v" * size)
    builder.close()
    data = bytearray(builder.buffer())
    # Brokers number what producers send: formats 0 and 1 (compressed) by the last message, 2 by the first.
    struct.pack_into(">q", data, 0, base if magic == 2 else offsets[-1])
    return data


def stamped(data: bytearray) -> bytearray:
    """Give a batch the checksum of what it holds now."""
    from kafka.record.util import calc_crc32c

    struct.pack_into(">I", data, 17, calc_crc32c(memoryview(data)[21:]))
    return data


def marker(at: int, producer: int, kind: int) -> bytearray:
    """The bytes of a control batch: kind 0 aborts, 1 commits."""
    from kafka.record.memory_records import MemoryRecordsBuilder

    builder = MemoryRecordsBuilder(2, 0, 1000, producer_id=producer, producer_epoch=0, base_sequence=0)
    builder.append(1, struct.pack(">hh", 0, kind), b"value!")
    builder.close()
    data = bytearray(builder.buffer())
    struct.pack_into(">q", data, 0, at)
    struct.pack_into(">h", data, 21, 0x30)
    return stamped(data)
