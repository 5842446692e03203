"""Move watermarks over committed ranges, and deliver the moves to the lake, to Airflow and to a Kafka group."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from airflow_kafka_lake.core.errors import ConcurrentError, KafkaLakeError, UnknownTopicError, expected
from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState, PartitionSnapshot, Snapshot
from airflow_kafka_lake.core.ledger.changes import NotifiedRow
from airflow_kafka_lake.core.ledger.moves import AT_ONCE, PERIODS, BeginDelivery, begin_of, behind, period_of
from airflow_kafka_lake.core.ledger.records import Advance, Claim, OutboxItem, PipelineRecord, ReceiptRow, StreamRecord
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, SliceSet, Stream, grouped
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.core.wire import milliseconds
from airflow_kafka_lake.ports import Ledger, Ports
from airflow_kafka_lake.services.identity import existing_topics

# Which watermarks are committed to a Kafka group, for tools that look at groups: strictly forward, and only while the
# topic id is the same. The group is never read back as truth.


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncedGroup:
    """The result of a group sync: offsets that were `committed`, and those `refused`, with the reason."""

    group: str
    committed: Mapping[Stream, int]
    refused: Mapping[Stream, str]

    def to_json(self) -> dict[str, Any]:
        """Return the value of `group_sync` in the documents of `run` and `advance`."""
        return {
            "group": self.group,
            "committed": [key._asdict() | {"offset": offset} for key, offset in sorted(self.committed.items())],
            "refused": [key._asdict() | {"reason": reason} for key, reason in sorted(self.refused.items())],
        }


def to_commit(streams: Iterable[StreamRecord], seen: Snapshot) -> tuple[dict[Stream, int], dict[Stream, str]]:
    """Decide which watermarks are committed to the group, and which it lacks and does not get, with the reason.

    A stream whose topic was deleted or re-created is left out: its offsets mean nothing in another topic.
    """
    partitions = {item.stream: item for item in seen.partitions}
    topics = {item.stream.topic: item.stream.topic_id for item in seen.partitions}
    wanted: dict[Stream, int] = {}
    refused: dict[Stream, str] = {}
    for stream in streams:
        found = partitions.get(stream.key)
        if found is None:
            if topics.get(stream.key.topic, stream.key.topic_id) == stream.key.topic_id:
                refused[stream.key] = "the partition could not be observed"
            continue
        reason = _refusal(found, stream.watermark)
        if reason:
            refused[stream.key] = reason
        elif found.group_offset is None or found.group_offset < stream.watermark:
            wanted[stream.key] = stream.watermark
    return wanted, refused


def _refusal(found: PartitionSnapshot, watermark: int) -> str:
    match found.group_offset_state:
        case GroupOffsetState.UNSTABLE:
            return "a commit of the group is pending in a transaction"
        case GroupOffsetState.UNKNOWN:
            return "what the group has committed is not known"
        case GroupOffsetState.KNOWN if (found.group_offset or 0) > watermark:
            return f"the group is ahead: it has committed {found.group_offset}, the watermark is {watermark}"
        case _:
            return ""


def sync_group(ports: Ports, spec: PipelineSpec, before: SyncedGroup | None = None) -> SyncedGroup | None:
    """Commit the pipeline's watermarks to its group; None when it has no group, or was never planned.

    The answer has the commits `before` it in the same run too. Errors are in it, and not raised. The group's offsets
    are read first, with pending commits apart, and the topic ids with them; the adapter compares the ids again right
    before it commits.
    """
    if spec.sync_group is None or ports.ledger.pipeline(spec.name) is None:
        return None
    done = _synced(ports, spec.name, spec.sync_group)
    for (topic, _, partition), reason in sorted(done.refused.items()):
        ports.progress(f"group {spec.sync_group!r} was not told of {topic}/{partition}: {reason}")
    return replace(done, committed={**before.committed, **done.committed}) if before else done


def _synced(ports: Ports, pipeline: str, group: str) -> SyncedGroup:
    streams = ports.ledger.streams(pipeline)
    try:
        existing, problems = existing_topics(ports.source, {stream.key.topic for stream in streams})
        silent = {name: error.message for name, error in problems.items() if not isinstance(error, UnknownTopicError)}
        refused = {stream.key: silent[stream.key.topic] for stream in streams if stream.key.topic in silent}
        there = [stream for stream in streams if stream.key.topic in existing]
        if not there:
            return SyncedGroup(group=group, committed={}, refused=refused)
        wanted, left = to_commit(there, ports.source.snapshot(sorted(existing), group))
        refused |= left
        if wanted:
            refused |= ports.group_sync.commit(group, wanted)
    except KafkaLakeError as error:
        return SyncedGroup(group=group, committed={}, refused={stream.key: error.message for stream in streams})
    committed = {key: offset for key, offset in wanted.items() if key not in refused}
    return SyncedGroup(group=group, committed=committed, refused=refused)


# Move watermarks over committed ranges, and send the lake the outbox: receipts that only the ledger has yet.


def advance(ports: Ports, pipeline: str) -> tuple[Advance, ...]:
    """Move every watermark of the pipeline to the end of its unbroken coverage."""
    moves = ports.ledger.advance(pipeline)
    flush(ports, pipeline)
    return moves


@dataclass(slots=True)
class Advances:
    """The advances of one run: all their moves, and all that was committed to the pipeline's group."""

    ports: Ports
    spec: PipelineSpec
    moves: list[Advance] = field(default_factory=list)
    group: SyncedGroup | None = None

    def after_wave(self) -> None:
        """Advance in the middle of a run, so that consumers need not wait for its last wave.

        Whatever fails here is left to the end of the run. So is the outbox: to send it is a commit to the receipts
        table, and one for each run is enough.
        """
        try:
            moves = self.ports.ledger.advance(self.spec.name)
            self.moves += moves
            if moves:
                self.group = sync_group(self.ports, self.spec, self.group)
        except Exception as error:  # noqa: BLE001  # the wave is committed, whatever happens afterwards
            self.ports.progress(f"watermarks move later in this run: {expected(error, 'advancing after a wave')}")

    def at_end(self) -> None:
        """Advance, send the outbox, and commit the watermarks to the group."""
        if self.ports.ledger.pipeline(self.spec.name) is not None:
            self.moves += advance(self.ports, self.spec.name)
        self.group = sync_group(self.ports, self.spec, self.group)


