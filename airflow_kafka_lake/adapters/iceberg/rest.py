"""PyIceberg's REST catalog, whose every request is bounded: PyIceberg itself waits for ever."""

from __future__ import annotations

from functools import partial

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.auth import AuthManager
from requests import Session

from airflow_kafka_lake.adapters.timeouts import REST, REST_ANSWER, REST_CONNECT


class BoundedRestCatalog(RestCatalog):
    """A REST catalog that raises `requests.Timeout` when the server stays silent."""

    def _create_legacy_oauth2_auth_manager(self, session: Session) -> AuthManager:
        # The first thing that PyIceberg does with a new session, and it may already ask the server for a token.
        given = {**REST, **self.properties}
        limits = (float(given[REST_CONNECT]) / 1000, float(given[REST_ANSWER]) / 1000)
        session.request = partial(session.request, timeout=limits)  # type: ignore[method-assign]
        return super()._create_legacy_oauth2_auth_manager(session)
