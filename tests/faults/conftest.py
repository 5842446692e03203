"""Places whose database lies behind a network that the tests can break, or whose broker asks for a login."""

from __future__ import annotations

import itertools
import json
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
LOGIN, PASSWORD, STORE_KEY = "lake-user", "canary-of-kafka", "canary-of-the-store"
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_GUARDED = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.login.plain.sasl.jaas.config": f'{_MODULE} required user_{LOGIN}="{PASSWORD}";',
}


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


@pytest.fixture
def guarded(spark_jars: list[Path], tmp_path: Path) -> Iterator[tuple[Sandbox, dict[str, str]]]:
    """A place on a broker of its own, and the connections, with secrets, by which its commands come in."""
    from airflow_kafka_lake.local.kafka import LocalKafka
    from tests.sandbox import Sandbox
    from tests.warm.broker import KEEPS_ALL

    with (
        LocalKafka(settings=KEEPS_ALL | _GUARDED, listeners={"LOGIN": "SASL_PLAINTEXT"}) as broker,
        closing(Sandbox(tmp_path / "place", broker.bootstrap)) as sandbox,
    ):
        login = {"sasl.mechanism": "PLAIN", "sasl.username": LOGIN, "sasl.password": PASSWORD}
        address = {"bootstrap.servers": broker.address("LOGIN"), "security.protocol": "SASL_PLAINTEXT"}
        lake = json.loads(sandbox.environment["AIRFLOW_CONN_LAKE_DEFAULT"])
        lake["extra"]["s3.secret-access-key"] = STORE_KEY
        kafka = {"conn_type": "kafka", "extra": address | login}
        yield (
            sandbox,
            {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(kafka), "AIRFLOW_CONN_LAKE_DEFAULT": json.dumps(lake)},
        )
