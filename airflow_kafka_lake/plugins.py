"""The pages that this package adds to Airflow's API server.

Airflow imports this module in every process, also in Dag processor, scheduler and workers; only the API server asks an
application anything, so it is built when its first request comes.
"""

from __future__ import annotations

import threading
from typing import Any

from airflow.sdk.plugins_manager import AirflowPlugin

from airflow_kafka_lake.core.addresses import SITE


class OnFirstRequest:
    """The pages as an ASGI application, which is built when it is first asked something."""

    def __init__(self) -> None:
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
                from airflow_kafka_lake.pages.web.routes import build
                from airflow_kafka_lake.wiring.assemble import open_ports

                self._built = build(open_ports)
        return self._built


class KafkaLakePlugin(AirflowPlugin):
    """The pages, and where Airflow's own page shows them."""

    name = "kafka_lake"
    fastapi_apps: list[Any] = [{"app": OnFirstRequest(), "url_prefix": SITE, "name": "Kafka Lake"}]  # noqa: RUF012  # Airflow's base class has it so
    # An address without a leading slash is below `[api] base_url`, whatever path that has.
    external_views: list[Any] = [  # noqa: RUF012
        {"name": "Kafka Lake", "href": "kafka-lake/", "destination": "nav", "url_route": "kafka-lake"},
        {"name": "Kafka Lake", "href": "kafka-lake/dags/{DAG_ID}", "destination": "dag", "url_route": "kafka-lake-dag"},
    ]
