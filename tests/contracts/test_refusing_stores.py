"""What a worker says when S3 refuses: the key of the connection to change, and no secret; or that it may pass."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.iceberg.table import IcebergLake
from airflow_kafka_lake.core.errors import ConnectionSettingsError, UnavailableError
from tests.kit.local_lake import LocalLake
from tests.store_proxy import StoreProxy

pytestmark = pytest.mark.slow
_places = itertools.count(1)


@pytest.fixture
def proxy(foreign_lake: LocalLake) -> Iterator[StoreProxy]:
    """What stands before a real store."""
    with StoreProxy(foreign_lake.endpoint) as running:
        yield running


@pytest.fixture
def lake(foreign_lake: LocalLake, proxy: StoreProxy) -> Iterator[IcebergLake]:
    """A lake whose tables' files are written through it."""
    extra = foreign_lake.extra(**proxy.addresses)
    made = IcebergLake(LakeSettings.parse("lake_default", extra, *foreign_lake.login))
    yield made
    made.close()


@pytest.fixture
def table(lake: IcebergLake) -> str:
    """A table that is there."""
    name = f"refused{next(_places)}.orders"
    lake.table(name).ensure("")
    return name


@pytest.mark.parametrize(
    ("status", "code", "message", "says"),
    [
        (403, "SignatureDoesNotMatch", "", "correct s3.secret-access-key"),
        (403, "InvalidAccessKeyId", "", "correct s3.access-key-id"),
        (400, "InvalidToken", "", "s3.session-token"),
        (400, "ExpiredToken", "The provided token has expired.", "the store's key has expired: renew"),
        (404, "NoSuchBucket", "", "correct warehouse"),
        (400, "AuthorizationHeaderMalformed", "expecting 'eu-central-1'", "correct client.region"),
        (301, "PermanentRedirect", "", "correct client.region"),
        (403, "RequestTimeTooSkewed", "", "this machine's clock"),
        (403, "AccessDenied", "", "Give this user the permission"),
    ],
)
def test_refusal_of_a_store_names_the_setting_to_change(
    lake: IcebergLake, proxy: StoreProxy, table: str, status: int, code: str, message: str, says: str
) -> None:
    """A user's mistake: repeating it does not help."""
    proxy.refuse(status, code, message or "It is refused.")
    with pytest.raises(ConnectionSettingsError, match=says) as refused:
        lake.look(table)
    assert "Correct the connection" in refused.value.message
    assert message[:10] in refused.value.message


def test_busy_store_is_asked_again(lake: IcebergLake, proxy: StoreProxy, table: str) -> None:
    """By its client; what stays busy is worth repeating later."""
    slow = proxy.refuse(503, "SlowDown", times=2)
    assert lake.look(table)
    assert slow.told == 2
    proxy.refuse(503, "SlowDown")
    with pytest.raises(UnavailableError, match="SLOW_DOWN"):
        lake.look(table)


def test_store_without_deletes_is_told_and_serves(lake: IcebergLake, proxy: StoreProxy, table: str) -> None:
    """Nothing that a run needs is removed; where a file stays is said."""
    proxy.refuse(403, "AccessDenied", method="DELETE")
    found = lake.look(table)
    assert found
    assert "not removed, which the store does not permit here (s3://warehouse/" in found
    lake.table(f"{table}_more").ensure("")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"s3.secret-access-key": "another-secret"}, "correct s3.secret-access-key"),
        ({"s3.access-key-id": "another-key"}, "correct s3.access-key-id"),
        ({"s3.session-token": "another-token"}, "s3.session-token"),
        ({"s3.endpoint": "https"}, "correct https:// or http://"),
    ],
)
def test_wrong_setting_is_named_by_a_real_store(
    foreign_lake: LocalLake, table: str, changed: dict[str, str], says: str
) -> None:
    """Without any secret, neither the right one nor the wrong one."""
    extra: dict[str, Any] = foreign_lake.extra(**changed)
    if changed.get("s3.endpoint"):
        extra["s3.endpoint"] = foreign_lake.endpoint.replace("http", "https")
    lake = IcebergLake(LakeSettings.parse("lake_default", extra, *foreign_lake.login))
    with pytest.raises(ConnectionSettingsError, match=says) as refused:
        lake.look(table)
    lake.close()
    assert not [word for word in (*foreign_lake.login, "another-") if word in refused.value.message]
