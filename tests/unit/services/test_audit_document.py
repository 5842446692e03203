"""What an audit says: the sentence, the numbers, the strip, a part of the streams."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_kafka_lake.core.errors import UnknownSubjectError
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Stream
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.planning.selection import StreamScope
from airflow_kafka_lake.jobs.compare import NOTHING
from airflow_kafka_lake.services import decisions, pipeline_audit
from airflow_kafka_lake.services.deep_audit import ComparedStream, Deep
from tests.world import SPEC, World

pytestmark = pytest.mark.unit


def audit(world: World, **words: Any) -> dict[str, Any]:
    return pipeline_audit.audit(world.worker(), world.spec, **words).to_json()


def change_rows(world: World, change: Any) -> None:
    """Let another program edit the table's rows."""
    store = world.table._store
    commit = store.commits[store.refs["main"]]
    store.commits[commit.id] = replace(commit, rows=tuple(change(commit.rows)))


@pytest.fixture
def world() -> World:
    """Offsets 0-3: rows and a marker; 3-5: an aborted record and its marker; 5-7: skipped; 7-9: rows."""
    world = World()
    world.produce(2, transaction="a")
    world.end("a")
    world.produce(1, transaction="b")
    world.end("b", commit=False)
    world.run()
    world.produce(4)
    skipped = OffsetRange(5, 7)
    decisions.skip(world.worker(), "orders", world.stream(), skipped, reason="bad", acknowledge_order=False)
    world.run()
    return world


def test_the_sentence_names_every_offset(world: World) -> None:
    """Of so many offsets so many are visible, and so on, and none is unexplained; the totals say the same."""
    document = audit(world)
    (stream,) = document["streams"]
    words = "4 visible, 2 markers, 1 aborted, 0 compacted, 2 skipped, 0 unexplained"
    assert stream["sentence"] == f"of [0, 9): {words}"
    assert document["totals"]["sentence"] == f"of 9 offsets of 1 partition: {words}"
    assert sum(stream["accounting"].values()) == stream["span"] == document["totals"]["span"] == 9


def test_a_missing_row_is_unexplained(world: World) -> None:
    """The sentence says what is in the table, not what the ledger remembers."""
    change_rows(world, lambda rows: rows[1:])
    (stream,) = audit(world)["streams"]
    assert stream["sentence"].startswith("of [0, 9): 3 visible, ")
    assert stream["sentence"].endswith("2 skipped, 1 unexplained")
    assert sum(stream["accounting"].values()) == 9


def test_islands_are_named_and_many_are_counted() -> None:
    """Up to three slices by their ends."""
    world = World()
    world.produce(20)
    for start in range(1, 7, 2):
        world.run(Bounds(start=start, end=start + 1))
    assert audit(world)["streams"][0]["sentence"].startswith("of [1, 2) and [3, 4) and [5, 6): 3 visible")
    world.run(Bounds(start=11, end=12))
    assert audit(world)["streams"][0]["sentence"].startswith("of 4 offsets in 4 ranges of [1, 12): 4 visible")


def test_a_stream_of_which_nothing_is_committed_says_so() -> None:
    """No numbers about nothing."""
    world = World()
    world.produce(1)
    world.plan()
    assert audit(world)["streams"][0]["sentence"] == "nothing is committed yet"


def test_cleaned_offsets_come_with_what_they_mean() -> None:
    """A cleaned record cannot be told from a lost one: the report says so where any was counted."""
    world = World()
    world.kafka.delete_topic("orders")
    world.topic_ids["orders"] = world.kafka.create_topic("orders", 1, cleanup_policy="compact")
    world.produce(4)
    world.kafka.log("orders", 0).remove([1, 2])
    world.run()
    (stream,) = audit(world)["streams"]
    assert stream["accounting"]["compacted"] == 2
    (note,) = stream["notes"]
    assert note.startswith("2 offsets have no record because Kafka's cleaner compacts the topic")
    assert note.endswith("a cleaned record cannot be told from a lost one")


