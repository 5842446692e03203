"""Tables in stores of Google's and Azure's protocols, each an emulator: PyIceberg and Spark on the same files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.iceberg.table import IcebergLake
from airflow_kafka_lake.adapters.jars.cache import fetch
from tests.kit.local_stores import AzureStore, GoogleStore
from tests.sandbox import Ended, Sandbox, drivers
from tests.store_proxy import StoreProxy

pytestmark = pytest.mark.nightly
Store = GoogleStore | AzureStore
LAKE, SPARK = "AIRFLOW_CONN_LAKE_DEFAULT", "AIRFLOW_CONN_SPARK_DEFAULT"


@pytest.fixture(scope="module", params=[GoogleStore, AzureStore])
def store(request: pytest.FixtureRequest, service: None) -> Iterator[Store]:
    """A store of each make."""
    if request.param is AzureStore and not shutil.which("npm"):
        pytest.skip("npm brings Azurite, and it is not in PATH")
    fetch(request.param.jars)
    with request.param() as running:
        yield running


def _connected(place: Sandbox, store: Store, spark: Mapping[str, str] | None = None, **changed: Any) -> dict[str, str]:
    """Return the connections of a place whose files are in a store; `changed` are keys of the lake's."""
    lake = {"catalog": "sql", "uri": place.catalog_uri, **store.extra(), **changed}
    return {
        LAKE: json.dumps({"conn_type": "lake", "extra": lake}),
        SPARK: json.dumps({"conn_type": "spark", "host": "local[2]", "extra": dict(spark or {})}),
    }


def _rows(connection: str) -> dict[tuple[int, int], bytes]:
    lake = IcebergLake(LakeSettings.parse("lake_default", json.loads(connection)["extra"]))
    columns = ("kafka_partition", "kafka_offset", "value")
    found = lake.catalog.load("raw.orders").scan(selected_fields=columns).to_arrow().to_pylist()
    lake.close()
    assert len(found) == len({(row["kafka_partition"], row["kafka_offset"]) for row in found})
    return {(row["kafka_partition"], row["kafka_offset"]): row["value"] for row in found}


def test_pipeline_lands_in_a_store_of_a_cloud(sandbox: Sandbox, store: Store) -> None:
    """Planned, read, audited, read again, and the ledger rebuilt from the table; no command line, event log, message
    or ledger has the store's key."""
    place = sandbox
    place.produce(300)
    events = place.home / "events"
    events.mkdir()
    log = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri(), "spark.eventLog.compress": "false"}
    env, said = _connected(place, store, log), []

    def well(*words: str) -> Any:
        started = place.start(*words, "--json", env=env)
        ended = place.end(started)
        said.append(ended.out + ended.err)
        assert ended.code == 0, ended.err or ended.out
        return ended.document

    looked = place.end(place.start("plan", str(place.file), "--dry-run", env=env))
    assert f"a file was written in {store.warehouse}, read and removed" in looked.err
    started = place.start("run", str(place.file), "--json", env=env)
    place.wait_for_job(started)
    (driver,) = drivers(started.pid)
    words = " ".join(driver.cmdline())
    ran = place.end(started)
    assert ran.code == 0, ran.err or ran.out
    assert ran.document["rows"] == 300
    well("audit", place.name)
    well("audit", place.name, "--deep")
    again = ("--topic", place.topic, "--partition", "0", "--from", "2", "--to", "9", "--reason", "because")
    assert well("reopen", place.name, *again)["reopened"] == 7
    assert well("run", str(place.file))["rows"] == 7
    logged = "".join(file.read_text() for file in events.rglob("*") if file.is_file())
    held = b"".join(file.read_bytes() for file in place.home.glob("ledger.db*"))
    for file in place.home.glob("ledger.db*"):
        file.unlink()
    assert well("rebuild", str(place.file))["waves"] == 2
    well("audit", place.name)
    assert place.acknowledged == _rows(env[LAKE])
    assert "spark.sql.catalog.lake.warehouse" in logged
    assert not [text for text in (words, logged, looked.err, ran.err, *said) if store.secret in text]
    assert store.secret.encode() not in held


def test_refusal_of_a_store_of_a_cloud_is_told_in_words(sandbox: Sandbox, store: Store) -> None:
    """A wrong key, and a bucket that is not there: a person has to mend them, and the key is not told."""
    place = sandbox
    place.produce(10)

    def plan(**changed: Any) -> Ended:
        return place.command("plan", str(place.file), env={LAKE: _connected(place, store, **changed)[LAKE]})

    def refused(ended: Ended, says: str) -> None:
        assert (ended.code, says in ended.err) == (1, True), ended.err
        assert "Traceback" not in ended.err
        assert not [key for key in (store.secret, WRONG) if key in ended.err]

    missing = store.warehouse.replace("lake", "nowhere")
    refused(plan(warehouse=missing), "the store has no such bucket: correct warehouse")
    with StoreProxy(store.address) as proxy:
        proxy.refuse(401, "authError")
        is_google = isinstance(store, GoogleStore)
        wrong = store.extra(secret=WRONG, address=proxy.base if is_google else "")
        refused(plan(**wrong), "may not be read or written" if is_google else "the store refuses the key")
    assert plan().code == 0


WRONG = "d3Jvbmcta2V5LTViMWMtd3Jvbmcta2V5LTViMWM="
