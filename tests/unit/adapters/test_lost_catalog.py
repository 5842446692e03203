"""The database of a SQL catalog is lost: the tables are registered anew by their files, and the pipeline goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_kafka_lake.core.errors import IdentityError
from airflow_kafka_lake.core.ledger.guards import landed
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services import pipeline_audit, planning, staging
from airflow_kafka_lake.services.advance import flush
from airflow_kafka_lake.services.decisions import new_id
from bench.audit import synthetic
from bench.synthetic import Log

pytestmark = pytest.mark.unit


def land(ports: Ports, spec: PipelineSpec) -> None:
    """Bring everything that is new into the lake."""
    plan = planning.plan(ports, spec, Bounds(), plan_id=new_id()).plan
    for wave in plan.waves:
        landed(staging.ingest(ports, wave.id))
    ports.ledger.advance(spec.name)
    flush(ports, spec.name)


def lose(home: Path, *, newest: int) -> None:
    """Lose the catalog's database, and register the table with its newest metadata file, or with one before it."""
    (home / "catalog.db").unlink()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{home}/catalog.db", warehouse=f"file://{home}/warehouse")
    catalog.create_namespace("raw")
    for folder, back in (("bench", newest), ("bench__receipts", -1)):
        files = sorted((home / "warehouse" / "raw" / folder / "metadata").glob("*.metadata.json"))
        catalog.register_table(f"raw.{folder}", files[back].as_uri())
    catalog.close()


@pytest.mark.parametrize("newest", [-1, pytest.param(2, marks=pytest.mark.nightly)])
def test_table_is_known_by_its_newest_file_and_rolled_back_by_an_older_one(tmp_path: Path, newest: int) -> None:
    """docs/how-to/disasters.md: nothing is lost or read twice where the file is the newest; else the run says so."""
    log = Log(2, 10, 0)
    with synthetic(tmp_path, log) as (ports, spec):
        land(ports, spec)
        log.offsets += 10
        land(ports, spec)
    lose(tmp_path, newest=newest)
    log.offsets += 10
    with synthetic(tmp_path, log) as (ports, spec):
        assert pipeline_audit.audit(ports, spec).ok is (newest == -1)
        if newest != -1:
            with pytest.raises(IdentityError, match="rolled back"):
                land(ports, spec)
            return
        land(ports, spec)
        report = pipeline_audit.audit(ports, spec)
        assert report.ok
        assert [stream.rows for stream in report.streams] == [30, 30]
