"""Order over layouts on a real broker: expansions, a migration, a producer that learns late."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_kafka_lake.local.kafka import LocalKafka
from tests.keyed_records import KeyedRecords
from tests.sandbox import Sandbox


@pytest.fixture
def keyed(kafka: LocalKafka, spark_jars: list[Path], tmp_path: Path) -> KeyedRecords:
    """A topic of three partitions whose layouts commit at once."""
    sandbox = Sandbox(tmp_path / "place", kafka.bootstrap, partitions=3)
    sandbox.write_pipeline(source='layout_grace = "0 s"')
    return KeyedRecords(sandbox)


def test_every_key_keeps_its_order_over_two_expansions(keyed: KeyedRecords) -> None:
    """From 3 to 4 to 8 partitions, read in one run: commit and offset give each key its values as they were written."""
    sandbox = keyed.sandbox
    keyed.write(20)
    assert sandbox.command("plan", str(sandbox.file), "--json").code == 0
    for partitions in (4, 8):
        keyed.write(5)
        keyed.expand(partitions)
        assert sandbox.command("plan", str(sandbox.file), "--json").code == 0
        keyed.write(20)
    done = sandbox.run()
    assert done.code == 0, done.err
    sandbox.assert_exact()
    assert keyed.read() == keyed.written
    segments = sandbox.command("segments", sandbox.name, "--json", "--svg", str(sandbox.home / "s.svg")).document
    assert sum(len(stream["segments"]) for stream in segments["streams"]) == 3 + 4 + 8
    assert [stream["blocked_by"] for stream in segments["streams"]] == [[]] * 8
    assert (sandbox.home / "s.svg").read_text().count("<rect") == 15
    audit = sandbox.command("audit", sandbox.name, "--json")
    assert (audit.code, audit.document["ok"]) == (0, True)


@pytest.mark.nightly  # by day: the decision (unit/services/test_order.py)
def test_child_is_not_published_before_a_cancelled_range_of_its_parent(keyed: KeyedRecords) -> None:
    """The new partition stays empty until the parent's range is released, and status says why."""
    sandbox = keyed.sandbox
    keyed.write(10)
    planned = sandbox.command("plan", str(sandbox.file), "--json").document
    keyed.expand(4)
    assert sandbox.command("plan", str(sandbox.file), "--json").code == 0
    keyed.write(10)
    (wave,) = [item["wave"] for item in planned["waves"]]
    ranges = sandbox.command("wave", wave, "--json").document["ranges"]
    (held,) = [item["range"] for item in ranges if item["partition"] == 1]
    assert sandbox.command("cancel", held, "--reason", "look first").code == 0
    done = sandbox.run()
    assert done.code == 1, done.err
    assert {partition for partition, _, _ in sandbox.rows()} == {0, 2}
    waves = sandbox.command("status", sandbox.name, "--json").document["waves"]
    child = next(item["wave"] for item in waves if item["state"] == "PLANNED")
    refused = sandbox.command("ingest", child, "--json")
    assert (refused.code, refused.document["error"]["type"]) == (3, "GateClosedError")
    status = sandbox.command("status", sandbox.name, "--topic", sandbox.topic, "--partition", "3", "--json").document
    assert f"cancelled: look first. End it with: kafka-lake release {held}" in status["streams"][0]["blocked_by"][0]
    assert sandbox.command("release", held).code == 0
    assert sandbox.run().code == 0
    sandbox.assert_exact()
    assert keyed.read() == keyed.written


@pytest.mark.nightly  # by day: the decisions (unit/services/test_order.py), and layouts that grow, above
def test_late_producer_loses_nothing_but_its_place(keyed: KeyedRecords) -> None:
    """What is written to an old partition after its seal is read, in the segment that continues the old one."""
    sandbox = keyed.sandbox
    keyed.write(5)
    assert sandbox.run().code == 0
    keyed.expand(4)
    assert sandbox.run().code == 0
    key = keyed.keys[0]
    late = keyed.write_late(key, 0)
    assert sandbox.run().code == 0
    sandbox.assert_exact()
    assert late in keyed.read()[key]
    segments = sandbox.command("segments", sandbox.name, "--json").document["streams"][0]["segments"]
    (_, offset) = next(place for place, value in sandbox.acknowledged.items() if value == late)
    assert segments[1]["start"] <= offset


@pytest.mark.nightly  # by day: the decisions (unit/services/test_order.py)
def test_migrated_topic_waits_for_the_last_marker_of_the_old_one(
    kafka: LocalKafka, spark_jars: list[Path], tmp_path: Path
) -> None:
    """The new topic starts when the old one is drained to its seals, of which one is the end of a transaction."""
    sandbox = Sandbox(tmp_path / "place", kafka.bootstrap)
    old, new = sandbox.topic, f"{sandbox.topic}-v2"
    sandbox.create_topic(new, 1)
    text = sandbox.file.read_text().replace(f'topics = ["{old}"]', f'topics = ["{old}", "{new}"]\nlayout_grace = "0 s"')
    sandbox.file.write_text(text)
    sandbox.produce(40)
    sandbox.transaction(18, commit=True)
    sandbox.produce(10, topic=new, partitions=1)
    seals = sandbox.home / "seals.json"
    seals.write_text(json.dumps({old: {"0": 29, "1": 30}}))
    wrong = sandbox.command("migrate", sandbox.name, "--from-topic", old, "--to-topic", new, "--seal", str(seals))
    assert wrong.code == 1
    first = sandbox.run("--topic", old, "--to", "20")
    assert first.code == 0, first.err
    refused = sandbox.command(
        "migrate", sandbox.name, "--from-topic", old, "--to-topic", new, "--seal", str(seals), "--json"
    )
    assert (refused.code, refused.document["error"]["type"]) == (1, "StateError")
    seals.write_text(json.dumps({old: {"0": 30, "1": 30}}))
    assert (
        sandbox.command("migrate", sandbox.name, "--from-topic", old, "--to-topic", new, "--seal", str(seals)).code == 0
    )
    waiting = sandbox.run("--topic", new)
    assert waiting.code == 3, waiting.err
    assert waiting.document["problems"][0]["type"] == "GateClosedError"
    assert len(sandbox.rows()) == 40
    done = sandbox.run()
    assert done.code == 0, done.err
    assert sum(sandbox.rows().values()) == 40 + 18 + 10
