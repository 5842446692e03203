"""A network that tests can break: a TCP proxy in front of a database, between two processes or two machines.

    with Proxy(("127.0.0.1", 5432)) as network:          # or Proxy(Path("…/.s.PGSQL.5432")), a Unix socket
        network.port                                     # where clients connect now
        network.cut()                                    # no connection gets through until `heal`
        network.drop()                                   # connections end; new ones are welcome
        network.black_hole()                             # bytes vanish in both directions, connections stay
        network.slow(0.2)                                # every piece waits that many seconds
        lost = network.lose_answer(b"UPDATE iceberg_tables", b"COMMIT")     # done, but the client is not told
        lost = network.lose_request(b"UPDATE iceberg_tables", b"COMMIT")    # never done
        late = network.keep_request(b"UPDATE iceberg_tables", b"COMMIT")    # done when `late.deliver()` says so
        held = network.hold_request(b"UPDATE iceberg_tables")               # the same, and the client waits for it
        lost.happened.wait(60)
        network.heal()                                   # an ordinary network again; traps that did not spring are gone

The patterns of a trap must pass from the client in this order on one connection; the last one is what gets lost.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from types import TracebackType
from typing import Self

Target = tuple[str, int] | Path
PassOn = Callable[[bytes, socket.socket], bool]
CONNECT_SECONDS = 10
LATE_SECONDS = 300
_PIECE = 64 * 1024


class Way(Enum):
    """What gets lost when a trap springs."""

    REQUEST = auto()
    ANSWER = auto()
    LATE = auto()
    HELD = auto()


@dataclass(eq=False)
class Trap:
    """Springs once, the `nth` time that its patterns have passed.

    `happened` is set when the client has lost its connection or its request is held, `answered` when the server has
    done what was asked and the answer is lost.
    """

    way: Way
    patterns: tuple[bytes, ...]
    nth: int
    happened: threading.Event = field(default_factory=threading.Event)
    answered: threading.Event = field(default_factory=threading.Event)
    _delivery: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def deliver(self) -> None:
        """Let the request that was kept reach the server, whose client has gone long ago."""
        self._delivery.set()

    def wait_for_delivery(self) -> None:
        """Wait until a connection delivers."""
        self._delivery.wait(LATE_SECONDS)

    def sprung(self) -> bool:
        """Count one passing of all patterns; True for the one that gets lost."""
        with self._lock:
            self.nth -= 1
            return self.nth == 0


class Watch:
    """How far one connection has come through the patterns of one trap, also where a pattern is cut in two."""

    def __init__(self, trap: Trap) -> None:
        self.trap = trap
        self._stage = 0
        self._kept = b""

    def passed(self, piece: bytes) -> bool:
        """Return whether the last pattern has passed with this piece."""
        seen = self._kept + piece
        while (at := seen.find(wanted := self.trap.patterns[self._stage])) >= 0:
            seen = seen[at + len(wanted) :]
            self._stage += 1
            if self._stage == len(self.trap.patterns):
                self._stage, self._kept = 0, b""
                return True
        self._kept = seen[-(len(wanted) - 1) :] if len(wanted) > 1 else b""
        return False


class Link:
    """One connection: two sockets and what the network does to the bytes between them."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client, self._server = client, server
        self._watches: dict[Trap, Watch] = {}
        self._answer_of: Trap | None = None

    def run(self) -> None:
        """Carry bytes both ways until one side ends."""
        back = threading.Thread(target=self._carry, args=(self._server, self._client, self._backward), daemon=True)
        back.start()
        self._carry(self._client, self._server, self._forward)
        back.join()
        self._proxy.forget(self)
        for end in (self._client, self._server):
            end.close()

    def _carry(self, source: socket.socket, target: socket.socket, pass_on: PassOn) -> None:
        try:
            while piece := source.recv(_PIECE):
                self._proxy.weather()
                if not pass_on(piece, target):
                    break
        except OSError:
            pass
        finally:
            self.close()

    def _forward(self, piece: bytes, server: socket.socket) -> bool:
        for trap in self._proxy.traps():
            watch = self._watches.setdefault(trap, Watch(trap))
            if watch.passed(piece) and trap.sprung() and not self._spring(trap):
                return False
        if not self._proxy.swallows:
            server.sendall(piece)
        if self._answer_of is not None:
            # This thread ends the connection when its client has gone, which must not be before the answer.
            self._answer_of.answered.wait(LATE_SECONDS)
        return True

    def _spring(self, trap: Trap) -> bool:
        if trap.way is Way.REQUEST:
            trap.happened.set()
            return False
        if trap.way is not Way.HELD:
            self._answer_of = trap
        if trap.way is Way.LATE:
            _end(self._client)
        if trap.way is not Way.ANSWER:
            trap.happened.set()
            trap.wait_for_delivery()
        return True

    def _backward(self, piece: bytes, client: socket.socket) -> bool:
        if self._answer_of is not None:
            # The server has answered, so it is done; the client shall not hear of it.
            self._answer_of.answered.set()
            self._answer_of.happened.set()
            return False
        if not self._proxy.swallows:
            client.sendall(piece)
        return True

    def close(self) -> None:
        """End both sides; a thread that waits for bytes wakes up."""
        _end(self._client)
        _end(self._server)


