"""Connections as Airflow resolves them: fast from the environment, clear when missing, silent about values."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_lake.adapters.spark_submit.driver import Engine
from airflow_kafka_lake.core.decoding import Decoding, Format
from airflow_kafka_lake.core.errors import ConnectionSettingsError
from airflow_kafka_lake.core.spark.job import HISTORY
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.hooks import (
    ConnectionHook,
    KafkaSourceHook,
    LakeHook,
    LedgerHook,
    SchemaRegistryHook,
    SparkRunnerHook,
)
from airflow_kafka_lake.wiring import connections
from airflow_kafka_lake.wiring.assemble import open_ports
from airflow_kafka_lake.wiring.connections import (
    EMBEDDED_MASTER,
    ConnectionSettings,
    KafkaConnection,
    LedgerConnection,
    RegistryConnection,
    SparkConnection,
    aget_connection,
    conf_of,
    get_connection,
    history_server,
    idle_seconds_of,
    ledger_url,
    master_of,
)
from tests.registry_server import RegistryServer

SECRET = "s3cr3t-value"
metadata_database_exists = connections._metadata_database_exists


@pytest.fixture(autouse=True)
def outside_airflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on the command line of a machine whose Airflow was never set up."""
    monkeypatch.setattr(connections, "_airflow_is_loaded", lambda: False)
    monkeypatch.setattr(connections, "_metadata_database_exists", lambda: False)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.delenv("AIRFLOW_CONFIG", raising=False)


def given(monkeypatch: pytest.MonkeyPatch, conn_id: str, value: object) -> None:
    """Set a connection's environment variable."""
    text = value if isinstance(value, str) else json.dumps(value)
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", text)


def test_json_of_the_environment_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every field arrives; the extra may be an object or its text."""
    fields = {"conn_type": "postgresql", "host": "db", "port": "5433", "schema": "ledger", "login": "me"}
    given(monkeypatch, "l", {**fields, "password": SECRET, "extra": json.dumps({"sslmode": "require"})})
    found = get_connection("l", "postgres")
    assert found == ConnectionSettings(
        conn_id="l", conn_type="postgres", host="db", port=5433, schema="ledger", login="me", password=SECRET,
        extra={"sslmode": "require"},
    )  # fmt: skip


def test_uri_of_the_environment_is_read_by_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other form that Airflow knows works too."""
    given(monkeypatch, "l", "postgres://me:pa%2Fss@db:5433/ledger?sslmode=require")
    found = get_connection("l", "postgres")
    assert (found.host, found.port, found.schema, found.password) == ("db", 5433, "ledger", "pa/ss")
    assert found.extra == {"sslmode": "require"}


def test_environment_is_read_without_importing_airflow() -> None:
    """Importing Airflow takes seconds; a command whose connections are in the environment does not pay them."""
    code = (
        "import sys; from airflow_kafka_lake.wiring.assemble import open_ports; "
        "from airflow_kafka_lake.wiring.connections import get_connection; get_connection('k', 'kafka'); "
        "print([m for m in sys.modules if m.partition('.')[0] in "
        "('airflow', 'pyspark', 'pyiceberg', 'pyarrow', 'confluent_kafka', 'sqlalchemy', 'kafka')])"
    )
    env = {"AIRFLOW_CONN_K": '{"conn_type": "kafka"}', "AIRFLOW_HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("address", "may_ask"),
    [("airflow-db-not-allowed:///", False), ("sqlite:////nowhere.db", False), ("postgresql://db/airflow", True)],
)
def test_command_of_a_task_does_not_ask_the_metadata_database(
    address: str, monkeypatch: pytest.MonkeyPatch, *, may_ask: bool
) -> None:
    """Airflow gives a task an address that leads nowhere: a connection that is not there is missing, no defect."""
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", address)
    assert metadata_database_exists() is may_ask


