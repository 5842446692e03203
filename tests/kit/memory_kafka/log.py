"""One partition's log, and how tests change it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from airflow_kafka_lake.core.accounting import Explanation, Fate
from airflow_kafka_lake.core.kafka.batches import is_beyond_spark
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.spec import Isolation

Headers = tuple[tuple[str, bytes | None], ...]
OVERFLOWING = "its time is beyond what Spark's Kafka source reads"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One offset's entry: a record, or the marker that ends a transaction (value b"commit" or b"abort")."""

    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int
    marker: bool = False

    @property
    def bytes(self) -> int:
        """The weight of key and value."""
        return len(self.key or b"") + len(self.value or b"")


@dataclass(slots=True, kw_only=True)
class Log:
    """A partition. An offset that is not in `entries` was compacted or lost; `running` maps an open transaction to the
    offsets of its records, `aborted` are those taken back; `epochs` maps each leader epoch that wrote to its first
    offset. A text in `unreachable` puts it out of reach, one in `damaged` says why an offset cannot be read."""

    entries: dict[int, Entry] = field(default_factory=dict)
    log_start: int = 0
    high_watermark: int = 0
    epochs: dict[int, int] = field(default_factory=lambda: {0: 0})
    running: dict[str, list[int]] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    damaged: dict[int, str] = field(default_factory=dict)
    unreachable: str = ""

    @property
    def leader_epoch(self) -> int:
        """The leader's epoch."""
        return max(self.epochs)

    @property
    def last_stable(self) -> int:
        """The exclusive end of what is decided: the first offset of the oldest open transaction, else the end."""
        return min((offsets[0] for offsets in self.running.values()), default=self.high_watermark)

    def readable_end(self, isolation: Isolation) -> int:
        """The exclusive end of what a reader sees."""
        return self.last_stable if isolation is Isolation.READ_COMMITTED else self.high_watermark

    def append(self, entry: Entry, *, transaction: str | None = None) -> int:
        """Put an entry at the end; return its offset. A transaction is open until `end` is called for it."""
        offset = self.high_watermark
        self.entries[offset] = entry
        self.high_watermark += 1
        if transaction is not None:
            self.running.setdefault(transaction, []).append(offset)
        return offset

    def end(self, transaction: str, *, commit: bool, timestamp_ms: int) -> None:
        """Write the marker of a transaction that wrote here; does nothing for another one."""
        offsets = self.running.pop(transaction, None)
        if offsets is None:
            return
        if not commit:
            self.aborted.update(offsets)
        self.append(Entry(value=b"commit" if commit else b"abort", timestamp_ms=timestamp_ms, marker=True))

    def remove(self, offsets: Iterable[int]) -> None:
        """Take entries out of the middle: in a compacted topic that is the cleaner, elsewhere a loss."""
        for offset in offsets:
            self.entries.pop(offset, None)

    def delete_before(self, offset: int) -> None:
        """Move the log start forward, as retention or an administrator does."""
        self.log_start = max(self.log_start, min(offset, self.high_watermark))
        self.entries = {at: entry for at, entry in self.entries.items() if at >= self.log_start}

    def truncate(self, end: int) -> None:
        """Lose the end, as an unclean leader election does; the leader epoch grows."""
        self.entries = {at: entry for at, entry in self.entries.items() if at < end}
        self.aborted = {at for at in self.aborted if at < end}
        kept = {name: [at for at in offsets if at < end] for name, offsets in self.running.items()}
        self.running = {name: offsets for name, offsets in kept.items() if offsets}
        self.high_watermark = min(end, self.high_watermark)
        self.log_start = min(self.log_start, self.high_watermark)
        self.elect()

    def elect(self) -> None:
        """Elect a leader, as every restart of a broker does; an epoch in which nothing was written is forgotten."""
        epoch = self.leader_epoch + 1
        kept = {name: start for name, start in self.epochs.items() if start < self.high_watermark}
        self.epochs = {**kept, epoch: self.high_watermark}

    def epoch_of(self, offset: int) -> int:
        """Return the epoch under which an offset was written."""
        return max((name for name, start in self.epochs.items() if start <= offset), default=0)

    def epoch_end(self, epoch: int) -> int | None:
        """Return where an epoch ended; None when neither it nor a later one is known."""
        if epoch == self.leader_epoch:
            return self.high_watermark
        return next((start for name, start in sorted(self.epochs.items()) if name > epoch), None)

    def records(self, slice_: OffsetRange, isolation: Isolation) -> Iterator[tuple[int, Entry]]:
        """Yield the records of a slice that a reader sees, in order."""
        for offset in range(slice_.start, slice_.end):
            if self.fate(offset, isolation, compacted=False) is None:
                yield offset, self.entries[offset]

    def fate(self, offset: int, isolation: Isolation, *, compacted: bool) -> Fate | None:
        """Return why an offset has no visible record; None when it has one. `compacted`: the cleaner made the holes."""
        if not self.log_start <= offset < self.readable_end(isolation):
            return Fate.UNEXPLAINED
        entry = self.entries.get(offset)
        if entry is None:
            return Fate.COMPACTED if compacted else Fate.UNEXPLAINED
        if entry.marker:
            return Fate.CONTROL
        if offset in self.aborted and isolation is Isolation.READ_COMMITTED:
            return Fate.ABORTED
        return None

    def unreadable(self, offset: int, isolation: Isolation) -> str:
        """Return why a job fails on an offset; nothing for one that it reads, or that no reader sees."""
        if self.fate(offset, isolation, compacted=False) is not None:
            return ""
        return self.damaged.get(offset, "") or (OVERFLOWING if self._is_untimely(offset) else "")

    def _is_untimely(self, offset: int) -> bool:
        return is_beyond_spark(self.entries[offset].timestamp_ms)

    def explained(self, slice_: OffsetRange, isolation: Isolation, *, compacted: bool) -> Iterator[Explanation]:
        """Yield what becomes of a slice without rows, in runs of one fate."""
        fates = ((offset, self._seen(offset, isolation, compacted)) for offset in range(slice_.start, slice_.end))
        for (fate, seen), run in itertools.groupby(fates, key=lambda item: item[1]):
            offsets = [offset for offset, _ in run]
            yield Explanation(range=OffsetRange(offsets[0], offsets[-1] + 1), fate=fate, seen=seen)

    def _seen(self, offset: int, isolation: Isolation, compacted: bool) -> tuple[Fate, str]:
        fate = self.fate(offset, isolation, compacted=compacted)
        if fate is None and (why := self.unreadable(offset, isolation)):
            return Fate.OVERFLOWING if why == OVERFLOWING else Fate.UNREADABLE, why
        fate = fate or Fate.UNEXPLAINED
        return fate, f"memory: {fate}"

    def first_at(self, timestamp_ms: int) -> int | None:
        """Return the first offset whose entry is not older than a time."""
        later = (at for at, entry in self.entries.items() if entry.timestamp_ms >= timestamp_ms)
        return min(later, default=None)
