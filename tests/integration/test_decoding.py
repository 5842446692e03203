"""Values decoded beside their raw bytes by real jobs: what does not decode stays, is counted, and may stop a wave."""

from __future__ import annotations

import json
import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from airflow_kafka_lake.services.attempt_audit import MANY_VALUES
from tests.sandbox import Sandbox

if TYPE_CHECKING:
    from pyiceberg.table import Table

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
    b'{"amount": 1.5}',
    b'{"placed": "soon"}',
    b'\xef\xbb\xbf{"amount": 1}',
)
REASONS = {
    3: "field amount: STRING, where the schema of the pipeline file says int",
    7: "field amount: DECIMAL(2,1) that is no int (the schema of the pipeline file)",
    8: "field placed: STRING that is no timestamp (the schema of the pipeline file)",
    9: "the value begins with a byte order mark, which is no JSON",
}
"""Some of the reasons, by the value's place."""

DDL = "amount INT, placed TIMESTAMP, place STRUCT<city: STRING>"


def write(sandbox: Sandbox, **decode: str) -> None:
    """Write the pipeline file anew with a [decode] section."""
    sandbox.write_pipeline()
    lines = [f"{key} = {json.dumps(value)}" for key, value in decode.items()]
    sandbox.file.write_text("\n".join([sandbox.file.read_text(), "[decode]", *lines, ""]))


