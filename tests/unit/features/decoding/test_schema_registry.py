"""What the registry's adapter makes of a connection, of every failure, and of Protobuf files."""

from __future__ import annotations

import base64
import builtins
import json
import logging
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from airflow_kafka_lake.adapters.registry import client, settings
from airflow_kafka_lake.adapters.registry.client import ConfluentRegistry
from airflow_kafka_lake.adapters.registry.settings import RegistrySettings
from airflow_kafka_lake.core.decoding import Format
from airflow_kafka_lake.core.errors import (
    ConnectionSettingsError,
    KafkaLakeError,
    LibraryError,
    SchemaMismatchError,
    UnavailableError,
    UnknownSubjectError,
)
from tests.registry_server import RegistryServer

pytestmark = pytest.mark.unit

SECRET = "s3cr3t-value"
BASIC = "Basic " + base64.b64encode(f"lake:{SECRET}".encode()).decode()
SCHEMA = '{"type": "record", "name": "Order", "fields": []}'


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat at once, and wait for no answer."""
    monkeypatch.setattr(settings, "_TIMES", {**settings._TIMES, "retries.wait.ms": 0, "retries.max.wait.ms": 0})


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    """A registry with one subject."""
    with RegistryServer() as found:
        found.register("orders-value", "AVRO", SCHEMA)
        yield found


def adapter(address: str, **given: Any) -> ConfluentRegistry:
    return ConfluentRegistry(RegistrySettings.parse("registry", host=address, **given))


def failed(registry: ConfluentRegistry, subject: str = "orders-value") -> KafkaLakeError:
    """Return how a question fails."""
    try:
        with pytest.raises(KafkaLakeError) as error:
            registry.versions(subject)
        return error.value
    finally:
        registry.close()


# The connection


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({"host": "registry"}, "http://registry"),
        ({"host": "registry", "port": 8081}, "http://registry:8081"),
        ({"host": "registry", "schema": "https", "port": 443}, "https://registry:443"),
        ({"host": "https://registry:8081/apis/ccompat/v7/"}, "https://registry:8081/apis/ccompat/v7"),
        ({"host": "https://registry", "schema": "http", "port": 1}, "https://registry:1"),
        ({"host": "[::1]:8081"}, "http://[::1]:8081"),
        ({"host": "[::1]", "port": 8081}, "http://[::1]:8081"),
    ],
)
def test_the_address_is_put_together_as_airflow_does(given: dict[str, Any], url: str) -> None:
    """Scheme, port and path may stand in host."""
    assert RegistrySettings.parse("registry", **given).url == url


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"host": None}, "host"),
        ({"host": f"https://lake:{SECRET}@registry"}, "host"),
        ({"host": f"registry?token={SECRET}"}, "host"),
        ({"host": f"registry#{SECRET}"}, "host"),
        ({"host": "one,two"}, "host"),
        ({"host": "registry:port"}, "host"),
        ({"host": "ftp://registry"}, "schema"),
        ({"schema": SECRET}, "schema"),
        ({"host": "registry:1", "port": 2}, "port"),
        ({"password": SECRET}, "login"),
        ({"login": f"a:{SECRET}", "password": SECRET}, "login"),
        ({"extra": {"verify": False, "token": SECRET}}, "'token', 'verify'"),
        ({"extra": {"bearer.auth.token": [SECRET]}}, "bearer.auth.token"),
        ({"extra": {"bearer.auth.logical.cluster": SECRET}}, "bearer.auth.token"),
        ({"login": "lake", "password": SECRET, "extra": {"bearer.auth.token": SECRET}}, "bearer.auth.token"),
        ({"extra": {"ssl.ca.location": f"/{SECRET}"}}, "ssl.ca.location needs https"),
        ({"extra": {"timeout": 0}}, "timeout must be a time in seconds"),
        ({"schema": "https", "extra": {"ssl.key.password": SECRET}}, "ssl.certificate.location"),
    ],
)
def test_a_connection_that_does_not_fit_is_refused_by_the_field(given: dict[str, Any], named: str) -> None:
    """Never with a value: a password in the address is repeated nowhere."""
    with pytest.raises(ConnectionSettingsError, match=named) as refused:
        RegistrySettings.parse("registry", **{"host": "registry", **given})
    assert "'registry'" in refused.value.message
    assert SECRET not in refused.value.message


def test_settings_and_adapter_show_no_secret() -> None:
    """Not by repr; only the client is told."""
    made = RegistrySettings.parse("registry", host="registry", login="lake", password=SECRET)
    assert SECRET not in f"{made!r} {made} {ConfluentRegistry(made)!r}"
    assert made.confluent()["basic.auth.user.info"] == f"lake:{SECRET}"


@pytest.mark.parametrize(
    ("authorization", "given"),
    [
        (BASIC, {"login": "lake", "password": SECRET}),
        (f"Bearer {SECRET}", {"extra": {"bearer.auth.token": SECRET}}),
        (f"Bearer {SECRET}", {"extra": {"bearer.auth.token": SECRET, "bearer.auth.logical.cluster": "lsrc-1"}}),
    ],
    ids=["login", "token", "token-and-cluster"],
)
def test_login_and_token_are_sent(server: RegistryServer, authorization: str, given: dict[str, Any]) -> None:
    """As the headers that registries ask for."""
    server.authorization = authorization
    registry = adapter(server.url, **given)
    assert registry.versions("orders-value")[0].text == SCHEMA
    registry.close()
    assert server.asked[0][2].get("target-sr-cluster", "") in {"", "lsrc-1"}


def test_certificates_are_verified(tmp_path: Path) -> None:
    """Against the file that the connection names; without it nothing is asked for."""
    key, certificate = _self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with RegistryServer(tls=context) as server:
        server.register("orders-value", "AVRO", SCHEMA)
        foreign = failed(adapter(server.url))
        assert isinstance(foreign, ConnectionSettingsError)
        assert "ssl.ca.location" in foreign.message
        known = adapter(server.url, extra={"ssl.ca.location": str(certificate)})
        assert len(known.versions("orders-value")) == 1
        known.close()


def _self_signed(folder: Path) -> tuple[Path, Path]:
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return key, certificate


def test_a_file_that_is_not_there_is_a_matter_of_the_connection() -> None:
    """The sentence says that it is certificates, and which connection."""
    error = failed(adapter("https://registry", extra={"ssl.ca.location": "/nowhere/ca.pem"}))
    assert isinstance(error, ConnectionSettingsError)
    assert "'registry'" in error.message
    assert "certificates" in error.message


# What can go wrong


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (401, b'{"error_code": 401, "message": "Unauthorized"}', ConnectionSettingsError),
        (403, b"no", ConnectionSettingsError),
        (404, b'{"error_code": 40401, "message": "Subject not found."}', UnknownSubjectError),
        (404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}', ConnectionSettingsError),
        (404, b"<html>", ConnectionSettingsError),
        (301, b"", ConnectionSettingsError),
        (422, b'{"error_code": 42208}', ConnectionSettingsError),
        (408, b"", UnavailableError),
        (429, b"", UnavailableError),
        (500, b'{"error_code": 50001, "message": "Error in the backend data store"}', UnavailableError),
        (502, b"<html>", UnavailableError),
        (503, b"", UnavailableError),
        (200, b"<html>", ConnectionSettingsError),
        (200, b'{"versions": 1}', ConnectionSettingsError),
        (200, b'["x"]', ConnectionSettingsError),
        (200, b"null", ConnectionSettingsError),
        (200, b"[]", UnknownSubjectError),
    ],
)
def test_every_answer_is_one_error(
    server: RegistryServer, status: int, body: bytes, expected: type, caplog: pytest.LogCaptureFixture
) -> None:
    """Only a registry that says so has no such subject; and nothing repeats a secret, not even a log."""
    caplog.set_level(logging.DEBUG)
    server.failing = lambda _: (status, body)
    error = failed(adapter(server.url, login="lake", password=SECRET))
    assert type(error) is expected
    assert error.__suppress_context__ or error.__context__ is None
    assert SECRET not in f"{error!r} {error.facts} {caplog.text}"
    assert BASIC.split()[1] not in caplog.text


def test_a_version_of_another_shape_is_no_registrys(server: RegistryServer) -> None:
    """The list was right and what it lists is not."""
    server.failing = lambda number: (200, b'{"id": 1}') if number else None
    assert isinstance(failed(adapter(server.url)), ConnectionSettingsError)


def test_a_version_that_vanishes_while_it_is_read_is_worth_repeating(server: RegistryServer) -> None:
    """A user deletes it between the list and the reading."""
    server.failing = lambda number: (404, b'{"error_code": 40402}') if number else None
    error = failed(adapter(server.url))
    assert isinstance(error, UnavailableError)
    assert "vanished" in error.message


def test_versions_come_in_their_order_whatever_the_registrys(server: RegistryServer) -> None:
    """The last one is the newest, and values are read as it says."""
    server.register("orders-value", "AVRO", '"string"')
    server.failing = lambda number: None if number else (200, b"[2, 1]")
    registry = adapter(server.url)
    assert [item.version for item in registry.versions("orders-value")] == [1, 2]
    registry.close()


def test_older_versions_are_asked_for_once(server: RegistryServer) -> None:
    """The second wave of a topic costs two requests, however many versions its subject has."""
    for number in range(9):
        server.register("orders-value", "AVRO", json.dumps({"type": "enum", "name": f"E{number}", "symbols": ["A"]}))
    registry = adapter(server.url)
    first, asked = registry.versions("orders-value"), len(server.asked)
    assert (registry.versions("orders-value"), len(server.asked) - asked) == (first, 2)
    server.register("orders-value", "AVRO", '"string"')
    assert len(registry.versions("orders-value")) == len(first) + 1
    registry.close()


def test_a_failure_that_passes_is_not_seen(server: RegistryServer) -> None:
    """One repetition."""
    server.failing = lambda number: None if number else (503, b"")
    registry = adapter(server.url)
    assert len(registry.versions("orders-value")) == 1
    registry.close()


def test_silence_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry that takes the connection and says nothing is out of reach after a bounded time."""
    monkeypatch.setattr(settings, "_TIMES", {**settings._TIMES, "timeout": 0.1, "max.retries": 0})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = failed(adapter("127.0.0.1", port=silent.getsockname()[1]))
    assert isinstance(error, UnavailableError)
    assert "ReadTimeout" in error.message


