"""One rule says which settings are secret."""

from __future__ import annotations

import re

import pytest

from airflow_kafka_lake.adapters.clients import SPARK_PATTERN, Secrets, is_secret
from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from tests.canaries import documented, planted

pytestmark = pytest.mark.unit

REST = {"catalog": "rest", "uri": "https://catalog.example.org", "warehouse": "main"}


def test_every_documented_secret_is_masked_and_redacted_by_spark() -> None:
    """In the words of either engine; Spark has the same rule as an expression of its own."""
    canaries = planted("lake")
    settings = LakeSettings.parse("lake_default", REST | canaries)
    for properties in (settings.pyiceberg(), settings.spark()):
        assert "canary" not in Secrets(properties).masked(str(properties))
        hidden = {key for key, value in properties.items() if "canary" in value}
        assert len(hidden) == len(canaries)
        assert all(re.search(SPARK_PATTERN, key) for key in hidden)
    assert all(map(is_secret, documented("Spark") + documented("Kafka")))


@pytest.mark.parametrize(
    "key",
    [
        *("sasl.mechanism", "security.protocol", "ssl.keystore.type", "bootstrap.servers", "spark.master"),
        *("s3.endpoint", "adls.auth.shared-key.account.name", "spark.executor.memory", "oauth2-server-uri"),
        *("spark.serializer", "spark.sql.catalog.lake", "s3.path-style-access", "rest.client.socket-timeout-ms"),
    ],
)
def test_what_is_no_secret_stays_readable(key: str) -> None:
    """A log without addresses and protocols would be of no help."""
    assert not is_secret(key)
    assert Secrets({key: "PLAIN"}).masked("speaks PLAIN") == "speaks PLAIN"


def test_a_secret_is_masked_in_the_form_in_which_a_client_says_it() -> None:
    """Without its scheme or its login, and decoded."""
    settings = {
        "header.Authorization": "Bearer abc.def",
        "credential": "me:s3cret-s3cret",
        "s3.proxy-uri": "http://u:p%40q@h",
    }
    assert Secrets(settings).masked("abc.def s3cret-s3cret p%40q p@q me") == "*** *** *** *** me"
    assert re.search(SPARK_PATTERN, settings["s3.proxy-uri"])
    assert Secrets({"adls.token": "true"}).masked("true") == "true"


def test_secrets_inside_values_are_masked() -> None:
    """A password in a JAAS line or a URL is a secret of its own."""
    secrets = Secrets({"uri": "postgresql://me:deep1@host/db", "x": "jdbc:x?user=a&password=deep2", "some.token": "t3"})
    assert secrets.masked("deep1 deep2 t3 host") == "*** *** *** host"
    jaas = Secrets({"sasl.jaas.config": r'Module required username="u" password="a\"b\\c";'})
    assert jaas.masked(r'said a"b\c') == "said ***"
    pem = Secrets({"ssl.keystore.key": "-----BEGIN KEY-----\nMIIEdeep\n-----END KEY-----"})
    assert pem.masked("reads MIIEdeep") == "reads ***"
    assert Secrets({"bootstrap.servers": "b:1", "empty.password": ""}).masked("b:1") == "b:1"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, "canary") for key in ("MYSQL_PWD", "spark.executorEnv.MYSQL_PWD", "PGPASS", "PGPASSFILE", "DB_PASS")),
        *((key, "canary") for key in ("spark.proxy.auth", "http.proxy-auth", "basic.auth.user.info", "db.pwd")),
        *((key, "canary") for key in ("SIGNING_KEY", "masterKey", "GOOGLE_APPLICATION_CREDENTIALS", "ssl.key.pem")),
        ("url", "jdbc:sqlserver://host;user=me;password=canary;encrypt=true"),
        ("url", "Driver={ODBC};Server=host;Uid=me;Pwd=canary"),
        ("url", "jdbc:mysql://host/db?user=me&pwd=canary"),
        ("url", "jdbc:oracle:thin:scott/canary@//host:1521/orders"),
        ("url", "amqp://me:canary@host:5672/orders"),
        ("url", "http://:canary@host"),
        ("url", "DefaultEndpointsProtocol=https;AccountName=me;AccountKey=canary"),
        ("options", "-Xss2m -Dproxy.masterKey=canary"),
        ("options", "-Dfirst=-Dsecond.password='canary'"),
        ("options", 'MYSQL_PWD = "canary"'),
    ],
)
def test_secret_is_known_by_its_name_or_by_its_place_in_a_value(key: str, value: str) -> None:
    assert is_secret(key, value)
    assert Secrets({key: value}).masked("says canary") == "says ***"
    assert re.search(SPARK_PATTERN, key) or re.search(SPARK_PATTERN, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.yarn.queue", "tokens"),
        ("table", "passwords_archive"),
        ("query", "SELECT token FROM passwords_archive WHERE day = 1"),
        ("spark.bypass", "on"),
        ("spark.hadoop.hadoop.security.authorization", "on"),
        ("ssl.client.auth", "required"),
        ("uri", "https://host:8443/catalog@main"),
        ("uri", "jdbc:postgresql://host:5432/pwd_changes?user=me&ssl=on"),
        ("spark.kubernetes.namespace", "private-lake"),
        ("partition", "keys=8;compass=on"),
        ("spark.jars", "/opt/secrets/driver.jar,https://host/token.jar"),
    ],
)
def test_name_that_is_like_a_secrets_is_shown_where_it_tells_none(key: str, value: str) -> None:
    """A submission without such a setting would be another one."""
    assert not is_secret(key, value)
    assert Secrets({key: value}).masked(f"says {value}") == f"says {value}"
