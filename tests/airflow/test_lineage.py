"""Lineage of a wave for OpenLineage's provider: which datasets a task names, and when it asks for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_lake import signals
from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.iceberg.table import IcebergLake
from airflow_kafka_lake.operators.ingest import IngestWaveOperator
from airflow_kafka_lake.operators.plan import PlanIngestOperator
from airflow_kafka_lake.signals import parent_properties

from .conftest import ORDERS, World

pytest.importorskip("openlineage.client", reason="the extra openlineage is not installed")

Context = dict[str, Any]
KAFKA = {
    "conn_type": "kafka",
    "extra": {
        "bootstrap.servers": "broker-1:9093,broker-2:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "canary-user",
        "sasl.password": "canary-kafka",
    },
}


@pytest.fixture(autouse=True)
def connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LakeSettings:
    """A real catalog with an empty table, and a broker that is never asked."""
    extra = {"catalog": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
    settings = LakeSettings.parse("lake_default", extra)
    lake = IcebergLake(settings)
    lake.table("raw.orders").ensure("")
    lake.close()
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps({"conn_type": "lake", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(KAFKA))
    return settings


@pytest.fixture
def sends(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An Airflow that sends events somewhere."""
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", '{"type": "console"}')
    _forget()
    yield
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    """Let the provider read its settings anew."""
    from airflow.providers.openlineage import conf

    for item in vars(conf).values():
        if hasattr(item, "cache_clear"):
            item.cache_clear()


def planned(world: World, context: Context) -> str:
    world.produce(5)
    context["ti"].task_id = "plan"
    (wave,) = PlanIngestOperator(task_id="plan", pipeline=ORDERS).execute(context)
    context["ti"].task_id = "ingest"
    return wave


def extracted(task: Any) -> dict[str, Any]:
    """Return what the provider's own extractor finds, as it would send it."""
    from airflow.providers.openlineage.extractors.base import DefaultExtractor
    from openlineage.client.serde import Serde

    found = DefaultExtractor(task).extract_on_complete(None)
    return {} if found is None else json.loads(Serde.to_json(found))


def test_wave_reads_topics_and_writes_a_version_of_a_table(
    world: World, context: Context, sends: None, tmp_path: Path
) -> None:
    """Offsets, rows and bytes, the snapshot, the columns, and the name in the catalog beside that of the place."""
    wave = planned(world, context)
    task = IngestWaveOperator(task_id="ingest", wave=wave)
    task.execute(context)
    (attempt,) = world.ledger.attempts(wave)
    found = extracted(task)
    ((topic,), (table,)) = found["inputs"], found["outputs"]
    assert (topic["namespace"], topic["name"]) == ("kafka://broker-1:9093", "orders")
    assert topic["inputFacets"]["inputStatistics"]["rowCount"] == 5
    offsets = topic["inputFacets"]["kafkaLake_offsets"]
    assert (offsets["ranges"], offsets["rangeCount"], offsets["offsets"]) == (
        [{"partition": 0, "from": 0, "to": 5}], 1, 5
    )  # fmt: skip
    assert (table["namespace"], table["name"]) == ("file", f"{tmp_path}/lake/raw/orders")
    assert table["facets"]["version"]["datasetVersion"] == str(world.ledger.wave(wave).snapshot)
    assert table["facets"]["storage"]["storageLayer"] == "iceberg"
    assert {"kafka_offset", "value", "ingest_attempt"} <= {item["name"] for item in table["facets"]["schema"]["fields"]}
    assert [(item["namespace"], item["name"]) for item in table["facets"]["symlinks"]["identifiers"]] == [
        (f"file://{tmp_path}/lake", "raw.orders")
    ]
    statistics = table["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"]) == (5, attempt.staged_bytes)
    run = found["run_facets"]["kafkaLake_wave"]
    assert (run["pipeline"], run["wave"], run["attempt"]) == ("orders", wave, attempt.attempt)
    assert "canary" not in json.dumps(found)


def test_task_that_landed_nothing_names_no_dataset(world: World, context: Context, sends: None) -> None:
    """One that found the wave in the lake, and one that never ran."""
    wave = planned(world, context)
    IngestWaveOperator(task_id="ingest", wave=wave).execute(context)
    again = IngestWaveOperator(task_id="ingest", wave=wave)
    assert extracted(again) == {}
    again.execute(context)
    assert extracted(again) == {}


def test_lineage_that_cannot_be_had_fails_nothing(
    world: World, context: Context, sends: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The wave lands; the log has the kind of the problem, and no secret."""
    task = IngestWaveOperator(task_id="ingest", wave=planned(world, context))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(KAFKA | {"conn_type": "canary"}))
    with caplog.at_level("INFO"):
        assert task.execute(context)["state"] == "COMMITTED"
    assert "lineage could not be shown (ConnectionSettingsError)" in caplog.text
    assert "canary" not in caplog.text
    assert extracted(task) == {}


def test_no_broker_is_asked_where_nothing_is_sent(
    world: World, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a transport the table is not looked at, nor without the provider."""
    _forget()
    assert not signals.is_sent()
    task = IngestWaveOperator(task_id="ingest", wave=planned(world, context))
    task.execute(context)
    assert extracted(task) == {}
    monkeypatch.setitem(__import__("sys").modules, "airflow.providers.openlineage", None)
    assert not signals.is_sent()


def test_spark_is_told_its_parent_where_it_is_asked_for(
    world: World, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Airflow's setting or by the task's own."""
    from airflow.providers.openlineage.utils import spark

    parent = {"spark.openlineage.parentJobName": "dag.ingest", "spark.openlineage.parentRunId": "1"}
    monkeypatch.setattr(spark, "_get_parent_job_information_as_spark_properties", lambda context: dict(parent))
    wave = planned(world, context)
    IngestWaveOperator(task_id="ingest", wave=wave, openlineage_inject_parent_job_info=True).execute(context)
    assert world.opened[-1]["spark_conf"] == parent == parent_properties(context)


def test_spark_has_no_parent_unless_it_is_asked_for(world: World, context: Context) -> None:
    """Settings of an agent that is not installed are of no use."""
    IngestWaveOperator(task_id="ingest", wave=planned(world, context)).execute(context)
    assert world.opened[-1]["spark_conf"] == {}
