"""What only a database can get wrong: schema, constraints, number of statements, trouble, many at once."""

from __future__ import annotations

import itertools
import sqlite3
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, event, insert, inspect, select, text, update
from sqlalchemy.exc import IntegrityError

from airflow_kafka_lake.adapters.sql_ledger import (
    commit,
    database,
    tables,
)
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    ConnectionSettingsError,
    LedgerSchemaError,
    StateError,
    UnavailableError,
    UnknownSubjectError,
)
from airflow_kafka_lake.core.ledger.attempts import EndAttempt, RecordCommit, Renew
from airflow_kafka_lake.core.ledger.decisions import Release, Revoke
from airflow_kafka_lake.core.ledger.moves import BeginDelivery
from airflow_kafka_lake.core.ledger.plans import BindTable, RecordPlan, SavePipeline
from airflow_kafka_lake.core.ledger.records import RangeDecision, watermark
from airflow_kafka_lake.core.ledger.requests import AskForWave, EndRequest
from airflow_kafka_lake.core.ledger.waves import UNRESOLVED, AttemptOutcome, RangeState, Token, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.rebuilding.comparison import Restoration, RestoredSkip
from airflow_kafka_lake.core.rebuilding.restore import Restore
from tests.contracts.ledger_world import (
    AT,
    LEASE,
    SPEC,
    claimed,
    committed,
    plan_of,
    planned,
    receipts_of,
    skipped,
    taken,
)

Open = Callable[[str], SqlLedger]
NewUrl = Callable[[str], str]
_VALUES = sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER
KINDS = pytest.mark.parametrize("kind", ["sqlite", "postgres"])


def tables_of(ledger: SqlLedger) -> list[str]:
    """Return the tables that are there."""
    with ledger.engine.connect() as connection:
        return inspect(connection).get_table_names()


def set_revision(ledger: SqlLedger, revision: str) -> None:
    """Pretend that another version of the package made the schema."""
    with ledger.engine.begin() as connection:
        connection.execute(text(f"UPDATE {tables.VERSION_TABLE} SET version_num = '{revision}'"))


def test_sqlite_ledger_is_created_on_first_use(new_url: NewUrl, opened: Open) -> None:
    """Not before; and only its owner may read it."""
    ledger = opened(new_url("sqlite"))
    file = Path(str(ledger.engine.url.database))
    assert not file.exists()
    assert ledger.pipelines() == ()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert ledger.check() == database.NEWEST


@KINDS
def test_process_of_before_an_upgrade_writes_nothing_more(new_url: NewUrl, opened: Open, kind: str) -> None:
    """Its code is of before: it neither begins, nor goes on, nor ends anything, and says what to do."""
    url = new_url(kind)
    opened(url).upgrade()
    old = opened(url)
    (wave,) = planned(old, [(0, 0, 10)])
    claim = claimed(old, wave)
    set_revision(opened(url), "9999")
    before = old.events("orders")
    for write in (
        partial(claimed, old, wave, over=claim.key.fence),
        partial(planned, old, [(0, 10, 20)]),
        partial(old.commit, Renew(key=claim.key, lease=LEASE)),
        partial(old.commit, EndAttempt(key=claim.key, outcome=AttemptOutcome.FAILED, error="no")),
        partial(old.advance, "orders"),
    ):
        with pytest.raises(LedgerSchemaError, match=r"has schema 9999 now, and had .* Start the process again"):
            write()
    assert old.events("orders") == before
    with pytest.raises(LedgerSchemaError, match="newer than"):
        opened(url).pipelines()


def test_sqlite_ledger_survives_a_power_cut(new_url: NewUrl, opened: Open) -> None:
    """Every commit is on the disk, readers do not stop writers, and references are checked."""
    ledger = opened(new_url("sqlite"))
    ledger.ledger_id()
    with ledger.engine.connect() as connection:
        found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
        assert found == ["wal", 2]
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_sqlite_ledger_keeps_what_it_was_given(new_url: NewUrl, opened: Open) -> None:
    """A second opening finds the same ledger."""
    url = new_url("sqlite")
    first = opened(url)
    planned(first, [(0, 0, 10)])
    first.close()
    second = opened(url)
    assert second.ledger_id() == first.ledger_id()
    assert second.waves(SPEC.name) == first.waves(SPEC.name)


