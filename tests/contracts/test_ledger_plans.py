"""What a ledger does with configurations, plans and streams: one suite over all adapters of `ports.Ledger`."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    KafkaLakeError,
    StateError,
    UnavailableError,
    UnknownSubjectError,
)
from airflow_kafka_lake.core.ledger.attempts import ClaimWave, EndAttempt
from airflow_kafka_lake.core.ledger.decisions import Release
from airflow_kafka_lake.core.ledger.guards import HostClock
from airflow_kafka_lake.core.ledger.plans import BindTable, RecordPlan, SavePipeline
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, RangeState, Token, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice
from airflow_kafka_lake.core.planning.plan import Plan
from airflow_kafka_lake.ports import Ledger
from tests.contracts.ledger_world import (
    HOLDER,
    LEASE,
    SPEC,
    attempt_id,
    claimed,
    committed,
    plan_of,
    planned,
    skipped,
    snapshot_of,
    taken,
)


def test_id_is_given_once(ledger: Ledger) -> None:
    """The ledger's id is 32 hex digits and stays."""
    assert len(bytes.fromhex(ledger.ledger_id())) == 16
    assert ledger.ledger_id() == ledger.ledger_id()


def test_newest_configuration_is_returned(ledger: Ledger) -> None:
    """A changed configuration replaces the one before, also when it is an old one again."""
    changed = replace(SPEC, target_range_bytes=5)
    assert ledger.pipeline(SPEC.name) is None
    for spec in (SPEC, changed, SPEC):
        ledger.commit(SavePipeline(spec=spec))
        record = ledger.pipeline(SPEC.name)
        assert record is not None
        assert record.spec == spec
    assert len(ledger.events(SPEC.name)) == 3


def test_unchanged_configuration_is_no_new_version(ledger: Ledger) -> None:
    """Saving the same again records nothing."""
    ledger.commit(SavePipeline(spec=SPEC))
    ledger.commit(SavePipeline(spec=SPEC))
    assert [event.kind for event in ledger.events(SPEC.name)] == ["pipeline"]


def test_pipelines_are_sorted(ledger: Ledger) -> None:
    """All names come back once, in order."""
    for name in ("zeta", "a-b", "a_b", "a.b"):
        ledger.commit(SavePipeline(spec=replace(SPEC, name=name)))
    assert ledger.pipelines() == ("a-b", "a.b", "a_b", "zeta")


def test_first_table_uuid_stays(ledger: Ledger) -> None:
    """A table is bound to the UUID that was seen first, pipeline by pipeline."""
    ledger.commit(SavePipeline(spec=SPEC))
    assert ledger.commit(BindTable(pipeline=SPEC.name, table="raw.orders", uuid="u1")) == "u1"
    assert ledger.commit(BindTable(pipeline=SPEC.name, table="raw.orders", uuid="u2")) == "u1"
    assert ledger.commit(BindTable(pipeline=SPEC.name, table="raw.more", uuid="u3")) == "u3"
    record = ledger.pipeline(SPEC.name)
    assert record is not None
    assert dict(record.tables) == {"raw.orders": "u1", "raw.more": "u3"}


def test_ranges_and_waves_of_a_slice_are_those_that_share_its_offsets(ledger: Ledger) -> None:
    """Of its stream alone, and not those that only touch it; in some states, if asked."""
    waves = planned(ledger, [(0, 0, 10), (1, 0, 30)], [(0, 10, 20)], [(0, 20, 30)])
    stream = next(item.key for item in ledger.streams(SPEC.name) if item.key.partition == 0)
    for start, end, of in ((10, 20, waves[1:2]), (9, 20, waves[:2]), (0, 30, waves), (30, 40, [])):
        asked = Slice(stream, OffsetRange(start, end))
        found = ledger.ranges(pipeline=SPEC.name, crossing=asked)
        assert [(item.stream, item.wave) for item in found] == [(stream, wave) for wave in of]
        assert [wave.id for wave in ledger.waves(SPEC.name, crossing=asked)] == of
    assert ledger.ranges(pipeline=SPEC.name, states=(RangeState.HELD,), crossing=asked) == ()
    assert ledger.ranges(pipeline="other", crossing=Slice(stream, OffsetRange(0, 30))) == ()
    assert ledger.waves("other", crossing=Slice(stream, OffsetRange(0, 30))) == ()


