"""A real Airflow (`airflow standalone`: SQLite, LocalExecutor, the task supervisor) on free ports of 127.0.0.1."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from airflow_kafka_lake.local.airflow_api import AirflowApi
from airflow_kafka_lake.local.processes import LocalServer, free_ports

_START_SECONDS = 240
# The triggerer takes 10 s to end whatever signal it gets; by then every task has got its signal to stop.
_STOP_SECONDS = 6
_USER = "admin"


class LocalAirflow(LocalServer, AirflowApi):
    """An Airflow that lives as long as the `with` block, with a home of its own; nothing of it stays behind.

    `env` adds variables (`AIRFLOW_CONN_…`, `AIRFLOW__KAFKA_LAKE__PIPELINES_FOLDER`, …); those of the caller's own
    Airflow are not passed on. `parallelism` bounds the tasks that run at the same time.
    """

    def __init__(self, *, dags_folder: Path, env: Mapping[str, str] | None = None, parallelism: int = 4) -> None:
        self._port, self._triggerer_log, self._worker_log, self._health = free_ports(4)
        self.home = Path(tempfile.mkdtemp(prefix="kafka-lake-airflow-"))
        AirflowApi.__init__(self, f"http://127.0.0.1:{self._port}", user=_USER, password=self.password)
        LocalServer.__init__(
            self,
            "Airflow",
            self.base_url,
            server_log=self.home / "standalone.log",
            folders=[self.home],
            stop_seconds=_STOP_SECONDS,
        )
        self._dags_folder = dags_folder.absolute()
        self._env = dict(env or {})
        self._parallelism = parallelism

    def password(self) -> str:
        """Return the password of the user `admin`, made by Airflow at the first start."""
        text = (self.home / "simple_auth_manager_passwords.json.generated").read_text(encoding="utf-8")
        return str(json.loads(text)[_USER])

    def start(self) -> Self:
        """Start, or start again on the same home and ports; returns when every component is healthy (30 to 40 s).

        Raises LocalServerError with the end of the log when it does not come up.
        """
        (self.home / "tmp").mkdir(parents=True, exist_ok=True)
        self.launch(
            [self._write_launcher(), "standalone"],
            env=self._environment(),
            cwd=self.home,
            answers=self.healthy,
            timeout=_START_SECONDS,
            every=0.25,
        )
        return self

    def stop(self) -> None:
        """Stop every component and the tasks that still run, and keep the home, for `start()`."""
        # SIGTERM to the parent alone would orphan its children: the whole group gets SIGINT, as from Ctrl-C.
        self.end(signal.SIGINT)

    def close(self) -> None:
        """Stop and remove the home; safe to repeat."""
        self.stop()
        super().close()

    def _write_launcher(self) -> Path:
        """Write the `airflow` that standalone starts its components with.

        The log servers of scheduler and triggerer would listen on every address of the machine; without them the logs
        are read from the shared folder.
        """
        launcher = self.home / "bin" / "airflow"
        launcher.parent.mkdir(exist_ok=True)
        airflow = f"{shlex.quote(sys.executable)} -m airflow"
        launcher.write_text(
            "#!/bin/sh\n"
            'case "$1" in\n'
            f'  scheduler|triggerer) exec {airflow} "$@" --skip-serve-logs ;;\n'
            f'  *) exec {airflow} "$@" ;;\n'
            "esac\n",
            encoding="utf-8",
        )
        launcher.chmod(0o700)
        return launcher

    def _environment(self) -> dict[str, str]:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW_", "_AIRFLOW"))}
        path = [str(self.home / "bin"), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
        return {
            **inherited,
            "PATH": os.pathsep.join(path),
            "TMPDIR": str(self.home / "tmp"),
            "NO_COLOR": "1",
            "AIRFLOW_HOME": str(self.home),
            **{f"AIRFLOW__{key}": value for key, value in self._settings().items()},
            **self._env,
        }

    def _settings(self) -> dict[str, str]:
        return {
            "CORE__DAGS_FOLDER": str(self._dags_folder),
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": str(self._parallelism),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__EXECUTION_API_SERVER_URL": f"{self.base_url}/execution/",
            "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{_USER}:admin",
            "API__BASE_URL": self.base_url,
            "API__HOST": "127.0.0.1",
            "API__PORT": str(self._port),
            "LOGGING__TRIGGER_LOG_SERVER_PORT": str(self._triggerer_log),
            "LOGGING__WORKER_LOG_SERVER_PORT": str(self._worker_log),
            "SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_HOST": "127.0.0.1",
            "SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": str(self._health),
            "SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
            "DAG_PROCESSOR__REFRESH_INTERVAL": "2",
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "15",
            "DAG_PROCESSOR__PARSING_PROCESSES": "1",
            "DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH": str(self.home / "bundles"),
            "USAGE_DATA_COLLECTION__ENABLED": "False",
        }
