"""Logins to Amazon's brokers by AWS IAM: their region, their key, and each client's words."""

from __future__ import annotations

import base64
import logging
import sys
import time

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, PartialCredentialsError

from airflow_kafka_lake.adapters.jars.cache import JarSet
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings, Mechanism
from airflow_kafka_lake.adapters.spark_submit.submission import token_options
from airflow_kafka_lake.core.errors import ConnectionSettingsError, KafkaLakeError, LibraryError, UnavailableError

SECRET, SESSION = "n0t-4-u", "n0r-th1s"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
AMAZON = {
    "bootstrap.servers": "b-1.lake.abc1.c2.kafka.eu-west-1.amazonaws.com:9098",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
}


@pytest.fixture
def aws_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in the environment, where Amazon's libraries look first."""
    for name, value in {"ACCESS_KEY_ID": "AKID", "SECRET_ACCESS_KEY": SECRET, "SESSION_TOKEN": SESSION}.items():
        monkeypatch.setenv(f"AWS_{name}", value)


@pytest.mark.parametrize("mechanism", ["aws_msk_iam", "OAUTHBEARER"])
def test_login_by_iam_is_told_to_every_client_as_a_token(mechanism: str, aws_key: None) -> None:
    """Under Java's name of it, and as Airflow's own provider has it: OAUTHBEARER at an address of Amazon's."""
    settings = KafkaSettings.parse({**AMAZON, "sasl.mechanism": mechanism})
    assert (settings.mechanism, settings.jar_sets) == (Mechanism.AWS_MSK_IAM, (JarSet.MSK,))
    java = settings.java()
    assert java["sasl.mechanism"] == "OAUTHBEARER"
    assert java["sasl.jaas.config"].split() == [OAUTH_MODULE, "required", ";"]
    assert java["sasl.login.callback.handler.class"].startswith("software.amazon.msk.auth.iam.IAMOAuthBearer")
    assert token_options(java) == ("-Daws.region=eu-west-1",)
    assert settings.librdkafka()["sasl.mechanism"] == settings.kafka_python()["sasl_mechanism"] == "OAUTHBEARER"
    logged_in = settings.librdkafka()["oauth_cb"]
    assert callable(logged_in)
    token, end, principal, extensions = logged_in("")
    signed = base64.urlsafe_b64decode(token + "==").decode()
    assert signed.startswith("https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect&")
    assert 890 < end - time.time() <= 900
    assert (principal, extensions) == ("", {})
    assert SECRET not in signed + str(java)


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("boot-a1.c3.kafka-serverless.us-east-1.amazonaws.com:9098", "us-east-1"),
        ("B-2.lake.abc1.c2.KAFKA.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
        ("kafka.example.com:9098,b-1.x.kafka.eu-west-1.amazonaws.com", "eu-west-1"),
        ("kafka.example.com:9098", "eu-south-1"),
        ("b-1.kafka.us-east-1.amazonaws.com.example.com:9098", "eu-south-1"),
    ],
)
def test_region_of_amazons_brokers_is_in_their_names(monkeypatch: pytest.MonkeyPatch, host: str, region: str) -> None:
    """Else the one of the environment, for brokers behind other names."""
    monkeypatch.setenv("AWS_REGION", "eu-south-1")
    assert KafkaSettings.parse({**AMAZON, "bootstrap.servers": host}).java()["aws.region"] == region


def test_region_that_nothing_names_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is none: it becomes an option of Java."""
    settings = KafkaSettings.parse({**AMAZON, "bootstrap.servers": "kafka.example.com:9098"})
    for wrong in ("", "eu west"):
        monkeypatch.setenv("AWS_REGION", wrong)
        with pytest.raises(ConnectionSettingsError, match="set AWS_REGION to theirs"):
            settings.java()


@pytest.mark.parametrize(
    ("failed", "kind", "says"),
    [
        (
            EndpointConnectionError(endpoint_url=SECRET),
            UnavailableError,
            r"does not answer \(EndpointConnectionError\)",
        ),
        (
            ClientError({"Error": {"Code": SECRET}}, SECRET),
            ConnectionSettingsError,
            r"found \(ClientError\)\. Set AWS_",
        ),
        (PartialCredentialsError(provider=SECRET, cred_var=SECRET), ConnectionSettingsError, "PartialCredentialsError"),
        (ValueError(SECRET), ConnectionSettingsError, "no AWS key is found. Set AWS_ACCESS_KEY_ID"),
    ],
)
def test_key_of_aws_that_cannot_be_had_is_told_without_the_words_of_its_library(
    monkeypatch: pytest.MonkeyPatch, failed: Exception, kind: type[KafkaLakeError], says: str
) -> None:
    """They may hold the key."""

    def fail(_: str) -> None:
        raise failed

    monkeypatch.setattr("aws_msk_iam_sasl_signer.MSKAuthTokenProvider.generate_auth_token", fail)
    with pytest.raises(kind, match=f"connection 'mine'.*{says}") as caught:
        KafkaSettings.parse(AMAZON, connection="mine").librdkafka()
    assert SECRET not in caught.value.message


def test_signer_that_is_missing_is_named_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(LibraryError, match=r"pip install 'airflow-kafka-lake\[msk\]'"):
        KafkaSettings.parse(AMAZON).librdkafka()


def test_signed_text_is_logged_at_no_level(aws_key: None, caplog: pytest.LogCaptureFixture) -> None:
    """Amazon's library writes out what it signs, session and all, where a worker debugs."""
    with caplog.at_level(logging.DEBUG):
        KafkaSettings.parse(AMAZON).librdkafka()
    assert (SECRET in caplog.text, SESSION in caplog.text) == (False, False)
    assert "Signature" not in caplog.text


@pytest.mark.parametrize(
    ("right", "action"),
    [
        (("Describe", "topic", "orders", "refunds"), "DescribeTopic on the topic orders, refunds in"),
        (("DescribeConfigs", "topic", "orders"), "DescribeTopicDynamicConfiguration on the topic orders in"),
        (("Read", "topic", "orders"), "ReadData on the topic orders in"),
        (("Describe", "group", "app"), "DescribeGroup on the group app in"),
        (("Read", "group", "app"), "AlterGroup on the group app in"),
        (("Describe", "cluster", "kafka-cluster"), "DescribeCluster on the cluster in"),
    ],
)
def test_right_that_is_lacking_under_iam_is_named_as_aws_names_it(right: tuple[str, ...], action: str) -> None:
    """Brokers that AWS decides for have no lists of `kafka-acls.sh`."""
    refused = KafkaSettings.parse(AMAZON).failure("looking", "", *right)
    assert f"Allow kafka-cluster:{action} the IAM policy" in refused.message
    assert "kafka-acls" not in refused.message
