"""Rows that were deleted from the lake on purpose: recorded once, with who and why, and not missing since."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from airflow_kafka_lake.actions.offsets import ReopenAction
from airflow_kafka_lake.core.errors import (
    AttemptRejectedError,
    ConcurrentError,
    IdentityError,
    StateError,
    UnknownSubjectError,
    UsageError,
)
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.selection import EVERYTHING, Selection, StreamScope
from airflow_kafka_lake.services import decisions, pipeline_audit, reopening
from airflow_kafka_lake.services.deep_audit import DeepCheck
from airflow_kafka_lake.services.pipeline_audit import accept_deletes, digest_of
from airflow_kafka_lake.services.rebuilding import rebuild
from tests.gates import Before, Killed, KilledError
from tests.kit.memory_ledger import MemoryLedger
from tests.world import World, read_again

pytestmark = pytest.mark.unit


@pytest.fixture
def landed(world: World) -> World:
    """Two committed waves: offsets 0 to 3 with a marker behind them, and 5 to 9."""
    world.produce(4, transaction="good")
    world.end("good")
    assert world.run().exit_code == 0
    world.produce(5)
    assert world.run().exit_code == 0
    return world


def delete(world: World, *offsets: int) -> None:
    """Let another engine delete rows."""
    world.table.delete_foreign(lambda row: row.offset in offsets)


def accepted(world: World, asked: OffsetRange | None = None, scope: StreamScope = EVERYTHING, **options: Any) -> int:
    """Record what is gone; returns how many rows."""
    _, deleted = accept_deletes(world.worker(), world.spec, scope, asked, **{"reason": "90 days", **options})
    return sum(item.rows for item in deleted)


def audited(world: World, *checks: DeepCheck) -> dict[str, Any]:
    """Return what an audit says."""
    return pipeline_audit.audit(world.worker(), world.spec, checks=checks).to_json()


def test_deleted_rows_are_missing_until_that_is_recorded(landed: World) -> None:
    """The audit names the snapshot that took them, and the command that records it; then they count as deleted."""
    delete(landed, 0, 1, 7)
    before = audited(landed)
    (stream,) = before["streams"]
    assert (before["ok"], stream["missing"], stream["deleted"], stream["accounting"]["unexplained"]) == (False, 3, 0, 3)
    words = next(text for text in stream["problems"] if text.startswith("range 0-5"))
    assert "Rows were deleted with snapshot" in words
    assert "kafka-lake accept-deletes orders --topic orders --partition 0 --from 0 --to 5 --reason TEXT" in words
    decision, deleted = accept_deletes(landed.worker(), landed.spec, EVERYTHING, None, reason="90 days")
    assert [(str(found.item.range), found.rows) for found in deleted] == [("0-5", 2), ("5-10", 1)]
    after = audited(landed)
    (stream,) = after["streams"]
    assert (after["ok"], stream["missing"], stream["deleted"], stream["accounting"]["unexplained"]) == (True, 0, 3, 0)
    assert stream["sentence"].endswith(
        "6 visible, 1 marker, 0 aborted, 0 compacted, 0 skipped, 3 deleted, 0 unexplained"
    )
    assert (after["totals"]["deleted"], after["totals"]["missing"]) == (3, 0)
    event = landed.ledger.events("orders")[-1]
    assert (event.kind, event.subject, event.actor[:7]) == ("accept-deletes", decision, "worker-")
    assert event.detail == "orders/0: 3 rows in all: 90 days"


def test_rows_that_a_snapshot_deleted_in_all_are_not_told_for_each_range(landed: World) -> None:
    """People would add them up: each range has its own number."""
    delete(landed, 0, 1, 7)
    messages = [found["message"] for found in audited(landed)["findings"]]
    assert len(messages) == 2
    numbers = ("2 rows are in the table, 4 were published", "4 rows are in the table, 5 were published")
    with_snapshot = f". Rows were deleted with snapshot {landed.table.head().snapshot} at "
    assert sorted(text.partition(with_snapshot)[0].partition(": ")[2] for text in messages) == sorted(numbers)


def test_one_row_more_is_missing_again(landed: World) -> None:
    """What was recorded excuses what was gone then, not what goes later."""
    delete(landed, 0, 1)
    accepted(landed)
    delete(landed, 2)
    assert (audited(landed)["ok"], audited(landed)["totals"]["missing"]) == (False, 1)
    assert accepted(landed) == 1
    assert (audited(landed)["ok"], audited(landed)["totals"]["deleted"]) == (True, 3)


def test_deleted_rows_that_come_back_excuse_no_others(landed: World) -> None:
    """What is recorded are offsets: rows that were put there again are there, and others that go are missing."""
    before = landed.table.head().snapshot
    assert before is not None
    delete(landed, 0, 1, 7)
    accepted(landed)
    landed.table.roll_back(before)
    assert (audited(landed)["ok"], audited(landed)["totals"]["deleted"]) == (True, 0)
    delete(landed, 2, 3, 7)
    document = audited(landed)
    assert (document["ok"], document["totals"]["missing"], document["totals"]["deleted"]) == (False, 2, 1)
    (finding,) = document["findings"]
    assert (finding["kind"], finding["offsets"]) == ("lost", [[2, 4]])
    assert not audited(landed, DeepCheck())["ok"]
    assert accepted(landed) == 2
    assert (audited(landed)["ok"], audited(landed)["totals"]["deleted"]) == (True, 3)
    landed.table.roll_back(before)
    delete(landed, 0)
    assert audited(landed)["ok"], "what was recorded first still counts"


def test_record_of_a_number_alone_still_counts(landed: World) -> None:
    """As an older version wrote it: so many rows of a range, whichever they are."""
    delete(landed, 0, 1)
    accepted(landed)
    receipts = landed.table._receipts
    receipts.update({key: replace(row, offsets=None) for key, row in receipts.items() if row.kind == "deleted"})
    assert (audited(landed)["ok"], audited(landed)["totals"]["deleted"]) == (True, 2)
    with pytest.raises(StateError, match="nothing to record"):
        accepted(landed)
    delete(landed, 2)
    assert (audited(landed)["ok"], audited(landed)["totals"]["missing"]) == (False, 1)
    assert accepted(landed) == 1
    assert (audited(landed)["ok"], audited(landed)["totals"]["deleted"]) == (True, 3)


def test_recorded_twice_is_recorded_once(landed: World) -> None:
    """Nothing is left to record then."""
    delete(landed, 6)
    accepted(landed)
    with pytest.raises(StateError, match="nothing to record"):
        accepted(landed)


def test_rows_that_two_people_record_at_once_are_excused_once(landed: World) -> None:
    """As many rows that go later are missing."""
    delete(landed, 0, 1)
    meanwhile = landed.worker(Before("ledger.accept_deletes", lambda: accepted(landed)))
    _, deleted = accept_deletes(meanwhile, landed.spec, EVERYTHING, None, reason="90 days")
    assert sum(item.rows for item in deleted) == 2
    assert (audited(landed)["ok"], audited(landed)["totals"]["deleted"]) == (True, 2)
    delete(landed, 2, 3)
    assert (audited(landed)["ok"], audited(landed)["totals"]["missing"]) == (False, 2)
    assert accepted(landed) == 2
    assert (audited(landed)["ok"], audited(landed)["totals"]["deleted"]) == (True, 4)


def test_a_wave_without_any_row_left_is_sound(landed: World) -> None:
    """A publish whose rows were all deleted on purpose needs none."""
    delete(landed, *range(10))
    assert {item["kind"] for item in audited(landed)["findings"]} == {"lost", "token-without-rows"}
    accepted(landed)
    assert audited(landed)["ok"]


def test_only_what_was_asked_for_is_recorded(landed: World) -> None:
    """Offsets bound it; of a range that crosses an edge no more than what is inside."""
    delete(landed, 0, 1, 6, 9)
    assert accepted(landed, OffsetRange(8, 100)) == 1
    assert audited(landed)["totals"]["missing"] == 3
    assert accepted(landed, OffsetRange(0, 5)) == 2
    with pytest.raises(UnknownSubjectError):
        accepted(landed, scope=StreamScope(topic="payments"))


@pytest.fixture
def aborted(world: World) -> World:
    """One committed wave of 26 offsets: rows at 0 to 9 and 16 to 25, an aborted transaction and its marker between."""
    world.produce(10)
    world.produce(5, transaction="bad")
    world.end("bad", commit=False)
    world.produce(10)
    assert world.run().exit_code == 0
    return world


def test_deletes_beside_the_part_that_was_asked_for_stay_missing(aborted: World) -> None:
    """What never had a row in the part must not count for rows that are gone beside it: the whole range is asked for,
    by a command that works."""
    delete(aborted, 20, 21)
    with pytest.raises(StateError) as refused:
        accepted(aborted, OffsetRange(0, 16))
    assert refused.value.message == (
        "orders/0: rows of range 0-26 are gone, and how many of them were in 0-16 cannot be told, 0 to 2: 6 of its "
        "offsets never had a row (markers, aborted or compacted records), and only their number is on record. Nothing "
        "was recorded. Ask for the whole of it: kafka-lake accept-deletes orders --topic orders --partition 0 --from 0 "
        "--to 26 --reason TEXT"
    )
    assert (audited(aborted)["ok"], audited(aborted)["totals"]["missing"]) == (False, 2)
    assert accepted(aborted, OffsetRange(0, 26)) == 2
    assert audited(aborted)["ok"]


def test_deletes_of_a_part_that_can_be_told_are_recorded(aborted: World) -> None:
    """Every row of the part is gone, or no row beside it can be; what a marker at an end of the range hides is known
    by the first and last row that were published."""
    aborted.produce(4, transaction="good")
    aborted.end("good")
    aborted.run()
    delete(aborted, 26, 27)
    assert accepted(aborted, OffsetRange(25, 28)) == 2
    delete(aborted, *range(10))
    with pytest.raises(StateError, match=r"in 0-12 cannot be told, 6 to 10: .* --from 0 --to 26 "):
        accepted(aborted, OffsetRange(0, 12))
    assert accepted(aborted, OffsetRange(0, 16)) == 10, "no row is missing at 16 to 25"
    assert audited(aborted)["ok"]


def test_wider_period_keeps_what_was_asked_for_elsewhere(aborted: World) -> None:
    """Ranges that can be told are named as far as they were asked for."""
    aborted.produce(5)
    aborted.run()
    delete(aborted, 20, 21, 27, 30)
    with pytest.raises(StateError, match=r"--from 0 --to 29 "):
        accepted(aborted, OffsetRange(12, 29))
    assert accepted(aborted, OffsetRange(0, 29)) == 3
    assert audited(aborted)["totals"]["missing"] == 1


def test_part_that_is_recorded_excuses_no_later_delete_beside_it(landed: World) -> None:
    """Asked for once more, it has nothing that is not recorded."""
    delete(landed, 5)
    assert accepted(landed, OffsetRange(5, 6)) == 1
    delete(landed, 8)
    with pytest.raises(StateError, match="nothing to record"):
        accepted(landed, OffsetRange(5, 6))
    assert audited(landed)["totals"]["missing"] == 1
    assert accepted(landed, OffsetRange(8, 9)) == 1
    assert audited(landed)["ok"]


def test_parts_that_two_people_record_at_once_are_recorded_by_asking_again(landed: World) -> None:
    """One of them counts, and the other's rows are missing until they are asked for once more."""
    delete(landed, 5, 6, 8)
    meanwhile = landed.worker(Before("ledger.accept_deletes", lambda: accepted(landed, OffsetRange(8, 9))))
    accept_deletes(meanwhile, landed.spec, EVERYTHING, OffsetRange(5, 7), reason="90 days")
    document = audited(landed)
    assert (document["totals"]["missing"], document["findings"][0]["offsets"]) == (1, [[8, 9]])
    assert accepted(landed, OffsetRange(8, 9)) == 1
    assert audited(landed)["ok"]


