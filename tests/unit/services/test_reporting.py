"""How far are we, what blocks, and is anything missing or twice?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_lake.core.errors import UnknownSubjectError
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.services import decisions, pipeline_audit, reporting
from airflow_kafka_lake.services.identity import known_spec
from tests.world import World

pytestmark = pytest.mark.unit


@pytest.fixture
def landed(world: World) -> World:
    """A world with five committed offsets, one of them a marker."""
    world.produce(2)
    world.produce(2, transaction="t")
    world.end("t")
    world.run()
    return world


def status(world: World, **subject: Any) -> dict[str, Any]:
    """Return the status document."""
    return reporting.status(world.worker(), world.spec, **subject).to_json()


def audit(world: World) -> dict[str, Any]:
    """Return the audit document."""
    return pipeline_audit.audit(world.worker(), world.spec).to_json()


def change_rows(world: World, change: Any) -> None:
    """Let another program edit the table's rows."""
    store = world.table._store
    commit = store.commits[store.refs["main"]]
    store.commits[commit.id] = replace(commit, rows=tuple(change(commit.rows)))


def change_stream(world: World, **changes: Any) -> None:
    """Let another program edit the ledger's stream."""
    draft = world.ledger.snapshot()
    draft.streams = {key: replace(row, **changes) for key, row in draft.streams.items()}
    world.ledger.restore(draft)


def test_status_tells_how_far_and_what_is_left(landed: World) -> None:
    """Watermark, bounds, lag, coverage."""
    landed.produce(3)
    (stream,) = status(landed)["streams"]
    assert (stream["origin"], stream["watermark"], stream["hold"]) == (0, 5, None)
    assert (stream["last_stable"], stream["lag"], stream["coverage"]) == (8, 3, [[0, 5]])
    assert stream["bounds_state"] == "observed"
    assert [wave["state"] for wave in status(landed)["waves"]] == ["COMMITTED"]


def test_status_with_the_broker_down_says_unknown(landed: World) -> None:
    """Nothing unknown is printed as a number; the ledger's facts are all there."""
    landed.kafka.down = True
    (stream,) = status(landed)["streams"]
    unknown = ("log_start", "last_stable", "high_watermark", "lag", "group_offset")
    assert [stream[name] for name in unknown] == [None] * 5
    assert stream["bounds_state"].startswith("unknown: Kafka in memory is down")
    assert stream["group_offset_state"] == "unknown"
    assert stream["watermark"] == 5


def test_status_of_one_unreachable_partition() -> None:
    """The others are observed."""
    world = World(partitions=2)
    world.produce(1, 0)
    world.produce(1, 1)
    world.run()
    world.kafka.log("orders", 1).unreachable = "no leader"
    assert [item["bounds_state"] for item in status(world)["streams"]] == ["observed", "unknown: no leader"]


def test_status_of_topics_that_are_gone(landed: World) -> None:
    """Deleted and re-created are two things; the new generation is no longer the old stream."""
    landed.kafka.delete_topic("orders")
    (stream,) = status(landed)["streams"]
    assert stream["last_stable"] is None
    assert "no topic of the pipeline exists" in stream["bounds_state"]
    landed.create("orders")
    (stream,) = status(landed)["streams"]
    assert stream["bounds_state"] == "gone: the topic was created anew; what came after the last look is unknown"


def test_status_names_what_blocks_and_the_way_out(landed: World) -> None:
    """A hold is the smallest unresolved start, and its reason names the command."""
    landed.produce(4)
    landed.run(Bounds(start=7, end=9))
    wave = landed.planned_wave()
    decisions.cancel(landed.worker(), wave, "not now")
    (stream,) = status(landed)["streams"]
    assert (stream["watermark"], stream["hold"], stream["coverage"]) == (5, 5, [[0, 5], [7, 9]])
    assert "range 5-7 cancelled: not now" in stream["blocked_by"][0]
    assert "kafka-lake release" in stream["blocked_by"][0]


def test_status_of_a_part() -> None:
    """Topic and partitions narrow the streams."""
    world = World(partitions=3)
    world.produce(1, 0)
    world.run()
    assert [item["partition"] for item in status(world, topic="orders", partitions=[0, 2])["streams"]] == [0, 2]


@pytest.mark.parametrize(
    ("subject", "says"),
    [
        (
            {"topic": "ordres"},
            r"no stream of topic 'ordres': it has orders; did you mean 'orders'\? See: kafka",
        ),
        ({"topic": "orders", "partitions": [0, 7]}, "no stream orders/7: it has 0 to 1"),
        ({"partitions": [7]}, "no stream of partition 7: it has 0 to 1"),
    ],
    ids=str,
)
def test_status_of_what_is_not_there_is_refused(subject: dict[str, Any], says: str) -> None:
    """A typing error must not look like a stream without trouble."""
    world = World(partitions=2)
    world.plan()
    with pytest.raises(UnknownSubjectError, match=says):
        status(world, **subject)


