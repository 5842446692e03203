"""What every `SchemaRegistry` does: the one in memory, a real one, and Confluent's dialect of Protobuf over HTTP."""

from __future__ import annotations

import base64
import io
import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from airflow_kafka_lake.adapters.registry.client import ConfluentRegistry
from airflow_kafka_lake.adapters.registry.settings import RegistrySettings
from airflow_kafka_lake.core.decoding import Format, RegisteredSchema
from airflow_kafka_lake.core.errors import SchemaMismatchError, UnavailableError, UnknownSubjectError
from airflow_kafka_lake.local.processes import free_ports
from airflow_kafka_lake.ports import SchemaRegistry
from tests import protos
from tests.kit.memory_registry import MemoryRegistry
from tests.registry_server import RegistryServer

MONEY = """
syntax = "proto3";
package shop.v1;
message Money { int64 cents = 1; string currency = 2; }
"""
ORDER = """
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
import "shop/money.proto";
message Order {
  message Line {
    message Discount { int32 percent = 1; }
    string article = 1;
    Discount discount = 2;
  }
  map<string, string> labels = 4;
  message Note { string text = 1; }
  google.protobuf.Timestamp at = 1;
  Money price = 2;
  repeated Line lines = 3;
}
message Cancelled { string reason = 1; }
"""
MESSAGES = {
    "shop.v1.Order": "00",
    "shop.v1.Order.Line": "040000",
    "shop.v1.Order.Line.Discount": "06000000",
    "shop.v1.Order.Note": "040004",  # the third: protoc makes a message of the map before it
    "shop.v1.Cancelled": "0202",
}
"""By hand, from Confluent's description of the wire format."""


def avro(*fields: str) -> str:
    """Return the schema of a record of optional texts."""
    made = [{"name": name, "type": ["null", "string"], "default": None} for name in fields]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": made})


class MemoryWorld:
    """The registry in memory, filled by hand."""

    def __init__(self) -> None:
        self.registry = MemoryRegistry()

    def register(self, subject: str, kind: Format, text: str, references: Any = ()) -> int:
        if kind is not Format.PROTOBUF:
            return self.registry.register(subject, kind, text)
        given = protos.compiled("registered.proto", {"registered.proto": text, "shop/money.proto": MONEY})
        messages = MESSAGES if text == ORDER else {"shop.v1.Money": "00"}
        whole = base64.b64encode(given.SerializeToString()).decode()
        return self.registry.register(subject, kind, whole, messages)

    def delete(self, subject: str, version: int) -> None:
        self.registry.delete(subject, version)

    def out_of_reach(self) -> SchemaRegistry:
        self.registry.down = True
        return self.registry


class HttpWorld:
    """Any registry that is reached over HTTP, and the real adapter."""

    def __init__(self, server: Any) -> None:
        self.registry = ConfluentRegistry(RegistrySettings.parse("registry", host=server.url))
        self.register, self.delete = server.register, server.delete

    def out_of_reach(self) -> SchemaRegistry:
        (port,) = free_ports(1)
        return ConfluentRegistry(RegistrySettings.parse("registry", host="127.0.0.1", port=port))


