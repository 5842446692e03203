"""Logins by AWS IAM, at a stand-in for Amazon's brokers: three clients, one connection, one key."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_kafka_lake.adapters.kafka.source import KafkaOffsetSource
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.local.kafka import LocalKafka
from tests.hosts import HERE
from tests.integration.test_kafka_auth import CLIENTS, TOPIC
from tests.sandbox import Sandbox, drivers
from tests.signed_tokens import SECRET, SESSION, KeyServer, SigningKafka, aws_environment
from tests.spark_cluster import Cluster

if TYPE_CHECKING:
    from tests.integration.refusing import Refusals

pytestmark = pytest.mark.nightly
AGAIN_SECONDS = 5
SECRETS = (SECRET, SESSION, "aHR0cHM6Ly9rYWZrYS4")
"""The key's, the session's, and how every token begins."""


@pytest.fixture(scope="module")
def guarded(service: None, certificate: tuple[Path, Path]) -> Iterator[SigningKafka]:
    with SigningKafka(certificate, again_seconds=AGAIN_SECONDS) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(120)
        yield broker


@pytest.fixture
def extra(guarded: SigningKafka, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name, value in aws_environment().items():
        monkeypatch.setenv(name, value)
    return guarded.extra(certificate[0])


@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_signs(
    guarded: SigningKafka,
    extra: dict[str, str],
    tmp_path: Path,
    client: Callable[[KafkaSettings, LocalKafka, Path], bool],
) -> None:
    """The key and the region of the environment, each by Amazon's own library."""
    assert client(KafkaSettings.parse(extra), guarded, tmp_path)


@pytest.fixture(scope="module")
def keys() -> Iterator[KeyServer]:
    with KeyServer() as server:
        yield server


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("way", ["profile", "role of a profile", "role of a pod", "container"])
def test_every_client_finds_a_key_that_is_not_in_the_environment(
    guarded: SigningKafka,
    extra: dict[str, str],
    keys: KeyServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    client: Callable[[KafkaSettings, LocalKafka, Path], bool],
    way: str,
) -> None:
    """Roles are those of a stand-in for Amazon's STS."""
    for name in aws_environment():
        monkeypatch.delenv(name)
    for name, value in keys.environment(way, tmp_path).items():
        monkeypatch.setenv(name, value)
    assert client(KafkaSettings.parse(extra), guarded, tmp_path)


def _on_a_late_clock(region: str) -> tuple[str, int]:
    """Sign as a machine whose clock is twenty minutes late: for itself the token is valid, for others it has ended."""
    late = dt.timedelta(minutes=20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("botocore.auth.get_current_datetime", lambda: dt.datetime.now(dt.UTC).replace(tzinfo=None) - late)
        token, end = _SIGN(region)
    return token, end + int(late.total_seconds() * 1000)


_SIGN = MSKAuthTokenProvider.generate_auth_token


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "another-secret"}, "the login is not accepted"),
        ({"AWS_SESSION_TOKEN": "a-session-that-is-over"}, "the login is not accepted"),
        ({"AWS_REGION": "us-east-1"}, "the login is not accepted"),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "no AWS key is found. Set AWS_ACCESS_KEY_ID"),
        ({"AWS_PROFILE": "nobody"}, "no AWS key is found (ProfileNotFound)"),
        ({"AWS_REGION": ""}, "set AWS_REGION to theirs"),
        ({"clock": "late"}, "the login is not accepted"),
    ],
    ids=["secret", "session", "another region", "no key", "no profile", "no region", "token that has ended"],
)
def test_refused_key_is_told_alike_by_check_plan_and_run(
    guarded: SigningKafka,
    extra: dict[str, str],
    refusals: Refusals,
    monkeypatch: pytest.MonkeyPatch,
    changed: Mapping[str, str],
    says: str,
) -> None:
    """Each names what to mend, changes nothing and shows no secret."""
    from tests.integration.refusing import state_of

    for name, value in changed.items():
        if name == "clock":
            monkeypatch.setattr(MSKAuthTokenProvider, "generate_auth_token", _on_a_late_clock)
        elif value:
            monkeypatch.setenv(name, value)
        else:
            monkeypatch.delenv(name)
    refusals.connect("kafka_default", {"conn_type": "kafka", "extra": extra})
    before, file = state_of(refusals.sandbox), str(refusals.sandbox.file)
    checked = refusals.command("check", file, "--json")
    told = next(item["error"] for item in checked.document["checks"] if item["part"] == "kafka")
    ended = [refusals.command("plan", file, "--dry-run", "--json"), refusals.command("run", file, "--json")]
    for error in (told, *(item.document["error"] for item in ended)):
        assert (error["type"], says in error["message"]) == ("ConnectionSettingsError", True), error
    assert [item.code for item in (checked, *ended)] == [1, 1, 1]
    said = "".join(item.out + item.err for item in (checked, *ended))
    assert not [text for text in (*SECRETS, *filter(None, changed.values())) if text in said and text not in says]
    assert state_of(refusals.sandbox) == before


