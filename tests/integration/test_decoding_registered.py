"""Avro and Protobuf with a real registry: what Confluent's serializers write becomes columns."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from tests.integration.test_decoding import rows, send, write
from tests.protos import compiled, message_class
from tests.sandbox import Sandbox

if TYPE_CHECKING:
    from tests.kit.local_registry import LocalRegistry

pytestmark = [pytest.mark.timeout(600), pytest.mark.nightly]

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


def avro_value(number: int, schema: dict[str, Any], value: Any) -> bytes:
    """Return a value behind the id of its schema, as an independent library writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def test_numbers_mean_what_their_writers_meant(sandbox: Sandbox, schema_registry: LocalRegistry) -> None:
    """A version with other logical types, and one with its messages the other way round; what is behind a value, or is
    no text, is an error."""
    old, new = (
        {"type": "record", "name": "R", "fields": [
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": p, "scale": s}},
            {"name": "at", "type": {"type": "long", "logicalType": f"timestamp-{unit}"}},
            {"name": "note", "type": "string"},
        ]}
        for p, s, unit in ((10, 2, "millis"), (12, 4, "micros"))
    )  # fmt: skip
    subject = f"{sandbox.topic}-value"
    first, second = (schema_registry.register(subject, "avro", json.dumps(schema)) for schema in (old, new))
    at = datetime(2026, 1, 1, 10, tzinfo=UTC)
    value = {"price": Decimal("123.45"), "at": at, "note": "x"}
    good = avro_value(second, new, value)
    write(sandbox, format="avro", registry="schemas")
    send(sandbox, avro_value(first, old, value), good, good + b"\0", good[:-1] + b"\xff", good[:-1])
    run(sandbox, schema_registry)
    seen = rows(sandbox)
    assert [(row["price"], row["at"]) for row in seen[:2]] == [(Decimal("123.4500"), at)] * 2
    assert [(row["price"], row["decode_error"].rpartition("): ")[2]) for row in seen[2:]] == [
        (None, "1 bytes are left behind the value"),
        (None, "field note: the text is not UTF-8"),
        (None, "field note: the bytes end before the value does, or a length in them is none"),
    ]

    one, other = "message A { int32 n = 1; }", "message B { int32 n = 1; }"
    texts = [f'syntax = "proto3"; package p; {both}' for both in (one + other, other + one)]
    sandbox.topic = f"{sandbox.topic}-p"
    sandbox.create_topic(sandbox.topic, 1)
    ids = [schema_registry.register(f"{sandbox.topic}-value", "protobuf", text) for text in texts]
    write(sandbox, format="protobuf", registry="schemas", message="p.A")
    send(
        sandbox,
        *(b"\0" + number.to_bytes(4, "big") + index + b"\x08\7" for number in ids for index in (b"\0", b"\2\2")),
    )
    run(sandbox, schema_registry)
    seen = [row for row in rows(sandbox) if row["kafka_topic"] == sandbox.topic]
    assert [(row["n"], row["decode_error"] and row["decode_error"].rpartition(": ")[2]) for row in seen] == [
        (7, None),
        (None, "it is a p.B, another message than p.A"),
        (None, "it is a p.B, another message than p.A"),
        (7, None),
    ]


def test_no_schema_keeps_bytes_out_of_the_lake(sandbox: Sandbox, schema_registry: LocalRegistry) -> None:
    """What no table can hold lands as its substitute or as bytes alone."""
    subject = f"{sandbox.topic}-value"
    empty = {"type": "record", "name": "Nothing", "fields": []}
    big = {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 18}
    odd = {"type": "record", "name": "Tree", "fields": [
        {"name": "value", "type": "int"}, {"name": "headers", "type": big}, {"name": "extra", "type": ["null", empty]},
        {"name": "next", "type": ["null", "Tree"]},
    ]}  # fmt: skip
    number = schema_registry.register(subject, "avro", json.dumps(["null", odd]))
    send(sandbox, b"raw")
    assert sandbox.run().code == 0
    leaf = {"value": 2, "headers": Decimal("1.5"), "extra": None, "next": None}
    send(
        sandbox,
        avro_value(number, ["null", odd], leaf | {"extra": {}, "next": leaf}),
        b"\0" + number.to_bytes(4, "big") + b"\0",
    )
    write(sandbox, format="avro", registry="schemas")
    run(sandbox, schema_registry)
    tree, nothing = rows(sandbox)[1:]
    assert (tree["value_value"], tree["value_headers"], tree["extra"]) == (2, "1.500000000000000000", True)
    assert (json.loads(tree["next"])["headers"], tree["value"][:1]) == ("1.500000000000000000", b"\0")
    assert (nothing["value_value"], nothing["decode_error"], nothing["value_schema_id"]) == (None, None, number)

    number = schema_registry.register(subject, "avro", record({"name": "next", "type": "int"}))
    send(sandbox, b"\0" + number.to_bytes(4, "big") + b"\2")
    run(sandbox, schema_registry)
    last = rows(sandbox)[-1]
    assert last["decode_error"].startswith("column next is string in the table and int in")
    assert (last["value_schema_id"], last["next"]) == (number, None)
