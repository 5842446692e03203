"""A lake of another make, as the documents say how to connect it: Iceberg REST with OAuth, its files in S3."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import FileSelector

from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.iceberg.table import IcebergLake
from tests.catalog_proxy import MAIN, CatalogProxy, Commit
from tests.kit.local_lake import KEY, SECRET, WAREHOUSE, LocalLake
from tests.sandbox import Ended, Sandbox, drivers
from tests.store_proxy import StoreProxy

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "object-store.md"
LAKE, SPARK = "AIRFLOW_CONN_LAKE_DEFAULT", "AIRFLOW_CONN_SPARK_DEFAULT"


def test_a_pipeline_lands_in_a_rest_catalog_over_s3(sandbox: Sandbox, foreign_lake: LocalLake) -> None:
    """Each command is a process and the job a real submit; neither its command line nor Spark's event log has a secret,
    and what is there is what was produced."""
    place, table = sandbox, f"s3.{sandbox.name.replace('-', '_')}"
    place.write_pipeline(table=table)
    place.produce(300)
    events = place.home / "events"
    events.mkdir()
    spark = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
    }
    env = {
        LAKE: _as_documented(foreign_lake),
        SPARK: json.dumps({"conn_type": "spark", "host": "local[2]", "extra": spark}),
    }

    def dry_run(**changed: str) -> Ended:
        connection = json.dumps(foreign_lake.connection(**changed))
        return place.command("plan", str(place.file), "--dry-run", env={LAKE: connection})

    first = dry_run()
    assert first.code == 0, first.err
    assert f"whether files may be written is known when table {table} is there" in first.err
    for warehouse in ("s3://nowhere", "nowhere"):
        lost = dry_run(warehouse=warehouse)
        assert lost.code == 1, lost.err
        assert "the catalog has no such thing at this address, with this warehouse and prefix" in lost.err
    started = place.start("run", str(place.file), "--json", env=env)
    place.wait_for_job(started)
    (driver,) = drivers(started.pid)
    words = driver.cmdline()
    ran = place.end(started)
    assert ran.code == 0, ran.err or ran.out
    assert ran.document["rows"] == 300
    logged = "".join(log.read_text() for log in events.rglob("*") if log.is_file())
    assert "spark.sql.catalog.lake.s3.endpoint" in logged
    assert not [text for text in (SECRET, KEY) if text in " ".join(words) or text in logged]

    assert f"a file was written in s3://warehouse/{table.replace('.', '/')}/metadata, read and removed" in dry_run().err
    away = dry_run(**{"s3.endpoint": "http://127.0.0.1:1"})
    assert away.code == 3
    assert "Could not write, read and remove a file in s3://warehouse/" in away.err
    wrong = dry_run(**{"s3.secret-access-key": "another-secret"})
    assert wrong.code == 1
    assert "the store refuses the signature: correct s3.secret-access-key" in wrong.err
    assert "another-secret" not in wrong.err
    audited = place.command("audit", str(place.file), "--json", env={LAKE: env[LAKE]})
    assert audited.code == 0, audited.err or audited.out
    assert place.acknowledged == _rows(foreign_lake, table)


def _as_documented(lake: LocalLake) -> str:
    """Return the connection that the page shows, to this store and with its login."""
    (text,) = re.findall(r"AIRFLOW_CONN_LAKE_DEFAULT='(.*?)'", HOW_TO.read_text(encoding="utf-8"), re.DOTALL)
    for shown, real in (
        ("http://catalog:8181", lake.uri),
        ("http://store:8333", lake.endpoint),
        ("CLIENT_ID", KEY),
        ("CLIENT_SECRET", SECRET),
        ('"KEY"', f'"{KEY}"'),
        ('"SECRET"', f'"{SECRET}"'),
    ):
        assert shown in text
        text = text.replace(shown, real)
    return text


def test_a_look_leaves_no_file_behind(foreign_lake: LocalLake) -> None:
    """It is written under a name of Iceberg's own, because a store of tables takes no other, and removed again."""
    lake = _opened(foreign_lake)
    try:
        lake.table("looked.at").ensure("")
        io: Any = lake.catalog.load("looked.at").io
        store, place = io.fs_by_scheme("s3", None), f"s3://{WAREHOUSE}/looked/at/metadata"
        before = _files_below(store, place)
        assert lake.look("looked.at") == f"{place}, read and removed"
        assert _files_below(store, place) == before
    finally:
        lake.close()
    assert before != set()


def _files_below(store: Any, place: str) -> set[str]:
    return {item.path for item in store.get_file_info(FileSelector(place.removeprefix("s3://"), recursive=True))}


def _opened(lake: LocalLake) -> IcebergLake:
    return _opened_as(lake.connection())


def _opened_as(connection: Mapping[str, Any]) -> IcebergLake:
    settings = LakeSettings.parse("lake_default", connection["extra"], connection["password"], connection["login"])
    return IcebergLake(settings)


