"""Slices that were reopened and then skipped, also in rebuilt ledgers: every row is accounted for."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from airflow_kafka_lake.core.errors import StateError
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.selection import EVERYTHING
from airflow_kafka_lake.services import decisions, pipeline_audit
from airflow_kafka_lake.services.deep_audit import DeepCheck
from airflow_kafka_lake.services.rebuilding import rebuild
from tests.world import World, read_again

pytestmark = pytest.mark.unit

LEDGERS = pytest.mark.parametrize("is_lost", [False, True], ids=["sound", "lost"])


@pytest.fixture
def landed(world: World) -> World:
    """Two committed waves of five offsets."""
    for _ in range(2):
        world.produce(5)
        assert world.run().exit_code == 0
    return world


def skip(world: World, start: int, end: int) -> None:
    """Pass some offsets by a person's decision; the watermark may fall before."""
    passed = OffsetRange(start, end)
    decisions.skip(world.worker(), "orders", world.stream(), passed, reason="no", acknowledge_order=True)
    world.watermarks.clear()


def rebuilt(world: World, *, is_lost: bool = True) -> None:
    """Rebuild the ledger, or another one in its place, from the lake."""
    world.lease_ends()
    if is_lost:
        world.lose_ledger("2" * 32)
    world.watermarks.clear()
    rebuild(world.worker(), world.spec)


def delete(world: World, *offsets: int) -> None:
    """Let another engine delete rows."""
    world.table.delete_foreign(lambda row: row.offset in offsets)


def accepted(world: World) -> int:
    """Record what is gone as deleted on purpose; returns how many rows."""
    _, found = pipeline_audit.accept_deletes(world.worker(), world.spec, EVERYTHING, None, reason="erasure")
    return sum(item.rows for item in found)


def audited(world: World, *checks: DeepCheck) -> dict[str, Any]:
    """Return the document of an audit."""
    return pipeline_audit.audit(world.worker(), world.spec, checks=checks).to_json()


def mixed(world: World) -> None:
    """Let one skip pass a slice that was reopened twice, and one that was reopened once."""
    world.reopen(0, 5)
    assert world.run().exit_code == 0
    world.reopen(0, 10)
    skip(world, 0, 10)


@LEDGERS
def test_what_is_reopened_after_a_skip_of_more_is_read_after_a_rebuild(world: World, is_lost: bool) -> None:
    """One skip passes a reopened slice and one that was never read; the reopen of the second one is the later decision
    about it, though it is its first."""
    world.produce(5)
    assert world.run().exit_code == 0
    world.reopen(0, 5)
    world.produce(5)
    world.plan()
    skip(world, 0, 10)
    world.reopen(5, 10)
    rebuilt(world, is_lost=is_lost)
    found = [(str(item.range), item.state) for item in world.ledger.ranges(pipeline="orders")]
    assert found == [("0-5", RangeState.SKIPPED), ("5-10", RangeState.PLANNED)]
    assert world.run().exit_code == 0
    assert (world.offsets(), world.stream().watermark, audited(world)["ok"]) == ([*range(10)], 10, True)


def test_one_skip_of_several_generations_is_one_decision_in_a_rebuilt_ledger(landed: World) -> None:
    """With all of its offsets."""
    mixed(landed)
    rebuilt(landed)
    (found,) = landed.ledger.snapshot().skips.values()
    assert (found.offsets, str(found.slice)) == (10, "orders/0 0-10")


def test_rows_that_a_skip_has_left_are_audited_in_a_rebuilt_ledger(landed: World) -> None:
    """Each of them, and a plain reopen brings none back that was deleted."""
    mixed(landed)
    rebuilt(landed)
    assert audited(landed)["ok"]
    delete(landed, 2, 7)
    document = audited(landed)
    assert (document["ok"], document["totals"]["missing"]) == (False, 2)
    with pytest.raises(StateError, match="2 rows that landed are gone"):
        landed.reopen(0, 10)


