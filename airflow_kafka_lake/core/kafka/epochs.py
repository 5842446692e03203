"""Whether a partition's log is still the one that was planned from: what a plan recorded against what is seen now.

A leader epoch that changed is no loss by itself: every restart of a broker raises it. Kafka knows where each epoch
ended. When the epoch that was recorded ended below what was recorded under it, the log was cut there, however long it
has grown again since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import UnavailableError
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot, Snapshot, UnknownPartition
from airflow_kafka_lake.core.lake.staging import Tip
from airflow_kafka_lake.core.slices import Stream

EpochKey = tuple[str, int, int]
"""`(topic, partition, leader epoch)`."""

EpochEnds = Mapping[EpochKey, int | None]
"""Where epochs ended; None: the leader knows no such epoch. One that is not in it could not be asked about."""


def epochs_in_doubt(recorded: Iterable[tuple[PartitionSnapshot, int | None]]) -> tuple[EpochKey, ...]:
    """Return the recorded epochs whose end must be asked for: those that are not the partition's any more, sorted."""
    found = {
        (seen.stream.topic, seen.stream.partition, epoch)
        for seen, epoch in recorded
        if epoch is not None and epoch != seen.leader_epoch
    }
    return tuple(sorted(found))


def leader_epochs(seen: Iterable[PartitionSnapshot]) -> dict[tuple[str, int], int]:
    """Return the leader epoch of each partition that was observed under one."""
    return {
        (item.stream.topic, item.stream.partition): item.leader_epoch for item in seen if item.leader_epoch is not None
    }


def believed(seen: Snapshot, known: Mapping[Stream, int | None]) -> Snapshot:
    """Return what was seen; partitions whose leader answers under an older epoch than is `known` are unknown."""
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
    """Return what was seen; partitions whose log ends below an end that a plan has seen are unknown: what is missing
    there, and what is written there anew, is in no number."""
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
    epoch. What retention has passed since cannot be compared any more."""
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
        topic=first.stream.topic,
        partition=first.stream.partition,
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
            topic=seen.stream.topic,
            partition=seen.stream.partition,
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
            topic=seen.stream.topic,
            partition=seen.stream.partition,
        )
    end = ends[key]
    # A leader that does not know an epoch it once had has lost all that was written in it.
    end = seen.log_start if end is None else end
    return end if end < until else None
