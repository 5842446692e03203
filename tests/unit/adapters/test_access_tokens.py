"""Tokens of an endpoint: kept while they serve, and no answer is repeated."""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from airflow_kafka_lake.adapters.access_tokens import TokenEndpoint
from airflow_kafka_lake.core.errors import ConnectionSettingsError, UnavailableError
from tests.token_endpoint import TokenEndpoint as LocalEndpoint

SECRET = "s:e%c&ret canary"


@pytest.fixture
def local() -> Iterator[LocalEndpoint]:
    with LocalEndpoint(client="a client", secret=SECRET) as endpoint:
        yield endpoint


def at(url: str, secret: str = SECRET) -> TokenEndpoint:
    return TokenEndpoint(connection="mine", url=url, client="a client", secret=secret, scope="", context=None)


def test_token_serves_until_it_is_due(local: LocalEndpoint) -> None:
    """One that has lived four fifths of its life is renewed: clients bring it a moment later."""
    endpoint = at(local.url)
    assert endpoint.token() == endpoint.token()
    local.seconds = 0
    due = at(local.url)
    assert due.token() != due.token()
    assert local.given == 3


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, ConnectionSettingsError), (404, ConnectionSettingsError), (429, UnavailableError), (500, UnavailableError)],
)
def test_status_tells_a_mistake_from_an_endpoint_that_is_down(
    local: LocalEndpoint, status: int, error: type[Exception]
) -> None:
    local.answer = status
    with pytest.raises(error, match=rf"'mine'.* {status}") as caught:
        at(local.url).token()
    assert "canary" not in str(caught.value)


def test_wrong_secret_and_a_port_where_nothing_is(local: LocalEndpoint) -> None:
    """The second is worth repeating."""
    with pytest.raises(ConnectionSettingsError, match="refuses the client's id and secret"):
        at(local.url, secret="hunter2").token()
    with pytest.raises(UnavailableError, match="does not answer"):
        at("http://127.0.0.1:1/token").token()


def test_token_serves_on_while_the_endpoint_is_down(local: LocalEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it ends; a client that is refused by then is refused at once."""
    at_seconds = 0.0
    monkeypatch.setattr(time, "time", lambda: at_seconds)
    endpoint = at(local.url)
    token, end = endpoint.token()
    local.answer, at_seconds = 503, 0.9 * end
    assert endpoint.token() == endpoint.token() == (token, end)
    assert local.heard == 2  # not by every call
    at_seconds = end
    with pytest.raises(UnavailableError, match="503"):
        endpoint.token()


@contextmanager
def answering(words: bytes) -> Iterator[str]:
    """Answer each connection with some bytes, whatever they are, and yield the address."""

    class Raw(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            heard = b""
            while b"grant_type" not in heard:
                heard += self.request.recv(65536)
            self.wfile.write(words)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Raw) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/token"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("status", [302, 307])
def test_redirection_does_not_take_the_secret_elsewhere(local: LocalEndpoint, status: int) -> None:
    """Not even on one host: it may be from https to http."""
    to = f"HTTP/1.0 {status} Moved\r\nLocation: {local.url}\r\n\r\n".encode()
    with answering(to) as url, pytest.raises(ConnectionSettingsError, match="no redirection is followed"):
        at(url).token()
    assert local.heard == 0


def page(document: bytes) -> bytes:
    """Return the answer of an HTTP server."""
    return b"HTTP/1.0 200 OK\r\n\r\n" + document


def test_lifetime_may_be_left_open() -> None:
    """It is only recommended, and some write null."""
    with answering(page(b'{"access_token": "one", "expires_in": null}')) as url:
        assert at(url).token()[0] == "one"


@pytest.mark.parametrize(
    "said",
    [
        page(b"<html>canary</html>"),
        page(b"[]"),
        page(b"{}"),
        page(b'{"access_token": null}'),
        page(b'{"access_token": "canary", "expires_in": []}'),
        b"\x15\x03\x01\x00\x02\x02F",
    ],
    ids=["a page", "a list", "nothing", "null", "a wrong lifetime", "TLS, which was not asked for"],
)
def test_page_that_is_no_token_endpoint_is_said_to_be_none(said: bytes) -> None:
    with answering(said) as url, pytest.raises(ConnectionSettingsError, match="no OAuth 2 token endpoint") as caught:
        at(url).token()
    assert "canary" not in str(caught.value)
