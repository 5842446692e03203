"""Reopen: any slice of what is committed is read again, and the new rows take the place of the old ones at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    HeldError,
    IdentityError,
    LedgerBehindError,
    RangeBeyondEndError,
    RangeExpiredError,
    SchemaMismatchError,
    StateError,
    UnavailableError,
    UsageError,
)
from airflow_kafka_lake.core.ledger.reopening import refuse_uncommitted
from airflow_kafka_lake.core.ledger.waves import RangeState, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange, Slice
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.services import decisions, pipeline_audit, reopening
from tests.gates import Before, Calls, Killed, KilledError
from tests.kit.memory_lake import Answer
from tests.unit.services.test_expiry import expire
from tests.world import World, read_again

pytestmark = pytest.mark.unit


def land(world: World) -> World:
    """Bring ten records into the lake, with two transactions between them."""
    world.produce(4)
    world.produce(2, transaction="good")
    world.end("good")
    world.produce(2, transaction="bad")
    world.end("bad", commit=False)
    world.produce(4)
    assert world.run().exit_code == 0
    assert world.stream().watermark == 14
    return world


@pytest.fixture
def landed(world: World) -> World:
    """Ten records, committed."""
    return land(world)


def pieces(world: World) -> list[tuple[str, str, int]]:
    """Return ranges, states and generations."""
    return [(str(i.range), i.state.value, i.generation) for i in world.ledger.ranges(pipeline="orders")]


def by_attempt(world: World) -> list[str]:
    """Return which offsets each attempt shows, in order of their begin."""
    return [str(item.offsets) for item in sorted(world.table.attempt_rows(), key=lambda item: item.offsets.ranges[0])]


def audited(world: World) -> list[str]:
    """Return what an audit finds."""
    found = pipeline_audit.audit(world.worker(), world.spec).to_json()
    return [*found["problems"], *(text for stream in found["streams"] for text in stream["problems"])]


def test_decision_reads_what_shares_its_offsets(landed: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a reopen or a skip asks of the ledger does not grow with all that was ever planned."""
    asked = Slice(landed.stream().key, OffsetRange(3, 9))
    found: set[tuple[str, Slice | None]] = set()

    def noting(name: str) -> Callable[..., Any]:
        read = getattr(landed.ledger, name)
        return lambda *names, **given: (found.add((name, given.get("crossing"))), read(*names, **given))[1]

    for name in ("ranges", "waves"):
        monkeypatch.setattr(landed.ledger, name, noting(name))
    reopening.prepare(landed.worker(), landed.spec, landed.stream(), asked.range, reason="again", drop_staged=True)
    assert found == {("ranges", asked), ("waves", asked)}
    found.clear()
    decisions.preview_skip(landed.worker(), "orders", landed.stream(), asked.range, reason="broken")
    assert found == {("ranges", asked)}


def test_slice_is_read_again_and_replaced_in_one_commit(landed: World) -> None:
    """The watermark falls and comes back; before and after the re-read the audit finds nothing."""
    visible, attempts = landed.offsets(), by_attempt(landed)
    done = landed.reopen(3, 9)
    assert (done.offsets, len(done.waves), done.watermark, landed.stream().watermark) == (6, 1, 3, 3)
    assert pieces(landed) == [("0-3", "COMMITTED", 0), ("3-9", "PLANNED", 1), ("9-14", "COMMITTED", 0)]
    assert (landed.offsets(), by_attempt(landed), audited(landed)) == (visible, attempts, [])
    landed.advance()
    assert landed.stream().watermark == 3
    assert landed.run().exit_code == 0
    assert (landed.offsets(), landed.stream().watermark) == (visible, 14)
    assert by_attempt(landed) == ["0-3, 10-14", "3-6"]
    assert (audited(landed), landed.table.head().last["1" * 32, "orders"].kind) == ([], "replace")
    landed.check()
    assert [str(s.range) for job in landed.runner.jobs[1:] for s in job.slices] == ["3-9"]


