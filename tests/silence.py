"""A server that is reached and does not answer, or stops in the middle of its answer."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from types import TracebackType
from typing import Self

HALF = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{"defaults": {'
"""The beginning of an answer of any HTTP server."""


class SilentServer:
    """Takes every connection, says `first` to each client, and keeps it open without another word."""

    def __init__(self, first: bytes = b"") -> None:
        self._first = first
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.asked = threading.Event()
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._wake.close()
        self._thread.join()

    def _serve(self) -> None:
        with contextlib.ExitStack() as everything, selectors.DefaultSelector() as waiting:
            for own in (self._listener, self._woken):
                everything.enter_context(own)
                waiting.register(own, selectors.EVENT_READ)
            while True:
                for key, _ in waiting.select():
                    if key.fileobj is self._woken:
                        return
                    if key.fileobj is self._listener:
                        client = everything.enter_context(self._listener.accept()[0])
                        waiting.register(client, selectors.EVENT_READ)
                    else:
                        assert isinstance(key.fileobj, socket.socket)
                        self._heard(key.fileobj, waiting)

    def _heard(self, client: socket.socket, waiting: selectors.BaseSelector) -> None:
        with contextlib.suppress(OSError):
            if client.recv(65536):
                self.asked.set()
                client.sendall(self._first)
                return
        waiting.unregister(client)