def test_plan_is_recorded_whole(ledger: Ledger) -> None:
    """Streams, waves and ranges come back as they were planned."""
    first, second = planned(ledger, [(0, 0, 10), (1, 5, 9)], [(0, 10, 20)])
    assert [wave.id for wave in ledger.waves(SPEC.name)] == [first, second]
    wave = ledger.wave(first)
    assert (wave.state, wave.fence, wave.holder, wave.lease_live) == (WaveState.PLANNED, 0, None, False)
    assert (wave.table, wave.ranges, wave.rows, wave.snapshot) == ("raw.orders", 2, None, None)
    assert [(item.stream[2], item.range, item.estimated_bytes) for item in ledger.ranges(plan=wave.plan)] == [
        (0, OffsetRange(0, 10), 100),
        (0, OffsetRange(10, 20), 100),
        (1, OffsetRange(5, 9), 40),
    ]
    item = ledger.range(f"{first}r1")
    assert (item.wave, item.plan, item.pipeline) == (first, wave.plan, SPEC.name)
    assert (item.state, item.accounting) == (RangeState.PLANNED, None)


def test_stream_is_born_at_its_origin(ledger: Ledger) -> None:
    """A new stream's watermark is its origin; what is planned and what Kafka showed is remembered."""
    planned(ledger, [(0, 5, 10), (0, 20, 30)], origin=5)
    (stream,) = ledger.streams(SPEC.name)
    assert (stream.origin, stream.watermark, stream.version) == (5, 5, 1)
    assert (stream.end_seen, stream.leader_epoch) == (1000, 3)
    assert stream.planned == RangeSet.of((5, 10), (20, 30))
    assert stream.covered == RangeSet()


def test_plan_raises_the_version(ledger: Ledger) -> None:
    """Each plan of a stream is a decision about it; origin and watermark stay, what was seen is renewed."""
    planned(ledger, [(0, 0, 10)])
    plan = plan_of(ledger, [(0, 10, 20)], origin=7)
    newer = replace(snapshot_of(plan.streams[0].snapshot.stream, 2000), leader_epoch=9)
    ledger.commit(RecordPlan(plan=replace(plan, streams=(replace(plan.streams[0], snapshot=newer),)), actor="tester"))
    (stream,) = ledger.streams(SPEC.name)
    assert (stream.origin, stream.version, stream.end_seen, stream.leader_epoch) == (0, 2, 2000, 9)


