"""The command line resolves connections as Airflow does and keeps stdout for the document."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from airflow_kafka_lake.core.errors import UnknownSubjectError


def test_document_is_alone_on_stdout_whatever_airflow_logs(tmp_path: Path) -> None:
    """The ledger's connection comes from a secrets backend, the ledger is created on the way, and stdout is JSON."""
    secrets = tmp_path / "connections.json"
    ledger = {"conn_type": "sqlite", "host": str(tmp_path / "ledger.db")}
    secrets.write_text(json.dumps({"kafka_lake_ledger": ledger}))
    env = {
        **{key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW")},
        "AIRFLOW_HOME": str(tmp_path / "home"),
        "AIRFLOW__SECRETS__BACKEND": "airflow.secrets.local_filesystem.LocalFilesystemBackend",
        "AIRFLOW__SECRETS__BACKEND_KWARGS": json.dumps({"connections_file_path": str(secrets)}),
    }
    command = [sys.executable, "-m", "airflow_kafka_lake.cli", "status", "missing", "--json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == UnknownSubjectError.exit_code, done.stderr
    assert json.loads(done.stdout)["error"]["type"] == "UnknownSubjectError"
    assert (tmp_path / "ledger.db").exists()
    assert "Running upgrade" in done.stderr


def test_missing_connection_does_not_set_up_an_airflow(tmp_path: Path) -> None:
    """Where Airflow was never used, asking for a connection leaves nothing behind."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW")}
    command = [sys.executable, "-m", "airflow_kafka_lake.cli", "status", "missing"]
    home = tmp_path / "home"
    done = subprocess.run(command, env=env | {"AIRFLOW_HOME": str(home)}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "AIRFLOW_CONN_KAFKA_LAKE_LEDGER" in done.stderr
    assert not home.exists()
