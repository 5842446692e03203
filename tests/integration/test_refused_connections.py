"""Connections, services and ledgers that are not there or not the right ones: refused or worth repeating, no change."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_kafka_lake.local.processes import free_ports
from tests.silence import SilentServer

if TYPE_CHECKING:
    from airflow_kafka_lake.local.kafka import LocalKafka
    from tests.integration.refusing import Refusals
    from tests.sandbox import Sandbox

SECRET = "s3cret-never-shown"


def _lake(**extra: object) -> dict[str, Any]:
    return {"conn_type": "lake", "extra": {"format": "iceberg", "catalog": "sql", "warehouse": "file:///w", **extra}}


def _closed_port() -> int:
    return free_ports(1)[0]


@pytest.mark.parametrize(
    ("conn_id", "connection", "says"),
    [
        (
            "kafka_default",
            {"conn_type": "kafka", "extra": {"bootstrap.servers": "b:9092", "plugin.library.paths": SECRET}},
            ("connection 'kafka_default'", "'plugin.library.paths'", "not on the list", "Remove it"),
        ),
        (
            "kafka_default",
            {"conn_type": "kafka", "extra": {"bootstrap.servers": "b:9092", "sasl.kerberos.kinit.cmd": SECRET}},
            ("'sasl.kerberos.kinit.cmd'", "Kerberos needs a librdkafka with GSSAPI"),
        ),
        (
            "kafka_default",
            {"conn_type": "kafka", "extra": {"bootstrap.servers": "b:9092", "security.protocl": SECRET}},
            ("'security.protocl'", "did you mean 'security.protocol'?"),
        ),
        (
            "kafka_default",
            {"conn_type": "kafka", "extra": {"bootstrap.servers": f"user:{SECRET}@b:9092"}},
            ("'bootstrap.servers'", "use host:port"),
        ),
        ("kafka_default", {"conn_type": "http", "host": SECRET}, ("is of type 'http'", "kafka is needed")),
        ("lake_default", _lake(catalog="hadoop", uri="x"), ("'hadoop' is refused", "not a compare-and-swap", "'rest'")),
        ("lake_default", _lake(catalog="hive", uri="x"), ("'hive' is refused", "Use 'rest' or 'sql'")),
        ("lake_default", _lake(uri="sqlite:///relative.db"), ("needs an absolute path",)),
        ("lake_default", _lake(uri="sqlite:////no/such/folder/c.db"), ("there is no folder /no/such/folder",)),
        ("lake_default", _lake(uri="sqlite:////tmp/c.db", **{"py-catalog-impl": SECRET}), ("names code to load",)),
        ("lake_default", _lake(), ("the extra needs 'uri'", "sqlite:////data/catalog.db")),
        ("kafka_lake_ledger", {"conn_type": "sqlite", "host": "ledger.db"}, ("must be the absolute path",)),
        (
            "kafka_lake_ledger",
            {"conn_type": "sqlite", "host": "/no/such/folder/ledger.db"},
            ("there is no folder /no/such/folder", "Create it, or correct the ledger connection's host"),
        ),
        (
            "kafka_lake_ledger",
            {"conn_type": "mysql", "host": SECRET},
            ("'mysql'", "sqlite, postgres or kafka_lake_ledger"),
        ),
        ("kafka_lake_ledger", {"conn_type": "postgres", "password": SECRET}, ("names no database",)),
        ("spark_default", {"conn_type": "spark", "host": f"spark://user:{SECRET}@h"}, ("host must be local[N]",)),
        ("spark_default", {"conn_type": "spark", "host": "local", "extra": {"deploy-mode": "cluster"}}, ("client",)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_connection_that_does_not_fit_is_refused(
    conn_id: str, connection: Mapping[str, object], says: tuple[str, ...], refusals: Refusals
) -> None:
    """The connection and the setting are named; its value is not, because it may be a secret."""
    refusals.connect(conn_id, connection)
    command = "run" if conn_id == "spark_default" else "plan"
    found = refusals.refused(command, str(refusals.sandbox.file), kind="ConnectionSettingsError", says=says)
    assert SECRET not in json.dumps(found)


@pytest.mark.parametrize("text", ["{", '{"conn_type": "kafka", "hots": "x"}', '{"conn_type": 7}'])
def test_a_connection_variable_that_cannot_be_read_is_refused(text: str, refusals: Refusals) -> None:
    """The variable is named; what stands in it is not repeated."""
    refusals.monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", text)
    found = refusals.refused("plan", str(refusals.sandbox.file), kind="ConnectionSettingsError")
    assert "kafka_default" in found["message"].lower()


def test_a_spark_connection_that_does_not_fit_refuses_the_plan_before_it_is_recorded(fresh: Refusals) -> None:
    """What could not run is not planned."""
    fresh.sandbox.produce(10)
    fresh.connect("spark_default", {"conn_type": "spark", "host": "nowhere"})
    fresh.refused("plan", str(fresh.sandbox.file), kind="ConnectionSettingsError", says=("'spark_default'",))


@pytest.mark.parametrize("conn_id", ["kafka_default", "lake_default", "kafka_lake_ledger", "spark_default"])
def test_a_missing_connection_is_named_with_an_example(conn_id: str, refusals: Refusals) -> None:
    """Each of the four says how to add it."""
    variable = f"AIRFLOW_CONN_{conn_id.upper()}"
    refusals.monkeypatch.setenv(variable, "")
    says = (f"Airflow has no connection '{conn_id}'", f"environment variable {variable}", '{"conn_type": ')
    refusals.refused("run", str(refusals.sandbox.file), kind="ConnectionSettingsError", says=says)


def test_a_broker_that_does_not_answer_is_worth_repeating(refusals: Refusals) -> None:
    """Exit 3 with the address, in bounded time; silence is not taken for an empty topic."""
    address = f"127.0.0.1:{_closed_port()}"
    refusals.connect("kafka_default", {"conn_type": "kafka", "extra": {"bootstrap.servers": address}})
    says = (address, "kafka_default", "did not answer", "repeat")
    refusals.refused("run", str(refusals.sandbox.file), kind="UnavailableError", says=says)


@pytest.mark.parametrize("silent", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["closed", "silent"])
@pytest.mark.parametrize(
    ("conn_id", "connection", "says"),
    [
        (
            "kafka_lake_ledger",
            {
                "conn_type": "postgres",
                "host": "127.0.0.1",
                "port": 0,
                "schema": "l",
                "login": "u",
                "password": SECRET,
                "extra": {"connect_timeout": 2},
            },
            ("The ledger postgresql", "127.0.0.1:{port}/l", "cannot be used", "repeat"),
        ),
        (
            "lake_default",
            _lake(uri=f"postgresql://u:{SECRET}@127.0.0.1:{{port}}/c?connect_timeout=2"),
            ("load table raw.orders", "'lake_default'"),
        ),
        (
            "lake_default",
            _lake(catalog="rest", uri="http://127.0.0.1:{port}", **{"rest.client.socket-timeout-ms": 300}),
            ("'lake_default'", "Nothing was changed"),
        ),
    ],
    ids=["ledger on PostgreSQL", "catalog on PostgreSQL", "REST catalog"],
)
def test_a_database_that_does_not_answer_is_worth_repeating(
    conn_id: str, connection: dict[str, Any], says: tuple[str, ...], refusals: Refusals, silent: bool
) -> None:
    """Exit 3, with the address and without the password, also where a server takes connections and says nothing."""
    with SilentServer() as server:
        port = server.port if silent else _closed_port()
        given = json.loads(json.dumps(connection).replace("{port}", str(port)).replace('"port": 0', f'"port": {port}'))
        refusals.connect(conn_id, given)
        expected = tuple(part.format(port=port) for part in says)
        found = refusals.refused("plan", str(refusals.sandbox.file), kind="UnavailableError", says=expected)
    assert SECRET not in json.dumps(found)


@pytest.mark.nightly  # by day: what a store refuses (contracts/test_refusing_stores.py)
def test_what_may_not_be_written_is_a_persons_business(sandbox: Sandbox) -> None:
    """Exit 1 and not "repeat": ledger, catalog and warehouse each say what may not be written."""
    from tests.integration.refusing import hold_against_the_rules
    from tests.unprivileged import bound_by_permissions, read_only

    sandbox.produce(5)
    before = bound_by_permissions()

    def refused(*words: str, says: tuple[str, ...]) -> None:
        ended = sandbox.end(sandbox.start(*words, str(sandbox.file), "--json", before=before))
        hold_against_the_rules(ended, code=1, kind="ConnectionSettingsError", says=says)

    guarded = (
        (
            sandbox.home / "warehouse",
            ("Could not write into", "'lake_default'", "this user cannot make anything in", "/warehouse"),
        ),
        (sandbox.home / "catalog.db", ("'lake_default'", "readonly database", "Give this user the permission")),
        (sandbox.ledger, ("The ledger sqlite", "may not be written", "Give this user the permission")),
    )
    (sandbox.home / "catalog.db").touch()
    for place, says in guarded:
        with read_only(place):
            refused("plan", says=says)
    with read_only(*(place for place, _ in guarded)):
        checked = sandbox.end(sandbox.start("check", str(sandbox.file), "--json", before=before))
    failed = {item["part"]: item["error"]["message"] for item in checked.document["checks"] if item["error"]}
    assert checked.code == 1
    ways = {"lake": "this user cannot make anything in", "ledger": "Give this user the permission"}
    assert failed.keys() == ways.keys(), failed
    assert [part for part, way in ways.items() if way not in failed[part]] == [], failed


@pytest.mark.nightly
def test_job_that_may_not_write_is_a_persons_business(sandbox: Sandbox) -> None:
    """Spark's job says it too."""
    from tests.unprivileged import bound_by_permissions, read_only

    sandbox.produce(5)
    assert sandbox.command("plan", str(sandbox.file)).code == 0
    with read_only(*(path for path in (sandbox.home / "warehouse").rglob("*") if path.is_dir())):
        ended = sandbox.end(sandbox.start("run", str(sandbox.file), "--json", before=bound_by_permissions()))
        assert ended.code == 1, ended
        assert "may not write to the lake" in ended.err
    assert sandbox.run().code == 0