def test_wave_document_tells_everything_of_a_wave(landed: World) -> None:
    """Ranges with their accounting, attempts with their ends, the published snapshot."""
    (record,) = landed.ledger.waves("orders")
    document = reporting.wave(landed.ledger, record.id).to_json()
    assert document["snapshot_id"] == str(landed.table.head().snapshot)
    (item,) = document["ranges"]
    assert (item["start"], item["end"], item["rows"], item["state"]) == (0, 5, 4, "COMMITTED")
    assert item["accounting"]["control"] == 1
    assert [attempt["outcome"] for attempt in document["attempts"]] == ["committed"]


def test_unknown_pipeline_is_answered_with_the_known_ones(landed: World) -> None:
    """A typing error costs one look."""
    with pytest.raises(UnknownSubjectError, match="it knows: orders"):
        known_spec(landed.ledger, "oders")
    assert known_spec(landed.ledger, "orders") == landed.spec


def test_audit_of_a_sound_world_is_ok(landed: World) -> None:
    """Every committed offset is accounted for and every row is where it should be; skips included."""
    landed.produce(4)
    slice_ = OffsetRange(6, 7)
    decisions.skip(landed.worker(), "orders", landed.stream(), slice_, reason="bad", acknowledge_order=False)
    landed.run()
    document = audit(landed)
    assert (document["ok"], document["problems"]) == (True, [])
    (stream,) = document["streams"]
    assert (stream["rows"], stream["duplicates"], stream["missing"], stream["problems"]) == (7, 0, 0, [])
    assert stream["accounting"]["visible"] == 7
    assert (stream["accounting"]["control"], stream["accounting"]["skipped"]) == (1, 1)


def test_audit_finds_a_missing_row(landed: World) -> None:
    """Counted in the table itself, not in the ledger."""
    change_rows(landed, lambda rows: rows[1:])
    document = audit(landed)
    assert not document["ok"]
    assert document["streams"][0]["missing"] == 1
    assert "3 rows are in the table, 4 were published" in document["streams"][0]["problems"][0]


def test_audit_finds_a_duplicate(landed: World) -> None:
    """A row that is there twice is named as such."""
    change_rows(landed, lambda rows: [*rows, rows[0]])
    document = audit(landed)
    assert not document["ok"]
    assert (document["streams"][0]["duplicates"], document["streams"][0]["rows"]) == (1, 5)


def test_audit_finds_a_stray(landed: World) -> None:
    """A row at an offset that no committed range has."""
    change_rows(landed, lambda rows: [*rows, replace(rows[0], offset=77)])
    document = audit(landed)
    assert not document["ok"]
    assert "rows at 77-78 belong to no committed range" in document["streams"][0]["problems"][0]


def test_audit_finds_an_edited_watermark(landed: World) -> None:
    """A watermark ahead of what is committed was not moved by us."""
    change_stream(landed, watermark=9)
    document = audit(landed)
    assert not document["ok"]
    assert "the watermark 9 is ahead of what is committed: 5" in document["streams"][0]["problems"]


def test_audit_finds_rows_of_a_skipped_range(landed: World) -> None:
    """What was passed unread must not be visible."""
    landed.produce(1)
    slice_ = OffsetRange(5, 6)
    decisions.skip(landed.worker(), "orders", landed.stream(), slice_, reason="bad", acknowledge_order=False)
    landed.advance()
    change_rows(landed, lambda rows: [*rows, replace(rows[0], offset=5)])
    assert "range 5-6 is skipped and has 1 row" in audit(landed)["streams"][0]["problems"]


def test_audit_of_a_table_that_was_rolled_back(landed: World) -> None:
    """What a rollback took away is missing."""
    before = landed.table.head().snapshot
    landed.produce(2)
    landed.run()
    landed.table.roll_back(before)
    document = audit(landed)
    assert not document["ok"]
    assert document["streams"][0]["missing"] == 2


def test_audit_of_a_table_that_is_another_one(landed: World) -> None:
    """Identity first: nothing is compared with a stranger."""
    landed.table.recreate()
    document = audit(landed)
    assert not document["ok"]
    assert "was re-created" in document["problems"][0]


def test_segments_name_their_stream_by_the_id_of_its_topic(landed: World) -> None:
    """A topic that was made anew has the same name: programs tell the two by the id."""
    document = reporting.segments(landed.ledger, landed.spec).to_json()
    assert document["pipeline"] == "orders"
    (stream,) = document["streams"]
    assert (stream["topic"], stream["topic_id"], stream["partition"]) == tuple(landed.key())
    assert stream.keys() == {"topic", "topic_id", "partition", "segments", "blocked_by"}
    assert stream["blocked_by"] == []
