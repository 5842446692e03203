"""A listener behind TLS, as a look at it sees it: in words, and only where it was seen."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from airflow_kafka_lake.adapters.kafka_config import TLS, KafkaSettings, spoken_at
from airflow_kafka_lake.core.errors import ConnectionSettingsError, KafkaLakeError, UnavailableError
from tests.certificates import DAY, Authority

pytestmark = pytest.mark.unit

VERSIONS = pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@contextmanager
def listening(shown: Path, trusted: Path | None = None, version: ssl.TLSVersion | None = None) -> Iterator[str]:
    """Yield the address of a server that shows a certificate, and wants one of each client where it trusts some."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown)
    if trusted:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(trusted)
    context.maximum_version = version or ssl.TLSVersion.MAXIMUM_SUPPORTED
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                plain, _ = listener.accept()
                with plain, suppress(OSError), context.wrap_socket(plain, server_side=True) as client:
                    client.recv(64)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def failure(address: str, authority: Authority, **own: Path) -> KafkaLakeError:
    """Return the error of a client that got no answer there."""
    tls = {"security.protocol": "SSL", "ssl.ca.location": str(authority.file)}
    files: Mapping[str, str] = {f"ssl.{name}.location": str(file) for name, file in own.items()}
    return KafkaSettings.parse({"bootstrap.servers": address, **tls, **files}).failure("describing topics", "silence")


@VERSIONS
def test_certificate_that_a_broker_wants_is_asked_for(authority: Authority, version: ssl.TLSVersion) -> None:
    """By the keys of the connection, and not by OpenSSL's words for it."""
    with listening(authority.issue("broker", "127.0.0.1"), authority.file, version) as address:
        error = failure(address, authority)
        assert spoken_at(address) == TLS
    assert isinstance(error, ConnectionSettingsError)
    assert f"{address} wants a certificate of this client. Name one that the broker trusts in ssl.certificate.*" in (
        error.message
    )
    assert "alert" not in error.message.lower()


@VERSIONS
@pytest.mark.parametrize("fault", ["unknown", "expired"])
def test_certificate_that_a_broker_does_not_accept_is_said_to_be_ours(
    authority: Authority, tmp_path: Path, version: ssl.TLSVersion, fault: str
) -> None:
    signer, lives = (Authority(tmp_path, "other"), DAY) if fault == "unknown" else (authority, -DAY)
    own = signer.issue("lake", lives=lives)
    with listening(authority.issue("broker", "127.0.0.1"), authority.file, version) as address:
        error = failure(address, authority, certificate=own, key=own)
    assert isinstance(error, ConnectionSettingsError)
    assert f"{address} does not accept the certificate of this client" in error.message


def test_fault_of_a_brokers_certificate_is_told_by_its_kind(authority: Authority, tmp_path: Path) -> None:
    """One that this list does not know has OpenSSL's name for it, and is not called untrusted."""
    stranger = Authority(tmp_path, "stranger")
    for shown, says in (
        (authority.issue("late", "127.0.0.1", lives=-DAY), "has expired"),
        (authority.issue("elsewhere", "192.0.2.1"), "is for another host"),
        (stranger.issue("strange", "127.0.0.1"), "is signed by an authority that this machine does not trust"),
        (authority.issue("client", "127.0.0.1", client=True), "is not accepted: un"),
    ):
        with listening(shown) as address:
            error = failure(address, authority)
        assert isinstance(error, ConnectionSettingsError)
        assert f"the certificate at {address} {says}" in error.message


def test_look_that_finds_nothing_makes_nothing_up(authority: Authority) -> None:
    """Neither where no broker was reached, nor where TLS is as it should be."""
    with listening(authority.issue("broker", "127.0.0.1")) as address:
        assert isinstance(failure(address, authority), UnavailableError)
    nowhere = failure(address, authority)
    assert isinstance(nowhere, UnavailableError)
    assert "certificate" not in nowhere.message
