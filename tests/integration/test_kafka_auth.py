"""One connection lets all three clients in, at every kind of door a broker has."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from airflow_kafka_lake.adapters.kafka.source import KafkaOffsetSource
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.adapters.kafka_python import arguments
from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.adapters.spark_submit.submission import token_options
from airflow_kafka_lake.core.errors import ConnectionSettingsError, KafkaLakeError, UnavailableError
from airflow_kafka_lake.local.kafka import LocalKafka

if TYPE_CHECKING:
    from tests.integration.refusing import Refusals

pytestmark = pytest.mark.nightly

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient

TOPIC = "behind-the-door"
USER = "reader"
SECRET = "a\"b\\c; d='e' #!:\""
"""Everything that Java's login configuration, its properties files and shells read in their own way."""

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def escaped(value: str) -> str:
    """Write a value for a Java properties file."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


@pytest.fixture(scope="module")
def guarded(service: None, certificate: tuple[Path, Path]) -> Iterator[LocalKafka]:
    """A broker with a door of each kind, and a topic to be seen behind them."""
    cert, key = certificate
    both = cert.with_name("both.pem")
    both.write_text(key.read_text() + cert.read_text())
    quoted = SECRET.replace("\\", "\\\\").replace('"', '\\"')
    logins: dict[str, str] = {}
    for door in ("login", "both"):
        logins[f"listener.name.{door}.plain.sasl.jaas.config"] = escaped(f'{PLAIN} required user_{USER}="{quoted}";')
        for kind in ("scram-sha-256", "scram-sha-512"):
            logins[f"listener.name.{door}.{kind}.sasl.jaas.config"] = f"{SCRAM} required;"
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(both),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(cert),
        "listener.name.tls.ssl.client.auth": "required",
        **logins,
    }
    doors = {"LOGIN": "SASL_PLAINTEXT", "TLS": "SSL", "BOTH": "SASL_SSL"}
    with LocalKafka(settings=settings, listeners=doors) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(120)
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            known = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), SECRET.encode())
            admin.alter_user_scram_credentials([known])[USER].result(120)
        yield broker


def by_librdkafka(settings: KafkaSettings, broker: LocalKafka, folder: Path) -> bool:
    return TOPIC in KafkaOffsetSource(settings, clock=SystemClock()).topics([], ".*")


def by_kafka_python(settings: KafkaSettings, broker: LocalKafka, folder: Path) -> bool:
    admin = KafkaAdminClient(**arguments(settings))
    try:
        return TOPIC in admin.list_topics()
    finally:
        admin.close()


def by_java(settings: KafkaSettings, broker: LocalKafka, folder: Path) -> bool:
    file = folder / "client.properties"
    file.touch(mode=0o600)
    file.write_text("".join(f"{key}={escaped(value)}\n" for key, value in settings.java().items()))
    given = ["--bootstrap-server", settings.bootstrap, "--command-config", str(file), "--list"]
    allowed = token_options(settings.java())
    return TOPIC in broker.tool("org.apache.kafka.tools.TopicCommand", *given, java=allowed).split()


CLIENTS = [by_librdkafka, by_kafka_python, by_java]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("door", "extra"),
    [
        ("LOGIN", {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}),
        ("LOGIN", {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}),
        ("BOTH", {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}),
        ("TLS", {"security.protocol": "SSL"}),
    ],
    ids=["plain", "scram", "scram over tls", "client certificate"],
)
def test_every_client_gets_in(
    guarded: LocalKafka,
    certificate: tuple[Path, Path],
    tmp_path: Path,
    door: str,
    extra: Mapping[str, str],
    client: Callable[[KafkaSettings, LocalKafka, Path], bool],
) -> None:
    """The same extra, translated, opens the same door."""
    cert, key = certificate
    options: dict[str, str] = {"bootstrap.servers": guarded.address(door), **extra}
    if "SASL" in extra["security.protocol"]:
        options |= {"sasl.username": USER, "sasl.password": SECRET}
    if "SSL" in extra["security.protocol"]:
        options["ssl.ca.location"] = str(cert)
    if door == "TLS":
        options |= {"ssl.certificate.location": str(cert), "ssl.key.pem": key.read_text()}
    assert client(KafkaSettings.parse(options), guarded, tmp_path)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_wrong_password_is_the_connections_mistake(guarded: LocalKafka, mechanism: str) -> None:
    """It is not tried until the time is up (an hour), the message says what to check, and no secret is in it."""
    options = {"bootstrap.servers": guarded.address("LOGIN"), "security.protocol": "SASL_PLAINTEXT"}
    login = {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": "hunter2-is-wrong"}
    settings = KafkaSettings.parse({**options, **login}, connection="mine")
    source = KafkaOffsetSource(settings, clock=SystemClock(), timeout_seconds=3600)
    with pytest.raises(ConnectionSettingsError, match=r"'mine'.*the login is not accepted") as caught:
        source.check()
    assert "hunter2" not in caught.value.message


def test_unknown_certificate_is_not_trusted(guarded: LocalKafka) -> None:
    """A broker whose certificate no authority vouches for is not spoken to."""
    extra = {"bootstrap.servers": guarded.address("BOTH"), "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    login = {"sasl.username": USER, "sasl.password": SECRET}
    source = KafkaOffsetSource(KafkaSettings.parse({**extra, **login}), clock=SystemClock(), timeout_seconds=5)
    with pytest.raises(ConnectionSettingsError, match="certificate"):
        source.check()


@pytest.mark.parametrize(
    ("door", "extra", "says"),
    [
        ("LOGIN", {"security.protocol": "SASL_PLAINTEXT", "sasl.password": "hunter2-is-wrong"}, "sasl.password"),
        ("BOTH", {"security.protocol": "SASL_SSL", "sasl.password": SECRET}, "ssl.ca.location"),
        ("NAME", {"security.protocol": "SASL_SSL", "sasl.password": SECRET}, "names in bootstrap.servers"),
    ],
    ids=["wrong secret", "unknown authority", "name that is not in the certificate"],
)
def test_refused_door_is_told_alike_by_check_plan_and_run(
    guarded: LocalKafka,
    certificate: tuple[Path, Path],
    refusals: Refusals,
    door: str,
    extra: Mapping[str, str],
    says: str,
) -> None:
    """Each names the key to change, changes nothing and shows no secret."""
    from tests.integration.refusing import state_of

    login = {"sasl.mechanism": "PLAIN", "sasl.username": USER, **extra}
    address = guarded.address("BOTH" if door == "NAME" else door)
    if door == "NAME":
        login["ssl.ca.location"] = str(certificate[0])
        address = address.replace("127.0.0.1", "localhost")
    refusals.connect("kafka_default", {"conn_type": "kafka", "extra": {"bootstrap.servers": address, **login}})
    before, file = state_of(refusals.sandbox), str(refusals.sandbox.file)
    checked = refusals.command("check", file, "--json")
    told = next(item["error"] for item in checked.document["checks"] if item["part"] == "kafka")
    for ended in (refusals.command("plan", file, "--dry-run", "--json"), refusals.command("run", file, "--json")):
        error = ended.document["error"]
        assert (ended.code, error["type"], says in error["message"]) == (1, told["type"], True), ended
        assert extra["sasl.password"] not in ended.out + ended.err
    assert (checked.code, told["type"], says in told["message"]) == (1, "ConnectionSettingsError", True), checked
    assert extra["sasl.password"] not in checked.out + checked.err
    assert state_of(refusals.sandbox) == before


def test_plaintext_at_a_guarded_door_ends_in_time(guarded: LocalKafka) -> None:
    """A forgotten protocol is an error within the time, not a connection that hangs."""
    settings = KafkaSettings.parse({"bootstrap.servers": guarded.address("BOTH")})
    with pytest.raises(KafkaLakeError):
        KafkaOffsetSource(settings, clock=SystemClock(), timeout_seconds=3).check()


@pytest.fixture(scope="module")
def web_server() -> Iterator[str]:
    """The address of an HTTP server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("door", "says", "found"),
    [
        ("HTTP", "PLAINTEXT", "an HTTP server is there"),
        ("TLS", "PLAINTEXT", "a server with TLS is there"),
        ("BOTH", "PLAINTEXT", "security.protocol SASL_SSL is there"),
        ("BOTH", "SSL", "security.protocol SASL_SSL is there"),
        ("LOGIN", "PLAINTEXT", "security.protocol SASL_PLAINTEXT is there"),
        ("PLAINTEXT", "SSL", "security.protocol PLAINTEXT is there"),
    ],
)
def test_a_port_of_another_protocol_is_a_wrong_setting(
    guarded: LocalKafka, web_server: str, certificate: tuple[Path, Path], door: str, says: str, found: str
) -> None:
    """librdkafka calls each of them a broker that does not answer, which would be worth repeating."""
    address = web_server if door == "HTTP" else guarded.address(door)
    trust = {"ssl.ca.location": str(certificate[0])} if says == "SSL" else {}
    settings = KafkaSettings.parse({"bootstrap.servers": address, "security.protocol": says, **trust})
    with pytest.raises(ConnectionSettingsError, match=f"{re.escape(found)}, and the connection says {says}"):
        KafkaOffsetSource(settings, clock=SystemClock(), timeout_seconds=3).topics([TOPIC], None)


def test_a_port_where_nothing_listens_is_worth_repeating(service: None) -> None:
    """A broker that is down says nothing of its protocol."""
    settings = KafkaSettings.parse({"bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(UnavailableError):
        KafkaOffsetSource(settings, clock=SystemClock(), timeout_seconds=1).topics([TOPIC], None)