def test_plan_by_a_clock_far_off_the_ledgers_is_refused(ledger: Ledger) -> None:
    """More than a minute ahead of it, or behind it: nothing is recorded, and the host is named."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    claim = ledger.commit(ClaimWave(wave=wave, attempt=attempt_id(), holder=HOLDER, lease=LEASE))
    plan, seen = plan_of(ledger, [(0, 10, 20)]), ledger.streams(SPEC.name)
    for off in (timedelta(seconds=120), timedelta(seconds=-120)):
        with pytest.raises(
            UnavailableError, match=r"the clock of alpha is 1[12][0-9] s (ahead of|behind) the ledger's"
        ):
            ledger.commit(
                RecordPlan(plan=plan, actor="tester", clock=HostClock(host="alpha", now=claim.claimed_at + off))
            )
        assert ledger.streams(SPEC.name) == seen
    ledger.commit(
        RecordPlan(
            plan=plan, actor="tester", clock=HostClock(host="alpha", now=claim.claimed_at + timedelta(seconds=5))
        )
    )


def test_stream_knows_by_when_what_lies_below_its_origin_had_been_written(ledger: Ledger) -> None:
    """By its first plan, if the log was seen to reach to the origin then; later plans tell nothing new."""
    plan = plan_of(ledger, [(0, 5, 10)], origin=5)
    beyond = plan_of(ledger, [(1, 2000, 2001)], origin=2000)
    ledger.commit(RecordPlan(plan=plan, actor="tester"))
    ledger.commit(RecordPlan(plan=beyond, actor="tester"))
    later = replace(plan_of(ledger, [(0, 10, 20)]), observed_at=plan.observed_at + timedelta(hours=1))
    ledger.commit(RecordPlan(plan=later, actor="tester"))
    assert [stream.since for stream in ledger.streams(SPEC.name)] == [plan.observed_at, None]


def test_streams_can_be_narrowed(ledger: Ledger) -> None:
    """Topic and partitions choose; the order is by key."""
    planned(ledger, [(2, 0, 1), (0, 0, 1), (1, 0, 1)])
    planned(ledger, [(0, 0, 1)], topic="audits")
    assert [record.key[::2] for record in ledger.streams(SPEC.name)] == [
        ("audits", 0),
        ("orders", 0),
        ("orders", 1),
        ("orders", 2),
    ]
    assert [record.key.partition for record in ledger.streams(SPEC.name, topic="orders", partitions=[2, 1])] == [
        1,
        2,
    ]
    assert ledger.streams(SPEC.name, partitions=[]) == ()
    assert ledger.streams("other") == ()


def test_pipelines_do_not_see_each_other(ledger: Ledger) -> None:
    """The same topic in two pipelines is two streams, and their ranges may cover the same offsets."""
    planned(ledger, [(0, 0, 10)])
    (wave,) = planned(ledger, [(0, 0, 10)], spec=replace(SPEC, name="copies"))
    assert [item.id for item in ledger.waves("copies")] == [wave]
    assert len(ledger.ranges(pipeline=SPEC.name)) == 1


def test_planned_from_old_versions_is_refused(ledger: Ledger) -> None:
    """Two plans from one look: the first wins, of the second nothing is recorded."""
    planned(ledger, [(0, 0, 10)])
    mine = plan_of(ledger, [(1, 0, 10)], [(0, 10, 20)])
    ledger.commit(RecordPlan(plan=plan_of(ledger, [(0, 20, 30)]), actor="other"))
    before = (ledger.streams(SPEC.name), ledger.events(SPEC.name), ledger.waves(SPEC.name))
    with pytest.raises(ConcurrentError):
        ledger.commit(RecordPlan(plan=mine, actor="tester"))
    assert (ledger.streams(SPEC.name), ledger.events(SPEC.name), ledger.waves(SPEC.name)) == before


def test_stream_made_meanwhile_is_refused(ledger: Ledger) -> None:
    """A plan that believes a stream to be new loses against the one that made it."""
    mine = plan_of(ledger, [(0, 0, 10)])
    planned(ledger, [(0, 10, 20)])
    with pytest.raises(ConcurrentError):
        ledger.commit(RecordPlan(plan=mine, actor="tester"))


def test_plan_is_recorded_once(ledger: Ledger) -> None:
    """The same plan a second time is another recorder's success, also when it holds no stream."""
    ledger.commit(SavePipeline(spec=SPEC))
    for plan in (plan_of(ledger, [(0, 0, 10)]), plan_of(ledger)):
        ledger.commit(RecordPlan(plan=plan, actor="tester"))
        with pytest.raises(ConcurrentError):
            ledger.commit(RecordPlan(plan=plan, actor="tester"))
    assert len(ledger.waves(SPEC.name)) == 1


@pytest.mark.parametrize("slice_", [(0, 5), (5, 15), (9, 10), (0, 100), (3, 4)])
def test_overlap_with_a_recorded_range_is_refused(ledger: Ledger, slice_: tuple[int, int]) -> None:
    """Whatever a planner believes, two ranges of a stream never share an offset."""
    planned(ledger, [(0, 2, 10), (0, 30, 40)])
    before = (ledger.streams(SPEC.name), ledger.ranges(pipeline=SPEC.name))
    with pytest.raises(StateError, match="overlaps"):
        ledger.commit(RecordPlan(plan=plan_of(ledger, [(0, 50, 60)], [(0, *slice_)]), actor="tester"))
    assert (ledger.streams(SPEC.name), ledger.ranges(pipeline=SPEC.name)) == before


def test_overlap_within_a_plan_is_refused(ledger: Ledger) -> None:
    """Also when both ranges are new."""
    with pytest.raises(StateError, match="overlaps"):
        planned(ledger, [(0, 0, 10)], [(0, 9, 20)])
    assert ledger.waves(SPEC.name) == ()


def test_touching_ranges_are_no_overlap(ledger: Ledger) -> None:
    """Half-open ranges meet without sharing; gaps are filled exactly."""
    planned(ledger, [(0, 0, 10), (0, 20, 30)])
    planned(ledger, [(0, 10, 20)])
    (stream,) = ledger.streams(SPEC.name)
    assert stream.planned == RangeSet.of((0, 30))


