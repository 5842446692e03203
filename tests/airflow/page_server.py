"""Airflow's real API server with the pages in it, over a ledger in SQLite and Kafka and lake in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from fastapi.testclient import TestClient

from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.core.ledger import history
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Ports
from tests.kit.clock import FakeClock
from tests.world import World

ROOT = "/kafka-lake"
COOKIE = "_token"


class PerDagAuthManager(SimpleAuthManager):
    """Airflow's own auth manager, in which a user `NAME:DAG,DAG` may do something with these Dags alone."""

    def is_authorized_dag(self, *, method: Any, user: Any, access_entity: Any = None, details: Any = None) -> bool:
        _, limited, dags = user.username.partition(":")
        if limited and details is not None and details.id not in dags.split(","):
            return False
        return super().is_authorized_dag(method=method, user=user, access_entity=access_entity, details=details)


def token(user: str) -> str:
    """Return the token of a user `ROLE` or `ROLE:DAG,DAG`."""
    from airflow.api_fastapi.app import get_auth_manager

    role = user.partition(":")[0]
    return get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=user, role=role))


@dataclass
class PageServer:
    """What a browser or a program asks of the pages, and the world behind them."""

    client: TestClient
    ledger: SqlLedger
    opened: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world = World(partitions=2, clock=FakeClock(SystemClock().now()))
        self.world.ledger = self.ledger  # type: ignore[assignment]

    def planned_by(self, dag: str | None, pipeline: str = "orders") -> None:
        """Let a task of a Dag, or a person at a command line, plan a pipeline; everything that there is to read."""
        self.world.with_spec(name=pipeline, table=f"raw.{pipeline}")
        actor = history.task(dag, "run", "plan") if dag else "person"
        for partition in (0, 1):
            self.world.produce(3, partition)
        self.world.plan(worker=replace(self.world.worker(), actor=actor))

    @contextmanager
    def open_ports(
        self,
        spec: PipelineSpec,
        *,
        ledger_conn_id: str,
        actor: str,
        progress: Callable[[str], None],
        kafka_seconds: float,
    ) -> Iterator[Ports]:
        """Open the world's ports, as the API server opens real ones."""
        self.opened.append(spec.name)
        yield replace(self.world.worker(), actor=actor)

    def post(self, path: str, body: Any, user: str = "user", **headers: str) -> Any:
        """Decide as a program does, with a bearer token."""
        bearer = {"Authorization": f"Bearer {token(user)}"}
        return self.client.post(ROOT + path, json=body, headers=bearer | headers)

    def decide(self, what: str, user: str = "user", pipeline: str = "orders", **body: Any) -> Any:
        """Decide about a pipeline, with a reason."""
        return self.post(f"/api/pipelines/{pipeline}/{what}", {"reason": "because", **body}, user)

    def browse(self, method: str, path: str, user: str, **asked: Any) -> Any:
        """Ask as a browser does, with Airflow's cookie."""
        headers = asked.pop("headers", {}) | {"Cookie": f"{COOKIE}={token(user)}"}
        return self.client.request(method, ROOT + path, headers=headers, follow_redirects=False, **asked)

    def get(self, path: str, user: str | None = "admin", **headers: str) -> Any:
        """Ask as a program does, with a bearer token; None is a user who is not logged in."""
        bearer = {"Authorization": f"Bearer {token(user)}"} if user else {}
        return self.client.get(ROOT + path, headers=bearer | headers, follow_redirects=False)
