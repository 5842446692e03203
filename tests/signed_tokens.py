"""A broker that lets in whoever signs with one AWS key: the stand-in for Amazon's MSK and its logins by IAM."""

from __future__ import annotations

import json
import subprocess
import tempfile
import urllib.parse
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from airflow_kafka_lake.adapters.jars.cache import JarSet, fetch, jars_folder
from airflow_kafka_lake.local.kafka import LocalKafka
from tests.local_http import LocalHttp

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


class KeyServer(LocalHttp):
    """Gives the right key to who asks for the role `lake`: as Amazon's STS does, and as the agent of a container."""

    role = "arn:aws:iam::123456789012:role/lake"

    def environment(self, way: str, folder: Path) -> dict[str, str]:
        """Return the variables under which Amazon's libraries get the key in one way, and have none of their own."""
        found = {name: value for name, value in aws_environment().items() if name.startswith(("AWS_REGION", "AWS_EC2"))}
        files = {name: folder / name for name in ("config", "credentials", "token")}
        own = f"aws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\naws_session_token = {SESSION}\n"
        first = "aws_access_key_id = AKIDOFNOBODY\naws_secret_access_key = nothing\n"
        files["credentials"].write_text(f"[first]\n{first}[own]\n{own}")
        files["config"].write_text(
            f"[profile role]\nrole_arn = {self.role}\nsource_profile = first\nregion = {REGION}\n"
        )
        files["token"].write_text("the-token-of-a-pod")
        found |= {
            "AWS_CONFIG_FILE": str(files["config"]),
            "AWS_SHARED_CREDENTIALS_FILE": str(files["credentials"]),
            "AWS_ENDPOINT_URL_STS": self.base,
        }
        return (
            found
            | {
                "profile": {"AWS_PROFILE": "own"},
                "role of a profile": {"AWS_PROFILE": "role"},
                "role of a pod": {"AWS_ROLE_ARN": self.role, "AWS_WEB_IDENTITY_TOKEN_FILE": str(files["token"])},
                "container": {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{self.base}/container"},
            }[way]
        )

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        role, end = self.role, "2099-01-01T00:00:00Z"

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def do_GET(self) -> None:
                key = {"AccessKeyId": KEY, "SecretAccessKey": SECRET, "Token": SESSION, "Expiration": end}
                self._send(200 if self.path == "/container" else 404, "application/json", json.dumps(key))

            def do_POST(self) -> None:
                form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
                key = f"<AccessKeyId>{KEY}</AccessKeyId><SecretAccessKey>{SECRET}</SecretAccessKey>"
                key += f"<SessionToken>{SESSION}</SessionToken><Expiration>{end}</Expiration>"
                inner = f"<{form['Action']}Result><Credentials>{key}</Credentials></{form['Action']}Result>"
                place = 'xmlns="https://sts.amazonaws.com/doc/2011-06-15/"'
                asked = form["RoleArn"] == role and form.get("WebIdentityToken") in {None, "the-token-of-a-pod"}
                text = f"<{form['Action']}Response {place}>{inner}</{form['Action']}Response>"
                self._send(200 if asked else 403, "text/xml", text)

            def _send(self, status: int, kind: str, text: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

        return Handler
