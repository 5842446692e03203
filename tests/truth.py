"""What must hold of ledger and lake, at every moment and at rest, held against what producers were told."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from airflow_kafka_lake.core.ledger.records import RangeRecord, ReceiptRow, StreamRecord, first_held
from airflow_kafka_lake.core.ledger.waves import (
    PUBLISHES,
    UNRESOLVED,
    AttemptOutcome,
    AttemptRecord,
    RangeState,
    WaveState,
)
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Stream, ranges_digest
from airflow_kafka_lake.core.ordering.segments import Graph, is_drained
from airflow_kafka_lake.core.planning.costs import LEAST_BYTES_PER_OFFSET
from tests.kit.memory_lake import Row
from tests.kit.memory_lake.store import Commit

if TYPE_CHECKING:
    from tests.kit.memory_ledger import State
    from tests.world import World

Place = tuple[Stream, int]


@dataclass(frozen=True, slots=True)
class Seen:
    """What readers see at a commit of main: rows by stream and offset, and the places of each attempt's rows."""

    rows: Mapping[Stream, Mapping[int, Row]]
    places: Mapping[str, set[Place]]


MOST_TIMES_TARGET = 2
"""How many times the target size a range may have by the smallest estimate: what is left of a cut is not one more."""

NOT_SENT = frozenset({AttemptOutcome.REJECTED, AttemptOutcome.FAILED})
"""Outcomes that are on record only once it is certain that no commit which an attempt has sent is in the lake."""


def check_always(world: World) -> None:
    """Hold a moment against the truth, also in the middle of everything: what readers see and what is on record.

    A moment at which nothing has changed of all that is judged since it was found right is not judged again.
    """
    seen = seen_once(world)
    judged = _judged_by(world)
    if world.right is not None and world.right[0] is seen and world.right[1:] == (judged, world.watermarks):
        return
    ranges, attempts = world.ledger.ranges(pipeline=world.spec.name), _attempts(world)
    by_wave, by_stream = defaultdict(list), defaultdict(list)
    widest = MOST_TIMES_TARGET * world.spec.target_range_bytes / LEAST_BYTES_PER_OFFSET
    for item in ranges:
        assert item.state is not RangeState.PLANNED or item.range.span <= widest, f"a backlog in one range: {item}"
        by_wave[item.wave].append(item)
        by_stream[item.stream].append(item)
        _check_range(world, item, seen)
    waves = defaultdict(list)
    for attempt in attempts:
        waves[attempt.attempt].append(attempt.wave)
    reopened = [item for item in ranges if item.generation and item.state is not RangeState.COMMITTED]
    for name, places in seen.places.items():
        if not waves[name] and places <= _places(reopened):
            continue  # a rebuilt ledger need not know who read what is to be read again
        assert len(waves[name]) == 1, f"rows of attempt {name}, which no wave knows"
        waiting = _places(item for item in reopened if item.wave != waves[name][0])
        _check_whole_wave(world, places - waiting, waves[name][0], by_wave[waves[name][0]])
    _check_attempts(world, seen.places.keys(), attempts)
    streams = world.ledger.streams(world.spec.name)
    for stream in streams:
        _check_watermark(world, stream, by_stream[stream.key])
    graph = Graph(world.ledger.segments(world.spec.name))
    _check_order(world, graph, ranges, streams, seen)
    _check_parents(world, graph, streams)
    world.right = (seen, judged, dict(world.watermarks))


def _judged_by(world: World) -> tuple[object, ...]:
    """Return all that `check_always` judges and judges by, beside the rows and the watermarks that were seen; frozen
    values in containers of their own, so that comparing two of them is quick."""
    state = world.ledger._state
    told = [sum(map(len, found.values())) for found in (world.visible, world.deleted)]
    waves = {name: (wave.state, wave.fence) for name, wave in state.waves.items()}
    facts = (state.ranges, state.streams, state.attempts, state.skips, state.segments, state.layouts)
    return (world.spec, state.plans, waves, *facts, len(world.table._receipts), told)