def test_time_is_bounded_by_the_settings() -> None:
    """Without a number the client would wait for ever."""
    made = RegistrySettings.parse("registry", host="registry").confluent()
    assert made["timeout"] == 10
    assert made["max.retries"] == 1


def test_a_missing_client_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that brings it stands in the sentence."""
    _hide(monkeypatch, lambda name: name.startswith("confluent_kafka.schema_registry"))
    error = failed(adapter("registry"))
    assert isinstance(error, LibraryError)
    assert "pip install 'airflow-kafka-lake[schema-registry]'" in error.message


def _hide(monkeypatch: pytest.MonkeyPatch, hidden: Callable[[str], bool]) -> None:
    real = builtins.__import__

    def imported(name: str, *arguments: Any, **named: Any) -> Any:
        if hidden(name):
            raise ModuleNotFoundError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", imported)


# Protobuf


def protobuf(server: RegistryServer, text: str, *references: Any) -> Any:
    server.register("proto-value", "PROTOBUF", text, references)
    registry = adapter(server.url)
    try:
        return registry.versions("proto-value")[-1]
    finally:
        registry.close()


def names(text: str) -> list[str]:
    return [file.name for file in FileDescriptorSet.FromString(base64.b64decode(text)).file]


@pytest.fixture(params=["descriptors", "texts"])
def dialect(request: pytest.FixtureRequest, server: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> RegistryServer:
    """A registry that gives descriptors, and one that gives texts whatever is asked for."""
    if request.param == "texts":
        monkeypatch.setattr(server, "_schema", lambda entry, _: entry.schema)
    return server


def test_imports_are_followed_to_their_end(dialect: RegistryServer) -> None:
    """What an import imports comes along, each file once and after its own imports."""
    dialect.register("a", "PROTOBUF", 'syntax = "proto3"; message A { int32 n = 1; }')
    dialect.register(
        "b", "PROTOBUF", 'syntax = "proto3"; import "x/a.proto"; message B { A a = 1; }', [("x/a.proto", "a", 1)]
    )
    text = 'syntax = "proto3"; import "b.proto"; import "x/a.proto"; message C { A a = 1; B b = 2; }'
    found = protobuf(dialect, text, ("b.proto", "b", 1), ("x/a.proto", "a", 1))
    assert found.format is Format.PROTOBUF
    assert names(found.text) == ["x/a.proto", "b.proto", "registered.proto"]
    assert found.messages == {"C": "00"}


def test_the_nearest_of_two_versions_of_an_import_wins(server: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file can be imported in one version only, and its own references are what its producers meant."""
    monkeypatch.setattr(server, "_schema", lambda entry, _: entry.schema)
    for more in ("", " int32 m = 2;"):
        server.register("a", "PROTOBUF", f'syntax = "proto3"; message A {{ int32 n = 1;{more} }}')
    b = 'syntax = "proto3"; import "a.proto"; message B { A a = 1; }'
    server.register("b", "PROTOBUF", b, [("a.proto", "a", 1)])
    text = 'syntax = "proto3"; import "b.proto"; import "a.proto"; message C { A a = 1; B b = 2; }'
    found = protobuf(server, text, ("b.proto", "b", 1), ("a.proto", "a", 2))
    first = FileDescriptorSet.FromString(base64.b64decode(found.text)).file[0]
    assert (first.name, [field.name for field in first.message_type[0].field]) == ("a.proto", ["n", "m"])