def flush(ports: Ports, pipeline: str) -> None:
    """Send the outbox to the receipts tables (ledger first, lake second); a failed receipt is sent next time."""
    for table, items in grouped((item.table, item) for item in ports.ledger.outbox(pipeline)).items():
        try:
            _send(ports, table, items)
        except KafkaLakeError as error:
            ports.progress(f"receipts for {table} are sent next time: {error}")


def send_first(ports: Ports, claim: Claim) -> None:
    """Send the receipts that must precede the rows of a claim, or a rebuild would read them wrongly.

    These are the origins of streams; and of ranges that are read again the reopen, with the shares of split ranges.
    """
    kind = None if any(item.generation for item in claim.ranges) else "origin"
    left = ports.ledger.outbox(claim.pipeline, kind=kind)
    if items := [item for item in left if item.table == claim.table]:
        _send(ports, claim.table, items)


def known_receipts(ports: Ports, table: str, pipeline: str, kind: str) -> tuple[ReceiptRow, ...]:
    """Return a pipeline's receipts of a kind for a table: waiting ones, then sent ones."""
    waiting = [item.row for item in ports.ledger.outbox(pipeline, kind=kind) if item.table == table]
    there = ports.lake.table(table).all_receipts()
    return (*waiting, *(row for row in there if (row.pipeline, row.kind) == (pipeline, kind)))


def _send(ports: Ports, table: str, items: Sequence[OutboxItem]) -> None:
    ports.lake.table(table).add_receipts([item.row for item in items])
    ports.ledger.sent([item.id for item in items])


# Notify of the moves of watermarks: each once, in their order, by one deliverer at a time.


class Receiver(Protocol):
    """The receiver of notifications (Airflow), as far as it can be asked."""

    def has_ended(self, holder: str) -> bool:
        """Return whether a deliverer is known to have ended: nothing that he sends is accepted any more."""

    def has_accepted(self, delivery: NotifiedRow) -> bool:
        """Return whether the last event of a delivery has arrived, and so all of its events."""


def begin_delivery(
    ledger: Ledger, pipeline: str, holder: str, receiver: Receiver
) -> tuple[int, tuple[Advance, ...]] | None:
    """Take on the delivery of everything that was not notified; None when there is nothing to notify of.

    Returns the number of the last move that was notified, and all moves of the pipeline after it, in their order.
    The rest of a deliverer that has ended is taken over, unless it has arrived. Raises ConcurrentError while another
    one delivers: its rest is left to the next task that asks.
    """
    moves = ledger.unnotified(pipeline)
    if not moves:
        return None
    after = take_on(ledger, pipeline, moves[-1].sequence, holder=holder, receiver=receiver)
    left = tuple(move for move in moves if move.sequence > after)
    return (after, left) if left else None


def take_on(ledger: Ledger, subject: str, through: int, *, holder: str, receiver: Receiver) -> int:
    """Take on the delivery of all up to a number; return the number up to which it was notified before."""
    write = BeginDelivery(pipeline=subject, holder=holder, through=through)
    row = ledger.commit(write)
    if row.holder not in {None, holder}:
        row = _after(ledger, row, write, receiver)
    if through > row.sequence and row.holder != holder:
        raise ConcurrentError(
            f"Another task notifies of pipeline {subject} now: {row.holder}. What it leaves is notified by the next "
            "that asks.",
            pipeline=subject,
        )
    return row.sequence


def end_delivery(ledger: Ledger, delivery: NotifiedRow, receiver: Receiver) -> bool:
    """Record that a delivery has arrived, if it has; returns whether it has."""
    assert delivery.through is not None
    if not receiver.has_accepted(delivery):
        return False
    ledger.mark_notified(delivery.pipeline, delivery.through)
    return True