def test_numbers_of_what_is_cut_are_shared_as_kafka_says(landed: World) -> None:
    """Markers and aborted records are counted where they are."""
    landed.reopen(3, 8)
    first, _, last = landed.ledger.ranges(pipeline="orders")
    assert (first.accounting, last.accounting) == (
        Accounting(visible=3),
        Accounting(visible=4, aborted=1, control=1),
    )
    assert (last.rows, last.first_offset, last.last_offset) == (4, 10, 13)
    assert landed.run().exit_code == 0
    landed.check()


def test_numbers_of_what_kafka_forgot_still_add_up(landed: World) -> None:
    """Below the log start no batch says which offset was a marker; the sums are the old ones all the same."""
    landed.retain_from(9)
    landed.reopen(11, 13)
    first, again, last = landed.ledger.ranges(pipeline="orders")
    assert first.accounting == Accounting(visible=7, aborted=2, control=2)
    assert (str(again.range), last.accounting) == ("11-13", Accounting(visible=1))


def test_all_of_a_stream_is_read_again(landed: World) -> None:
    """Its old wave keeps its commit and has no range any more; a later plan finds nothing missing."""
    (old,) = landed.ledger.waves("orders")
    landed.reopen(0, 14)
    assert (landed.ledger.wave(old.id).state, landed.ledger.wave(old.id).ranges) == (WaveState.COMMITTED, 0)
    assert landed.run().exit_code == 0
    assert (len(by_attempt(landed)), audited(landed)) == (1, [])
    landed.produce(2)
    assert landed.run().exit_code == 0
    landed.check()


def test_offsets_beyond_the_end_are_said_to_lie_there(landed: World) -> None:
    """A run brings them only if they were written since the newest plan."""
    stream = landed.stream(0)
    words = (
        f"never planned, and the newest plan has seen the log end at {stream.end_seen}. Bring in what was written since"
    )
    with pytest.raises(StateError, match=words):
        refuse_uncommitted(stream, "orders", OffsetRange(100, 101), [], agreed=False)
    with pytest.raises(StateError, match=r"never planned\. Bring in these with: kafka-lake run orders"):
        refuse_uncommitted(stream, "orders", OffsetRange(0, 2), [], agreed=False)


def test_same_slice_is_reopened_again_and_again(landed: World) -> None:
    """Each time by a new generation, also where an earlier one was cut."""
    for start, end in ((3, 9), (5, 12), (4, 6)):
        landed.reopen(start, end)
        assert landed.run().exit_code == 0
        assert audited(landed) == []
        landed.check()
    assert max(item.generation for item in landed.ledger.ranges(pipeline="orders")) == 3


def test_reopened_slice_that_was_compacted_is_replaced(landed: World) -> None:
    """History expires and files are rewritten in between: the rows themselves say whose they are."""
    landed.reopen(3, 9)
    expire(landed)
    assert landed.run().exit_code == 0
    expire(landed)
    assert landed.run().exit_code == 0
    assert audited(landed) == []
    landed.check()


def test_skipped_offsets_are_read_after_all(world: World) -> None:
    """A skip is left by a reopen; the watermark waits for what comes."""
    world.produce(6)
    world.run(Bounds(start=0, end=2))
    decisions.skip(world.worker(), "orders", world.stream(), OffsetRange(2, 5), reason="bad", acknowledge_order=False)
    world.run()
    assert (world.offsets(), world.stream().watermark) == ([0, 1, 5], 6)
    world.reopen(1, 4)
    assert pieces(world) == [
        ("0-1", "COMMITTED", 0),
        ("1-2", "PLANNED", 1),
        ("2-4", "PLANNED", 1),
        ("4-5", "SKIPPED", 0),
        ("5-6", "COMMITTED", 0),
    ]
    assert world.run().exit_code == 0
    assert (world.offsets(), world.stream().watermark, audited(world)) == ([0, 1, 2, 3, 5], 6, [])
    world.check()