def check_lake(world: World) -> None:
    """Hold what readers see against the truth, whatever the ledger knows: each row once, and with a receipt."""
    places = seen_once(world).places
    proven = {
        (i.attempt, i.stream, offset) for i in _row_receipts(world) for offset in range(i.range.start, i.range.end)
    }
    seen = {(attempt, *place) for attempt, found in places.items() for place in found}
    assert seen <= proven, f"visible before it was accounted for: {seen - proven}"


def check_claims(world: World, before: State) -> None:
    """Hold what one worker did on his own against the leases there were: no worker robs a holder who may be at work."""
    for name, wave in world.ledger._state.waves.items():
        was = before.waves.get(name)
        if was is None or was.fence == wave.fence or was.lease_until is None or was.holder is None:
            continue
        assert wave.fence == was.fence + 1, f"wave {name}: fence {was.fence} became {wave.fence}"
        live = was.lease_until > world.clock.now() and was.holder.pid not in world.dead
        assert not live, f"wave {name} was taken from {was.holder}, whose lease was live"


def check_at_rest(world: World) -> None:
    """Hold the end against the truth: no row without a committed range, tokens, watermarks at the end of their run."""
    ranges = world.ledger.ranges(pipeline=world.spec.name)
    committed = defaultdict(list)
    for item in ranges:
        if item.state is RangeState.COMMITTED or (item.state is RangeState.SKIPPED and item.generation):
            committed[item.stream].append(item.range)
    for stream, found in seen_once(world).rows.items():
        stray = set(found) - _offsets(committed[stream])
        assert not stray, f"rows of {stream} belong to no committed range: {sorted(stray)}"
    for record in world.ledger.streams(world.spec.name):
        expected = record.covered.unbroken_end(record.origin)
        assert record.watermark == expected, f"{record.key}: watermark {record.watermark}, committed to {expected}"
    outcomes = {item.attempt: item.outcome for item in _attempts(world)}
    for attempt, places in seen_once(world).places.items():
        if attempt in outcomes or not places <= _waiting(ranges):
            outcome = outcomes.get(attempt)
            assert outcome is AttemptOutcome.COMMITTED, f"attempt {attempt} is visible and {outcome}"


def check_tokens(world: World) -> None:
    """Hold every commit of main that is not expired against its token: rows of one attempt, digest of its ranges."""
    store = world.table._store
    for commit in store.history() if store else ():
        own = [row for row in commit.added if row.topic in world.topic_ids]
        assert {row.attempt for row in own} <= {commit.token.attempt if commit.token else ""}, commit
        if commit.token is None or commit.token.kind not in PUBLISHES:
            assert not own, f"a commit that publishes nothing has rows: {commit}"
            continue
        ranges = [item for item in world.ledger.ranges(wave=commit.token.wave) if item.state in PUBLISHED]
        told = [row for row in _row_receipts(world) if row.attempt == commit.token.attempt]
        if any(_was_reopened(item, row) for item in world.ledger.ranges(pipeline=world.spec.name) for row in told):
            ranges = told
        digest = ranges_digest(item.slice for item in ranges)
        assert commit.token.ranges == digest, f"the token of wave {commit.token.wave} names other ranges"


def _was_reopened(item: RangeRecord, receipt: ReceiptRow) -> bool:
    """Return whether what a receipt speaks of was taken from its wave later, to be read again."""
    overlap = item.stream == receipt.stream and item.range.overlaps(receipt.range)
    return overlap and item.generation > receipt.generation


PUBLISHED = frozenset({RangeState.PLANNED, RangeState.COMMITTED})
"""What a range of a published wave can be: not committed yet, or committed."""


def seen_once(world: World) -> Seen:
    """Return what readers see, each row once and as it was produced; a commit is judged once, as nothing changes it."""
    store = world.table._store
    commit = store.commits[store.refs["main"]] if store and "main" in store.refs else None
    if world.judged is None or world.judged[0] is not commit:
        world.judged = (commit, _judged(world, commit))
    return world.judged[1]