def _after(ledger: Ledger, busy: NotifiedRow, write: BeginDelivery, receiver: Receiver) -> NotifiedRow:
    """Begin after another deliverer: as soon as his delivery has arrived, or when he has ended without.

    First whether he has ended, then whether it has arrived: the other way round it might arrive in between, and be
    sent once more.
    """
    assert busy.holder is not None
    ended = receiver.has_ended(busy.holder)
    if end_delivery(ledger, busy, receiver):
        return ledger.commit(write)
    return ledger.commit(replace(write, over=busy.holder, ended=ended))


# Close the periods that every partition has passed, and find the records that came after theirs was closed.


def close_periods(
    ports: Ports, spec: PipelineSpec, kind: str, *, lateness: timedelta, first: int | None, **deliverer: Any
) -> tuple[range, int, Mapping[int, int]]:
    """Take on the deliveries of a pipeline's closed periods, and of its late records, as `take_on` does.

    Returns the periods that are closed now; the newest move that was looked at, and how many rows the moves have
    brought of each period that was closed before. The first look decides to begin with the period `first`, else with
    the next that begins.
    """
    ledger, subject, now = ports.ledger, f"{spec.name}/{kind}", ports.clock.now()
    late, begun = f"{subject}/late", f"{subject}/begun"
    # One task at a time, before it looks: what lands while another closes a period is late for both, or for neither.
    closed = take_on(ledger, subject, period_of(kind, now) + 1, **deliverer)
    streams, moves = ledger.at_once(lambda read: (read.streams(spec.name), read.unnotified(spec.name, late)))
    newest = moves[-1].sequence if moves else 0
    if not closed:
        closed, moves = period_of(kind, now) if first is None else first - 1, ()
        for name, sequence in ((late, newest), (begun, closed), (subject, closed)):
            ledger.mark_notified(name, sequence)
    over = range(closed + 1, min(period_of(kind, now - lateness), closed + 1 + AT_ONCE))
    followed = [item for item in streams if spec.reads(item.key.topic)]
    passed = over[: _passed(ports, spec, followed, [begin_of(kind, period + 1) + lateness for period in over])]
    if passed:
        passed = range(take_on(ledger, subject, passed[-1], **deliverer) + 1, passed.stop)
    found: Counter[int] = Counter()
    if moves:
        after, since = (take_on(ledger, name, through, **deliverer) for name, through in ((late, newest), (begun, 0)))
        start, end, by = begin_of(kind, since + 1), begin_of(kind, closed + 1), PERIODS[kind][0]
        for table, slices in _landed_by(ledger, spec, streams, (move for move in moves if move.sequence > after)):
            found.update(ports.lake.table(table).rows_between(slices, start=start, end=end, by=by))
        if not found:
            ledger.mark_notified(late, newest)
    return passed, newest, found


def landed_in(
    ledger: Ledger, spec: PipelineSpec, known: PipelineRecord | None, topics: Iterable[str]
) -> defaultdict[str, list[Slice]]:
    """Return all committed slices by their table; none where all tables on record are those of the topics now."""
    if not known or known.tables.keys() <= set(map(spec.table_for, topics)):
        return grouped(())
    done, name = (RangeState.COMMITTED,), spec.name
    ranges, waves = ledger.at_once(lambda read: (read.ranges(pipeline=name, states=done), read.waves(name)))
    tables = {wave.id: wave.table for wave in waves}
    return grouped((tables[item.wave], item.slice) for item in ranges if tables[item.wave])


def _landed_by(
    ledger: Ledger, spec: PipelineSpec, streams: Iterable[StreamRecord], moves: Iterable[Advance]
) -> Iterator[tuple[str, tuple[Slice, ...]]]:
    """Yield the slices that moves have passed by the table that has their rows."""
    passed = SliceSet(Slice(move.stream, OffsetRange(move.start, move.end)) for move in moves if move.rows)
    tables = landed_in(ledger, spec, ledger.pipeline(spec.name), {item.key.topic for item in streams})
    for part in () if tables else passed:
        tables[spec.table_for(part.stream.topic)].append(part)
    for table, parts in tables.items():
        if its := tuple(passed & SliceSet(parts)):
            yield table, its


def _passed(ports: Ports, spec: PipelineSpec, streams: Sequence[StreamRecord], times: Sequence[datetime]) -> int:
    """Return how many of some times, which are over, every partition has passed, also of a topic never planned."""
    if not times:
        return 0
    named = ports.source.topics((), spec.topic_pattern) if spec.topic_pattern else spec.topics
    topics, problems = existing_topics(ports.source, {item.key.topic for item in streams} | set(named))
    for problem in problems.values():
        if not isinstance(problem, UnknownTopicError):
            raise problem
    seen = ports.source.snapshot(sorted(topics), None)
    places = [item.stream.place for item in seen.partitions]

    def waits(at: datetime) -> bool:
        why = next(behind(streams, seen, ports.source.offsets_at(places, milliseconds(at))), None)
        if why:
            ports.progress(f"{why}, before {at.isoformat()} is passed")
        return why is not None

    return bisect_left(times, True, key=waits)
