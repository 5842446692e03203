"""Holds and losses as a user meets them: the command line, a real broker, real jobs."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.core.ledger.waves import OPEN
from airflow_kafka_lake.local.kafka import LocalKafka
from airflow_kafka_lake.local.processes import wait_until
from tests.kit import arming
from tests.sandbox import Ended, Sandbox, driver_of

WAIT_SECONDS = 120


@pytest.fixture
def single(kafka: LocalKafka, spark_jars: list[Path], tmp_path: Path) -> Iterator[Sandbox]:
    """A place whose topic has one partition."""
    with closing(Sandbox(tmp_path / "place", kafka.bootstrap, partitions=1)) as place:
        yield place


def done(ended: Ended) -> Any:
    """Return what a command answered, after it did what it was asked for."""
    assert ended.code == 0, ended.err or ended.out
    return ended.document


def test_history_names_who_decided_what_and_why(sandbox: Sandbox) -> None:
    """Newest first, as a table for people and as JSON for programs; of a name that is none there is no empty one."""
    done(sandbox.command("plan", str(sandbox.file), "--json"))
    done(sandbox.command("pause", sandbox.name, "--reason", "a new schema", "--json"))
    found = done(sandbox.command("history", sandbox.name, "--json"))
    assert [line["sequence"] for line in found["events"]] == sorted(e["sequence"] for e in found["events"])[::-1]
    newest = found["events"][0]
    assert (found["pipeline"], newest["kind"], "a new schema" in newest["detail"]) == (sandbox.name, "pause", True)
    table = sandbox.command("history", sandbox.name)
    assert (table.code, "a new schema" in table.out, newest["actor"] in table.out) == (0, True, True)
    unknown = sandbox.command("history", "nobody")
    assert (unknown.code, "nobody" in unknown.err) == (1, True)


def test_the_trace_of_one_partition(single: Sandbox) -> None:
    """9 ok, 10 cancelled, 11 and 12 ok: 10. 13 ok: still 10. Only 10 again: 14. Each command is a process."""
    sandbox = single
    sandbox.produce(14)
    (sandbox.home / "start.json").write_text(json.dumps({sandbox.topic: {"0": 9}}))
    sandbox.write_pipeline(source='start = "offsets:start.json"', sizes="target_range_bytes = 1\nmax_wave_bytes = 1")
    planned = done(sandbox.command("plan", str(sandbox.file), "--json"))
    waves = {wave["ranges"][0]["start"]: wave["wave"] for wave in planned["waves"]}
    assert sorted(waves) == [9, 10, 11, 12, 13]

    def ok(*offsets: int) -> None:
        for offset in offsets:
            assert done(sandbox.command("ingest", waves[offset], "--json"))["state"] == "COMMITTED"

    def watermark() -> int:
        done(sandbox.command("advance", sandbox.name, "--json"))
        (stream,) = done(sandbox.command("status", sandbox.name, "--json"))["streams"]
        return stream["watermark"]

    ok(9)
    done(sandbox.command("cancel", waves[10], "--reason", "poison", "--json"))
    ok(11, 12)
    assert watermark() == 10
    show_hold_to_a_person(sandbox)
    ok(13)
    assert watermark() == 10
    done(sandbox.command("release", waves[10], "--json"))
    last = done(sandbox.run())
    assert ([item["wave"] for item in last["waves"]], last["rows"]) == ([waves[10]], 1)
    assert watermark() == 14
    sandbox.assert_exact({key: value for key, value in sandbox.acknowledged.items() if key[1] >= 9})
    assert len(sandbox.publishes()) == 5
    withdraw_and_plan_anew(sandbox, committed=waves[9])


def show_hold_to_a_person(sandbox: Sandbox) -> None:
    """In words with the command, and as one line among all pipelines; a watch shows the same, and Ctrl-C ends it."""
    text = sandbox.command("status", sandbox.name, "--blocked").out
    (held,) = done(sandbox.command("status", sandbox.name, "--json"))["needs_person"]
    assert f"{sandbox.topic}/0 10-11 is cancelled: poison\n     kafka-lake release {held['subject']}\n" in text
    assert "9–10, 11–13" in text
    every = done(sandbox.command("status", "--json"))["pipelines"]
    assert [(item["pipeline"], item["state"], item["needs_person"]) for item in every] == [(sandbox.name, "blocked", 1)]
    refused = sandbox.command("status", "--blocked")
    assert (refused.code, "--blocked is about one pipeline" in refused.err) == (2, True)
    watching = sandbox.start("status", sandbox.name, "--watch", "0.2", "--json")
    assert watching.stdout is not None
    assert json.loads(watching.stdout.readline())["needs_person"] == [held]
    watching.send_signal(signal.SIGINT)
    ended = sandbox.end(watching)
    assert (ended.code, ended.err) == (0, "")


def refused_while_paused(sandbox: Sandbox) -> None:
    """Nothing is planned or begun, which a run says with who and why; a dry run works, and a resume ends it."""
    paused = done(sandbox.command("pause", str(sandbox.file), "--reason", "disk is full", "--json"))
    assert (paused["changed"], paused["paused"]["reason"], paused["at_work"]) == (True, "disk is full", [])
    refused = sandbox.run()
    assert (refused.code, refused.document["waves"]) == (1, [])
    (problem,) = refused.document["problems"]
    assert problem["type"] == "PausedError"
    assert problem["message"].endswith(f"kafka-lake resume {sandbox.name}")
    assert done(sandbox.command("plan", str(sandbox.file), "--dry-run", "--json"))["waves"]
    assert not done(sandbox.command("pause", sandbox.name, "--now", "--reason", "again", "--json"))["changed"]
    assert done(sandbox.command("resume", sandbox.name, "--json"))["paused"] == paused["paused"]
    assert not done(sandbox.command("resume", sandbox.name, "--json"))["changed"]


def withdraw_and_plan_anew(sandbox: Sandbox, *, committed: str) -> None:
    """A plan that no run has begun is taken off again, shown first; the next run takes its offsets once more."""
    sandbox.produce(2, begin=14)
    planned = done(sandbox.command("plan", str(sandbox.file), "--json"))
    asked = ("withdraw", planned["plan"], "--from", "2020-01-01T00:00:00Z", "--reason", "not all at once")
    shown = done(sandbox.command(*asked, "--dry-run", "--json"))
    assert ([item["withdrawn"] for item in shown["streams"]], shown["kept"]) == ([[[14, 16]]], [])
    assert done(sandbox.command("status", sandbox.name, "--json"))["streams"][0]["planned_until"] == 16
    other = sandbox.command(*asked, "--shown", "0123456789abcdef")
    assert (other.code, "these are not the offsets that were shown" in other.err) == (1, True)
    assert f"--shown {shown['shown']}" in sandbox.command(*asked, "--dry-run").out
    assert done(sandbox.command(*asked, "--shown", shown["shown"], "--json")) == shown | {"dry_run": False}
    (stream,) = done(sandbox.command("status", sandbox.name, "--json"))["streams"]
    assert (stream["planned_until"], stream["watermark"], stream["blocked_by"]) == (14, 14, [])
    refused = sandbox.command("withdraw", committed, "--reason", "too late")
    assert (refused.code, "nothing is planned there that is not read yet" in refused.err) == (1, True)
    late = sandbox.command("ingest", planned["waves"][0]["wave"])
    assert (late.code, "was withdrawn: nothing of it is planned any more" in late.err) == (1, True)
    sandbox.write_pipeline(source='start = "offsets:start.json"')
    refused_while_paused(sandbox)
    limits = ("--bytes-per-second", "1 MB", "--max-waves", "1")
    limited = done(sandbox.command("run", str(sandbox.file), *limits, "--json"))
    assert (limited["rows"], limited["left"]) == (2, [])
    sandbox.assert_exact({key: value for key, value in sandbox.acknowledged.items() if key[1] >= 9})
    assert done(sandbox.command("audit", sandbox.name, "--json"))["ok"] is True


class Stopped:
    """A run whose every driver stops before it reads its first record."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._rig, self._diary, self._seen = sandbox, sandbox.home / "diary", 0
        armed = arming.environment(traps="driver.append:before=stop", diary=self._diary)
        self.process = sandbox.start("run", str(sandbox.file), "--json", env=armed)

    def driver(self) -> psutil.Process:
        """Wait for the next driver to stop."""
        self._seen += 1
        wait_until(self._stopped_or_over, timeout=WAIT_SECONDS, failed=AssertionError)
        assert self.process.poll() is None, self._rig.end(self.process)
        ledger = SqlLedger(f"sqlite:///{self._rig.ledger}")
        (wave,) = ledger.waves(self._rig.name, OPEN)
        found = driver_of(ledger.attempts(wave.id)[-1].job or "")
        ledger.close()
        wait_until(lambda: found.status() == psutil.STATUS_STOPPED, timeout=WAIT_SECONDS, failed=AssertionError)
        return found

    def _stopped_or_over(self) -> bool:
        lines = self._diary.read_text().splitlines() if self._diary.exists() else []
        return len(lines) >= self._seen or self.process.poll() is not None


