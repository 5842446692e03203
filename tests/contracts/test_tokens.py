"""A token of a REST catalog that ends while a worker has it: renewed before, and after it was refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from requests import Session

from airflow_kafka_lake.adapters.iceberg.catalog import rest_classes
from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.iceberg.table import IcebergLake
from airflow_kafka_lake.core.errors import ConnectionSettingsError
from tests.catalog_proxy import CatalogProxy
from tests.kit.local_lake import KEY, SECRET, LocalLake

pytestmark = pytest.mark.slow
HOUR = 3600


@pytest.fixture
def proxy(foreign_lake: LocalLake) -> Iterator[CatalogProxy]:
    """What stands before a real catalog, with tokens of its own that last for an hour."""
    with CatalogProxy(foreign_lake.uri) as running:
        running.token_seconds = HOUR
        yield running


@pytest.fixture
def lake(foreign_lake: LocalLake, proxy: CatalogProxy) -> Iterator[IcebergLake]:
    """The lake as a worker sees it."""
    made = IcebergLake(LakeSettings.parse("lake_default", foreign_lake.extra(**proxy.addresses), SECRET, KEY))
    yield made
    made.close()


@pytest.mark.parametrize("status", [401, 419])
def test_refused_token_is_replaced_and_the_request_repeated(
    lake: IcebergLake, proxy: CatalogProxy, status: int
) -> None:
    """Also that of a commit, which was not made; a login that is refused as well is a matter of settings."""
    proxy.ended_is = status
    lake.table("tokens.orders").ensure("")
    proxy.end_tokens()
    lake.catalog.load("tokens.orders").append(lake.catalog.load("tokens.orders").scan().to_arrow())
    proxy.end_tokens()
    lake.catalog.load("tokens.orders")
    assert proxy.refused == 2
    proxy.end_tokens()
    proxy.page, proxy.paged = (401, b'{"error": "invalid_client"}'), "/oauth/tokens"
    with pytest.raises(ConnectionSettingsError, match="the catalog refuses the credential"):
        lake.catalog.load("tokens.orders")


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Nought o'clock."""
    return Clock()


def token(proxy: CatalogProxy, clock: Clock, **further: str) -> Any:
    """Return the token of a worker."""
    given = {"credential": f"{KEY}:{SECRET}", **further}
    _, renewed_token = rest_classes()
    return renewed_token(Session(), given, proxy.addresses["oauth2-server-uri"], clock)


def test_token_is_renewed_before_it_ends(proxy: CatalogProxy, clock: Clock) -> None:
    """When four fifths of its time are over, by the credential alone: no exchange is asked for."""
    made = token(proxy, clock, audience="lake", scope="tables")
    seen = []
    for clock.now in (0, 0.79 * HOUR, 0.8 * HOUR, 1.5 * HOUR, 1.6 * HOUR):
        seen.append(made.auth_header())
    assert seen == [f"Bearer granted-{number}" for number in (0, 0, 1, 1, 2)]
    assert proxy.exchanges == 0


def test_server_that_is_away_when_a_token_is_renewed_is_asked_again(proxy: CatalogProxy, clock: Clock) -> None:
    """The token serves until it has ended; then the fault is told."""
    made = token(proxy, clock)
    proxy.page = (503, b"")
    for clock.now in (0.95 * HOUR, 0.95 * HOUR + 1):
        assert made.auth_header() == "Bearer granted-0"
    assert len(proxy.asked) == 2  # not by every request
    clock.now = HOUR
    with pytest.raises(Exception, match="Service Unavailable"):
        made.auth_header()
    proxy.page = None
    clock.now = 2 * HOUR
    assert made.auth_header() == "Bearer granted-1"


@pytest.mark.parametrize(
    ("further", "renewed"), [({"token-refresh-enabled": "false"}, 0), ({"token-expires-in-ms": "1000"}, 1)]
)
def test_settings_say_whether_and_when_a_token_is_renewed(
    proxy: CatalogProxy, clock: Clock, further: dict[str, Any], renewed: int
) -> None:
    """The time in the settings is that of a server that names none."""
    proxy.token_seconds = 0
    made = token(proxy, clock, **further)
    clock.now = 1
    proxy.token_seconds = HOUR
    assert made.auth_header() == f"Bearer granted-{renewed}"