# What a smaller result needs


def compacted(world: World) -> None:
    """Let Kafka lose records of the slice, in a topic whose holes are the cleaner's."""
    world.kafka._topics["orders"].cleanup_policy = "compact"
    world.kafka.log("orders", 0).remove([4, 10])
    for offset in (4, 10):
        world.visible[world.key()].pop(offset)


def test_smaller_result_is_held_until_a_person_accepts_it(landed: World) -> None:
    """The lake stays as it is; the reason names rows, offsets and the command, which lets it go on."""
    before = landed.offsets()
    compacted(landed)
    landed.reopen(3, 12)
    assert landed.run().exit_code == 1
    (held,) = landed.ledger.ranges(pipeline="orders", states=[RangeState.HELD])
    assert (held.reason or "").startswith(
        "read again it has 3 rows, the lake has 5: 2 offsets would be gone, 4-5, 10-11."
    )
    assert "kafka-lake reopen orders --topic orders --partition 0 --from 3 --to 12 --accept-fewer" in (
        held.reason or ""
    )
    assert (landed.offsets(), audited(landed)) == (before, [])
    decisions.release(landed.worker(), held.id, None)
    assert landed.run().exit_code == 1
    landed.reopen(3, 12, accept_fewer=True)
    assert landed.run().exit_code == 0
    assert landed.offsets() == [item for item in before if item not in (4, 10)]
    assert audited(landed) == []
    landed.check()


def test_smaller_result_may_be_accepted_beforehand(landed: World) -> None:
    """Also one without any row."""
    landed.kafka._topics["orders"].cleanup_policy = "compact"
    landed.kafka.log("orders", 0).remove(range(4))
    for offset in range(4):
        landed.visible[landed.key()].pop(offset)
    landed.reopen(0, 4, accept_fewer=True)
    assert landed.run().exit_code == 0
    assert (landed.offsets(), audited(landed)) == ([4, 5, 10, 11, 12, 13], [])
    landed.check()


def test_beside_a_smaller_result_the_rest_of_the_wave_goes_on(landed: World) -> None:
    """Only the range that would lose rows waits."""
    landed.produce(3)
    landed.run()
    compacted(landed)
    landed.reopen(9, 17)
    assert landed.run().exit_code == 1
    assert pieces(landed) == [("0-9", "COMMITTED", 0), ("9-14", "HELD", 1), ("14-17", "COMMITTED", 1)]
    assert (landed.stream().watermark, audited(landed)) == (9, [])


def test_skip_of_what_is_reopened_keeps_the_earlier_rows(landed: World) -> None:
    """Who gives the second reading up passes it unread; what is there stays."""
    before = landed.offsets()
    landed.reopen(3, 9)
    landed.retain_from(9)
    assert landed.run().exit_code == 1
    decisions.skip(
        landed.worker(), "orders", landed.stream(), OffsetRange(3, 9), reason="gone", acknowledge_order=False
    )
    landed.advance()
    assert (landed.offsets(), landed.stream().watermark, audited(landed)) == (before, 14, [])


# Refusals


def refused(world: World, start: int, end: int, error: type[Exception], match: str) -> None:
    """Reopen a slice, which is refused and changes nothing."""
    before, head = world.ledger._state, world.table.head()
    with pytest.raises(error, match=match):
        world.reopen(start, end)
    assert (world.ledger._state, world.table.head()) == (before, head)


def test_what_is_not_committed_is_named(landed: World) -> None:
    """What was not planned, what waits to be read, what is on hold: each with its way out."""
    landed.produce(9)
    refused(
        landed, 10, 16, StateError, "offsets 14-16 of orders/0 are neither committed nor skipped: .* kafka-lake run"
    )
    wave = landed.planned_wave(Bounds(start=14, end=18))
    refused(landed, 10, 16, StateError, f"14-18 .* is planned, and not read yet. .*: kafka-lake ingest {wave}")
    decisions.cancel(landed.worker(), wave, "poison")
    refused(landed, 10, 16, StateError, "14-18 .* is cancelled: poison. .*: kafka-lake release")


