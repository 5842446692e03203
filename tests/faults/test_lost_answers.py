"""A catalog in a SQLite file whose commit fails without saying what became of it: landed or not, both end right."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.running import Run
from tests.faults.stored import StoredWorld
from tests.gates import Before


@pytest.fixture
def file_world(tmp_path: Path) -> Iterator[StoredWorld]:
    """Ledger and catalog in SQLite files."""
    catalog = f"sqlite:///{tmp_path}/catalog.db"
    made = StoredWorld(tmp_path, ledger=f"sqlite:///{tmp_path}/ledger.db", catalog=catalog, truth=catalog)
    made.produce(3)
    yield made
    made.close()


def break_next_commit(engine: Engine, *, landed: bool) -> list[bool]:
    """Let the next COMMIT of a SQLite connection fail after or before it was done; the answer tells when it has."""
    real, broken = engine.dialect.do_commit, []

    def lossy(connection: Any) -> None:
        engine.dialect.do_commit = real  # type: ignore[method-assign]
        if landed:
            real(connection)
        broken.append(True)
        raise sqlite3.OperationalError("disk I/O error")

    engine.dialect.do_commit = lossy  # type: ignore[method-assign]
    return broken


@pytest.mark.parametrize("landed", [True, False])
def test_publish_with_a_lost_answer_on_sqlite(file_world: StoredWorld, *, landed: bool) -> None:
    """The run finds out by itself; one publish, and main can be read."""
    broken: list[list[bool]] = []
    workers: list[Ports] = []

    def arm() -> None:
        engine = workers[0].lake._lake.catalog.api.engine  # type: ignore[attr-defined]

        def updating(*arguments: Any) -> None:
            if arguments[2].startswith("UPDATE iceberg_tables") and not broken:
                broken.append(break_next_commit(engine, landed=landed))

        event.listen(engine, "before_cursor_execute", updating)

    workers.append(file_world.worker(Before("table.publish", arm)))
    first = file_world.run(workers[0])
    assert broken == [[True]]
    assert isinstance(first, Run), first
    assert first.exit_code == 0, first.problems
    file_world.check()
    again = file_world.run()
    assert isinstance(again, Run), again
    assert again.waves == ()
    assert len(file_world.publishes()) == 1


def test_commit_that_a_reader_of_the_catalog_file_has_prevented_is_made_again(
    file_world: StoredWorld, tmp_path: Path
) -> None:
    """SQLite leaves its transaction open then: what that connection sees must not count as what is on the disk."""
    reader = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)
    workers: list[Ports] = []
    passed: list[str] = []

    def impatient(_connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("UPDATE iceberg_tables"):
            cursor.execute("PRAGMA busy_timeout = 50")

    def passing(call: str) -> None:
        if call == "table.publish" and call not in passed:
            event.listen(workers[0].lake._lake.catalog.api.engine, "before_cursor_execute", impatient)  # type: ignore[attr-defined]
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM iceberg_tables").fetchall()
        elif passed[-1:] == ["table.find_commit"] and "table.publish" in passed:
            reader.rollback()
        passed.append(call)

    workers.append(file_world.worker(passing))
    first = file_world.run(workers[0])
    reader.close()
    assert passed.count("table.publish") == 2
    assert isinstance(first, Run), first
    assert first.exit_code == 0, first.problems
    file_world.check()
    assert len(file_world.publishes()) == 1
