"""What this package adds to Airflow's API server and its page: the pages that its features offer.

Airflow imports this module in every process, also in Dag processor, scheduler and workers; only the API server asks an
application anything, so each is built when its first request comes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from airflow.sdk.plugins_manager import AirflowPlugin

from airflow_kafka_lake.ports import Site
from airflow_kafka_lake.registration import FEATURES


class OnFirstRequest:
    """An ASGI application that is built when it is first asked something."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build
        self._built: Any = None
        self._building = threading.Lock()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if self._built is None:
            from anyio import to_thread

            await to_thread.run_sync(self.built)
        await self._built(scope, receive, send)

    def built(self) -> Any:
        """Return the application."""
        with self._building:
            if self._built is None:
                self._built = self._build()
        return self._built


def _application(site: Site) -> OnFirstRequest:
    def build() -> Any:
        from airflow_kafka_lake.wiring.assemble import open_ports

        return site.build(open_ports)

    return OnFirstRequest(build)


class KafkaLakePlugin(AirflowPlugin):
    """The pages of the installed features; without such a feature it offers nothing."""

    name = "kafka_lake"
    fastapi_apps: list[Any] = [  # noqa: RUF012  # Airflow's base class has it so
        {"app": _application(site), "url_prefix": site.prefix, "name": site.name} for site in FEATURES.sites
    ]
    external_views: list[Any] = [dict(view) for site in FEATURES.sites for view in site.views]  # noqa: RUF012
