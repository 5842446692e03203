"""Three brokers that replicate behind SASL_SSL: each kind of login, by three clients from one connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

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
from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.core.errors import ConnectionSettingsError
from airflow_kafka_lake.local.kafka import LocalKafka
from tests.brokers import Brokers
from tests.certificates import DAY, Authority
from tests.integration.test_kafka_auth import CLIENTS, PLAIN, SCRAM, TOPIC, USER

pytestmark = pytest.mark.nightly

SECRET = "canary-of-the-three"
LOGIN, MUTUAL, EXPIRED, ELSEWHERE = "LOGIN", "MUTUAL", "EXPIRED", "ELSEWHERE"
REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def cluster(service: None, authority: Authority) -> Iterator[Brokers]:
    """Brokers with a door for logins, one for certificates, and two whose certificate is no good."""
    shown = {
        LOGIN: authority.issue("broker", "127.0.0.1"),
        MUTUAL: authority.issue("mutual", "127.0.0.1"),
        EXPIRED: authority.issue("expired", "127.0.0.1", lives=-DAY),
        ELSEWHERE: authority.issue("elsewhere", "192.0.2.1"),
    }
    settings = {
        **REPLICATED,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
        "listener.name.login.plain.sasl.jaas.config": f'{PLAIN} required user_{USER}="{SECRET}";',
        "listener.name.login.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
        "listener.name.login.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        f"listener.name.{MUTUAL.lower()}.ssl.client.auth": "required",
    }
    for name, file in shown.items():
        settings |= {f"listener.name.{name.lower()}.ssl.keystore.type": "PEM"}
        settings |= {f"listener.name.{name.lower()}.ssl.keystore.location": str(file)}
    doors = {LOGIN: "SASL_SSL", MUTUAL: "SSL", EXPIRED: "SSL", ELSEWHERE: "SSL"}
    with Brokers(3, settings, doors) as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap, "log_level": 0})
        started.restore()
        admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result(120)
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            known = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), SECRET.encode())
            admin.alter_user_scram_credentials([known])[USER].result(120)
        yield started


@pytest.fixture
def brokers(cluster: Brokers) -> Iterator[Brokers]:
    """All brokers live when a test begins, and afterwards again."""
    yield cluster
    cluster.restore()


def login(brokers: Brokers, authority: Authority, mechanism: str) -> dict[str, str]:
    """Return the connection of a user."""
    return {
        "bootstrap.servers": brokers.addresses(LOGIN),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": SECRET,
        "ssl.ca.location": str(authority.file),
    }


def certified(brokers: Brokers, authority: Authority, door: str = MUTUAL) -> dict[str, str]:
    """Return the connection of a client certificate."""
    own = str(authority.issue("lake"))
    files = {"ssl.ca.location": str(authority.file), "ssl.certificate.location": own, "ssl.key.location": own}
    return {"bootstrap.servers": brokers.addresses(door), "security.protocol": "SSL", **files}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "certificate"])
def test_every_client_gets_in(
    brokers: Brokers,
    authority: Authority,
    tmp_path: Path,
    mechanism: str,
    client: Callable[[KafkaSettings, LocalKafka, Path], bool],
) -> None:
    """The same extra, translated."""
    extra = certified(brokers, authority) if mechanism == "certificate" else login(brokers, authority, mechanism)
    assert client(KafkaSettings.parse(extra), brokers[1], tmp_path)


@pytest.mark.parametrize(
    ("door", "says"),
    [
        (EXPIRED, "has expired. Have the broker's certificate renewed"),
        (ELSEWHERE, "is for another host. Correct the names in bootstrap.servers"),
    ],
)
def test_fault_of_a_certificate_is_said_in_words(brokers: Brokers, authority: Authority, door: str, says: str) -> None:
    extra = certified(brokers, authority, door)
    with pytest.raises(ConnectionSettingsError) as caught:
        KafkaOffsetSource(KafkaSettings.parse(extra), clock=SystemClock(), timeout_seconds=5).check()
    assert says in caught.value.message
    assert "SSL routines" not in caught.value.message