@pytest.fixture(params=["memory", "real", "descriptors"])
def world(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A registry of each kind; the last one gives Protobuf as Confluent's does."""
    if request.param == "memory":
        yield MemoryWorld()
        return
    if request.param == "real":
        found = HttpWorld(request.getfixturevalue("schema_registry"))
        yield found
        found.registry.close()
        return
    with RegistryServer() as server:
        found = HttpWorld(server)
        yield found
        found.registry.close()


@pytest.fixture
def subject() -> str:
    """A subject that no other test uses, with signs that an address must not take literally."""
    return f"orders/eu {uuid.uuid4().hex[:8]}-value"


def files(schema: RegisteredSchema) -> FileDescriptorSet:
    """Return a Protobuf schema's files."""
    return FileDescriptorSet.FromString(base64.b64decode(schema.text))


def register_order(world: Any, subject: str) -> int:
    """Register a Protobuf file that imports another subject's and one of Google's."""
    world.register(f"money-{subject}", Format.PROTOBUF, MONEY)
    return world.register(subject, Format.PROTOBUF, ORDER, [("shop/money.proto", f"money-{subject}", 1)])


def test_every_version_comes_with_its_id_and_text_oldest_first(world: Any, subject: str) -> None:
    """The text is the registered one, whatever its spaces."""
    texts = [avro("id"), avro("id", "name")]
    ids = [world.register(subject, Format.AVRO, text) for text in texts]
    found = world.registry.versions(subject)
    assert [(item.id, item.version, item.format) for item in found] == [
        (ids[0], 1, Format.AVRO),
        (ids[1], 2, Format.AVRO),
    ]
    assert [json.loads(item.text) for item in found] == [json.loads(text) for text in texts]
    assert [item.messages for item in found] == [None, None]
    assert ids[0] != ids[1]


def test_one_schema_has_one_id_under_every_subject_and_one_version_under_each(world: Any, subject: str) -> None:
    """Frames name ids, and registering again is what every producer does."""
    ids = {
        world.register(name, Format.AVRO, avro("id", f"at_{subject[10:18]}"))
        for name in (subject, subject, f"{subject}-2")
    }
    assert {item.id for item in world.registry.versions(subject)} == ids
    assert len(ids) == len(world.registry.versions(subject)) == len(world.registry.versions(f"{subject}-2")) == 1


def test_a_version_that_is_registered_later_is_seen(world: Any, subject: str) -> None:
    """Nothing is remembered from one question to the next."""
    world.register(subject, Format.AVRO, avro("id"))
    assert len(world.registry.versions(subject)) == 1
    world.register(subject, Format.AVRO, avro("id", "name"))
    assert len(world.registry.versions(subject)) == 2


def test_a_deleted_version_is_not_told(world: Any, subject: str) -> None:
    """Its number is not given again."""
    for fields in (["id"], ["id", "name"]):
        world.register(subject, Format.AVRO, avro(*fields))
    world.delete(subject, 1)
    assert [item.version for item in world.registry.versions(subject)] == [2]


def test_an_unknown_subject_is_an_error_that_names_it(world: Any, subject: str) -> None:
    """An empty answer would pass for a topic without schemas."""
    with pytest.raises(UnknownSubjectError, match=subject):
        world.registry.versions(subject)


def test_a_protobuf_schema_brings_all_that_it_imports(world: Any, subject: str) -> None:
    """What is registered elsewhere and what is everybody's: the message is read with it and with nothing else."""
    number = register_order(world, subject)
    (found,) = world.registry.versions(subject)
    assert (found.id, found.format) == (number, Format.PROTOBUF)
    names = [file.name for file in files(found).file]
    assert {"google/protobuf/timestamp.proto", "shop/money.proto"} == {*names[:-1]}
    order = protos.message_class(files(found), "shop.v1.Order")
    made = order(price={"cents": 7}, lines=[{"article": "a"}], labels={"a": "b"}, at={"seconds": 1})
    assert order.FromString(made.SerializeToString()) == made


def test_a_protobuf_schema_names_its_messages_with_the_bytes_of_their_frames(world: Any, subject: str) -> None:
    """In their order, the first one being what a file is used for; those it imports are not its own."""
    register_order(world, subject)
    (found,) = world.registry.versions(subject)
    assert list((found.messages or {}).items()) == list(MESSAGES.items())


def test_a_json_schema_is_refused(world: Any, subject: str) -> None:
    """It describes text, and Spark reads JSON with the columns of the pipeline file."""
    text = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'
    world.register(subject, Format.JSON, text)
    with pytest.raises(SchemaMismatchError, match=f"(?i){subject} version 1 .*JSON"):
        world.registry.versions(subject)


def test_a_registry_out_of_reach_is_worth_repeating(world: Any, subject: str) -> None:
    """Silence is not an unknown subject."""
    with pytest.raises(UnavailableError):
        world.out_of_reach().versions(subject)


# Over HTTP only: Confluent's own serializers are the witness of what stands in a frame.


@pytest.fixture(params=["real", "descriptors"])
def served(request: pytest.FixtureRequest) -> Iterator[tuple[ConfluentRegistry, Any]]:
    """A registry and Confluent's client of it."""
    from confluent_kafka.schema_registry import SchemaRegistryClient

    server = request.getfixturevalue("schema_registry") if request.param == "real" else RegistryServer()
    with server if request.param == "descriptors" else nullcontext():
        ours = ConfluentRegistry(RegistrySettings.parse("registry", host=server.url))
        client = SchemaRegistryClient({"url": server.url})
        yield ours, client
        ours.close()
        client.close()


def frame(serializer: Any, topic: str, value: Any) -> bytes:
    """Return what a producer would send."""
    from confluent_kafka.serialization import MessageField, SerializationContext

    return serializer(value, SerializationContext(topic, MessageField.VALUE))


def test_confluents_avro_serializer_writes_the_id_we_read(served: Any) -> None:
    """One zero byte, four of the id, and a value that the text of that version reads."""
    import fastavro
    from confluent_kafka.schema_registry.avro import AvroSerializer

    ours, client = served
    topic = f"avro-{uuid.uuid4().hex[:8]}"
    sent = frame(AvroSerializer(client, avro("id", topic.replace("-", "_"))), topic, {"id": "7"})
    (found,) = ours.versions(f"{topic}-value")
    assert sent[:5] == b"\0" + found.id.to_bytes(4, "big")
    read = fastavro.schemaless_reader(io.BytesIO(sent[5:]), fastavro.parse_schema(json.loads(found.text)), None)
    assert read["id"] == "7"


def test_an_older_version_that_cannot_be_used_is_refused_alone(served: Any) -> None:
    """The newest is what values are read as; values of the other say so."""
    from confluent_kafka.schema_registry import Schema, SchemaReference

    ours, client = served
    subject = f"older-{uuid.uuid4().hex[:8]}"
    client.register_schema(f"{subject}-id", Schema('{"type": "enum", "name": "Id", "symbols": ["A"]}', "AVRO"))
    held = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "Id", "default": "A"}]}
    reference = SchemaReference("Id", f"{subject}-id", 1)
    number = client.register_schema(subject, Schema(json.dumps(held), "AVRO", [reference]))
    client.register_schema(subject, Schema(json.dumps(held | {"fields": []}), "AVRO"))
    old, new = ours.versions(subject)
    assert (old.id, old.format, old.text, new.refused, new.format) == (number, None, "", "", Format.AVRO)
    assert old.refused.startswith(f"version 1 of {subject} cannot be used: it refers to Id in other subjects")


