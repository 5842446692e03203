"""Every part of a pipeline is tried, none stops the others, and nothing of the trial stays."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_kafka_lake.core.decoding import Decoding, Format
from airflow_kafka_lake.core.errors import (
    ConnectionSettingsError,
    KafkaLakeError,
    OwnershipError,
    PausedError,
    PipelineFileError,
    UnavailableError,
    UnknownTopicError,
)
from airflow_kafka_lake.core.spec import Policy, PolicyKind
from airflow_kafka_lake.services import decisions
from airflow_kafka_lake.services.checking import (
    KAFKA,
    LAKE,
    LEDGER,
    REGISTRY,
    SPARK,
    CheckOutcome,
    PipelineCheck,
    check_pipeline,
)
from tests.world import World

OK, WARNING, FAILED, SKIPPED = CheckOutcome
Test = Callable[[], str]


def answers() -> str:
    """Answer the test of a connection."""
    return "it answers"


def refuses() -> str:
    """Refuse the test of a connection."""
    raise ConnectionSettingsError("It refuses the login.").mended_by("Correct sasl.password.")


def is_down() -> str:
    """Be out of reach."""
    raise UnavailableError("It did not answer.")


def checked(world: World, **tests: Test) -> PipelineCheck:
    """Check the world's pipeline; connections answer unless another test of one is given."""
    parts = [LEDGER, KAFKA, LAKE, *([REGISTRY] if world.spec.decoding else []), SPARK]
    return check_pipeline(
        world.spec.name,
        read=lambda: world.spec,
        tests=lambda _: {part: (f"my_{part}", tests.get(part, answers)) for part in parts},
        opened=lambda _: nullcontext(world.worker()),
        progress=world.said.append,
    )


def outcomes(done: PipelineCheck) -> dict[str, CheckOutcome]:
    """Return the outcome of each part."""
    return {result.name: result.outcome for result in done.results}


def found(done: PipelineCheck, name: str) -> str:
    """Return what is said of a part."""
    return next(result.sentence for result in done.results if result.name == name)


def test_good_parts_are_all_tried_and_nothing_is_recorded(world: World) -> None:
    """Before the first plan: the table is not there, nor is it afterwards, and the ledger knows no pipeline."""
    world.produce(3)
    done = checked(world)
    assert set(outcomes(done).values()) == {OK}, done.to_json()
    assert [*outcomes(done)] == [
        "pipeline orders",
        "ledger my_ledger",
        "kafka my_kafka",
        "lake my_lake",
        "spark my_spark",
        "topic orders",
        "records orders",
        "table raw.orders",
        "store raw.orders",
        "plan orders",
    ]
    assert found(done, "records orders") == "orders/0 was read at offset 2"
    assert found(done, "plan orders") == "a run would read 3 offsets in 1 wave"
    assert done.exit_code == 0
    assert world.ledger.pipelines() == ()
    assert world.lake.table("raw.orders").branches() == ()
    assert "first plan creates it" in found(done, "table raw.orders")
    world.run()
    again = checked(world)
    assert "no other pipeline owns it" in found(again, "table raw.orders")
    assert found(again, "plan orders") == "a run would read 0 offsets in 0 waves"
    world.check()


@pytest.mark.parametrize(
    ("decoding", "named"),
    [
        (Decoding(format=Format.JSON, schema="ID INT, value INT, new STRING"), "column ID is string in the table and"),
        (Decoding(format=Format.STRING, column="n"), "column n is int in the table and string in"),
        (Decoding(format=Format.JSON, schema="id STRING, n BIGINT, decode_error INT"), None),
    ],
)
def test_columns_that_the_table_cannot_have_are_a_warning_before_any_run(
    world: World, decoding: Decoding, named: str | None
) -> None:
    """The plan tells it too; a column that can be widened is none of them, and a field called as one of every table."""
    world.produce(3)
    world.run()
    world.table._load().columns |= {"id": "string", "n": "integer", "decode_error": "string"}
    world.with_spec(decoding=decoding)
    world.produce(1)
    done, notes = checked(world), world.plan(dry_run=True).notes
    assert found(done, "pipeline orders").endswith(f"lands in raw.orders; values are decoded as {decoding}")
    told = [
        note for note in notes if note.startswith("values land in raw.orders as bytes alone, they are not decoded: ")
    ]
    assert done.exit_code == 0
    if named is None:
        assert (outcomes(done)["table raw.orders"], told) == (OK, [])
    else:
        assert outcomes(done)["table raw.orders"] is WARNING
        assert found(done, "table raw.orders").startswith(f"values of orders would land as bytes alone: {named}")
        assert [named in note for note in told] == [True]


