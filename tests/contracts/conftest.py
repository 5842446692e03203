"""The same ledger three times: in memory, in a SQLite file, in a real PostgreSQL."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import pytest
from sqlalchemy import create_engine, make_url, text

from airflow_kafka_lake.adapters.sql_ledger import tables
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.ports import Ledger
from tests.kit.clock import FakeClock
from tests.kit.memory_ledger import MemoryLedger

_schemas = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to the nightly three of four tests that PostgreSQL plays like SQLite, or a table of one file like one of
    several; those of locks have no double.

    Pytest passes the tests of all folders, and those of other ones are races of processes: they have no double either.
    """
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        is_ours = item.path.is_relative_to(Path(__file__).parent)
        has_double = params.get("ledger") == "postgres" or params.get("world") == "iceberg, one file"
        if is_ours and has_double and crc32(item.nodeid.encode()) % 4:
            item.add_marker(pytest.mark.nightly)


@pytest.fixture
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Return the URL of a database without any ledger: `sqlite` or `postgres` (a schema of its own)."""
    made: list[tuple[str, str]] = []

    def make(kind: str) -> str:
        if kind == "sqlite":
            return f"sqlite:///{tmp_path}/ledger-{next(_schemas)}.db"
        server = make_url(request.getfixturevalue("postgres_uri")).set(drivername="postgresql+psycopg2")
        schema = f"ledger_{next(_schemas)}"
        uri = server.render_as_string(hide_password=False)
        made.append((uri, schema))
        _run(uri, f"CREATE SCHEMA {schema}")
        return server.update_query_dict({"options": f"-csearch_path={schema}"}).render_as_string(hide_password=False)

    yield make
    for uri, schema in made:
        _run(uri, f"DROP SCHEMA {schema} CASCADE")


def _run(uri: str, statement: str) -> None:
    engine = create_engine(uri)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


@pytest.fixture
def opened(new_url: Callable[[str], str]) -> Iterator[Callable[[str], SqlLedger]]:
    """Open SQL ledgers that are closed when the test ends."""
    ledgers: list[SqlLedger] = []

    def open_ledger(url: str) -> SqlLedger:
        ledgers.append(SqlLedger(url))
        return ledgers[-1]

    yield open_ledger
    for ledger in ledgers:
        ledger.close()


@pytest.fixture
def clock() -> FakeClock:
    """The memory ledger's clock; a database has its own."""
    return FakeClock()


@pytest.fixture(scope="session")
def shared_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[SqlLedger, Path]:
    """One SQLite ledger for all tests that need an empty one, and a copy of its file as it was after its creation.

    Its engine stays, and with it the statements that SQLAlchemy has compiled: half of these tests' time otherwise.
    """
    folder = tmp_path_factory.mktemp("ledger")
    ledger = SqlLedger(f"sqlite:///{folder / 'ledger.db'}")
    ledger.streams("none")
    ledger.close()
    return ledger, shutil.copy(folder / "ledger.db", folder / "blank.db")


@pytest.fixture(scope="session")
def shared_schema(postgres_uri: str) -> SqlLedger:
    """One PostgreSQL schema for all tests that need an empty ledger; they empty it one after the other."""
    server = make_url(postgres_uri).set(drivername="postgresql+psycopg2")
    _run(server.render_as_string(hide_password=False), "CREATE SCHEMA ledger_shared")
    options = "-csearch_path=ledger_shared -csynchronous_commit=off"
    ledger = SqlLedger(server.update_query_dict({"options": options}))
    ledger.upgrade()
    ledger.close()
    return ledger


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def ledger(request: pytest.FixtureRequest, clock: FakeClock) -> Iterator[Ledger]:
    """An empty ledger of each kind."""
    if request.param == "memory":
        yield MemoryLedger(clock)
    else:
        yield from _empty(request, request.param)


@pytest.fixture(params=["sqlite", "postgres"])
def sql_ledger(request: pytest.FixtureRequest) -> Iterator[SqlLedger]:
    """An empty ledger of each database."""
    yield from _empty(request, request.param)


def _empty(request: pytest.FixtureRequest, kind: str) -> Iterator[SqlLedger]:
    if kind == "sqlite":
        ledger, blank = request.getfixturevalue("shared_file")
        for left in blank.parent.glob("ledger.db*"):
            left.unlink()
        shutil.copy(blank, blank.parent / "ledger.db")
    else:
        ledger = request.getfixturevalue("shared_schema")
        kept = {tables.meta.name}
        with ledger.engine.begin() as connection:
            connection.exec_driver_sql(
                "TRUNCATE " + ", ".join(name for name in tables.metadata.tables if name not in kept)
            )
    yield ledger
    ledger.close()