def test_what_a_worker_works_on_is_left_to_it(landed: World) -> None:
    """A live lease overlaps: the refusal names its holder, and can be repeated."""
    landed.produce(2)
    wave = landed.planned_wave()
    with pytest.raises(KilledError):
        landed.ingest(wave, landed.worker(Killed("table.publish")))
    refused(landed, 10, 16, ConcurrentError, f"Wave {wave} is being worked on by alpha")
    assert landed.reopen(10, 14).offsets == 4


def test_what_kafka_cannot_give_again_stays(landed: World) -> None:
    """Below the log start, beyond a shrunken end, of another topic: nothing could take the place of the rows."""
    landed.retain_from(5)
    refused(landed, 3, 9, RangeExpiredError, "offsets 3-5 cannot be read again, the log starts at 5.* --from 5 --to 9 ")
    refused(landed, 0, 4, RangeExpiredError, "offsets 0-4 cannot be read again.*What is in the lake stays as it is$")
    landed.kafka.log("orders", 0).truncate(12)
    refused(landed, 6, 13, RangeBeyondEndError, "the log ends at 12 now")
    landed.kafka.log("orders", 0).unreachable = "no leader"
    refused(landed, 6, 9, UnavailableError, "could not be observed")
    stream = landed.stream()
    landed.create("orders")
    with pytest.raises(IdentityError, match=r"re-created.*cannot be read again"):
        read_again(landed.worker(), landed.spec, stream, OffsetRange(6, 9), reason="wrong")


def test_reopen_needs_a_reason(landed: World) -> None:
    """Others will read it."""
    with pytest.raises(UsageError, match="--reason"):
        read_again(landed.worker(), landed.spec, landed.stream(), OffsetRange(3, 9), reason=" ")


def test_ledger_that_is_behind_reopens_nothing(landed: World) -> None:
    """It would hide the newer commit behind its own."""
    backup = landed.ledger.snapshot()
    landed.produce(3)
    landed.run()
    landed.ledger.restore(backup)
    refused(landed, 3, 9, LedgerBehindError, "kafka-lake rebuild orders")


def test_range_whose_rows_are_damaged_is_reopened_whole(landed: World) -> None:
    """Its numbers cannot be shared; read again as a whole, the table is right."""
    table = landed.table
    assert table._store is not None
    head = table._store.commits[table._store.refs["main"]]
    table._store.commits[head.id] = type(head)(
        id=head.id, parent=head.parent, at=head.at, spec=head.spec, token=head.token, rows=head.rows[1:]
    )
    assert audited(landed) != []
    refused(landed, 3, 9, StateError, "1 row that landed is gone from orders/0 0-14 .* --to 14 --restore-deleted")
    cut = partial(read_again, landed.worker(), landed.spec, landed.stream(), reason="damaged", restore_deleted=True)
    with pytest.raises(StateError, match=r"gone from orders/0 0-14 .* --from 0 --to 14 --restore-deleted"):
        cut(OffsetRange(3, 9))
    cut(OffsetRange(0, 14))
    landed.watermarks.clear()
    assert landed.run().exit_code == 0
    assert audited(landed) == []
    landed.check()


# Deaths, zombies and lost answers


def test_reopen_is_finished_after_a_death_at_any_step(landed: World) -> None:
    """Whatever call it died before: the same command again, then a run, and everything is right."""
    calls = Calls()
    landed.reopen(3, 9, worker=landed.worker(calls))
    for number in range(1, len(calls.made) + 1):
        world = land(World())
        with pytest.raises(KilledError):
            world.reopen(3, 9, worker=world.worker(Killed(nth=number)))
        head = world.table.head().snapshot
        world.watermarks.clear()
        world.reopen(3, 9)
        assert world.table.head().snapshot != head, "main has moved after the decision was on record"
        said = world.table.commits()[-1].token
        assert said is not None
        assert said.kind == "fence", "the commit says what it is, also when a second call makes it"
        assert [row.kind for row in world.table.all_receipts()].count("reopen") == 1
        assert world.run().exit_code == 0
        assert audited(world) == []
        world.check()