def test_dry_run_records_nothing(landed: World) -> None:
    """It shows the same rows."""
    delete(landed, 0)
    decision, deleted = accept_deletes(landed.worker(), landed.spec, EVERYTHING, None, reason="why", dry_run=True)
    assert (decision, [found.rows for found in deleted]) == (None, [1])
    assert not audited(landed)["ok"]
    with pytest.raises(UsageError, match="reason"):
        accepted(landed, reason=" ")


def test_rows_that_vanish_after_the_dry_run_are_not_recorded_with_it(landed: World) -> None:
    """Another person's mistake meanwhile is not a delete "on purpose"."""
    delete(landed, 0)
    _, deleted = accept_deletes(landed.worker(), landed.spec, EVERYTHING, None, reason="erasure", dry_run=True)
    shown = digest_of(deleted)
    delete(landed, 1)
    with pytest.raises(StateError, match="not the rows that were shown"):
        accepted(landed, shown=shown)
    assert audited(landed)["totals"]["missing"] == 2
    _, deleted = accept_deletes(landed.worker(), landed.spec, EVERYTHING, None, reason="both", dry_run=True)
    assert accepted(landed, shown=digest_of(deleted)) == 2


def test_rollback_is_no_delete(landed: World) -> None:
    """Rows that vanished with their commit are refused: they are read again, or the table is restored."""
    landed.table.roll_back(landed.table.commits()[1].snapshot)
    with pytest.raises(IdentityError, match="rolled back"):
        accepted(landed)


