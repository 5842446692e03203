"""What a real REST catalog answers is believed only when it is seen: through a proxy that lies, loses and rewrites."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from pyarrow.fs import FileSelector
from pyiceberg.io import load_file_io

from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.iceberg.table import IcebergLake
from airflow_kafka_lake.core.errors import (
    ConnectionSettingsError,
    IdentityError,
    KafkaLakeError,
    UnavailableError,
    UnknownOutcomeError,
)
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.services.pipeline_audit import audit
from tests.catalog_proxy import CatalogProxy
from tests.kit.local_lake import KEY, SECRET, LocalLake
from tests.kit.memory_runner import MemoryRunner
from tests.pyiceberg_jobs import TableJobs
from tests.world import World

pytestmark = pytest.mark.slow
_namespaces = itertools.count(1)
FORBIDDEN = (403, b'{"error": {"message": "no", "type": "ForbiddenException", "code": 403}}')


@pytest.fixture
def proxy(foreign_lake: LocalLake) -> Iterator[CatalogProxy]:
    """What stands before a real catalog."""
    with CatalogProxy(foreign_lake.uri) as running:
        yield running


@pytest.fixture
def lake(foreign_lake: LocalLake, proxy: CatalogProxy) -> Iterator[IcebergLake]:
    """The lake as a worker sees it."""
    made = IcebergLake(LakeSettings.parse("lake_default", foreign_lake.extra(**proxy.addresses), SECRET, KEY))
    yield made
    made.close()


@pytest.fixture
def world(lake: IcebergLake) -> World:
    """Three records and an aborted transaction, in a world whose lake is that catalog's."""
    spec = PipelineSpec(name="orders", topics=("orders",), table=f"lying{next(_namespaces)}.orders")
    made: Any = World(spec=spec)
    made.lake = lake
    made.runner = MemoryRunner(made.kafka, TableJobs(lake.catalog.load))
    made.produce(2)
    made.produce(2, transaction="bad")
    made.end("bad", commit=False)
    made.produce(1)
    return made  # type: ignore[no-any-return]


def shown(world: World, lake: IcebergLake) -> list[int]:
    """Return the offsets that a reader of main sees, sorted."""
    table = lake.catalog.load(world.spec.table)
    return sorted(table.scan(selected_fields=("kafka_offset",)).to_arrow().column(0).to_pylist())


def came_right(world: World, lake: IcebergLake, *, jobs: int = 1) -> None:
    """See that the rows are there once, by so many jobs, that the ledger says so, and an audit too."""
    assert world.run().exit_code == 0
    assert shown(world, lake) == [0, 1, 5]
    assert len(world.runner.jobs) == jobs
    assert world.stream().watermark == 6
    assert lake.table(world.spec.table).branches() == ()
    assert audit(world.worker(), world.spec).findings == ()


def exit_code(world: World) -> int:
    """Plan and run; return how that ended."""
    try:
        world.plan()
        return world.run().exit_code
    except KafkaLakeError as error:
        return error.exit_code


def test_publish_that_was_only_answered_is_not_landed(world: World, lake: IcebergLake, proxy: CatalogProxy) -> None:
    """Nothing is recorded, the branch stays, and the next command publishes from it, without a second job."""
    world.plan()
    proxy.lie(table="orders", branch=False, every=True)
    run = world.run()
    (problem,) = run.problems
    assert isinstance(problem, UnknownOutcomeError)
    assert "a new load of the table does not show it" in problem.message
    assert world.stream().watermark == 0
    assert world.ledger.attempts("p1-w0")[-1].outcome is AttemptOutcome.UNKNOWN
    assert len(lake.table(world.spec.table).branches()) == 1
    proxy.heal()
    came_right(world, lake)


@pytest.mark.parametrize(
    "number", [item if item == 8 else pytest.param(item, marks=pytest.mark.nightly) for item in range(12)]
)
def test_any_commit_that_was_only_answered_comes_right(
    world: World, lake: IcebergLake, proxy: CatalogProxy, number: int
) -> None:
    """Whichever commit of a run the catalog has only answered: what the run calls landed is there, once."""
    seen = itertools.count()
    lied: list[bool] = []

    def lie_to_the_nth(_: object) -> None:
        if next(seen) == number:
            proxy.lie()
            lied.append(True)

    proxy.before(lie_to_the_nth)
    assert exit_code(world) or shown(world, lake) == [0, 1, 5]
    assert lied
    proxy.heal()
    world.run()
    came_right(world, lake, jobs=len(world.runner.jobs))


