"""The local schema registry is a real one, and leaves nothing behind."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import psutil
import pytest

from airflow_kafka_lake.core.decoding import Format
from airflow_kafka_lake.local.processes import LocalServerError
from airflow_kafka_lake.wiring.connections import RegistryConnection
from tests.kit import local_registry
from tests.kit.local_registry import LocalRegistry

pytestmark = pytest.mark.nightly


def test_what_is_registered_is_read_through_its_connection(
    schema_registry: LocalRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection that it names is one that our hook takes."""
    number = schema_registry.register("local-value", Format.AVRO, '"string"')
    monkeypatch.setenv("AIRFLOW_CONN_R", json.dumps(schema_registry.connection))
    opened = RegistryConnection("r").registry()
    assert [item.id for item in opened.versions("local-value")] == [number]
    opened.close()


def test_what_it_refuses_is_said_in_its_words(schema_registry: LocalRegistry) -> None:
    """A test's author sees what is wrong with a schema."""
    with pytest.raises(LocalServerError, match=r"subjects/wrong-value/versions.*42201"):
        schema_registry.register("wrong-value", Format.AVRO, "{")


def test_nothing_is_left_behind(service: None) -> None:
    """No process, no folder, no open port."""
    with LocalRegistry() as registry:
        folder, address = registry._folder, ("127.0.0.1", registry._port)
        assert registry._keeper is not None
        pid = registry._keeper.pid
        socket.create_connection(address, timeout=30).close()
    registry.close()
    assert not folder.exists()
    assert not psutil.pid_exists(pid)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=30)


def test_a_registry_that_does_not_start_shows_the_end_of_its_log(
    service: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is in the message, and nothing is left behind."""
    monkeypatch.setattr(local_registry, "_JVM", ("-Xmx384m", "-XX:NoSuchFlag"))
    registry = LocalRegistry()
    with pytest.raises(LocalServerError, match=r"(?s)it ended.*NoSuchFlag"):
        registry.__enter__()
    assert not Path(registry._folder).exists()
