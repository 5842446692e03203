"""The lake connection: validated once, said to two engines, silent about secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import make_url

from airflow_kafka_lake.adapters.clients import Secrets
from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.jars.cache import JarSet
from airflow_kafka_lake.core.errors import ConnectionSettingsError
from airflow_kafka_lake.wiring.connections import LakeConnection

SQLITE = {
    "format": "iceberg",
    "catalog": "sql",
    "uri": "sqlite:////data/catalog.db",
    "warehouse": "file:///data/warehouse",
}
REST = {"catalog": "rest", "uri": "https://catalog.example.org/api", "warehouse": "main"}
CONF = "spark.sql.catalog.lake"
PASSWORD = "p@ss/w:rd"


def parse(extra: dict[str, Any], password: str | None = None, login: str | None = None) -> LakeSettings:
    """Parse under the id that the examples use."""
    return LakeSettings.parse("lake_default", extra, password=password, login=login)


def test_sqlite_catalog_is_the_same_for_both_engines() -> None:
    """The file, the warehouse, the catalog's name and the layout of its tables agree."""
    settings = parse(SQLITE)
    python, spark = settings.pyiceberg(), settings.spark()
    assert python["uri"].startswith("sqlite:////data/catalog.db")
    assert spark[f"{CONF}.uri"] == "jdbc:sqlite:/data/catalog.db"
    assert python["warehouse"] == spark[f"{CONF}.warehouse"] == "file:///data/warehouse"
    assert (python["type"], python["schema_version"]) == ("sql", "v1")
    assert (spark[f"{CONF}.type"], spark[f"{CONF}.jdbc.schema-version"]) == ("jdbc", "V1")
    assert spark[CONF] == "org.apache.iceberg.spark.SparkCatalog"
    assert "IcebergSparkSessionExtensions" in spark["spark.sql.extensions"]


def test_postgresql_password_field_reaches_both_engines_unharmed() -> None:
    """Special characters are quoted where a URL needs it, and nowhere else."""
    extra = SQLITE | {"uri": "postgresql://db.example.org/catalog?sslmode=require"}
    settings = parse(extra, password=PASSWORD, login="ada")
    spark = settings.spark()
    address, _, options = settings.pyiceberg()["uri"].partition("?")
    assert address == "postgresql+psycopg2://ada:p%40ss%2Fw%3Ard@db.example.org/catalog"
    assert "sslmode=require" in options
    address, _, options = spark[f"{CONF}.uri"].partition("?")
    assert address == "jdbc:postgresql://db.example.org:5432/catalog"
    assert "sslmode=require" in options
    assert (spark[f"{CONF}.jdbc.user"], spark[f"{CONF}.jdbc.password"]) == ("ada", PASSWORD)


def test_pages_of_snapshots_are_for_people_not_for_engines() -> None:
    """The template is checked as the rest is, and reaches neither engine."""
    template = "https://catalog/tables/{table}?snapshot={snapshot}"
    settings = parse(REST | {"snapshot_url": template})
    assert settings.snapshot_url == template
    assert template not in str(settings.pyiceberg() | settings.spark())
    assert parse(REST | {"snapshot_url": ""}).snapshot_url is None
    for wrong in (7, "https://catalog/{table}", "https://u:pw@catalog/{snapshot}", "https://c/{snapshot}?token=pw"):
        with pytest.raises(ConnectionSettingsError, match="snapshot_url is refused") as refused:
            parse(REST | {"snapshot_url": wrong})
        assert "pw" not in str(refused.value)


def test_no_client_waits_for_ever_and_a_connection_can_say_how_long() -> None:
    """Each engine reads its own settings; those of the connection win."""
    for given, (connect, answer) in (({}, ("10000", "60000")), ({"rest.client.socket-timeout-ms": 5}, ("10000", "5"))):
        spark = parse(REST | given).spark()
        assert spark[f"{CONF}.rest.client.connection-timeout-ms"] == connect
        assert spark[f"{CONF}.rest.client.socket-timeout-ms"] == answer
    assert parse(REST).pyiceberg()["s3.request-timeout"] == "60"
    assert parse(REST | {"s3.request-timeout": 2.5}).pyiceberg()["s3.request-timeout"] == "2.5"
    database = "postgresql://db/catalog?connect_timeout=2&tcp_user_timeout=3&socketTimeout=4"
    python = make_url(parse(SQLITE | {"uri": database}).pyiceberg()["uri"]).query
    assert (python["connect_timeout"], python["tcp_user_timeout"], python["keepalives_idle"]) == ("2", "3", "30")
    assert "socketTimeout" not in python
    java = parse(SQLITE | {"uri": database}).spark()[f"{CONF}.uri"]
    assert java.endswith("?connectTimeout=10&socketTimeout=4&tcpKeepAlive=true")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rest.client.socket-timeout-ms", 0),
        ("rest.client.connection-timeout-ms", "10s"),
        ("rest.client.socket-timeout-ms", 1.5),
        ("s3.connect-timeout", "0.0"),
        ("s3.request-timeout", True),
    ],
)
def test_a_time_that_is_none_is_refused(key: str, value: object) -> None:
    """Nought would mean to wait for ever, and a text would fail in the middle of a job."""
    with pytest.raises(ConnectionSettingsError, match=f"'{key}' must be a time in"):
        parse(REST | {key: value})


