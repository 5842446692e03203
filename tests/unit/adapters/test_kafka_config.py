"""One connection in three languages: every pair is written out, everything else is refused."""

from __future__ import annotations

import json
import ssl
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from airflow_kafka_lake.adapters.java import require_java
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings, Mechanism, SecurityProtocol
from airflow_kafka_lake.core.errors import ConnectionSettingsError
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.services.checking import SPARK
from airflow_kafka_lake.wiring.assemble import connection_tests

SECRET = "n0t-4-u"
SERVERS = {"bootstrap.servers": "a:9092,b:9093"}
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "u",
    "sasl.password": SECRET,
}
TOKENS = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
    "sasl.oauthbearer.client.id": "u",
    "sasl.oauthbearer.client.secret": SECRET,
}
TLS = {"security.protocol": "SSL"}
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def parse(**options: object) -> KafkaSettings:
    """Settings of a connection with these options, dots written as double underscores."""
    return KafkaSettings.parse({key.replace("__", "."): value for key, value in options.items()}, connection="mine")


def openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate, its key in PKCS#8, the same key in the older form, and encrypted."""
    folder = tmp_path_factory.mktemp("pem")
    made = folder / "key.pem", "-out", folder / "cert.pem"
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", 2, "-subj", "/CN=x", "-keyout", *made)
    openssl("rsa", "-traditional", "-in", folder / "key.pem", "-out", folder / "old.pem")
    secret = ("-passout", f"pass:{SECRET}")
    openssl("pkcs8", "-topk8", "-in", folder / "key.pem", "-out", folder / "encrypted.pem", *secret)
    return folder


@pytest.mark.parametrize(
    ("extra", "librdkafka", "java", "kafka_python"),
    [
        (
            {"bootstrap.servers": "a:9092, b:9093,"},
            {"bootstrap.servers": "a:9092,b:9093", "security.protocol": "PLAINTEXT"},
            {"bootstrap.servers": "a:9092,b:9093", "security.protocol": "PLAINTEXT"},
            {"bootstrap_servers": ["a:9092", "b:9093"], "security_protocol": "PLAINTEXT"},
        ),
        (
            {"metadata.broker.list": "a,[::1]:9093"},
            {"bootstrap.servers": "a:9092,[::1]:9093"},
            {"bootstrap.servers": "a:9092,[::1]:9093"},
            {"bootstrap_servers": ["a:9092", "[::1]:9093"]},
        ),
        (
            {**SERVERS, **LOGIN, "security.protocol": "sasl_plaintext", "sasl.mechanism": "plain"},
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u"},
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{PLAIN_MODULE} required username="u" password="{SECRET}";',
            },
            {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": "u",
                "sasl_plain_password": SECRET,
            },
        ),
        (
            {
                **SERVERS,
                **{k: v for k, v in LOGIN.items() if k != "sasl.mechanism"},
                "sasl.mechanisms": "SCRAM-SHA-256",
            },
            {"sasl.mechanism": "SCRAM-SHA-256", "sasl.password": SECRET},
            {
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": f'{SCRAM_MODULE} required username="u" password="{SECRET}";',
            },
            {"sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_username": "u", "sasl_plain_password": SECRET},
        ),
        (
            {**SERVERS, **LOGIN, "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"},
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"},
            {"security.protocol": "SASL_SSL", "ssl.endpoint.identification.algorithm": "https"},
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512"},
        ),
        (
            {**SERVERS, **TLS, "ssl.endpoint.identification.algorithm": "none"},
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"},
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""},
            {"security_protocol": "SSL"},
        ),
        *(
            (
                {**SERVERS, key: value},
                {key: str(value)},
                {key: str(value)},
                {key.replace(".", "_"): value},
            )
            for key, value in {
                "client.id": "me",
                "client.rack": "r1",
                "client.dns.lookup": "use_all_dns_ips",
                "connections.max.idle.ms": 1000,
                "metadata.max.age.ms": 2000,
                "reconnect.backoff.ms": 30,
                "reconnect.backoff.max.ms": 400,
                "retry.backoff.ms": 50,
            }.items()
        ),
        ({**SERVERS, "socket.keepalive.enable": True}, {"socket.keepalive.enable": "true"}, {}, {}),
        ({**SERVERS, "broker.address.family": "v4"}, {"broker.address.family": "v4"}, {}, {}),
    ],
)
def test_each_client_is_told_in_its_own_words(
    extra: dict[str, object], librdkafka: dict[str, object], java: dict[str, str], kafka_python: dict[str, object]
) -> None:
    """Names and values are those of the client; what is not named here has no pair."""
    settings = KafkaSettings.parse(extra)
    assert librdkafka.items() <= settings.librdkafka().items()
    assert java.items() <= settings.java().items()
    assert kafka_python.items() <= settings.kafka_python().items()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("group.id", "g"),
        ("auto.offset.reset", "earliest"),
        ("enable.auto.commit", True),
        ("enable.auto.commit", "false"),
        ("session.timeout.ms", 6000),
        ("socket.timeout.ms", 1000),
        ("isolation.level", "read_uncommitted"),
        ("allow.auto.create.topics", True),
        ("acks", "all"),
        ("debug", "all"),
        ("enable.ssl.certificate.verification", True),
    ],
)
def test_what_must_not_decide_is_accepted_and_dropped(key: str, value: object) -> None:
    """A connection shared with consumers works, and its habits do not become ours."""
    settings = KafkaSettings.parse({**SERVERS, key: value})
    assert settings == KafkaSettings.parse(SERVERS)
    assert key not in settings.librdkafka()


