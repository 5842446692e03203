"""Three brokers that replicate behind SASL_SSL: each kind of login, by three clients from one connection, and what
befalls brokers, rights and passwords while a wave is read."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from airflow_kafka_lake.adapters.java import require_java
from airflow_kafka_lake.adapters.kafka.source import KafkaOffsetSource
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.core.errors import ConnectionSettingsError
from airflow_kafka_lake.local.airflow import LocalAirflow
from airflow_kafka_lake.local.kafka import LocalKafka
from airflow_kafka_lake.local.processes import wait_until
from tests import canaries
from tests.airflow_lanes import MANUAL, Lane, World
from tests.brokers import Brokers
from tests.certificates import DAY, Authority
from tests.integration.test_kafka_auth import CLIENTS, PLAIN, SCRAM, TOPIC
from tests.sandbox import Sandbox, drivers

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

USER, SECRET, ROTATED, OF_KEY = "canary-user", "canary-password", "canary-rotated", "canary-of-key"
PARTITIONS = 6
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
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
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
        set_password(admin, SECRET)
        yield started


def set_password(admin: AdminClient, password: str) -> None:
    """Let the user in by this password under SCRAM, and by no other."""
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        known = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), password.encode())
        admin.alter_user_scram_credentials([known])[USER].result(120)


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


def stored(brokers: Brokers, authority: Authority, folder: Path) -> dict[str, str]:
    """Return the connection of a client certificate in PKCS#12 stores, whose password is one of Java's own tools."""
    own, pair, trusted = authority.issue("lake"), folder / "own.p12", folder / "trusted.p12"
    made = ["openssl", "pkcs12", "-export", "-in", own, "-inkey", own, "-out", pair, "-passout", f"pass:{OF_KEY}"]
    subprocess.run(list(map(str, made)), check=True, capture_output=True)
    words = ["-importcert", "-noprompt", "-alias", "ca", "-file", authority.file, "-keystore", trusted]
    tool = [require_java().with_name("keytool"), *words, "-storepass", OF_KEY, "-storetype", "PKCS12"]
    subprocess.run(list(map(str, tool)), check=True, capture_output=True)
    stores = {"ssl.keystore.location": str(pair), "ssl.truststore.location": str(trusted)}
    secrets = {"ssl.keystore.password": OF_KEY, "ssl.truststore.password": OF_KEY}
    return {"bootstrap.servers": brokers.addresses(MUTUAL), "security.protocol": "SSL", **stores, **secrets}


def encrypted(brokers: Brokers, authority: Authority, folder: Path) -> dict[str, str]:
    """Return the connection of a client certificate whose key has a password."""
    extra, key = certified(brokers, authority), folder / "key.pem"
    made = ["openssl", "pkcs8", "-topk8", "-in", extra["ssl.key.location"], "-out", key, "-passout", f"pass:{OF_KEY}"]
    subprocess.run(list(map(str, made)), check=True, capture_output=True)
    return extra | {"ssl.key.location": str(key), "ssl.key.password": OF_KEY}


