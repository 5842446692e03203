"""A real Airflow (`airflow standalone`) on free ports of this machine, and a client of its REST API."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import requests

from airflow_kafka_lake.core.errors import TransientError
from airflow_kafka_lake.local.processes import LocalServer, free_ports, wait_until

# A client of a running Airflow's public REST API, as far as the demonstration and the tests use it.

_ANSWER_SECONDS = 60
_DAG_SECONDS = 90
_ENDED = ("success", "failed")
_PARTS = ("metadatabase", "scheduler", "triggerer", "dag_processor")


class AirflowApiError(TransientError):
    """Airflow refused a request, or did not reach an expected state in time."""


class AirflowApi:
    """A logged-in client of `<base_url>/api/v2`; `password` is asked for at the first request."""

    def __init__(self, base_url: str, *, user: str, password: Callable[[], str]) -> None:
        self.base_url = base_url
        self.user = user
        self.password = password
        self._token = ""

    def api(self, method: str, path: str, json: object = None) -> Any:
        """Send one request to `/api/v2<path>` and return the decoded answer; raise AirflowApiError when refused."""
        if not self._token:
            login = {"username": self.user, "password": self.password()}
            self._token = self._send("POST", "/auth/token", login)["access_token"]
        return self._send(method, f"/api/v2{path}", json)

    def healthy(self) -> bool:
        """Return whether the database, the scheduler, the triggerer and the Dag processor all say so."""
        try:
            parts = self._send("GET", "/api/v2/monitor/health", None)
        except AirflowApiError:
            return False
        return all(parts[name]["status"] == "healthy" for name in _PARTS)

    def unpause(self, dag_id: str) -> None:
        """Wait until the Dag is known, then let its runs start."""
        self.wait_dag(dag_id)
        self.api("PATCH", f"/dags/{dag_id}?update_mask=is_paused", {"is_paused": False})

    def trigger(self, dag_id: str, conf: Mapping[str, object] | None = None) -> str:
        """Wait until the Dag is known, start a run without a date, and return its run id (a paused Dag's run waits)."""
        self.wait_dag(dag_id)
        run = self.api("POST", f"/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": dict(conf or {})})
        return str(run["dag_run_id"])

    def wait_dag(self, dag_id: str, timeout: float = _DAG_SECONDS) -> None:
        """Return when the Dag was parsed; raise AirflowApiError with the import errors when it is not in time."""

        def known() -> bool:
            found = self.api("GET", f"/dags?dag_id_pattern={quote(dag_id)}&limit=100&exclude_stale=true")["dags"]
            return any(dag["dag_id"] == dag_id for dag in found)

        def unknown(why: str) -> AirflowApiError:
            errors = self.api("GET", "/importErrors")["import_errors"]
            shown = "\n".join(f"{error['filename']}: {error['stack_trace']}" for error in errors)
            return AirflowApiError(f"Airflow does not know the Dag {dag_id}: {why}. Import errors: {shown or 'none'}")

        wait_until(known, timeout=timeout, failed=unknown, every=0.5)

    def wait_run(
        self, dag_id: str, run_id: str, timeout: float, on_progress: Callable[[dict[str, str]], None] | None = None
    ) -> dict[str, Any]:
        """Return the run once it succeeded or failed; `on_progress` gets `{task: state}` at every change.

        A mapped task is `<task>[<index>]`. Raises AirflowApiError after `timeout` seconds.
        """
        seen: dict[str, str] = {}
        run: dict[str, Any] = {}

        def ended() -> bool:
            try:
                run.update(self.api("GET", f"/dags/{dag_id}/dagRuns/{quote(run_id)}"))
                now = self.task_states(dag_id, run_id) if on_progress else {}
            except AirflowApiError as error:
                # A server that is too busy to answer leaves the run's state unknown.
                if "status" in error.facts:
                    raise
                return False
            if on_progress and now != seen:
                seen.clear()
                seen.update(now)
                on_progress(now)
            return run["state"] in _ENDED

        def late(why: str) -> AirflowApiError:
            return AirflowApiError(
                f"Run {run_id} of {dag_id} is {run.get('state')}, {why}: {self.task_states(dag_id, run_id)}"
            )

        wait_until(ended, timeout=timeout, failed=late, every=1.0)
        return run

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str]:
        """Return `{task: state}`; a task that the scheduler has not seen yet is `none`."""
        answer = self.api("GET", f"/dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances?limit=500")
        return {_task_name(task): task["state"] or "none" for task in answer["task_instances"]}

    def task_log(self, dag_id: str, run_id: str, task_id: str, *, attempt: int = 1, map_index: int = -1) -> str:
        """Return the text of one try's log."""
        path = f"/dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances/{task_id}/logs/{attempt}"
        lines = self.api("GET", f"{path}?full_content=true&map_index={map_index}")["content"]
        return "\n".join(line if isinstance(line, str) else _log_line(line) for line in lines)

    def _send(self, method: str, path: str, body: Any) -> Any:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        try:
            with requests.Session() as session:
                session.trust_env = False  # 127.0.0.1 is never behind a proxy, whatever the environment says
                answer = session.request(
                    method, self.base_url + path, json=body, headers=headers, timeout=_ANSWER_SECONDS
                )
        except requests.RequestException as error:
            raise AirflowApiError(f"{method} {self.base_url}{path} got no answer: {error}") from error
        if not answer.ok:
            raise AirflowApiError(
                f"{method} {path} was answered {answer.status_code}: {answer.text[:2000]}", status=answer.status_code
            )
        return answer.json() if answer.content else None


def _task_name(task: Mapping[str, Any]) -> str:
    name, index = task["task_id"], task["map_index"]
    return name if index < 0 else f"{name}[{index}]"


def _log_line(line: Mapping[str, Any]) -> str:
    detail = f" {line['error_detail']}" if line.get("error_detail") else ""
    return f"{line.get('timestamp', '')} {line.get('level', '')} {line.get('event', '')}{detail}".strip()


# A real Airflow (`airflow standalone`: SQLite, LocalExecutor, the task supervisor) on free ports of 127.0.0.1.

_START_SECONDS = 240
# The triggerer takes 10 s to end whatever signal it gets; by then every task has got its signal to stop.
_STOP_SECONDS = 6
_USER = "admin"


class LocalAirflow(LocalServer, AirflowApi):
    """An Airflow that lives as long as the `with` block, with a home of its own; nothing of it stays behind.

    `env` adds variables (`AIRFLOW_CONN_…`, `AIRFLOW__KAFKA_LAKE__PIPELINES_FOLDER`, …); those of the caller's own
    Airflow are not passed on.
    """

    def __init__(self, *, dags_folder: Path, env: Mapping[str, str] | None = None) -> None:
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
            "CORE__PARALLELISM": "4",
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
