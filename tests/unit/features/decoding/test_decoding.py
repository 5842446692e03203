"""Decoding in the protocol: a limit stops a wave before anything is visible, and a corrected file leads out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_lake.cli.status import status_lines
from airflow_kafka_lake.core.decoding import Decoding, Format, Limit
from airflow_kafka_lake.core.errors import UnavailableError
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.reports.progress import ProgressEvent
from airflow_kafka_lake.pages.pipeline import overview_page, pipeline_page, wave_page
from airflow_kafka_lake.pages.rendering import Visitor
from airflow_kafka_lake.services import decisions, reporting
from airflow_kafka_lake.services.attempt_audit import MANY_VALUES
from airflow_kafka_lake.services.redecoding import redecode
from tests.gates import Killed, KilledError
from tests.world import SPEC, World

pytestmark = pytest.mark.unit

AVRO = Decoding(format=Format.AVRO, registry="schemas", limit=Limit(records=0))


def of(decoding: Decoding | None, partitions: int = 1) -> World:
    """A world whose pipeline decodes."""
    return World(partitions, replace(SPEC, decoding=decoding))


def send(world: World, *values: bytes, partition: int = 0) -> None:
    """Append committed records with these values."""
    for value in values:
        offset = world.kafka.produce("orders", partition, value)[0]
        world.visible[world.key(partition)][offset] = value


def held(world: World) -> list[tuple[int, str]]:
    """Return the partitions and reasons of what is on hold."""
    found = world.ledger.ranges(pipeline="orders", states=(RangeState.HELD,))
    return [(item.stream.partition, item.reason or "") for item in found]


def test_without_a_limit_nothing_stops_a_wave() -> None:
    """What does not decode stays in the table and in the accounting."""
    world = of(Decoding(format=Format.JSON, schema="a INT"))
    send(world, b'{"a": 1}', b"none", b"[]")
    assert world.run().exit_code == 0
    assert (world.offsets(), world.stream().watermark) == ([0, 1, 2], 3)
    world.check()


@pytest.mark.parametrize(
    ("limit", "stops"),
    [
        (Limit(records=2), False),
        (Limit(records=1), True),
        (Limit(share=0.5), False),
        (Limit(share=0.49), True),
        (Limit(records=0), True),
        (Limit(share=1.0), False),
    ],
    ids=str,
)
def test_limit_counts_over_the_wave(limit: Limit, stops: bool) -> None:
    """Two of four values do not decode; at the limit is not above it."""
    world = of(Decoding(format=Format.JSON, schema="a INT", limit=limit))
    send(world, b'{"a": 1}', b"none", b"{}", b"[]")
    assert world.run().exit_code == (1 if stops else 0)
    assert world.offsets() == ([] if stops else [0, 1, 2, 3])
    assert bool(held(world)) is stops
    world.check()


def test_only_ranges_with_such_values_are_held() -> None:
    """The rest of the wave goes on, and the reason names numbers, the first offset, and the way out."""
    world = of(Decoding(format=Format.STRING, limit=Limit(records=1)), partitions=2)
    send(world, b"a", b"\xff", b"\xff")
    send(world, b"b", partition=1)
    assert world.run().exit_code == 1
    ((partition, reason),) = held(world)
    assert partition == 0
    assert reason.startswith("DecodeLimitError: 2 of the wave's 4 values do not decode, the limit is 1 record; 2 of")
    assert "the first at offset 1" in reason
    assert "kafka-lake release" in reason
    assert world.stream(1).watermark == 1
    world.check()


def test_corrected_file_leads_out_also_when_nothing_new_is_planned() -> None:
    """What is held is decoded as the file says at the time of its next try."""
    world = of(Decoding(format=Format.JSON, schema="a INT", limit=Limit(records=0)))
    send(world, b"plain", b"text")
    assert world.run().exit_code == 1
    world.spec = replace(world.spec, decoding=Decoding(format=Format.STRING, limit=Limit(records=0)))
    assert world.plan().ranges == ()
    (item,) = world.ledger.ranges(pipeline="orders", states=(RangeState.HELD,))
    decisions.release(world.worker(), item.id, None)
    assert world.run().exit_code == 0
    assert world.offsets() == [0, 1]
    world.check()


def test_job_gets_every_registered_version_and_reads_as_the_newest() -> None:
    """A value names its writer's schema by id."""
    world = of(AVRO)
    ids = [world.schemas.register("orders-value", Format.AVRO, text) for text in ('"int"', '"long"')]
    send(world, *(b"\0" + number.to_bytes(4, "big") + b"\2" for number in ids))
    assert world.run().exit_code == 0
    ((decoder,),) = [job.decoders for job in world.runner.jobs]
    assert decoder.writers == ((ids[0], '"int"'), (ids[1], '"long"'))
    assert (decoder.schema, decoder.name) == ('"long"', f"orders-value version 2 (id {ids[1]})")


