"""Values decoded beside their raw bytes by real jobs: what does not decode stays, is counted, and may stop a wave."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.rig import Rig

pytestmark = pytest.mark.timeout(600)

GOOD = {"amount": 3, "placed": "2026-01-01T10:00:00Z", "place": {"city": "Ulm"}}
MIXED = (
    json.dumps(GOOD).encode(),
    b"no json",
    None,
    b'{"amount": "many"}',
    b'{"amount": 1}{"amount": 2}',
    b"\xff",
    b"{}",
)
DDL = "amount INT, placed TIMESTAMP, place STRUCT<city: STRING>"


def write(rig: Rig, **decode: str) -> None:
    """Write the pipeline file anew with a [decode] section."""
    rig.write_pipeline()
    lines = [f"{key} = {json.dumps(value)}" for key, value in decode.items()]
    rig.file.write_text("\n".join([rig.file.read_text(), "[decode]", *lines, ""]))


def send(rig: Rig, *values: bytes | None) -> None:
    """Produce values to partition 0, acknowledged."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": rig.bootstrap, "acks": "all"})
    for value in values:
        producer.produce(rig.topic, value=value, partition=0)
    assert producer.flush(60) == 0


def rows(rig: Rig) -> list[dict[str, Any]]:
    """Return what readers see, by offset."""
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("lake", type="sql", uri=rig.catalog_uri, warehouse=f"file://{rig.home}/warehouse")
    try:
        found: list[dict[str, Any]] = catalog.load_table(rig.table).scan().to_arrow().to_pylist()
    finally:
        catalog.close()
    return sorted(found, key=lambda row: row["kafka_offset"])


def test_values_that_do_not_decode_stay_beside_those_that_do(rig: Rig) -> None:
    """Every record lands with its bytes; a schema with more and wider columns widens the table, another type is
    refused before anything is read."""
    write(rig, format="json", schema=DDL)
    send(rig, *MIXED)
    done = rig.run()
    assert done.code == 0, done.err
    seen = rows(rig)
    assert [row["value"] for row in seen] == list(MIXED)
    assert [row["decode_error"] is None for row in seen] == [True, False, True, False, False, False, True]
    assert [row["amount"] for row in seen] == [3, None, None, None, None, None, None]
    assert (seen[0]["placed"].isoformat(), seen[0]["place"]) == ("2026-01-01T10:00:00+00:00", {"city": "Ulm"})
    assert "UTF-8" in seen[5]["decode_error"]

    write(rig, format="json", schema="amount BIGINT, place STRUCT<city: STRING, zip: INT>, note STRING")
    send(rig, b'{"amount": 5000000000, "place": {"zip": 89073}, "note": "late"}')
    assert rig.run().code == 0
    *before, last = rows(rig)
    assert [row["amount"] for row in before] == [3, None, None, None, None, None, None]
    assert (last["amount"], last["place"], last["note"]) == (5000000000, {"city": None, "zip": 89073}, "late")

    write(rig, format="json", schema="amount STRING")
    send(rig, b'{"amount": "5"}')
    refused = rig.run()
    assert refused.code == 1, refused.out
    (problem,) = refused.document["problems"]
    assert problem["type"] == "SchemaMismatchError"
    assert "column amount is bigint in the table and string in" in problem["message"]
    assert len(rows(rig)) == len(MIXED) + 1

    write(rig, format="json", schema="amount BIGINT")
    assert rig.run().code == 0
    assert rows(rig)[-1]["decode_error"] is not None
    audited = rig.command("audit", rig.name, "--json")
    assert audited.code == 0, audited.out


def test_too_many_values_that_do_not_decode_stop_the_wave(rig: Rig) -> None:
    """Nothing of the range is visible; with the right schema the same range lands whole."""
    write(rig, format="json", schema="amount INT", limit="10 %")
    amounts = [5_000_000_000 + number for number in range(10)]
    send(rig, *[b'{"amount": %d}' % amount for amount in amounts])
    stopped = rig.run()
    assert stopped.code == 1, stopped.out
    assert rows(rig) == []
    reason = rig.command("status", rig.name, "--json").document["streams"][0]["blocked_by"][0]
    assert "DecodeLimitError: 10 of the wave's 10 values do not decode, the limit is 10 %" in reason
    range_id = reason.rsplit("kafka-lake release ", 1)[1].split()[0]

    write(rig, format="json", schema="amount BIGINT", limit="10 %")
    assert rig.command("plan", str(rig.file)).code == 0
    assert rig.command("release", range_id).code == 0
    assert rig.run().code == 0
    assert [row["amount"] for row in rows(rig)] == amounts


def test_rows_are_decoded_again_from_their_bytes(rig: Rig) -> None:
    """First what landed raw, then what a wrong schema left; every row stays, and the audit finds nothing."""
    send(rig, b'{"amount": 1}', b"none", b'{"amount": 5000000000}')
    assert rig.run().code == 0
    refused = rig.command("decode", str(rig.file), "--json")
    assert (refused.code, refused.document["error"]["type"]) == (2, "UsageError")
    write(rig, format="json", schema="amount INT")
    done = rig.command("decode", str(rig.file), "--json")
    assert done.document["tables"] == [{"table": rig.table, "rows": 3, "failed": 2}], done.err
    write(rig, format="json", schema="amount BIGINT")
    done = rig.command("decode", str(rig.file), "--failed", "--json")
    assert done.document["tables"] == [{"table": rig.table, "rows": 2, "failed": 1}], done.err
    assert [(row["amount"], row["decode_error"] is None) for row in rows(rig)] == [
        (1, True),
        (None, False),
        (5000000000, True),
    ]
    audited = rig.command("audit", rig.name, "--json")
    assert audited.code == 0, audited.out
    send(rig, b'{"amount": 7}')
    assert rig.run().code == 0
    assert rows(rig)[-1]["amount"] == 7


def test_text_is_decoded_into_one_column(rig: Rig) -> None:
    """Text needs no schema."""
    write(rig, format="string", column="line")
    send(rig, "Grüße".encode(), b"\xfc", b"")
    assert rig.run().code == 0
    assert [(row["line"], row["decode_error"]) for row in rows(rig)] == [
        ("Grüße", None),
        (None, "the value is not UTF-8"),
        ("", None),
    ]
