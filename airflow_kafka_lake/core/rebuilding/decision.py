"""From what was found to one decision that makes a ledger agree with the lake."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime

from airflow_kafka_lake.core.ledger.receipts import origin_receipt
from airflow_kafka_lake.core.ledger.records import ReceiptRow
from airflow_kafka_lake.core.ledger.waves import Token
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.rebuilding.readings import Comparison, Pending, Remembered, TableReading
from airflow_kafka_lake.core.rebuilding.reopens import Reopens
from airflow_kafka_lake.core.rebuilding.restoration import (
    Restoration,
    RestoredPlan,
    RestoredSkip,
    RestoredStream,
    RestoredWave,
)
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.core.spec import PipelineSpec


def restoration(
    spec: PipelineSpec,
    token: Token,
    ledger_id: str,
    *,
    now: datetime,
    readings: Sequence[TableReading],
    known: Remembered,
    comparison: Comparison,
) -> Restoration:
    """Turn what was found into one decision; ids of what it brings are made from the rebuild's."""
    receipts = [row for item in readings for row in item.receipts]
    waves = _numbered(token, comparison.waves, receipts)
    reopens = Reopens.of(receipts)
    skips = _skips(receipts, reopens)
    streams = _streams(receipts, _origins(readings), {stream.key for stream in known.streams})
    reached = _ends(receipts)
    known_origins = {item.key: item.origin for item in known.streams} | {item.stream: item.origin for item in streams}
    sent = {row.stream for row in receipts if row.kind == "origin" and row.attempt == ledger_id}
    origins = [
        (table, origin_receipt(spec.name, token.wave, key, origin, ledger_id=ledger_id, at=now))
        for key, origin in sorted(known_origins.items())
        if key not in sent and (table := spec.table_for(key.topic)) in {item.table for item in readings}
    ]
    return Restoration(
        spec=spec,
        token=token,
        observed_at=now,
        versions={stream.key: stream.version for stream in known.streams},
        guards=known.guards,
        tables={item.table: item.uuid for item in readings},
        streams=streams,
        ends={
            item.key: reached[item.key]
            for item in known.streams
            if item.key in reached and reached[item.key][0] > item.end_seen
        },
        waves=waves,
        skips=skips,
        reopened=comparison.reopened,
        undone=frozenset(item.wave for reading in readings for item in known.undone(reading)),
        fences=_fences(readings),
        receipts=(*comparison.receipts, *origins),
        reopens=reopens,
        planned=_planned(token, comparison.pending, receipts),
    )


def _numbered(token: Token, waves: Sequence[RestoredWave], receipts: Iterable[ReceiptRow]) -> tuple[RestoredWave, ...]:
    """Give ranges their ids, and the leader epoch that their attempt has read them under: a log that was cut since has
    other records there."""
    read: dict[tuple[str, Stream], list[ReceiptRow]] = defaultdict(list)
    for row in receipts:
        read[row.attempt, row.stream].append(row)
    numbers = iter(range(sum(len(wave.receipts) for wave in waves)))
    return tuple(
        replace(
            wave,
            receipts=tuple(
                replace(
                    item,
                    range_id=f"{token.wave}r{next(numbers)}",
                    leader_epoch=_epoch(read[wave.attempt, item.stream], item.range),
                )
                for item in wave.receipts
            ),
        )
        for wave in waves
    )


def _epoch(receipts: Iterable[ReceiptRow], part: OffsetRange) -> int | None:
    """Return the leader epoch under which offsets were read last; None where no receipt has it."""
    read = [row for row in receipts if row.kind == "rows" and row.range.overlaps(part)]
    return max(read, key=lambda row: row.recorded_at).leader_epoch if read else None


def _planned(token: Token, pending: Sequence[Pending], receipts: Sequence[ReceiptRow]) -> tuple[RestoredPlan, ...]:
    """Put what waits to be read again into waves of their own: one may have to wait for the other."""
    return tuple(
        RestoredPlan(
            id=f"{token.wave}p{number}",
            wave=f"{token.wave}-w{number}",
            table=item.table,
            stream=item.stream,
            range=item.range,
            generation=item.generation,
            leader_epoch=_epoch((row for row in receipts if row.stream == item.stream), item.range),
        )
        for number, item in enumerate(pending)
    )


def _skips(receipts: Iterable[ReceiptRow], reopens: Reopens) -> tuple[RestoredSkip, ...]:
    """Return the skips, less what was reopened since."""
    found: dict[tuple[str, Stream, int], list[ReceiptRow]] = defaultdict(list)
    for row in receipts:
        if row.kind == "skip":
            found[row.attempt, row.stream, row.generation].append(row)
    skips = [
        RestoredSkip(
            id=name,
            stream=stream,
            at=rows[0].recorded_at,
            passed=RangeSet(row.range for row in rows) - reopens.later_than(stream, generation),
            generation=generation,
        )
        for (name, stream, generation), rows in found.items()
    ]
    return tuple(sorted((skip for skip in skips if skip.passed), key=lambda skip: (skip.at, skip.id)))


def _origins(readings: Iterable[TableReading]) -> Mapping[Stream, int]:
    """Return the origins that the lake has receipts of: of the ledger that owned the topic last, or else the first.

    A planner of a lost ledger may send what it had decided long after another ledger decided anew.
    """
    origins: dict[Stream, int] = {}
    for reading in readings:
        sent = (row for row in reading.receipts if row.kind == "origin")
        for row in sorted(
            sent, key=lambda row: (row.attempt != reading.owners.get(row.stream.topic_id), row.recorded_at)
        ):
            origins.setdefault(row.stream, row.range.start)
    return origins


def _streams(
    receipts: Sequence[ReceiptRow], origins: Mapping[Stream, int], known: AbstractSet[Stream]
) -> tuple[RestoredStream, ...]:
    """Return the streams that the ledger lacks, with their origins.

    Where the lake has no receipt of one, it is the smallest offset that any other receipt names.
    """
    ends = _ends(receipts)
    starts: dict[Stream, int] = {}
    for row in receipts:
        if row.kind != "origin":
            starts[row.stream] = min(row.range.start, starts.get(row.stream, row.range.start))
    found = []
    for key in sorted({*starts, *origins} - known):
        origin = origins[key] if key in origins else starts[key]
        end, epoch = ends.get(key, (origin, None))
        found.append(RestoredStream(stream=key, origin=origin, end_seen=max(origin, end), leader_epoch=epoch))
    return tuple(found)


def _ends(receipts: Iterable[ReceiptRow]) -> Mapping[Stream, tuple[int, int | None]]:
    """Return the highest end in a stream's receipts, and the leader epoch that its log had that end under.

    Of several with one end the last of a read or a skip counts: a skip of what a log lost accepts the log as it is.
    """
    ends: dict[Stream, ReceiptRow] = {}
    for row in (row for row in receipts if row.kind != "origin"):
        if (found := ends.get(row.stream)) is None or _reach(row) > _reach(found):
            ends[row.stream] = row
    return {key: (row.range.end, row.leader_epoch) for key, row in ends.items()}


def _reach(row: ReceiptRow) -> tuple[int, bool, datetime]:
    return (row.range.end, row.kind in {"rows", "skip"}, row.recorded_at)


def _fences(readings: Iterable[TableReading]) -> dict[str, int]:
    fences: dict[str, int] = {}
    for item in readings:
        seen = [(row.wave, row.fence) for row in item.receipts]
        seen += [(commit.token.wave, commit.token.fence) for commit in item.commits if commit.token]
        for wave, fence in seen:
            fences[wave] = max(fence, fences.get(wave, 0))
    return fences
