"""A broker that lets in whoever signs with one AWS key: the stand-in for Amazon's MSK and its logins by IAM."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from airflow_kafka_lake.adapters.jars.cache import JarSet, fetch, jars_folder
from airflow_kafka_lake.local.kafka import LocalKafka

KEY, REGION = "AKIDOFTHELAKE", "eu-central-1"
SECRET, SESSION = "canary/of+the/key", "canary+of/the+session=="
LISTENER = "SIGNED"
_SOURCE = Path(__file__).with_name("SignedTokens.java")
_LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def aws_environment(**changed: str) -> dict[str, str]:
    """Return the variables by which Amazon's libraries find the key that is right; none is looked for elsewhere."""
    found = {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": SESSION,
        "AWS_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    }
    return found | changed


class SigningKafka(LocalKafka):
    """A broker with the listener SIGNED, which wants a login anew every few seconds."""

    def __init__(self, certificate: tuple[Path, Path], *, again_seconds: int) -> None:
        cert, key = certificate
        both = cert.with_name("signed.pem")
        both.write_text(key.read_text() + cert.read_text())
        self._compiled = tempfile.TemporaryDirectory(prefix="kafka-lake-signed-")
        place = f"listener.name.{LISTENER.lower()}.oauthbearer"
        right = f'key="{KEY}" secret="{SECRET}" session="{SESSION}" region="{REGION}"'
        settings = {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(both),
            f"{place}.sasl.server.callback.handler.class": _SOURCE.stem,
            # The broker logs in to itself too, with a claim of its own making.
            f"{place}.sasl.jaas.config": f'{_LOGIN} required unsecuredLoginStringClaim_sub="broker" {right};',
            f"{place}.connections.max.reauth.ms": str(again_seconds * 1000),
        }
        super().__init__(settings=settings, listeners={LISTENER: "SASL_SSL"})

    def extra(self, trusted: Path, **changed: str) -> dict[str, str]:
        """Return the extra of a Kafka connection to SIGNED."""
        found = {
            "bootstrap.servers": self.address(LISTENER),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "AWS_MSK_IAM",
            "ssl.ca.location": str(trusted),
        }
        return found | changed

    def start(self) -> SigningKafka:
        """Compile the check, then start."""
        kafka = f"{fetch(JarSet.KAFKA_BROKER)[0].parent}/*"
        words = ["javac", "-encoding", "UTF-8", "-Xlint:none", "-cp", kafka, "-d", self._compiled.name, str(_SOURCE)]
        subprocess.run(words, check=True, capture_output=True)
        fetch(JarSet.MSK)
        super().start()
        return self

    def close(self) -> None:
        """End the broker."""
        super().close()
        self._compiled.cleanup()

    def _java(self, *arguments: str) -> Sequence[str]:
        """Amazon's classes are for the tools, which are clients."""
        java, option, jars, *others = super()._java(*arguments)
        return [java, option, f"{jars}:{self._compiled.name}:{jars_folder(JarSet.MSK)}/*", *others]