def test_ledger_that_another_file_replaces_is_opened_anew(new_url: NewUrl, opened: Open) -> None:
    """As from a backup, or when it was lost: nothing is read from the old one, and nothing is written to it."""
    url = new_url("sqlite")
    first = opened(url)
    planned(first, [(0, 0, 10)])
    before = first.ledger_id()
    file = Path(str(first.engine.url.database))
    for name in (file, *file.parent.glob(f"{file.name}-*")):
        name.rename(f"{name}.old")
    with pytest.raises(UnavailableError, match="is gone: it was moved or deleted"):
        first.waves(SPEC.name)
    assert not file.exists()
    second = opened(url)
    assert second.waves(SPEC.name) == ()
    assert first.ledger_id() == second.ledger_id() != before
    assert first.waves(SPEC.name) == ()
    first.commit(SavePipeline(spec=SPEC))
    assert second.pipelines() == (SPEC.name,)


def test_first_use_by_many_at_once_creates_one_ledger(new_url: NewUrl, opened: Open) -> None:
    """The second one finds it made."""
    url = new_url("sqlite")
    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(lambda _: opened(url).ledger_id(), range(6)))) == 1


def test_ledger_in_memory(opened: Open) -> None:
    """`sqlite://` is a ledger that is gone with its process."""
    assert planned(opened("sqlite://"), [(0, 0, 10)])


def test_missing_folder_is_named(tmp_path: Path, opened: Open) -> None:
    """No folder is created by the way."""
    with pytest.raises(ConnectionSettingsError, match="there is no folder"):
        opened(f"sqlite:///{tmp_path}/nowhere/ledger.db").ledger_id()


def test_ledger_without_room_says_so_and_records_nothing(new_url: NewUrl, opened: Open) -> None:
    """A full disk is no matter of the connection: the words say what to make, and reading goes on."""
    ledger = opened(new_url("sqlite"))
    ledger.ledger_id()
    limit = "PRAGMA max_page_count = 1"  # SQLite takes what the file has now for the least that it can be
    ledger.engine.dispose()
    event.listen(ledger.engine, "connect", lambda connection, _: connection.execute(limit).close())
    with pytest.raises(UnavailableError, match=r"has no room to write: .*full.* Nothing was recorded\. Make room"):
        planned(ledger, [(partition, start, start + 1) for partition in range(20) for start in range(40)])
    assert ledger.ranges(pipeline=SPEC.name) == ()


def test_foreign_sqlite_database_is_not_filled(new_url: NewUrl, opened: Open) -> None:
    """A database with other tables gets ours only by `db upgrade`."""
    ledger = opened(new_url("sqlite"))
    with ledger.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE theirs (id INTEGER)")
    with pytest.raises(LedgerSchemaError, match="kafka-lake db upgrade"):
        ledger.ledger_id()
    assert tables_of(ledger) == ["theirs"]
    with ledger.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "delete"
    ledger.upgrade()
    assert ledger.pipelines() == ()


def test_file_that_is_no_database_is_left_alone(tmp_path: Path, opened: Open) -> None:
    """And the refusal says what it is."""
    file = tmp_path / "notes.txt"
    file.write_text("not a database, but long enough to be mistaken for one" * 20)
    with pytest.raises(UnavailableError, match="not a database"):
        opened(f"sqlite:///{file}").ledger_id()
    assert file.read_text().startswith("not a database")


def test_postgresql_without_schema_asks_for_it(new_url: NewUrl, opened: Open) -> None:
    """Nothing is created in a database before its owner says so."""
    ledger = opened(new_url("postgres"))
    for call in (ledger.ledger_id, ledger.check, lambda: ledger.commit(SavePipeline(spec=SPEC))):
        with pytest.raises(LedgerSchemaError, match="kafka-lake db upgrade"):
            call()
    assert tables_of(ledger) == []
    ledger.upgrade()
    assert ledger.check() == database.NEWEST
    assert ledger.pipelines() == ()