def test_record_outlives_ledger_and_history(landed: World) -> None:
    """The receipts are in the lake: a rebuilt ledger restores what is committed, and an audit still finds nothing."""
    delete(landed, *range(10))
    accepted(landed)
    landed.clock.advance(timedelta(hours=1))
    landed.table.write_foreign()
    landed.table.expire()
    landed.ledger = MemoryLedger(landed.clock, ledger_id="2" * 32)
    rebuild(landed.worker(), landed.spec)
    assert landed.stream().watermark == 10
    document = audited(landed)
    assert (document["problems"], document["totals"]["deleted"]) == ([], 9)


def test_record_on_its_way_to_the_lake_counts(landed: World) -> None:
    """It is decided in the ledger; a worker that dies before it told the lake has lost nothing."""
    delete(landed, 0)
    with pytest.raises(KilledError):
        accept_deletes(
            landed.worker(Killed("table.add_receipts")), landed.spec, EVERYTHING, None, reason="asked for by its owner"
        )
    assert audited(landed)["ok"]
    with pytest.raises(StateError):
        accepted(landed)
    with pytest.raises(StateError, match=r"rows? that landed"):
        landed.reopen(0, 10)


def test_deep_audit_expects_no_row_of_what_was_deleted(landed: World) -> None:
    """Kafka still has the records: that they have no row is on record."""
    delete(landed, 0, 7)
    assert not audited(landed, DeepCheck())["ok"]
    accepted(landed)
    document = audited(landed, DeepCheck())
    assert document["ok"]
    assert "orders/0: 2 records have no row, the first at 0: deleted on purpose" in document["deep"]["lines"]