def test_value_of_an_unknown_schema_counts_as_undecoded() -> None:
    """Its schema may be another subject's: it is not guessed."""
    world = of(AVRO)
    world.schemas.register("orders-value", Format.AVRO, '"int"')
    send(world, b"\0\0\0\0\7\2")
    assert world.run().exit_code == 1
    assert "1 of the wave's 1 value" in held(world)[0][1]


def test_registry_that_is_away_leaves_the_wave_to_be_repeated() -> None:
    """No job is started, and the next run lands everything."""
    world = of(AVRO)
    number = world.schemas.register("orders-value", Format.AVRO, '"int"')
    send(world, b"\0" + number.to_bytes(4, "big") + b"\2")
    world.schemas.down = True
    first = world.run()
    assert [type(problem) for problem in first.problems] == [UnavailableError]
    assert (first.exit_code, world.runner.jobs) == (3, [])
    world.schemas.down = False
    assert world.run().exit_code == 0
    world.check()


@pytest.mark.parametrize("kind", [None, Format.PROTOBUF])
def test_topic_without_a_schema_lands_as_bytes(kind: Format | None) -> None:
    """No subject, or one of another kind: the bytes may be gone from Kafka before a person has corrected the file."""
    world = of(replace(AVRO, limit=None))
    send(world, b"x")
    if kind:
        world.schemas.register("orders-value", kind, "", {"shop.Order": "00"})
    done = world.run()
    assert (done.problems, done.exit_code, len(world.offsets())) == ((), 0, 1)
    words = "has protobuf schemas" if kind else "has no subject"
    assert any("land as bytes alone" in line and words in line for line in world.said)


# Where a person finds it afterwards


def told(world: World) -> list[tuple[str, str, str]]:
    """Return the lines of the history about decoding: actor, subject and text."""
    return [(item.actor, item.subject, item.detail) for item in world.ledger.events("orders", kind="decode")]


def in_status(world: World) -> list[tuple[str, str]]:
    """Return the lines of a status about decoding: subject and text."""
    lines = reporting.status(world.worker(), world.spec).to_json()["decoding"]
    return [(line["subject"], line["detail"]) for line in lines]


UNDECODED = (
    "1 of 3 values did not decode, with the reason of each in decode_error. "
    "The first, orders/0 at 1: the value is no json"
)


def test_values_that_did_not_decode_are_in_history_status_wave_and_run() -> None:
    """The line is the attempt's that has landed, and every report has it."""
    world = of(Decoding(format=Format.JSON, schema="a INT"))
    send(world, b'{"a": 1}', b"none", b'{"a": 2}')
    (wave,) = world.run().to_json()["waves"]
    (landed,) = world.ledger.attempts(wave["wave"])
    assert told(world) == [(landed.attempt, wave["wave"], UNDECODED)]
    assert in_status(world) == [(wave["wave"], UNDECODED)]
    assert wave["decoding"] == UNDECODED
    assert reporting.wave(world.ledger, wave["wave"]).to_json()["decoding"] == UNDECODED
    assert f"wave {wave['wave']}: {UNDECODED}" in world.said


def test_nothing_is_told_of_values_that_decode() -> None:
    """No line, and null for programs."""
    world = of(Decoding(format=Format.JSON, schema="a INT"))
    send(world, b'{"a": 1}', b'{"a": 2}')
    (wave,) = world.run().to_json()["waves"]
    assert (told(world), in_status(world), wave["decoding"]) == ([], [], None)


@pytest.mark.parametrize("call", ["table.publish", "ledger.record_commit"])
def test_line_about_decoding_outlives_its_worker(call: str) -> None:
    """Another publishes what the dead one has staged, or adopts it: the wave has the line, once."""
    world = of(Decoding(format=Format.JSON, schema="a INT"))
    send(world, b'{"a": 1}', b"none", b'{"a": 2}')
    wave = world.planned_wave()
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed(call)))
    world.lease_ends()
    assert world.run().exit_code == 0
    assert [line[1:] for line in told(world)] == [(wave, UNDECODED)]
    assert reporting.wave(world.ledger, wave).decoding == UNDECODED


