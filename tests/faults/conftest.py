"""Places whose database lies behind a network that the tests can break."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine, make_url, text

from tests.proxy import Proxy

if TYPE_CHECKING:
    from airflow_kafka_lake.local.kafka import LocalKafka
    from tests.sandbox import Sandbox

_databases = itertools.count(1)
USER = "postgres"


@pytest.fixture
def network(postgres_uri: str) -> Iterator[Proxy]:
    """The network between a test's programs and the session's PostgreSQL."""
    folder = str(make_url(postgres_uri).query["host"])
    with Proxy(Path(folder) / ".s.PGSQL.5432") as proxy:
        yield proxy


@pytest.fixture
def database(postgres_uri: str) -> Iterator[str]:
    """The name of an empty database of this test's own."""
    name = f"faults_{next(_databases)}"
    engine = create_engine(make_url(postgres_uri).set(drivername="postgresql+psycopg2"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    yield name
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture
def postgres_sandbox(
    kafka: LocalKafka, spark_jars: list[Path], tmp_path: Path, network: Proxy, database: str
) -> Iterator[Sandbox]:
    """A user's place whose catalog and ledger are one PostgreSQL database behind the network."""
    from tests.sandbox import Sandbox

    ledger: dict[str, Any] = {"host": "127.0.0.1", "port": network.port, "schema": database, "login": USER}
    sandbox = Sandbox(
        tmp_path / "place",
        kafka.bootstrap,
        catalog=f"postgresql://{USER}@127.0.0.1:{network.port}/{database}",
        ledger_connection={"conn_type": "postgres", **ledger},
    )
    with closing(sandbox):
        assert sandbox.command("db", "upgrade").code == 0
        yield sandbox