def test_what_is_read_again_has_all_of_its_rows_again(landed: World) -> None:
    """A reopen brings back what Kafka still has, where a person says so: erased rows do not come back by themselves."""
    delete(landed, 0)
    reopen = partial(
        reopening.prepare, landed.worker(), landed.spec, landed.stream(), OffsetRange(0, 5), reason="wrongly deleted"
    )
    gone, restored = "1 row that landed is gone from orders/0 0-5 in the table.*", ".*--restore-deleted"
    with pytest.raises(StateError, match=f"{gone} kafka-lake accept-deletes {restored}"):
        reopen()
    accepted(landed)
    by = r"recorded as deleted.*\w+ by worker-\d+, orders/0: 1 row in all: 90 days"
    told = f"{gone}{by}.*{restored}"
    with pytest.raises(StateError, match=told):
        reopen(accept_fewer=True)
    meant = Selection(topic="orders", partitions=frozenset({0}), start=0, end=5)
    shown = ReopenAction(selection=meant, reason="why", restore_deleted=True).preview(landed.worker(), landed.spec)
    assert re.search(f"; 1 of the rows are gone from the table, and would come back; {by}", str(shown.lines[0]))
    done = ReopenAction(selection=meant, reason="why", restore_deleted=True).apply(landed.worker(), landed.spec)
    assert "; 1 deleted row will be in the table again" in str(done.lines[0])
    assert ", 1 deleted row restored;" in landed.ledger.events("orders")[-1].detail
    landed.watermarks.clear()
    assert landed.run().exit_code == 0
    document = audited(landed)
    assert (document["ok"], document["totals"]["deleted"]) == (True, 0)


def test_part_beside_a_deleted_row_is_read_again_with_the_whole_range(landed: World) -> None:
    """How many rows a part of the range has is not known any more; the command that is named does it."""
    before = landed.offsets()
    delete(landed, 1, 2)
    accepted(landed)
    told = r"2 rows that landed are gone from orders/0 0-7 in .*--from 0 --to 7 --restore"
    with pytest.raises(StateError, match=told):
        landed.reopen(3, 7)
    again = partial(read_again, landed.worker(), landed.spec, landed.stream(), OffsetRange(0, 7), reason="all of it")
    again(restore_deleted=True)
    landed.watermarks.clear()
    assert landed.run().exit_code == 0
    assert landed.offsets() == before


def test_rows_that_were_deleted_and_not_recorded_do_not_come_back_by_themselves(landed: World) -> None:
    """Who has deleted a person's rows, and forgot to record it, still has deleted them."""
    delete(landed, 2)
    with pytest.raises(StateError, match="1 row that landed is gone"):
        landed.reopen(0, 10)
    assert landed.run().exit_code == 0
    assert 2 not in landed.offsets()


