"""A client of a running Airflow's public REST API, as far as the demonstration and the tests use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import requests

from airflow_kafka_lake.core.errors import TransientError
from airflow_kafka_lake.local.processes import wait_until

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
        self,
        dag_id: str,
        run_id: str,
        timeout: float,
        on_progress: Callable[[dict[str, str]], None] | None = None,
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
    return task["task_id"] if task["map_index"] < 0 else f"{task['task_id']}[{task['map_index']}]"


def _log_line(line: Mapping[str, Any]) -> str:
    detail = f" {line['error_detail']}" if line.get("error_detail") else ""
    return f"{line.get('timestamp', '')} {line.get('level', '')} {line.get('event', '')}{detail}".strip()
