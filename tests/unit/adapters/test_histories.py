"""Histories: a line before a call and a line after it, and nothing more."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_lake.core.decoding import Format
from airflow_kafka_lake.core.errors import StaleFenceError, UnavailableError, UsageError
from airflow_kafka_lake.core.ledger.attempts import ClaimWave, RecordBase
from airflow_kafka_lake.core.ledger.waves import LeaseHolder, Unknown
from airflow_kafka_lake.services import decisions
from tests.kit import arming
from tests.kit.interceptors import PortCall, intercepted
from tests.kit.memory_lake import Answer
from tests.kit.operations import Line, Operation, Phase, operations
from tests.kit.recorder import HistoryFile, Recorder, Recording, process_name, read, recorded
from tests.world import World

pytestmark = pytest.mark.unit

HOLDER = LeaseHolder(host="alpha", pid=7, started=1.5)


def recorder_of(lines: list[str], world: World) -> Recorder:
    """Return a recorder over a list, with the world's clock."""
    return Recorder(lines.append, HOLDER, now=world.clock.now, tick=itertools.count(1).__next__)


def told(lines: list[str]) -> tuple[Operation, ...]:
    """Return what lines tell."""
    return operations(Line.from_json(json.loads(line)) for line in lines)


@pytest.fixture
def world() -> World:
    """A world with one partition."""
    return World()


@pytest.fixture
def history(world: World) -> tuple[World, list[str]]:
    """A run of two records by a worker whose calls are written down."""
    lines: list[str] = []
    world.produce(2)
    assert world.run(worker=recorded(recorder_of(lines, world), world.worker())).exit_code == 0
    return world, lines


def test_a_run_is_told_call_by_call(history: tuple[World, list[str]]) -> None:
    """Who claimed what under which fence, what was published, and how far the watermark went."""
    world, lines = history
    found = {item.call: item for item in told(lines)}
    (wave,) = world.ledger.waves("orders")
    key = {name: found["ledger.claim"].answer["key"][name] for name in ("wave", "fence")}
    assert key == {"wave": wave.id, "fence": 1}
    assert found["table.publish"].asked["table"] == "raw.orders"
    assert found["table.publish"].asked["publication"]["token"]["wave"] == wave.id
    assert found["table.publish"].answer == {"snapshot": wave.snapshot}
    (rows,) = [item for item in told(lines) if item.call == "table.add_receipts" and _kinds(item) == {"rows"}]
    assert rows.asked["rows"][0]["accounting"]["visible"] == 2
    moved = [item.answer["value"] for item in told(lines) if item.call == "ledger.advance"]
    assert [[move["end"] for move in moves] for moves in moved] == [[2], []]
    assert {item.outcome for item in found.values()} == {Phase.OK}
    assert {item.actor for item in found.values()} == {"worker-1"}


def test_a_call_that_only_returns_text_is_made_and_not_told(world: World) -> None:
    """A plan asks where its jobs would run: that is no operation."""
    lines: list[str] = []
    ports = recorded(recorder_of(lines, world), world.worker())
    assert ports.runner.where() == world.worker().runner.where()
    assert lines == []


def _kinds(item: Operation) -> set[str]:
    return {row["kind"] for row in item.asked["rows"]}


def test_a_call_that_is_made_inside_another_has_its_own_lines(history: tuple[World, list[str]]) -> None:
    """The job's reference is recorded while the job runs."""
    _, lines = history
    numbers = [json.loads(line)["n"] for line in lines]
    assert numbers == list(range(1, len(lines) + 1))
    found = {item.call: item for item in told(lines)}
    stage, job = found["runner.stage"], found["ledger.record_job"]
    assert stage.begun < job.begun < (job.ended or 0) < (stage.ended or 0)
    assert found["ledger.claim"].before(stage)
    assert not stage.before(job)


def test_nothing_of_a_record_a_reason_or_a_setting_is_told(world: World) -> None:
    """Values of records, people's words and connections stay out."""
    lines: list[str] = []
    world.with_spec(kafka_connection="kafka_of_the_bank")
    world.produce(2)
    worker = recorded(recorder_of(lines, world), world.worker())
    wave = world.planned_wave()
    decisions.cancel(worker, wave, "the customer Miller asked for it")
    decisions.release(worker, wave, "Miller paid")
    assert world.run(worker=worker).exit_code == 0
    text = "".join(lines)
    assert "ledger.revoke" in text
    assert not [word for word in ("Miller", "of_the_bank", "value ") if word in text]


def test_schemas_are_told_by_their_ids(world: World) -> None:
    """What is in them is their subject's business."""
    lines: list[str] = []
    world.schemas.register("orders-value", Format.AVRO, '"string"')
    recorded(recorder_of(lines, world), world.worker()).schemas.versions("orders-value")
    (versions,) = told(lines)
    assert versions.asked == {"subject": "orders-value"}
    assert versions.answer == {"value": [{"id": 1, "version": 1, "format": "avro"}]}