@pytest.mark.nightly
def test_answers_of_the_catalog_are_looked_at(sandbox: Sandbox, foreign_lake: LocalLake) -> None:
    """The answer of Spark's commit is lost, and that of the publish is a lie: one job, nothing is called landed that is
    not, and the next run publishes what is staged. Each token lasts for two seconds; Spark's has ended in its job."""
    place, name = sandbox, sandbox.name.replace("-", "_")
    place.write_pipeline(table=f"seen.{name}")
    place.produce(300)
    with CatalogProxy(foreign_lake.uri) as proxy:
        env = {
            LAKE: json.dumps(foreign_lake.connection(**proxy.addresses)),
            SPARK: json.dumps({"conn_type": "spark", "host": "local[2]"}),
        }
        planned = place.command("plan", str(place.file), env={LAKE: env[LAKE]})
        assert planned.code == 0, planned.err
        proxy.token_seconds, proxy.keeps_until_ended = 2, f"/tables/{name}"
        lost = proxy.lose_answer(table=name, branch=True)
        proxy.lie(table=name, branch=False, every=True)
        ran = place.end(place.start("run", str(place.file), env=env))
        assert (ran.code, lost.sprung) == (4, 1), ran.err or ran.out
        assert "a new load of the table does not show it" in ran.err
        spark = [grant for grant in proxy.grants if "PyIceberg" not in grant.client]
        assert (len(spark) > 1, proxy.exchanges, proxy.keeps_until_ended) == (True, 0, "")
        assert _rows(foreign_lake, f"seen.{name}") == {}
        proxy.heal()
        again = place.command("run", str(place.file), "--json", env={LAKE: env[LAKE]})
        assert again.code == 0, again.err or again.out
        assert "no job is run" in again.err
        assert place.command("audit", str(place.file), env={LAKE: env[LAKE]}).code == 0
    assert place.acknowledged == _rows(foreign_lake, f"seen.{name}")


@pytest.mark.nightly
def test_commit_that_another_came_before_is_made_again_without_a_second_read(
    sandbox: Sandbox, foreign_lake: LocalLake
) -> None:
    """Three times another branch's commit comes between a job's look at the table and its own commit; the catalog
    refuses it, and one job, which has read each record once, stages and lands them."""
    place, name = sandbox, sandbox.name.replace("-", "_")
    place.write_pipeline(table=f"raced.{name}")
    other, raced = _opened(foreign_lake), []

    def come_first(commit: Commit) -> None:
        if commit.table == name and commit.appends and commit.refs - {MAIN} and len(raced) < 3:
            table = other.catalog.load(f"raced.{name}")
            table.append(table.scan(limit=0).to_arrow(), branch=f"other{len(raced)}")
            raced.append(commit.refs)

    with CatalogProxy(foreign_lake.uri) as proxy:
        env = {LAKE: json.dumps(foreign_lake.connection(**proxy.addresses))}
        place.produce(100)
        assert place.run(env=env).code == 0
        place.produce(200, begin=100)
        proxy.before(come_first)
        ran = place.run(env=env)
        assert (ran.code, len(raced), len({*map(frozenset, raced)})) == (0, 3, 1), ran.err or ran.out
        assert place.command("audit", str(place.file), env=env).code == 0
    other.close()
    assert place.acknowledged == _rows(foreign_lake, f"raced.{name}")


@pytest.mark.nightly
def test_store_that_is_busy_and_deletes_nothing_holds_a_run_up_alone(sandbox: Sandbox, foreign_lake: LocalLake) -> None:
    """Both engines ask again; no file that is to go is needed again."""
    place, name = sandbox, f"busy.{sandbox.name.replace('-', '_')}"
    place.write_pipeline(table=name)
    place.produce(300)
    with StoreProxy(foreign_lake.endpoint) as proxy:
        env = {
            LAKE: json.dumps(foreign_lake.connection(**proxy.addresses)),
            SPARK: json.dumps({"conn_type": "spark", "host": "local[2]"}),
        }
        proxy.refuse(403, "AccessDenied", method="DELETE")
        started = place.start("run", str(place.file), "--json", env=env)
        place.wait_for_job(started)
        slow = proxy.refuse(503, "SlowDown", times=4)
        ran = place.end(started)
        assert (ran.code, ran.document["rows"], slow.told) == (0, 300, 4), ran.err or ran.out
        assert place.command("audit", str(place.file), env={LAKE: env[LAKE]}).code == 0
    assert place.acknowledged == _rows(foreign_lake, name)


def _rows(lake: LocalLake, table: str) -> dict[tuple[int, int], bytes]:
    opened = _opened(lake)
    try:
        rows = opened.catalog.load(table).scan().to_arrow().to_pylist()
    finally:
        opened.close()
    return {(row["kafka_partition"], row["kafka_offset"]): row["value"] for row in rows}


@pytest.fixture(scope="module")
def vending_lake(service: None) -> Iterator[LocalLake]:
    """A catalog that hands out the keys of each table's files."""
    with LocalLake(vends=True) as lake:
        yield lake


@pytest.mark.nightly
def test_a_connection_without_a_key_of_the_store_lands_and_audits(sandbox: Sandbox, vending_lake: LocalLake) -> None:
    """The catalog hands out keys for each table; a run, both audits and the trial of a check take them."""
    place, table = sandbox, f"vended.{sandbox.name.replace('-', '_')}"
    place.write_pipeline(table=table)
    place.produce(300)
    connection = vending_lake.vended()
    assert not [key for key in connection["extra"] if key.startswith("s3.")]
    env = {LAKE: json.dumps(connection), SPARK: json.dumps({"conn_type": "spark", "host": "local[2]"})}
    checked = place.command("check", str(place.file), env=env)
    assert checked.code == 0, checked.out
    ran = place.end(place.start("run", str(place.file), "--json", env=env))
    assert (ran.code, ran.document["rows"]) == (0, 300), ran.err or ran.out
    audited = place.command("audit", str(place.file), "--deep", env=env)
    assert audited.code == 0, audited.err or audited.out
    assert place.acknowledged == _rows(vending_lake, table)
