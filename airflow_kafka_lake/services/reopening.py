"""A person's decision to read offsets again, committed or skipped: decide, record, stop publishers, send receipts."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.accounting import shares
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import (
    IdentityError,
    LogRewrittenError,
    RangeBeyondEndError,
    RangeExpiredError,
    StateError,
    UnavailableError,
)
from airflow_kafka_lake.core.kafka.losses import EpochEnds, cut_below, epochs_in_doubt, leader_epochs
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.decisions import NEVER_CLAIMED, needed_reason
from airflow_kafka_lake.core.ledger.deletions import KIND
from airflow_kafka_lake.core.ledger.deletions import RECEIPT as DELETED
from airflow_kafka_lake.core.ledger.history import Event
from airflow_kafka_lake.core.ledger.records import RangeRecord, StreamRecord
from airflow_kafka_lake.core.ledger.reopening import (
    RECEIPT,
    REOPEN_HOLDER,
    Reopen,
    ReopenDecision,
    Share,
    parts,
    refuse_uncommitted,
    reopening,
    rows_before,
    table_of,
    to_be_shared,
)
from airflow_kafka_lake.core.ledger.waves import RESOLVED, UNFINISHED, AttemptRecord, RangeState, TableHead, Token
from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet, Slice, grouped
from airflow_kafka_lake.core.ordering.segments import Graph, Segment, started_after, waiting
from airflow_kafka_lake.core.planning.costs import heaviest, weights
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.advance import flush, known_receipts
from airflow_kafka_lake.services.claims import new_id
from airflow_kafka_lake.services.identity import changed_topics, check_head, check_table
from airflow_kafka_lake.services.only_copies import refuse_to_lose_waves
from airflow_kafka_lake.services.publishing import require_replaceable
from airflow_kafka_lake.services.recovery import FenceCommit, move_main

_MOST_DECISIONS = 1_000
"""The newest deletions among which those of a range are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReopenResult:
    """The outcome of a reopen: how many offsets are read again, in which waves, and where the watermark is now."""

    offsets: int
    waves: tuple[str, ...]
    watermark: int
    started: tuple[Segment, ...]
    """Segments that continue the slice and are in the lake in part already: their order is not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedReopen:
    """A reopen that was decided, and nothing done of it; `begun` is the token of an earlier call that it finishes."""

    stream: StreamRecord
    interval: OffsetRange
    table: str
    ranges: tuple[RangeRecord, ...]
    what: ReopenDecision | None = None
    begun: Token | None = None
    had: int = 0
    """Rows of these ranges that landed."""
    gone: int = 0
    """Rows of them that are not in the table any more, and come back."""
    deletions: tuple[Event, ...] = ()
    """The decisions by which they are recorded as deleted, as far as the ledger has them."""

    @property
    def offsets(self) -> int:
        """How many offsets are read again."""
        return sum(item.range.span for item in self.ranges) if self.what is None else self.what.offsets

    @property
    def rows(self) -> int:
        """How many rows are read again, as they were counted when they were committed, or reopened before."""
        return self.had - sum(cut.record.rows or 0 for cut in (self.what.cuts if self.what else ()) if cut.is_kept)

    @property
    def waves(self) -> tuple[str, ...]:
        """The waves in which they are read."""
        return self.what.waves if self.what else tuple(dict.fromkeys(item.wave for item in self.ranges))

    @property
    def watermark(self) -> int:
        """Where the watermark is then."""
        return max(self.stream.origin, min(self.stream.watermark, self.interval.start))


def prepare(
    ports: Ports,
    spec: PipelineSpec,
    stream: StreamRecord,
    interval: OffsetRange,
    *,
    reason: str,
    accept_fewer: bool = False,
    restore_deleted: bool = False,
    drop_staged: bool = False,
) -> PreparedReopen:
    """Decide a reopen without doing anything of it.

    Raises StateError for offsets that are neither committed nor skipped, and where rows are gone from the table, which
    would come back (unless `restore_deleted` asks for that), ConcurrentError while an attempt works on them,
    RangeExpiredError and RangeBeyondEndError for offsets that Kafka has no more, IdentityError for a topic or a table
    that is not the recorded one, OnlyCopyError where rows that must wait for it are staged, would be dropped, and exist
    nowhere else (unless `drop_staged` gives them up).
    """
    reason = needed_reason(reason)
    asked = Slice(stream.key, interval)
    ranges = ports.ledger.ranges(pipeline=spec.name, crossing=asked)
    waves = ports.ledger.waves(spec.name, crossing=asked)
    table = table_of(stream, spec, ranges, {wave.id: wave.table for wave in waves})
    token = _begun(ports, interval, ranges, accept_fewer=accept_fewer)
    if token and not (restore_deleted and _are_deleted_since(ports, table, ranges)):
        return PreparedReopen(stream=stream, interval=interval, table=table, ranges=ranges, begun=token)
    planned = {item.wave for item in ranges if item.state is RangeState.PLANNED}
    for wave in waves:
        if wave.lease_live and wave.id in planned:
            raise guards.busy(wave.id, wave.fence, str(wave.holder))
    refuse_uncommitted(stream, spec.name, interval, ranges, agreed=accept_fewer or restore_deleted)
    seen = _observe(ports, stream)
    _refuse_lost(spec.name, stream, interval, seen)
    doubts = epochs_in_doubt((seen, item.leader_epoch) for item in ranges)
    ends = ports.source.epoch_ends(doubts, leader_epochs([seen])) if doubts else {}
    _refuse_rewritten(interval, ranges, seen, ends=ends)
    check_table(ports, spec.name, table, [stream.key.topic_id])
    require_replaceable(ports.lake.table(table), [asked])
    there = _rows_there(ports, table, ranges)
    unweighed = [item.slice for item in ranges if not item.estimated_bytes]  # skipped, or known from a rebuild
    samples = ports.source.sample(heaviest(unweighed), spec.isolation) if unweighed else ()
    had, gone, deletions = _refuse_missing(
        ports, asked, ranges, there, seen=seen, table=table, is_wanted=restore_deleted
    )
    what = reopening(
        new_id(),
        spec,
        stream,
        interval,
        ranges,
        _count_shares(ports, spec, there, interval=interval, ranges=ranges, seen=seen),
        table=table,
        there=there,
        seen=seen,
        weights=weights({stream.key.topic}, samples, ports.ledger.throughput(spec.name)),
        segments=[item.start for item in ports.ledger.segments(spec.name) if item.stream == stream.key],
        attempt=secrets.token_hex(8),
        reason=reason,
        accept_fewer=accept_fewer,
    )
    if not drop_staged:
        reopened = replace(stream, covered=stream.covered - RangeSet((interval,)))
        refuse_to_lose_waves(ports, spec.name, _attempts_that_wait(ports, spec.name, reopened))
    return PreparedReopen(
        stream=stream,
        interval=interval,
        table=table,
        ranges=ranges,
        what=replace(what, restored=gone),
        had=had,
        gone=gone,
        deletions=deletions,
    )


def carry_out(ports: Ports, spec: PipelineSpec, prepared: PreparedReopen) -> ReopenResult:
    """Record a reopen, and stop publishers beside it. ConcurrentError when the stream was changed meanwhile."""
    stream = prepared.stream
    if prepared.what is not None:
        token, watermark = prepared.what.token, ports.ledger.commit(Reopen(what=prepared.what, actor=ports.actor))
    else:
        assert prepared.begun is not None
        token, watermark = prepared.begun, stream.watermark
        ports.progress("these offsets were reopened before: finishing what that call had begun")
    _stop_publishers(ports, spec, stream, token=token, table=prepared.table)
    flush(ports, spec.name)
    # Asked after main has moved: nothing more that continues the slice can be published unseen.
    graph = Graph(ports.ledger.segments(spec.name))
    return ReopenResult(
        offsets=prepared.offsets,
        waves=prepared.waves,
        watermark=watermark,
        started=started_after(graph, ports.ledger.streams(spec.name), stream.key, prepared.interval),
    )


def _begun(ports: Ports, interval: OffsetRange, ranges: Sequence[RangeRecord], *, accept_fewer: bool) -> Token | None:
    """Return the token of an earlier call for exactly this slice, which no attempt has worked on since."""
    again = all(item.state is RangeState.PLANNED and item.generation for item in ranges)
    agreed = all(item.fewer_accepted or not accept_fewer for item in ranges)
    if not again or not agreed or RangeSet(item.range for item in ranges) != RangeSet((interval,)):
        return None
    wave = ports.ledger.wave(ranges[0].wave)
    match ports.ledger.attempts(wave.id):
        case [first] if first.holder == REOPEN_HOLDER:
            return Token(
                pipeline=wave.pipeline, wave=wave.id, attempt=first.attempt, fence=first.fence, ranges="", kind="fence"
            )
    return None


def _are_deleted_since(ports: Ports, table: str, ranges: Sequence[RangeRecord]) -> bool:
    """Return whether rows are gone that an earlier call for these ranges has not restored: it was another decision."""
    there, receipts = _rows_there(ports, table, ranges), known_receipts(ports, table, ranges[0].pipeline, RECEIPT)
    return any(rows_before(item, receipts) - there for item in ranges)


def _observe(ports: Ports, stream: StreamRecord) -> PartitionSnapshot:
    key = (stream.key.topic, stream.key.topic_id)
    if changed := changed_topics(ports, [key]).get(key):
        raise type(changed)(
            f"{changed.message}. What is in the lake cannot be read again, and stays as it is", **changed.facts
        )
    for item in ports.source.snapshot([stream.key.topic], None, {stream.key.place}).partitions:
        if item.stream == stream.key:
            return item
    raise UnavailableError(
        f"{stream.key} could not be observed. Nothing was reopened; repeat when Kafka answers", **stream.key.facts
    )


def _refuse_lost(pipeline: str, stream: StreamRecord, interval: OffsetRange, seen: PartitionSnapshot) -> None:
    """Refuse offsets that Kafka cannot give once more: nothing could take the place of their rows."""
    stays = "What is in the lake stays as it is"
    if interval.start < seen.log_start:
        gone = OffsetRange(interval.start, min(interval.end, seen.log_start))
        left = OffsetRange(gone.end, interval.end) if gone.end < interval.end else None
        rest = f"; reopen the rest with: {remedies.reopen(pipeline, Slice(stream.key, left))}" if left else ""
        raise RangeExpiredError(
            f"{stream.key}: offsets {gone} cannot be read again, the log starts at {seen.log_start}: nothing could "
            f"take the place of their rows. {stays}{rest}",
            **stream.key.facts,
            log_start=seen.log_start,
        )
    if interval.end > seen.high_watermark:
        raise RangeBeyondEndError(
            f"{stream.key}: the log ends at {seen.high_watermark} now, Kafka lost records: {interval} cannot be read "
            f"again. {stays}",
            **stream.key.facts,
            high_watermark=seen.high_watermark,
        )


def _rows_there(ports: Ports, table: str, ranges: Sequence[RangeRecord]) -> RangeSet:
    """Return at which offsets of ranges that were committed the table has a row."""
    landed = [item for item in ranges if item.state is RangeState.COMMITTED or item.generation]
    if not landed:
        return NOTHING
    ports.progress(f"counting the rows of {count(len(landed), 'range')} in {table}")
    visible = ports.lake.table(table).visible([item.slice for item in landed])
    return RangeSet.union(rows.offsets for rows in visible if rows.attempt)


def _refuse_missing(
    ports: Ports,
    asked: Slice,
    ranges: Sequence[RangeRecord],
    there: RangeSet,
    *,
    seen: PartitionSnapshot,
    table: str,
    is_wanted: bool,
) -> tuple[int, int, tuple[Event, ...]]:
    """Return how many rows there were, how many of them are gone from the table, such as for an erasure request, and
    the decisions that record it.

    Refuse to bring them back unless that `is_wanted`, and to read a part of a range that lacks rows: how many it had is
    not known.
    """
    before, gone, places, pipeline = 0, 0, [asked.range], ranges[0].pipeline if ranges else ""
    is_known = all(item.state is RangeState.COMMITTED or not item.generation for item in ranges)
    receipts = () if is_known else known_receipts(ports, table, pipeline, RECEIPT)
    for item in ranges:
        committed = item.accounting if item.state is RangeState.COMMITTED else None
        had = committed.visible if committed else rows_before(item, receipts).span
        before += had
        if (missing := had - there.within(item.range).span) > 0:
            gone += missing
            places.append(item.range)
    whole = Slice(asked.stream, OffsetRange(min(at.start for at in places), max(at.end for at in places)))
    if not gone:
        return before, 0, ()
    deletions = _deletions(ports, table, ranges)
    if is_wanted and whole == asked:
        return before, gone, deletions
    again = f"To have them again: {remedies.reopen(pipeline, whole, switches=('restore_deleted',))}"
    if whole.range.start < seen.log_start:
        again = f"Kafka has the records below {seen.log_start} no more, so none of it can be read again"
    if deletions:
        on_purpose = (
            f"They are recorded as deleted on purpose ({'; '.join(map(told, deletions))}), which would be undone"
        )
    else:
        open_ = [item.slice for item in ranges if item.state not in RESOLVED]
        first = f"by {remedies.skip(pipeline, open_[0])}, and " if open_ else ""
        on_purpose = f"If they were deleted on purpose, leave it so, {first}recorded by "
        on_purpose += str(remedies.accept_deletes(pipeline, whole))
    raise StateError(
        f"{count(gone, 'row that landed is', 'rows that landed are')} gone from {whole} in the table, and would come "
        f"back: it is read again as a whole. Nothing was reopened. {on_purpose}. {again}",
        **asked.stream.facts,
    )


def _deletions(ports: Ports, table: str, ranges: Sequence[RangeRecord]) -> tuple[Event, ...]:
    receipts = known_receipts(ports, table, ranges[0].pipeline, DELETED)
    meant = [(item.stream, item.generation, item.range) for item in ranges]
    decisions = {
        row.attempt
        for row in receipts
        if any((row.stream, row.generation) == (stream, at) and row.range.overlaps(part) for stream, at, part in meant)
    }
    found = ports.ledger.events(ranges[0].pipeline, kind=KIND, limit=_MOST_DECISIONS, newest=True)
    return tuple(event for event in found if event.subject in decisions)


def told(event: Event) -> str:
    """Return a recorded deletion for people."""
    return f"{event.subject} by {event.actor}, {event.detail}"


def _refuse_rewritten(
    interval: OffsetRange, ranges: Sequence[RangeRecord], seen: PartitionSnapshot, *, ends: EpochEnds
) -> None:
    """Refuse offsets that have other records now: the log was cut below them, and has grown again since."""
    for item in ranges:
        if (cut := cut_below(seen, item.leader_epoch, min(item.range.end, interval.end), ends)) is not None:
            raise LogRewrittenError(
                f"{seen.stream}: the log was cut at {cut} and written again, so offsets from there "
                f"on are other records than those of range {item.range}. What is in the lake stays as it is",
                **seen.stream.facts,
            )


def _count_shares(
    ports: Ports,
    spec: PipelineSpec,
    there: RangeSet,
    *,
    interval: OffsetRange,
    ranges: Sequence[RangeRecord],
    seen: PartitionSnapshot,
) -> Mapping[tuple[str, OffsetRange], Share]:
    """Split the accounting of ranges that are cut: rows by the lake, the rest by Kafka's batches as they are now."""
    found: dict[tuple[str, OffsetRange], Share] = {}
    for item in to_be_shared(ranges, interval):
        visible = there.within(item.range)
        readable = OffsetRange(max(item.range.start, seen.log_start), item.range.end)
        gaps = [Slice(item.stream, gap) for gap in visible.gaps(readable)]
        epochs = {} if seen.leader_epoch is None else {seen.stream: seen.leader_epoch}
        explained = ports.batches.explain(gaps, spec.isolation, epochs=epochs) if gaps else {}
        assert item.accounting is not None
        try:
            numbers = shares(
                item.accounting, parts(item, interval), visible, [e for its in explained.values() for e in its]
            )
        except ValueError as error:
            raise IdentityError(
                f"the table shows other rows of range {item.range} than were published ({error}). See "
                f"{remedies.audit(spec.name)}; the whole range can be reopened: "
                f"{remedies.reopen(spec.name, item.slice, switches=('restore_deleted',))}",
                range=item.id,
            ) from None
        for part, accounting in zip(parts(item, interval), numbers, strict=True):
            found[item.id, part] = Share(accounting=accounting, visible=visible)
    return found


