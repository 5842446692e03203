"""Order over layouts on a real broker: expansions, a migration, a producer that learns late."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_kafka_lake.local.kafka import LocalKafka
from tests.rig import Rig
from tests.stories import Stories


@pytest.fixture
def stories(kafka: LocalKafka, spark_jars: list[Path], tmp_path: Path) -> Stories:
    """A topic of three partitions whose layouts commit at once."""
    rig = Rig(tmp_path / "place", kafka.bootstrap, partitions=3)
    rig.write_pipeline(source='layout_grace = "0 s"')
    return Stories(rig)


def test_every_story_keeps_its_order_over_two_expansions(stories: Stories) -> None:
    """From 3 to 4 to 8 partitions, read in one run: commit and offset give each key its values as they were written."""
    rig = stories.rig
    stories.tell(20)
    assert rig.command("plan", str(rig.file), "--json").code == 0
    for partitions in (4, 8):
        stories.tell(5)
        stories.expand(partitions)
        assert rig.command("plan", str(rig.file), "--json").code == 0
        stories.tell(20)
    done = rig.run()
    assert done.code == 0, done.err
    rig.assert_exact()
    assert stories.read() == stories.written
    segments = rig.command("segments", rig.name, "--json", "--svg", str(rig.home / "s.svg")).document
    assert sum(len(stream["segments"]) for stream in segments["streams"]) == 3 + 4 + 8
    assert [stream["blocked_by"] for stream in segments["streams"]] == [[]] * 8
    assert (rig.home / "s.svg").read_text().count("<rect") == 15
    audit = rig.command("audit", rig.name, "--json")
    assert (audit.code, audit.document["ok"]) == (0, True)


def test_child_is_not_published_before_a_cancelled_range_of_its_parent(stories: Stories) -> None:
    """The new partition stays empty until the parent's range is released, and status says why."""
    rig = stories.rig
    stories.tell(10)
    planned = rig.command("plan", str(rig.file), "--json").document
    stories.expand(4)
    assert rig.command("plan", str(rig.file), "--json").code == 0
    stories.tell(10)
    (wave,) = [item["wave"] for item in planned["waves"]]
    ranges = rig.command("wave", wave, "--json").document["ranges"]
    (held,) = [item["range"] for item in ranges if item["partition"] == 1]
    assert rig.command("cancel", held, "--reason", "look first").code == 0
    done = rig.run()
    assert done.code == 1, done.err
    assert {partition for partition, _, _ in rig.rows()} == {0, 2}
    waves = rig.command("status", rig.name, "--json").document["waves"]
    child = next(item["wave"] for item in waves if item["state"] == "PLANNED")
    refused = rig.command("ingest", child, "--json")
    assert (refused.code, refused.document["error"]["type"]) == (3, "GateClosedError")
    status = rig.command("status", rig.name, "--topic", rig.topic, "--partition", "3", "--json").document
    assert (
        f"cancelled: look first. Lead it out with: kafka-lake release {held}" in status["streams"][0]["blocked_by"][0]
    )
    assert rig.command("release", held).code == 0
    assert rig.run().code == 0
    rig.assert_exact()
    assert stories.read() == stories.written


def test_late_producer_loses_nothing_but_its_place(stories: Stories) -> None:
    """What is written to an old partition after its seal is read, in the segment that continues the old one."""
    rig = stories.rig
    stories.tell(5)
    assert rig.run().code == 0
    stories.expand(4)
    assert rig.run().code == 0
    key = stories.keys[0]
    late = stories.tell_late(key, 0)
    assert rig.run().code == 0
    rig.assert_exact()
    assert late in stories.read()[key]
    segments = rig.command("segments", rig.name, "--json").document["streams"][0]["segments"]
    (_, offset) = next(place for place, value in rig.acknowledged.items() if value == late)
    assert segments[1]["start"] <= offset


def test_migrated_topic_waits_for_the_last_marker_of_the_old_one(
    kafka: LocalKafka, spark_jars: list[Path], tmp_path: Path
) -> None:
    """The new topic starts when the old one is drained to its seals, of which one is the end of a transaction."""
    rig = Rig(tmp_path / "place", kafka.bootstrap)
    old, new = rig.topic, f"{rig.topic}-v2"
    rig.create_topic(new, 1)
    text = rig.file.read_text().replace(f'topics = ["{old}"]', f'topics = ["{old}", "{new}"]\nlayout_grace = "0 s"')
    rig.file.write_text(text)
    rig.produce(40)
    rig.transaction(18, commit=True)
    rig.produce(10, topic=new, partitions=1)
    seals = rig.home / "seals.json"
    seals.write_text(json.dumps({old: {"0": 29, "1": 30}}))
    wrong = rig.command("migrate", rig.name, "--from-topic", old, "--to-topic", new, "--seal", str(seals))
    assert wrong.code == 1
    first = rig.run("--topic", old, "--to", "20")
    assert first.code == 0, first.err
    refused = rig.command("migrate", rig.name, "--from-topic", old, "--to-topic", new, "--seal", str(seals), "--json")
    assert (refused.code, refused.document["error"]["type"]) == (1, "StateError")
    seals.write_text(json.dumps({old: {"0": 30, "1": 30}}))
    assert rig.command("migrate", rig.name, "--from-topic", old, "--to-topic", new, "--seal", str(seals)).code == 0
    waiting = rig.run("--topic", new)
    assert waiting.code == 3, waiting.err
    assert waiting.document["problems"][0]["type"] == "GateClosedError"
    assert len(rig.rows()) == 40
    done = rig.run()
    assert done.code == 0, done.err
    assert sum(rig.rows().values()) == 40 + 18 + 10
