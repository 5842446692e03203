"""What a catalog's errors become, and what is left of a connection that is given back."""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from pyiceberg.exceptions import ForbiddenError, OAuthError, UnauthorizedError
from sqlalchemy.exc import OperationalError

from airflow_kafka_lake.adapters.clients import denied, full
from airflow_kafka_lake.adapters.iceberg.catalog import OpenCatalog, _roll_back
from airflow_kafka_lake.adapters.iceberg.commit import _landed
from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.iceberg.table import IcebergLake
from airflow_kafka_lake.core.errors import ConnectionSettingsError, UnavailableError
from airflow_kafka_lake.local.processes import free_ports

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("kind", [UnauthorizedError, ForbiddenError, OAuthError])
def test_credential_that_a_catalog_refuses_is_a_matter_of_settings(kind: type[Exception], tmp_path: Path) -> None:
    """No repetition mends it, and the words are the catalog's."""
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = OpenCatalog(
        LakeSettings.parse(
            "lake_default", {"format": "iceberg", "catalog": "sql", "uri": uri, "warehouse": f"file://{tmp_path}"}
        )
    )
    with pytest.raises(ConnectionSettingsError, match=r"refuses the credential .*expired"), catalog.reaching("look"):
        raise kind("token expired")


def test_a_look_creates_no_catalog_file(tmp_path: Path) -> None:
    """A dry run leaves an empty folder empty; a folder that is missing is named all the same."""
    catalog = OpenCatalog(local(tmp_path))
    assert catalog.find("raw.orders") is None
    assert catalog.look("raw.orders") == f"file://{tmp_path}, read and removed"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConnectionSettingsError, match="there is no folder"):
        OpenCatalog(local(tmp_path / "no" / "such")).find("raw.orders")


@pytest.mark.parametrize("place", ["/proc/nope", "{home}/file/warehouse"])
def test_warehouse_that_cannot_be_made_is_a_matter_of_settings(tmp_path: Path, place: str) -> None:
    """For a check and for the first plan; the key to correct is named."""
    (tmp_path / "file").write_text("not a folder")
    where = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{place.format(home=tmp_path)}"}
    lake = IcebergLake(LakeSettings.parse("lake_default", {"format": "iceberg", "catalog": "sql", **where}))
    words = r"cannot make anything in .* \(warehouse\)"
    with pytest.raises(ConnectionSettingsError, match=words):
        lake.look("raw.orders")
    with pytest.raises(ConnectionSettingsError, match=words):
        lake.table("raw.orders").ensure("")
    with pytest.raises(ConnectionSettingsError, match=words):
        lake.rehearse("raw.orders", "")


def test_connection_that_is_given_back_has_no_open_transaction() -> None:
    """Its next user would see a commit that never was."""
    connection: Any = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (a)")
    connection.execute("INSERT INTO t VALUES (1)")
    assert connection.in_transaction
    _roll_back(connection, SimpleNamespace())  # type: ignore[arg-type]
    assert not connection.in_transaction
    connection.close()


def test_file_that_sqlite_cannot_open_is_denied_only_where_it_is_closed_to_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same word stands for a missing folder or too many open files, and other errors say nothing of the file."""
    file = tmp_path / "catalog.db"

    def failed(code: int) -> OperationalError:
        error = sqlite3.OperationalError("it failed")
        error.sqlite_errorcode = code
        return OperationalError("SELECT 1", None, error)

    assert not denied(failed(sqlite3.SQLITE_CANTOPEN), file)
    assert not denied(failed(sqlite3.SQLITE_CANTOPEN), tmp_path / "missing" / "catalog.db")
    assert not denied(failed(sqlite3.SQLITE_CANTOPEN))
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert denied(failed(sqlite3.SQLITE_CANTOPEN), file)
    assert not denied(failed(sqlite3.SQLITE_BUSY), file)
    assert denied(failed(sqlite3.SQLITE_READONLY), file)


@pytest.mark.parametrize(
    "said",
    [
        "AWS Error ACCESS_DENIED during PutObject operation",
        "Cannot get file info, access denied: gs://lake/raw/orders",
        "job@p.iam.gserviceaccount.com does not have storage.objects.create access to the object",
        "ErrorCode:AuthorizationPermissionMismatch",
    ],
)
def test_right_that_a_store_misses_is_denied(said: str) -> None:
    """In the words of Amazon, PyIceberg, Google and Azure; the last one's error is no OSError."""
    assert denied(OSError(said))
    assert denied(RuntimeError(said))
    assert not denied(OSError("Connection reset by peer"))


