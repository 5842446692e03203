"""The network that other tests break does what it says: its own faults would be taken for ours."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.proxy import Proxy

pytestmark = pytest.mark.nightly  # what it is about is a tool of the tests

SECONDS = 30


class Server:
    """Answers every line with `done <line>`, and remembers what it has done."""

    def __init__(self) -> None:
        self.done: list[bytes] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, client.makefile("rwb") as lines:
            for line in lines:
                self.done.append(line.strip())
                lines.write(b"done " + line)
                lines.flush()


@pytest.fixture
def server() -> Iterator[Server]:
    """A server behind the network."""
    found = Server()
    yield found
    found.listener.shutdown(socket.SHUT_RDWR)
    found.listener.close()


@pytest.fixture
def network(server: Server) -> Iterator[Proxy]:
    """The network in front of it."""
    with Proxy(("127.0.0.1", server.listener.getsockname()[1])) as proxy:
        yield proxy


class Client:
    """One connection through the network."""

    def __init__(self, network: Proxy) -> None:
        self.socket = socket.create_connection(("127.0.0.1", network.port), timeout=SECONDS)
        self._lines = self.socket.makefile("rb")

    def ask(self, line: bytes) -> bytes:
        """Send a line and return the answer; nothing when the connection is broken."""
        try:
            self.socket.sendall(line + b"\n")
            return self.answer()
        except ConnectionError:
            return b""

    def answer(self) -> bytes:
        """Wait for the next answer."""
        return self._lines.readline().strip()

    def close(self) -> None:
        """End the connection."""
        self._lines.close()
        self.socket.close()


@pytest.fixture
def client(network: Proxy) -> Iterator[Client]:
    """A client that is connected already."""
    found = Client(network)
    assert found.ask(b"hello") == b"done hello"
    yield found
    found.close()


def asked(network: Proxy, line: bytes) -> bytes:
    """Ask on a connection of its own."""
    other = Client(network)
    try:
        return other.ask(line)
    finally:
        other.close()


def test_a_cut_lasts_until_it_is_healed(network: Proxy, client: Client) -> None:
    """No connection gets through in between."""
    network.cut()
    assert client.ask(b"a") == b""
    assert asked(network, b"b") == b""
    network.heal()
    assert asked(network, b"c") == b"done c"


def test_a_drop_breaks_only_who_is_connected(network: Proxy, client: Client) -> None:
    """The next connection is fine."""
    network.drop()
    assert client.ask(b"a") == b""
    assert asked(network, b"b") == b"done b"


def test_a_lost_request_was_never_done(network: Proxy, client: Client, server: Server) -> None:
    """Only the pattern's own connection breaks, once, and only after the first pattern."""
    lost = network.lose_request(b"update", b"commit")
    assert client.ask(b"commit") == b"done commit"
    assert client.ask(b"update 1") == b"done update 1"
    assert client.ask(b"commit 1") == b""
    assert lost.happened.is_set()
    assert asked(network, b"update 2 and commit") == b"done update 2 and commit"
    assert server.done == [b"hello", b"commit", b"update 1", b"update 2 and commit"]


def test_a_lost_answer_was_done(network: Proxy, client: Client, server: Server) -> None:
    """The second time that it passes, as was asked."""
    lost = network.lose_answer(b"commit", nth=2)
    assert client.ask(b"commit 1") == b"done commit 1"
    assert client.ask(b"commit 2") == b""
    assert lost.happened.is_set()
    assert server.done == [b"hello", b"commit 1", b"commit 2"]


def test_a_kept_request_is_done_when_it_is_delivered(network: Proxy, client: Client, server: Server) -> None:
    """Its client has long gone, and others have come."""
    kept = network.keep_request(b"commit")
    assert client.ask(b"commit late") == b""
    assert asked(network, b"other") == b"done other"
    assert b"commit late" not in server.done
    kept.deliver()
    assert kept.answered.wait(SECONDS)
    assert server.done[-1] == b"commit late"


def test_a_held_request_is_answered_when_it_is_delivered(network: Proxy, client: Client, server: Server) -> None:
    """Others come and go meanwhile."""
    held = network.hold_request(b"commit")
    client.socket.sendall(b"commit slowly\n")
    assert held.happened.wait(SECONDS)
    assert asked(network, b"commit other") == b"done commit other"
    assert server.done == [b"hello", b"commit other"]
    held.deliver()
    assert client.answer() == b"done commit slowly"


def test_a_pattern_is_found_across_pieces(network: Proxy, client: Client) -> None:
    """However the bytes are cut."""
    lost = network.lose_request(b"commit")
    client.socket.sendall(b"com")
    assert client.ask(b"mit") == b""
    assert lost.happened.is_set()


def test_bytes_vanish_in_a_black_hole(network: Proxy, client: Client, server: Server) -> None:
    """The connection stays until the network is healed, and then it is broken rather than silent for ever."""
    network.black_hole()
    client.socket.sendall(b"a\n")
    network.heal()
    assert client.ask(b"b") == b""
    assert asked(network, b"c") == b"done c"
    assert server.done == [b"hello", b"c"]