def _judged(world: World, commit: Commit | None) -> Seen:
    own = [row for row in commit.rows if row.topic in world.topic_ids] if commit else []
    counts = Counter((row.topic, row.topic_id, row.partition, row.offset) for row in own)
    twice = [key for key, count in counts.items() if count > 1]
    assert not twice, f"visible more than once: {twice}"
    rows: dict[Stream, dict[int, Row]] = defaultdict(dict)
    places = defaultdict(set)
    for row in own:
        stream = row.stream
        assert world.visible[stream].get(row.offset) == row.value, f"no committed record: {row}"
        rows[stream][row.offset] = row
        places[row.attempt].add((stream, row.offset))
    return Seen(rows, places)


def _offsets(ranges: Iterable[OffsetRange]) -> set[int]:
    return {offset for item in ranges for offset in range(item.start, item.end)}


def _inside(offsets: Mapping[int, object], slice_: OffsetRange) -> set[int]:
    return {offset for offset in range(slice_.start, slice_.end) if offset in offsets}


def _check_range(world: World, item: RangeRecord, seen: Seen) -> None:
    """A committed range shows each of its committed records and accounts for every offset; a skipped one shows none."""
    if item.state not in {RangeState.SKIPPED, RangeState.COMMITTED}:
        return
    inside = _inside(seen.rows.get(item.stream, {}), item.range)
    if item.state is RangeState.SKIPPED:
        assert not inside or item.generation, f"skipped and visible: {item}"  # an earlier reading stays
        return
    expected = _inside(world.visible[item.stream], item.range)
    missing = expected - inside - world.deleted[item.stream]
    assert not missing, f"range {item.id}: missing {missing}"
    assert inside <= expected, f"range {item.id}: unexpected {inside - expected}"
    assert item.accounting is not None
    assert item.accounting.unexplained == 0, item
    assert item.accounting.span == item.range.span, item
    assert item.accounting.visible == item.rows == len(expected), item


def _waiting(ranges: Iterable[RangeRecord]) -> set[Place]:
    """Return where rows of an earlier reading stay until it is done again, or for good where that was given up."""
    return _places(item for item in ranges if item.generation and item.state is not RangeState.COMMITTED)


def _places(ranges: Iterable[RangeRecord]) -> set[Place]:
    return {(item.stream, offset) for item in ranges for offset in range(item.range.start, item.range.end)}


def _check_whole_wave(world: World, seen: set[Place], wave: str, ranges: Sequence[RangeRecord]) -> None:
    """What an attempt shows is all of its wave, and nothing else."""
    committed = world.ledger._state.waves[wave].state is WaveState.COMMITTED
    state = RangeState.COMMITTED if committed else RangeState.PLANNED
    mine = [item for item in ranges if item.state is state]
    expected = {(item.stream, offset) for item in mine for offset in _inside(world.visible[item.stream], item.range)}
    missing = {(stream, offset) for stream, offset in expected - seen if offset not in world.deleted[stream]}
    assert not missing, f"wave {wave}: missing {missing}"
    assert seen <= expected, f"wave {wave}: unexpected {seen - expected}"


def _check_attempts(world: World, visible: AbstractSet[str], attempts: Sequence[AttemptRecord]) -> None:
    """No job starts before its base is on record; what is visible has receipts, and an attempt that may have sent it.

    A later attempt of the wave may go on with what one has staged, and sends it in that one's name: what the earlier
    one is called says how its own work ended. What was rejected goes on no more.
    """
    proven = {row.attempt for row in _row_receipts(world)}
    assert visible <= proven, f"visible before it was accounted for: {visible - proven}"
    for item in attempts:
        assert item.job is None or item.base is not None, f"a job without a base: {item}"
        if item.attempt in visible:
            senders = [item, *(other for other in attempts if _goes_on_with(other, item))]
            assert item.outcome is not AttemptOutcome.REJECTED, f"rejected, and visible: {item}"
            assert {sender.outcome for sender in senders} - NOT_SENT, f"not sent, and visible: {senders}"


