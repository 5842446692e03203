"""The command `worker` as a process: it waits, says that it lives, and ends as its signal asks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from airflow_kafka_lake.adapters.spark_submit.driver import Engine
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.cli import running
from airflow_kafka_lake.cli.entry_point import main
from airflow_kafka_lake.core.errors import ConnectionSettingsError
from airflow_kafka_lake.core.ledger.requests import AskForWave, EndRequest, error_of
from airflow_kafka_lake.local.processes import wait_until
from tests.contracts.ledger_world import planned

pytestmark = pytest.mark.unit
SECONDS = 60


def connections(folder: Path) -> dict[str, str]:
    """Return the environment of a worker: a ledger is all it needs before it has something to do."""
    return {"AIRFLOW_CONN_KAFKA_LAKE_LEDGER": json.dumps({"conn_type": "sqlite", "host": f"{folder}/ledger.db"})}


def test_worker_of_an_empty_ledger_has_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends at once where it may, and says what it has done."""
    for name, value in connections(tmp_path).items():
        monkeypatch.setenv(name, value)
    assert main(["worker", "--until-idle", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["waves"], document["rows"], document["problems"]) == (0, 0, 0)
    assert str(os.getpid()) in document["worker"]
    assert main(["worker", "--until-idle"]) == 0
    assert "0 waves, 0 rows" in capsys.readouterr().out


def test_driver_of_a_worker_is_worth_the_better_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lasts, however light its first wave is."""
    found: list[bool] = []

    class Closed(Engine):
        def close(self) -> None:
            found.append(self.is_heavy(1))
            super().close()

    for name, value in connections(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(running, "Engine", Closed)
    assert main(["worker", "--until-idle"]) == 0
    assert found == [True]


def test_wave_that_failed_and_did_not_land_is_no_good_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code tells of it, as that of a run does; its task has the error."""
    for name, value in connections(tmp_path).items():
        monkeypatch.setenv(name, value)
    with closing(SqlLedger(f"sqlite:///{tmp_path}/ledger.db")) as ledger:
        (wave,) = planned(ledger, [(0, 0, 10)])
        ledger.commit(AskForWave(id="task", wave=wave, actor="airflow:hourly/r/ingest"))
        assert main(["worker", "--until-idle", "--json"]) == ConnectionSettingsError.exit_code
        document = json.loads(capsys.readouterr().out)
        assert (document["waves"], document["problems"]) == (0, 1)
        assert isinstance(error_of(ledger.commit(EndRequest(id="task", wave=wave))), ConnectionSettingsError)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--pipeline", "No Name"), "is not a pipeline name"),
        (("--alive", "/nowhere/alive"), "alive cannot be used: No such"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: tuple[str, str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong usage, in words."""
    assert main(["worker", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.nightly
@pytest.mark.parametrize(("words", "code"), [((), 128 + signal.SIGTERM), (("--drain",), 0)])
def test_signal_ends_a_worker(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    """At once; one that drains ends well, with its document, when it has no wave."""
    alive = tmp_path / "alive"
    command = [sys.executable, "-m", "airflow_kafka_lake.cli", "worker", "--json", "--alive", str(alive), *words]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": os.environ | connections(tmp_path)}
    with subprocess.Popen(command, **piped, text=True) as process:  # type: ignore[call-overload]
        assert process.stderr is not None
        assert "waits for waves" in process.stderr.readline()
        os.utime(alive, (1, 1))
        wait_until(lambda: alive.stat().st_mtime > 1, timeout=SECONDS, failed=AssertionError)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == code
    if code == 0:
        assert json.loads(out)["waves"] == 0