@pytest.mark.parametrize(
    "key",
    [
        "plugin.library.paths",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.principal",
        "ssl.engine.location",
        "ssl.providers",
        "ssl.crl.location",
        "sasl.oauthbearer.config",
        "enable.sasl.oauthbearer.unsecure.jwt",
        "sasl.jaas.config",
        "oauth_cb",
        "error_cb",
        "log_cb",
        "stats_cb",
        "on_commit",
        "open_cb",
        "opaque",
        "default_topic_conf",
        "builtin.features",
        "BOOTSTRAP.SERVERS",
        "",
    ],
)
@pytest.mark.parametrize("value", [SECRET, True, None, {"a": SECRET}])
def test_what_is_not_on_the_list_is_refused_by_name(key: str, value: object) -> None:
    """Some client options load libraries or run commands; the message names key and connection, never the value."""
    with pytest.raises(ConnectionSettingsError) as caught:
        KafkaSettings.parse({**SERVERS, key: value}, connection="mine")
    assert repr(key) in caught.value.message
    assert "'mine'" in caught.value.message
    assert caught.value.facts == {"connection": "mine", "option": key}
    assert SECRET not in caught.value.message


def test_misspelt_option_gets_a_hint() -> None:
    """A likely slip is answered with the right word."""
    with pytest.raises(ConnectionSettingsError, match=r"'security\.protocol'\? Correct it in the conn"):
        KafkaSettings.parse({**SERVERS, "security.protocoll": "SSL"})