def test_disk_without_room_is_told_from_other_trouble(tmp_path: Path) -> None:
    """A person makes room; everything else may pass by itself, or is a matter of permissions."""
    with closing(sqlite3.connect(tmp_path / "small.db")) as database:
        database.execute("PRAGMA max_page_count = 1")
        with pytest.raises(sqlite3.OperationalError) as refused:
            database.execute("CREATE TABLE t (a)")
    assert full(OperationalError("CREATE TABLE t (a)", None, refused.value))
    assert full(OSError(errno.ENOSPC, "No space left on device"))
    assert full(OSError("[Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on device"))
    assert not full(OSError(errno.EACCES, "Permission denied"))
    assert not full(OperationalError("SELECT 1", None, sqlite3.OperationalError("database is locked")))
    unusable = sqlite3.OperationalError("disk I/O error")
    unusable.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
    assert not full(OperationalError("SELECT 1", None, unusable), tmp_path / "roomy.db")
    assert full(OperationalError("SELECT 1", None, unusable), Path("/proc/ledger.db"))  # a file system of no size
    catalog = OpenCatalog(
        LakeSettings.parse(
            "lake_default",
            {
                "format": "iceberg",
                "catalog": "sql",
                "uri": f"sqlite:///{tmp_path}/c.db",
                "warehouse": f"file://{tmp_path}",
            },
        )
    )
    with pytest.raises(UnavailableError, match=r"make room on its disk, then try again"), catalog.reaching("write it"):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_commit_to_a_table_that_is_gone_has_not_landed() -> None:
    """The conflict stays one: the table was dropped, or made anew under another name."""
    catalog: Any = SimpleNamespace(find=lambda _identifier: None)
    assert _landed(catalog, "raw.orders", 1) is None


def local(folder: Path) -> LakeSettings:
    """Return a connection to a catalog of a folder."""
    extra = {"catalog": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
    return LakeSettings.parse("lake_default", extra)


def test_address_that_nobody_listens_at_is_named_in_words(tmp_path: Path) -> None:
    """The library's own text has three errors inside of one another."""
    (port,) = free_ports(1)
    with (
        pytest.raises(
            UnavailableError, match=rf"ConnectionError: 127\.0\.0\.1:{port}: Connection refused\."
        ) as refused,
        OpenCatalog(local(tmp_path)).reaching("look"),
    ):
        requests.get(f"http://127.0.0.1:{port}/v1/config", timeout=5)
    assert "Pool" not in str(refused.value)


def test_certificate_that_is_not_trusted_is_a_matter_of_settings(tmp_path: Path) -> None:
    """Repeating mends no certificate."""
    said = (
        "HTTPSConnectionPool(host='catalog', port=443): Max retries exceeded with url: /v1/config (Caused by SSLError("
        "SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has "
        "expired (_ssl.c:1016)')))"
    )
    with (
        pytest.raises(ConnectionSettingsError, match=r"catalog:443: certificate has expired .*Correct the connection"),
        OpenCatalog(local(tmp_path)).reaching("look"),
    ):
        raise requests.exceptions.SSLError(said)


def test_namespace_that_goes_before_its_first_table_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check that has made it removes it, beside the plan that has seen it."""
    with closing(IcebergLake(local(tmp_path))) as lake:
        api, create = lake.catalog.api, lake.catalog.api.create_table

        def late(*arguments: Any, **named: Any) -> Any:
            monkeypatch.setattr(api, "create_table", create)
            api.drop_namespace("raw")
            return create(*arguments, **named)

        monkeypatch.setattr(api, "create_table", late)
        assert lake.table("raw.orders").ensure("").snapshot is None
