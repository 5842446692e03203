"""A real log that loses its end and is written again, as after an unclean leader election: told from a restart."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.core.accounting import Fate
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.local.processes import wait_until
from tests.sandbox import Sandbox

if TYPE_CHECKING:
    from airflow_kafka_lake.local.kafka import LocalKafka


def restart_with(broker: LocalKafka, folder: Path, older: Path) -> None:
    """Put an older state of a partition's folder into its place while the broker is down, and cut a hole elsewhere."""
    broker.stop()
    cut_out_the_second_batch(broker.log_dir / "doctored-0")
    shutil.rmtree(folder)
    shutil.copytree(older, folder)
    for checkpoint in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", ".kafka_cleanshutdown"):
        (broker.log_dir / checkpoint).unlink(missing_ok=True)
    broker.start()


def cut_out_the_second_batch(folder: Path) -> None:
    """Doctor a log as no broker would: a hole in the middle, in a topic that is never cleaned."""
    (log,) = folder.glob("*.log")
    data = log.read_bytes()
    sizes = []
    while (at := sum(sizes)) < len(data):
        sizes.append(12 + int.from_bytes(data[at + 8 : at + 12], "big"))
    assert len(sizes) == 3
    log.write_bytes(data[: sizes[0]] + data[sum(sizes[:2]) :])
    for index in (*folder.glob("*.index"), *folder.glob("*.timeindex")):
        index.unlink()


def assert_hole_is_seen(bootstrap: str, topic_id: str) -> None:
    """What is missing is not explained, and what stands around it is told."""
    from airflow_kafka_lake.adapters.kafka_batches import KafkaBatchReader
    from airflow_kafka_lake.adapters.kafka_config import KafkaSettings

    whole = Slice(Stream("doctored", topic_id, 0), OffsetRange(0, 3))
    said = KafkaBatchReader(KafkaSettings.parse({"bootstrap.servers": bootstrap})).explain(
        [whole], Isolation.READ_COMMITTED
    )
    seen = {str(item.range): (item.fate, item.seen) for item in said[whole]}
    assert seen["1-2"] == (Fate.UNEXPLAINED, "no batch owns it, and the topic is not compacted")
    assert seen["0-1"][1] == "Kafka holds a record of a producer without id in batch 0-1"


MAY_BE_HIDDEN = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@contextmanager
def hidden(broker: LocalKafka, topic: str) -> Iterator[None]:
    """Take a topic from the lists that the broker gives, as an administrator does in the middle of an edit."""
    place = {"restype": ResourceType.TOPIC, "name": topic, "resource_pattern_type": ResourcePatternType.LITERAL}
    who = {"principal": "User:ANONYMOUS", "host": "*", "operation": AclOperation.DESCRIBE}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    binding = AclBinding(**place, **who, permission_type=AclPermissionType.DENY)
    admin.create_acls([binding])[binding].result(60)
    wait_until(lambda: topic not in admin.list_topics(timeout=30).topics, timeout=60, failed=AssertionError)
    yield
    chosen = AclBindingFilter(**place, **who, permission_type=AclPermissionType.DENY)
    admin.delete_acls([chosen])[chosen].result(60)
    wait_until(lambda: topic in admin.list_topics(timeout=30).topics, timeout=60, failed=AssertionError)


def assert_hidden_is_not_deleted(sandbox: Sandbox, broker: LocalKafka, wave: str) -> None:
    """A plan names what is missing, the permission, and the wave waits for it; nothing of it is held."""
    commands = ("plan", str(sandbox.file), "--dry-run"), ("ingest", wave)
    with hidden(broker, sandbox.topic):
        refused = [sandbox.command(*words, "--json") for words in commands]
    for ended in refused:
        error = ended.document["error"]
        assert (ended.code, error["type"]) == (1, "ConnectionSettingsError"), ended.err
        lacking = f"refused describing topics: its user lacks the right Describe on topic {sandbox.topic}."
        assert lacking in error["message"]
    assert sandbox.command("wave", wave, "--json").document["state"] == "PLANNED"


