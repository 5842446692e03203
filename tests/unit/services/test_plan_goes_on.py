"""One topic or table that cannot be planned stops nothing but itself (law L13): it is named, and the others go on."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.core.errors import IdentityError, PipelineFileError, UnavailableError, UnknownTopicError
from airflow_kafka_lake.core.ledger.waves import RangeState, WaveState
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.spec import Policy, PolicyKind
from tests.world import World

pytestmark = pytest.mark.unit


@pytest.fixture
def two() -> World:
    """Topics `orders` and `payments`, each with a table of its own and three records."""
    world = World()
    world.create("payments")
    world.with_spec(topics=("orders", "payments"), table="raw.{topic}")
    for topic in ("orders", "payments"):
        world.produce(3, topic=topic)
    return world


def landed(world: World, topic: str) -> list[int]:
    """Return the offsets of a topic that a reader of its table sees."""
    table = world.lake.table(world.spec.table_for(topic))
    return sorted(row.offset for row in table.rows() if row.topic == topic)


def refuse_alone(world: World, topic: str, error: type[Exception]) -> None:
    """Asked for by itself, what is blocked is refused with its own error."""
    with pytest.raises(error):
        world.plan(Bounds(topic=topic))


def test_deleted_topic_of_the_list_is_blocked(two: World) -> None:
    """It is named in every run until it leaves the pipeline; the other topic lands what comes."""
    two.run()
    two.kafka.delete_topic("payments")
    two.produce(2)
    done = two.run()
    assert (done.exit_code, landed(two, "orders")) == (1, [0, 1, 2, 3, 4])
    (named,) = done.held
    assert named.startswith("payments: Kafka has no topic 'payments'")
    refuse_alone(two, "payments", UnknownTopicError)
    assert two.plan(Bounds(topic="orders")).blocked == ()


def test_topic_in_doubt_is_blocked(two: World) -> None:
    """What the brokers do not agree about is not planned now, and nothing is said of the others."""
    two.kafka.doubtful.add("payments")
    done = two.run()
    assert (done.exit_code, landed(two, "orders")) == (1, [0, 1, 2])
    assert done.held[0].startswith("payments: The brokers do not agree about")
    refuse_alone(two, "payments", UnavailableError)
    two.kafka.doubtful.clear()
    assert (two.run().exit_code, landed(two, "payments")) == (0, [0, 1, 2])


def test_topic_whose_table_would_be_anothers_receipts_is_blocked(two: World) -> None:
    """A pattern finds it; the topics beside it are read."""
    two.create("orders_receipts")
    two.produce(3, topic="orders_receipts")
    two.with_spec(topics=(), topic_pattern="orders.*")
    done = two.run()
    assert (done.exit_code, landed(two, "orders")) == (1, [0, 1, 2])
    (named,) = done.held
    assert named.startswith("orders_receipts: it would land in table raw.orders__receipts, ")
    assert two.ledger.streams("orders", topic="orders_receipts") == ()
    refuse_alone(two, "orders_receipts", PipelineFileError)


def test_rolled_back_table_blocks_the_topics_that_land_in_it(two: World) -> None:
    """Also a re-created one; the tables beside it go on, and all of it is read again once a person has decided."""
    table = two.lake.table("raw.payments")
    two.run()
    before = table.head().snapshot
    two.produce(2, topic="payments")
    two.run()
    table.roll_back(before)
    for number in (1, 2):
        for topic in ("orders", "payments"):
            two.produce(1, topic=topic)
        done = two.run()
        assert (done.exit_code, done.problems, landed(two, "orders")) == (1, (), list(range(3 + number)))
        (named,) = done.held
        assert named.startswith("payments: table raw.payments was rolled back")
        assert "rebuild orders --accept-rollback" in named
    assert landed(two, "payments") == [0, 1, 2]
    refuse_alone(two, "payments", IdentityError)
    table.recreate()
    (blocked,) = two.plan(dry_run=True).blocked
    assert (blocked.topic, blocked.partition) == ("payments", None)
    assert "raw.payments was re-created" in blocked.reason


def test_partition_without_a_group_offset_is_blocked() -> None:
    """A topic that its group has not read yet does not keep the group's other topics waiting."""
    world = World()
    world.create("payments")
    live = Policy(kind=PolicyKind.GROUP, group="live")
    world.with_spec(topics=("orders", "payments"), start=live)
    for topic in ("orders", "payments"):
        world.produce(3, topic=topic)
    world.kafka.commit_group("live", "orders", 0, 1)
    done = world.run()
    assert (done.exit_code, landed(world, "orders")) == (1, [1, 2])
    assert done.held[0].startswith("payments/0: group 'live' on payments partition 0 has no committed offset")
    assert world.ledger.streams("orders", topic="payments") == ()


def test_known_topic_that_a_list_leaves_out_is_read(two: World) -> None:
    """A pattern's list lacks what we may not see: a topic that was read before is asked for by its name."""
    two.with_spec(topics=(), topic_pattern="orders|payments")
    two.run()
    two.produce(2, topic="payments")
    two.kafka.unlisted.add("payments")
    assert two.run().exit_code == 0
    assert landed(two, "payments") == [0, 1, 2, 3, 4]
    two.kafka.delete_topic("payments")
    assert two.run().exit_code == 0, "it is gone, and all of it was read"


def test_known_topic_that_the_pattern_no_longer_means_is_left_alone(two: World) -> None:
    """The pipeline file says which topics are read, now."""
    two.with_spec(topics=(), topic_pattern="orders|payments")
    two.run()
    two.with_spec(topic_pattern="orders")
    two.produce(2, topic="payments")
    assert two.run().exit_code == 0
    assert landed(two, "payments") == [0, 1, 2]


def test_topic_in_doubt_goes_on_in_a_wave_of_its_own(two: World) -> None:
    """Planned together into one table, the other topic's ranges land in the same run; nothing is held."""
    two.with_spec(table="raw.orders", leader_wait=0)
    wave = two.planned_wave()
    two.kafka.doubtful.add("payments")
    assert two.ingest(wave).state is WaveState.COMMITTED
    assert two.ledger.ranges(pipeline="orders", states=(RangeState.HELD,)) == ()
    assert (landed(two, "orders"), landed(two, "payments")) == ([0, 1, 2], [])
    assert {item.stream.topic for item in two.ledger.ranges(wave=wave)} == {"orders"}
    two.kafka.doubtful.clear()
    assert (two.run().exit_code, landed(two, "payments")) == (0, [0, 1, 2])
