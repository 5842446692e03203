"""Avro and Protobuf with a real registry: what Confluent's serializers write becomes columns."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from tests.integration.test_decoding import rows, send, write
from tests.protos import compiled, message_class
from tests.sandbox import Sandbox

if TYPE_CHECKING:
    from tests.kit.local_registry import LocalRegistry

pytestmark = pytest.mark.timeout(600)

UNKNOWN = b"\0\0\x0f\xff\xff\2"
ENDLESS = b"\2\xee\xff\xff\xff\x0f"
"""An Avro `1` and the length of a string of 2,147,483,639 bytes, of which there is none."""
PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  enum Kind { NEW = 0; PAID = 1; }
  message Line { string sku = 1; int32 count = 2; }
  int64 id = 1;
  Kind kind = 2;
  google.protobuf.Timestamp placed = 3;
  repeated Line lines = 4;
  map<string, double> rates = 5;
  optional uint64 total = 6;
  bytes raw = 7;
}
message Other { string x = 1; }
"""


def run(sandbox: Sandbox, registry: LocalRegistry, *own: str) -> None:
    """Do the main job; the registry's connection has the id `schemas`. With a connection of its `own` to Spark, the
    driver is one that spark-submit has started."""
    given = {f"AIRFLOW_CONN_{name}": sandbox.environment[f"AIRFLOW_CONN_{name}"] for name in own}
    done = sandbox.run(env={"AIRFLOW_CONN_SCHEMAS": json.dumps(registry.connection), **given})
    assert done.code == 0, done.err


def record(*fields: object) -> str:
    """Return an Avro record schema."""
    return json.dumps({"type": "record", "name": "Order", "fields": list(fields)})


def test_avro_values_of_every_version_are_read_as_the_newest(sandbox: Sandbox, schema_registry: LocalRegistry) -> None:
    """Values name their writer's schema; a newer version widens the table, and older values get its defaults.
    A length that is none takes no job's memory."""
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    here = SerializationContext(sandbox.topic, MessageField.VALUE)
    old = record({"name": "id", "type": "int"})
    line = {"type": "record", "name": "L", "fields": [{"name": "n", "type": "int"}]}
    new = record(
        {"name": "id", "type": "long"},
        {"name": "currency", "type": "string", "default": "EUR"},
        {"name": "lines", "type": {"type": "array", "items": line}, "default": []},
    )
    write(sandbox, format="avro", registry="schemas")
    with SchemaRegistryClient({"url": schema_registry.url}) as client:
        first = AvroSerializer(client, old)({"id": 1}, here)
        send(sandbox, first)
        run(sandbox, schema_registry)
        second = AvroSerializer(client, new)({"id": 5_000_000_000, "currency": "CHF", "lines": [{"n": 2}]}, here)
    send(sandbox, first, second, UNKNOWN, b"plain", second[:6], second[:5] + ENDLESS, None)
    run(sandbox, schema_registry, "SPARK_DEFAULT")
    ids = [int.from_bytes(value[1:5], "big") for value in (first, second)]
    seen = rows(sandbox)
    assert [row["id"] for row in seen] == [1, 1, 5_000_000_000, None, None, None, None, None]
    assert [row["currency"] for row in seen] == [None, "EUR", "CHF", None, None, None, None, None]
    assert (seen[1]["lines"], seen[2]["lines"]) == ([], [{"n": 2}])
    assert [row["value_schema_id"] for row in seen] == [ids[0], ids[0], ids[1], 0xFFFFF, None, ids[1], ids[1], None]
    assert [row["decode_error"] for row in seen[:3]] == [None] * 3
    assert seen[3]["decode_error"] == f"schema id {0xFFFFF} is no version of {sandbox.topic}-value"
    assert "does not begin with a zero byte" in seen[4]["decode_error"]
    assert all(f"does not fit schema id {ids[1]}" in row["decode_error"] for row in seen[5:7])
    assert (seen[7]["value"], seen[7]["decode_error"]) == (None, None)


def test_protobuf_messages_become_columns(sandbox: Sandbox, schema_registry: LocalRegistry) -> None:
    """Nested messages, lists, maps, enums, times and unsigned numbers keep what they say; another message does not
    pass for this one."""
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    here = SerializationContext(sandbox.topic, MessageField.VALUE)
    files = compiled("shop.proto", {"shop.proto": PROTO})
    order, other = message_class(files, "shop.Order"), message_class(files, "shop.Other")
    full = order(id=7, kind=1, lines=[{"sku": "a", "count": 2}], rates={"x": 1.5}, total=2**64 - 1, raw=b"\xff")
    full.placed.FromDatetime(datetime(2026, 1, 1, 10, tzinfo=UTC))
    settings = {"use.deprecated.format": False}
    with SchemaRegistryClient({"url": schema_registry.url}) as client:
        values = [ProtobufSerializer(order, client, settings)(message, here) for message in (full, order())]
        foreign = ProtobufSerializer(other, client, settings)(other(x="y"), here)
    long_form = values[0][:5] + b"\2\0" + values[0][6:]  # as other clients write the first message's index
    write(sandbox, format="protobuf", registry="schemas")
    send(sandbox, *values, long_form, foreign, values[0][:-1], UNKNOWN)
    run(sandbox, schema_registry)
    first, empty, again, *wrong = rows(sandbox)
    assert (first["id"], first["kind"], first["total"]) == (7, "PAID", Decimal(2**64 - 1))
    assert first["placed"] == datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert (first["lines"], first["rates"], first["raw"]) == ([{"sku": "a", "count": 2}], [("x", 1.5)], b"\xff")
    assert (empty["id"], empty["kind"], empty["placed"], empty["lines"], empty["total"]) == (0, "NEW", None, [], None)
    assert (again["id"], again["lines"], again["decode_error"]) == (7, first["lines"], None)
    assert [row["decode_error"] is None for row in (first, empty, *wrong)] == [True, True, False, False, False]
    assert {row["id"] for row in wrong} == {None}
