"""Two attempts of one wave by real processes: the first stands still while the second comes and finishes, then goes on.

Its lease is over, so the successor may come; that the stopped process still lives changes nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime

import psutil
import pytest
from sqlalchemy import update

from airflow_kafka_lake.adapters.sql_ledger import tables
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from tests.kit import arming
from tests.proxy import Proxy
from tests.sandbox import Ended, Sandbox, drivers

WAIT_SECONDS = 240
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def wait_for(process: subprocess.Popen[str], condition: Callable[[], object]) -> None:
    """Wait until something is so while a command lives."""
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1)


def stopped(pid: int) -> bool:
    """Return whether a process is stopped."""
    return psutil.Process(pid).status() == psutil.STATUS_STOPPED


def stop(process: subprocess.Popen[str]) -> None:
    """Stop a command's own process."""
    process.send_signal(signal.SIGSTOP)
    wait_for(process, lambda: stopped(process.pid))


def driver_group(process: subprocess.Popen[str]) -> int:
    """Return the process group of a command's Spark driver."""
    (driver,) = drivers(process.pid)
    return os.getpgid(driver.pid)


def resume(process: subprocess.Popen[str], *groups: int) -> None:
    """Continue a command and its driver, unless a successor has ended the driver."""
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGCONT)
    process.send_signal(signal.SIGCONT)


@contextmanager
def opened(url: str) -> Iterator[SqlLedger]:
    """Open a ledger."""
    with closing(SqlLedger(url)) as ledger:
        yield ledger


def succeed(sandbox: Sandbox, url: str) -> None:
    """Let every lease be over, and a successor run to its end."""
    with opened(url) as ledger, ledger.engine.begin() as connection:
        connection.execute(update(tables.wave).values(lease_until=LONG_AGO))
    successor = sandbox.run()
    assert (successor.code, successor.document["rows"]) == (0, 300), successor.err
    sandbox.assert_exact()


def assert_overtaken(sandbox: Sandbox, url: str, first: Ended, jobs: Sequence[str] = ("committed",)) -> None:
    """Rows once, one publish; the ledger names both attempts, and what the late one still wanted to write. `jobs` are
    the outcomes of the attempts that have run one."""
    assert first.code == 3, first.err
    assert "Traceback" not in first.err
    sandbox.assert_exact()
    assert len(sandbox.publishes()) == 1
    with opened(url) as ledger:
        (wave,) = ledger.waves(sandbox.name)
        attempts = ledger.attempts(wave.id)
        assert [item.outcome.value for item in attempts if item.job] == list(jobs)
        assert [item.fence for item in attempts] == list(range(1, wave.fence + 1))
        refused = [item for item in ledger.events(sandbox.name, limit=1000) if item.kind == "refused"]
        assert {item.actor for item in refused} == {attempts[0].attempt}
    audit = sandbox.command("audit", sandbox.name, "--json")
    assert (audit.code, audit.document["ok"]) == (0, True), audit.out


@pytest.mark.nightly
def test_stopped_before_its_staging_commit(sandbox: Sandbox) -> None:
    """Driver and command stand still when every row is written and nothing is committed yet."""
    sandbox.produce(300)
    diary, url = sandbox.home / "diary", f"sqlite:///{sandbox.ledger}"
    armed = arming.environment(traps="driver.rows:after=stop", diary=diary)
    first = sandbox.start("run", str(sandbox.file), "--json", env=armed)
    wait_for(first, diary.exists)
    stop(first)
    group = driver_group(first)
    succeed(sandbox, url)
    resume(first, group)
    assert_overtaken(sandbox, url, sandbox.end(first), jobs=("abandoned", "committed"))


@pytest.mark.nightly  # by day: a publisher that was overtaken (test_taken_away.py)
def test_stopped_between_staging_and_publish(sandbox: Sandbox) -> None:
    """What it has staged is complete and proven: the successor publishes it, and runs no job."""
    sandbox.produce(300)
    url = f"sqlite:///{sandbox.ledger}"
    armed = arming.environment(traps="ledger.mark_staged:after=stop")
    first = sandbox.start("run", str(sandbox.file), "--json", env=armed, quick=True)
    wait_for(first, lambda: stopped(first.pid))
    succeed(sandbox, url)
    resume(first)
    assert_overtaken(sandbox, url, sandbox.end(first))


@pytest.mark.nightly
def test_stopped_between_its_last_check_and_its_commit(postgres_sandbox: Sandbox, network: Proxy) -> None:
    """Everything was checked, and its UPDATE of the catalog (PostgreSQL, Spark's too) is on its way: the successor, who
    runs no job either, makes the same commit before it."""
    sandbox = postgres_sandbox
    sandbox.produce(300)
    assert sandbox.command("plan", str(sandbox.file)).code == 0
    url = sandbox.catalog_uri
    held = network.hold_request(
        f"UPDATE iceberg_tables SET metadata_location='{sandbox.iceberg().location()}/".encode()
    )
    first = sandbox.start("run", str(sandbox.file), "--json")
    wait_for(first, held.happened.is_set)
    stop(first)
    succeed(sandbox, url)
    held.deliver()
    resume(first)
    assert_overtaken(sandbox, url, sandbox.end(first))


@pytest.mark.nightly
def test_staging_commit_whose_answer_is_lost(postgres_sandbox: Sandbox, network: Proxy) -> None:
    """Iceberg's JDBC catalog repeats it and may spoil its own branch: main stays readable, and rows come once."""
    sandbox = postgres_sandbox
    sandbox.produce(300)
    lost = network.lose_answer(b"UPDATE iceberg_tables SET metadata_location = $1", nth=2)
    first = sandbox.run()
    assert lost.happened.is_set()
    assert first.code in {0, 3}, first.err
    assert "Traceback" not in first.err
    assert first.code == 0 or not sandbox.rows()
    again = sandbox.run()
    assert again.code == 0, again.err
    sandbox.assert_exact()
    assert len(sandbox.publishes()) == 1
    audit = sandbox.command("audit", sandbox.name, "--json")
    assert (audit.code, audit.document["ok"]) == (0, True), audit.out


LEAVING = """
import os, subprocess, sys
subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""What a command is that forgets its driver: the driver has a session of its own."""


@pytest.mark.nightly
def test_a_command_that_leaves_a_process_behind_is_red(sandbox: Sandbox) -> None:
    """However well it ended; only who was killed could not tidy up."""
    forgetful = [sys.executable, "-c", LEAVING]
    process = sandbox.start("--help", before=forgetful)
    with pytest.raises(AssertionError, match=r"ended with 0 left processes behind: .*sleep 600"):
        sandbox.end(process)
    process = sandbox.start(
        "plan", str(sandbox.file), before=forgetful, env=arming.environment(traps="source.topics:before=kill")
    )
    assert sandbox.end(process).code == -signal.SIGKILL