@pytest.mark.parametrize("part", [LEDGER, KAFKA, LAKE, SPARK])
def test_failed_connection_skips_what_needs_it_and_nothing_else(world: World, part: str) -> None:
    """The remedy stands beside the fault, and for programs apart from it."""
    world.produce(3)
    done = checked(world, **{part: refuses})
    of = outcomes(done)
    assert of.pop(f"{part} my_{part}") is FAILED
    skipped = {
        LEDGER: {"table raw.orders", "plan orders"},
        KAFKA: {"spark my_spark", "topic orders", "records orders", "table raw.orders", "plan orders"},
        LAKE: {"spark my_spark", "table raw.orders", "store raw.orders", "plan orders"},
        SPARK: set[str](),
    }[part]
    assert {name for name, outcome in of.items() if outcome is SKIPPED} == skipped
    assert {outcome for name, outcome in of.items() if name not in skipped} == {OK}
    if "spark my_spark" in skipped:
        assert found(done, "spark my_spark") == f"needs {part} my_{part}"
    entry = next(item for item in done.to_json()["checks"] if item["outcome"] == "failed")
    assert (entry["found"], entry["remedy"]) == ("It refuses the login.", "Correct sasl.password.")
    assert entry["error"]["message"] == "It refuses the login. Correct sasl.password."
    assert done.exit_code == 1


def test_exit_code_is_that_of_the_worst_part(world: World) -> None:
    """A person's mistake before what is worth repeating; the error to mend first is the first."""
    assert checked(world, ledger=is_down).exit_code == 3
    both = checked(world, ledger=is_down, spark=refuses)
    assert both.exit_code == 1
    assert [type(error) for error in both.problems] == [ConnectionSettingsError, UnavailableError]


def test_file_that_does_not_validate_is_a_result_too() -> None:
    """There is nothing else to try then."""

    def read() -> None:
        raise PipelineFileError("orders.toml: table is missing")

    done = check_pipeline(
        "orders.toml",
        read=read,  # type: ignore[arg-type]
        tests=lambda _: {},
        opened=lambda _: nullcontext(World().worker()),
        progress=str,
    )
    assert outcomes(done) == {"pipeline orders.toml": FAILED}
    assert done.exit_code == 1


def test_missing_topic_fails_and_the_other_one_is_still_tried(world: World) -> None:
    """Its table, and the plan, need it."""
    world.with_spec(topics=("orders", "ordres"), table="raw.{topic}")
    world.produce(1)
    of = outcomes(checked(world))
    assert (of["topic orders"], of["records orders"], of["table raw.orders"]) == (OK, OK, OK)
    assert (of["topic ordres"], of["records ordres"], of["table raw.ordres"]) == (FAILED, SKIPPED, SKIPPED)
    assert of["plan orders"] is SKIPPED


def test_topics_of_a_pattern_are_looked_up(world: World) -> None:
    """Each that matches is tried."""
    world.create("orders-eu")
    world.with_spec(topics=(), topic_pattern="orders.*", table="raw.{topic}")
    of = outcomes(checked(world))
    assert of["topics orders.*"] is OK
    assert (of["topic orders"], of["topic orders-eu"], of["plan orders"]) == (OK, OK, OK)


def test_table_of_another_pipeline_is_refused_as_a_run_refuses_it(world: World) -> None:
    """In the same words, as a dry plan does."""
    world.produce(3)
    world.run()
    world.spec = replace(world.spec, name="second")
    done = checked(world)
    assert outcomes(done)["table raw.orders"] is FAILED
    assert "belongs to pipeline orders" in found(done, "table raw.orders")
    assert done.exit_code == 1
    assert refused_as(world, OwnershipError) == found(done, "table raw.orders")


def test_missing_topic_is_refused_as_a_run_refuses_it(world: World) -> None:
    """In the same words, as a dry plan does."""
    world.with_spec(topics=("ordres",))
    assert refused_as(world, UnknownTopicError) == found(checked(world), "topic ordres")


def refused_as(world: World, kind: type[KafkaLakeError]) -> str:
    """Return the words with which a dry plan and a run are refused."""
    with pytest.raises(kind) as planned:
        world.plan(dry_run=True)
    with pytest.raises(kind) as ran:
        world.run()
    assert ran.value.message == planned.value.message
    return ran.value.message