def test_a_file_that_is_no_database_is_no_ledger(refusals: Refusals, tmp_path: Path) -> None:
    """Whatever lies there stays as it is."""
    file = tmp_path / "notes.db"
    file.write_text("buy milk\n" * 1000)
    refusals.connect("kafka_lake_ledger", {"conn_type": "sqlite", "host": str(file)})
    refusals.refused("plan", str(refusals.sandbox.file), kind="UnavailableError", says=("notes.db", "not a database"))
    assert file.read_text() == "buy milk\n" * 1000


def test_a_ledger_of_a_newer_package_is_not_touched(refusals: Refusals, tmp_path: Path) -> None:
    """Every command stops, `db upgrade` too, and names both versions."""
    file = tmp_path / "newer.db"
    shutil.copy(refusals.sandbox.ledger, file)
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE kafka_lake_alembic_version SET version_num = '9999'")
    refusals.connect("kafka_lake_ledger", {"conn_type": "sqlite", "host": str(file)})
    says = ("newer.db has schema 9999, newer than", "install the package version that made it", "Nothing was touched")
    pipeline = str(refusals.sandbox.file)
    for words in (("plan", pipeline), ("status", refusals.sandbox.name), ("db", "check"), ("db", "upgrade")):
        found = refusals.refused(*words, kind="LedgerSchemaError", says=says)
        assert found["found"] == "9999"


