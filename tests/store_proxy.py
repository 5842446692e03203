"""An HTTP proxy before a real S3 that answers requests with a store's refusals; signatures pass, for the host does.

with StoreProxy(foreign_lake.endpoint) as proxy:
    foreign_lake.extra(**proxy.addresses)     # a connection through the proxy
    proxy.refuse(403, "ExpiredToken")         # every request from now on
    proxy.refuse(503, "SlowDown", times=2)    # the next two
    proxy.refuse(403, "AccessDenied", method="DELETE")
    proxy.has_ended = catalog.has_ended       # keys that the proxy before the catalog has handed out
    proxy.keeps_until_ended = "/data/"        # Spark's first file of that path is taken when every key has ended
    proxy.heal()
"""

from __future__ import annotations

import http.client
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from airflow_kafka_lake.local.processes import wait_until
from tests.local_http import LocalHttp

_HOP = {"connection", "keep-alive", "content-length", "expect"}


@dataclass
class _Refusal:
    status: int
    code: str
    message: str
    method: str
    times: float
    told: int = 0


@dataclass
class StoreProxy(LocalHttp):
    """An HTTP proxy before a store that can refuse."""

    target: str
    refusals: list[_Refusal] = field(default_factory=list)
    has_ended: Callable[[str | None], bool] = lambda _: False
    """Whether a key has ended; of None: whether all have that were handed out."""
    keeps_until_ended: str = ""
    asked: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    """Requests with a key that had ended, by the client."""

    @property
    def addresses(self) -> dict[str, str]:
        """The settings of a connection that goes through it."""
        return {"s3.endpoint": self.base}

    def refuse(
        self, status: int, code: str, message: str = "It is refused.", *, method: str = "", times: float = float("inf")
    ) -> _Refusal:
        """Answer requests, of one method or of all, with a status, a code of S3 and its message."""
        self.refusals.append(_Refusal(status, code, message, method, times))
        return self.refusals[-1]

    def heal(self) -> None:
        """Pass everything on again."""
        self.refusals.clear()

    def _answer(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        for item in self.refusals:
            if item.method in {"", method} and item.told < item.times:
                item.told += 1
                said = f"<Error><Code>{item.code}</Code><Message>{item.message}</Message></Error>"
                return item.status, [("Content-Type", "application/xml")], said.encode()
        named = {name.lower(): value for name, value in headers.items()}
        key, client = named.get("x-amz-security-token", ""), named.get("user-agent", "")
        self.asked.append(f"{client.partition(' ')[0]}: {method} {path}")
        if key and self.has_ended(key):
            self.ended.append(self.asked[-1])
            said = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
            return 400, [("Content-Type", "application/xml")], said
        found = self._passed_on(method, path, headers, body)
        if self.keeps_until_ended and method == "PUT" and self.keeps_until_ended in path and "java" in client:
            self.keeps_until_ended = ""
            wait_until(lambda: self.has_ended(None), timeout=60, failed=AssertionError)
        return found

    def _passed_on(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        where = urlsplit(self.target)
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            is_chunked = any(name.lower() == "transfer-encoding" for name in headers)
            for name, value in {**headers, **({} if is_chunked else {"Content-Length": str(len(body))})}.items():
                connection.putheader(name, value)
            connection.endheaders(body, encode_chunked=is_chunked)
            answer = connection.getresponse()
            kept = [
                (name, value) for name, value in answer.getheaders() if name.lower() not in _HOP | {"transfer-encoding"}
            ]
            length = answer.getheader("Content-Length") if method == "HEAD" else None
            return answer.status, [*kept, *([("Content-Length", length)] if length else [])], answer.read()
        finally:
            connection.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass_on(self) -> None:
                body = _body_of(self)
                headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
                status, answered, found = proxy._answer(self.command, self.path, headers, body)
                self.send_response_only(status)
                for name, value in answered:
                    self.send_header(name, value)
                if self.command != "HEAD":
                    self.send_header("Content-Length", str(len(found)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(found)

            do_GET = do_POST = do_HEAD = do_DELETE = do_PUT = _pass_on  # noqa: N815 - the library's names

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler


def _body_of(request: BaseHTTPRequestHandler) -> bytes:
    if "chunked" not in request.headers.get("Transfer-Encoding", ""):
        return request.rfile.read(int(request.headers.get("Content-Length") or 0))
    found = b""
    while size := int(request.rfile.readline().split(b";")[0], 16):
        found += request.rfile.read(size)
        request.rfile.readline()
    request.rfile.readline()
    return found