def test_the_timeline_shows_what_kafka_has_when_it_is_asked(world: World) -> None:
    """Without asking, nothing is said of what is not planned; a Kafka that is down is no finding."""
    world.produce(3)
    (stream,) = audit(world)["streams"]
    assert [(p["from"], p["to"], p["status"]) for p in stream["timeline"]] == [
        (0, 5, "committed"),
        (5, 7, "skipped"),
        (7, 9, "committed"),
    ]
    assert stream["bounds_state"].startswith("not asked")
    (stream,) = audit(world, ask_kafka=True)["streams"]
    assert stream["timeline"][-1] == {"from": 9, "to": 12, "status": "unread", "message": ""}
    assert (stream["log_start"], stream["readable_end"], stream["bounds_state"]) == (0, 12, "observed")
    world.kafka.down = True
    document = audit(world, ask_kafka=True)
    assert document["ok"]
    assert document["streams"][0]["bounds_state"].startswith("unknown: ")


def test_seals_are_marked_in_the_timeline_they_end() -> None:
    """The layout of the topic ended there; an open segment has no mark."""
    world = World(partitions=2)
    world.produce(3, 0)
    world.run()
    world.kafka.add_partitions("orders", 3)
    world.run()
    world.clock.advance(timedelta(days=1))
    world.run()
    assert [stream["seals"] for stream in audit(world)["streams"]] == [[3], [], []]


def test_a_watermark_at_the_end_of_no_range_was_edited(world: World) -> None:
    """Behind what is committed too: whatever we do moves it from one end of a range to another."""
    draft = world.ledger.snapshot()
    draft.streams = {key: replace(row, watermark=8) for key, row in draft.streams.items()}
    world.ledger.restore(draft)
    (finding,) = audit(world)["findings"]
    assert (finding["kind"], finding["partition"]) == ("watermark-back", 0)
    assert "at the end of no range" in finding["message"]


def test_rows_moved_beyond_their_neighbours_are_found(world: World) -> None:
    """As many rows as before, and not where they were published."""
    change_rows(world, lambda rows: [replace(r, offset=2) if r.offset == 0 else r for r in rows])
    (finding,) = audit(world)["findings"]
    assert finding["kind"] == "inconsistent"
    assert "its rows are at 1 to 2, published were 0 to 1" in finding["message"]


@pytest.fixture
def two_topics() -> World:
    """Two topics with a table each, two partitions each, everything committed; and each has lost a row."""
    world = World(partitions=2, spec=replace(SPEC, topics=("orders", "payments"), table="raw.{topic}"))
    world.create("payments", 2)
    for topic in ("orders", "payments"):
        for partition in range(2):
            world.produce(3, partition, topic=topic)
    world.run()
    for topic in ("orders", "payments"):
        table = world.lake.table(f"raw.{topic}")
        store = table._store
        head = store.commits[store.refs["main"]]
        store.commits[head.id] = replace(head, rows=head.rows[1:])
    return world


def test_a_part_is_audited_alone(two_topics: World) -> None:
    """Streams, numbers and findings of the rest are left out."""
    assert len(audit(two_topics)["findings"]) == 2
    document = audit(two_topics, scope=StreamScope(topic="payments"))
    assert [(s["topic"], s["partition"]) for s in document["streams"]] == [("payments", 0), ("payments", 1)]
    assert [(f["topic"], f["partition"]) for f in document["findings"]] == [("payments", 0)]
    assert (document["ok"], document["totals"]["rows"]) == (False, 5)
    sound = audit(two_topics, scope=StreamScope(topic="payments", partitions=frozenset({1})))
    assert (sound["ok"], len(sound["streams"]), sound["findings"]) == (True, 1, [])


def test_a_part_that_is_not_there_is_refused(two_topics: World) -> None:
    """A typing error must not look like a sound stream."""
    with pytest.raises(UnknownSubjectError, match="no stream of topic 'payment': it has orders, payments; did you"):
        audit(two_topics, scope=StreamScope(topic="payment"))


def test_lines_of_a_check_that_are_not_shown_are_counted(world: World) -> None:
    """Of a thousand partitions those that could not be compared may be the last ones; the sentence stays the first."""
    stream = ComparedStream(
        stream=Stream("orders", "A" * 22, 0), offsets=0, left_out=RangeSet.between(0, 5), why="gone"
    )
    deep = Deep(comparison=NOTHING, streams=(stream,) * 3, compacted=frozenset())
    report = replace(pipeline_audit.audit(world.worker(), world.spec), checks={"deep": deep})
    assert list(report.check_lines(1)) == [
        "nothing was compared with Kafka: 15 committed offsets could not be compared",
        "orders/0: 5 committed offsets could not be compared: gone",
        "… and 2 more lines of that: all of them with --json",
    ]