def test_deletion_that_is_recorded_beside_a_reopen_ends_the_later_one(landed: World) -> None:
    """Both were decided from the same facts: no rows that come back are called deleted for good."""
    prepared = reopening.prepare(landed.worker(), landed.spec, landed.stream(), OffsetRange(0, 5), reason="again")
    delete(landed, 2)
    accepted(landed)
    with pytest.raises(ConcurrentError):
        reopening.carry_out(landed.worker(), landed.spec, prepared)


def test_reopen_beside_a_record_of_deletions_refuses_the_record(landed: World) -> None:
    """The rows come back, and are not called deleted for good."""
    delete(landed, 2)
    again = partial(read_again, landed.worker(), landed.spec, landed.stream(), OffsetRange(0, 5), reason="again")
    beside = Before("ledger.accept_deletes", lambda: again(restore_deleted=True))
    with pytest.raises(ConcurrentError):
        accept_deletes(landed.worker(beside), landed.spec, EVERYTHING, None, reason="asked for by its owner")
    assert not landed.ledger.outbox("orders", kind="deleted")


def test_deletions_are_recorded_while_the_pipeline_goes_on(landed: World) -> None:
    """New records are planned and landed all the time; they are no decision about those that are gone."""
    delete(landed, 2)

    def goes_on(call: str) -> None:
        if call == "table.attempt_rows":
            landed.produce(1)
            assert landed.run().exit_code == 0

    _, deleted = accept_deletes(landed.worker(goes_on), landed.spec, EVERYTHING, None, reason="90 days")
    assert sum(item.rows for item in deleted) == 1


def test_part_that_kafka_cannot_give_as_a_whole_is_not_offered(landed: World) -> None:
    """No command is named that would be refused, with or without the switch."""
    delete(landed, 3)
    landed.retain_from(2)
    again = partial(reopening.prepare, landed.worker(), landed.spec, landed.stream(), OffsetRange(3, 5), reason="again")
    for is_wanted in (False, True):
        with pytest.raises(StateError, match="below 2 no more, so none of it can be read again") as refused:
            again(restore_deleted=is_wanted)
        assert "--restore-deleted" not in refused.value.message


def held(world: World) -> tuple[OffsetRange, str]:
    """Run, which ends with one range on hold; return that, and why."""
    assert world.run().exit_code == 1
    (item,) = world.ledger.ranges(pipeline="orders", states=[RangeState.HELD])
    return item.range, item.reason or ""


def test_rows_deleted_since_a_reopen_do_not_come_back_by_its_run(landed: World) -> None:
    """The range is held, the rest of the wave lands; a person has them back, in the end all of them."""
    before = landed.offsets()
    landed.reopen(0, 10)
    delete(landed, 2, 3)
    told = "orders/0 0-5 is to be read again: that run is held where rows of it were deleted since"
    with pytest.raises(StateError, match=told):
        accepted(landed)
    part, reason = held(landed)
    assert part == OffsetRange(0, 5)
    assert reason.startswith("2 rows are gone from the lake since it was decided to read this again, 2-4, and would")
    (again,) = re.findall(r"kafka-lake reopen orders (.+?) --reason", reason)
    assert again == "--topic orders --partition 0 --from 0 --to 5 --restore-deleted"
    with pytest.raises(StateError, match="2 rows that landed are gone from orders/0 0-5 in the table"):
        landed.reopen(0, 5, accept_fewer=True)
    delete(landed, 1)
    options: dict[str, Any] = {"reason": "by mistake", "restore_deleted": True}
    done = read_again(landed.worker(), landed.spec, landed.stream(), OffsetRange(0, 5), **options)
    assert (done.offsets, ", 3 deleted rows restored;" in landed.ledger.events("orders")[-1].detail) == (5, True)
    delete(landed, 0)
    assert held(landed)[1].startswith("1 row is gone from the lake since it was decided to read this again, 0-1, and")
    read_again(landed.worker(), landed.spec, landed.stream(), OffsetRange(0, 5), **options)
    landed.watermarks.clear()
    assert landed.run().exit_code == 0
    assert (landed.offsets(), audited(landed)["ok"]) == (before, True)


