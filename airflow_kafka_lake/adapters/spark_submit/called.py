"""Deploy mode cluster, on the worker's side: the driver that was submitted calls this process (`jobs.caller`)."""

from __future__ import annotations

import base64
import hmac
import json
import logging
import secrets
import select
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow_kafka_lake.adapters.clients import CONNECT_SECONDS
from airflow_kafka_lake.adapters.spark_submit.driver import Driver
from airflow_kafka_lake.adapters.spark_submit.submission import write_private
from airflow_kafka_lake.core.errors import ConnectionSettingsError
from airflow_kafka_lake.jobs import caller
from airflow_kafka_lake.jobs.driver import write_whole

ADDRESS = "spark.kafka_lake.worker.address"
"""The setting of the `host`, or `host:port`, under which the cluster reaches this worker."""

_EVERY_SECONDS = 0.2
_LAST_WORDS_SECONDS = 15.0
"""How long the cluster may take to tell why a driver has ended that did not say so itself."""

_EMPTY_JAR = b"PK\x05\x06" + bytes(18)
_FORMALITY = b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(_EMPTY_JAR), _EMPTY_JAR)
"""A standalone master takes no driver without the address of a jar. This one is empty."""
_logger = logging.getLogger(__name__)


class WorkerLine:
    """Where the driver of one job calls: its files arrive in `folder`, and `code` is the exit code that it told.

    `files` go to the driver, and `document` after them. Listens on `address`, or on a free port. Raises
    ConnectionSettingsError for an address that cannot be had.
    """

    def __init__(self, folder: Path, address: str, *, files: Sequence[Path], document: Mapping[str, Any]) -> None:
        self.token = secrets.token_urlsafe(32)
        self.code: int | None = None
        self.ended_at: float | None = None
        self.has_called = False
        self._folder = folder
        self._files = files
        self._document = document
        self._beat = threading.Event()
        self._is_closed = threading.Event()
        self._context, self.digest = _certificate(folder)
        host, _, port = address.partition(":")
        try:
            self._listening = socket.create_server(("", int(port or 0)))
        except (OSError, ValueError, OverflowError) as error:
            raise ConnectionSettingsError(f"{ADDRESS} is {address!r}, where nothing can listen: {error}.") from None
        self._listening.settimeout(_EVERY_SECONDS)
        self.address = f"{host or _own_address()}:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def beat(self) -> None:
        """Tell the driver that this worker lives."""
        self._beat.set()

    def close(self) -> None:
        """End the call: a driver that still works ends itself."""
        self._is_closed.set()

    def _run(self) -> None:
        with self._listening:
            line = self._called()
        if line is None:
            return
        with line:
            self.has_called = True
            try:
                self._give(line)
                self._follow(line)
            except (OSError, ValueError) as error:
                _logger.info("the driver's call has ended: %s", error)
            self.ended_at = time.monotonic()

    def _called(self) -> ssl.SSLSocket | None:
        """Return the first connection that has the word; None once closed."""
        while not self._is_closed.is_set():
            with suppress(OSError):
                connection, _ = self._listening.accept()
                if (line := self._welcomed(connection)) is not None:
                    return line
        return None

    def _welcomed(self, connection: socket.socket) -> ssl.SSLSocket | None:
        with ExitStack() as stack:
            stack.enter_context(connection)
            connection.settimeout(CONNECT_SECONDS)
            if connection.recv(1, socket.MSG_PEEK) == b"G":
                connection.recv(65_536)
                connection.sendall(_FORMALITY)
                return None
            line = stack.enter_context(self._context.wrap_socket(connection, server_side=True))
            if hmac.compare_digest(line.recv(200), f"{self.token}\n".encode()):
                stack.pop_all()
                return line
        _logger.warning("a driver without the word of this job has called, and was refused")
        return None

    def _give(self, line: ssl.SSLSocket) -> None:
        line.settimeout(caller.CALL_SECONDS)
        for path in self._files:
            with path.open("rb") as file:
                line.sendall(_header(file=path.name, size=path.stat().st_size))
                while part := file.read(1 << 20):
                    line.sendall(part)
        line.sendall(_header(**self._document))

    def _follow(self, line: ssl.SSLSocket) -> None:
        """Write the driver's files as they come, until it has told its code or this worker ends the call."""
        found = b""
        while self.code is None and not self._is_closed.is_set():
            if line.pending() or select.select([line], [], [], _EVERY_SECONDS)[0]:
                if not (part := line.recv(1 << 20)):
                    return
                found = self._written(found + part)
            if self._beat.is_set():
                self._beat.clear()
                line.sendall(b"\n")

    def _written(self, found: bytes) -> bytes:
        """Write the files that have come whole; return the rest."""
        while (end := found.find(b"\n")) >= 0:
            header = json.loads(found[:end])
            if "code" in header:
                self.code = header["code"]
                return b""
            if len(found) < (after := end + 1 + header["size"]):
                break
            _write(self._folder / header["file"], found[end + 1 : after], grows=header["grows"])
            found = found[after:]
        return found


def _write(path: Path, data: bytes, *, grows: bool) -> None:
    if grows:
        with path.open("ab") as file:
            file.write(data)
    else:
        write_whole(path, data.decode())


def _header(**document: Any) -> bytes:
    return json.dumps(document).encode() + b"\n"


def _own_address() -> str:
    """Return the address of this machine by which it reaches others; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
    return "127.0.0.1"


def _certificate(folder: Path) -> tuple[ssl.SSLContext, str]:
    """Return a server's context with a key of its own, and the digest of its certificate."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kafka-lake")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now).not_valid_after(now + timedelta(1))
    certificate = made.sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    plain = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = folder / "call.pem"
    write_private(path, (plain + certificate.public_bytes(pem)).decode())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(path)
    finally:
        path.unlink()
    return context, certificate.fingerprint(hashes.SHA256()).hex()


def program_text() -> str:
    """Return the Python text that the driver begins with, in one line without a quote that a shell changes."""
    text = base64.b64encode(Path(caller.__file__).read_bytes()).decode()
    return f"exec(__import__('base64').b64decode('{text}'))"


class CalledDriver(Driver):
    """A driver on the cluster, which a process of this machine has submitted; that process waits for its end."""

    def __init__(
        self, command: Sequence[str | Path], *, line: WorkerLine, log: Path, env: Mapping[str, str], cwd: Path
    ) -> None:
        super().__init__(command, log=log, env=env, cwd=cwd)
        self._line = line

    def beat(self) -> None:
        self._line.beat()

    def has_exited(self) -> bool:
        """Return whether the driver has told its end, or is gone and the cluster has had time to tell why."""
        line, has_ended = self._line, super().has_exited()
        if line.ended_at is None:
            return has_ended and not line.has_called
        is_late = time.monotonic() - line.ended_at > _LAST_WORDS_SECONDS
        return line.code is not None or has_ended or is_late

    def end(self, grace_seconds: float = 5.0) -> int:
        """End the call, and with it the driver; return the code that it told."""
        self._line.close()
        submitted = super().end(grace_seconds)
        if self._line.code is None:
            return submitted or 1
        return self._line.code
