"""Who may see a pipeline, and who may decide about it: Airflow's auth manager says, by Dags and by connections.

A pipeline is as visible as the Dags that have planned it; one that no Dag has planned is as visible as the connection
of its ledger. Nothing of it is kept: each request asks Airflow again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import ConnectionDetails, DagAccessEntity, DagDetails
from airflow.models.connection import Connection
from airflow.models.dag import DagModel

Planners = Mapping[str, frozenset[str]]
"""The pipelines of a ledger by name, each with the Dags that have planned it."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """What one user may do with the pipelines of one ledger; each question may ask Airflow's database."""

    user: BaseUser
    ledger: str

    def seen(self, planners: Planners) -> list[str]:
        """Return the pipelines that the user may see, sorted."""
        readable = self.readable(frozenset[str]().union(*planners.values()))
        return sorted(name for name, dags in planners.items() if (dags & readable if dags else self.reads_ledger))

    def sees(self, dags: Collection[str]) -> bool:
        """Return whether the user may see a pipeline that these Dags have planned."""
        return bool(self.readable(dags)) if dags else self.reads_ledger

    def may_decide(self, dags: Collection[str]) -> bool:
        """Return whether the user, who sees a pipeline that these Dags have planned, may decide about it."""
        return self._triggers(self.readable(dags)) or self._has_connection("PUT")

    def readable(self, dags: Collection[str]) -> frozenset[str]:
        """Return those of some Dags that the user may read."""
        manager = get_auth_manager()
        return frozenset(
            dag
            for team, members in _by_team(dags).items()
            for dag in manager.filter_authorized_dag_ids(dag_ids=members, user=self.user, team_name=team)
        )

    @cached_property
    def reads_ledger(self) -> bool:
        """Whether the user may read the ledger's connection."""
        return self._has_connection("GET")

    def _triggers(self, dags: Collection[str]) -> bool:
        manager = get_auth_manager()
        return any(
            manager.is_authorized_dag(
                method="POST",
                access_entity=DagAccessEntity.RUN,
                details=DagDetails(id=dag, team_name=team),
                user=self.user,
            )
            for team, members in _by_team(dags).items()
            for dag in sorted(members)
        )

    def _has_connection(self, method: ResourceMethod) -> bool:
        details = ConnectionDetails(conn_id=self.ledger, team_name=Connection.get_team_name(self.ledger))
        return get_auth_manager().is_authorized_connection(method=method, details=details, user=self.user)


def _by_team(dags: Collection[str]) -> dict[str | None, set[str]]:
    found: dict[str | None, set[str]] = defaultdict(set)
    teams = DagModel.get_dag_id_to_team_name_mapping(sorted(dags)) if dags else {}
    for dag in dags:
        found[teams.get(dag)].add(dag)
    return found