@pytest.mark.parametrize(
    ("number", "value", "columns"),
    [
        (MANY_VALUES, b'{"amount": 1}', "amuont"),
        (MANY_VALUES, b'{"Amount": 1}', "amount, amuont"),
        (MANY_VALUES, b'{"amuont": 1, "amount": null}', "amount"),
        (MANY_VALUES, b'{"amuont": 1, "amount": 1}', ""),
        (MANY_VALUES - 1, b'{"amount": 1}', ""),
        (2, b'{"Amount": 1}', "amount, amuont"),
    ],
)
def test_column_that_no_value_of_a_large_wave_fills_is_named(number: int, value: bytes, columns: str) -> None:
    """A misspelt field, or one of other case, is null in every row without an error; what does not decode, and a
    tombstone, do not count. It stops nothing."""
    world = of(Decoding(format=Format.JSON, schema="amount INT, amuont INT", limit=Limit(records=1)))
    send(world, *[value] * number, b"none")
    world.kafka.produce("orders", 0, None)
    assert world.run().exit_code == 0
    ((_, _, detail),) = told(world)
    named = f"None of the {number} values that decoded filled {columns}: fields are found by their exact names"
    assert (named in detail) is ("None of" in detail) is bool(columns)


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        (b'{"at": {"city": "Ulm", "geo": {"x": 1, "y": 2}}}', "at.ciyt"),
        (b'{"at": {"ciyt": "Ulm", "geo": {"x": 1}}}', "at.geo.y"),
        (b'{"at": {"ciyt": "Ulm", "gEo": {"x": 1, "y": 1}}}', "at.geo.x, at.geo.y"),
        (b'{"at": {"ciyt": null, "geo": {"X": 1, "y": 1}}}', "at.ciyt, at.geo.x"),
        (b'{"At": 1}', "at.ciyt, at.geo.x, at.geo.y"),
    ],
)
def test_field_inside_another_that_no_value_fills_is_named(value: bytes, fields: str) -> None:
    """By its path: also a struct that is there may have nothing of the name."""
    world = of(Decoding(format=Format.JSON, schema="at STRUCT<ciyt: STRING, geo: STRUCT<x: INT, y: INT>>, n INT"))
    send(world, *[value] * MANY_VALUES, b'{"n": 1}')
    assert world.run().exit_code == 0
    ((_, _, detail),) = told(world)
    assert f"values that decoded filled {fields}: fields are" in detail


def test_field_that_is_called_as_a_column_of_every_table_is_looked_for_in_its_own() -> None:
    """Kafka's key of these records is null; the field of that name is in `value_key`."""
    world = of(Decoding(format=Format.JSON, schema="key STRING, Headers STRING"))
    send(world, *[b'{"key": "a"}'] * MANY_VALUES)
    assert world.run().exit_code == 0
    ((_, _, detail),) = told(world)
    assert f"None of the {MANY_VALUES} values that decoded filled Headers: fields" in detail


def test_decode_is_in_the_history_with_the_person() -> None:
    """With the number of rows, and as the newest line of the status."""
    world = of(Decoding(format=Format.JSON, schema="a INT"))
    send(world, b'{"a": 1}', b"none", b'{"a": 2}')
    assert world.run().exit_code == 0
    assert len(in_status(world)) == 1
    person = world.worker()
    redecode(person, world.spec, only_failed=True)
    line = ("raw.orders", "1 row decoded again; 1 of them did not decode")
    assert told(world)[1:] == [(person.actor, *line)]
    assert in_status(world) == [line], "what was said of the rows before"
    send(world, b"none")
    assert world.run().exit_code == 0
    assert [subject for subject, _ in in_status(world)] == [told(world)[-1][1], "raw.orders"]


def test_decode_without_rows_leaves_no_line() -> None:
    """Nothing was changed."""
    world = of(Decoding(format=Format.JSON, schema="a INT"))
    send(world, b'{"a": 1}')
    assert world.run().exit_code == 0
    assert redecode(world.worker(), world.spec, only_failed=True)["raw.orders"].rows == 0
    assert told(world) == []


def test_terminal_and_pages_show_the_newest_line() -> None:
    """Whole, and escaped: a reason may quote a value."""
    world = of(Decoding(format=Format.JSON, schema="`a<b` INT"))
    send(world, *[b"{}"] * MANY_VALUES)
    assert world.run().exit_code == 0
    ((_, wave, _),) = told(world)
    report = reporting.status(world.worker(), world.spec)
    shown = "\n".join(line.text for line in status_lines(report, 200))
    assert f"\ndecoding\n  {wave}, " in shown
    assert "values that decoded filled a<b: fields are found" in shown
    visitor = Visitor(base="/kafka-lake", name="ada", csrf="", ledger="")
    for page in (pipeline_page(visitor, report), wave_page(visitor, reporting.wave(world.ledger, wave))):
        assert "values that decoded filled a&lt;b: fields are found" in page
    every = reporting.overview(world.ledger, world.clock, lambda _: world.kafka)
    assert "values that decoded filled a&lt;b" in overview_page(visitor, every)


def test_progress_of_a_decode_has_each_row_once() -> None:
    """Spark reads it several times: the number is told at the end."""
    world = of(Decoding(format=Format.STRING))
    send(world, b"a", b"b", b"c")
    assert world.run().exit_code == 0
    seen: list[ProgressEvent] = []
    redecode(replace(world.worker(), live=seen.append), world.spec)
    first, last = [item.sentence().removeprefix("decoding of raw.orders: ") for item in seen]
    assert (first, last.rpartition(" in ")[0]) == ("reading", "read 3 rows")
