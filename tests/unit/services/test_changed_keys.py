"""Each key of a pipeline file, changed after the first run with nothing new to read: what plan, run and status say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from airflow_kafka_lake.core.errors import IdentityError, OwnershipError
from airflow_kafka_lake.core.planning.decision import EFFECTS
from airflow_kafka_lake.core.reports.plan import remarks
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.pipeline.keys import KEYS
from airflow_kafka_lake.services import reporting
from tests.world import World

pytestmark = pytest.mark.unit

FIRST: dict[str, Any] = {
    "name": "orders",
    "topics": ["orders", "payments"],
    "table": "raw.orders",
    "decode_format": "avro",
    "decode_registry": "registry",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A keyword's other value, what a plan says of it, and the exit code of a run."""

    to: object
    says: str
    code: int = 0
    instead: str | None = None
    """The keyword that it takes the place of."""


CASES: dict[str, Case] = {
    "kafka_connection": Case(to="kafka_b", says="must lead to the cluster that the topics were planned from"),
    "topics": Case(to=["orders"], says="a topic that is not named any more stays"),
    "topic_pattern": Case(to="orders", says="a topic that it does not match any more stays", instead="topics"),
    "isolation": Case(to="read_uncommitted", says="what is committed stays as it was read, until it is reopened"),
    "start": Case(to="timestamp:2026-01-01T00:00:00Z", says="others keep their origins; what lies below is read with"),
    "end": Case(to="timestamp:1970-01-02T00:00:00Z", says="plans end there from now on; what is committed beyond it"),
    "ordering": Case(to="partition", says="holds for what is planned from now on"),
    "partitioner": Case(to="crc32", says="decides about expansions that are seen from now on"),
    "leader_wait": Case(to="2 min", says="[source] leader_wait was changed since the last plan: it counts from now on"),
    "stable_wait": Case(to="2 min", says="[source] stable_wait was changed since the last plan: it counts from now on"),
    "layout_grace": Case(to="2 min", says="counts for expansions and seals that are seen from now on"),
    "sync_group": Case(to="lag", says="watermarks are committed to it from now on"),
    "lake_connection": Case(to="lake_b", says="what is in a lake is not moved to another"),
    "table": Case(to="raw.copy", says="5 committed offsets of orders are in raw.orders, not in raw.copy", code=1),
    "partition_by": Case(to="days(kafka_timestamp)", says="it is for a table that does not exist yet"),
    "decode_format": Case(to="protobuf", says="rows in the lake stay as they are, until they are decoded again"),
    "decode_schema": Case(to="a INT", says="[decode] was changed", instead="decode_registry"),
    "decode_registry": Case(to="other", says="[decode] was changed"),
    "decode_subject": Case(to="{topic}-v", says="[decode] was changed"),
    "decode_message": Case(to="shop.Order", says="[decode] was changed"),
    "decode_column": Case(to="text", says="[decode] was changed", instead="decode_registry"),
    "decode_limit": Case(to="1 %", says="[decode] was changed"),
    "spark_connection": Case(to="spark_b", says="jobs run there from now on"),
    "target_range_bytes": Case(to="1 MiB", says="[sizes] target_range_bytes was changed"),
    "max_wave_bytes": Case(to="1 GiB", says="waves that are planned already keep what they were planned with"),
    "audit_rate": Case(to="1 MB", says="[sizes] audit_rate was changed since the last plan: it counts from now on"),
    "waves_at_once": Case(to=2, says="it counts for every wave that is claimed from now on"),
    "bytes_per_second": Case(to="1 MB", says="it counts for every wave that is claimed from now on"),
}
FORMATS = {"decode_schema": "json", "decode_message": "protobuf", "decode_column": "string"}


def landed() -> World:
    """Five offsets of one topic and three of another, all in the lake."""
    asked = Pipeline(**FIRST).spec
    world = World(spec=replace(asked, decoding=None))
    world.create("payments")
    world.produce(5)
    world.produce(3, topic="payments")
    assert world.run().exit_code == 0
    world.spec = asked
    assert world.run().exit_code == 0
    return world


def changed(keyword: str) -> PipelineSpec:
    """Return the first file with one key changed."""
    case = CASES[keyword]
    given = {name: value for name, value in FIRST.items() if name != case.instead}
    if keyword in FORMATS:
        given["decode_format"] = FORMATS[keyword]
    return Pipeline(**(given | {keyword: case.to})).spec


def said(world: World) -> str:
    """Return what a plan that is not recorded says."""
    return "\n".join(remarks(world.plan(dry_run=True), "this machine", dry_run=True))