@pytest.mark.parametrize("where", ["environment", "file"])
def test_configured_secrets_backend_is_asked_before_the_environment(
    where: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The shortcut is taken only where Airflow would come to the same answer."""
    if where == "environment":
        monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND", "some.Backend")
    else:
        (tmp_path / "airflow.cfg").write_text("[secrets]\nbackend = some.Backend\n")
    asked: list[str] = []
    monkeypatch.setattr(connections, "_from_command_line", asked.append)
    given(monkeypatch, "k", {"conn_type": "kafka"})
    with pytest.raises(ConnectionSettingsError):
        get_connection("k", "kafka")
    assert asked == ["k"]


def test_missing_connection_says_what_to_set() -> None:
    """The sentence names the id, the legal types and the variable to set."""
    with pytest.raises(ConnectionSettingsError) as missing:
        get_connection("kafka_lake_ledger", "sqlite", "postgres")
    for words in ("'kafka_lake_ledger'", "sqlite or postgres", "AIRFLOW_CONN_KAFKA_LAKE_LEDGER", '"conn_type"'):
        assert words in missing.value.message


@pytest.mark.parametrize("hook", [KafkaSourceHook, LakeHook, LedgerHook, SchemaRegistryHook, SparkRunnerHook])
def test_hook_takes_its_connection_by_name_by_place_or_by_default(hook: type[ConnectionHook]) -> None:
    """Airflow gives the name that `conn_name_attr` says, a Dag may give none."""
    name, default = hook.conn_name_attr, hook.default_conn_name
    for made, wanted in ((hook(**{name: "mine"}), "mine"), (hook("mine"), "mine"), (hook(), default)):
        assert (getattr(made, name), getattr(made.connection, name)) == (wanted, wanted)


@pytest.mark.parametrize(
    "legal", [("kafka",), ("lake",), ("sqlite", "postgres"), ("http", "kafka_lake_registry"), ("spark",)]
)
def test_example_for_a_missing_connection_resolves(legal: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be copied from the sentence as it is."""
    with pytest.raises(ConnectionSettingsError) as missing:
        get_connection("nowhere", *legal)
    _, _, example = missing.value.message.partition(", for example to ")
    monkeypatch.setenv("AIRFLOW_CONN_NOWHERE", example)
    assert get_connection("nowhere", *legal).conn_type in legal


@pytest.mark.parametrize(
    "value",
    [
        {"conn_type": "http", "password": SECRET, "extra": {"token": SECRET}},
        '{"conn_type": "kafka", "password": "' + SECRET,
        {"conn_type": "kafka", SECRET: 1} | {"unknown": SECRET},
        {"conn_type": "kafka", "port": SECRET},
        {"conn_type": "kafka", "extra": f"no json {SECRET}"},
        {"conn_type": "kafka", "extra": [SECRET]},
        {"conn_type": "kafka", "host": {"a": SECRET}},
    ],
    ids=["type", "json", "field", "port", "extra-text", "extra-list", "host"],
)
def test_wrong_connection_is_refused_without_its_values(value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong with a connection, its values stay where they are."""
    given(monkeypatch, "k", value)
    with pytest.raises(ConnectionSettingsError) as refused:
        get_connection("k", "kafka")
    if not (isinstance(value, dict) and SECRET in value):
        assert SECRET not in refused.value.message
    assert "'k'" in refused.value.message or "AIRFLOW_CONN_K" in refused.value.message


def test_settings_show_no_secret() -> None:
    """A settings value can be logged."""
    shown = repr(ConnectionSettings(conn_id="k", conn_type="kafka", login="me", password=SECRET, extra={"a": SECRET}))
    assert SECRET not in shown
    assert "me" not in shown


def test_address_instead_of_an_id_is_not_repeated() -> None:
    """A user who passes an address where an id belongs may have put a password into it."""
    with pytest.raises(ConnectionSettingsError) as refused:
        get_connection(f"postgres://me:{SECRET}@db/ledger")
    assert SECRET not in refused.value.message


def test_trigger_resolves_the_same_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triggers run inside Airflow only: its asynchronous way leads to the same value."""
    given(monkeypatch, "k", {"conn_type": "kafka", "extra": {"a": 1}})
    assert asyncio.run(aget_connection("k", "kafka")) == get_connection("k", "kafka")


def test_inside_airflow_the_sdk_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a task the SDK answers, and a connection it does not have is our sentence."""
    from airflow.sdk import BaseHook, Connection
    from airflow.sdk.exceptions import AirflowNotFoundException

    def answer(conn_id: str) -> Connection:
        if conn_id == "lake_default":
            return Connection(conn_id=conn_id, conn_type="lake", password=SECRET, extra='{"format": "iceberg"}')
        raise AirflowNotFoundException("not there")

    monkeypatch.setattr(connections, "_airflow_is_loaded", lambda: True)
    monkeypatch.setattr(BaseHook, "get_connection", answer)
    assert get_connection("lake_default", "lake").extra == {"format": "iceberg"}
    with pytest.raises(ConnectionSettingsError, match="AIRFLOW_CONN_OTHER"):
        get_connection("other", "lake")


def sqlite(path: str | None) -> ConnectionSettings:
    return ConnectionSettings(conn_id="l", conn_type="sqlite", host=path)


def test_server_of_airflow_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its SDK has asked the metadata database: nothing is asked again in a way that is made for a command."""
    monkeypatch.setattr(connections, "_airflow_is_loaded", lambda: True)
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
    monkeypatch.setattr(
        connections, "_from_command_line", lambda conn_id: pytest.fail(f"{conn_id} was asked for again")
    )
    with pytest.raises(ConnectionSettingsError, match="Airflow has no connection 'nowhere'"):
        get_connection("nowhere", "kafka")


def test_ledger_addresses() -> None:
    """A file by its absolute path; a database with its options; a socket's folder as host."""
    assert ledger_url(sqlite("/data/ledger.db")).render_as_string() == "sqlite:////data/ledger.db"
    found = ConnectionSettings(
        conn_id="l", conn_type="postgres", host="db", port=5432, schema="x", login="a", password="b/c", extra={}
    )
    assert ledger_url(found).render_as_string(hide_password=False) == "postgresql+psycopg2://a:b%2Fc@db:5432/x"
    socket = ConnectionSettings(conn_id="l", conn_type="postgres", host="/run/pg", schema="x", extra={})
    assert ledger_url(socket).query == {"host": "/run/pg"}


@pytest.mark.parametrize(
    "connection",
    [
        sqlite("ledger.db"),
        sqlite(":memory:"),
        sqlite(None),
        ConnectionSettings(conn_id="l", conn_type="postgres", host="db"),
        ConnectionSettings(conn_id="l", conn_type="postgres", host="db", schema="x", extra={"passfile": "/etc/x"}),
    ],
)
def test_ledger_address_that_cannot_be_meant_is_refused(connection: ConnectionSettings) -> None:
    """A ledger that every worker would see differently, or that has no database, is no ledger."""
    with pytest.raises(ConnectionSettingsError, match="'l'"):
        ledger_url(connection)


def test_a_dry_run_creates_no_ledger_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its ledger is empty; a missing folder is refused as by a real run, and a file that is there is read."""
    file = tmp_path / "ledger.db"
    for path, refuses in ((file, False), (file.with_name("no") / "ledger.db", True)):
        given(monkeypatch, "kafka_lake_ledger", {"conn_type": "sqlite", "host": str(path)})
        refused = pytest.raises(ConnectionSettingsError, match="there is no folder") if refuses else nullcontext()
        with closing(LedgerConnection().ledger(dry_run=True)) as ledger, refused:
            assert ledger.pipeline("orders") is None
    assert not file.exists()
    given(monkeypatch, "kafka_lake_ledger", {"conn_type": "sqlite", "host": str(file)})
    with closing(LedgerConnection().ledger()) as real:
        known = real.ledger_id()
    with closing(LedgerConnection().ledger(dry_run=True)) as ledger:
        assert ledger.ledger_id() == known


def spark(host: str | None = "local[2]", port: int | None = None, **extra: Any) -> ConnectionSettings:
    return ConnectionSettings(conn_id="s", conn_type="spark", host=host, port=port, extra=extra)


@pytest.mark.parametrize(
    ("connection", "master"),
    [
        (spark("local[2]"), "local[2]"),
        (spark("local[*]"), "local[*]"),
        (spark("yarn"), "yarn"),
        (spark("spark://host", 7077), "spark://host:7077"),
        (spark("k8s://https://host:6443"), "k8s://https://host:6443"),
    ],
)
def test_spark_masters(connection: ConnectionSettings, master: str) -> None:
    """The host is the master, as in the Spark provider."""
    assert master_of(connection) == master


@pytest.mark.parametrize(
    "host", [None, "", "host", "mesos://host", "local[2]; rm", "spark://user@host", "local-cluster[2,1,1024]"]
)
def test_other_masters_are_refused(host: str | None) -> None:
    """Nothing that is not a master reaches a command line, and none is never YARN."""
    with pytest.raises(ConnectionSettingsError, match="'s'"):
        master_of(spark(host))


def test_spark_settings_of_the_extra() -> None:
    """`conf`, Spark's own keys, deploy mode, queue and namespace become Spark settings."""
    extra = {"deploy-mode": "client", "spark-binary": "spark-submit", "queue": "q", "namespace": None}
    more = {"conf": {"spark.executor.memory": "4g", "spark.x": True}, "spark.y": 3, "rest-port": "6066"}
    assert conf_of(spark(**extra, **more)) == {
        "spark.submit.deployMode": "client",
        "spark.yarn.queue": "q",
        "spark.executor.memory": "4g",
        "spark.x": "true",
        "spark.y": "3",
    }
    assert conf_of(spark("yarn", **{"deploy-mode": "cluster"})) == {"spark.submit.deployMode": "cluster"}


@pytest.mark.parametrize(
    "extra",
    [
        {"deploy-mode": "cluster"},
        {"deploy-mode": "x"},
        {"spark-binary": "/tmp/x"},
        {"keytab": "x"},
        {"conf": "x"},
        {"conf": {"a": {}}},
    ],
)
def test_other_settings_of_the_extra_are_refused(extra: dict[str, Any]) -> None:
    """Programs, unknown keys and the cluster mode of a local master are refused by name."""
    with pytest.raises(ConnectionSettingsError, match="'s'"):
        conf_of(spark(**extra))


def test_a_runner_has_the_timeout_of_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half an hour, unless jobs wait longer for their cluster."""

    def quiet(**extra: object) -> float:
        given(monkeypatch, "s", {"conn_type": "spark", "host": "local", "extra": extra})
        return SparkConnection("s").runner(catalog={}, kafka={})._quiet_seconds

    assert (quiet(), quiet(**{"quiet-minutes": 240})) == (1800, 240 * 60)
    assert conf_of(spark("local", **{"quiet-minutes": "240"})) == {}
    for wrong in (0, -1, "ever", 1.5, True):
        with pytest.raises(ConnectionSettingsError, match="whole number of minutes"):
            quiet(**{"quiet-minutes": wrong})


def test_wait_of_a_warm_driver_is_the_connections() -> None:
    """Short where others may need the cluster; none where an application is looked for by the name of its job."""
    assert SparkConnection(None).runner(catalog={}, kafka={})._waits["idle_seconds"] == 600
    assert idle_seconds_of(spark("local[2]")) == 600
    assert [idle_seconds_of(spark(master)) for master in ("yarn", "k8s://https://x", "spark://m:7077")] == [120, 120, 0]
    assert idle_seconds_of(spark("spark://m:7077", **{"idle-minutes": 5})) == 300
    assert idle_seconds_of(spark("local", **{"idle-minutes": "0"})) == 0
    assert conf_of(spark("local", **{"idle-minutes": 3})) == {}
    for wrong in (-1, "ever", 1.5, True):
        with pytest.raises(ConnectionSettingsError, match="idle-minutes must be a whole number"):
            idle_seconds_of(spark("local", **{"idle-minutes": wrong}))


@pytest.mark.parametrize(
    ("extra", "further", "is_warm"),
    [
        ({}, {}, True),
        ({"idle-minutes": 0}, {}, False),
        ({}, {"spark.openlineage.parentRunId": "1"}, False),
        ({"conf": {"spark.openlineage.parentRunId": "1"}}, {}, False),
    ],
)
def test_jobs_share_a_driver_unless_that_is_forbidden(
    monkeypatch: pytest.MonkeyPatch, extra: dict[str, object], further: dict[str, str], *, is_warm: bool
) -> None:
    """An application has one parent for OpenLineage: that of one wave."""
    given(monkeypatch, "s", {"conn_type": "spark", "host": "local", "extra": extra})
    with Engine() as engine:
        jobs = SparkConnection("s").runner(catalog={}, kafka={}, further=further, engine=engine)
        assert (jobs._engine is engine) is is_warm


def test_connection_that_names_a_parent_of_its_applications_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    parent = {"spark.openlineage.parentJobName": "dag.ingest", "spark.openlineage.parentRunId": "1"}
    for number, (own, found) in enumerate(
        [
            ({"spark.executor.memory": "1g"}, {"spark.executor.memory": "1g", **parent}),
            ({"spark.openlineage.parentRunId": "2"}, {"spark.openlineage.parentRunId": "2"}),
        ]
    ):
        given(monkeypatch, f"s{number}", {"conn_type": "spark", "host": "local", "extra": {"conf": own}})
        assert SparkConnection(f"s{number}").runner(catalog={}, kafka={}, further=parent)._conf == found


def test_history_server_is_the_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named in our own word, or in Spark's for YARN; it is no Spark setting, and no other kind of address."""
    assert history_server(spark("local")) is None
    assert history_server(spark("yarn", conf={HISTORY: "history:18080"})) == "http://history:18080"
    named = spark("yarn", conf={HISTORY: "history:18080"}, **{"history-server": "https://spark-history"})
    assert history_server(named) == "https://spark-history"
    assert history_server(spark("yarn", conf={HISTORY: "https://h"}, **{"history-server": ""})) == "https://h"
    assert conf_of(named) == {HISTORY: "history:18080"}
    for wrong in ("javascript:alert(1)", "https://user:pw@history", 7, "history:18080"):
        with pytest.raises(ConnectionSettingsError, match="history-server must be") as refused:
            history_server(spark("local", **{"history-server": wrong}))
        assert "pw" not in str(refused.value)
    given(monkeypatch, "s", {"conn_type": "spark", "host": "local", "extra": {"history-server": "http://h:18080"}})
    runner = SparkConnection("s").runner(catalog={}, kafka={})
    assert runner._history_server == "http://h:18080"


def test_spark_connect_is_refused_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a job brings with it, such a server takes at its own start alone."""
    given(monkeypatch, "s", {"conn_type": "spark_connect", "host": "sc://x"})
    with pytest.raises(ConnectionSettingsError, match="takes no SQL extensions of a job"):
        _ = SparkConnection("s").master_and_conf


def test_no_spark_connection_is_a_local_master_and_a_missing_one_an_error() -> None:
    """Only a pipeline without the section runs on this machine."""
    assert SparkConnection(None).master_and_conf == (EMBEDDED_MASTER, {})
    with pytest.raises(ConnectionSettingsError, match="AIRFLOW_CONN_ABSENT"):
        _ = SparkConnection("absent").master_and_conf


def test_schema_registry_is_opened_by_an_http_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's own fields, and an extra of which every key is known."""
    fields = {"conn_type": "http", "schema": "https", "host": "registry", "port": 8081, "login": "lake"}
    given(monkeypatch, "r", {**fields, "password": SECRET, "extra": {"ssl.ca.location": "/ca.pem"}})
    found = RegistryConnection("r").settings
    assert found.url == "https://registry:8081"
    assert found.options == {"basic.auth.user.info": f"lake:{SECRET}", "ssl.ca.location": "/ca.pem"}
    assert SECRET not in repr(found)
    given(monkeypatch, "r", {**fields, "extra": {"headers": SECRET}})
    worked, words = SchemaRegistryHook("r").test_connection()
    assert not worked
    assert "'headers'" in words
    assert SECRET not in words


def test_schema_registry_answers_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it knows, or why it tells nothing."""
    with RegistryServer() as server:
        given(monkeypatch, "r", {"conn_type": "http", "host": server.url})
        words = f"The schema registry at {server.url} answers; it knows JSON, PROTOBUF, AVRO."
        assert SchemaRegistryHook("r").test_connection() == (True, words)
        server.failing = lambda _: (401, b"")
        worked, words = SchemaRegistryHook("r").test_connection()
    assert not worked
    assert "refuses the login" in words


def test_schemas_come_from_the_registry_that_the_pipeline_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is opened when it is asked, and closed with the rest."""
    decoding = Decoding(format=Format.AVRO, registry="r")
    spec = PipelineSpec(name="orders", topics=("orders",), table="raw.orders", decoding=decoding)
    with RegistryServer() as server:
        server.register("orders-value", "AVRO", '"string"')
        given(monkeypatch, "r", {"conn_type": "http", "host": server.url})
        with open_ports(spec, actor="test", progress=print) as ports:
            assert server.asked == []
            assert ports.schemas.versions("orders-value")[0].text == '"string"'


@pytest.mark.parametrize("decoding", [None, Decoding(format=Format.STRING)], ids=["none", "string"])
def test_pipeline_that_names_no_registry_has_no_schemas(decoding: Decoding | None) -> None:
    """All else works; who asks for schemas is told what is missing."""
    spec = PipelineSpec(name="orders", topics=("orders",), table="raw.orders", decoding=decoding)
    with (
        open_ports(spec, actor="test", progress=print) as ports,
        pytest.raises(ConnectionSettingsError, match=r"'orders' names no schema registry.*\[decode\] registry"),
    ):
        ports.schemas.versions("orders-value")


def test_ledger_of_our_own_type_names_its_database() -> None:
    """One type for both databases, so that one form and one test serve them."""

    def ledger(**fields: Any) -> ConnectionSettings:
        return ConnectionSettings(conn_id="l", conn_type="kafka_lake_ledger", **fields)

    assert ledger_url(ledger(host="/l.db", extra={"database": "sqlite"})).drivername == "sqlite"
    for extra in ({}, {"database": None}, {"database": "postgres", "sslmode": "require"}):
        found = ledger_url(ledger(host="db", schema="x", extra=extra))
        assert (found.drivername, dict(found.query).get("database")) == ("postgresql+psycopg2", None)
    with pytest.raises(ConnectionSettingsError, match="must be sqlite or postgres"):
        ledger_url(ledger(host="db", schema="x", extra={"database": SECRET}))


def page_says(monkeypatch: pytest.MonkeyPatch, *, server: bool = False, **fields: Any) -> tuple[bool, str]:
    """Test a connection as Airflow's connections page does, on a worker or in the server: it is in the environment,
    under an id of its own, as long as the test runs."""
    from airflow.models.connection import Connection as ServerConnection
    from airflow.sdk import Connection

    connection = (ServerConnection if server else Connection)(conn_id="tEsTcOnN", **fields)
    monkeypatch.setattr(connections, "_airflow_is_loaded", lambda: True)
    monkeypatch.setenv("AIRFLOW_CONN_TESTCONN", connection.get_uri())
    return connection.test_connection()


def test_connections_page_tests_a_lake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The catalog is asked, and its warehouse is written to; neither is made by it."""
    lake = {"catalog": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/warehouse"}
    found = page_says(monkeypatch, conn_type="lake", extra=json.dumps(lake))
    place = f"file://{tmp_path}/warehouse"
    assert found == (True, f"The sql catalog answers; a file was written in {place}, read and removed.")
    assert not [*tmp_path.glob("c.db")]
    worked, words = page_says(
        monkeypatch, conn_type="lake", extra=json.dumps({**lake, "warehouse": "file:///proc/nope/warehouse"})
    )
    assert not worked
    assert "write into /proc/nope/warehouse" in words
    worked, words = page_says(
        monkeypatch, conn_type="lake", password=SECRET, extra=json.dumps({**lake, "token-x": SECRET})
    )
    assert not worked
    assert SECRET not in words


@pytest.mark.filterwarnings("ignore:ProvidersManager.hooks is deprecated")  # Airflow's server asks it itself
@pytest.mark.parametrize("server", [True, False], ids=["server", "worker"])
def test_connections_page_tests_a_ledger(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: bool) -> None:
    """The database is asked for the ledger's id and its time, and a line is written and taken back."""
    fields: dict[str, Any] = {"server": server, "conn_type": "kafka_lake_ledger", "extra": '{"database": "sqlite"}'}
    worked, words = page_says(monkeypatch, host=str(tmp_path / "ledger.db"), **fields)
    assert worked, words
    assert re.fullmatch(
        r"The ledger \w{32} of schema \d{4} answers and takes writes; its clock and this .* by [01] s.", words
    )
    worked, words = page_says(monkeypatch, host="relative.db", password=SECRET, **fields)
    assert (worked, "absolute path" in words, SECRET in words) == (False, True, False)


def test_connections_page_tests_a_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that are refused are named, without their values."""
    extra = json.dumps({"bootstrap.servers": "b:1", "plugin.library.paths": SECRET})
    worked, words = page_says(monkeypatch, conn_type="kafka_lake_kafka", extra=extra)
    assert (worked, "plugin.library.paths" in words, SECRET in words) == (False, True, False)


def test_connections_page_tests_a_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry is asked what it knows."""
    with RegistryServer() as server:
        found = page_says(monkeypatch, conn_type="kafka_lake_registry", host=server.url)
    assert found == (True, f"The schema registry at {server.url} answers; it knows JSON, PROTOBUF, AVRO.")


def test_connections_page_tests_a_spark_master(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine is looked at; the words say where jobs would run, or what is missing."""
    monkeypatch.setattr("airflow_kafka_lake.adapters.spark_submit.runner.SparkJobs.check", lambda _: None)
    monkeypatch.setattr("airflow_kafka_lake.adapters.spark_submit.runner.SparkJobs.where", lambda _: "local[2]")
    monkeypatch.setattr(
        "airflow_kafka_lake.adapters.spark_submit.runner.SparkJobs.parts", lambda _: "Java and the jars"
    )
    found = page_says(monkeypatch, conn_type="kafka_lake_spark", host="local[2]")
    assert found == (True, "Jobs run on local[2]; Java and the jars are there.")
    extra = json.dumps({"deploy-mode": "cluster", "spark.kafka_lake.worker.address": "localhost:9000"})
    with socket.create_server(("127.0.0.1", 0)) as master:
        host = f"spark://127.0.0.1:{master.getsockname()[1]}"
        worked, words = page_says(monkeypatch, conn_type="kafka_lake_spark", host=host, extra=extra)
    assert (worked, "Drivers call localhost:9000" in words, "No other machine can call" in words) == (True,) * 3
    worked, words = page_says(monkeypatch, conn_type="kafka_lake_spark", host=f"spark://me:{SECRET}@x")
    assert (worked, SECRET in words) == (False, False)


def test_error_that_no_part_expects_is_reported_without_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library's own words may hold a password."""

    def broken(_: Any) -> str:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(KafkaConnection, "check", broken)
    worked, words = page_says(monkeypatch, conn_type="kafka_lake_kafka")
    assert not worked
    assert words.startswith("testing the connection ended with an unexpected RuntimeError in ")
    assert SECRET not in words


def test_library_that_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the page's button, whichever connection needs it."""

    def broken(_: Any) -> str:
        raise ModuleNotFoundError("No module named 'psycopg2'", name="psycopg2")

    monkeypatch.setattr(KafkaConnection, "check", broken)
    worked, words = page_says(monkeypatch, conn_type="kafka_lake_kafka")
    assert (worked, words.endswith("pip install --upgrade 'airflow-kafka-lake[postgres]'")) == (False, True)


@pytest.mark.parametrize(
    ("conn_type", "extra"), [("kafka_lake_kafka", '{"bootstrap.servers": "no port:x"}'), ("lake", "{}")]
)
def test_connection_of_a_form_is_not_called_by_the_name_that_airflow_gives_it(
    conn_type: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a random one."""
    worked, words = page_says(monkeypatch, conn_type=conn_type, extra=extra)
    told = words.lower()
    assert (worked, "connection under test" in told, "connection '" in told) == (False, True, False), words


def test_command_finds_what_only_the_metadata_database_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of a task the SDK does not ask it: a command does, where Airflow's own commands would."""
    from airflow.sdk import Connection

    def only_there(conn_id: str) -> Connection:
        return Connection(conn_id=conn_id, conn_type="kafka")

    monkeypatch.setattr(connections, "_airflow_is_loaded", lambda: True)
    monkeypatch.setattr(connections, "_from_command_line", only_there)
    assert get_connection("nowhere_else", "kafka").conn_id == "nowhere_else"
