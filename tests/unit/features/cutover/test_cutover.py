"""The cutover with a live stream, from the plan that froze it to the audit that judges it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_lake.core.errors import UnknownSubjectError, UsageError
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.spec import Policy, PolicyKind
from airflow_kafka_lake.services import decisions, pipeline_audit
from airflow_kafka_lake.services.cutover import CutoverCheck
from tests.kit.memory_lake import Row
from tests.world import SPEC, World

pytestmark = pytest.mark.unit

LIVE = "live.orders"


@pytest.fixture
def world() -> World:
    """A pipeline that ends where the group `live` has committed: at 4 of 6 records when it was planned."""
    world = World(spec=replace(SPEC, end=Policy(kind=PolicyKind.GROUP, group="live")))
    world.produce(6)
    world.kafka.commit_group("live", "orders", 0, 4)
    wave = world.planned_wave()
    world.kafka.commit_group("live", "orders", 0, 6)
    world.ingest(wave)
    world.advance()
    world.lake.table(LIVE).ensure("")
    return world


def write(world: World, *offsets: int, topic: str = "orders") -> None:
    rows = [
        Row(topic=topic, topic_id="whatever", partition=0, offset=offset, key=None, value=b"", attempt="")
        for offset in offsets
    ]
    world.lake.table(LIVE).write_foreign([*world.lake.table(LIVE)._store.rows(), *rows])


def cutover(world: World, columns: str | None = None) -> dict[str, Any]:
    return pipeline_audit.audit(
        world.worker(), world.spec, checks=(CutoverCheck(table=LIVE, columns=columns),)
    ).to_json()


def test_a_plan_freezes_the_cutover(world: World) -> None:
    """What the group commits after the plan is the live stream's."""
    assert world.offsets() == [0, 1, 2, 3]
    write(world, 4, 5)
    document = cutover(world)
    assert (document["ok"], document["cutover"]["ok"]) == (True, True)
    assert (document["cutover"]["streams"][0]["at"], document["cutover"]["streams"][0]["live_from"]) == (4, 4)


def test_a_group_that_went_on_without_a_row_has_lost_records(world: World) -> None:
    """The consumer has said that it is done with them, and its table has none."""
    (finding,) = cutover(world)["findings"]
    assert (finding["kind"], finding["offsets"]) == ("cutover-missing", [[4, 6]])


@pytest.mark.parametrize("is_skipped", [False, True])
def test_rows_of_a_slice_that_is_to_be_read_again_or_was_skipped_are_in_both(world: World, is_skipped: bool) -> None:
    """They are visible until the second reading, and for good where there is none."""
    world.reopen(2, 4)
    if is_skipped:
        passed = OffsetRange(2, 4)
        decisions.skip(world.worker(), "orders", world.stream(), passed, reason="no", acknowledge_order=True)
        world.watermarks.clear()
    write(world, 2, 3, 4, 5)
    document = cutover(world)
    assert (document["ok"], document["cutover"]["streams"][0]["twice"]) == (False, [[2, 4]])


def test_another_topics_rows_are_not_looked_at(world: World) -> None:
    """A live stream may write several topics into one table."""
    write(world, 0, 1, topic="payments")
    write(world, 4, 5)
    assert cutover(world)["ok"]


def test_rows_that_the_live_stream_wrote_twice_are_told(world: World) -> None:
    """They are its own affair, and no finding of the cutover."""
    write(world, 4, 5, 5)
    document = cutover(world)
    assert document["ok"]
    assert "orders/0: the live stream has 1 row twice" in document["cutover"]["lines"]


def test_a_generation_that_is_gone_is_not_judged(world: World) -> None:
    """A live table has no topic ids: its rows are the present generation's."""
    world.create("orders")
    document = cutover(world)
    assert document["cutover"]["streams"] == []
    assert "not judged: gone: the topic was created anew" in document["cutover"]["lines"][0]


def test_a_table_that_is_not_there_is_refused(world: World) -> None:
    """A typing error must not look like a live stream without rows."""
    with pytest.raises(UnknownSubjectError):
        pipeline_audit.audit(world.worker(), world.spec, checks=(CutoverCheck(table="live.order"),))


