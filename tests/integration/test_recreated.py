"""A topic that is deleted and created again with more records than before, at the two worst moments."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from airflow_kafka_lake.core.spark.job import BRANCH_PREFIX
from airflow_kafka_lake.jobs.shared_consumer import SETTING
from airflow_kafka_lake.local.processes import wait_until
from tests.kit import arming
from tests.sandbox import Sandbox

SETTLES_NOT = arming.environment(traps="ledger.record_commit:before=kill")


def recreated(sandbox: Sandbox, records: int) -> dict[tuple[int, int], bytes]:
    """Delete the topic, create it again, and write more to it than it ever had; returns what the old one had."""
    admin = AdminClient({"bootstrap.servers": sandbox.bootstrap})
    admin.delete_topics([sandbox.topic])[sandbox.topic].result(60)

    def created() -> bool:
        from confluent_kafka import KafkaException

        try:
            sandbox.create_topic(sandbox.topic, sandbox.partitions)
        except KafkaException:
            return False  # the deletion takes a moment
        return True

    wait_until(created, timeout=60, failed=AssertionError)
    before, sandbox.acknowledged = sandbox.acknowledged, {}
    sandbox.produce(records, begin=10_000 * records)
    return before


def rows(sandbox: Sandbox) -> Counter[tuple[str, int, int, bytes]]:
    names = ("kafka_topic_id", "kafka_partition", "kafka_offset", "value")
    arrow = sandbox.iceberg().scan(selected_fields=names).to_arrow()
    return Counter(zip(*(arrow[name].to_pylist() for name in names), strict=True))


def streams(sandbox: Sandbox) -> dict[tuple[str, int], Any]:
    found = sandbox.command("status", sandbox.name, "--json").document["streams"]
    return {(item["topic_id"], item["partition"]): item for item in found}


def test_nothing_of_a_recreated_topic_is_taken_for_the_old_one(sandbox: Sandbox) -> None:
    """Re-created between publish and commit, the old generation is committed from the lake; between plan and ingest,
    its range is held until a person gives it up. Each generation ends with its own records, and no other's."""
    sandbox.produce(20)
    died = sandbox.end(sandbox.start("run", str(sandbox.file), "--json", env=SETTLES_NOT, quick=True))
    assert died.code == -9, died.err
    first = recreated(sandbox, 60)
    adopted = sandbox.command("recover", sandbox.name, "--json")
    assert (adopted.code, len(adopted.document["adopted"])) == (0, 1), adopted.err
    assert sandbox.command("advance", sandbox.name, "--json").document["rows"] == 20
    ((_, old),) = {(None, topic_id) for topic_id, _ in streams(sandbox)}

    planned = sandbox.command("plan", str(sandbox.file), "--json").document
    second = recreated(sandbox, 100)
    (wave,) = planned["waves"]
    held = sandbox.command("ingest", wave["wave"], "--json")
    assert (held.code, held.document["error"]["type"]) == (1, "HeldError"), held.err
    ranges = sandbox.command("wave", wave["wave"], "--json").document["ranges"]
    assert {item["state"] for item in ranges} == {"HELD"}
    assert all(item["reason"].startswith("TopicRecreatedError: ") for item in ranges)
    lost = ranges[0]["topic_id"]
    stopped = sandbox.run()
    assert (stopped.code, stopped.document["waves"]) == (1, []), stopped.err
    for item in ranges:
        chosen = ["--topic", sandbox.topic, f"--topic-id={lost}", "--partition", str(item["partition"])]
        bounds = [
            "--from",
            str(item["start"]),
            "--to",
            str(item["end"]),
            "--reason",
            "re-created",
            "--acknowledge-order",
        ]
        assert sandbox.command("skip", sandbox.name, *chosen, *bounds).code == 0

    done = sandbox.run()
    assert (done.code, done.document["rows"]) == (0, 100), done.err
    known = streams(sandbox)
    (new,) = {topic_id for topic_id, _ in known} - {old, lost}
    assert {item["watermark"] for (topic_id, _), item in known.items() if topic_id == new} == {50}
    assert {item["watermark"] for (topic_id, _), item in known.items() if topic_id == lost} == {30}
    expected = Counter({(old, p, o, value): 1 for (p, o), value in first.items()})
    expected.update({(new, p, o, value): 1 for (p, o), value in sandbox.acknowledged.items()})
    assert rows(sandbox) == expected
    assert not {value for _, _, _, value in rows(sandbox)} & set(second.values())
    audit = sandbox.command("audit", sandbox.name, "--json")
    assert (audit.code, audit.document["ok"]) == (0, True), audit.document["problems"]


@pytest.mark.nightly
@pytest.mark.parametrize("shared", ["true", "false"], ids=["shared consumer", "Spark's source"])
def test_topic_that_is_recreated_while_it_is_read_is_held(sandbox: Sandbox, shared: str) -> None:
    """Both readers go on in the new topic, which has more records than the old one: none of them is published."""
    sandbox.produce(10)
    assert sandbox.run().code == 0
    sandbox.produce(1500, size=1000, begin=10)
    spark = {"conn_type": "spark", "host": "local[2]", "extra": {"conf": {SETTING: shared}}}
    before, words = rows(sandbox), ("run", str(sandbox.file), "--bytes-per-second", "100 kB", "--json")
    process = sandbox.start(*words, env={"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark)})

    def is_read() -> bool:
        assert process.poll() is None, process.communicate()
        return any(name.startswith(BRANCH_PREFIX) for name in sandbox.iceberg().refs())

    wait_until(is_read, timeout=120, failed=AssertionError)
    recreated(sandbox, 3000)
    done = sandbox.end(process)
    assert done.code == 1, done.err
    assert len(done.document["held"]) == sandbox.partitions
    assert all("TopicRecreatedError: " in item for item in done.document["held"]), done.document["held"]
    assert rows(sandbox) == before