def _end(side: socket.socket) -> None:
    with contextlib.suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)


class Proxy:
    """Listens on a port of this machine and forwards to `target`, as long as the network is in order."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._links: set[Link] = set()
        self._traps: list[Trap] = []
        self._lock = threading.Lock()
        self._open = True
        self._pause = 0.0
        self.swallows = False
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=200)
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def port(self) -> int:
        """Where clients connect."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End everything; no client can connect any more."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(CONNECT_SECONDS)
        self.heal()
        self.drop()

    # -- what the network does --------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Break every connection, and refuse new ones until `heal`."""
        self._open = False
        self.drop()

    def drop(self) -> None:
        """Break every connection; new ones get through."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.close()

    def slow(self, seconds: float) -> None:
        """Let every piece of bytes wait."""
        self._pause = seconds

    def black_hole(self) -> None:
        """Let all bytes vanish; connections stay, and new ones are accepted."""
        self.swallows = True

    def lose_request(self, *patterns: bytes, nth: int = 1) -> Trap:
        """Break the connection on which the patterns pass, before the last one reaches the server."""
        return self._set(Trap(Way.REQUEST, patterns, nth))

    def lose_answer(self, *patterns: bytes, nth: int = 1) -> Trap:
        """Break the connection on which the patterns pass, once the server has answered the last one."""
        return self._set(Trap(Way.ANSWER, patterns, nth))

    def keep_request(self, *patterns: bytes) -> Trap:
        """Break the client's connection when the patterns pass; the server gets the last one at `Trap.deliver`."""
        return self._set(Trap(Way.LATE, patterns, 1))

    def hold_request(self, *patterns: bytes) -> Trap:
        """Let the last pattern and its client wait until `Trap.deliver`; others are served meanwhile."""
        return self._set(Trap(Way.HELD, patterns, 1))

    def heal(self) -> None:
        """Be an ordinary network again. Connections whose bytes vanished are broken: they would wait for ever."""
        if self.swallows:
            self.drop()
        self.swallows, self._open, self._pause = False, True, 0.0
        with self._lock:
            for trap in self._traps:
                trap.deliver()
            self._traps.clear()

    # -- the wires --------------------------------------------------------------------------------------------------

    def _set(self, trap: Trap) -> Trap:
        if not all(trap.patterns) or not trap.patterns:
            raise ValueError("a trap needs patterns of at least one byte")
        with self._lock:
            self._traps.append(trap)
        return trap

    def traps(self) -> Iterable[Trap]:
        """Return the traps that can still spring."""
        with self._lock:
            return [trap for trap in self._traps if not trap.happened.is_set()]

    def weather(self) -> None:
        """Make a piece wait when the network is slow."""
        if self._pause:
            time.sleep(self._pause)

    def forget(self, link: Link) -> None:
        """Take a connection that has ended off the list."""
        with self._lock:
            self._links.discard(link)

    def _accept(self) -> None:
        while True:
            try:
                client, _address = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        if not self._open:
            client.close()
            return
        try:
            server = self._connect()
        except OSError:
            client.close()
            return
        for end in (client, server):
            if end.family != socket.AF_UNIX:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = Link(self, client, server)
        with self._lock:
            self._links.add(link)
        link.run()

    def _connect(self) -> socket.socket:
        if isinstance(self._target, Path):
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            server.connect(str(self._target))
            return server
        server = socket.create_connection(self._target, timeout=CONNECT_SECONDS)
        server.settimeout(None)
        return server
