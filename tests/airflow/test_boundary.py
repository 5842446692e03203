"""What people write into a Dag, and what they read of a plan: values, template fields, lines of the log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_kafka_lake.core.errors import KafkaLakeError, UnavailableError, UnknownOutcomeError, UsageError
from airflow_kafka_lake.core.ledger.guards import landed
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.reports.plan import size
from airflow_kafka_lake.operators.boundary import (
    MAX_PARTITION,
    actor_of,
    airflow_errors,
    bounds_of,
    flag_of,
    refuse_unknown_keys,
    text_of,
)
from airflow_kafka_lake.operators.plan import explain
from airflow_kafka_lake.services.planning import plan
from airflow_kafka_lake.services.staging import ingest

from .conftest import ORDERS, World


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, True), (False, False), (None, False), ("", False), (" True ", True), ("FALSE", False)],
    ids=repr,
)
def test_truth_values_are_read_as_people_write_them(value: Any, expected: bool) -> None:
    """Templates give text, forms give nothing."""
    assert flag_of(value) is expected


@pytest.mark.parametrize("value", ["yes", "1", 2, 1.5, [], {}, object()], ids=lambda value: type(value).__name__)
def test_other_truth_values_are_refused_by_name(value: Any) -> None:
    """A guess might write where only a look was wanted."""
    with pytest.raises(UsageError, match="all_waves must be true or false"):
        flag_of(value, "all_waves")


def test_names_are_read_without_the_space_around_them() -> None:
    """Nothing, space and what cannot be printed are no name; the words say which one is missing."""
    assert text_of(" orders ", "pipeline") == "orders"
    for value in (None, "", " ", 5, "a\nb", ["orders"]):
        with pytest.raises(UsageError, match="pipeline is needed, and none was given"):
            text_of(value, "pipeline")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None, None, None, None), Bounds()),
        ((None, "0-2, 5", None, None), Bounds(partitions=(0, 1, 2, 5))),
        (("", "", "", ""), Bounds()),
        (("orders", "[3, 0, 3]", "2", 4), Bounds(topic="orders", partitions=(0, 3), start=2, end=4)),
        (("orders", (MAX_PARTITION,), 0, "0"), Bounds(topic="orders", partitions=(MAX_PARTITION,), start=0, end=0)),
        (
            (None, None, "2026-01-31T06:00:00Z", datetime(2026, 1, 31, 8, tzinfo=timezone(timedelta(hours=1)))),
            Bounds(start=datetime(2026, 1, 31, 6, tzinfo=UTC), end=datetime(2026, 1, 31, 7, tzinfo=UTC)),
        ),
    ],
    ids=str,
)
def test_periods_are_read_as_people_write_them(given: tuple[Any, ...], expected: Bounds) -> None:
    """Offsets and times as text or as values, partitions as a list in any order."""
    if expected.start == expected.end and expected.start is not None:
        with pytest.raises(KafkaLakeError):
            bounds_of(*given)
    else:
        assert bounds_of(*given) == expected


@pytest.mark.parametrize(
    "partitions", ["[-1]", "[2147483648]", "[0.5]", "0-x", 0, "x", "{}", "[]", b"\0", {0}, [None]], ids=str
)
def test_other_partitions_are_refused(partitions: Any) -> None:
    """A partition is a number that Kafka could have."""
    with pytest.raises(UsageError, match="partition"):
        bounds_of("orders", partitions, None, None)


def test_keys_of_a_run_are_judged_only_where_some_are_known() -> None:
    """A run without configuration, or outside a Dag run, has none; the words name the key and those that there are."""
    run = SimpleNamespace(run_type="manual", conf={"topic": "orders", "tpoic": "x"})
    refuse_unknown_keys({"dag_run": run}, None)
    for context in ({}, {"dag_run": None}, {"dag_run": SimpleNamespace(run_type="manual", conf=None)}):
        refuse_unknown_keys(context, ())
    refuse_unknown_keys({"dag_run": SimpleNamespace(run_type="manual", conf={"topic": "orders"})}, ("topic", "from"))
    with pytest.raises(UsageError, match=r"tpoic.*topic.*Nothing was planned.*these keys: from, topic"):
        refuse_unknown_keys({"dag_run": run}, ("topic", "from"))
    with pytest.raises(UsageError, match="'topic'"):
        refuse_unknown_keys({"dag_run": run}, ())


@pytest.mark.parametrize("error", [UnavailableError("m"), UnknownOutcomeError("m"), UsageError("m")], ids=repr)
def test_errors_that_repeating_cannot_mend_fail_at_once(error: KafkaLakeError) -> None:
    """Airflow repeats what may pass, as the error that it is; the words of the others begin with what they were."""
    with pytest.raises(Exception, match=r"m$") as raised, airflow_errors():
        raise error
    if isinstance(error, UsageError):
        assert type(raised.value) is AirflowFailException
        assert str(raised.value) == "UsageError: m"
    else:
        assert raised.value is error


def test_actor_is_the_run_and_its_task(context: dict[str, Any]) -> None:
    """The ledger's history names who decided."""
    assert actor_of(context) == "airflow:dag/run/task"


def test_plan_explains_itself_with_what_is_known(world: World) -> None:
    """What the rows will take in the lake is told once there are some to tell it by; a dry run says that it is one."""
    ports = world.ports()
    world.produce(5)
    first = plan(ports, ORDERS.spec, Bounds(), plan_id="p1").plan
    assert first.forecast.lake_bytes is None
    lines = list(explain(first, "a cluster", dry_run=False))
    (wave,) = first.waves
    assert lines[:3] == [
        "plan of orders: 1 range, 1 wave",
        f"into raw.orders, wave {wave.id}: 1 range",
        f"  orders/0 0-5: about {size(first.ranges[0].estimated_bytes)} in Kafka",
    ]
    assert f"bytes in the lake: {first.forecast.lake_bytes_state}" in lines
    assert any(line.startswith("5 records at most, ") and line.endswith(" s on a cluster") for line in lines)
    assert not any("None" in line for line in lines)
    landed(ingest(ports, wave.id))
    world.produce(5)
    second = plan(ports, ORDERS.spec, Bounds(), plan_id="p2", dry_run=True).plan
    lines = list(explain(second, "a cluster", dry_run=True))
    assert (lines[0], lines[-1]) == ("dry run of orders: 1 range, 1 wave", "nothing was recorded")
    assert second.forecast.lake_bytes
    in_lake = size(second.forecast.lake_bytes)
    assert f"about {in_lake} in the lake ({second.forecast.lake_bytes_state})" in lines
    nothing = list(
        explain(
            plan(ports, ORDERS.spec, Bounds(topic="orders", partitions=(1,)), plan_id="p3").plan, "x", dry_run=False
        )
    )
    assert nothing == [
        "plan of orders: 0 ranges, 0 waves",
        "nothing to do: everything up to the end policy is planned or landed, in 1 partition",
    ]