def send(sandbox: Sandbox, *values: bytes | None) -> None:
    """Produce values to partition 0, acknowledged."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": sandbox.bootstrap, "acks": "all"})
    for value in values:
        producer.produce(sandbox.topic, value=value, partition=0)
    assert producer.flush(60) == 0


def loaded(sandbox: Sandbox) -> Table:
    """Return the table as readers load it."""
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("lake", type="sql", uri=sandbox.catalog_uri, warehouse=f"file://{sandbox.home}/warehouse")
    with closing(catalog):
        return catalog.load_table(sandbox.table)


def rows(sandbox: Sandbox) -> list[dict[str, Any]]:
    """Return what readers see, by offset."""
    found: list[dict[str, Any]] = loaded(sandbox).scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["kafka_offset"])


def test_values_that_do_not_decode_stay_beside_those_that_do(sandbox: Sandbox) -> None:
    """Every record lands with its bytes; a schema with more and wider columns widens the table, and one with another
    type leaves it as it is: the bytes land, each with the reason. Two commits widen it, however many columns it
    lacks: one adds, one widens."""
    write(sandbox, format="json", schema=DDL)
    send(sandbox, *MIXED)
    done = sandbox.run()
    assert done.code == 0, done.err
    seen = rows(sandbox)
    assert [row["value"] for row in seen] == list(MIXED)
    assert [row["decode_error"] is None for row in seen] == [number in {0, 2, 6} for number in range(10)]
    assert {number: seen[number]["decode_error"] for number in REASONS} == REASONS
    assert [row["amount"] for row in seen] == [3, *[None] * 9]
    assert (seen[0]["placed"].isoformat(), seen[0]["place"]) == ("2026-01-01T10:00:00+00:00", {"city": "Ulm"})
    assert "UTF-8" in seen[5]["decode_error"]
    schemas = len(loaded(sandbox).metadata.schemas)
    assert schemas == 2

    write(sandbox, format="json", schema="amount BIGINT, place STRUCT<city: STRING, zip: INT>, note STRING")
    send(sandbox, b'{"amount": 5000000000, "place": {"zip": 89073}, "note": "late"}')
    assert sandbox.run().code == 0
    assert len(loaded(sandbox).metadata.schemas) == schemas + 2
    *before, last = rows(sandbox)
    assert [row["amount"] for row in before] == [3, *[None] * 9]
    assert (last["amount"], last["place"], last["note"]) == (5000000000, {"city": None, "zip": 89073}, "late")

    write(sandbox, format="json", schema="amount STRING")
    send(sandbox, b'{"amount": "5"}')
    misfit = sandbox.run()
    assert misfit.code == 0, misfit.out
    told = "1 of 1 value did not decode, with the reason of each in decode_error. The first, "
    assert re.search(rf"{re.escape(told)}\S+/\d at \d+: column amount is bigint in the table and string in", misfit.err)
    last = rows(sandbox)[-1]
    assert (last["value"], last["amount"]) == (b'{"amount": "5"}', None)
    assert "column amount is bigint in the table and string in" in last["decode_error"]
    refused = sandbox.command("decode", str(sandbox.file), "--json").document["error"]
    assert refused["type"] == "SchemaMismatchError", refused
    assert "column amount is bigint in the table and string in" in refused["message"]

    misspelt = "plase STRUCT<city: STRING, at: STRUCT<x: INT>>, Note STRING"
    write(sandbox, format="json", schema=f"amount BIGINT, place STRUCT<city: STRING, zipp: INT>, {misspelt}")
    send(sandbox, *[b'{"amount": 1, "place": {"city": "Ulm"}, "note": "late"}'] * MANY_VALUES)
    (wave,) = sandbox.run().document["waves"]
    assert wave["decoding"].startswith(
        f"None of the {MANY_VALUES} values that decoded filled place.zipp, plase.city, plase.at.x, Note: "
    )
    audited = sandbox.command("audit", sandbox.name, "--json")
    assert audited.code == 0, audited.out


@pytest.mark.nightly  # by day: the limit (unit/features/decoding/test_decoding.py)
def test_too_many_values_that_do_not_decode_stop_the_wave(sandbox: Sandbox) -> None:
    """Nothing of the range is visible; with the right schema the same range lands whole."""
    write(sandbox, format="json", schema="amount INT", limit="10 %")
    amounts = [5_000_000_000 + number for number in range(10)]
    send(sandbox, *[b'{"amount": %d}' % amount for amount in amounts])
    stopped = sandbox.run()
    assert stopped.code == 1, stopped.out
    assert rows(sandbox) == []
    reason = sandbox.command("status", sandbox.name, "--json").document["streams"][0]["blocked_by"][0]
    assert "DecodeLimitError: 10 of the wave's 10 values do not decode, the limit is 10 %" in reason
    range_id = reason.rsplit("kafka-lake release ", 1)[1].split()[0]

    write(sandbox, format="json", schema="amount BIGINT", limit="10 %")
    assert sandbox.command("plan", str(sandbox.file)).code == 0
    assert sandbox.command("release", range_id).code == 0
    assert sandbox.run().code == 0
    assert [row["amount"] for row in rows(sandbox)] == amounts


def test_rows_are_decoded_again_from_their_bytes(sandbox: Sandbox) -> None:
    """First what landed raw, then what a wrong schema left; every row stays, and the audit finds nothing. A schema that
    takes less than the one before empties columns, and says of how many rows."""

    def told() -> str:
        newest = sandbox.command("status", sandbox.name, "--json").document["decoding"][0]
        assert newest["subject"] == sandbox.table
        return str(newest["detail"])

    send(sandbox, b'{"amount": 1}', b"none", b'{"amount": 5000000000}')
    assert sandbox.run().code == 0
    refused = sandbox.command("decode", str(sandbox.file), "--json")
    assert (refused.code, refused.document["error"]["type"]) == (2, "UsageError")
    write(sandbox, format="json", schema="amount INT")
    done = sandbox.command("decode", str(sandbox.file), "--json")
    assert done.document["tables"] == [{"table": sandbox.table, "rows": 3, "failed": 2}], done.err
    assert told() == "3 rows decoded again; 2 of them did not decode", "none of them did before"
    write(sandbox, format="json", schema="amount BIGINT")
    done = sandbox.command("decode", str(sandbox.file), "--failed", "--json")
    assert done.document["tables"] == [{"table": sandbox.table, "rows": 2, "failed": 1}], done.err
    assert f"decoding of {sandbox.table}: read 2 rows in " in done.err
    assert told() == "2 rows decoded again; 1 of them did not decode"
    assert [(row["amount"], row["decode_error"] is None) for row in rows(sandbox)] == [
        (1, True),
        (None, False),
        (5000000000, True),
    ]
    audited = sandbox.command("audit", sandbox.name, "--json")
    assert audited.code == 0, audited.out
    send(sandbox, b'{"amount": 7}')
    assert sandbox.run().code == 0
    assert rows(sandbox)[-1]["amount"] == 7
    write(sandbox, format="json", schema="amount INT")
    assert sandbox.command("decode", str(sandbox.file)).code == 0
    emptied = "of which 1 did before: their columns are empty now"
    assert told() == f"4 rows decoded again; 2 of them did not decode, {emptied}"
    assert [row["amount"] for row in rows(sandbox)] == [1, None, None, 7]


def test_text_is_decoded_into_one_column(sandbox: Sandbox) -> None:
    """Text needs no schema."""
    write(sandbox, format="string", column="line")
    send(sandbox, "Grüße".encode(), b"\xfc", b"")
    assert sandbox.run().code == 0
    assert [(row["line"], row["decode_error"]) for row in rows(sandbox)] == [
        ("Grüße", None),
        (None, "the value is not UTF-8"),
        ("", None),
    ]
