"""A lake and a ledger that an older version has made, with real parts: today's code goes on with them, audits them
clean and rebuilds the ledger from the lake."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from airflow_kafka_lake.local.kafka import LocalKafka
from tests.groups import committed
from tests.older_version import LedgerPlace, OlderVersion, archive
from tests.sandbox import Ended, Sandbox

COMMIT = "32f020c58f77cf1dfa069c7bba2d7ab5a8ca1f0a"
"""A commit with schema 0012 of the ledger: holds have words alone there, and no cause."""
OLD_FILE = """\
[pipeline]
name = "{name}"
[source]
topics = ["{topic}"]
layout_grace = "{seconds} s"
sync_group = "{name}-mirror"
[lake]
table = "raw.orders"
[spark]
connection = "spark_default"
[sizes]
target_range_bytes = "{size} KiB"
{decode}
"""
"""A pipeline file of that commit."""
MIGRATE, STATUS, RECOVER = ("db", "upgrade"), "status", "recover"
RELEASE, AUDIT, REBUILD = "release", "audit", "rebuild"
"""The commands of today's version."""
OLD_STATES = {
    "range": {"PLANNED", "CANCELLED", "HELD", "COMMITTED", "SKIPPED"},
    "wave": {"PLANNED", "CLAIMED", "STAGED", "PUBLISHING", "COMMITTED", "CANCELLED", "DISSOLVED"},
}
"""Every state that the old version knows: the ledger that it leaves has each of them."""
PARTITIONS, WIDER = 6, 7
"""The topic's partitions, and as many as it gets in the end."""


@dataclass
class Life:
    """What an older version does with a pipeline, and what of it today's version must know."""

    sandbox: Sandbox
    broker: LocalKafka
    ledger: LedgerPlace
    old: OlderVersion
    produced: int = 0
    gone: set[tuple[int, int]] = field(default_factory=set)
    """What was skipped, or deleted on purpose."""
    attempts: dict[int, str] = field(default_factory=dict)
    """By partition, the attempt of a worker that was killed, or stood still."""
    untouched: str = ""
    """A wave with the newest of what partitions 1, 2 and 4 have, which was planned and never begun."""

    def produce(self, each: int) -> None:
        """Produce so many records to every partition."""
        self.sandbox.produce(each * self.sandbox.partitions, size=100, begin=self.produced)
        self.produced += each * self.sandbox.partitions

    def widen(self) -> None:
        """Give the topic one more partition: what comes then continues what was there."""
        from confluent_kafka.admin import AdminClient, NewPartitions

        admin = AdminClient({"bootstrap.servers": self.sandbox.bootstrap})
        for future in admin.create_partitions([NewPartitions(self.sandbox.topic, WIDER)]).values():
            future.result(60)
        self.sandbox.partitions = WIDER

    def configure(self, version: int) -> None:
        """Write the pipeline file, its first version or its second."""
        first = {"seconds": 5, "size": 1, "decode": ""}
        second = {"seconds": 0, "size": 2, "decode": '[decode]\nformat = "string"'}
        named = {"name": self.sandbox.name, "topic": self.sandbox.topic}
        self.sandbox.file.write_text(OLD_FILE.format(**named, **(first if version == 1 else second)))

    def plan(self, partition: int) -> str:
        """Plan what a partition has, in one wave; returns its id."""
        asked = ("plan", str(self.sandbox.file), "--partition", str(partition), "--json")
        (wave,) = self.old.command(*asked).document["waves"]
        return wave["wave"]

    def on_offsets(self, command: str, partition: int, begin: int, end: int, *more: str) -> None:
        """Decide about a stretch."""
        where = ("--topic", self.sandbox.topic, "--partition", str(partition), "--from", str(begin), "--to", str(end))
        self.old.command(command, self.sandbox.name, *where, "--reason", "a person says so", *more)

    def delete(self, partition: int, end: int) -> None:
        """Delete the first rows of a partition as another engine does, and let the old version accept it."""
        sandbox = self.sandbox
        sandbox.spark_sql(
            [f"DELETE FROM lake.{sandbox.table} WHERE kafka_partition = {partition} AND kafka_offset < {end}"]
        )
        self.old.command("accept-deletes", sandbox.name, "--topic", sandbox.topic, "--reason", "retention")
        self.gone |= {(partition, offset) for offset in range(end)}

    def flip(self, partition: int, offset: int) -> None:
        """Flip a byte on the broker's disk, in the batch that begins at an offset; twice is as it was."""
        self.broker.stop()
        (log,) = (self.broker.log_dir / f"{self.sandbox.topic}-{partition}").glob("*.log")
        data, at = bytearray(log.read_bytes()), 0
        while int.from_bytes(data[at : at + 8], "big") != offset:
            at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        data[at + 70] ^= 0xFF
        log.write_bytes(data)
        self.broker.start()

    def killed(self, point: str, partition: int) -> None:
        """Kill a worker at a wave of its own."""
        wave = self.plan(partition)
        self.old.killed(point, "ingest", wave, "--json")
        self._note(partition, wave)

    def overtaken(self, point: str) -> subprocess.Popen[str]:
        """Return a worker of the old version that stands still over the untouched wave."""
        process = self.old.stopped(point, "ingest", self.untouched, "--json")
        self._note(1, self.untouched)
        return process

    def _note(self, partition: int, wave: str) -> None:
        ((attempt,),) = self.ledger.rows(self.sandbox, f"SELECT attempt FROM kafka_lake_wave WHERE id = '{wave}'")
        self.attempts[partition] = attempt

    def states(self, of: str) -> Counter[str]:
        """Count ranges or waves by state, in the tables of the old version."""
        return Counter(
            dict(self.ledger.rows(self.sandbox, f"SELECT state, count(*) FROM kafka_lake_{of} GROUP BY state"))
        )


