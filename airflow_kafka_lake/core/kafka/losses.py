"""Losses: offsets that a plan knows and Kafka no longer has, by retention, truncation or an unclean election."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import NAMED, count, some
from airflow_kafka_lake.core.errors import (
    IdentityError,
    KafkaLakeError,
    LogRewrittenError,
    LogStartMovedError,
    LogTruncatedError,
    LostRecordsError,
    TransientError,
    UnavailableError,
)
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot, Snapshot, UnknownPartition
from airflow_kafka_lake.core.ledger.records import (
    RangeDecision,
    RangeRecord,
    StreamRecord,
    held_by,
    hold,
    passing,
    skipping,
)
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream
from airflow_kafka_lake.core.remedies import Cause
from airflow_kafka_lake.core.spark.job import Tip

# Whether a partition's log is still the planned one: a plan's record against Kafka's answer now.
#
# A leader epoch that changed is no loss by itself: every restart of a broker raises it. Kafka knows where each epoch
# ended. When the recorded epoch ended below an offset recorded under it, the log was cut there, however long it has
# grown again since.

EpochKey = tuple[str, int, int]
"""`(topic, partition, leader epoch)`."""

EpochEnds = Mapping[EpochKey, int | None]
"""Where epochs ended; None: the leader knows no such epoch. One that is not in it could not be asked about."""


def epochs_in_doubt(recorded: Iterable[tuple[PartitionSnapshot, int | None]]) -> tuple[EpochKey, ...]:
    """Return the recorded epochs whose end must be asked for: not the partition's any more, sorted."""
    found = {
        (seen.stream.topic, seen.stream.partition, epoch)
        for seen, epoch in recorded
        if epoch is not None and epoch != seen.leader_epoch
    }
    return tuple(sorted(found))


def leader_epochs(seen: Iterable[PartitionSnapshot]) -> dict[tuple[str, int], int]:
    """Return the leader epoch of each partition that was observed under one."""
    return {item.stream.place: item.leader_epoch for item in seen if item.leader_epoch is not None}


def believed(seen: Snapshot, known: Mapping[Stream, int | None]) -> Snapshot:
    """Return a snapshot in which partitions whose leader answers under an older epoch than is `known` are unknown."""
    return _without(
        seen,
        {
            item.stream: f"the broker that answers leads it under epoch {item.leader_epoch}, and it was led under "
            f"{known[item.stream]} before: the broker is cut off from its controller, or the cluster was set back"
            for item in seen.partitions
            if item.leader_epoch is not None and item.leader_epoch < (known.get(item.stream) or 0)
        },
    )


def not_cut(seen: Snapshot, ends: Mapping[Stream, int]) -> Snapshot:
    """Return a snapshot in which partitions whose log ends below a plan's end are unknown: the number of records that
    are missing there, or written anew, is not known."""
    return _without(
        seen,
        {
            item.stream: f"the log ends at {item.high_watermark}, and a plan has seen it end at {end}: Kafka lost "
            "records, or its leader has just changed; the next plan names them"
            for item in seen.partitions
            if item.high_watermark < (end := ends.get(item.stream, 0))
        },
    )


def _without(seen: Snapshot, reasons: Mapping[Stream, str]) -> Snapshot:
    if not reasons:
        return seen
    doubts = tuple(
        UnknownPartition(topic=key.topic, topic_id=key.topic_id, partition=key.partition, reason=reason)
        for key, reason in reasons.items()
    )
    kept = tuple(item for item in seen.partitions if item.stream not in reasons)
    return replace(seen, partitions=kept, unknown=seen.unknown + doubts)


def epochs_of_tips(tips: Iterable[Tip]) -> tuple[EpochKey, ...]:
    """Return the epochs whose ends tell whether a log has these records: that of each, and the one before it."""
    found = {
        (tip.slice.stream.topic, tip.slice.stream.partition, epoch)
        for tip in tips
        if tip.leader_epoch is not None
        for epoch in (tip.leader_epoch, tip.leader_epoch - 1)
        if epoch >= 0
    }
    return tuple(sorted(found))