def test_largest_offsets_fit(ledger: Ledger) -> None:
    """Offsets up to the end of 63 bits are told apart, stream by stream."""
    top = 2**63 - 1
    planned(ledger, [(0, top - 2, top - 1), (0, top - 1, top), (1, 0, 1), (1, top - 1, top), (2, 0, 1)])
    assert [item.range.end for item in ledger.ranges(pipeline=SPEC.name)] == [top - 1, top, 1, top, 1]
    with pytest.raises(StateError, match="overlaps"):
        ledger.commit(RecordPlan(plan=plan_of(ledger, [(0, top - 1, top)]), actor="tester"))


def test_plan_keeps_the_configuration_it_was_made_with(ledger: Ledger) -> None:
    """A claim works with the plan's configuration, not with the newest."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    ledger.commit(SavePipeline(spec=replace(SPEC, max_wave_bytes=7)))
    assert claimed(ledger, wave).spec == SPEC


def test_plan_brings_an_unsaved_configuration(ledger: Ledger) -> None:
    """A plan whose configuration was not saved saves it."""
    ledger.commit(RecordPlan(plan=plan_of(ledger, [(0, 0, 10)]), actor="tester"))
    record = ledger.pipeline(SPEC.name)
    assert record is not None
    assert record.spec == SPEC


def test_range_of_no_planned_stream_is_a_mistake(ledger: Ledger) -> None:
    """A plan that does not hold its own ranges' streams is no plan."""
    plan = plan_of(ledger, [(0, 0, 10)])
    with pytest.raises(ValueError, match="no stream"):
        ledger.commit(RecordPlan(plan=replace(plan, streams=()), actor="tester"))


def test_range_across_the_origin_is_a_mistake(ledger: Ledger) -> None:
    """The watermark begins at the origin and moves from edge to edge; the recorded origin counts."""
    planned(ledger, [(0, 10, 20)], origin=10)
    before = (ledger.streams(SPEC.name), ledger.events(SPEC.name))
    with pytest.raises(ValueError, match="crosses the origin 10"):
        ledger.commit(RecordPlan(plan=plan_of(ledger, [(0, 0, 4)], [(0, 4, 11)], origin=0), actor="tester"))
    with pytest.raises(ValueError, match="crosses the origin 7"):
        ledger.commit(RecordPlan(plan=plan_of(ledger, [(1, 6, 8)], origin=7), actor="tester"))
    assert (ledger.streams(SPEC.name), ledger.events(SPEC.name)) == before


def test_unknown_subjects_are_named(ledger: Ledger) -> None:
    """A wave or range that is not there is refused by name; lists of them are empty."""
    with pytest.raises(UnknownSubjectError, match="w9"):
        ledger.wave("w9")
    with pytest.raises(UnknownSubjectError, match="r9"):
        ledger.range("r9")
    with pytest.raises(UnknownSubjectError, match="w9"):
        claimed(ledger, "w9")
    with pytest.raises(UnknownSubjectError, match="w9"):
        taken(ledger, "w9", "r9")
    with pytest.raises(UnknownSubjectError, match="r9"):
        ledger.commit(Release(ranges=["r9"], wave="w", actor="tester", reason=None))
    with pytest.raises(UnknownSubjectError, match="orders"):
        skipped(ledger, 0, 10)
    assert ledger.attempts("w9") == ()
    assert ledger.ranges(wave="w9") == ()
    assert ledger.waves("p9") == ()


def test_ranges_are_asked_for_one_way(ledger: Ledger) -> None:
    """By pipeline, by wave or by plan, and by state; not by none or two of them."""
    first, second = planned(ledger, [(0, 0, 10)], [(0, 10, 20)])
    taken(ledger, second)
    assert [item.wave for item in ledger.ranges(pipeline=SPEC.name, states=[RangeState.CANCELLED])] == [second]
    assert [item.wave for item in ledger.ranges(wave=first)] == [first]
    assert ledger.ranges(pipeline=SPEC.name, states=[]) == ()
    for wrong in ({}, {"wave": first, "pipeline": SPEC.name}):
        with pytest.raises(ValueError, match="exactly one"):
            ledger.ranges(**wrong)


