"""Every client of the product against a real socket that takes the connection and stays silent, or stops half-way."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet
from pyiceberg.catalog import Catalog
from pyiceberg.table import CommitTableRequest

from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.iceberg.table import IcebergLake
from airflow_kafka_lake.adapters.kafka.source import KafkaOffsetSource
from airflow_kafka_lake.adapters.kafka_batches import KafkaBatchReader
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.adapters.registry.client import ConfluentRegistry
from airflow_kafka_lake.adapters.registry.settings import RegistrySettings
from airflow_kafka_lake.adapters.spark_submit.runner import end_application
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.core.errors import UnavailableError
from airflow_kafka_lake.core.ledger.records import Publication
from airflow_kafka_lake.core.ledger.waves import Absent, Found, Unknown
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.wiring.connections import ConnectionSettings, ledger_url
from tests.contracts.lake_worlds import LEDGER, NAME, TOPIC_ID, IcebergWorld, attempt_id, offsets, record, token
from tests.silence import HALF, SilentServer

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(120)]

QUICK_REST = {"rest.client.connection-timeout-ms": 300, "rest.client.socket-timeout-ms": 300}
QUICK_S3 = {"s3.connect-timeout": 0.3, "s3.request-timeout": 0.3, "s3.region": "us-east-1", "s3.access-key-id": "a"}


def rest(port: int) -> None:
    lake({"catalog": "rest", "uri": f"http://127.0.0.1:{port}", "warehouse": "w", **QUICK_REST})


def rest_with_login(port: int) -> None:
    uri = f"http://127.0.0.1:{port}"
    lake({"catalog": "rest", "uri": uri, "oauth2-server-uri": f"{uri}/token", **QUICK_REST}, password="client:s3cret")


def sql_catalog(port: int) -> None:
    uri = f"postgresql://u@127.0.0.1:{port}/c?connect_timeout=2"
    lake({"catalog": "sql", "uri": uri, "warehouse": "file:///w"})


def lake(extra: dict[str, Any], password: str | None = None) -> None:
    opened = IcebergLake(LakeSettings.parse("lake_default", extra, password=password))
    try:
        opened.table(NAME).head()
    finally:
        opened.close()


def ledger(port: int) -> None:
    given = ConnectionSettings(
        conn_id="l", conn_type="postgres", host="127.0.0.1", port=port, schema="l", login="u", password="p",
        extra={"connect_timeout": 2},
    )  # fmt: skip
    opened = SqlLedger(ledger_url(given))
    try:
        opened.ledger_id()
    finally:
        opened.close()


def registry(port: int) -> None:
    settings = RegistrySettings.parse("schemas", host="127.0.0.1", port=port, extra={"timeout": 0.3})
    opened = ConfluentRegistry(settings)
    try:
        opened.versions("orders-value")
    finally:
        opened.close()


def kafka_offsets(port: int) -> None:
    settings = KafkaSettings.parse({"bootstrap.servers": f"127.0.0.1:{port}"})
    KafkaOffsetSource(settings, clock=SystemClock(), timeout_seconds=1.0).describe(["orders"])


def kafka_batches(port: int) -> None:
    settings = KafkaSettings.parse({"bootstrap.servers": f"127.0.0.1:{port}"})
    gap = Slice(Stream("orders", TOPIC_ID, 0), OffsetRange(0, 1))
    KafkaBatchReader(settings, timeout_seconds=1.0).explain([gap], Isolation.READ_COMMITTED)


CLIENTS: dict[Callable[[int], None], bytes] = {
    rest: HALF,
    rest_with_login: HALF,
    registry: HALF,
    sql_catalog: b"N",
    ledger: b"N",
    kafka_offsets: b"\0\0\0\x20\0\0",
    kafka_batches: b"\0\0\0\x20\0\0",
}
"""Every client that raises, and how its server's answer would begin."""
SLOW = (sql_catalog, ledger, kafka_offsets, kafka_batches)
"""Clients that wait for a second or more."""


def _asking(ask: Callable[[int], None]) -> ParameterSet:
    return pytest.param(ask, id=ask.__name__, marks=[pytest.mark.slow] * (ask in SLOW))