def is_proven(tip: Tip, ends: EpochEnds, log_start: int) -> bool:
    """Return whether the leader's log has a record that was read, as far as the ends of epochs tell: it lies within its
    epoch. A record that retention has passed since cannot be compared any more."""
    if tip.offset < log_start:
        return True
    if tip.leader_epoch is None:
        return False
    topic, _, partition = tip.slice.stream
    end = ends.get((topic, partition, tip.leader_epoch))
    start = ends.get((topic, partition, tip.leader_epoch - 1)) if tip.leader_epoch else 0
    return end is not None and start is not None and start <= tip.offset < end


def not_of_the_leader(tips: Sequence[Tip]) -> UnavailableError:
    """Return the refusal of rows that came from another log than the present leader's."""
    first = tips[0].slice
    more = f", and {count(len(tips) - 1, 'more slice')}" if len(tips) > 1 else ""
    return UnavailableError(
        f"{first}{more} was read from a broker whose log is not that of the present leader: what the leader has at "
        f"offset {tips[0].offset} is another record, or none. A broker that is cut off from its controller goes on "
        "answering as the leader that it was. Nothing of it lands. Repeat the call; if it stays so, restart that "
        "broker, or take it from bootstrap.servers",
        **first.stream.facts,
    )


def cut_below(
    seen: PartitionSnapshot, epoch: int | None, until: int, ends: EpochEnds, *, set_back: bool = False
) -> int | None:
    """Return where the log was cut, when that is below `until`, which it had reached under a leader epoch.

    None: everything below `until` is as it was. Raises UnavailableError when the epoch's end could not be learned, and
    for the answer of an older epoch, unless a person says that the cluster was `set_back`.
    """
    if not set_back and epoch is not None and seen.leader_epoch is not None and seen.leader_epoch < epoch:
        raise UnavailableError(
            f"{seen.stream} was seen under leader epoch {epoch}, and the broker that answers leads it "
            f"under {seen.leader_epoch}: it does not know that another one leads it since, and its end "
            f"{seen.high_watermark} proves nothing. Repeat the call. If it stays so, the cluster was set back to an "
            f"earlier state: skip what it has lost, up to offset {until}",
            **seen.stream.facts,
        )
    if seen.high_watermark < until:
        return seen.high_watermark
    if epoch is None or epoch == seen.leader_epoch:
        return None
    key = (seen.stream.topic, seen.stream.partition, epoch)
    if key not in ends:
        raise UnavailableError(
            f"the leader of {seen.stream} did not say where leader epoch {epoch} ended, so a log that "
            "was cut and written again could not be told from a restart: repeat the call",
            **seen.stream.facts,
        )
    end = ends[key]
    # A leader that does not know an epoch it once had has lost all that was written in it.
    end = seen.log_start if end is None else end
    return end if end < until else None


# Offsets of a planned range that Kafka no longer has: errors and holds that name them and the remedies.


def loss(item: RangeRecord, seen: PartitionSnapshot, ends: EpochEnds) -> LostRecordsError | None:
    """Return which offsets of a range are gone, at its begin or at its end, or are others now; None when it is whole.

    Raises UnavailableError when the end of the leader epoch that it was planned under could not be learned.
    """
    start, end = item.range.start, item.range.end
    if seen.log_start > start:
        gone = OffsetRange(start, min(seen.log_start, end))
        way = passing(_held(item, gone), gone)
        return LogStartMovedError(
            f"{_proposed(gone)}, log start moved to {seen.log_start}. Skip them with: {way}",
            lost=gone,
            **item.stream.facts,
        ).ended_by(skipping(item, gone))
    if (cut := cut_below(seen, item.leader_epoch, end, ends)) is None:
        return None
    gone = OffsetRange(max(start, cut), end)
    held = _held(item, gone)
    if seen.high_watermark < end:
        return LogTruncatedError(
            f"{_proposed(gone)}, the log ends at {cut}: Kafka lost what was there. Bring them back, then: "
            f"{remedies.release(held.id)}. Or pass them with: {passing(held, gone)}",
            lost=gone,
            **item.stream.facts,
        ).ended_by(remedies.release(held.id), skipping(item, gone))
    return LogRewrittenError(
        f"{_proposed(gone)}, the log was cut at {cut} after leader epoch {item.leader_epoch} had reached {end}, and "
        f"has grown to {seen.high_watermark} again: these offsets have other records now. Skip them with: "
        f"{passing(held, gone)}",
        lost=gone,
        **item.stream.facts,
    ).ended_by(skipping(item, gone))


