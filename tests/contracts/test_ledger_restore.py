"""What the end of a rebuild writes: one suite over all adapters of `ports.Ledger`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_lake.core.accounting import Accounting, Receipt
from airflow_kafka_lake.core.errors import ConcurrentError
from airflow_kafka_lake.core.ledger.attempts import EndAttempt
from airflow_kafka_lake.core.ledger.changes import origin_receipt
from airflow_kafka_lake.core.ledger.records import RangeRecord, ReceiptRow, StreamRow
from airflow_kafka_lake.core.ledger.waves import AttemptKey, AttemptOutcome, RangeState, Token, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream
from airflow_kafka_lake.core.rebuilding.comparison import Restoration, RestoredSkip, RestoredWave
from airflow_kafka_lake.core.rebuilding.restore import Restore
from airflow_kafka_lake.ports import Ledger
from tests.contracts.ledger_world import (
    AT,
    SPEC,
    attempt_id,
    claimed,
    committed,
    key_of,
    outbox_of,
    planned,
    skipped,
    taken,
)


def token() -> Token:
    """Return what a rebuild's commit says."""
    attempt = attempt_id()
    return Token(pipeline="orders", wave=f"rebuild-{attempt}", attempt=attempt, fence=1, ranges="", kind="fence")


def what(ledger: Ledger, *guards: AttemptKey, **given: Any) -> Restoration:
    """Return a restoration made from what is on record."""
    empty: dict[str, Any] = {"tables": {}, "streams": (), "waves": (), "skips": (), "reopened": (), "fences": {}}
    versions = {stream.key: stream.version for stream in ledger.streams(SPEC.name)}
    return Restoration(
        **{
            **empty,
            "spec": SPEC,
            "token": token(),
            "observed_at": AT,
            "versions": versions,
            "guards": guards,
            "receipts": (),
            **given,
        }
    )


def stream(partition: int, *, origin: int, leader_epoch: int | None = None) -> StreamRow:
    """Return a stream that only the lake knows."""
    return StreamRow(
        pipeline=SPEC.name,
        key=key_of(partition),
        origin=origin,
        watermark=origin,
        version=0,
        end_seen=21,
        leader_epoch=leader_epoch,
    )


def receipt(start: int, end: int, rows: int | None = None, partition: int = 0) -> Receipt:
    """Return what a published attempt brought of a range."""
    visible = end - start if rows is None else rows
    topic, topic_id, _ = key_of()
    return Receipt(
        range_id=f"new-{partition}-{start}",
        slice=Slice(Stream(topic, topic_id, partition), OffsetRange(start, end)),
        rows=visible,
        first_offset=start if visible else None,
        last_offset=start + visible - 1 if visible else None,
        accounting=Accounting(visible=visible, control=end - start - visible),
    )


def wave(name: str, *receipts: Receipt, attempt: str | None = None, fence: int = 1) -> RestoredWave:
    """Return a wave that the lake holds."""
    return RestoredWave(
        wave=name,
        table="raw.orders",
        attempt=attempt or attempt_id(),
        fence=fence,
        snapshot=7,
        at=AT,
        receipts=receipts,
    )


def ranges(ledger: Ledger) -> list[tuple[int, int, RangeState]]:
    """Return the pieces of partition 0."""
    found = ledger.ranges(pipeline=SPEC.name)
    return [(item.range.start, item.range.end, item.state) for item in found if item.stream.partition == 0]


