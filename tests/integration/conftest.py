"""What several files of this tier share."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_kafka_lake.local.kafka import LocalKafka
    from tests.integration.refusing import Refusals
    from tests.sandbox import Sandbox
    from tests.spark_lake import SparkLake


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> SparkLake:
    """A catalog for `spark`; its users' tables have names of their own."""
    from tests.spark_lake import SparkLake

    return SparkLake(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="session")
def spark(lake: SparkLake, spark_jars: list[Path]) -> Iterator[SparkSession]:
    """A Spark of this process alone, in which a test sees everything."""
    from tests.spark_lake import started

    with started(lake, spark_jars) as session:
        yield session


@pytest.fixture(scope="session")
def planned(kafka: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A place with forty records, planned and not run: refusals change nothing, so they can share it."""
    from tests.sandbox import Sandbox

    with closing(Sandbox(tmp_path_factory.mktemp("planned") / "place", kafka.bootstrap)) as place:
        place.produce(40)
        done = place.command("plan", str(place.file), "--json")
        assert done.code == 0, done.err
        yield place


@pytest.fixture
def refusals(planned: Sandbox, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refusals:
    """Commands in the planned place."""
    from tests.integration.refusing import Refusals

    found = Refusals(planned, monkeypatch, capsys)
    found.settle_in()
    return found


@pytest.fixture
def fresh(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refusals:
    """Commands in a place of their own, where nothing was planned yet."""
    from tests.integration.refusing import Refusals

    found = Refusals(sandbox, monkeypatch, capsys)
    found.settle_in()
    return found


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and its key: the broker's, and in these tests the client's too."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*made, *names], check=True, capture_output=True)
    return cert, key