@pytest.mark.parametrize(
    ("keeps_branches", "moves_main", "named"),
    [
        pytest.param(False, False, True, id="nessie"),
        pytest.param(True, True, False, id="both", marks=pytest.mark.nightly),
    ],
)
def test_catalog_that_puts_a_branch_on_main_is_refused_before_a_job(
    world: World, lake: IcebergLake, proxy: CatalogProxy, keeps_branches: bool, moves_main: bool, named: bool
) -> None:
    """By name, with nothing of it recorded; the same table goes on when its catalog keeps branches."""
    proxy.keeps_branches, proxy.moves_main, proxy.is_named_nessie = keeps_branches, moves_main, named
    before = lake.catalog.api.list_namespaces()
    with pytest.raises(ConnectionSettingsError, match="does not keep the branches of a table"):
        lake.rehearse(world.spec.table, "")
    assert lake.catalog.api.list_namespaces() == before
    with pytest.raises(ConnectionSettingsError, match="does not keep the branches of a table") as refused:
        world.plan()
    assert ("It calls itself Nessie" in refused.value.message) == named
    assert world.ledger.pipeline("orders").tables == {}
    assert world.runner.jobs == []
    proxy.heal()
    came_right(world, lake)


def on_main(world: World, lake: IcebergLake, proxy: CatalogProxy) -> str:
    """Let a job's rows land on main of a catalog that has kept branches before; return the attempt."""
    world.plan()
    proxy.keeps_branches = False
    (problem,) = world.run().problems
    assert isinstance(problem, ConnectionSettingsError)
    assert "its rows are visible without an audit" in problem.message
    assert shown(world, lake) == [0, 1, 5]
    assert world.stream().watermark == 0
    return world.ledger.attempts("p1-w0")[-1].attempt


def test_rows_that_a_catalog_has_put_on_main_are_audited_there(
    world: World, lake: IcebergLake, proxy: CatalogProxy
) -> None:
    """The next run proves them where they stand, without another job, also on that very catalog."""
    attempt = on_main(world, lake, proxy)
    world.run()
    assert [item.attempt for item in lake.table(world.spec.table).receipts(attempt)] == [attempt]
    assert f"published by attempt {attempt}: adopted" in "\n".join(world.said)
    came_right(world, lake)


def test_unaudited_rows_that_a_person_deletes_are_read_again(
    world: World, lake: IcebergLake, proxy: CatalogProxy
) -> None:
    """What is not proven is named with the statement that deletes it; after that the way is free, and ends clean."""
    attempt = on_main(world, lake, proxy)
    proxy.heal()
    lake.catalog.load(world.spec.table).delete("kafka_offset == 1")
    world.said.clear()
    (problem,) = world.run().problems
    assert isinstance(problem, IdentityError)
    assert f"DELETE FROM {world.spec.table} WHERE ingest_attempt = '{attempt}'" in problem.message
    assert "adopted" not in "\n".join(world.said)
    lake.catalog.load(world.spec.table).delete(f"ingest_attempt == '{attempt}'")
    came_right(world, lake, jobs=2)


def test_lost_answer_of_a_job_s_commit_costs_no_second_job(
    world: World, lake: IcebergLake, proxy: CatalogProxy
) -> None:
    """The branch is looked at: what is complete there goes on to its audit."""
    world.plan()
    proxy.lose_answer(table="orders", branch=True)
    assert world.run().exit_code == 0
    came_right(world, lake)


STATUSES = (400, 401, 409, 419, 429, 500, 502, 503, 504, None)
BY_DAY = {(409, True), (503, False)}


@pytest.mark.parametrize(
    ("status", "landed"),
    [
        pytest.param(*case, marks=[] if case in BY_DAY else [pytest.mark.nightly])
        for case in itertools.product(STATUSES, (True, False))
    ],
)
def test_refusal_of_a_publish_is_no_proof(
    world: World, lake: IcebergLake, proxy: CatalogProxy, status: int | None, landed: bool
) -> None:
    """Whatever the answer, and whether the commit was made: what a run calls landed is there, and no second job is
    needed."""
    world.plan()
    trap = proxy.refuse(status, landed=landed, table="orders", branch=False)
    code = world.run().exit_code
    assert trap.sprung == 1
    assert code or shown(world, lake) == [0, 1, 5]
    proxy.heal()
    came_right(world, lake)


@pytest.mark.nightly
@pytest.mark.parametrize("status", [409, 429, 500, 504, None])
def test_publish_that_lands_after_its_answer_is_there_once(
    world: World, lake: IcebergLake, proxy: CatalogProxy, status: int | None
) -> None:
    """A gateway gave up, and the catalog did not: the commit arrives before the next run, or after its own publish."""
    world.plan()
    trap = proxy.refuse(status, landed=False, every=True, table="orders", branch=False)
    assert world.run().exit_code
    proxy.heal()
    trap.kept[1:] = []
    trap.land()
    came_right(world, lake)
    world.produce(1)
    world.plan()
    trap = proxy.refuse(status, landed=False, every=True, table="orders", branch=False)
    assert world.run().exit_code
    proxy.heal()
    assert world.run().exit_code == 0
    trap.land()
    assert shown(world, lake) == [0, 1, 5, 6]