def test_fresh_ledger_is_filled(ledger: Ledger) -> None:
    """Streams with their origins, waves with their attempts, ranges with their numbers, skips, the table's UUID."""
    restored = wave("p1-w0", receipt(5, 10, rows=4), receipt(0, 3, partition=1), fence=3)
    skip = RestoredSkip(id="s1", stream=key_of(), at=AT, passed=RangeSet.of((10, 12), (20, 21)))
    streams = [stream(0, origin=5, leader_epoch=4), stream(1, origin=0)]
    told = ("raw.orders", origin_receipt("orders", "p1", key_of(), 5, ledger_id=ledger.ledger_id(), at=AT))
    made = what(
        ledger, tables={"raw.orders": "u1"}, streams=streams, waves=(restored,), skips=(skip,), receipts=(told,)
    )
    ledger.commit(Restore(what=made, actor="tester"))
    record = ledger.pipeline(SPEC.name)
    assert record is not None
    assert (record.spec, record.tables) == (SPEC, {"raw.orders": "u1"})
    streams_now = ledger.streams(SPEC.name)
    assert [(s.origin, s.watermark, s.end_seen) for s in streams_now] == [(5, 5, 21), (0, 0, 21)]
    assert [s.leader_epoch for s in streams_now] == [4, None]
    assert ranges(ledger) == [(5, 10, RangeState.COMMITTED), (10, 12, RangeState.SKIPPED), (20, 21, RangeState.SKIPPED)]
    (first,) = [item for item in ledger.ranges(wave="p1-w0") if item.stream.partition == 0]
    assert (first.rows, first.first_offset, first.last_offset) == (4, 5, 8)
    assert first.accounting == Accounting(visible=4, control=1)
    found = ledger.wave("p1-w0")
    assert (found.state, found.fence, found.snapshot, found.rows) == (WaveState.COMMITTED, 3, 7, 7)
    (attempt,) = ledger.attempts("p1-w0")
    assert (attempt.attempt, attempt.outcome, attempt.fence) == (restored.attempt, AttemptOutcome.COMMITTED, 3)
    assert [item.row.kind for item in ledger.outbox(SPEC.name)] == ["origin"]
    assert [(move.start, move.end) for move in ledger.advance(SPEC.name)] == [(5, 12), (0, 3)]
    assert ledger.throughput(SPEC.name) == ()
    assert [item.kind for item in ledger.events(SPEC.name)][-2:] == ["rebuild", "advance"]


def test_token_is_known_from_then_on(ledger: Ledger) -> None:
    """Until the last write has ended, the commit that moved main says that the ledger is behind."""
    made = what(ledger)
    assert not ledger.knows(made.token)
    ledger.commit(Restore(what=made, actor="tester"))
    assert ledger.knows(made.token)
    with pytest.raises(ConcurrentError):
        ledger.commit(Restore(what=made, actor="tester"))


def test_recorded_ranges_give_way(ledger: Ledger) -> None:
    """What is committed in the lake replaces a plan and a skip; a skip only what is unresolved; the rest stays."""
    first, second = planned(ledger, [(0, 0, 10)], [(0, 10, 20), (0, 20, 30)])
    taken(ledger, second, f"{second}r0")
    skipped(ledger, 4, 6)
    restored = wave("old-w0", receipt(2, 5), receipt(12, 14))
    skip = RestoredSkip(id="old-s", stream=key_of(), at=AT, passed=RangeSet.of((4, 8), (18, 22)))
    ledger.commit(Restore(what=what(ledger, waves=(restored,), skips=(skip,)), actor="tester"))
    assert ranges(ledger) == [
        (0, 2, RangeState.PLANNED),
        (2, 5, RangeState.COMMITTED),
        (5, 6, RangeState.SKIPPED),
        (6, 8, RangeState.SKIPPED),
        (8, 10, RangeState.PLANNED),
        (10, 12, RangeState.CANCELLED),
        (12, 14, RangeState.COMMITTED),
        (14, 18, RangeState.CANCELLED),
        (18, 22, RangeState.SKIPPED),
        (22, 30, RangeState.PLANNED),
    ]
    assert {item.wave for item in ledger.ranges(wave=first)} == {first}
    assert [ledger.wave(name).state for name in (first, second)] == [WaveState.PLANNED, WaveState.PLANNED]
    assert sum(item.range.span for item in ledger.ranges(wave=second, states={RangeState.CANCELLED})) == 6