def _goes_on_with(later: AttemptRecord, earlier: AttemptRecord) -> bool:
    """Return whether a later attempt has taken what an earlier one of its wave has staged for its own."""
    is_later = later.wave == earlier.wave and later.fence > earlier.fence
    return is_later and earlier.audited is not None and later.audited == earlier.audited


def _check_watermark(world: World, stream: StreamRecord, ranges: list[RangeRecord]) -> None:
    covered = RangeSet(item.range for item in ranges if item.state not in UNRESOLVED)
    assert stream.covered == covered
    assert stream.watermark <= covered.unbroken_end(stream.origin), (
        f"{stream.key}: watermark ahead of what is committed"
    )
    held = first_held(stream.watermark, (item.range for item in ranges if item.state in UNRESOLVED))
    assert held is None or stream.watermark <= held, f"{stream.key}: watermark {stream.watermark} above hold {held}"
    assert not [i for i in ranges if i.state in UNRESOLVED and stream.origin <= i.range.start < stream.watermark]
    last = world.watermarks.get(stream.key, stream.origin)
    assert stream.watermark >= last, f"{stream.key}: the watermark moved back from {last} to {stream.watermark}"
    world.watermarks[stream.key] = stream.watermark


def _check_order(
    world: World, graph: Graph, ranges: Iterable[RangeRecord], streams: Iterable[StreamRecord], seen: Seen
) -> None:
    """No attempt shows a record of a segment unless all that it continues was drained when it went to publish.

    What it continues may be reopened afterwards: the rows of both stay. So an attempt was in order if it was seen so on
    its way, or once its rows were there.
    """
    known = {stream.key: stream for stream in streams}
    waits = {item.key for item in graph if any(not is_drained(graph[key], known) for key in graph.ancestors(item.key))}
    early: dict[str, bool] = defaultdict(bool)
    on_their_way = _publishing(world)
    for item in ranges:
        for attempt in on_their_way.get(item.wave, ()):
            segment = graph.at(item.stream, item.range.start)
            early[attempt] |= segment is not None and segment.key in waits
    shown = [
        (graph.at(stream, offset), offset, row.attempt)
        for stream in {item.key[0] for item in graph if graph.ancestors(item.key)}
        for offset, row in seen.rows.get(stream, {}).items()
    ]
    for segment, _, attempt in shown:
        early[attempt] |= segment is not None and segment.key in waits
    world.in_order |= {attempt for attempt, is_early in early.items() if not is_early}
    for segment, offset, attempt in shown:
        in_order = segment is None or segment.key not in waits or attempt in world.in_order
        assert in_order, f"offset {offset} of {segment} is visible, and waits for what is not drained"


def _check_parents(world: World, graph: Graph, streams: Iterable[StreamRecord]) -> None:
    """A partition continues every older one that may have had its keys, under each layout that was seen on the way.

    Producers used all of them: two expansions shortly after each other are two, whatever came into force.
    """
    counts: dict[str, set[int]] = defaultdict(set)
    for layout in world.ledger.layouts(world.spec.name):
        counts[layout.topic_id].add(layout.partitions)
    for stream in streams:
        segments, seen = graph.of(stream.key), sorted(counts[stream.key.topic_id])
        for before, after in itertools.pairwise(seen):
            if segments and before <= stream.key.partition < after:
                step = gcd(before, after)
                needed = {older for older in range(before) if older % step == stream.key.partition % step}
                known = {key[0][2] for key in graph.ancestors(segments[0].key)}
                assert needed <= known, f"{stream.key} does not wait for partitions {needed - known}"


def _publishing(world: World) -> Mapping[str, set[str]]:
    """Return the attempts that may be at their commit, by wave."""
    found: dict[str, set[str]] = defaultdict(set)
    for item in world.ledger._state.attempts.values():
        wave = world.ledger._state.waves[item.wave]
        if wave.state is WaveState.PUBLISHING and item.fence == wave.fence:
            found[wave.id].add(item.attempt)
    return found


def _row_receipts(world: World) -> list[ReceiptRow]:
    return [row for row in world.table._receipts.values() if row.kind == "rows"]


def _attempts(world: World) -> list[AttemptRecord]:
    return list(world.ledger._state.attempts.values())
