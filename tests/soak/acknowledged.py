"""What the broker acknowledged to the producers: the lake is compared with it. Every answer also goes to a file."""

from __future__ import annotations

import hashlib
import threading
from array import array
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Stream = tuple[str, str, int]
"""`(topic, topic id, partition)`: a recreated topic is another stream."""


def digest(key: bytes | None, value: bytes | None) -> int:
    """Return 63 bits of a record's content; null and empty differ."""
    text = repr((key, value)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


@dataclass(slots=True)
class Acks:
    """What was acknowledged for one stream, in the order of the acknowledgements."""

    offsets: array[int] = field(default_factory=lambda: array("q"))
    digests: array[int] = field(default_factory=lambda: array("q"))
    keys: array[int] = field(default_factory=lambda: array("q"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One acknowledged record; `key` is its digest alone, for topics that Kafka compacts."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    digest: int
    key: int

    @property
    def stream(self) -> Stream:
        """The stream it belongs to."""
        return self.topic, self.topic_id, self.partition


class Acknowledged:
    """Three piles: visible records, aborted ones, and those of transactions whose end is unknown."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._files = {pile: (folder / f"{pile}.txt").open("w") for pile in ("visible", "aborted", "uncertain")}
        self.visible: dict[Stream, Acks] = defaultdict(Acks)
        self.aborted: dict[Stream, Acks] = defaultdict(Acks)
        self.uncertain: list[tuple[Record, ...]] = []
        self.unanswered: set[int] = set()
        """Digests of records whose delivery failed: Kafka may have them."""
        self.total = 0

    def note(self, *records: Record) -> None:
        """Note records that readers must see."""
        self._add(self.visible, "visible", records)
        self.total += len(records)

    def note_aborted(self, *records: Record) -> None:
        """Note records that no reader may ever see."""
        self._add(self.aborted, "aborted", records)

    def note_uncertain(self, *records: Record) -> None:
        """Note a transaction whose end is not known: all of it is visible, or nothing."""
        with self._lock:
            self.uncertain.append(records)
            self._write("uncertain", records)

    def numbers(self, stream: Stream) -> tuple[Numbers, Numbers, Numbers]:
        """Return offsets, digests and key digests of a stream's visible records, as they are now."""
        with self._lock:
            acks = self.visible.get(stream, Acks())
            return (
                np.array(acks.offsets, dtype=np.int64),
                np.array(acks.digests, dtype=np.int64),
                np.array(acks.keys, dtype=np.int64),
            )

    def aborted_offsets(self, stream: Stream) -> Numbers:
        """Return the offsets of a stream's aborted records, as they are now."""
        with self._lock:
            return np.array(self.aborted.get(stream, Acks()).offsets, dtype=np.int64)

    def streams(self) -> set[Stream]:
        """Return the streams that have acknowledged records."""
        with self._lock:
            return set(self.visible)

    def close(self) -> None:
        """Finish the files; safe to repeat."""
        with self._lock:
            for file in self._files.values():
                file.close()

    def _add(self, pile: dict[Stream, Acks], name: str, records: tuple[Record, ...]) -> None:
        with self._lock:
            for record in records:
                acks = pile[record.stream]
                acks.offsets.append(record.offset)
                acks.digests.append(record.digest)
                acks.keys.append(record.key)
            self._write(name, records)

    def _write(self, name: str, records: tuple[Record, ...]) -> None:
        file = self._files[name]
        if not file.closed:
            file.writelines(f"{r.topic} {r.topic_id} {r.partition} {r.offset} {r.digest:016x}\n" for r in records)