@pytest.mark.parametrize(
    ("extra", "key"),
    [
        ({}, "bootstrap.servers"),
        ({"bootstrap.servers": ""}, "bootstrap.servers"),
        ({"bootstrap.servers": " , "}, "bootstrap.servers"),
        ({"bootstrap.servers": None}, "bootstrap.servers"),
        ({"bootstrap.servers": "a:0"}, "bootstrap.servers"),
        ({"bootstrap.servers": "a:70000"}, "bootstrap.servers"),
        ({"bootstrap.servers": "a:b"}, "bootstrap.servers"),
        ({"bootstrap.servers": "a..b:9092"}, "bootstrap.servers"),
        ({"bootstrap.servers": ".:9092"}, "bootstrap.servers"),
        ({"bootstrap.servers": f"{'a' * 64}.b:9092"}, "bootstrap.servers"),
        ({"bootstrap.servers": "PLAINTEXT://a:9092"}, "bootstrap.servers"),
        ({"bootstrap.servers": "u:p@a:9092"}, "bootstrap.servers"),
        ({"bootstrap.servers": ["a:9092"]}, "bootstrap.servers"),
        ({**SERVERS, "metadata.broker.list": "c:1"}, "metadata.broker.list"),
        ({**SERVERS, "security.protocol": "SASL-SSL"}, "security.protocol"),
        ({**SERVERS, "security.protocol": "TLS"}, "security.protocol"),
        ({**SERVERS, **LOGIN, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism"),
        ({**SERVERS, **LOGIN, "sasl.mechanism": "OAUTHBEARER"}, "sasl.oauthbearer.client.id"),
        *(({**SERVERS, **TOKENS, key: None}, key) for key in sorted(TOKENS) if key.startswith("sasl.oauthbearer.")),
        ({**SERVERS, **TOKENS, "sasl.password": SECRET}, "sasl.password"),
        ({**SERVERS, **LOGIN, "sasl.oauthbearer.scope": SECRET}, "sasl.oauthbearer.scope"),
        ({**SERVERS, **TOKENS, "sasl.oauthbearer.method": "default"}, "sasl.oauthbearer.method"),
        ({**SERVERS, **TOKENS, "sasl.oauthbearer.extensions": SECRET}, "sasl.oauthbearer.extensions"),
        ({**SERVERS, **TOKENS, "sasl.oauthbearer.extensions": f"a b={SECRET}"}, "sasl.oauthbearer.extensions"),
        *(
            ({**SERVERS, **TOKENS, "sasl.oauthbearer.token.endpoint.url": url}, "sasl.oauthbearer.token.endpoint.url")
            for url in (
                f"http://u:{SECRET}@host/token",
                f"http://host/token?key={SECRET}",
                "file:///etc/passwd",
                "host",
                "http://[host/token",
                "http://host:99999/token",
                "http://host/token -javaagent:/tmp/theirs.jar",
            )
        ),
        ({**SERVERS, **TOKENS, "https.ca.pem": SECRET}, "https.ca.pem"),
        ({**SERVERS, **LOGIN, "sasl.mechanism": ""}, "sasl.mechanism"),
        ({**SERVERS, **LOGIN, "sasl.username": ""}, "sasl.username"),
        ({**SERVERS, **LOGIN, "sasl.mechanism": "AWS_MSK_IAM"}, "sasl.password"),
        ({**SERVERS, **TOKENS, "sasl.mechanism": "AWS_MSK_IAM"}, "sasl.oauthbearer.client.id"),
        ({**SERVERS, **LOGIN, "sasl.jaas.config": "software.amazon…"}, "sasl.jaas.config"),
        ({**SERVERS, **LOGIN, "sasl.password": None}, "sasl.password"),
        ({**SERVERS, "sasl.password": SECRET}, "sasl.password"),
        ({**SERVERS, **LOGIN, "security.protocol": "SSL"}, "sasl.mechanism"),
        ({**SERVERS, **LOGIN, "ssl.ca.location": "x"}, "ssl.ca.location"),
        ({**SERVERS, **TLS, "ssl.endpoint.identification.algorithm": "HTTP"}, "ssl.endpoint.identification.algorithm"),
        ({**SERVERS, **TLS, "enable.ssl.certificate.verification": False}, "enable.ssl.certificate.verification"),
        ({**SERVERS, **TLS, "ssl.ca.pem": "/etc/ca.pem"}, "ssl.ca.pem"),
        ({**SERVERS, **TLS, "ssl.ca.pem": "-----BEGIN X", "ssl.ca.location": "y"}, "ssl.ca.pem"),
        ({**SERVERS, **TLS, "ssl.key.location": "y"}, "ssl.key.*"),
        ({**SERVERS, **TLS, "ssl.certificate.location": "y"}, "ssl.certificate.*"),
        ({**SERVERS, "retry.backoff.ms": "soon"}, "retry.backoff.ms"),
        ({**SERVERS, "reconnect.backoff.ms": -1}, "reconnect.backoff.ms"),
        ({**SERVERS, "client.id": ["x"]}, "client.id"),
    ],
)
def test_what_cannot_be_meant_is_refused(extra: dict[str, object], key: str) -> None:
    """A missing, contradictory or misspelt option is named instead of being read as a default by one of the clients."""
    with pytest.raises(ConnectionSettingsError) as caught:
        KafkaSettings.parse(extra, connection="mine")
    assert caught.value.facts == {"connection": "mine", "option": key}
    assert SECRET not in caught.value.message


def test_nothing_shown_is_a_secret() -> None:
    """Representations show where and how, never who and with what."""
    settings = parse(**{k.replace(".", "__"): v for k, v in {**SERVERS, **LOGIN}.items()})
    for shown in (repr(settings), str(settings), f"{settings}", repr([settings])):
        assert SECRET not in shown
        assert "a:9092" in shown
        assert "SASL_PLAINTEXT" in shown


def test_token_login_is_told_to_java_with_its_scope_extensions_and_trust(pem: Path) -> None:
    """The truststore of the endpoint stands in the login, where Java's client looks for it."""
    more = {
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1, identityPoolId=pool-1",
        "https.ca.location": str(pem / "cert.pem"),
    }
    java = KafkaSettings.parse({**SERVERS, **TOKENS, **more}).java()
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    assert java["sasl.login.callback.handler.class"] == handler
    assert java["sasl.oauthbearer.token.endpoint.url"] == TOKENS["sasl.oauthbearer.token.endpoint.url"]
    login = java["sasl.jaas.config"]
    assert login.startswith("org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required ")
    told = f'clientId="u" clientSecret="{SECRET}" extension_logicalCluster="lkc-1" extension_identityPoolId="pool-1"'
    assert f'{told} scope="kafka" ssl.truststore.type="PEM" ssl.truststore.certificates="-----BEGIN' in login
    assert "\n" not in login


def test_own_settings_win() -> None:
    """What a reader needs for itself is added last."""
    settings = parse(bootstrap__servers="a", client__id="theirs")
    found = settings.librdkafka(**{"group.id": "g", "client.id": "ours"})
    assert (found["group.id"], found["client.id"]) == ("g", "ours")


def test_closed_sets_are_what_the_clients_know() -> None:
    """Protocol and mechanism are values of their own, whatever the case in the connection."""
    settings = KafkaSettings.parse({**SERVERS, **LOGIN, "sasl.mechanism": "scram-sha-512"})
    assert (settings.protocol, settings.mechanism) == (SecurityProtocol.SASL_PLAINTEXT, Mechanism.SCRAM_SHA_512)
    assert KafkaSettings.parse(SERVERS).mechanism is None


@pytest.mark.parametrize(
    ("password", "quoted"),
    [
        ('a"b', r'"a\"b"'),
        ("a\\b", r'"a\\b"'),
        ('\\"', r'"\\\""'),
        ("a;b = 'c'", "\"a;b = 'c'\""),
        ("a\nb\r", r'"a\nb\r"'),
        (" pass ", '" pass "'),
        ("pässwörd", '"pässwörd"'),
    ],
)
def test_login_survives_javas_quoting(password: str, quoted: str) -> None:
    """A quote or a backslash in a password ends neither the password nor the login configuration."""
    settings = KafkaSettings.parse({**SERVERS, **LOGIN, "sasl.password": password})
    assert settings.java()["sasl.jaas.config"] == f'{PLAIN_MODULE} required username="u" password={quoted};'
    assert settings.kafka_python()["sasl_plain_password"] == password
    assert settings.librdkafka()["sasl.password"] == password


def test_kerberos_is_refused_as_long_as_the_wheel_of_confluent_kafka_lacks_it() -> None:
    """The wheel says the same, with less words; when it no longer does, this is over."""
    with pytest.raises(ConnectionSettingsError, match=r"'sasl\.mechanism': .*built without it"):
        KafkaSettings.parse({**SERVERS, **LOGIN, "sasl.mechanism": "GSSAPI"})
    with pytest.raises(ConnectionSettingsError, match=r"'sasl\.kerberos\.service\.name': Kerberos needs"):
        KafkaSettings.parse({**SERVERS, "sasl.kerberos.service.name": "kafka"})
    with pytest.raises(KafkaException, match="No provider for SASL mechanism GSSAPI"):
        AdminClient({"bootstrap.servers": "a", "security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"})


@pytest.fixture(scope="module")
def stores(pem: Path) -> dict[str, str]:
    """The options of a key store and of a trust store in PKCS#12, the latter made by Java's own tool, as JKS too."""
    pair = ("-inkey", pem / "key.pem", "-in", pem / "cert.pem", "-out", pem / "own.p12")
    openssl("pkcs12", "-export", *pair, "-passout", f"pass:{SECRET}")
    for kind in ("PKCS12", "JKS"):
        made = ("-keystore", pem / f"trusted.{kind}", "-storepass", SECRET, "-storetype", kind)
        words = ("-importcert", "-noprompt", "-alias", "ca", "-file", pem / "cert.pem", *made)
        subprocess.run([require_java().with_name("keytool"), *map(str, words)], check=True, capture_output=True)
    found = {"ssl.keystore.location": str(pem / "own.p12"), "ssl.truststore.location": str(pem / "trusted.PKCS12")}
    return found | {"ssl.keystore.password": SECRET, "ssl.truststore.password": SECRET}


def test_stores_of_java_reach_every_client_as_pem(pem: Path, stores: dict[str, str]) -> None:
    """From PKCS#12; the stores' password goes to no client."""
    settings = KafkaSettings.parse({**SERVERS, **TLS, **stores, "ssl.keystore.type": "PKCS12"})
    plain = {f"ssl.{what}.location": str(pem / f"{of}.pem") for what, of in (("ca", "cert"), ("certificate", "cert"))}
    java = KafkaSettings.parse({**SERVERS, **TLS, **plain, "ssl.key.location": str(pem / "key.pem")}).java()
    assert settings.java() == java
    assert len(settings.tls_context().get_ca_certs()) == 1
    told = settings.librdkafka()
    assert {key: str(told[f"ssl.{key}.pem"]).strip() for key in ("ca", "key")} == {
        "ca": java["ssl.truststore.certificates"],
        "key": java["ssl.keystore.key"],
    }
    assert not [key for key in told if "store" in key]
    assert SECRET not in str(told)


def test_store_that_cannot_serve_all_clients_is_refused_with_the_way_out(pem: Path, stores: dict[str, str]) -> None:
    """A store that only Java reads, one under another password, a file of another kind, and both kinds at once."""
    jks = {"ssl.truststore.location": str(pem / "trusted.JKS")}
    with pytest.raises(ConnectionSettingsError, match=r"keytool -importkeystore -srckeystore .* PKCS12"):
        KafkaSettings.parse({**SERVERS, **TLS, **jks}).librdkafka()
    for wrong, says in (
        ({"ssl.truststore.password": "wrong"}, r"'ssl\.truststore\.location': .*ssl\.truststore\.password"),
        ({"ssl.keystore.location": str(pem / "key.pem")}, r"'ssl\.keystore\.location': it is no PKCS#12 store"),
        ({"ssl.keystore.location": ""}, r"'ssl\.keystore\.location': it is missing"),
        ({"ssl.ca.location": str(pem / "cert.pem")}, r"'ssl\.ca\.location': ssl\.truststore is set too"),
        ({"ssl.key.location": str(pem / "key.pem")}, r"'ssl\.key\.location': ssl\.keystore is set too"),
    ):
        with pytest.raises(ConnectionSettingsError, match=says) as caught:
            KafkaSettings.parse({**SERVERS, **TLS, **stores, **wrong}).java()
        assert SECRET not in caught.value.message


@pytest.mark.parametrize("inline", [True, False])
def test_certificates_reach_every_client(pem: Path, inline: bool) -> None:
    """From files or from the connection itself: Java gets the texts, Python a context, librdkafka what was given."""
    cert, key = pem / "cert.pem", pem / "key.pem"
    extra = (
        {"ssl.ca.pem": cert.read_text(), "ssl.certificate.pem": cert.read_text(), "ssl.key.pem": key.read_text()}
        if inline
        else {"ssl.ca.location": str(cert), "ssl.certificate.location": str(cert), "ssl.key.location": str(key)}
    )
    settings = KafkaSettings.parse({**SERVERS, **TLS, **extra})
    java = settings.java()
    assert java["ssl.truststore.type"] == java["ssl.keystore.type"] == "PEM"
    assert java["ssl.truststore.certificates"] == cert.read_text().strip()
    assert java["ssl.keystore.certificate.chain"] == cert.read_text().strip()
    assert java["ssl.keystore.key"] == key.read_text().strip()
    context = settings.kafka_python()["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    assert len(context.get_ca_certs()) == 1
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert {key: value.strip() for key, value in extra.items()}.items() <= settings.librdkafka().items()
    assert "PRIVATE KEY" not in repr(settings)


def test_certificates_are_verified_even_without_a_host_check(pem: Path) -> None:
    """Giving up the comparison of names does not give up the comparison of certificates."""
    extra = {"ssl.ca.location": str(pem / "cert.pem"), "ssl.endpoint.identification.algorithm": "none"}
    context = KafkaSettings.parse({**SERVERS, **TLS, **extra}).kafka_python()["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_REQUIRED)


def test_encrypted_key_needs_its_password(pem: Path) -> None:
    """With the password all is well, and Java, which cannot decrypt it, gets it without; no terminal is asked."""
    extra = {
        **SERVERS,
        **TLS,
        "ssl.certificate.location": str(pem / "cert.pem"),
        "ssl.key.location": str(pem / "encrypted.pem"),
    }
    settings = KafkaSettings.parse({**extra, "ssl.key.password": SECRET})
    assert settings.java()["ssl.keystore.key"] == (pem / "key.pem").read_text().strip()
    assert SECRET not in str(settings.java())
    assert settings.kafka_python()["ssl_context"]
    for wrong in ({}, {"ssl.key.password": "wrong"}):
        with pytest.raises(ConnectionSettingsError, match="OpenSSL"):
            KafkaSettings.parse({**extra, **wrong}).kafka_python()
        with pytest.raises(ConnectionSettingsError, match=r"ssl\.key\.password is wrong"):
            KafkaSettings.parse({**extra, **wrong}).java()


def test_key_of_the_older_form_reaches_java_in_the_newer(pem: Path) -> None:
    """Java reads PKCS#8 only."""
    key = {"ssl.certificate.location": str(pem / "cert.pem"), "ssl.key.location": str(pem / "old.pem")}
    settings = KafkaSettings.parse({**SERVERS, **TLS, **key})
    assert settings.kafka_python()["ssl_context"]
    assert settings.java()["ssl.keystore.key"] == (pem / "key.pem").read_text().strip()


def test_key_that_java_cannot_be_given_is_found_by_the_test_of_spark(
    pem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a run: that the file is there is not enough."""
    key = {"ssl.certificate.location": str(pem / "cert.pem"), "ssl.key.location": str(pem / "encrypted.pem")}
    catalog = {"catalog": "rest", "uri": "http://127.0.0.1:1"}
    for name, kind, extra in (("kafka", "kafka", {**SERVERS, **TLS, **key}), ("lake", "lake", catalog)):
        connection = json.dumps({"conn_type": kind, "extra": extra})
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}_DEFAULT", connection)
    spec = PipelineSpec(name="orders", topics=("orders",), table="raw.orders")
    _, check = connection_tests(spec, "kafka_lake_ledger")[SPARK]
    with pytest.raises(ConnectionSettingsError, match=r"ssl\.key\.password is wrong"):
        check()


def test_missing_file_is_named_by_its_option(tmp_path: Path) -> None:
    """A file that is not on this machine is the connection's mistake, and its path stays unsaid."""
    settings = KafkaSettings.parse({**SERVERS, **TLS, "ssl.ca.location": str(tmp_path / "hidden")}, connection="mine")
    for translate in (settings.java, settings.kafka_python):
        with pytest.raises(ConnectionSettingsError, match=r"'mine'.*'ssl\.ca\.location'") as caught:
            translate()
        assert "hidden" not in caught.value.message


def test_system_certificates_are_the_default() -> None:
    """Without own authorities, or with librdkafka's word "probe", every client trusts what its system trusts."""
    for extra in ({}, {"ssl.ca.location": "probe"}):
        settings = KafkaSettings.parse({**SERVERS, **TLS, **extra})
        assert "ssl.truststore.certificates" not in settings.java()
        assert isinstance(settings.kafka_python()["ssl_context"], ssl.SSLContext)