def test_references_that_lead_back_end(server: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """No registry should let them in; protoc says what is wrong with them."""
    monkeypatch.setattr(server, "_schema", lambda entry, _: entry.schema)
    for name, other in (("a", "b"), ("b", "a")):
        text = f'syntax = "proto3"; import "{other}.proto"; message {name.upper()} {{}}'
        server.register(name, "PROTOBUF", text, [(f"{other}.proto", other, 1)])
    with pytest.raises(SchemaMismatchError, match="recursively imports itself"):
        protobuf(server, 'syntax = "proto3"; import "a.proto"; message C {}', ("a.proto", "a", 1))


def test_a_reference_that_was_deleted_is_still_read(dialect: RegistryServer) -> None:
    """Records name schemas for as long as they are kept."""
    dialect.register("a", "PROTOBUF", 'syntax = "proto3"; message A { int32 n = 1; }')
    text = 'syntax = "proto3"; import "a.proto"; message C { A a = 1; }'
    dialect.delete("a", 1)
    assert names(protobuf(dialect, text, ("a.proto", "a", 1)).text) == ["a.proto", "registered.proto"]


def test_what_everybody_has_needs_no_reference(server: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Google's types with what they import, and Confluent's decimal, which its own tools use without one."""
    monkeypatch.setattr(server, "_schema", lambda entry, _: entry.schema)
    text = (
        'syntax = "proto3"; import "google/protobuf/api.proto"; import "confluent/type/decimal.proto"; '
        "message C { google.protobuf.Api api = 1; confluent.type.Decimal price = 2; }"
    )
    *imported, own = names(protobuf(server, text).text)
    assert {"google/protobuf/type.proto", "google/protobuf/any.proto", "confluent/type/decimal.proto"} <= {*imported}
    assert own == "registered.proto"


@pytest.mark.parametrize("text", ["message {", 'syntax = "proto3"; import "nowhere.proto"; message A {}'])
def test_a_text_that_does_not_compile_is_refused(
    server: RegistryServer, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the words of protoc."""
    monkeypatch.setattr(server, "_schema", lambda entry, _: entry.schema)
    words = r"proto-value version 1 cannot be used: protoc refuses it: (registered|nowhere)\.proto:"
    with pytest.raises(SchemaMismatchError, match=words):
        protobuf(server, text)


def test_a_registry_that_gives_descriptors_needs_no_compiler(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every version is asked for as a descriptor, those that it refers to as well."""
    monkeypatch.setattr(client, "find_spec", lambda _: None)
    server.register("a", "PROTOBUF", 'syntax = "proto3"; message A { int32 n = 1; }')
    text = 'syntax = "proto3"; import "a.proto"; message C { A a = 1; }'
    assert protobuf(server, text, ("a.proto", "a", 1)).messages == {"C": "00"}


def test_a_text_without_a_compiler_is_refused(server: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that brings one stands in the sentence."""
    monkeypatch.setattr(server, "_schema", lambda entry, _: entry.schema)
    monkeypatch.setattr(client, "find_spec", lambda _: None)
    with pytest.raises(SchemaMismatchError, match=r"pip install 'airflow-kafka-lake\[schema-registry\]'"):
        protobuf(server, 'syntax = "proto3"; message A {}')


@pytest.mark.parametrize("name", ["../evil.proto", "/evil.proto", "a/../../evil.proto", "evil\n.proto", "", "."])
def test_an_import_name_that_leaves_the_folder_is_refused(
    server: RegistryServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names come from all who may register; they become files here."""
    monkeypatch.setattr(server, "_schema", lambda entry, _: entry.schema)
    server.register("evil", "PROTOBUF", 'syntax = "proto3"; message A {}')
    with pytest.raises(SchemaMismatchError, match="no path below a folder"):
        protobuf(server, 'syntax = "proto3"; message B {}', (name, "evil", 1))


def test_a_descriptor_without_its_imports_is_refused(server: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The missing one is named."""
    file = client.FileDescriptorProto(name="x", dependency=["money.proto"])
    text = base64.b64encode(file.SerializeToString()).decode()
    with pytest.raises(SchemaMismatchError, match=r"imports money\.proto, which is neither"):
        protobuf(server, text)


def test_base64_of_something_else_is_refused(server: RegistryServer) -> None:
    """It is no text of a .proto file either."""
    with pytest.raises(SchemaMismatchError, match=r"neither a \.proto file nor a file descriptor"):
        protobuf(server, base64.b64encode(b"\xff\xff\xff").decode())


@pytest.mark.parametrize(
    ("path", "written"),
    [([0], "00"), ([1], "0202"), ([0, 0], "040000"), ([2, 1], "040402"), ([64], "028001"), ([0, 300], "0400d804")],
)
def test_indexes_are_zigzag_varints_behind_their_number(path: list[int], written: str) -> None:
    """The first message of a file is one zero byte."""
    assert client.indexes(path).hex() == written
