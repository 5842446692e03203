"""Moving main away from a head: what counts as moved, and what does not."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.core.errors import IdentityError, UnavailableError
from airflow_kafka_lake.core.ledger.waves import Requirement, Token
from airflow_kafka_lake.services.recovery import FenceCommit, move_main
from tests.kit.memory_lake import Answer
from tests.world import World

pytestmark = pytest.mark.unit

TOKEN = Token(pipeline="orders", wave="w", attempt="a" * 16, fence=1, ranges="", kind="fence")
UNMOVED = UnavailableError("main could not be moved")


def landed() -> World:
    """A world with a table that has rows."""
    world = World()
    world.produce(2)
    assert world.run().exit_code == 0
    return world


def moved(world: World) -> int | None:
    """Move main with one token; return where it is then."""
    ports = world.worker()
    return move_main(ports, world.table, TOKEN, lambda _: FenceCommit(), unmoved=UNMOVED).head.snapshot


def test_commit_of_an_earlier_call_is_not_taken_for_this_one() -> None:
    """It has the same token, and a publisher may have looked at main since: only a commit of this call counts."""
    world = landed()
    before = moved(world)
    world.table.next_answer = Answer.LOST
    assert moved(world) != before


def test_lost_answer_of_a_first_commit_is_found_on_main() -> None:
    """Main is moved once."""
    world = landed()
    commits = len(world.table.commits())
    world.table.next_answer = Answer.LOST_LANDED
    moved(world)
    assert len(world.table.commits()) == commits + 1


def test_table_that_refuses_for_good_is_named() -> None:
    """No try is made again on another table than the one that was checked."""
    world = landed()
    world.table.next_rejection = Requirement.TABLE_UUID
    with pytest.raises(IdentityError, match=r"main of raw\.orders cannot be moved: another table"):
        moved(world)