def test_client_that_lives_on_signs_again(extra: dict[str, str]) -> None:
    """Its connections end after some seconds, and are opened again."""
    source = KafkaOffsetSource(KafkaSettings.parse(extra), clock=SystemClock())
    until = time.monotonic() + 3 * AGAIN_SECONDS
    while time.monotonic() < until:
        assert TOPIC in source.topics([], ".*")


def test_wave_behind_a_login_by_iam_is_read_audited_and_published(
    guarded: SigningKafka, extra: dict[str, str], tmp_path: Path
) -> None:
    """Plan, job, raw batches of the audit and the check of both ends, each with its own client; no word of a process
    and no line of the ledger, the lake or the output holds the key's secret, its session or a token."""
    place = Sandbox(home=tmp_path / "place", bootstrap=guarded.bootstrap)
    slow = ["--alter", "--add-config", f"consumer_byte_rate={40_000}", "--entity-type", "users", "--entity-default"]
    guarded.tool("kafka.admin.ConfigCommand", "--bootstrap-server", guarded.bootstrap, *slow)
    try:
        place.produce(600, size=1000, dense=True)
        place.transaction(50, commit=False)
        place.transaction(50, commit=True)
        events = place.home / "events"
        events.mkdir()
        log = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.compress": "false",
        }
        env = {
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": extra}),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]", "extra": log}),
        }
        checked = place.end(place.start("check", str(place.file), "--json", env=env))
        assert checked.code == 0, checked.err or checked.out
        started = place.start("run", str(place.file), "--json", env=env)
        place.wait_for_job(started)
        (driver,) = drivers(started.pid)
        words = " ".join(driver.cmdline())
        ran = place.end(started)
        assert ran.code == 0, ran.err or ran.out
        place.assert_exact()
        audited = place.end(place.start("audit", str(place.file), "--json", env=env))
        assert audited.code == 0, audited.err or audited.out
        logged = [path for path in events.rglob("*") if path.is_file()]
        assert b"spark.app.name" in b"".join(path.read_bytes() for path in logged)
        kept = b"".join(path.read_bytes() for path in place.home.rglob("*") if path.is_file())
        shown = "".join(item.out + item.err for item in (checked, ran, audited))
        assert not [text for text in SECRETS if text.encode() in f"{words}{shown}".encode() + kept]
    finally:
        place.close()


@pytest.mark.parametrize("has_key", [True, False])
def test_executors_of_a_cluster_sign_with_the_key_of_their_machine(
    guarded: SigningKafka, extra: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_key: bool
) -> None:
    """It is not sent to them: one without a key of its own ends the job in words."""
    signing = {name: value for name, value in aws_environment().items() if not name.endswith(("_FILE", "DISABLED"))}
    if not has_key:
        for name in signing:
            monkeypatch.delenv(name)
    (home := tmp_path / "cluster").mkdir()
    cluster = Cluster(home, [HERE, HERE], {})
    place = Sandbox(home=tmp_path / "place", bootstrap=guarded.bootstrap)
    try:
        cluster.start()
        place.produce(60)
        kafka = json.dumps({"conn_type": "kafka", "extra": extra})
        env = {"AIRFLOW_CONN_KAFKA_DEFAULT": kafka, "AIRFLOW_CONN_SPARK_DEFAULT": cluster.connection()}
        ran = place.end(place.start("run", str(place.file), "--json", env=signing | env))
        if has_key:
            assert ran.code == 0, ran.err or ran.out
            place.assert_exact()
        else:
            assert (ran.code, "Kafka refused Spark's credentials" in ran.err + ran.out) == (1, True), ran
        kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        assert not [text for text in SECRETS if text.encode() in f"{ran.out}{ran.err}".encode() + kept]
    finally:
        place.close()
        cluster.stop()