@KINDS
@pytest.mark.parametrize(
    ("revision", "way"), [("9999", "newer"), ("0012", "kafka-lake db upgrade"), ("0011", "kafka-lake rebuild")]
)
def test_schema_of_another_version_is_not_touched(
    new_url: NewUrl, opened: Open, kind: str, revision: str, way: str
) -> None:
    """Neither read nor written; a newer one, or one from before the first release, not even by `db upgrade`."""
    url = new_url(kind)
    opened(url).upgrade()
    ledger = opened(url)
    set_revision(ledger, revision)
    calls: list[Callable[[], object]] = [ledger.check, ledger.ledger_id, lambda: ledger.commit(SavePipeline(spec=SPEC))]
    for call in calls + ([] if revision == "0012" else [ledger.upgrade]):
        with pytest.raises(LedgerSchemaError, match=way):
            call()
    set_revision(ledger, database.NEWEST)
    assert ledger.pipelines() == ()


@KINDS
def test_upgrades_at_once_do_it_once(new_url: NewUrl, opened: Open, kind: str) -> None:
    """Two people, or two containers that start together: both succeed."""
    url = new_url(kind)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: opened(url).upgrade(), range(4))) == [database.NEWEST] * 4
    assert opened(url).pipelines() == ()


@KINDS
def test_upgrade_can_be_repeated(new_url: NewUrl, opened: Open, kind: str) -> None:
    """The second time there is nothing to do, and nothing is lost."""
    ledger = opened(new_url(kind))
    ledger.upgrade()
    wave = planned(ledger, [(0, 0, 10)])
    assert ledger.upgrade() == database.NEWEST
    assert [item.id for item in ledger.waves(SPEC.name)] == wave


