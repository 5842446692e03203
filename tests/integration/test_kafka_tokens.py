"""A broker that lets in the bearers of an OAuth 2 endpoint's tokens: three clients, one connection."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_kafka_lake.adapters.kafka.source import KafkaOffsetSource
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.core.errors import ConnectionSettingsError, UnavailableError
from airflow_kafka_lake.local.kafka import LocalKafka
from tests.integration.test_kafka_auth import CLIENTS, TOPIC, escaped
from tests.sandbox import Sandbox, drivers
from tests.token_endpoint import TokenEndpoint

pytestmark = pytest.mark.nightly

CLIENT, SECRET = "the lake's: reader", 'p&ss=w%rd "canary"\\;'
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SHORT_SECONDS = 6
"""A token's life in these tests: several expire while a wave is read."""


@pytest.fixture(scope="module")
def tokens(certificate: tuple[Path, Path]) -> Iterator[TokenEndpoint]:
    with TokenEndpoint(client=CLIENT, secret=SECRET, seconds=SHORT_SECONDS, tls=certificate) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def guarded(service: None, certificate: tuple[Path, Path], tokens: TokenEndpoint) -> Iterator[LocalKafka]:
    """A broker that ends a connection when its token has expired, unless the client brings another in time."""
    cert, key = certificate
    both = cert.with_name("broker.pem")
    both.write_text(key.read_text() + cert.read_text())
    listener = "listener.name.tokens"
    settings = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(both),
        f"{listener}.oauthbearer.sasl.server.callback.handler.class": HANDLER,
        f"{listener}.oauthbearer.sasl.jaas.config": escaped(
            # The broker logs in to itself too, with a claim of its own making.
            f'{LOGIN} required unsecuredLoginStringClaim_sub="broker" ssl.truststore.type="PEM" '
            f'ssl.truststore.location="{cert}";'
        ),
        f"{listener}.sasl.oauthbearer.jwks.endpoint.url": tokens.keys,
        f"{listener}.oauthbearer.connections.max.reauth.ms": str(SHORT_SECONDS * 1000),
    }
    java = ("-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=" + tokens.keys,)
    with LocalKafka(settings=settings, listeners={"TOKENS": "SASL_SSL"}, java=java) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(120)
        yield broker


@pytest.fixture
def extra(guarded: LocalKafka, certificate: tuple[Path, Path], tokens: TokenEndpoint) -> dict[str, str]:
    return {
        "bootstrap.servers": guarded.address("TOKENS"),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": tokens.url,
        "sasl.oauthbearer.client.id": CLIENT,
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-1",
        "https.ca.location": str(certificate[0]),
        "ssl.ca.location": str(certificate[0]),
    }


@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_brings_a_token(
    guarded: LocalKafka,
    extra: dict[str, str],
    tmp_path: Path,
    client: Callable[[KafkaSettings, LocalKafka, Path], bool],
    tokens: TokenEndpoint,
) -> None:
    """The same extra, translated; the endpoint is asked for the scope by each."""
    before = tokens.given
    assert client(KafkaSettings.parse(extra), guarded, tmp_path)
    assert tokens.given > before
    assert tokens.forms[-1] == {"grant_type": "client_credentials", "scope": "kafka"}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"sasl.oauthbearer.client.secret": "hunter2"}, "refuses the client's id and secret, or the scope .*401"),
        ({"https.ca.location": ""}, "certificate is not trusted .*https.ca.location"),
    ],
)
def test_endpoint_that_refuses_is_the_connections_mistake(
    extra: dict[str, str], changed: dict[str, str], says: str
) -> None:
    settings = KafkaSettings.parse(extra | changed, connection="mine")
    source = KafkaOffsetSource(settings, clock=SystemClock(), timeout_seconds=3600)
    with pytest.raises(ConnectionSettingsError, match=f"'mine'.*{says}") as caught:
        source.check()
    assert "hunter2" not in caught.value.message


def test_endpoint_that_is_down_is_worth_repeating(extra: dict[str, str], tokens: TokenEndpoint) -> None:
    """No message repeats what the endpoint says: it may hold secrets."""
    tokens.answer = 503
    try:
        with pytest.raises(UnavailableError, match="HTTP status 503") as caught:
            KafkaOffsetSource(KafkaSettings.parse(extra), clock=SystemClock()).check()
    finally:
        tokens.answer = 200
    assert "canary" not in caught.value.message


def test_client_that_lives_on_brings_new_tokens(extra: dict[str, str], tokens: TokenEndpoint) -> None:
    """Its connections are ended when a token expires, and opened again with the next one."""
    source = KafkaOffsetSource(KafkaSettings.parse(extra), clock=SystemClock())
    before = tokens.given
    until = time.monotonic() + 3 * SHORT_SECONDS
    while time.monotonic() < until:
        assert TOPIC in source.topics([], ".*")
    assert tokens.given >= before + 3


def test_wave_whose_tokens_expire_is_read_audited_and_published(
    guarded: LocalKafka, extra: dict[str, str], tokens: TokenEndpoint, tmp_path: Path
) -> None:
    """Plan, job, raw batches of the audit and the check of both ends, each with its own client; no word of a process
    and no line of the ledger, the lake or the output holds the secret or a token."""
    place = Sandbox(home=tmp_path / "place", bootstrap=guarded.bootstrap)
    slow = ["--alter", "--add-config", f"consumer_byte_rate={40_000}", "--entity-type", "users", "--entity-default"]
    guarded.tool("kafka.admin.ConfigCommand", "--bootstrap-server", guarded.bootstrap, *slow)
    try:
        place.produce(600, size=1000, dense=True)
        place.transaction(50, commit=False)
        place.transaction(50, commit=True)
        env = {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": extra})}
        before = tokens.given
        started = place.start("run", str(place.file), "--json", env=env)
        place.wait_for_job(started)
        (driver,) = drivers(started.pid)
        words = " ".join(driver.cmdline())
        ran = place.end(started)
        assert ran.code == 0, ran.err or ran.out
        place.assert_exact()
        assert tokens.given >= before + 3
        audited = place.command("audit", str(place.file), "--json", env=env)
        assert audited.code == 0, audited.err or audited.out
        kept = b"".join(path.read_bytes() for path in place.home.rglob("*") if path.is_file())
        said = f"{words}{ran.out}{ran.err}{audited.out}{audited.err}".encode()
        assert b"canary" not in said + kept
        assert b"eyJ" not in said + kept.replace(b"eyJhbGciOiJub25lIn0", b"")
    finally:
        place.close()
