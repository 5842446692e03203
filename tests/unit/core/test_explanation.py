"""A plan in lines: the same for the command line and for the log of a task."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.filesize import decimal

from airflow_kafka_lake.core.errors import HeldError
from airflow_kafka_lake.core.planning.plan import PlanBlock
from airflow_kafka_lake.core.planning.selection import WaveChoice
from airflow_kafka_lake.core.reports.plan import (
    PlanSummary,
    heading,
    range_lines,
    remarks,
    size,
)
from tests.world import World

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("number", [0, 1, 16, 999, 1000, 2_549_999, 10**9, 10**15, 10**21])
def test_bytes_are_said_as_everywhere(number: int) -> None:
    """As the command line's library says them."""
    assert size(number) == decimal(number)


def test_dry_run_ends_with_what_it_did_not_do() -> None:
    """Whether anything is to be read or not."""
    world = World()
    assert list(remarks(world.plan(dry_run=True), "a cluster", dry_run=True)) == [
        "nothing to do: everything up to the end policy is planned or landed, in 1 partition",
        "nothing was recorded",
    ]
    blocked = replace(world.plan(dry_run=True), blocked=(PlanBlock(topic="t", partition=1, reason="r"),))
    assert next(iter(remarks(blocked, "a cluster", dry_run=True))).startswith("nothing to do: everything but what is b")
    world.produce(3)
    plan = world.plan(dry_run=True)
    assert heading(plan, dry_run=True) == "dry run of orders: 1 range, 1 wave"
    assert list(remarks(plan, "a cluster", dry_run=True))[-1] == "nothing was recorded"


def test_log_says_how_much_more_there_is_of_one_kind() -> None:
    """A plan may leave out a thousand partitions; the command line names them all."""
    world = World(partitions=3)
    for partition in range(3):
        world.produce(1, partition)
    plan = replace(
        world.plan(dry_run=True), blocked=tuple(PlanBlock(topic="t", partition=i, reason="r") for i in (1, 2, 3))
    )
    assert [line for line in remarks(plan, "x", dry_run=False, most=2) if "blocked" in line or "more" in line] == [
        "blocked: t/1: r",
        "blocked: t/2: r",
        "  and 1 more like the last",
    ]
    assert list(range_lines(plan, most=2))[-1] == "  and 1 more like the last"
    assert sum("blocked" in line for line in remarks(plan, "x", dry_run=False)) == 3
    told = PlanSummary.of(plan, WaveChoice(), recorded=True, dry_run=False)
    with pytest.raises(HeldError, match=r"3 slices were left out of the plan, .* t/1: r; t/2: r; t/3: r"):
        told.refuse_left_out()