@pytest.mark.parametrize("half", [False, True], ids=["silent", "half an answer"])
@pytest.mark.parametrize("ask", [_asking(ask) for ask in CLIENTS])
def test_a_server_that_falls_silent_is_out_of_reach(ask: Callable[[int], None], half: bool) -> None:
    """The wait has the bound that the connection gives it, and ends as trouble that is worth repeating."""
    with SilentServer(CLIENTS[ask] if half else b"") as server:
        with pytest.raises(UnavailableError):
            ask(server.port)
        assert server.asked.is_set()


@pytest.mark.slow
@pytest.mark.parametrize("first", [b"", HALF], ids=["silent", "half an answer"])
def test_a_silent_spark_master_ends_no_application_and_holds_no_claim_up(first: bytes) -> None:
    """Its web address is a help and no condition."""
    with SilentServer(first) as server:
        assert not end_application("spark://127.0.0.1:7077", str(server.port), "orders")
        assert server.asked.is_set()


@pytest.mark.slow
def test_silent_storage_is_out_of_reach(tmp_path: Path) -> None:
    """The catalog answers, and the store with the table's metadata does not."""
    world = IcebergWorld(tmp_path)
    world.table.ensure("")
    with SilentServer() as server:
        extra = {"s3.endpoint": f"http://127.0.0.1:{server.port}", "s3.secret-access-key": "b", **QUICK_S3}
        where = {"catalog": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": "s3://lake/raw"}
        opened = IcebergLake(LakeSettings.parse("lake_default", where | extra))
        with pytest.raises(UnavailableError):
            opened.table("raw.other").ensure("")
        assert server.asked.is_set()
        opened.close()
    world.lake.close()


class SilentAfterCommit(ThreadingHTTPServer):
    """A REST catalog before another one: it answers every question, makes every commit, and never says so."""

    daemon_threads = False

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.catalog = catalog
        self.commits = 0
        self.over = threading.Event()
        self.before_commit: Callable[[], None] = lambda: None


class _Handler(BaseHTTPRequestHandler):
    server: SilentAfterCommit

    def do_GET(self) -> None:
        if self.path.startswith("/v1/config"):
            self._answer({"defaults": {}, "overrides": {}})
        else:
            table = self.server.catalog.load_table(NAME)
            metadata = json.loads(table.metadata.model_dump_json())
            self._answer({"metadata-location": table.metadata_location, "metadata": metadata, "config": {}})

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        change = CommitTableRequest.model_validate_json(asked)
        catalog = self.server.catalog
        catalog.commit_table(catalog.load_table(NAME), change.requirements, change.updates)
        self.server.commits += 1
        self.server.over.wait()
        self.close_connection = True

    def _answer(self, document: dict[str, Any]) -> None:
        text = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[IcebergWorld, SilentAfterCommit]]:
    """A table whose owner is recorded, and a REST catalog in front of it that is silent about commits."""
    world = IcebergWorld(tmp_path)
    world.table.ensure("")
    world.table.claim_ownership(LEDGER, "orders", [TOPIC_ID])
    server = SilentAfterCommit(world.catalog)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    yield world, server
    server.over.set()
    server.shutdown()
    serving.join()
    server.server_close()
    world.lake.close()


def test_a_commit_without_an_answer_is_unknown_and_found_by_looking(
    served: tuple[IcebergWorld, SilentAfterCommit],
) -> None:
    """A publish through a REST catalog that falls silent is neither failed nor repeated."""
    world, server = served
    attempt = attempt_id()
    world.stage(attempt, offsets(0, 1))
    extra = {"catalog": "rest", "uri": f"http://127.0.0.1:{server.server_address[1]}", **QUICK_REST}
    opened = IcebergLake(LakeSettings.parse("lake_default", extra))
    table = opened.table(NAME)
    head = table.head()
    assert isinstance(table.find_commit([record(attempt, head)]), Absent)
    staged = table.staged(attempt)
    assert staged is not None
    asked = Publication(head=head, audited=staged.snapshot, token=token(attempt), ledger_id=LEDGER)
    outcome = table.publish(asked)
    assert isinstance(outcome, Unknown)
    assert "timed out" in outcome.reason
    assert server.commits == 1
    assert isinstance(table.find_commit([record(attempt, head)]), Found)
    opened.close()