@pytest.mark.nightly
def test_cache_before_a_catalog_publishes_nothing_twice(world: World, lake: IcebergLake, proxy: CatalogProxy) -> None:
    """A table that is answered as it was: no success is believed that the table does not show."""
    world.plan()
    proxy.stale = True
    assert world.run().exit_code
    proxy.heal()
    world.run()
    came_right(world, lake, jobs=len(world.runner.jobs))


@pytest.mark.nightly
def test_catalog_that_answers_no_commit_is_not_waited_for(
    world: World, foreign_lake: LocalLake, proxy: CatalogProxy
) -> None:
    """The worker waits as long as the connection says, and the next run publishes what is staged."""
    world.plan()
    extra = foreign_lake.extra(**proxy.addresses, **{"rest.client.socket-timeout-ms": 300})
    impatient = IcebergLake(LakeSettings.parse("lake_default", extra, SECRET, KEY))
    made: Any = world
    made.lake, patient = impatient, made.lake
    proxy.silent = "orders"
    assert world.run().exit_code
    impatient.close()
    proxy.heal()
    made.lake = patient
    came_right(world, patient)


@pytest.mark.parametrize("where", [pytest.param("everywhere", marks=pytest.mark.nightly), "at the table"])
def test_not_found_is_believed_only_when_the_lists_say_so_too(
    world: World, lake: IcebergLake, proxy: CatalogProxy, where: str
) -> None:
    """What a gateway says of everything makes no table gone, and no branch."""
    world.plan()
    proxy.page = (404, b"<html>not found</html>")
    proxy.paged = "" if where == "everywhere" else "/tables/orders"
    table = lake.table(world.spec.table)
    answers = {"everywhere": "the catalog has no such thing at this address", "at the table": "answers that it is not"}
    for look in (table.head, table.branches, table.commits, world.plan):
        with pytest.raises((UnavailableError, ConnectionSettingsError), match=answers[where]):
            look()
    proxy.heal()
    assert lake.table(f"{world.spec.table}_none").branches() == ()
    assert lake.table("never_there.orders").branches() == ()
    came_right(world, lake)


def test_rehearsal_on_a_real_catalog_leaves_nothing_in_it(foreign_lake: LocalLake, world: World) -> None:
    """Neither the table of the trial nor its namespace."""
    lake = IcebergLake(LakeSettings.parse("lake_default", foreign_lake.extra(), SECRET, KEY))
    before = lake.catalog.api.list_namespaces()
    assert lake.rehearse(world.spec.table, "")
    assert lake.catalog.api.list_namespaces() == before
    world.plan()
    namespace, tables = world.spec.table.partition(".")[0], lake.catalog.api.list_tables
    there = tables(namespace)
    assert lake.rehearse(world.spec.table, "")
    assert tables(namespace) == there
    lake.close()


def test_rehearsal_leaves_nothing_where_a_catalog_does_not_purge(
    world: World, lake: IcebergLake, proxy: CatalogProxy, foreign_lake: LocalLake
) -> None:
    """Polaris does not unless it is told to: then the table is dropped, and its files are removed by their names."""
    before = lake.catalog.api.list_namespaces()
    proxy.page, proxy.paged = FORBIDDEN, "purgeRequested=True"
    place, left = lake.rehearse(world.spec.table, "")
    assert left == ""
    assert lake.catalog.api.list_namespaces() == before
    settings: Any = LakeSettings.parse("lake_default", foreign_lake.extra(), SECRET, KEY).pyiceberg()
    io: Any = load_file_io(settings, place)
    folder = FileSelector(place.partition(",")[0].removeprefix("s3://"), recursive=True, allow_not_found=True)
    assert [item.path for item in io.fs_by_scheme("s3", None).get_file_info(folder) if item.is_file] == []


def test_what_may_not_be_removed_after_a_rehearsal_is_named(
    world: World, lake: IcebergLake, proxy: CatalogProxy
) -> None:
    """A run removes no table, so that it works without the right to."""
    namespace = world.spec.table.partition(".")[0]
    proxy.page, proxy.paged = FORBIDDEN, "DELETE"
    _, left = lake.rehearse(world.spec.table, "")
    ((_, table),) = lake.catalog.api.list_tables(namespace)
    assert f"Could not remove table {namespace}.{table} " in left
    assert left.endswith("No run needs that right; remove it by hand.")
    proxy.keeps_branches = False
    with pytest.raises(ConnectionSettingsError, match="does not keep the branches") as refused:
        lake.rehearse(world.spec.table, "")
    assert "remove it by hand" in refused.value.message
