"""Tokens of an endpoint: kept while they serve, and no answer is repeated."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

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


@pytest.mark.parametrize(
    "said", [b"<html>canary</html>", b"[]", b"{}", b'{"access_token": "canary", "expires_in": []}']
)
def test_page_that_is_no_token_endpoint_is_said_to_be_none(said: bytes) -> None:
    class Page(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(said)

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with pytest.raises(ConnectionSettingsError, match="no OAuth 2 token endpoint") as caught:
                at(f"http://127.0.0.1:{server.server_port}/").token()
        finally:
            server.shutdown()
            thread.join()
    assert "canary" not in str(caught.value)