def test_postgresql_credential_may_stand_in_the_uri() -> None:
    """The other way of writing it gives the same settings."""
    inside = parse(SQLITE | {"uri": "postgresql+psycopg2://ada:p%40ss%2Fw%3Ard@[::1]:5433/catalog"})
    outside = parse(SQLITE | {"uri": "postgresql://[::1]:5433/catalog"}, password=PASSWORD, login="ada")
    assert inside.spark() == outside.spark()
    assert inside.pyiceberg() == outside.pyiceberg()
    assert inside.spark()[f"{CONF}.uri"].startswith("jdbc:postgresql://[::1]:5433/catalog?")


def test_postgresql_socket_is_refused_for_spark_only() -> None:
    """Java has no Unix sockets: the message says what to write instead."""
    settings = parse(SQLITE | {"uri": "postgresql://ada:@/catalog?host=/tmp/socket"})
    assert "host=" in settings.pyiceberg()["uri"]
    with pytest.raises(ConnectionSettingsError, match="needs host and port"):
        settings.spark()


def test_rest_catalog_takes_its_credential_from_the_password_field() -> None:
    """With a login it is `id:secret`, without one the secret alone."""
    settings = parse(REST, password="s3cret", login="client")
    assert settings.pyiceberg()["credential"] == settings.spark()[f"{CONF}.credential"] == "client:s3cret"
    assert parse(REST, password="s3cret").pyiceberg()["credential"] == "s3cret"
    assert "credential" not in parse(REST).pyiceberg()
    assert settings.spark()[f"{CONF}.catalog-impl"] == "airflow_kafka_lake.RestCatalog"


def test_tokens_are_renewed_by_the_credential_unless_an_exchange_is_asked_for() -> None:
    """The settings have the same names in both engines, and their values are no secrets; Iceberg's Java client would
    exchange tokens by default."""
    given = {"oauth2-server-uri": "https://id/token", "scope": "lake", "audience": "a", "resource": "r"}
    tokens = {"token-refresh-enabled": False, "token-expires-in-ms": 60000}
    settings = parse(REST | given | tokens, password="s3cret", login="client")
    said = given | {"token-refresh-enabled": "false", "token-expires-in-ms": "60000"}
    spark = {key.removeprefix(f"{CONF}."): value for key, value in settings.spark().items()}
    assert said.items() <= settings.pyiceberg().items()
    assert said.items() <= spark.items()
    assert spark["token-exchange-enabled"] == "false"
    exchanged = parse(REST | {"token-exchange-enabled": True, "credential": "a:b"}).spark()
    assert exchanged[f"{CONF}.token-exchange-enabled"] == "true"
    assert f"{CONF}.token-exchange-enabled" not in parse(REST | {"token": "t0ken"}).spark()
    assert Secrets(spark).masked("false 60000 s3cret") == "false 60000 ***"
    for key, wrong in (("token-refresh-enabled", "no"), ("token-expires-in-ms", "1h")):
        with pytest.raises(ConnectionSettingsError, match=f"'{key}' must be"):
            parse(REST | {key: wrong})


def test_further_keys_pass_through_to_both_engines() -> None:
    """Storage settings have the same names in both; true and numbers become texts."""
    settings = parse(SQLITE | {"s3.endpoint": "http://s3.example.org", "s3.path-style-access": True})
    for found in (settings.pyiceberg(), {k.removeprefix(f"{CONF}."): v for k, v in settings.spark().items()}):
        assert (found["s3.endpoint"], found["s3.path-style-access"]) == ("http://s3.example.org", "true")