def test_an_error_tells_whether_the_call_had_an_effect(world: World) -> None:
    """A stale fence did nothing; a lost answer may have; a commit's three outcomes are three."""
    lines: list[str] = []
    world.produce(1)
    wave = world.planned_wave()
    worker = recorded(recorder_of(lines, world), world.worker())
    claim = worker.ledger.commit(
        ClaimWave(wave=wave, attempt="a" * 16, holder=HOLDER, lease=world.clock.now() - world.clock.now())
    )
    world.lease_ends()
    world.ingest(wave)
    with pytest.raises(StaleFenceError):
        worker.ledger.commit(RecordBase(key=claim.key, base=1))
    world.lake.reachable = False
    with pytest.raises(UnavailableError):
        worker.lake.table("raw.orders").drop("a" * 16)
    world.lake.reachable = True
    world.table.next_answer = Answer.LOST
    worker.lake.table("raw.orders").fence(world.table.head(), "1" * 32, _token(wave))
    ended = {item.call: (item.outcome, item.error) for item in told(lines)}
    assert ended["ledger.record_base"] == (Phase.FAIL, "StaleFenceError")
    assert ended["table.drop"] == (Phase.UNKNOWN, "UnavailableError")
    assert ended["table.fence"] == (Phase.UNKNOWN, None)


def _token(wave: str) -> Any:
    from airflow_kafka_lake.core.ledger.waves import Token

    return Token(pipeline="orders", wave=wave, attempt="a" * 16, fence=9, ranges="", kind="fence")


def test_a_process_writes_one_file_for_all_threads(world: World, tmp_path: Path) -> None:
    """Ports and a ledger alone share the file and its numbers; the file is its owner's only."""
    folder = tmp_path / "history"
    recording = Recording(folder)
    world.produce(1)
    assert world.run(worker=recording.ports(world.worker())).exit_code == 0
    recording.ledger(world.ledger).mark_notified("orders", 1)
    (path,) = folder.glob("*.jsonl")
    assert path.stat().st_mode & 0o777 == 0o600
    assert f"-{os.getpid()}-" in path.name
    lines = read(folder)
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))
    assert {line.process for line in lines} == {path.stem}
    assert (lines[-1].actor, lines[-1].call, lines[-1].phase) == ("ledger alone", "ledger.mark_notified", Phase.OK)


KILLED = """
from airflow_kafka_lake.wiring.assemble import wrapped
from tests.world import World
world = World()
world.produce(2)
world.run(worker=wrapped(world.worker()))
"""


def test_a_kill_leaves_an_open_call(tmp_path: Path) -> None:
    """The publish was begun and nothing tells how it ended: unknown."""
    armed = arming.environment(traps="table.publish:after=kill", history=tmp_path)
    done = subprocess.run([sys.executable, "-c", KILLED], check=False, timeout=60, env={**os.environ, **armed})
    assert done.returncode == -signal.SIGKILL
    last = operations(read(tmp_path))[-1]
    assert (last.call, last.outcome, last.ended) == ("table.publish", Phase.UNKNOWN, None)


def test_a_torn_last_line_is_left_out_and_any_other_is_refused(
    history: tuple[World, list[str]], tmp_path: Path
) -> None:
    """A kill tears the end of a file and nothing else."""
    _, lines = history
    path = tmp_path / f"{process_name(HOLDER)}.jsonl"
    path.write_text("".join(lines)[:-20])
    assert len(read(tmp_path)) == len(lines) - 1
    path.write_text("".join([*lines[:3], lines[3][:-20], "\n", *lines[4:]]))
    with pytest.raises(UsageError, match=r"alpha-7-1500\.jsonl:4 is no line"):
        read(tmp_path)
    with pytest.raises(UsageError, match="no folder with histories"):
        read(tmp_path / "nothing")


def test_what_cannot_be_written_is_not_done(world: World) -> None:
    """A full disk under the history keeps the call from being made, now and afterwards."""
    full = HistoryFile(Path("/dev/full"))
    ports = recorded(Recorder(full, HOLDER), world.worker())
    for _ in range(2):
        with pytest.raises(UnavailableError, match="/dev/full cannot be written"):
            ports.lake.table("raw.orders").ensure("")
    assert world.table._store is None


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A mistake in the variable is told before anything is done."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="No history can be written"):
        HistoryFile(tmp_path / "file" / "x.jsonl")


def test_a_history_has_what_its_actor_was_told(world: World) -> None:
    """An answer that was lost on the way is unknown, though the commit has landed."""
    lines: list[str] = []
    world.produce(2)

    def lose(call: PortCall) -> Any:
        answer = call.go()
        return Unknown(reason="lost") if call.name == "table.publish" else answer

    ports = intercepted(world.worker(), lose)
    assert world.run(worker=recorded(recorder_of(lines, world), ports)).exit_code == 0
    assert world.offsets() == [0, 1]
    (publish,) = [item for item in told(lines) if item.call == "table.publish"]
    assert publish.outcome is Phase.UNKNOWN