def test_rows_that_a_skip_has_left_are_compared_with_kafka(landed: World) -> None:
    """By a deep audit, as all that readers see."""
    landed.reopen(0, 5)
    skip(landed, 0, 5)
    assert audited(landed, DeepCheck())["deep"]["records"] == 10
    old = [row for row in landed.table.rows() if row.offset == 2]
    delete(landed, 2)
    assert audited(landed, DeepCheck())["deep"]["records"] == 9
    landed.table.write_foreign([replace(row, value=b"forged") for row in old])
    assert not audited(landed, DeepCheck())["ok"]


@LEDGERS
def test_deletes_of_rows_that_a_skip_has_left_are_recorded_for_good(landed: World, is_lost: bool) -> None:
    """Before and after a rebuild, each once, and a reopen names the decisions."""
    landed.reopen(0, 10)
    skip(landed, 0, 10)
    delete(landed, 1)
    assert (audited(landed)["ok"], accepted(landed)) == (False, 1)
    rebuilt(landed, is_lost=is_lost)
    document = audited(landed)
    assert (document["problems"], document["totals"]["deleted"]) == ([], 1)
    delete(landed, 8)
    assert (audited(landed)["ok"], accepted(landed)) == (False, 1)
    document = audited(landed)
    assert (document["problems"], document["totals"]["deleted"]) == ([], 2)
    first = "" if is_lost else r"\w+ by .*; "  # a decision is told as long as its ledger is there
    with pytest.raises(StateError, match=rf"recorded as deleted on purpose \({first}\w+ by [^;]*\)"):
        landed.reopen(0, 10)


def test_slice_of_an_earlier_table_that_was_skipped_is_not_planned_by_a_rebuild(landed: World) -> None:
    """The receipt of the reopen is in the table that has the rows, that of the skip in the one of today."""
    landed.with_spec(table="raw.moved")
    landed.produce(3)
    assert landed.run().exit_code == 0
    backup = landed.ledger.snapshot()
    landed.reopen(0, 5)
    skip(landed, 0, 5)
    landed.ledger.restore(backup)
    rebuilt(landed, is_lost=False)
    states = [(str(item.range), item.state) for item in landed.ledger.ranges(pipeline="orders")]
    assert states[0] == ("0-5", RangeState.SKIPPED)
    assert {state for _, state in states[1:]} == {RangeState.COMMITTED}


def test_reopen_that_waits_takes_no_further_decision(landed: World) -> None:
    """To bring back rows that were deleted since is another one, which the hold of its run names; a call that is only
    repeated ends the first."""
    landed.reopen(0, 5)
    restored = partial(
        read_again, landed.worker(), landed.spec, landed.stream(), OffsetRange(0, 5), restore_deleted=True
    )
    assert restored(reason="once more").offsets == 5
    delete(landed, 2)
    with pytest.raises(StateError, match="it is planned, and not read yet"):
        restored(reason="have it back")
    assert landed.run().exit_code == 1
    assert restored(reason="have it back").offsets == 5
    landed.watermarks.clear()
    assert landed.run().exit_code == 0
    assert landed.offsets() == [*range(10)]


def test_rows_deleted_since_a_reopen_that_kafka_has_no_more_are_a_question(world: World) -> None:
    """A cleaner took the records: nothing brings the rows back, and a person has to know it."""
    world.produce(6)
    assert world.run().exit_code == 0
    world.kafka._topics["orders"].cleanup_policy = "compact"
    world.reopen(0, 6)
    delete(world, 2)
    world.kafka.log("orders", 0).remove([2])
    world.visible[world.key()].pop(2)
    done = world.run()
    assert done.exit_code == 1
    (held,) = [item for item in world.ledger.ranges(pipeline="orders") if item.state is RangeState.HELD]
    assert "1 row is gone from the lake since it was decided to read this again, 2-3, and Kafka has" in str(held.reason)
    skip(world, 0, 6)
    assert (accepted(world), audited(world)["ok"], world.offsets()) == (1, True, [0, 1, 3, 4, 5])