MODES: Mapping[str, Callable[[Brokers, Authority, Path], dict[str, str]]] = {
    "PLAIN": lambda brokers, authority, _: login(brokers, authority, "PLAIN"),
    "SCRAM-SHA-256": lambda brokers, authority, _: login(brokers, authority, "SCRAM-SHA-256"),
    "SCRAM-SHA-512": lambda brokers, authority, _: login(brokers, authority, "SCRAM-SHA-512"),
    "PEM": encrypted,
    "PKCS12": stored,
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mode", MODES)
def test_every_client_gets_in(
    brokers: Brokers,
    authority: Authority,
    tmp_path: Path,
    mode: str,
    client: Callable[[KafkaSettings, LocalKafka, Path], bool],
) -> None:
    """The same extra, translated."""
    assert client(KafkaSettings.parse(MODES[mode](brokers, authority, tmp_path)), brokers[1], tmp_path)


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


@pytest.mark.parametrize("own", [False, True], ids=["none", "of a stranger"])
def test_certificate_that_a_broker_does_not_get_is_the_connections_mistake(
    brokers: Brokers, authority: Authority, tmp_path: Path, own: bool
) -> None:
    """Java's answer to it, and not OpenSSL's words."""
    extra = {key: value for key, value in certified(brokers, authority).items() if "certificate" not in key}
    del extra["ssl.key.location"]
    if own:
        strange = str(Authority(tmp_path, "stranger").issue("lake"))
        extra |= {"ssl.certificate.location": strange, "ssl.key.location": strange}
    with pytest.raises(ConnectionSettingsError) as caught:
        KafkaOffsetSource(KafkaSettings.parse(extra), clock=SystemClock(), timeout_seconds=5).check()
    assert ("does not accept the" if own else "wants a") + " certificate of this client" in caught.value.message
    assert "ssl.certificate.*" in caught.value.message


class Place(Sandbox):
    """A pipeline of a topic that all brokers keep, and that is read by a login."""

    def open(self, extra: Mapping[str, str]) -> None:
        """Take a connection for all commands from now on."""
        self.connection = {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": dict(extra)})}

    def begin(self) -> subprocess.Popen[str]:
        """Start a run, as a user does."""
        return self.start("run", str(self.file), "--json", env=self.connection)

    def finish(self, *codes: int) -> None:
        """Run, and audit: every record is in the table once."""
        ran = self.run(env=self.connection)
        assert ran.code in {0, *codes}, ran
        audited = self.command("audit", str(self.file), "--json", env=self.connection)
        assert audited.code == 0, audited
        self.assert_exact()


@pytest.fixture
def place(brokers: Brokers, authority: Authority, spark_jars: list[Path], tmp_path: Path) -> Iterator[Place]:
    """A pipeline with records, an aborted and a committed transaction, and a login by a SCRAM password."""
    with closing(Place(tmp_path / "place", brokers.bootstrap, partitions=PARTITIONS, replicas=3)) as made:
        made.open(login(brokers, authority, "SCRAM-SHA-512"))
        made.produce(900, size=1000, dense=True)
        made.transaction(30, commit=False)
        made.transaction(30, commit=True)
        yield made


def admin_of(brokers: Brokers) -> AdminClient:
    return AdminClient({"bootstrap.servers": brokers.bootstrap, "log_level": 0})


@contextmanager
def slowly(brokers: Brokers) -> Iterator[None]:
    """Give the user a quota of 20 kB per second of each broker."""
    of_user = ["--bootstrap-server", brokers.bootstrap, "--entity-type", "users", "--entity-name", USER, "--alter"]
    brokers[1].tool("kafka.admin.ConfigCommand", *of_user, "--add-config", "consumer_byte_rate=20000")
    try:
        yield
    finally:
        brokers[1].tool("kafka.admin.ConfigCommand", *of_user, "--delete-config", "consumer_byte_rate")


@pytest.mark.parametrize("mode", MODES)
def test_wave_behind_each_login_is_read_audited_and_published(
    brokers: Brokers, authority: Authority, place: Place, tmp_path: Path, mode: str
) -> None:
    """By the command line, whose processes, outputs, ledger and lake hold no secret of the login."""
    place.open(MODES[mode](brokers, authority, tmp_path))
    started = place.begin()
    place.wait_for_job(started)
    (driver,) = drivers(started.pid)
    family = [psutil.Process(started.pid), driver, *driver.children(recursive=True)]
    words = " ".join(word for process in family for word in process.cmdline())
    ran = place.end(started)
    assert ran.code == 0, ran
    place.assert_exact()
    audited = place.command("audit", str(place.file), "--deep", "--json", env=place.connection)
    assert audited.code == 0, audited
    said = f"{words}{ran.out}{ran.err}{audited.out}{audited.err}"
    assert canaries.found([*secrets(place.connection), USER], said, place.home) == []


def secrets(connection: Mapping[str, str]) -> list[str]:
    """Return what must be seen nowhere: passwords, and each line of a private key."""
    keys = [path.read_text() for path in map(Path, re.findall(r'"(/[^"]+[.]pem)"', *connection.values()))]
    lines = {line for text in keys for line in text.partition("PRIVATE KEY-----")[2].splitlines() if len(line) == 64}
    of_key = {line for line in lines if not any(line in text.partition("BEGIN CERTIFICATE")[2] for text in keys)}
    return [SECRET, ROTATED, OF_KEY, *of_key]


def test_wave_goes_on_when_a_leader_is_killed(brokers: Brokers, place: Place) -> None:
    """The others lead its partitions, and say so; the audit, which asks anew, waits for nothing that is dead."""
    with slowly(brokers):
        started = place.begin()
        place.wait_for_rows(started)
        brokers[2].kill()
        ran = place.end(started)
    assert ran.code == 0, ran
    place.finish()


def test_wave_goes_on_while_every_broker_is_restarted(brokers: Brokers, place: Place) -> None:
    with slowly(brokers):
        started = place.begin()
        place.wait_for_rows(started)
        for number in (3, 2, 1):
            brokers[number].stop()
            brokers.restore()
        ran = place.end(started)
    assert ran.code in {0, 3}, ran
    place.finish()


def test_run_with_a_dead_broker_among_the_addresses_is_whole(brokers: Brokers, place: Place) -> None:
    """Replicas that are in step are fewer by one, and so are the addresses of the connection that answer."""
    brokers[3].kill()
    place.produce(60, begin=900)
    ran = place.end(place.begin())
    assert ran.code == 0, ran
    place.finish()


def test_wave_goes_on_while_its_partitions_move(brokers: Brokers, place: Place, tmp_path: Path) -> None:
    """Each to another leader, with one replica less."""
    wanted, plan = ([2, 3], [3, 1], [1, 2]), tmp_path / "plan.json"
    moved = [
        {"topic": place.topic, "partition": number, "replicas": wanted[number % 3]} for number in range(PARTITIONS)
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": moved}))
    with slowly(brokers):
        started = place.begin()
        place.wait_for_rows(started)
        given = ["--bootstrap-server", brokers.bootstrap, "--reassignment-json-file", str(plan)]
        tool = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
        brokers[1].tool(tool, *given, "--execute")
        wait_until(
            lambda: "is still in progress" not in brokers[1].tool(tool, *given, "--verify"),
            timeout=120,
            failed=AssertionError,
        )
        ran = place.end(started)
    assert ran.code == 0, ran
    place.finish()


def test_quota_slows_a_run_and_fails_nothing(brokers: Brokers, place: Place) -> None:
    """Job and raw batches of the audit alike; at half of it a fetch outlasts a job's poll, and the next run goes on."""
    with slowly(brokers):
        ran = place.end(place.begin())
        assert ran.code == 0, ran
        place.finish()


def test_replicas_fewer_than_the_least_in_step_keep_nothing_from_being_read(brokers: Brokers, place: Place) -> None:
    """Two of three die in mid-wave: producers are refused, what was acknowledged before lands, and what is written once
    they are back lands too."""
    with slowly(brokers):
        started = place.begin()
        place.wait_for_rows(started)
        brokers[2].kill()
        brokers[3].kill()
        ran = place.end(started)
    assert ran.code in {0, 3}, ran
    told: list[str] = []
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "message.timeout.ms": 5000})
    producer.produce(place.topic, b"refused", partition=0, on_delivery=lambda error, _: told.append(str(error)))
    producer.flush(60)
    assert told != ["None"]
    place.finish()
    brokers.restore()
    place.produce(60, begin=900)
    place.finish()


def test_rack_of_the_connection_is_that_of_every_client(brokers: Brokers, authority: Authority, place: Place) -> None:
    """Samples and the job may be read from its replicas, the raw batches of the audit are the leader's: all of it
    agrees."""
    place.open(login(brokers, authority, "SCRAM-SHA-256") | {"client.rack": "rack-3"})
    planned = place.command("plan", str(place.file), "--dry-run", "--json", env=place.connection)
    assert planned.code == 0, planned
    place.finish()


@contextmanager
def allowed_to_another(
    brokers: Brokers, kind: ResourceType, name: str, operation: AclOperation, *given: AclOperation
) -> Iterator[None]:
    """Let a right on a resource be another user's alone, and our user have others that are `given`."""

    def right(user: str, what: AclOperation) -> AclBinding:
        literal = ResourcePatternType.LITERAL
        return AclBinding(kind, name, literal, f"User:{user}", "*", what, AclPermissionType.ALLOW)

    admin = admin_of(brokers)
    wanted = [right("another", operation), *(right(USER, what) for what in given)]
    for call in admin.create_acls(wanted).values():
        call.result(60)
    try:
        yield
    finally:
        every = AclBindingFilter(
            kind, name, ResourcePatternType.LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        (call,) = admin.delete_acls([every]).values()
        call.result(60)


@pytest.mark.parametrize(
    ("kind", "operation", "given", "code"),
    [
        # A plan goes on without it; each wave's own look misses it.
        (ResourceType.TOPIC, AclOperation.DESCRIBE_CONFIGS, [AclOperation.READ], 1),
        (ResourceType.TOPIC, AclOperation.DESCRIBE, [AclOperation.DESCRIBE_CONFIGS], 1),
        (ResourceType.GROUP, AclOperation.DESCRIBE, [], 1),
    ],
    ids=["configs", "topic", "group"],
)
def test_right_that_is_missing_is_named_and_granted_by_the_command_beside_it(
    brokers: Brokers,
    place: Place,
    kind: ResourceType,
    operation: AclOperation,
    given: list[AclOperation],
    code: int,
) -> None:
    """A person's mistake, and nothing is lost by it: with the right, the next run lands every record."""
    name = place.topic
    if kind == ResourceType.GROUP:
        name = "readers"
        place.write_pipeline('start = "group:readers"')
    with allowed_to_another(brokers, kind, name, operation, *given):
        refused = place.run(env=place.connection)
        assert refused.code == code, refused
        said = json.dumps(refused.document)
        lacking = "".join(word.title() for word in operation.name.split("_"))
        assert f"lacks the right {lacking} on {kind.name.lower()} {name}" in said, said
        (command,) = set(re.findall(r"kafka-acls.sh (--bootstrap-server [^\"]+?(?:--topic|--group) [\w-]+)", said))
        words = shlex.split(command.replace("User:NAME", f"User:{USER}").replace("HOST:PORT", brokers.bootstrap))
        brokers[1].tool("org.apache.kafka.tools.AclCommand", *words)
        if kind == ResourceType.TOPIC:
            # A plan needs no more than that; a job has to read.
            reading = ["Read" if word == lacking else word for word in words]
            assert place.command("plan", str(place.file), "--json", env=place.connection).code == 0
            brokers[1].tool("org.apache.kafka.tools.AclCommand", *reading)
            place.finish()
        else:
            planned = place.command("plan", str(place.file), "--json", env=place.connection)
            assert planned.document["error"]["type"] == "GroupOffsetError", planned  # it has committed nothing


def test_right_to_read_that_is_missing_ends_the_job_in_words(brokers: Brokers, place: Place) -> None:
    """Spark meets it alone: its plan and its settings may be seen."""
    seen = [AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS]
    with allowed_to_another(brokers, ResourceType.TOPIC, place.topic, AclOperation.READ, *seen):
        refused = place.run(env=place.connection)
        assert refused.code == 1, refused
        said = json.dumps(refused.document)
        assert (
            "lacks a permission for them: check the kafka connection, and that the user may describe and read" in said
        )
        assert f"Not authorized to access topics: [{place.topic}]" in said
    place.finish()


def test_password_that_is_changed_while_a_wave_is_read_ends_the_run_in_words(
    brokers: Brokers, authority: Authority, place: Place
) -> None:
    """What asks anew is refused; with the new password the next run goes on with what is staged or reads it again."""
    admin = admin_of(brokers)
    try:
        with slowly(brokers):
            started = place.begin()
            place.wait_for_rows(started)
            set_password(admin, ROTATED)
            ran = place.end(started)
        assert ran.code == 1, ran
        said = json.dumps(ran.document)
        assert "the login is not accepted. Correct sasl.username, sasl.password" in said
        assert canaries.found([SECRET, ROTATED], said + ran.err, place.home) == []
        place.open(login(brokers, authority, "SCRAM-SHA-512") | {"sasl.password": ROTATED})
        place.finish()
    finally:
        set_password(admin, SECRET)


def test_dag_behind_a_login_lands_every_record_and_keeps_its_secrets(
    brokers: Brokers, authority: Authority, spark_jars: list[Path], tmp_path: Path
) -> None:
    """By Airflow's form; logs, XCom and all else that Airflow keeps hold neither password nor user."""
    import airflow_kafka_lake.example_dags

    lane = Lane(home=tmp_path / "lanes", bootstrap=brokers.bootstrap, topic="by-dag", partitions=2, replicas=3)
    with closing(lane):
        lane.produce(200)
        lane.transaction(20, commit=False)
        connections = {key: value for key, value in lane.environment.items() if key.startswith("AIRFLOW_CONN_")}
        extra = login(brokers, authority, "SCRAM-SHA-256")
        connections["AIRFLOW_CONN_KAFKA_DEFAULT"] = json.dumps({"conn_type": "kafka", "extra": extra})
        env = connections | {"AIRFLOW__KAFKA_LAKE__PIPELINES_FOLDER": str(lane.home)}
        dags = Path(airflow_kafka_lake.example_dags.__file__).parent
        with LocalAirflow(dags_folder=dags, env=env) as airflow:
            airflow.unpause(MANUAL)
            ran = World(airflow, brokers[1], {lane.topic: lane}).run(MANUAL, {"pipeline": lane.topic})
            assert ran.state == "success", ran
            lane.assert_exact()
            assert canaries.found([SECRET, USER], "", airflow.home, lane.home) == []
        audited = lane.command("audit", str(lane.file), "--json", env=connections)
        assert audited.code == 0, audited