@pytest.mark.parametrize(("name", "fields"), [
    ("shop.v1.Order", {"price": {"cents": 7}}),
    ("shop.v1.Order.Line", {"article": "a"}),
    ("shop.v1.Order.Line.Discount", {"percent": 3}),
    ("shop.v1.Order.Note", {"text": "n"}),
    ("shop.v1.Cancelled", {"reason": "r"}),
], ids=lambda item: item if isinstance(item, str) else "")  # fmt: skip
def test_confluents_protobuf_serializer_writes_the_indexes_we_name(
    served: Any, name: str, fields: Mapping[str, Any]
) -> None:
    """The id, then the very bytes of the message's indexes, then a message that our descriptors read."""
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer

    ours, client = served
    topic = f"protobuf-{uuid.uuid4().hex[:8]}"
    given = protos.compiled("shop/order.proto", {"shop/order.proto": ORDER, "shop/money.proto": MONEY})
    message = protos.message_class(given, name)
    sent = frame(ProtobufSerializer(message, client, {"use.deprecated.format": False}), topic, message(**fields))
    (found,) = ours.versions(f"{topic}-value")
    prefix = b"\0" + found.id.to_bytes(4, "big") + bytes.fromhex((found.messages or {})[name])
    assert sent.startswith(prefix)
    read = protos.message_class(files(found), name).FromString(sent[len(prefix) :])
    assert read.SerializeToString() == message(**fields).SerializeToString()


def test_an_avro_schema_that_refers_to_others_is_refused(served: Any, subject: str) -> None:
    """Spark cannot put it together; the message says what it refers to, and what to do."""
    from confluent_kafka.schema_registry import Schema, SchemaReference

    ours, client = served
    money = json.dumps({"type": "record", "name": "Money", "namespace": "shop", "fields": []})
    client.register_schema(f"money-{subject}", Schema(money, "AVRO"))
    order = {"type": "record", "name": "Order", "fields": [{"name": "price", "type": "shop.Money"}]}
    references = [SchemaReference("shop.Money", f"money-{subject}", 1)]
    client.register_schema(subject, Schema(json.dumps(order), "AVRO", references))
    with pytest.raises(SchemaMismatchError, match=r"shop\.Money.*Spark cannot resolve.*Register the schema whole"):
        ours.versions(subject)