def test_every_key_has_its_effect_on_record() -> None:
    """A key that is added must say what its change does; a change of the name makes another pipeline."""
    assert {key.keyword for key in KEYS} == {*CASES, "name"}
    fields = {"decoding" if key.section == "decode" else key.keyword for key in KEYS} - {"name"}
    assert fields == EFFECTS.keys()
    assert {place for place, _ in EFFECTS.values()} == {
        "[decode]" if key.section == "decode" else f"[{key.section}] {key.name}"
        for key in KEYS
        if key.keyword != "name"
    }


@pytest.mark.parametrize("keyword", CASES)
def test_change_of_a_key_is_said_with_its_effect(keyword: str) -> None:
    """By dry run, plan and run alike, once: the next plan knows the file. What is committed stays where it is."""
    world, case = landed(), CASES[keyword]
    assert "note:" not in said(world)
    world.spec = changed(keyword)
    assert case.says in said(world)
    done = world.run()
    assert done.exit_code == case.code, done
    assert done.plan is not None
    assert any(case.says in note for note in done.plan.notes)
    assert (done.waves, world.offsets() if keyword != "table" else [], done.moves) == (
        (),
        list(range(5)) if keyword != "table" else [],
        (),
    )
    assert reporting.status(world.worker(), world.spec).tables == ("raw.orders",)
    if keyword != "table":
        assert "was changed" not in said(world)


def test_another_table_is_not_called_done_before_anything_is_in_it() -> None:
    """Nothing to do would say that the table has it. It is said where it is, and how a second copy is made; what is new
    lands there, and is then all that the answer of a run is about."""
    world = landed()
    world.with_spec(table="raw.copy", decoding=None)
    for _ in range(2):
        (first, second) = world.run().held
        assert first == (
            "orders: nothing of it is in table raw.copy, and nothing is planned to land there: what is committed, "
            "5 offsets, is in raw.orders and stays there; only new records land in raw.copy. For a second copy give "
            "the file another pipeline name; else set [lake] table to raw.orders again"
        )
        assert second.startswith("payments: nothing of it is in table raw.copy")
        known = world.ledger.pipeline(world.spec.name)
        assert known is not None
        assert known.spec.table == "raw.orders", "a misspelt table was refused, and is what the name stands for now"
    world.produce(2)
    done = world.run()
    assert (done.exit_code, world.offsets()) == (0, [5, 6])
    assert done.plan is not None
    rest = "in raw.orders, not in raw.copy, and not read again: a second copy needs another pipeline name"
    assert done.plan.notes[:2] == (
        f"5 committed offsets of orders are {rest}",
        f"3 committed offsets of payments are {rest}",
    )
    assert done.plan.notes[2].startswith("[lake] table was changed since the last plan")
    assert reporting.status(world.worker(), world.spec).tables == ("raw.copy", "raw.orders")
    world.with_spec(name="copy", table="raw.second")
    assert world.run().exit_code == 0
    assert len(world.table.rows()) == 10


def test_name_makes_another_pipeline_which_may_not_land_in_the_same_table() -> None:
    """Its topics have an owner there."""
    world = landed()
    world.spec = replace(world.spec, name="other")
    with pytest.raises(OwnershipError, match="belongs to pipeline orders; pipeline other would land its records twice"):
        world.run()


def test_another_cluster_is_refused_before_its_records_land_beside_the_old_ones() -> None:
    """A mirror of a topic has an id of its own: the connection in the file leads to other topics of the same names."""
    world = landed()
    world.create("orders")
    world.produce(4)
    world.with_spec(kafka_connection="kafka_b")
    for _ in range(2):
        with pytest.raises(IdentityError, match=r"is 'kafka_b', and topic orders is another one there"):
            world.run()
    assert len(world.table.rows()) == 8


def test_topic_with_another_id_under_the_same_connection_is_said() -> None:
    """It was created anew, or the connection leads to another cluster: it lands, and is named."""
    world = landed()
    before = world.topic_ids["orders"]
    world.create("orders")
    world.produce(4)
    assert f"topic orders is another one than before (id {world.topic_ids['orders']}, before {before})" in said(world)


@pytest.mark.parametrize("of_another", [False, True], ids=["gone", "another"])
def test_another_catalog_is_named_as_a_cause(of_another: bool) -> None:
    """A table that is not there, or is another one, may be where another connection, or another warehouse, leads to."""
    world = landed()
    world.table._store = None
    if of_another:
        world.table.ensure("")
    world.with_spec(lake_connection="lake_b")
    with pytest.raises(IdentityError, match=r"by lake connection 'lake_default'. If that connection, or another one"):
        world.run()