def test_log_that_was_cut_and_has_grown_again_is_told_from_a_restart(spark_jars: list[Path], tmp_path: Path) -> None:
    """Both partitions change their leader epoch between plan and read, one of them lost records: only that one stops,
    until a person gives the lost offsets up; nothing of the new records is taken for the old ones. A topic that may not
    be seen for a while is neither deleted nor held."""
    from airflow_kafka_lake.adapters.kafka.source import KafkaOffsetSource
    from airflow_kafka_lake.local.kafka import LocalKafka

    with LocalKafka(settings=MAY_BE_HIDDEN) as broker:
        sandbox = Sandbox(tmp_path / "place", broker.bootstrap)
        sandbox.write_pipeline(source="leader_wait = 1")
        source = KafkaOffsetSource(
            KafkaSettings.parse({"bootstrap.servers": broker.bootstrap}), clock=SystemClock(), timeout_seconds=30
        )
        sandbox.produce(10)
        sandbox.create_topic("doctored", 1)
        sandbox.produce_singly("doctored", 3)
        doctored = source.describe(["doctored"])[0].topic_id
        folder = broker.log_dir / f"{sandbox.topic}-0"
        shutil.copytree(folder, tmp_path / "older")
        sandbox.produce(10, begin=10)
        planned = sandbox.command("plan", str(sandbox.file), "--json").document
        times = [(sandbox.topic, 0), (sandbox.topic, 1)]
        first = source.offsets_at(times, 0)
        epochs = {
            item.stream.partition: item.leader_epoch for item in source.snapshot([sandbox.topic], None).partitions
        }

        restart_with(broker, folder, tmp_path / "older")
        assert_hole_is_seen(broker.bootstrap, doctored)
        old = dict(sandbox.acknowledged)
        sandbox.produce(60, begin=20)
        now = {item.stream.partition: item for item in source.snapshot([sandbox.topic], None).partitions}
        assert (now[0].high_watermark, now[1].high_watermark) == (35, 40), "both are longer than at the plan"
        assert all(now[number].leader_epoch > epochs[number] for number in (0, 1))
        asked = [(sandbox.topic, number, epochs[number]) for number in (0, 1)]
        assert source.epoch_ends(asked) == {asked[0]: 5, asked[1]: 10}
        assert source.offsets_at(times, 0) == first, "the same client asks under the new leader epoch"

        wave = planned["waves"][0]["wave"]
        assert_hidden_is_not_deleted(sandbox, broker, wave)
        done = sandbox.command("ingest", wave, "--json")
        assert done.code == 0, done.err
        states = {item["partition"]: (item["state"], item["reason"]) for item in done.document["ranges"]}
        assert states[1] == ("COMMITTED", None)
        assert states[0][0] == "HELD"
        assert states[0][1].startswith("LogRewrittenError: skip 5-10: 5 offsets, the log was cut at 5")
        sandbox.assert_exact({key: value for key, value in old.items() if key[0] == 1 or key[1] < 5})

        stopped = sandbox.command("plan", str(sandbox.file), "--dry-run", "--json")
        (reason,) = [item["reason"] for item in stopped.document["blocked"]]
        assert stopped.code == 1
        assert reason.startswith("LogRewrittenError: ")
        words = ["--topic", sandbox.topic, "--partition", "0", "--from", "5", "--to", "10", "--reason", "lost"]
        assert sandbox.command("skip", sandbox.name, *words).code == 0
        rest = sandbox.command("plan", str(sandbox.file), "--json")
        assert (rest.code, rest.document["blocked"]) == (0, []), rest.err
        ranges = [item for wave in rest.document["waves"] for item in wave["ranges"]]
        assert {(item["partition"], item["start"], item["end"]) for item in ranges} == {(0, 10, 35), (1, 10, 40)}
