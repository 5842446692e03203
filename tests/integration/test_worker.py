"""`kafka-lake worker` on real parts: what a signal does while Spark reads. Half a minute each."""

from __future__ import annotations

import signal
import subprocess

import psutil
import pytest

from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.core.ledger.requests import AskForWave, is_wanted
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome
from airflow_kafka_lake.local.processes import wait_until
from tests.sandbox import Sandbox, drivers

SECONDS = 120

pytestmark = pytest.mark.nightly


def asked(sandbox: Sandbox) -> str:
    """Plan a wave that is read for some seconds, and ask for it."""
    sandbox.file.write_text(f'{sandbox.file.read_text()}[limits]\nbytes_per_second = "100 kB"\n')
    sandbox.produce(1500, size=1000)
    planned = sandbox.command("plan", str(sandbox.file), "--json")
    assert planned.code == 0, planned.err
    wave = planned.document["waves"][0]["wave"]
    ledger = SqlLedger(f"sqlite:///{sandbox.ledger}")
    ledger.commit(AskForWave(id="task", wave=wave, actor="airflow:hourly/r/ingest"))
    ledger.close()
    return wave


def reading(worker: subprocess.Popen[str]) -> psutil.Process:
    """Wait for the worker's driver."""
    found: list[psutil.Process] = []

    def runs() -> bool:
        assert worker.poll() is None, worker.communicate()
        found[:] = drivers(worker.pid)
        return bool(found)

    wait_until(runs, timeout=SECONDS, failed=AssertionError)
    return found[0]


def test_signal_ends_the_driver_and_leaves_the_wave_to_the_next_worker(sandbox: Sandbox) -> None:
    """Nothing half is left: the request goes on, and the next worker lands every record once."""
    wave = asked(sandbox)
    worker = sandbox.start("worker", "--json")
    driver = reading(worker)
    worker.send_signal(signal.SIGTERM)
    assert sandbox.end(worker).code == 128 + signal.SIGTERM
    assert not driver.is_running()
    ledger = SqlLedger(f"sqlite:///{sandbox.ledger}")
    assert is_wanted(ledger.requests(wave))
    done = sandbox.command("worker", "--until-idle", "--json")
    assert (done.code, done.document["waves"], done.document["rows"]) == (0, 1, 1500), done.err
    outcomes = [item.outcome for item in ledger.attempts(wave)]
    ledger.close()
    assert outcomes == [AttemptOutcome.FAILED, AttemptOutcome.COMMITTED]
    sandbox.assert_exact()


def test_worker_that_drains_lands_its_wave_first(sandbox: Sandbox) -> None:
    """It takes no other one, and ends well."""
    wave = asked(sandbox)
    worker = sandbox.start("worker", "--drain", "--json")
    reading(worker)
    worker.send_signal(signal.SIGTERM)
    done = sandbox.end(worker)
    assert (done.code, done.document["waves"]) == (0, 1), done.err
    ledger = SqlLedger(f"sqlite:///{sandbox.ledger}")
    assert [item.outcome for item in ledger.attempts(wave)] == [AttemptOutcome.COMMITTED]
    ledger.close()
    sandbox.assert_exact()