def test_failed_upgrade_leaves_nothing(new_url: NewUrl, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema is made in one transaction, on SQLite too."""
    ledger = opened(new_url("sqlite"))
    with ledger.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE kafka_lake_outbox (id INTEGER)")
    with pytest.raises(UnavailableError, match="already exists"):
        ledger.upgrade()
    assert tables_of(ledger) == ["kafka_lake_outbox"]


def snapshots(ledger: SqlLedger) -> list[tuple[str, int]]:
    """Return plan and partition of what plans saw."""
    with ledger.engine.connect() as connection:
        partition = tables.stream.c.partition
        query = select(tables.snapshot.c.plan, partition).join(
            tables.stream, tables.stream.c.id == tables.snapshot.c.stream
        )
        return sorted((row[0], row[1]) for row in connection.execute(query))


def test_plan_keeps_what_it_saw_only_of_what_it_plans(sql_ledger: SqlLedger) -> None:
    """Thousands of quiet partitions leave nothing behind in each plan of one that is not."""
    plan = plan_of(sql_ledger, [(0, 0, 10)], [(1, 0, 10)], [(2, 0, 10)], plan="p")
    sql_ledger.commit(SavePipeline(spec=SPEC))
    sql_ledger.commit(RecordPlan(plan=replace(plan, waves=plan.waves[1:2]), actor="planner"))
    assert snapshots(sql_ledger) == [("p", 1)]
    assert [stream.key.partition for stream in sql_ledger.streams(SPEC.name)] == [0, 1, 2]


def test_what_old_plans_saw_is_forgotten(sql_ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    """By newer plans, a bounded number at once; what decides about the old ranges is kept beside them."""
    monkeypatch.setattr(commit, "PLANS_KEPT", 2)
    monkeypatch.setattr(commit, "FORGOTTEN_AT_ONCE", 1)
    planned(sql_ledger, [(0, 0, 10), (1, 0, 10)], plan="a")
    planned(sql_ledger, [(0, 10, 20)], plan="b")
    planned(sql_ledger, [(0, 20, 30)], plan="c")
    assert [plan for plan, _ in snapshots(sql_ledger)] == ["a", "b", "c"]
    planned(sql_ledger, [(1, 10, 20)], plan="d")
    planned(sql_ledger, [(1, 20, 30)], plan="e")
    assert [plan for plan, _ in snapshots(sql_ledger)] == ["c", "d", "e"]
    assert {item.leader_epoch for item in sql_ledger.ranges(pipeline=SPEC.name)} == {3}


def test_newest_revision_is_the_head_of_the_scripts() -> None:
    """What the package expects is what its migrations make."""
    assert ScriptDirectory(str(database.FOLDER)).get_current_head() == database.NEWEST


def test_statements_and_migrations_speak_of_the_same_columns(sql_ledger: SqlLedger) -> None:
    """Names, types and NULLs of `tables` are those in the database."""

    def ours(_object: Any, name: str | None, kind: str, _reflected: bool, _other: Any) -> bool:
        return kind in {"table", "column"} and name != tables.VERSION_TABLE

    with sql_ledger.engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"include_object": ours, "version_table": tables.VERSION_TABLE}
        )
        assert compare_metadata(context, tables.metadata) == []


def _range(connection: Connection, **values: Any) -> dict[str, Any]:
    stream = connection.execute(text("SELECT min(id) FROM kafka_lake_stream")).scalar()
    wave = connection.execute(text("SELECT min(id) FROM kafka_lake_wave")).scalar()
    return {
        "id": "r",
        "stream": stream,
        "wave": wave,
        "start_offset": 100,
        "end_offset": 110,
        "generation": 0,
        "state": RangeState.PLANNED,
        "estimated_bytes": 1,
        **values,
    }


@pytest.mark.parametrize(
    "values",
    [
        {"start_offset": 5, "end_offset": 6},
        {"start_offset": 0, "end_offset": 200},
        {"start_offset": 9, "end_offset": 11},
        {"start_offset": 19, "end_offset": 21},
        {"start_offset": 0, "generation": 1},
        {"start_offset": 10, "end_offset": 10},
        {"start_offset": 30, "end_offset": 29},
        {"start_offset": -1, "end_offset": 0},
        {"state": "COMMITTED"},
        {"state": "COMMITTED", "visible": 9},
        {"state": "COMMITTED", "visible": 10, "unexplained": 1},
        {"state": "SKIPPED", "skipped": 10},
        {"wave": None},
        {"wave": "w9"},
        {"stream": 999},
    ],
)
def test_database_refuses_what_breaks_a_law(sql_ledger: SqlLedger, values: dict[str, Any]) -> None:
    """Overlaps, empty ranges, committed without proof, work of no wave: refused by constraint."""
    planned(sql_ledger, [(0, 0, 10), (0, 20, 30)])
    words = {**values, "state": RangeState(values.get("state", "PLANNED"))}
    with sql_ledger.engine.connect() as connection, pytest.raises(IntegrityError):
        connection.execute(insert(tables.range_).values(_range(connection, **words)))


@pytest.mark.parametrize("values", [{}, {"start_offset": 10, "end_offset": 20}])
def test_database_takes_what_keeps_the_laws(sql_ledger: SqlLedger, values: dict[str, Any]) -> None:
    """Neighbours are no overlap."""
    planned(sql_ledger, [(0, 0, 10), (0, 20, 30)])
    with sql_ledger.engine.begin() as connection:
        connection.execute(insert(tables.range_).values(_range(connection, **values)))


@pytest.mark.parametrize("values", [{"end_offset": 21}, {"end_offset": 15}, {"start_offset": 25, "end_offset": 40}])
def test_ranges_cannot_be_moved_onto_each_other(sql_ledger: SqlLedger, values: dict[str, int]) -> None:
    """An UPDATE is refused like an INSERT, and allowed where it fits."""
    planned(sql_ledger, [(0, 0, 10), (0, 20, 30)])
    first = tables.range_.c.start_offset == 0
    with sql_ledger.engine.connect() as connection:
        statement = update(tables.range_).where(first).values(values)
        if values == {"end_offset": 15}:
            assert connection.execute(statement).rowcount == 1
            return
        with pytest.raises(IntegrityError):
            connection.execute(statement)


@contextmanager
def counting(ledger: SqlLedger) -> Iterator[list[str]]:
    """Collect the statements that go to the database."""
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, _values: Any, _context: Any, many: bool) -> None:
        assert not many
        seen.append(statement)

    event.listen(ledger.engine, "before_cursor_execute", note)
    yield seen
    event.remove(ledger.engine, "before_cursor_execute", note)


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1000, pytest.param(5000, marks=pytest.mark.nightly)])
def test_number_of_statements_does_not_grow_with_the_ranges(sql_ledger: SqlLedger, partitions: int) -> None:
    """Two ranges of each of so many partitions cost as many round trips as a handful."""
    sql_ledger.commit(SavePipeline(spec=SPEC))
    sql_ledger.mark_notified(SPEC.name, 0)
    counts: list[dict[str, int]] = []
    for size, topic in ((3, "small"), (partitions, "large")):
        counts.append(_count_acts(sql_ledger, size, topic))
    assert counts[0] == counts[1]
    assert max(counts[1].values()) <= 20


def _count_acts(ledger: SqlLedger, size: int, topic: str) -> dict[str, int]:
    plan = plan_of(ledger, [(n, s, s + 10) for n in range(size) for s in (0, 10)], topic=topic)
    (wave,) = [item.id for item in plan.waves]
    kept: dict[str, Any] = {}

    def recover() -> None:
        claim = kept["claim"]
        ledger.commit(
            RecordCommit(key=claim.key, attempt=claim.key.attempt, snapshot=1, receipts=receipts_of(claim.ranges))
        )

    def take() -> None:
        verdicts = [
            RangeDecision(range_id=item.id, state=RangeState.CANCELLED, reason="because")
            for item in kept["claim"].ranges
        ]
        key = kept["claim"].key
        ledger.commit(Revoke(wave=wave, fence=key.fence, attempt=key.attempt, verdicts=verdicts, actor="tester"))

    def claim() -> None:
        kept["claim"] = claimed(ledger, wave)

    def release() -> None:
        ledger.commit(
            Release(ranges=[item.id for item in kept["claim"].ranges], wave="never", actor="tester", reason=None)
        )

    def sent() -> None:
        ledger.sent([item.id for item in kept["outbox"]])

    acts: dict[str, Callable[[], object]] = {
        "plan": lambda: ledger.commit(RecordPlan(plan=plan, actor="tester")),
        "claim": claim,
        "revoke": take,
        "release": release,
        "ask": lambda: ledger.commit(AskForWave(id=topic, wave=wave, actor="task")),
        "requests": ledger.requests,
        "end request": lambda: ledger.commit(EndRequest(id=topic, wave=wave)),
        "claim again": claim,
        "recover": recover,
        "advance": lambda: kept.update(moves=ledger.advance(SPEC.name)),
        "streams": lambda: ledger.streams(SPEC.name),
        "waves": lambda: ledger.waves(SPEC.name),
        "ranges": lambda: ledger.ranges(plan=plan.id),
        "unnotified": lambda: ledger.unnotified(SPEC.name),
        "deliver": lambda: ledger.commit(
            BeginDelivery(pipeline=SPEC.name, holder="me", through=kept["moves"][-1].sequence)
        ),
        "notified": lambda: ledger.mark_notified(SPEC.name, kept["moves"][-1].sequence),
        "outbox": lambda: kept.update(outbox=ledger.outbox(SPEC.name)),
        "sent": sent,
    }
    counts = {}
    for name, act in acts.items():
        with counting(ledger) as seen:
            act()
        counts[name] = len(seen)
    assert len(kept["moves"]) == size
    assert len(kept["outbox"]) == 3 * size
    return counts


def test_skip_over_many_ranges_is_a_few_statements(sql_ledger: SqlLedger) -> None:
    """As many for a thousand ranges in the way as for two."""
    counts = []
    for size, partition in ((2, 0), (1000, 1)):
        planned(sql_ledger, [(partition, n * 10, n * 10 + 8) for n in range(size)])
        with counting(sql_ledger) as seen:
            assert skipped(sql_ledger, 3, size * 10, partition=partition) == size * 10 - 3
        counts.append(len(seen))
    assert counts[0] == counts[1] <= 25


@KINDS
def test_decision_about_more_waves_than_a_statement_takes_values(new_url: NewUrl, opened: Open, kind: str) -> None:
    """Offsets of months lie in tens of thousands of waves, and SQLite takes 32,766 values; here, fewer."""
    ledger = opened(new_url(kind))
    if kind == "sqlite":
        event.listen(ledger.engine, "connect", lambda connection, _: connection.setlimit(_VALUES, 1050))
    else:
        ledger.upgrade()
    planned(ledger, *([(0, n, n + 1)] for n in range(1100)))
    assert skipped(ledger, 0, 1099) == 1099
    assert [(item.range.start, item.state) for item in ledger.ranges(pipeline=SPEC.name)][1098:] == [
        (1098, RangeState.SKIPPED),
        (1099, RangeState.PLANNED),
    ]
    assert [wave.state for wave in ledger.waves(SPEC.name, {WaveState.PLANNED})] == [WaveState.PLANNED]


def test_values_are_bound(sql_ledger: SqlLedger) -> None:
    """Whatever a name holds, it stays a name."""
    nasty = """'; DROP TABLE kafka_lake_range; -- %s :x "q" \\"""
    (wave,) = planned(sql_ledger, [(0, 0, 10)], plan="p'%s\"")
    taken(sql_ledger, wave)
    sql_ledger.commit(Release(ranges=[f"{wave}r0"], wave="w", actor=nasty, reason=nasty))
    assert sql_ledger.commit(BindTable(pipeline=SPEC.name, table=nasty, uuid=nasty)) == nasty
    assert sql_ledger.pipeline(nasty) is None
    assert nasty in sql_ledger.events(SPEC.name)[-2].detail
    assert sql_ledger.range(f"{wave}r0").state is RangeState.PLANNED


@pytest.mark.parametrize(
    "url", ["postgresql://me:s3cret@127.0.0.1:1/db", "postgresql://me:s3cret@127.0.0.1:1/db?connect_timeout=1"]
)
def test_unreachable_ledger_keeps_its_password(url: str, opened: Open) -> None:
    """The message names the address, without the password."""
    ledger = opened(url)
    calls: list[Callable[[], object]] = [ledger.ledger_id, ledger.check, ledger.upgrade]
    for call in calls:
        with pytest.raises(UnavailableError, match=r"127\.0\.0\.1") as caught:
            call()
        assert "s3cret" not in f"{caught.value} {caught.value.facts}"
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__


@pytest.mark.parametrize("url", ["mysql://me:s3cret@h/db", "me:s3cret@h", "", "mssql+pyodbc://me:s3cret@h/db"])
def test_only_two_databases_hold_a_ledger(url: str) -> None:
    """Anything else is refused before it is opened, without repeating what may be a secret."""
    with pytest.raises(ConnectionSettingsError) as caught:
        SqlLedger(url)
    assert "s3cret" not in str(caught.value)


def test_committed_history_is_not_walked_through(opened: Open) -> None:
    """Reading streams finds what lies outside `[origin, watermark)` by the index."""
    ledger = opened("sqlite://")
    planned(ledger, [(0, 0, 10)])
    seen: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> None:
        seen.append((statement, values))

    event.listen(ledger.engine, "before_cursor_execute", note)
    ledger.streams(SPEC.name)
    statement, values = next(item for item in seen if "UNION ALL" in item[0])
    with ledger.engine.connect() as connection:
        steps = [row.detail for row in connection.exec_driver_sql("EXPLAIN QUERY PLAN " + statement, values)]
    for edge in ("start_offset>?", "start_offset<?"):
        assert any("kafka_lake_range_by_stream" in step and edge in step for step in steps), steps


def test_ranges_of_a_wave_are_counted_by_the_wave(opened: Open) -> None:
    """Not by walking through all committed ranges of the ledger, once for each wave."""
    ledger = opened("sqlite://")
    seen: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> None:
        seen.append((statement, values))

    event.listen(ledger.engine, "before_cursor_execute", note)
    ledger.waves(SPEC.name)
    statement, values = seen[-1]
    with ledger.engine.connect() as connection:
        steps = [row.detail for row in connection.exec_driver_sql("EXPLAIN QUERY PLAN " + statement, values)]
    assert [step for step in steps if "kafka_lake_range_by_wave" in step], steps
    assert not [step for step in steps if "kafka_lake_range_by_state" in step], steps


@KINDS
def test_busy_ledger_is_worth_repeating(new_url: NewUrl, kind: str) -> None:
    """A lock that is not given back in time ends in ConcurrentError; afterwards the same call succeeds."""
    ledger = SqlLedger(new_url(kind), lock_timeout=0.05)
    ledger.upgrade()
    (wave,) = planned(ledger, [(0, 0, 10)])
    with ledger.engine.begin() as blocker:
        blocker.execute(update(tables.wave).values(fence=tables.wave.c.fence))
        with pytest.raises(ConcurrentError, match="busy"):
            claimed(ledger, wave)
        assert ledger.wave(wave).state is WaveState.PLANNED
    assert claimed(ledger, wave).key.fence == 1
    ledger.close()


def test_read_sees_one_moment(sql_ledger: SqlLedger) -> None:
    """What is written between two statements of a read is not seen by half."""
    (first, second) = planned(sql_ledger, [(0, 0, 10)], [(0, 10, 20)])
    committed(sql_ledger, first)
    committed(sql_ledger, second)
    done: list[object] = []

    def interfere(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "UNION ALL" in statement and not done:
            done.append(True)
            with ThreadPoolExecutor(1) as pool:
                pool.submit(sql_ledger.advance, SPEC.name).result()

    event.listen(sql_ledger.engine, "after_cursor_execute", interfere)
    (before,) = sql_ledger.streams(SPEC.name)
    event.remove(sql_ledger.engine, "after_cursor_execute", interfere)
    (after,) = sql_ledger.streams(SPEC.name)
    assert done
    assert (before.watermark, before.version) == (0, 1)
    assert (after.watermark, after.version) == (20, 2)
    assert before.covered == after.covered


def test_advance_of_a_stream_decided_about_meanwhile_is_refused(sql_ledger: SqlLedger) -> None:
    """The statement that moves a watermark compares the version it was computed from, whatever locks there are."""
    (wave,) = planned(sql_ledger, [(0, 0, 10)])
    committed(sql_ledger, wave)
    done: list[object] = []

    def decide(_connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith(f"UPDATE {tables.stream.name}") and not done:
            done.append(True)
            cursor.connection.cursor().execute(f"UPDATE {tables.stream.name} SET version = version + 1")

    event.listen(sql_ledger.engine, "before_cursor_execute", decide)
    with pytest.raises(ConcurrentError, match="decided about by another writer"):
        sql_ledger.advance(SPEC.name)
    event.remove(sql_ledger.engine, "before_cursor_execute", decide)
    assert done
    assert [move.end for move in sql_ledger.advance(SPEC.name)] == [10]


def test_sequences_grow_in_the_order_of_commits(sql_ledger: SqlLedger) -> None:
    """Who has seen event n, or told move n, has missed none before it."""
    names = [SPEC.name]
    waves = planned(sql_ledger, *[[(n, 0, 10)] for n in range(12)])
    seen: set[int] = set()

    def work(wave: str) -> None:
        committed(sql_ledger, wave)
        sql_ledger.advance(SPEC.name)

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(work, wave) for wave in waves]
        last = 0
        while wait(running, timeout=0.01).not_done:
            for item in sql_ledger.events(names[0], after=last, limit=1000):
                seen.add(item.sequence)
                last = item.sequence
        for future in running:
            future.result()
    seen |= {item.sequence for item in sql_ledger.events(SPEC.name, after=last, limit=1000)}
    assert seen == {item.sequence for item in sql_ledger.events(SPEC.name, limit=1000)}
    told = [move.sequence for move in sql_ledger.unnotified(SPEC.name)]
    assert told == sorted(set(told))


OF_EACH = 4
LONGEST_SECONDS = 60.0
"""After this an act gives up: tries end sooner than a planner plans where each is refused at once."""


def _plan_more(ledger: SqlLedger, _turn: int) -> None:
    ends = {
        item.key.partition: max([part.end for part in item.planned], default=0) for item in ledger.streams(SPEC.name)
    }
    ledger.commit(
        RecordPlan(
            plan=plan_of(ledger, [(number, ends[number], ends[number] + 10) for number in (0, 1)]), actor="tester"
        )
    )


def _settle_some(ledger: SqlLedger, turn: int) -> None:
    waves = ledger.waves(SPEC.name, {WaveState.PLANNED})
    committed(ledger, waves[turn % len(waves)].id if waves else "none is planned")


def _skip_some(ledger: SqlLedger, turn: int) -> None:
    skipped(ledger, turn * 10 + 3, turn * 10 + 6, partition=turn % 2)


def _advance(ledger: SqlLedger, _turn: int) -> None:
    ledger.advance(SPEC.name)


def test_laws_hold_while_all_write_at_once(sql_ledger: SqlLedger) -> None:
    """Planners, workers, skips and advances on the same streams: the watermark never passes a hold.

    Each repeats what was refused until it has done its share.
    """
    planned(sql_ledger, [(0, 0, 10), (1, 0, 10)])
    acts = (_plan_more, _settle_some, _skip_some, _advance)
    done: Counter[str] = Counter()

    def work(act: Callable[[SqlLedger, int], None]) -> None:
        until = time.monotonic() + LONGEST_SECONDS
        for turn in itertools.count():
            with suppress(ConcurrentError, StateError, UnknownSubjectError):
                act(sql_ledger, turn)
                done[act.__name__] += 1
            if done[act.__name__] == OF_EACH or time.monotonic() > until:
                return

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(work, act) for act in acts]
        while wait(running, timeout=0.01).not_done:
            _check_laws(sql_ledger)
        for item in running:
            item.result()
    _check_laws(sql_ledger)
    assert done == {act.__name__: OF_EACH for act in acts}


def _check_laws(ledger: SqlLedger) -> None:
    # Streams first: a hold that is read later than the watermark can only have risen or be new above it.
    for stream in ledger.streams(SPEC.name):
        assert watermark(stream.origin, stream.covered) >= stream.watermark
        for item in ledger.ranges(pipeline=SPEC.name, states=UNRESOLVED):
            if item.stream == stream.key:
                assert item.range.start >= stream.watermark


def test_wave_cannot_be_claimed_while_a_rebuild_cuts_its_ranges(
    new_url: NewUrl, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who claimed it in between would stage, and publish, what the lake has from another wave already."""
    url = new_url("postgres")
    rebuilder, worker = opened(url), SqlLedger(url, lock_timeout=0.1)
    rebuilder.upgrade()
    (name,) = planned(rebuilder, [(0, 0, 20)])
    streams = rebuilder.streams(SPEC.name)
    what = Restoration(
        spec=SPEC,
        token=Token(pipeline=SPEC.name, wave="rebuild-1", attempt="1" * 16, fence=1, ranges="", kind="fence"),
        observed_at=AT,
        versions={stream.key: stream.version for stream in streams},
        guards=(),
        tables={},
        streams=(),
        waves=(),
        skips=(RestoredSkip(id="s9", stream=streams[0].key, at=AT, passed=RangeSet.of((0, 5))),),
        reopened=(),
        fences={},
        receipts=(),
    )
    refused: list[ConcurrentError] = []

    def claim_in_between(_c: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("DELETE FROM kafka_lake_range"):
            with pytest.raises(ConcurrentError) as caught:
                claimed(worker, name)
            refused.append(caught.value)

    monkeypatch.setattr(database, "TRIES", 1)
    event.listen(rebuilder.engine, "before_cursor_execute", claim_in_between)
    rebuilder.commit(Restore(what=what, actor="tester"))
    assert len(refused) == 1
    assert [item.range for item in claimed(worker, name).ranges] == [OffsetRange(5, 20)]
    worker.close()