def _stop_publishers(ports: Ports, spec: PipelineSpec, stream: StreamRecord, *, token: Token, table: str) -> None:
    """Move main after the decision is on record: a worker that looked at it before, and passed its gate, starts again.

    Segments that continue the slice may land in other tables: main of each is moved. Attempts whose gate is closed now
    could not publish any more, but for a commit that was sent already: they end. So does one that was planned without
    ordering, which is then staged again.
    """
    ended = {table: [], **_attempts_that_wait(ports, spec.name)}
    for identifier, attempts in ended.items():
        _move_main(ports, spec, stream, token=token, identifier=identifier, ended=[item.attempt for item in attempts])


def _attempts_that_wait(
    ports: Ports, pipeline: str, reopened: StreamRecord | None = None
) -> dict[str, list[AttemptRecord]]:
    """Return the attempts, by table, whose gate is closed, also once a stream is as `reopened` would have it."""
    begun = {wave.id: wave for wave in ports.ledger.waves(pipeline, UNFINISHED) if wave.fence != NEVER_CLAIMED}
    planned = ports.ledger.ranges(pipeline=pipeline, states=(RangeState.PLANNED,)) if begun else ()
    graph = Graph(ports.ledger.segments(pipeline))
    streams = [reopened if reopened and item.key == reopened.key else item for item in ports.ledger.streams(pipeline)]
    closed = waiting(graph, streams, (item for item in planned if item.wave in begun))
    attempts = ports.ledger.attempts(pipeline=pipeline) if closed else ()
    return grouped((begun[item.wave].table, item) for item in attempts if item.wave in closed)


def _move_main(
    ports: Ports, spec: PipelineSpec, stream: StreamRecord, *, token: Token, identifier: str, ended: Sequence[str]
) -> None:
    def check(head: TableHead) -> FenceCommit:
        # A rebuild may have moved it, and this be the ledger that was lost: it must not send the lake anything then.
        line = check_head(ports, spec.name, identifier, head=head, topic_ids=[stream.key.topic_id])
        return FenceCommit(ended=ended, line=line)

    unmoved = UnavailableError(
        f"main of {identifier} could not be moved. The offsets are reopened; repeat the call to finish it",
        table=identifier,
    )
    move_main(ports, ports.lake.table(identifier), token, check, unmoved=unmoved)