def test_publisher_that_looked_before_a_reopen_starts_again(landed: World) -> None:
    """Main moves after the decision: a worker past its checks meets a moved head, and checks once more."""
    landed.produce(3)
    wave = landed.planned_wave()
    calls = Calls()
    reopening_now = Before("table.publish", lambda: landed.reopen(3, 9))

    def passing(call: str) -> None:
        calls(call)
        reopening_now(call)

    assert landed.ingest(wave, landed.worker(passing)).state is WaveState.COMMITTED
    assert calls.made.count("ledger.mark_publishing") == 2
    assert landed.run().exit_code == 0
    landed.check()


def test_table_whose_rows_cannot_be_replaced_is_refused_before_anything_is_begun(
    landed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither does a reopen record anything, nor does a job run for one that was recorded before."""

    def refuse(*_: object) -> None:
        raise SchemaMismatchError("equality delete files of another engine")

    (wave,) = landed.reopen(3, 9).waves
    ran, before = len(landed.runner.jobs), landed.ledger.ranges(pipeline="orders")
    with monkeypatch.context() as patched:
        patched.setattr(landed.table, "visible", refuse)
        with pytest.raises(SchemaMismatchError):
            landed.ingest(wave)
        with pytest.raises(SchemaMismatchError):
            landed.reopen(9, 12)
    assert (len(landed.runner.jobs), landed.ledger.ranges(pipeline="orders")) == (ran, before)
    assert landed.run().exit_code == 0
    landed.check()


@pytest.mark.parametrize("call", ["visible", "publish"])
def test_replacing_with_progress_keeps_its_lease(landed: World, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many files to read and to write anew: others wait, instead of staging the wave again for ever."""
    (wave,) = landed.reopen(3, 9).waves
    codes: list[int] = []
    real = getattr(landed.table, call)

    def slow(asked: object, heartbeat: Callable[[], None] | None = None) -> object:
        for _ in range(10 if heartbeat else 0):
            landed.clock.advance(timedelta(minutes=1))
            heartbeat()  # type: ignore[misc]
            codes.append(landed.run().exit_code)
        return real(asked, *([heartbeat] if heartbeat else []))

    monkeypatch.setattr(landed.table, call, slow)
    assert landed.ingest(wave).state is WaveState.COMMITTED
    assert set(codes) == {3}
    landed.advance()
    landed.check()


@pytest.mark.parametrize("answer", [Answer.LOST, Answer.LOST_LANDED], ids=["lost", "landed"])
def test_lost_answer_of_the_commit_that_moves_main(landed: World, answer: Answer) -> None:
    """Main is looked at, and moved again while it stands where it was."""
    before = landed.table.head().snapshot
    losing = Before("table.fence", lambda: setattr(landed.table, "next_answer", answer))
    landed.reopen(3, 9, worker=landed.worker(losing))
    assert landed.table.head().snapshot != before
    assert landed.run().exit_code == 0
    landed.check()


@pytest.mark.parametrize("answer", [Answer.LOST, Answer.LOST_LANDED, Answer.LATE], ids=["lost", "landed", "late"])
@pytest.mark.parametrize("empty", [False, True])
def test_lost_answer_of_a_replacement_and_expiry_do_no_harm(landed: World, answer: Answer, empty: bool) -> None:
    """Found in the lake it is committed, else made once more: also without a row to show, and without history."""
    if empty:
        landed.kafka._topics["orders"].cleanup_policy = "compact"
        landed.kafka.log("orders", 0).remove(range(4))
        for offset in range(4):
            landed.visible[landed.key()].pop(offset)
    (wave,) = landed.reopen(0, 4, accept_fewer=True).waves
    losing = Before("table.publish", lambda: setattr(landed.table, "next_answer", answer))
    dying = Killed("table.find_commit", nth=3)

    def passing(call: str) -> None:
        dying(call)
        losing(call)

    with pytest.raises(KilledError):
        landed.ingest(wave, landed.worker(passing))
    expire(landed)
    landed.lease_ends()
    assert landed.run().exit_code == 0
    landed.table.land_late()
    assert landed.offsets() == [*([] if empty else range(4)), 4, 5, 10, 11, 12, 13]
    assert audited(landed) == []
    landed.check()


def test_wave_that_dies_at_any_step_of_the_second_reading_is_finished(landed: World) -> None:
    """As any other wave."""
    calls = Calls()
    (wave,) = landed.reopen(3, 9).waves
    landed.ingest(wave, landed.worker(calls))
    for number in range(1, len(calls.made) + 1):
        (wave,) = landed.reopen(3, 9).waves
        with pytest.raises(KilledError):
            landed.ingest(wave, landed.worker(Killed(nth=number)))
        landed.lease_ends()
        assert landed.run().exit_code == 0
        landed.check()
    assert audited(landed) == []


def test_lake_is_told_of_the_reopen_before_its_new_rows(landed: World) -> None:
    """A rebuild that saw the rows alone would take them for the only ones."""
    real = landed.table.add_receipts
    landed.table.add_receipts = lambda rows: (_ for _ in ()).throw(UnavailableError("receipts are away"))  # type: ignore[method-assign]
    (wave,) = landed.reopen(3, 9).waves
    with pytest.raises(UnavailableError):
        landed.ingest(wave)
    landed.table.add_receipts = real  # type: ignore[method-assign]
    assert landed.ingest(wave).state is WaveState.COMMITTED
    kinds = [row.kind for row in landed.table.all_receipts() if row.generation == 1]
    assert kinds.index("reopen") < kinds.index("rows")


def test_cancelled_second_reading_holds_the_watermark(landed: World) -> None:
    """It is a wave as any other: cancel, release, run; the earlier rows stay as long as it takes."""
    before = landed.offsets()
    (wave,) = landed.reopen(3, 9).waves
    decisions.cancel(landed.worker(), wave, "not now")
    with pytest.raises(StateError):
        landed.ingest(wave)
    landed.advance()
    assert (landed.offsets(), landed.stream().watermark, audited(landed)) == (before, 3, [])
    decisions.release(landed.worker(), wave, None)
    assert landed.run().exit_code == 0
    landed.check()


def test_failed_second_reading_is_held(landed: World) -> None:
    """What is not accounted for takes no row's place."""
    before = landed.offsets()
    (wave,) = landed.reopen(3, 9).waves
    landed.runner.tamper = lambda rows: rows[1:]
    with pytest.raises(HeldError):
        landed.ingest(wave)
    assert (landed.offsets(), audited(landed)) == (before, [])


def test_rows_are_replaced_in_the_table_that_has_them(landed: World) -> None:
    """A pipeline that lands in another table since leaves no copy of them there; rows of both tables are refused."""
    landed.spec = replace(landed.spec, table="raw.moved")
    landed.produce(3)
    assert landed.run().exit_code == 0
    with pytest.raises(StateError, match=r"0-14 in raw\.orders; 14-17 in raw\.moved"):
        landed.reopen(12, 16)
    before = landed.offsets()
    (wave,) = landed.reopen(3, 9).waves
    assert (landed.ledger.wave(wave).table, landed.reopen(3, 9).waves) == ("raw.orders", (wave,))
    assert landed.run().exit_code == 0
    assert (landed.offsets(), by_attempt(landed)) == (before, ["0-3, 10-14", "3-6"])
    assert str(landed.lake.table("raw.moved").attempt_rows()[0].offsets) == "14-17"
    assert audited(landed) == []