def test_catalog_that_does_not_keep_branches_fails_before_anything_is_created(world: World) -> None:
    """The trial is that of the first plan."""
    world.table.is_proven = world.table.keeps_branches = False
    done = checked(world)
    assert outcomes(done)["store raw.orders"] is FAILED
    assert "does not keep the branches" in found(done, "store raw.orders")


def test_what_could_not_be_removed_is_a_warning(world: World) -> None:
    """A run removes no table."""
    world.lake.left = left = "Could not remove table raw.trial. Remove it by hand."
    done = checked(world)
    assert outcomes(done)["store raw.orders"] is WARNING
    assert found(done, "store raw.orders").endswith(f"with a file in raw.orders. {left}")
    assert done.exit_code == 0


def test_paused_pipeline_fails_as_a_run_does(world: World) -> None:
    """In the same words."""
    world.produce(1)
    world.run()
    decisions.pause(world.worker(), decisions.find_pausable(world.ledger, "orders"), "maintenance")
    done = checked(world)
    with pytest.raises(PausedError) as refused:
        world.plan()
    assert outcomes(done)["plan orders"] is FAILED
    assert found(done, "plan orders") == refused.value.message


def test_pattern_that_matches_nothing_does_not_make_a_store_fail(world: World) -> None:
    """Its namespace is tried, by any name of a table."""
    world.with_spec(topics=(), topic_pattern="nothing.*", table="raw.{topic}")
    of = outcomes(checked(world))
    assert (of["topics nothing.*"], of["store raw.topic"]) == (FAILED, OK)


@pytest.mark.parametrize("key", ["start", "end"])
def test_group_without_an_offset_fails_where_a_key_needs_one(key: str, world: World) -> None:
    """The check names the key, as the plan does."""
    world.produce(2)
    world.with_spec(**{key: Policy(kind=PolicyKind.GROUP, group="billing")})
    done = checked(world)
    assert outcomes(done)["group billing"] is FAILED
    said = f"It has committed offsets in 0 of 1 partition, and [source] {key} needs one in each: orders/0 lacks it."
    assert found(done, "group billing").startswith(said)
    assert outcomes(done)["plan orders"] is FAILED
    assert f"let it commit first, or write another [source] {key}" in found(done, "plan orders")


def test_group_that_only_new_partitions_need_may_lack_offsets_of_planned_ones(world: World) -> None:
    """They have begun; and a group that is only kept in step needs none."""
    world.produce(2)
    world.run()
    world.with_spec(start=Policy(kind=PolicyKind.GROUP, group="billing"), sync_group="synced")
    done = checked(world)
    assert found(done, "group billing") == "it has committed offsets in 0 of 1 partition"
    assert {outcomes(done)[name] for name in ("group billing", "group synced", "plan orders")} == {OK}


def test_subject_that_is_not_registered_is_a_warning(world: World) -> None:
    """A run would land the bytes alone."""
    world.with_spec(decoding=Decoding(format=Format.AVRO, registry="my_registry"))
    done = checked(world)
    assert outcomes(done)["schema orders"] is WARNING
    assert "bytes alone" in found(done, "schema orders")
    world.schemas.register("orders-value", Format.AVRO, '"string"')
    assert outcomes(checked(world))["schema orders"] is OK
    assert outcomes(checked(world, registry=is_down))["schema orders"] is SKIPPED


def test_records_that_retention_takes_soon_are_a_warning(world: World) -> None:
    """The time is told, and what to raise."""
    topic_id = world.kafka.create_topic("late", 1, retention_ms=2 * 3600 * 1000)
    world.topic_ids["late"] = topic_id
    world.with_spec(topics=("late",))
    world.produce(3, topic="late")
    assert outcomes(checked(world))["plan orders"] is OK
    world.clock.advance(timedelta(minutes=90))
    done = checked(world)
    assert outcomes(done)["plan orders"] is WARNING
    assert "retention.ms" in found(done, "plan orders")
    assert done.exit_code == 0


def test_defect_of_a_part_is_the_result_of_that_part_alone(world: World) -> None:
    """Its own text, which may hold a secret, is not shown."""

    def breaks() -> str:
        raise RuntimeError("hunter2")

    done = checked(world, spark=breaks)
    assert outcomes(done)["spark my_spark"] is FAILED
    assert "RuntimeError" in found(done, "spark my_spark")
    assert "hunter2" not in str(done.to_json())
    assert outcomes(done)["plan orders"] is OK
