"""An OAuth 2 token endpoint on this machine: client credentials in, signed tokens out, and its keys."""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.local_http import LocalHttp

TOKEN_PATH, KEYS_PATH = "/token", "/keys"


class TokenEndpoint(LocalHttp):
    """`url` gives tokens for `client` and `secret`, each good for `seconds`; `keys` is where a broker reads the key.

    `answer` is the next status, where it is not 200; `given` counts the tokens, `heard` all requests, `forms` are what
    was asked.
    """

    def __init__(self, *, client: str, secret: str, seconds: int = 3600, tls: tuple[Path, Path] | None = None) -> None:
        self.client, self.secret, self.seconds = client, secret, seconds
        self.answer = 200
        self.given = self.heard = 0
        self.forms: list[dict[str, str]] = []
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        if tls is not None:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(*tls)

    @property
    def url(self) -> str:
        """Where tokens are had."""
        return self.base + TOKEN_PATH

    @property
    def keys(self) -> str:
        """Where a broker reads the key."""
        return self.base + KEYS_PATH

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def do_GET(self) -> None:
                endpoint.heard += 1
                self._send(200, endpoint._keys())

            def do_POST(self) -> None:
                endpoint.heard += 1
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                login = base64.b64decode(self.headers.get("Authorization", "Basic ").split()[1]).decode()
                found = tuple(urllib.parse.unquote_plus(text) for text in login.split(":"))
                endpoint.forms.append(dict(urllib.parse.parse_qsl(form)))
                if endpoint.answer != 200:
                    self._send(endpoint.answer, {"error": "server_error", "secret": endpoint.secret})
                elif found != (endpoint.client, endpoint.secret):
                    self._send(401, {"error": "invalid_client"})
                else:
                    endpoint.given += 1
                    self._send(200, endpoint._token())

            def _send(self, status: int, document: object) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return Handler

    def _token(self) -> dict[str, object]:
        now = int(time.time())
        claims = {"sub": self.client, "iat": now, "exp": now + self.seconds, "scope": "kafka", "jti": str(self.given)}
        head = {"alg": "RS256", "typ": "JWT", "kid": "one"}
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in (head, claims))
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return {
            "access_token": f"{signed}.{_encoded(signature)}",
            "token_type": "Bearer",
            "expires_in": self.seconds,
            "scope": "kafka",
        }

    def _keys(self) -> dict[str, object]:
        public = self._key.public_key().public_numbers()
        numbers = {"n": _encoded(_bytes(public.n)), "e": _encoded(_bytes(public.e))}
        return {"keys": [{"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256", **numbers}]}


def _bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