def _held(item: RangeRecord, gone: OffsetRange) -> RangeRecord:
    """Return the held part of a range: the lost offsets, so that the rest goes on before it is lost too; all of one
    that was reopened, because one commit replaces its rows."""
    return item if item.generation else item.piece(gone)


def held_loss(item: RangeRecord, error: KafkaLakeError) -> RangeDecision:
    """Return the hold of the lost offsets of a range."""
    lost = error.lost if isinstance(error, LostRecordsError) else None
    part = _held(item, lost).range if lost else item.range
    return held_by(item.id, error, part=None if part == item.range else part)


def left_apart(ranges: Sequence[RangeRecord], lost: Sequence[RangeDecision]) -> Iterator[RangeDecision]:
    """Yield the moves of the remainders of ranges to a wave of their own, so that a partition which retention overtakes
    again and again holds up no other; none where the wave has no other."""
    parts = {verdict.range_id: verdict.part for verdict in lost}
    for item in ranges if len(parts) < len(ranges) else ():
        if part := parts.get(item.id):
            for left in RangeSet((item.range,)) - RangeSet((part,)):
                why = "read apart from the others of its wave"
                yield RangeDecision(range_id=item.id, state=RangeState.PLANNED, reason=why, part=left)


def passed(item: RangeRecord, part: OffsetRange) -> RangeDecision:
    """Return the hold of offsets of which no row was read, and which the log start passed before they were explained.

    The rows read beside them are staged and complete: they go on without them.
    """
    error = LogStartMovedError(
        f"{_proposed(part)}, no row came of them, and the log start has passed them before their batches could be "
        f"read: nothing can say any more that they were markers. What was read beside them goes on. Skip them with: "
        f"{passing(item.piece(part), part)}"
    ).ended_by(skipping(item, part))
    return held_by(item.id, error, RangeSet((part,)), part=None if part == item.range else part)


def lost_end(pipeline: str, seen: PartitionSnapshot, record: StreamRecord, ends: EpochEnds) -> LostRecordsError | None:
    """Return the loss of offsets that a stream's newest plan has seen; None without a loss. Raises as `loss`."""
    until = record.end_seen
    if (cut := cut_below(seen, record.leader_epoch, until, ends)) is None:
        return None
    skip = remedies.skip(pipeline, Slice(seen.stream, OffsetRange(cut, until)), name_topic_id=True)
    if seen.high_watermark < until:
        return LogTruncatedError(
            f"the log ends at {cut}, it ended at {until} before, and the topic is the same: Kafka lost records. Bring "
            f"them back, or give {cut}-{until} up with: {skip}. What is written there again is then not read, and "
            f"planning goes on once the log has passed {until}; if it must be read, write to a re-created topic, which "
            "is read from its start",
            **seen.stream.facts,
        )
    return LogRewrittenError(
        f"the log was cut at {cut} after leader epoch {record.leader_epoch} had reached {until}, and has grown to "
        f"{seen.high_watermark} again: offsets {cut}-{until} have other records now. Give the old ones up with: {skip}",
        **seen.stream.facts,
    )


def gone_topic(item: RangeRecord, what: IdentityError) -> IdentityError:
    """Return the refusal: a range's topic is gone, in the words of `what`, and none of its records can be read."""
    pass_it = passing(item, item.range, generation=True)
    text = f"{what.message}. Nothing of it can be read; pass {item.range} with: {pass_it}"
    return type(what)(text, **what.facts).ended_by(skipping(item, item.range, generation=True))


def fewer_rows(item: RangeRecord, before: int, after: int, lost: RangeSet) -> RangeDecision:
    """Return the hold of a second read that has fewer rows than the lake has now; a person may agree to that."""
    ways = (remedies.reopen(item.pipeline, item.slice, switches=("accept_fewer",)), remedies.release(item.id))
    reason = (
        f"read again it has {count(after, 'row')}, the lake has {before:,}: {count(lost.span, 'offset')} would be "
        f"gone, {some(lost, NAMED, 'range')}. The lake stays as it is. Accept the smaller result with: {ways[0]}; "
        f"or bring the records back, then: {ways[1]}"
    )
    return hold(item.id, reason, cause=Cause(kind=None, remedies=ways))