def lived(life: Life) -> None:
    """Let the older version leave a ledger with everything in it that can be left in one."""
    sandbox, old = life.sandbox, life.old
    life.configure(1)
    old.command("db", "upgrade")
    sandbox.transaction(10 * PARTITIONS, commit=True)
    sandbox.transaction(5 * PARTITIONS, commit=False)
    life.produce(20)
    old.command("run", str(sandbox.file))
    begin = 10 + 1 + 5 + 1 + 20
    assert high_watermarks(sandbox) == dict.fromkeys(range(PARTITIONS), begin)

    life.delete(2, 3)
    life.configure(2)
    life.produce(20)
    old.command("cancel", life.plan(2), "--reason", "not now")
    life.plan(3)
    life.on_offsets("skip", 3, begin + 3, begin + 8, "--acknowledge-order")
    life.gone |= {(3, offset) for offset in range(begin + 3, begin + 8)}
    life.flip(1, begin)
    old.command("run", str(sandbox.file), code=1)
    life.on_offsets("reopen", 0, 5, 25)
    old.command("run", str(sandbox.file), code=1)

    life.produce(10)
    old.command("withdraw", life.plan(4), "--reason", "not all at once")
    life.killed("ledger.mark_staged:after", 5)
    life.killed("table.publish:after", 0)
    life.killed("runner.stage:before", 3)
    life.on_offsets("reopen", 4, 20, 30)
    life.flip(1, begin)
    life.widen()
    (planned,) = old.command("plan", sandbox.name, "--json").document["waves"]
    life.untouched = planned["wave"]
    life.produce(5)
    old.command("plan", sandbox.name)
    life.produce(5)


def high_watermarks(sandbox: Sandbox) -> dict[int, int]:
    """Return the last stable offset of each partition, as Kafka tells it."""
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    admin = AdminClient({"bootstrap.servers": sandbox.bootstrap})
    asked = {TopicPartition(sandbox.topic, number): OffsetSpec.latest() for number in range(sandbox.partitions)}
    found = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED).items()
    return {item.partition: future.result(30).offset for item, future in found}


def watermarks(sandbox: Sandbox) -> dict[int, int]:
    """Return each partition's watermark, as today's version tells it."""
    streams = done(sandbox.command(STATUS, sandbox.name, "--json")).document["streams"]
    return {item["partition"]: item["watermark"] for item in streams}


def done(ended: Ended, code: int = 0) -> Ended:
    """Return how a command ended, which is as expected."""
    assert ended.code == code, ended.err or ended.out
    return ended


def assert_whole(life: Life) -> None:
    """Every acknowledged record that was not skipped is in the table once, each watermark is at the last stable offset,
    and the group that is told of it knows."""
    sandbox = life.sandbox
    sandbox.assert_exact({key: value for key, value in sandbox.acknowledged.items() if key not in life.gone})
    ends = high_watermarks(sandbox)
    assert watermarks(sandbox) == ends
    assert committed(sandbox.bootstrap, f"{sandbox.name}-mirror", sandbox.topic, WIDER) == ends