def test_rows_deleted_since_a_reopen_stay_deleted_once_it_is_skipped(landed: World) -> None:
    """The commands that the hold names leave all other rows as they are, and record it; a later reopen still asks."""
    landed.reopen(0, 5)
    delete(landed, 2)
    _, reason = held(landed)
    scope = "orders --topic orders --partition 0 --from 0 --to 5 --reason TEXT"
    assert f"kafka-lake skip {scope}, then kafka-lake accept-deletes {scope}" in reason
    with pytest.raises(StateError, match=f"leave it so, by kafka-lake skip {scope}, and recorded by .* {scope}"):
        landed.reopen(0, 5, accept_fewer=True)
    part, worker = OffsetRange(0, 5), landed.worker()
    decisions.skip(worker, "orders", landed.stream(), part, reason="erased", acknowledge_order=False)
    landed.watermarks.clear()
    assert landed.run().exit_code == 0
    assert accepted(landed, part) == 1
    assert (landed.offsets(), audited(landed)["ok"]) == ([0, 1, 3, 5, 6, 7, 8, 9], True)
    with pytest.raises(StateError, match="1 row that landed is gone from orders/0 0-5 in the table"):
        landed.reopen(0, 5)


def test_rows_that_a_skip_has_left_in_the_lake_are_audited_for_ever(landed: World) -> None:
    """Those of a reopened slice: they are visible, one that goes is missing, and a rebuilt ledger knows them too."""
    landed.reopen(0, 5)
    part, worker = OffsetRange(0, 5), landed.worker()
    decisions.skip(worker, "orders", landed.stream(), part, reason="not now", acknowledge_order=False)
    document = audited(landed)
    (stream,) = document["streams"]
    assert (document["ok"], stream["accounting"]["visible"]) == (True, 9)
    assert stream["accounting"]["skipped"] == 1, "the marker, which has no row"
    delete(landed, 0, 3)
    document = audited(landed)
    assert (document["ok"], document["totals"]["missing"]) == (False, 2)
    assert [item["offsets"] for item in document["findings"] if item["kind"] == "lost"] == [[[0, 1], [3, 5]]]
    assert accepted(landed) == 2
    assert (audited(landed)["ok"], audited(landed)["totals"]["deleted"]) == (True, 2)
    delete(landed, 1)
    landed.lose_ledger("2" * 32)
    rebuild(landed.worker(), landed.spec)
    assert audited(landed)["totals"]["missing"] > 0


def test_rows_deleted_since_a_reopen_do_not_come_back_by_a_rebuilt_ledger(landed: World) -> None:
    """The offsets without a row then are in the lake, with the record of the reopen."""
    landed.reopen(0, 5)
    delete(landed, 2)
    landed.lose_ledger("2" * 32)
    rebuild(landed.worker(), landed.spec)
    landed.watermarks.clear()
    assert held(landed)[0] == OffsetRange(0, 5)


@pytest.mark.parametrize("call", ["table.add_receipts", "table.publish"])
def test_rows_deleted_while_their_range_is_read_again_do_not_come_back(landed: World, call: str) -> None:
    """Up to the commit: it is refused, or main has moved from the head that it requires; then they are compared."""
    (wave,) = landed.reopen(0, 5).waves
    deleted = Before(call, lambda: delete(landed, 2))
    with pytest.raises(AttemptRejectedError, match="the rows that it replaces are others since they were compared"):
        landed.ingest(wave, landed.worker(deleted))
    assert held(landed)[0] == OffsetRange(0, 5)
    assert 2 not in landed.offsets()


def test_reopen_of_an_older_version_is_read_as_it_was_decided(landed: World) -> None:
    """Its receipts do not say which rows there were."""
    landed.reopen(0, 5)
    receipts = landed.table._receipts
    receipts.update({key: replace(row, offsets=None) for key, row in receipts.items() if row.kind == "reopen"})
    delete(landed, 2)
    landed.watermarks.clear()
    assert landed.run().exit_code == 0
    assert landed.offsets() == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_what_was_rolled_back_and_read_again_has_all_of_its_rows_again(landed: World) -> None:
    """The same offsets in another wave: rows that go from it later are missing."""
    before = landed.table.commits()[-2].snapshot
    delete(landed, 6)
    accepted(landed)
    landed.table.roll_back(before)
    rebuild(landed.worker(), landed.spec, accept_rollback=True)
    landed.watermarks.clear()
    assert landed.run().exit_code == 0
    assert (audited(landed)["ok"], audited(landed)["totals"]["deleted"]) == (True, 0)
    delete(landed, 6)
    assert (audited(landed)["ok"], audited(landed)["totals"]["missing"]) == (False, 1)
    assert not audited(landed, DeepCheck())["ok"]
