"""Transactions of a real broker that stay open: what is stable is planned, and what hangs is named."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.core.kafka import snapshots
from airflow_kafka_lake.local.processes import wait_until
from tests.groups import commit_in
from tests.integration.refusing import Refusals
from tests.sandbox import Sandbox

if TYPE_CHECKING:
    from airflow_kafka_lake.local.kafka import LocalKafka


def test_transactions_that_stay_open_are_named_and_never_passed(
    kafka: LocalKafka,
    spark_jars: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A hanging transaction is named by producer, id and start in plan and status; a pending commit of the end
    policy's group fails the plan within its bound, by partition; after both have ended everything is planned."""
    from airflow_kafka_lake.adapters.kafka.source import KafkaOffsetSource

    sandbox = Sandbox(tmp_path / "place", kafka.bootstrap, partitions=1)
    sandbox.produce(4)
    settings = {"bootstrap.servers": kafka.bootstrap}
    slow = Producer({**settings, "transactional.id": "nightly-load", "transaction.timeout.ms": 1000})
    slow.init_transactions(60)
    slow.begin_transaction()
    slow.produce(sandbox.topic, b"late", partition=0)
    assert slow.flush(60) == 0
    sandbox.produce(3, begin=4)

    made = sandbox.command("plan", str(sandbox.file), "--dry-run", "--json").document
    (waiting,) = made["waiting_for_stable"]
    assert [item["end"] for wave in made["waves"] for item in wave["ranges"]] == [4]
    assert (waiting["last_stable"], waiting["high_watermark"]) == (4, 8)
    named = waiting["transaction"]
    assert (named["transactional_id"], named["first_offset"], named["timeout_seconds"]) == ("nightly-load", 4, 1.0)
    assert named["producer_id"] >= 0
    assert named["started_at"] <= made["observed_at"]

    source = KafkaOffsetSource(KafkaSettings.parse(settings), clock=SystemClock())
    (seen,) = source.transactions([(sandbox.topic, 0)], None)
    assert not seen.hangs(SystemClock().now())
    overdue = SystemClock().now() + timedelta(minutes=2)
    assert seen.hangs(overdue)
    assert "transaction 'nightly-load' of producer" in seen.describe(overdue)
    assert f"abort --topic {sandbox.topic} --partition 0 --start-offset 4" in seen.describe(overdue)

    with monkeypatch.context() as patch:
        assert_hanging_needs_a_person(Refusals(sandbox, patch, capsys), lambda: seen.hangs(SystemClock().now()))
    sandbox.write_pipeline(source='end = "group:live"\nstable_wait = 2')
    committing = Producer({**settings, "transactional.id": "live-consumer"})
    committing.init_transactions(60)
    committing.begin_transaction()
    commit_in(committing, kafka.bootstrap, "live", sandbox.topic, 0, 8)
    failed = sandbox.command("plan", str(sandbox.file), "--json")
    error = failed.document["error"]
    assert (failed.code, error["type"]) == (3, "PendingCommitError"), failed.err
    assert (error["group"], error["partitions"]) == ("live", [[sandbox.topic, 0]])
    assert "live-consumer" in {item["transactional_id"] for item in error["transactions"]}
    committing.commit_transaction(60)
    slow.abort_transaction(60)
    wait_until(lambda: not source.transactions([(sandbox.topic, 0)], "live"), timeout=60, failed=AssertionError)
    made = sandbox.command("plan", str(sandbox.file), "--dry-run", "--json").document
    assert made["waiting_for_stable"] == []
    assert [item["end"] for wave in made["waves"] for item in wave["ranges"]] == [8], "what the group committed"


def assert_hanging_needs_a_person(here: Refusals, hangs: Callable[[], bool]) -> None:
    """A transaction that may still end is a line of a run; one that hangs is an exit code, in run and plan.

    These commands run in this process, where the minute that a coordinator is given is shorter.
    """
    sandbox = here.sandbox
    done = sandbox.command("run", str(sandbox.file))
    assert done.code == 0, done.err
    assert "waiting for stable: " in done.out
    assert "held by transaction 'nightly-load'" in done.out
    here.settle_in()
    here.monkeypatch.setattr(snapshots, "GRACE", timedelta(0))
    wait_until(hangs, timeout=60, failed=AssertionError)
    stopped = here.command("run", str(sandbox.file), "--json")
    (problem,) = stopped.document["problems"]
    assert (stopped.code, problem["type"]) == (1, "HangingTransactionError"), stopped.err
    assert "transaction 'nightly-load' of producer" in problem["message"]
    assert f"abort --topic {sandbox.topic} --partition 0 --start-offset 4" in problem["message"]
    planned = here.command("plan", str(sandbox.file), "--json")
    assert (planned.code, planned.document["waiting_for_stable"][0]["transaction"]["hanging"]) == (1, True)


@pytest.mark.nightly
def test_rest_follows_after_commit_and_after_abort(kafka: LocalKafka, spark_jars: list[Path], tmp_path: Path) -> None:
    """A run ends below what is open; what was behind it lands with the next run, however the transaction ended. The
    topic's name begins like those of Kafka's own, which changes nothing."""
    sandbox = Sandbox(tmp_path / "place", kafka.bootstrap, topic=f"__changes-{secrets.token_hex(4)}")
    producer = Producer({"bootstrap.servers": sandbox.bootstrap, "transactional.id": sandbox.topic})
    producer.init_transactions(60)
    ends = []
    for ended, number in ((producer.commit_transaction, 0), (producer.abort_transaction, 1)):
        producer.begin_transaction()
        producer.produce(sandbox.topic, b"open", partition=0)
        assert producer.flush(60) == 0
        sandbox.produce(2, begin=2 * number, partitions=1)
        ends.append(_landed(sandbox))
        ended(60)
        ends.append(_landed(sandbox))
    # Per round: the open record, two others, a marker.
    assert ends == [0, 4, 4, 8]
    assert sum(sandbox.rows().values()) == 5
    audited = sandbox.command("audit", sandbox.name, "--json").document
    explained = audited["totals"]["accounting"]
    assert [explained[name] for name in ("visible", "aborted", "control", "unexplained")] == [5, 1, 2, 0]


def _landed(sandbox: Sandbox) -> int:
    """Run, and return the watermark of partition 0; nothing yet is 0."""
    done = sandbox.run()
    assert done.code == 0, done.err
    streams = sandbox.command("status", sandbox.name, "--json").document["streams"]
    return next((item["watermark"] for item in streams if item["partition"] == 0), 0)