def rebuilt(life: Life, known: Mapping[int, int], reopened: int = 0) -> None:
    """Whatever the ledger is, it agrees with the lake after a rebuild; only what was reopened is read again."""
    sandbox = life.sandbox
    done(sandbox.command(REBUILD, str(sandbox.file)))
    assert watermarks(sandbox) == known
    done(sandbox.command(AUDIT, sandbox.name))
    life.produce(5)
    missing = len(sandbox.acknowledged.keys() - life.gone) - sandbox.rows().total()
    assert done(sandbox.run()).document["rows"] == missing + reopened
    assert_whole(life)
    done(sandbox.command(AUDIT, sandbox.name))


@pytest.fixture(params=["sqlite", "postgres"])
def life(request: pytest.FixtureRequest, spark_jars: list[Path], tmp_path: Path) -> Iterator[Life]:
    """A place with the older version, a broker whose disk may be touched, and a ledger of each kind."""
    server = request.getfixturevalue("postgres_uri") if request.param == "postgres" else ""
    ledger = LedgerPlace(request.param, server)
    with LocalKafka() as broker:
        place = tmp_path / "place"
        with closing(Sandbox(place, broker.bootstrap, PARTITIONS, ledger_connection=ledger.connection)) as sandbox:
            ledger.begin(sandbox)
            old = OlderVersion.unpacked(COMMIT, tmp_path / "old", sandbox)
            yield Life(sandbox, broker, ledger, old)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_what_an_older_version_has_left_goes_on_audits_clean_and_is_rebuilt(life: Life) -> None:
    """Ranges and waves in every state they can be in; everything Kafka has ends in the table once, what a worker had
    staged when it was killed as it was staged, and what one publishes that the upgrade has overtaken. The ledger, lost
    or older, is brought back from a lake that two versions have written, and lost from one of the older version alone.
    """
    sandbox = life.sandbox
    lived(life)
    for of, states in OLD_STATES.items():
        assert set(life.states(of)) == states, life.states(of)
    assert life.ledger.rows(sandbox, "SELECT count(*) FROM kafka_lake_pipeline") == [(2,)]
    on_hold = [*life.ledger.rows(sandbox, "SELECT id FROM kafka_lake_range WHERE state IN ('HELD', 'CANCELLED')")]

    lake = (sandbox.home / "catalog.db").read_bytes()
    life.ledger.back_up(sandbox)

    late = life.overtaken("table.publish:before")
    assert "kafka-lake " + " ".join(MIGRATE) in done(sandbox.command(STATUS, sandbox.name), 1).err
    done(sandbox.command(*MIGRATE))
    done(sandbox.command(STATUS, sandbox.name))
    life.old.command("status", sandbox.name, code=1)
    os.kill(late.pid, signal.SIGCONT)
    assert "LedgerSchemaError" in done(sandbox.end(late), 1).out, (
        "it has published, and may not write that into a newer ledger"
    )
    done(sandbox.command(RECOVER, sandbox.name))
    done(sandbox.run(), 1)
    assert life.ledger.rows(sandbox, "SELECT count(*) FROM kafka_lake_pipeline") == [(2,)], "the file says what it said"
    for (item,) in on_hold:
        done(sandbox.command(RELEASE, item, "--reason", "looked at"))
    done(sandbox.run())
    assert_whole(life)
    attempts = sandbox.iceberg().scan(selected_fields=("kafka_partition", "ingest_attempt")).to_arrow().to_pylist()
    landed = {(row["kafka_partition"], row["ingest_attempt"]) for row in attempts}
    assert {partition for partition in life.attempts if (partition, life.attempts[partition]) in landed} == {0, 1, 5}
    done(sandbox.command(AUDIT, sandbox.name, "--deep"))

    known = watermarks(sandbox)
    life.ledger.begin(sandbox)
    done(sandbox.command(*MIGRATE))
    rebuilt(life, known)

    known = watermarks(sandbox)
    life.ledger.begin(sandbox, backup=True)
    done(sandbox.command(*MIGRATE))
    refused = done(sandbox.run(), 1)
    assert f"kafka-lake {REBUILD} {sandbox.name}" in refused.out
    rebuilt(life, known)

    life.ledger.begin(sandbox)
    (sandbox.home / "catalog.db").write_bytes(lake)
    done(sandbox.command(*MIGRATE))
    rebuilt(life, {0: 67, 1: 37, 2: 37, 3: 57, 4: 20, 5: 57, 6: 0}, reopened=10)


def test_a_clone_without_the_older_commit_fails_in_a_sentence(tmp_path: Path) -> None:
    """A missing history is no reason to pass."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    with pytest.raises(pytest.fail.Exception, match=f"cannot give the package as it was at commit {COMMIT}"):
        archive(COMMIT, tmp_path)
