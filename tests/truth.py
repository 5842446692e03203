"""What must hold of ledger and lake, at every moment and at rest, held against what producers were told."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow_kafka_lake.adapters.memory_lake import Row
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.records import RangeRecord
from airflow_kafka_lake.core.streams import StreamKey, StreamRecord
from airflow_kafka_lake.core.watermarks import hold
from airflow_kafka_lake.core.waves import UNRESOLVED, AttemptOutcome, RangeState, WaveState
from airflow_kafka_lake.core.wire import ranges_digest

if TYPE_CHECKING:
    from airflow_kafka_lake.adapters.memory_ledger import State
    from tests.world import World

Rows = dict[StreamKey, dict[int, Row]]


def check_always(world: World) -> None:
    """Hold a moment against the truth, also in the middle of everything: what readers see and what is on record."""
    ranges = world.ledger.ranges(pipeline=world.spec.name)
    rows = _rows_seen_once(world)
    for item in ranges:
        _check_range(world, item, rows)
    by_wave = defaultdict(list)
    for item in ranges:
        by_wave[item.wave].append(item)
    for attempt in {row.attempt for found in rows.values() for row in found.values()}:
        _check_whole_wave(world, attempt, by_wave, rows)
    _check_attempts(world, {row.attempt for found in rows.values() for row in found.values()})
    for stream in world.ledger.streams(world.spec.name):
        _check_watermark(world, stream, [item for item in ranges if item.stream == stream.key])


def check_lake(world: World) -> None:
    """Hold what readers see against the truth, whatever the ledger knows: each row once, and with a receipt."""
    rows = _rows_seen_once(world)
    proven = {
        (i.attempt, i.stream, offset) for i in _row_receipts(world) for offset in range(i.range.start, i.range.end)
    }
    seen = {(row.attempt, key, offset) for key, found in rows.items() for offset, row in found.items()}
    assert seen <= proven, f"visible before it was accounted for: {seen - proven}"


def check_claims(world: World, before: State) -> None:
    """Hold what one worker did on his own against the leases there were: nobody robs a holder who may be at work."""
    for name, wave in world.ledger._state.waves.items():
        was = before.waves.get(name)
        if was is None or was.fence == wave.fence or was.lease_until is None or was.holder is None:
            continue
        assert wave.fence == was.fence + 1, f"wave {name}: fence {was.fence} became {wave.fence}"
        live = was.lease_until > world.clock.now() and was.holder.pid not in world.dead
        assert not live, f"wave {name} was taken from {was.holder}, whose lease was live"


def check_at_rest(world: World) -> None:
    """Hold the end against the truth: no row without a settled range, tokens, watermarks at the end of their run."""
    ranges = world.ledger.ranges(pipeline=world.spec.name)
    settled = defaultdict(list)
    for item in ranges:
        if item.state is RangeState.SETTLED:
            settled[item.stream].append(item.range)
    for stream, found in _rows_seen_once(world).items():
        stray = set(found) - _offsets(settled[stream])
        assert not stray, f"rows of {stream} belong to no settled range: {sorted(stray)}"
    for stream in world.ledger.streams(world.spec.name):
        expected = stream.covered.unbroken_end(stream.origin)
        assert stream.watermark == expected, f"{stream.key}: watermark {stream.watermark}, settled to {expected}"
    outcomes = {item.attempt: item.outcome for item in _attempts(world)}
    for attempt in {row.attempt for row in _own_rows(world)}:
        assert outcomes[attempt] is AttemptOutcome.COMMITTED, f"attempt {attempt} is visible and {outcomes[attempt]}"


def check_tokens(world: World) -> None:
    """Hold every commit of main that is not expired against its token: rows of one attempt, digest of its ranges."""
    store = world.table._store
    for commit in store.history() if store else ():
        own = [row for row in commit.added if row.topic in world.topic_ids]
        assert {row.attempt for row in own} <= {commit.token.attempt if commit.token else ""}, commit
        if commit.token is None or commit.token.kind != "publish":
            assert not own, f"a commit that publishes nothing has rows: {commit}"
            continue
        ranges = [item for item in world.ledger.ranges(wave=commit.token.wave) if item.state in PUBLISHED]
        digest = ranges_digest((item.topic_id, item.partition, item.range) for item in ranges)
        assert commit.token.ranges == digest, f"the token of wave {commit.token.wave} names other ranges"


PUBLISHED = frozenset({RangeState.PLANNED, RangeState.SETTLED})
"""What a range of a published wave can be: not settled yet, or settled."""


def _own_rows(world: World) -> list[Row]:
    store = world.table._store
    return [row for row in store.rows() if row.topic in world.topic_ids] if store else []


def _rows_seen_once(world: World) -> Rows:
    rows = _own_rows(world)
    counts = Counter((row.topic, row.topic_id, row.partition, row.offset) for row in rows)
    twice = [key for key, count in counts.items() if count > 1]
    assert not twice, f"visible more than once: {twice}"
    found: Rows = defaultdict(dict)
    for row in rows:
        stream = (row.topic, row.topic_id, row.partition)
        assert world.visible[stream].get(row.offset) == row.value, f"no committed record: {row}"
        found[stream][row.offset] = row
    return found


def _offsets(ranges: Iterable[OffsetRange]) -> set[int]:
    return {offset for item in ranges for offset in range(item.start, item.end)}


def _truth(world: World, item: RangeRecord) -> set[int]:
    return {offset for offset in world.visible[item.stream] if offset in item.range}


def _check_range(world: World, item: RangeRecord, rows: Rows) -> None:
    """A settled range shows each of its committed records and accounts for every offset; a skipped one shows none."""
    inside = {offset for offset in rows[item.stream] if offset in item.range}
    if item.state is RangeState.SKIPPED:
        assert not inside, f"skipped and visible: {item}"
    if item.state is not RangeState.SETTLED:
        return
    expected = _truth(world, item)
    assert inside == expected, f"range {item.id}: missing {expected - inside}, unexpected {inside - expected}"
    assert item.accounting is not None
    assert item.accounting.unexplained == 0, item
    assert item.accounting.span == item.range.span, item
    assert item.accounting.visible == item.rows == len(expected), item


def _check_whole_wave(world: World, attempt: str, by_wave: dict[str, list[RangeRecord]], rows: Rows) -> None:
    """What an attempt shows is all of its wave, and nothing else."""
    waves = [item.wave for item in _attempts(world) if item.attempt == attempt]
    assert len(waves) == 1, f"rows of attempt {attempt}, which no wave knows"
    state = RangeState.SETTLED if world.ledger.wave(waves[0]).state is WaveState.COMMITTED else RangeState.PLANNED
    expected = {(i.stream, offset) for i in by_wave[waves[0]] if i.state is state for offset in _truth(world, i)}
    seen = {(key, offset) for key, found in rows.items() for offset, row in found.items() if row.attempt == attempt}
    assert seen == expected, f"wave {waves[0]}: missing {expected - seen}, unexpected {seen - expected}"


def _check_attempts(world: World, visible: set[str]) -> None:
    """No job starts before its base is on record; what is visible has receipts, and is not called rejected."""
    proven = {row.attempt for row in _row_receipts(world)}
    assert visible <= proven, f"visible before it was accounted for: {visible - proven}"
    for item in _attempts(world):
        assert item.job is None or item.base is not None, f"a job without a base: {item}"
        assert item.attempt not in visible or item.outcome is not AttemptOutcome.REJECTED, f"rejected, visible: {item}"


def _check_watermark(world: World, stream: StreamRecord, ranges: list[RangeRecord]) -> None:
    covered = RangeSet(item.range for item in ranges if item.state not in UNRESOLVED)
    assert stream.covered == covered
    assert stream.watermark <= covered.unbroken_end(stream.origin), f"{stream.key}: watermark ahead of what is settled"
    held = hold(stream.watermark, (item.range for item in ranges if item.state in UNRESOLVED))
    assert held is None or stream.watermark <= held, f"{stream.key}: watermark {stream.watermark} above hold {held}"
    assert not [i for i in ranges if i.state in UNRESOLVED and stream.origin <= i.range.start < stream.watermark]
    last = world.watermarks.get(stream.key, stream.origin)
    assert stream.watermark >= last, f"{stream.key}: the watermark moved back from {last} to {stream.watermark}"
    world.watermarks[stream.key] = stream.watermark


def _row_receipts(world: World) -> list:  # type: ignore[type-arg]
    return [row for row in world.table._receipts.values() if row.kind == "rows"]


def _attempts(world: World) -> list:  # type: ignore[type-arg]
    return [item.record for item in world.ledger._state.tries.values()]