def test_wave_that_is_in_the_lake_is_committed(ledger: Ledger) -> None:
    """Its open attempt ends, its lease too; what of it was planned and not published is planned anew."""
    (name,) = planned(ledger, [(0, 0, 10), (0, 10, 20)])
    claim = claimed(ledger, name)
    ledger.commit(Restore(what=what(ledger, claim.key, waves=(wave(name, receipt(0, 10), fence=1),)), actor="tester"))
    found = ledger.wave(name)
    assert (found.state, found.lease_live, found.holder) == (WaveState.COMMITTED, False, None)
    assert ranges(ledger) == [(0, 10, RangeState.COMMITTED)]
    outcomes = {item.outcome: item.fence for item in ledger.attempts(name)}
    assert outcomes == {AttemptOutcome.COMMITTED: 1, AttemptOutcome.ABANDONED: 2}
    assert found.fence == 2


def test_attempt_that_the_ledger_knows_is_the_one_in_the_lake(ledger: Ledger) -> None:
    """A ledger that lost only the commit keeps the attempt in its place."""
    (name,) = planned(ledger, [(0, 0, 10)])
    claim = claimed(ledger, name)
    restored = wave(name, receipt(0, 10), attempt=claim.key.attempt)
    ledger.commit(Restore(what=what(ledger, claim.key, waves=(restored,)), actor="tester"))
    assert [(item.fence, item.outcome) for item in ledger.attempts(name)] == [(1, AttemptOutcome.COMMITTED)]
    assert [item.attempt for item in ledger.published(SPEC.name)] == [claim.key.attempt]


def test_claimed_wave_is_given_back(ledger: Ledger) -> None:
    """The caller's claim ends with the rebuild, and others may go on above the fences that the lake has seen."""
    (name,) = planned(ledger, [(0, 0, 10)])
    claim = claimed(ledger, name)
    ledger.commit(Restore(what=what(ledger, claim.key, fences={name: 5, "unheard-of": 9}), actor="tester"))
    found = ledger.wave(name)
    assert (found.state, found.lease_live, found.fence) == (WaveState.PLANNED, False, 5)
    assert claimed(ledger, name).key.fence == 6


def test_fence_is_never_lowered(ledger: Ledger) -> None:
    """The lake may not have seen the newest claims: what it says raises fences only."""
    (name,) = planned(ledger, [(0, 0, 10)])
    first = claimed(ledger, name)
    second = claimed(ledger, name, over=first.key.fence)
    ledger.commit(Restore(what=what(ledger, second.key, fences={name: 1}), actor="tester"))
    assert claimed(ledger, name).key.fence == 3


def test_reopened_range_is_missing_and_the_watermark_falls(ledger: Ledger) -> None:
    """Only here does a watermark move back: to the end of what is left committed."""
    first, second, third = planned(ledger, [(0, 0, 10)], [(0, 10, 20)], [(0, 20, 30)])
    for name in (first, second, third):
        committed(ledger, name)
    ledger.advance(SPEC.name)
    row = outbox_of(ledger)[1].row
    gone = ("raw.orders", replace(row, kind="reopen"))
    ledger.commit(Restore(what=what(ledger, reopened=(f"{second}r0",), receipts=(gone,)), actor="tester"))
    (stream,) = ledger.streams(SPEC.name)
    assert (stream.watermark, stream.covered) == (10, RangeSet.of((0, 10), (20, 30)))
    assert ledger.wave(second).state is WaveState.DISSOLVED
    assert [item.wave for item in ledger.published(SPEC.name)] == [third, first]
    last: ReceiptRow = ledger.outbox(SPEC.name)[-1].row
    assert (last.kind, last.range, last.attempt) == ("reopen", OffsetRange(10, 20), row.attempt)
    (again,) = planned(ledger, [(0, 10, 20)])
    committed(ledger, again)
    assert [(move.start, move.end) for move in ledger.advance(SPEC.name)] == [(10, 30)]


def test_commit_that_main_has_left_is_forgotten(ledger: Ledger) -> None:
    """Its wave stays committed; where it was published is not known any more."""
    first, second = planned(ledger, [(0, 0, 10)], [(0, 10, 20)])
    committed(ledger, first)
    committed(ledger, second)
    before = {item.wave: item.snapshot for item in ledger.published(SPEC.name)}
    assert None not in before.values()
    ledger.commit(Restore(what=what(ledger, undone=frozenset({first})), actor="tester"))
    assert {item.wave: item.snapshot for item in ledger.published(SPEC.name)} == {**before, first: None}
    assert ledger.wave(first).state is WaveState.COMMITTED