def deleted_rows(item: RangeRecord, gone: RangeSet, *, come_back: bool) -> RangeDecision:
    """Return the hold of a second read of which rows were deleted since it was decided: they come back, or Kafka has
    them no more."""
    again = remedies.reopen(item.pipeline, item.slice, switches=("restore_deleted",))
    record = remedies.accept_deletes(item.pipeline, item.slice)
    ways = (again, remedies.skip(item.pipeline, item.slice), record)
    reason = (
        f"{count(gone.span, 'row is', 'rows are')} gone from the lake since it was decided to read this again, "
        f"{some(gone, NAMED, 'range')}, and {'would come back' if come_back else 'Kafka has them no more'}. The lake "
        f"stays as it is. {'To have them back' if come_back else 'To read the others again'}: {ways[0]}; "
        f"to leave all rows there as they are: {ways[1]}, then {record}"
    )
    return hold(item.id, reason, cause=Cause(kind=None, remedies=ways))


def _proposed(gone: OffsetRange) -> str:
    return f"skip {gone}: {count(gone.span, 'offset')}"


# Can the planned offsets still be read, and are they the planned records? Judged from Kafka's answers.


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """The losses of some ranges, by id: `failed` with the error of topic or log, `unknown` with that of no answer;
    the others are as they were planned. `seen` are the compared partitions."""

    failed: Mapping[str, KafkaLakeError] = field(default_factory=dict)
    unknown: Mapping[str, KafkaLakeError] = field(default_factory=dict)
    seen: Mapping[Stream, PartitionSnapshot] = field(default_factory=dict)

    @property
    def may_change(self) -> bool:
        """Whether an answer that is missing may come by itself."""
        return any(isinstance(error, TransientError) for error in self.unknown.values())

    def refusal(self, text: str, **facts: str) -> KafkaLakeError:
        """Return the error of a missing answer, within `text` at `{}`; one that a person has to mend comes first."""
        error = min(self.unknown.values(), key=lambda error: isinstance(error, TransientError))
        return type(error)(text.format(error.message.rstrip(".")), **{**error.facts, **facts})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """Kafka's facts about the topics and logs of some ranges.

    `changed` are `(topic, topic_id)` that are not there any more, `problems` topics of which nothing can be said;
    `snapshot` has the partitions of the others, and `ends` where leader epochs in doubt ended.
    """

    changed: Mapping[tuple[str, str], IdentityError]
    problems: Mapping[str, KafkaLakeError]
    snapshot: Snapshot | None = None
    ends: EpochEnds = field(default_factory=dict)

    def to_observe(self, ranges: Sequence[RangeRecord]) -> list[str]:
        """Return the topics whose partitions must be observed."""
        streams = {item.stream for item in ranges}
        return sorted({i.topic for i in streams if i[:2] not in self.changed and i.topic not in self.problems})

    def in_doubt(self, ranges: Sequence[RangeRecord]) -> tuple[EpochKey, ...]:
        """Return the leader epochs whose end must be asked for."""
        seen = self._partitions()
        return epochs_in_doubt((seen[item.stream], item.leader_epoch) for item in ranges if item.stream in seen)

    def losses(self, ranges: Sequence[RangeRecord]) -> Losses:
        """Compare topic ids, log starts, ends and leader epochs with the planned ones."""
        failed: dict[str, KafkaLakeError] = {}
        unknown: dict[str, KafkaLakeError] = {}
        seen, silent = self._partitions(), self.snapshot.unknown if self.snapshot else ()
        reasons = {(item.topic, item.partition): item.reason for item in silent}
        for item in ranges:
            if gone := self.changed.get(item.stream[:2]):
                failed[item.id] = gone_topic(item, gone)
            elif problem := self.problems.get(item.stream.topic):
                unknown[item.id] = problem
            elif item.stream not in seen:
                reason = reasons.get(item.stream.place, "Kafka says nothing about it")
                unknown[item.id] = UnavailableError(f"{item.stream} is not known: {reason}")
            else:
                try:
                    if found := loss(item, seen[item.stream], self.ends):
                        failed[item.id] = found
                except UnavailableError as error:
                    unknown[item.id] = error
        return Losses(failed=failed, unknown=unknown, seen=seen)

    def _partitions(self) -> dict[Stream, PartitionSnapshot]:
        return {item.stream: item for item in self.snapshot.partitions} if self.snapshot else {}
