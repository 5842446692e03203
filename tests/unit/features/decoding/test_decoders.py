"""What a pipeline asks for becomes what a job is told."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from airflow_kafka_lake.core.decoding import (
    Decoder,
    Decoding,
    Format,
    Limit,
    RegisteredSchema,
)
from airflow_kafka_lake.core.errors import SchemaMismatchError
from airflow_kafka_lake.services.reading import plain_decoder, registered_decoder

pytestmark = pytest.mark.unit

PROTOBUF = Decoding(format=Format.PROTOBUF, registry="schemas", subject="{topic}-v", message="shop.Item")


def version(number: int, kind: Format = Format.PROTOBUF) -> RegisteredSchema:
    """One version of a subject."""
    return RegisteredSchema(
        id=10 + number,
        version=number,
        format=kind,
        text=f"t{number}",
        messages={"shop.Order": "00", "shop.Item": "0202"},
    )


@pytest.mark.parametrize(
    "asked",
    [
        Decoding(format=Format.JSON, schema="a INT", limit=Limit(share=0.01)),
        Decoding(format=Format.STRING, column="line", limit=Limit(records=3)),
        PROTOBUF,
    ],
    ids=lambda item: item.format.value,
)
def test_decoding_is_stored_and_read_back(asked: Decoding) -> None:
    """Nothing is lost in the ledger."""
    assert Decoding.from_json(json.loads(json.dumps(asked.to_json()))) == asked


def test_decoder_travels() -> None:
    """What the job reads is what was decided; of a version that cannot be used it has the reason."""
    bad = replace(version(1), format=None, text="", refused="why")
    decoder = registered_decoder(PROTOBUF, "orders", [bad, version(2), version(3)])
    assert (decoder.unusable, [number for number, _ in decoder.writers]) == (((11, "why"),), [12, 13])
    assert Decoder.from_json(json.loads(json.dumps(decoder.to_json()))) == decoder


def test_newest_version_is_what_values_are_read_as() -> None:
    """In whatever order the registry answers; each version is there, because values mean what their writers meant."""
    decoder = registered_decoder(PROTOBUF, "orders", [version(2), version(3), version(1)])
    assert (decoder.schema, decoder.name) == ("t3", "orders-v version 3 (id 13)")
    assert decoder.writers == ((11, "t1"), (12, "t2"), (13, "t3"))
    assert decoder.message == "shop.Item"


def test_first_message_is_the_default() -> None:
    """As serializers of one message per file have it."""
    asked = Decoding(format=Format.PROTOBUF, registry="schemas")
    assert registered_decoder(asked, "orders", [version(1)]).message == "shop.Order"


def test_versions_of_another_kind_are_left_out() -> None:
    """A subject may have changed its kind; its older values then do not decode, and say so."""
    asked = Decoding(format=Format.AVRO, registry="schemas")
    decoder = registered_decoder(asked, "orders", [version(1), version(2, Format.AVRO)])
    assert decoder.writers == ((12, "t2"),)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (Decoding(format=Format.AVRO, registry="r"), "has protobuf schemas, and the pipeline decodes avro"),
        (Decoding(format=Format.PROTOBUF, registry="r", message="shop.Nothing"), "it has: shop.Order, shop.Item"),
    ],
    ids=["kind", "message"],
)
def test_what_does_not_fit_is_refused_with_what_is_there(asked: Decoding, words: str) -> None:
    """The key to correct is named."""
    with pytest.raises(SchemaMismatchError, match=r"\[decode\]") as refused:
        registered_decoder(asked, "orders", [version(1)])
    assert words in refused.value.message


def test_one_decoder_serves_all_topics_of_a_plain_format() -> None:
    """Text goes to the column that was asked for."""
    decoder = plain_decoder(Decoding(format=Format.STRING, column="line"), {"b", "a"})
    assert (decoder.topics, decoder.column) == (("a", "b"), "line")