def test_columns_that_cannot_be_read_are_refused(world: World) -> None:
    """In words."""
    with pytest.raises(UsageError, match="topic=COLUMN,partition=COLUMN,offset=COLUMN"):
        cutover(world, "offsets=x")


def test_cutover_that_cannot_be_judged_is_not_called_sound(world: World) -> None:
    """No row of the live stream, and nothing that its group has done: nothing is known of what will be missing."""
    world.kafka.commit_group("live", "orders", 0, 4)
    document = cutover(world)
    said = document["cutover"]["sentence"]
    assert (document["ok"], document["cutover"]["ok"], document["problems"]) == (False, False, [said])
    assert said == "no cutover with live.orders could be judged: of 1 partition nothing can be told yet"
    world.create("orders")
    assert cutover(world)["cutover"]["sentence"] == said


def test_cutover_of_one_partition_says_nothing_of_another() -> None:
    """It fails where the live stream has not begun and Kafka has more; where Kafka has no more, all is there."""
    world = World(partitions=2, spec=replace(SPEC, end=Policy(kind=PolicyKind.GROUP, group="live")))
    for partition in (0, 1):
        world.produce(6, partition)
        world.kafka.commit_group("live", "orders", partition, 4 + partition * 2)
    world.run()
    world.lake.table(LIVE).ensure("")
    write(world, 4, 5)
    quiet = cutover(world)
    assert (quiet["ok"], quiet["cutover"]["sentence"]) == (
        True,
        "1 cutover with live.orders: nothing is missing and nothing is twice",
    )
    world.produce(1, 1)
    document = cutover(world)
    assert (document["ok"], [item["kind"] for item in document["findings"]]) == (False, ["not-judged"])
    assert document["problems"] == [
        "1 cutover with live.orders: nothing is missing and nothing is twice; 1 partition could not be judged yet"
    ]


def test_sentence_says_what_the_live_stream_has_twice(world: World) -> None:
    """It is no finding of the cutover, and "nothing is twice" would be untrue of that table."""
    write(world, 4, 5, 5)
    said = cutover(world)["cutover"]["sentence"]
    assert said == (
        "1 cutover with live.orders: nothing is missing and nothing is in both; 1 row is twice in live.orders itself"
    )


def test_partition_that_no_plan_has_seen_is_not_judged(world: World) -> None:
    """Its records are in neither table, whatever the live stream's group says."""
    write(world, 4, 5)
    world.kafka.add_partitions("orders", 2)
    assert cutover(world)["ok"]
    world.produce(10, 1)
    world.kafka.commit_group("live", "orders", 1, 10)
    document = cutover(world)
    assert (document["ok"], document["cutover"]["lines"][-1]) == (False, "orders/1: not judged: no plan has seen it")
    assert document["problems"][0].endswith("; 1 partition could not be judged yet")


def test_marker_that_the_live_group_has_passed_proves_nothing() -> None:
    """The group commits behind the marker of each transaction, also where no row was written yet."""
    world = World(spec=replace(SPEC, end=Policy(kind=PolicyKind.GROUP, group="live")))
    world.produce(4, transaction="t")
    world.end("t")
    world.kafka.commit_group("live", "orders", 0, 4)
    world.run()
    world.produce(50)
    world.lake.table(LIVE).ensure("")
    world.kafka.commit_group("live", "orders", 0, 5)
    assert [item["kind"] for item in cutover(world)["findings"]] == ["not-judged"]


def test_topic_that_is_gone_is_told_beside_a_sound_cutover() -> None:
    """It cannot be judged any more: the others are judged, and the sentence names it."""
    spec = replace(SPEC, topics=("orders", "other"), end=Policy(kind=PolicyKind.GROUP, group="live"))
    world = World(spec=spec)
    world.create("other")
    for topic in spec.topics:
        world.produce(6, topic=topic)
        world.kafka.commit_group("live", topic, 0, 4)
    world.run()
    world.lake.table(LIVE).ensure("")
    write(world, 4, 5)
    world.kafka.delete_topic("other")
    document = cutover(world)
    said = "1 cutover with live.orders: nothing is missing and nothing is twice"
    assert document["ok"]
    assert document["cutover"]["sentence"] == f"{said}; Kafka has nothing of 1 partition any more"