@pytest.mark.nightly
def test_retention_past_a_running_read_and_past_a_planned_range(sandbox: Sandbox) -> None:
    """Neither counts as done: the rest goes on, the hold names offsets and commands, and these lead to the end."""
    sandbox.produce(40)
    stopped = Stopped(sandbox)
    first = stopped.driver()
    sandbox.delete_before(0, 8)
    os.killpg(first.pid, signal.SIGCONT)
    os.killpg(stopped.driver().pid, signal.SIGCONT)
    ended = sandbox.end(stopped.process)
    assert (ended.code, ended.document["rows"]) == (1, 32), ended.err
    (message,) = ended.document["held"]
    assert (
        f"{sandbox.topic}/0 0-8 held: LogStartMovedError: skip 0-8: 8 offsets, log start moved to 8. Skip them with: "
        in message
    )
    assert {move["partition"] for move in ended.document["advanced"]} == {1}
    assert message.endswith("--from 0 --to 8 --reason TEXT")
    sandbox.obey(message)
    sandbox.produce(20, begin=40)
    planned = done(sandbox.command("plan", str(sandbox.file), "--partition", "1", "--json"))
    sandbox.delete_before(1, 30)
    second = sandbox.run()
    assert (second.code, second.document["rows"]) == (1, 10), second.err
    (message,) = second.document["held"]
    assert "/1 20-30 held: LogStartMovedError: skip 20-30: 10 offsets, log start moved to 30. " in message
    assert planned["waves"][0]["wave"] not in {item["wave"] for item in second.document["waves"]}
    sandbox.obey(message)
    moves = done(sandbox.command("advance", sandbox.name, "--json"))["streams"]
    assert [(move["partition"], move["from"], move["to"]) for move in moves] == [(1, 20, 30)]
    sandbox.assert_exact(
        {(p, o): value for (p, o), value in sandbox.acknowledged.items() if (o >= 8 if p == 0 else o < 20)}
    )
    audit = done(sandbox.command("audit", sandbox.name, "--json"))
    assert [stream["accounting"]["skipped"] for stream in audit["streams"]] == [8, 10]
