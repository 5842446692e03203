"""What must hold of a place when everything that was begun in it has ended: ledger and lake against the producers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.waves import UNFINISHED, AttemptOutcome, RangeState, WaveState
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.ports import LedgerReader
from tests.faults.operations import DEAD_DECODE, DECODING, MIRROR
from tests.faults.place import Ended, Place
from tests.faults.standing_decoding import COLUMNS, decoded
from tests.faults.standing_kafka import OPEN, Happened, happened, told

VISIBLE = frozenset({RangeState.PLANNED, RangeState.COMMITTED})
"""What a range of a visible wave can be: not committed yet, or committed."""


def problems(place: Place, decisions: Sequence[Ended]) -> list[str]:
    """Return everything that is wrong; `decisions` are the commands of persons that ended."""
    ledger = place.ledger()
    try:
        return [
            *_rows(place, ledger),
            *_record(place, ledger),
            *_publishes(place, ledger),
            *_decided(ledger, place.name, decisions),
            *_mirror(place, ledger),
            *_columns(place, done=True),
            *_named(place, decisions),
        ]
    finally:
        ledger.close()


def problems_amid(place: Place) -> list[str]:
    """Return what is wrong in the middle of everything: a wave is visible whole or not at all, each row once.

    The ledger is read before the rows: what it calls committed by then must be there, though others are still at work.
    """
    ledger = place.ledger()
    streams, waves = ledger.streams(place.name), ledger.waves(place.name)
    planned = {wave.id: [item for item in ledger.ranges(wave=wave.id) if item.state in VISIBLE] for wave in waves}
    ledger.close()
    rows = place.rows()
    found = [f"row {row} is there {count} times" for row, count in rows.items() if count > 1]
    told = {(*at, value) for at, value in place.acknowledged.items()}
    found += [f"row {row} was never acknowledged" for row in rows.keys() - told]
    for wave in waves:
        whole = {
            row for row in told if any(row[0] == i.stream.partition and row[1] in i.range for i in planned[wave.id])
        }
        seen = whole & rows.keys()
        if seen != whole and (seen or wave.state is WaveState.COMMITTED):
            found.append(f"wave {wave.id} ({wave.state}) is visible in part: {len(seen)} of {len(whole)}")
    for stream in streams:
        if stream.watermark > stream.covered.unbroken_end(stream.origin):
            found.append(
                f"partition {stream.key.partition}: the watermark {stream.watermark} is ahead of {stream.covered}"
            )
    return [*found, *_columns(place, done=False)]


def _rows(place: Place, ledger: LedgerReader) -> Iterator[str]:
    """Rows exactly once, as acknowledged: all of what is committed and nothing of anything else."""
    rows = place.rows()
    yield from (f"row {row} is there {count} times" for row, count in rows.items() if count > 1)
    committed = {
        (item.stream.partition, offset)
        for item in ledger.ranges(pipeline=place.name, states=(RangeState.COMMITTED,))
        for offset in range(item.range.start, item.range.end)
    }
    expected = {(*at, value) for at, value in place.acknowledged.items() if at in committed}
    if missing := sorted(expected - rows.keys()):
        yield f"committed and missing: {missing}"
    if foreign := sorted(rows.keys() - expected):
        yield f"visible and not committed, or never acknowledged: {foreign}"


def _record(place: Place, ledger: LedgerReader) -> Iterator[str]:
    """Every offset has its place, nothing is stuck or left, the watermark is at what is proved."""
    ranges = ledger.ranges(pipeline=place.name)
    for number, end in place.ends.items():
        known = RangeSet(item.range for item in ranges if item.stream.partition == number)
        if known.to_pairs() != [[0, end]]:
            yield f"partition {number}: {known} is planned, and [0, {end}) is there"
    for item in ledger.waves(place.name, UNFINISHED):
        yield f"stuck: wave {item.id} is {item.state}"
    for stream in ledger.streams(place.name):
        proved = stream.covered.unbroken_end(stream.origin)
        if stream.watermark != proved:
            yield f"partition {stream.key.partition}: watermark {stream.watermark}, proved to {proved}"
    if branches := sorted(set(place.iceberg().metadata.refs) - {"main", DEAD_DECODE}):
        yield f"staging branches are left: {branches}"
    if left := ledger.outbox(place.name):
        yield f"{len(left)} receipts have not reached the lake"


def _publishes(place: Place, ledger: LedgerReader) -> Iterator[str]:
    """One publish for each committed wave and for no other, by one attempt."""
    committed = {item.id for item in ledger.waves(place.name, (WaveState.COMMITTED,)) if item.table}
    published = Counter(place.publishes())
    visible = place.visible()
    of_rows = {item.id for item in ledger.waves(place.name) if {a.attempt for a in ledger.attempts(item.id)} & visible}
    if set(published) | of_rows != committed:
        yield f"published are {sorted(published)} and {sorted(of_rows)}, and the ledger says {sorted(committed)}"
    yield from (f"wave {wave} was published {count} times" for wave, count in published.items() if count > 1)
    for wave in committed:
        outcomes = [item.outcome for item in ledger.attempts(wave)]
        if outcomes.count(AttemptOutcome.COMMITTED) != 1:
            yield f"wave {wave} was committed by {outcomes}"


def _decided(ledger: LedgerReader, pipeline: str, decisions: Sequence[Ended]) -> Iterator[str]:
    """What a person was told is done, holds."""
    ranges = {item.id: item for item in ledger.ranges(pipeline=pipeline)}
    for decision in decisions:
        if decision.code != 0:
            continue
        match decision.words[0]:
            case "cancel":
                yield from _still(ranges, decision.document["cancelled"], {RangeState.CANCELLED})
            case "release":
                released = decision.document["released"]
                yield from _still(ranges, released, {RangeState.COMMITTED, RangeState.PLANNED})
            case "skip":
                yield from _passed(ranges, decision)
            case _:
                pass


def _still(ranges: dict[str, RangeRecord], ids: Sequence[str], states: set[RangeState]) -> Iterator[str]:
    for name in ids:
        if ranges[name].state not in states:
            yield f"a decision did not hold: range {name} is {ranges[name].state}"


def _passed(ranges: dict[str, RangeRecord], decision: Ended) -> Iterator[str]:
    start, end = decision.document["from"], decision.document["to"]
    skipped = decision.document["skipped"]
    passed = [item for item in ranges.values() if item.state is RangeState.SKIPPED]
    if skipped and not any(item.range.start <= start and end <= item.range.end for item in passed):
        yield f"a decision did not hold: {skipped} offsets of [{start}, {end}) were skipped, and {passed} are"


def _mirror(place: Place, ledger: LedgerReader) -> Iterator[str]:
    """The group was never told more than is proved, nor told to go back, and in the end it knows all."""
    known = {stream.key.partition: stream.watermark for stream in ledger.streams(place.name)}
    last = dict.fromkeys(known, 0)
    for group, partition, offset in told(place.home):
        if not last[partition] <= offset <= known[partition]:
            yield f"{group} was told {offset} of {partition}, after {last[partition]}; proved is {known[partition]}"
        last[partition] = offset
    if MIRROR in place.file.read_text(encoding="utf-8") and last != known:
        yield f"{MIRROR} knows {last}, and proved is {known}"


def _columns(place: Place, *, done: bool) -> Iterator[str]:
    """What an attempt shows is decoded whole and right, or not at all; `done`: all that the pipeline decodes is."""
    asked = DECODING in place.file.read_text(encoding="utf-8")
    if not asked:
        return
    states: dict[str, set[bool]] = {}
    for row in place.table_rows():
        columns = {name: row.get(name) for name in COLUMNS}
        right, raw = columns == decoded(row["value"]), not any(columns.values())
        if not right and not raw:
            yield f"decoded wrong: {row}"
        states.setdefault(row["ingest_attempt"], set()).add(right)
    if half := sorted(attempt for attempt, found in states.items() if len(found) > 1):
        yield f"attempts {half} are decoded in part"
    if done and not all(all(found) for found in states.values()):
        yield f"what was asked for is not decoded: {states}"


def _named(place: Place, decisions: Sequence[Ended]) -> Iterator[str]:
    """Who plans or asks beside an open transaction hears whose it is: the last one, undisturbed."""
    asked = [item for item in decisions if item.words[0] in {"plan", "status"}]
    if not asked or Happened.TRANSACTION not in happened(place.home):
        return
    (waiting,) = asked[-1].document["waiting_for_stable"]
    named = waiting["transaction"] or {}
    if named.get("transactional_id") != OPEN:
        yield f"the transaction that {waiting} waits for is not named"