def test_log_that_the_lake_has_seen_longer_is_recorded(ledger: Ledger) -> None:
    """Its end, and the leader epoch that it had then, where that is known."""
    planned(ledger, [(0, 0, 10), (1, 0, 10), (2, 0, 10)])
    ledger.commit(Restore(what=what(ledger, ends={key_of(): (5000, 7), key_of(2): (6000, None)}), actor="tester"))
    longer, same, unknown = ledger.streams(SPEC.name)
    assert (longer.end_seen, longer.leader_epoch) == (5000, 7)
    assert (unknown.end_seen, unknown.leader_epoch) == (6000, None)
    assert (same.end_seen, same.leader_epoch) == (1000, 3)


def _planned_meanwhile(ledger: Ledger, name: str) -> object:
    return planned(ledger, [(0, 10, 20)])


def _claimed_meanwhile(ledger: Ledger, name: str) -> object:
    return claimed(ledger, name)


def _skipped_meanwhile(ledger: Ledger, name: str) -> object:
    return skipped(ledger, 0, 5)


@pytest.mark.parametrize("happening", [_planned_meanwhile, _claimed_meanwhile, _skipped_meanwhile])
def test_decisions_of_others_refuse_a_restoration(ledger: Ledger, happening: Any) -> None:
    """Made from other records, it changes nothing."""
    (name,) = planned(ledger, [(0, 0, 10)])
    made = what(ledger, waves=(wave("old-w0", receipt(0, 10)),))
    happening(ledger, name)
    before = (ranges(ledger), ledger.waves(SPEC.name), ledger.events(SPEC.name))
    with pytest.raises(ConcurrentError, match="rebuild again"):
        ledger.commit(Restore(what=made, actor="tester"))
    assert (ranges(ledger), ledger.waves(SPEC.name), ledger.events(SPEC.name)) == before


def test_claim_that_was_taken_over_refuses_a_restoration(ledger: Ledger) -> None:
    """A guard whose fence is not the wave's any more guards nothing."""
    (name,) = planned(ledger, [(0, 0, 10)])
    claim = claimed(ledger, name)
    claimed(ledger, name, over=claim.key.fence)
    with pytest.raises(ConcurrentError):
        ledger.commit(Restore(what=what(ledger, claim.key), actor="tester"))


def test_claim_that_an_older_ledger_does_not_have_refuses_a_restoration(ledger: Ledger) -> None:
    """A ledger that was set back between the claims of a rebuild and its last write has other records."""
    unknown = AttemptKey(wave="p9-w0", fence=1, attempt="a" * 16)
    with pytest.raises(ConcurrentError, match="rebuild again"):
        ledger.commit(Restore(what=what(ledger, unknown), actor="tester"))
    (name,) = planned(ledger, [(0, 0, 10)])
    claim = claimed(ledger, name)
    ledger.commit(EndAttempt(key=claim.key, outcome=AttemptOutcome.FAILED, error=None))
    with pytest.raises(ConcurrentError, match="rebuild again"):
        ledger.commit(Restore(what=what(ledger, claim.key), actor="tester"))
    assert ledger.wave(name).state is WaveState.PLANNED


def test_committed_range_in_the_way_refuses_a_restoration(ledger: Ledger) -> None:
    """Nothing is committed twice, whatever was decided."""
    (name,) = planned(ledger, [(0, 0, 10)])
    committed(ledger, name)
    before: tuple[RangeRecord, ...] = ledger.ranges(pipeline=SPEC.name)
    for refused in (what(ledger, waves=(wave("other", receipt(5, 15)),)), what(ledger, reopened=("nothing",))):
        with pytest.raises(ConcurrentError):
            ledger.commit(Restore(what=refused, actor="tester"))
    assert ledger.ranges(pipeline=SPEC.name) == before