def test_waves_are_asked_for_by_state(ledger: Ledger) -> None:
    """Oldest plan first, in plan order."""
    first, second = planned(ledger, [(0, 0, 10)], [(0, 10, 20)])
    (third,) = planned(ledger, [(0, 20, 30)], plan="a-name-that-sorts-first")
    claimed(ledger, second)
    assert [wave.id for wave in ledger.waves(SPEC.name)] == [first, second, third]
    assert [wave.id for wave in ledger.waves(SPEC.name, {WaveState.PLANNED})] == [first, third]
    assert ledger.waves(SPEC.name, []) == ()


def test_committed_history_is_one_range(ledger: Ledger) -> None:
    """`[origin, watermark)` comes back compacted, with what lies above and below it."""
    for start in (10, 20, 30):
        (wave,) = planned(ledger, [(0, start, start + 10)], origin=10)
        committed(ledger, wave)
    (island,) = planned(ledger, [(0, 60, 70)], origin=10)
    committed(ledger, island)
    planned(ledger, [(0, 0, 5)], [(0, 50, 55)], origin=10)
    ledger.advance(SPEC.name)
    (stream,) = ledger.streams(SPEC.name)
    assert stream.watermark == 40
    assert stream.planned == RangeSet.of((0, 5), (10, 40), (50, 55), (60, 70))
    assert stream.covered == RangeSet.of((10, 40), (60, 70))


def test_tokens_of_claims_are_known(ledger: Ledger) -> None:
    """A token is ours when a claim gave out its fence and attempt, whatever became of it."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    key = claimed(ledger, wave).key
    token = Token(pipeline=SPEC.name, wave=wave, attempt=key.attempt, fence=1, ranges="-")
    assert ledger.knows(token)
    assert ledger.knows(replace(token, kind="fence"))
    assert not ledger.knows(replace(token, fence=2))
    assert not ledger.knows(replace(token, attempt=attempt_id()))
    assert not ledger.knows(replace(token, wave="w9"))


def test_newest_line_is_told_for_what_is_known(ledger: Ledger) -> None:
    """What a table says is known when token and line are: of that very event, and of that pipeline."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    key = claimed(ledger, wave).key
    token = Token(pipeline=SPEC.name, wave=wave, attempt=key.attempt, fence=1, ranges="-")
    first = ledger.knows(token)
    assert first
    assert [event.line for event in ledger.events(SPEC.name)][-1] == first
    ledger.commit(SavePipeline(spec=replace(SPEC, name="payments")))
    assert ledger.knows(token, first) == first
    ledger.commit(EndAttempt(key=key, outcome=AttemptOutcome.FAILED, error=None))
    second = ledger.knows(token, first)
    assert second
    assert second.sequence > first.sequence
    assert ledger.knows(token, second) == second
    assert not ledger.knows(token, replace(first, digest=second.digest))
    assert not ledger.knows(token, replace(second, sequence=second.sequence + 1))
    (theirs,) = ledger.events("payments")
    assert not ledger.knows(token, theirs.line)
    assert not ledger.knows(replace(token, fence=2), first)


def test_ownership_commits_are_known(ledger: Ledger) -> None:
    """They belong to no wave; whose ledger they name is the caller's question."""
    ledger.commit(SavePipeline(spec=SPEC))
    assert ledger.knows(Token(pipeline=SPEC.name, wave="owner", attempt="-", fence=0, ranges="-", kind="owner"))


def test_of_many_planners_one_wins(ledger: Ledger) -> None:
    """Planners that looked at the same moment: one plan is recorded, the others learn that they were late."""
    planned(ledger, [(0, 0, 10)])
    plans = [plan_of(ledger, [(0, 10, 20)], [(1, 0, 10)]) for _ in range(6)]
    assert sorted(_all_at_once(ledger, plans)) == ["ConcurrentError"] * 5 + ["recorded"]
    assert [item.range for item in ledger.ranges(pipeline=SPEC.name)] == [
        OffsetRange(0, 10),
        OffsetRange(10, 20),
        OffsetRange(0, 10),
    ]


def _all_at_once(ledger: Ledger, plans: Sequence[Plan]) -> list[str]:
    def record(plan: Plan) -> str:
        try:
            ledger.commit(RecordPlan(plan=plan, actor="tester"))
        except KafkaLakeError as error:
            return type(error).__name__
        return "recorded"

    with ThreadPoolExecutor(len(plans)) as pool:
        return list(pool.map(record, plans))