def test_connection_of_the_iceberg_provider_is_read_as_its_hook_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address is the host, login and password are the client's, the kind of catalog is its `type`."""
    extra = {"warehouse": "s3://w/", "s3.region": "eu-1"}
    given = {"conn_type": "iceberg", "host": "https://c/api/", "login": "id", "password": "s3cret", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(given))
    found = LakeConnection().settings
    assert (found.kind, found.uri, found.warehouse, found.credential) == (
        "rest",
        "https://c/api",
        "s3://w",
        "id:s3cret",
    )
    assert found.further == {"s3.region": "eu-1"}
    given |= {"extra": {"type": "sql", "uri": SQLITE["uri"], "warehouse": "file:///w"}, "host": None}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(given))
    assert LakeConnection().settings.uri == SQLITE["uri"]
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(given | {"extra": {"type": "glue"}}))
    with pytest.raises(ConnectionSettingsError, match="'glue' is refused"):
        _ = LakeConnection().settings


def connected(monkeypatch: pytest.MonkeyPatch, conn_type: str, extra: dict[str, Any], **fields: str) -> LakeSettings:
    """Return what a connection of another provider's type says."""
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps({"conn_type": conn_type, "extra": extra, **fields}))
    return LakeConnection().settings


@pytest.mark.parametrize(
    ("warehouse", "service"),
    [("123456789012", "glue"), ("arn:aws:s3tables:eu-central-1:123456789012:bucket/lake", "s3tables")],
)
def test_connection_of_the_amazon_provider_is_a_catalog_that_asks_for_its_signature(
    warehouse: str, service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Region and key are where its hook looks for them, and serve catalog and store, in Python and in Java."""
    extra = {"region_name": "eu-central-1", "aws_session_token": "t0ken", "warehouse": warehouse}
    found = connected(monkeypatch, "aws", extra, login="AKIA", password="s3cret")
    said = {
        "uri": f"https://{service}.eu-central-1.amazonaws.com/iceberg",
        "warehouse": warehouse,
        "rest.sigv4-enabled": "true",
        "rest.signing-name": service,
        "rest.signing-region": "eu-central-1",
        "client.region": "eu-central-1",
    }
    keys = {"access-key-id": "AKIA", "secret-access-key": "s3cret", "session-token": "t0ken"}
    said |= {f"{client}.{name}": value for client in ("s3", "rest", "client") for name, value in keys.items()}
    assert said.items() <= found.pyiceberg().items()
    spark = {key.removeprefix(f"{CONF}."): value for key, value in found.spark().items()}
    assert said.items() <= spark.items()
    assert spark["io-impl"] == "org.apache.iceberg.aws.s3.S3FileIO"
    assert (found.credential, found.jar_sets) == (None, (JarSet.S3,))
    shown = Secrets(found.pyiceberg()).masked(json.dumps(found.pyiceberg()))
    assert not [value for value in keys.values() if value in shown]


def test_connection_of_the_amazon_provider_may_name_another_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then its key is the store's alone, and nothing is signed for the catalog."""
    extra = {"uri": REST["uri"], "region_name": "us-east-1", "endpoint_url": "http://store:9000"}
    found = connected(monkeypatch, "aws", extra, login="AKIA", password="s3cret")
    assert found.uri == REST["uri"]
    assert found.further == {
        "s3.endpoint": "http://store:9000",
        "client.region": "us-east-1",
        "s3.access-key-id": "AKIA",
        "s3.secret-access-key": "s3cret",
    }


def test_what_the_amazon_provider_alone_can_do_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A role that it would take on is none for Spark; a region is nothing to guess."""
    with pytest.raises(ConnectionSettingsError, match="'role_arn' is not known"):
        connected(monkeypatch, "aws", {"region_name": "eu-1", "warehouse": "1", "role_arn": "arn:aws:iam::1:role/x"})
    with pytest.raises(ConnectionSettingsError, match="region_name is missing"):
        connected(monkeypatch, "aws", {"warehouse": "1"}, login="AKIA", password="s3cret")


def test_connection_of_the_google_provider_gives_its_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty fields of its form are as if they were not there; a key's file is for the environment of both engines."""
    extra = {
        "uri": REST["uri"],
        "warehouse": "gs://lake",
        "project": "p1",
        "key_path": "",
        "scope": "https://www.googleapis.com/auth/cloud-platform",
        "num_retries": 5,
    }
    found = connected(monkeypatch, "google_cloud_platform", extra)
    assert (found.kind, found.warehouse, found.further) == ("rest", "gs://lake", {"gcs.project-id": "p1"})
    with pytest.raises(ConnectionSettingsError, match="'keyfile_dict' is not known"):
        connected(monkeypatch, "google_cloud_platform", extra | {"keyfile_dict": '{"private_key": "s3cret"}'})


def test_token_of_googles_store_needs_no_end() -> None:
    """PyArrow refuses one without; an end that is given stays, and where there is no token there is none."""
    token, end = "gcs.oauth2.token", "gcs.oauth2.token-expires-at"
    assert int(parse(SQLITE | {token: "s3cret"}).pyiceberg()[end]) > 1e14
    assert parse(SQLITE | {token: "s3cret", end: "17"}).pyiceberg()[end] == "17"
    assert end not in parse(SQLITE | {"gcs.project-id": "p1"}).pyiceberg()


def test_key_within_a_connection_string_is_masked_alone_too() -> None:
    """Azure's holds the account's key among open settings."""
    told = {"adls.connection-string": "AccountName=lake;AccountKey=c2VjcmV0==;BlobEndpoint=http://store"}
    assert Secrets(told).masked("the key c2VjcmV0== of lake") == "the key *** of lake"


def test_spark_asks_a_rest_catalog_for_keys_as_the_worker_does() -> None:
    """PyIceberg asks by itself; who wants it otherwise says so to both."""
    header = "header.X-Iceberg-Access-Delegation"
    assert parse(REST).spark()[f"{CONF}.{header}"] == "vended-credentials"
    signed = parse(REST | {header: "remote-signing"})
    assert signed.spark()[f"{CONF}.{header}"] == signed.pyiceberg()[header] == "remote-signing"
    assert f"{CONF}.{header}" not in parse(SQLITE).spark()


def test_signature_of_aws_is_asked_of_both_engines() -> None:
    """As Glue and S3 Tables want it; no token is asked for."""
    signed = {"rest.sigv4-enabled": True, "rest.signing-name": "glue", "rest.signing-region": "eu-central-1"}
    settings = parse(REST | signed | {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"})
    said = signed | {"rest.sigv4-enabled": "true"}
    assert said.items() <= settings.pyiceberg().items()
    assert {f"{CONF}.{key}": value for key, value in said.items()}.items() <= settings.spark().items()
    assert settings.jar_sets == (JarSet.S3,)


def test_both_engines_address_a_bucket_alike() -> None:
    """By a path at a store of one's own, as PyIceberg does by itself, or by name where that is said; in one region."""
    at_home = REST | {"s3.endpoint": "http://store", "s3.region": "eu-1"}
    spark = parse(at_home).spark()
    assert (spark[f"{CONF}.s3.path-style-access"], spark[f"{CONF}.client.region"]) == ("true", "eu-1")
    for by_name in ({"s3.path-style-access": False}, {"s3.force-virtual-addressing": True}):
        settings = parse(at_home | by_name)
        assert settings.pyiceberg()["s3.force-virtual-addressing"] == "true"
        assert settings.spark().get(f"{CONF}.s3.path-style-access") in {None, "false"}
    assert f"{CONF}.s3.path-style-access" not in parse(REST | {"warehouse": "s3://lake"}).spark()


def test_files_in_a_store_ask_for_more_jars() -> None:
    """Told by the warehouse, by any key of the store, or by Iceberg's class for it, which is believed first."""
    rest, io = {"catalog": "rest", "uri": "http://catalog:8181"}, "org.apache.iceberg."
    told = {
        JarSet.S3: ("s3://lake/raw s3a://lake", "s3.endpoint", "aws.s3.S3FileIO"),
        JarSet.GCS: ("gs://lake", "gcs.service.host", "gcp.gcs.GCSFileIO"),
        JarSet.AZURE: ("abfss://lake@a.dfs.core.windows.net/raw", "adls.account-name", "azure.adlsv2.ADLSFileIO"),
    }
    for jars, (places, key, java_io) in told.items():
        by_class = {"warehouse": "s3://lake", "s3.endpoint": "x", "io-impl": io + java_io}
        for extra in ({key: "x"}, by_class, *({"warehouse": place} for place in places.split())):
            assert parse(rest | extra).jar_sets == (jars,)
    for extra in ({}, {"s3.endpoint": "x", "io-impl": io + "hadoop.HadoopFileIO"}):
        assert parse(rest | extra).jar_sets == ()


def test_java_io_goes_to_spark_only() -> None:
    """`io-impl` names a Java class, and only one of Iceberg's."""
    settings = parse(SQLITE | {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"})
    assert settings.spark()[f"{CONF}.io-impl"] == "org.apache.iceberg.aws.s3.S3FileIO"
    assert "io-impl" not in settings.pyiceberg()
    with pytest.raises(ConnectionSettingsError, match="io-impl"):
        parse(SQLITE | {"io-impl": "com.example.Mine"})


@pytest.mark.parametrize(
    "key",
    [
        "py-io-impl",
        "py-catalog-impl",
        "catalog-impl",
        "metrics-reporter-impl",
        "s3.client-factory-impl",
        "client.factory",
        "client.credentials-provider",
        "client.credentials-provider.type",
        "rest.auth.type",
    ],
)
def test_keys_that_name_code_are_refused(key: str) -> None:
    """A connection may not choose what code is loaded."""
    with pytest.raises(ConnectionSettingsError, match=r"code to load|not known"):
        parse(SQLITE | {key: "evil.Module"})


@pytest.mark.parametrize("key", ["echo", "type", "jdbc.password", "cache-enabled", "lock-table", "Uri"])
def test_unknown_keys_are_refused_by_name(key: str) -> None:
    """A misspelt key is an error and not silence."""
    with pytest.raises(ConnectionSettingsError, match=key):
        parse(SQLITE | {key: "x"})


@pytest.mark.parametrize(
    ("catalog", "reason"),
    [("hadoop", "not a compare-and-swap"), ("hive", "lock"), ("glue", "REST catalog"), ("nessie", "keeps no branches")],
)
def test_other_catalogs_are_refused_with_the_reason(catalog: str, reason: str) -> None:
    """What cannot publish safely is named, and so is what can."""
    with pytest.raises(ConnectionSettingsError, match=reason) as refused:
        parse(SQLITE | {"catalog": catalog})
    assert "Use 'rest' or 'sql'" in str(refused.value)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"format": "delta"}, "format"),
        ({"catalog": None}, "catalog"),
        ({"catalog": "oracle"}, "catalog"),
        ({"uri": ""}, "uri"),
        ({"uri": "sqlite:///relative.db"}, "uri"),
        ({"uri": "sqlite://"}, "uri"),
        ({"uri": "mysql://db/lake"}, "uri"),
        ({"uri": "postgresql://db"}, "uri"),
        ({"uri": "postgresql://db/lake?options=-c"}, "uri"),
        ({"uri": "not a url"}, "uri"),
        ({"warehouse": None}, "warehouse"),
        ({"warehouse": "data/warehouse"}, "warehouse"),
        ({"s3.endpoint": ["a"]}, "s3.endpoint"),
    ],
)
def test_invalid_values_are_refused_by_key(change: dict[str, Any], key: str) -> None:
    """Every refusal names the connection and the key."""
    with pytest.raises(ConnectionSettingsError, match="lake_default") as refused:
        parse(SQLITE | change)
    assert refused.value.facts == {"connection": "lake_default", "key": key}


def test_two_different_passwords_are_refused_and_neither_is_shown() -> None:
    """Which one counts would be a guess."""
    with pytest.raises(ConnectionSettingsError, match="two different passwords") as refused:
        parse(SQLITE | {"uri": "postgresql://ada:first1@db/lake"}, password="second2")
    assert "first1" not in str(refused.value)
    assert "second2" not in str(refused.value)


def test_credentials_do_not_belong_into_a_rest_uri() -> None:
    """A URI is shown in logs."""
    with pytest.raises(ConnectionSettingsError, match="goes into the password"):
        parse(REST | {"uri": "https://me:secret@catalog.example.org"})


@pytest.mark.parametrize("host", ["a..b", ".b", f"{'a' * 64}.b"])
def test_host_that_no_name_service_can_be_asked_for_is_refused(host: str) -> None:
    """Clients fail over it with an error of no kind that means it."""
    with pytest.raises(ConnectionSettingsError, match="uri of a REST catalog must be"):
        parse(REST | {"uri": f"https://{host}:8181/api"})
    assert parse(REST | {"uri": f"http://[::1]:8181/{host}"}).uri.endswith(host)


def test_absolute_path_becomes_a_file_uri() -> None:
    """Both engines then agree what a warehouse without a scheme means."""
    assert parse(SQLITE | {"warehouse": "/data/warehouse/"}).warehouse == "file:///data/warehouse"


def test_secrets_are_known_by_their_keys_and_never_shown() -> None:
    """Every value that is secret is masked in either engine's words, and `repr` has none of them."""
    rest = parse(REST | {"s3.secret-access-key": "k3y", "token": "t0ken"}, password="s3cret", login="client")
    sql = parse(SQLITE | {"uri": "postgresql://db/lake"}, password=PASSWORD, login="ada")
    for settings, secrets in ((rest, {"k3y", "t0ken", "s3cret"}), (sql, {PASSWORD, "p%40ss%2Fw%3Ard"})):
        assert not [secret for secret in secrets if secret in repr(settings)]
        for properties in (settings.pyiceberg(), settings.spark()):
            shown = Secrets(properties).masked(f"{properties} {PASSWORD if settings is sql else 's3cret'}")
            assert not [secret for secret in secrets if secret in shown]