@pytest.fixture(scope="module")
def committed(kafka: LocalKafka, tmp_path_factory: pytest.TempPathFactory, spark_jars: list[Path]) -> Sandbox:
    """A place after one run; beside its ledger lies a copy from before the run."""
    from tests.sandbox import Sandbox

    place = Sandbox(tmp_path_factory.mktemp("committed") / "place", kafka.bootstrap)
    place.produce(20)
    planned = place.command("plan", str(place.file))
    assert planned.code == 0, planned.err
    shutil.copy(place.ledger, place.home / "older-ledger.db")
    done = place.run()
    assert done.code == 0, done.err
    return place


@pytest.mark.parametrize(
    ("ledger", "says"),
    [
        (
            "older-ledger.db",
            ("holds a commit of wave", "does not know", "is older", "kafka-lake rebuild {name}"),
        ),
        ("empty-ledger.db", ("of another ledger", "If that ledger is lost", "kafka-lake rebuild {name}.toml")),
    ],
)
def test_a_ledger_that_does_not_know_the_lakes_newest_commit_is_refused(
    ledger: str,
    says: tuple[str, ...],
    committed: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A restored backup, or a lost ledger made anew, would read everything a second time: `rebuild` is named."""
    from tests.integration.refusing import Refusals

    refusals = Refusals(committed, monkeypatch, capsys)
    refusals.settle_in()
    refusals.connect("kafka_lake_ledger", {"conn_type": "sqlite", "host": str(committed.home / ledger)})
    file, told = str(committed.file), [text.format(name=committed.name) for text in says]
    for words in (("plan", file), ("plan", file, "--dry-run"), ("run", file)):
        found = refusals.refused(*words, kind="LedgerBehindError", says=("raw.orders", *told))
        assert found["table"] == "raw.orders"
    committed.assert_exact()
