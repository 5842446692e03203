"""The parts that people run on: three brokers behind SASL_SSL, a REST catalog over S3, a Spark cluster."""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from airflow_kafka_lake.local.kafka import LocalKafka
from tests.brokers import Brokers
from tests.hosts import HERE
from tests.kit.local_lake import KEY, SECRET, WAREHOUSE, LocalLake
from tests.login import LOGIN, PROTOCOLS, Login
from tests.proxy import Proxy
from tests.soak.lanes import TABLE
from tests.soak.place import Place
from tests.spark_cluster import Cluster

WORKERS = 4
"""Of one core each, for a driver and an executor of two runs at once."""
_NAMESPACE, _, _NAME = TABLE.rpartition(".")


class RealisticPlace(Place):
    """A soak's place of several machines, as far as one machine has them; the ledger is PostgreSQL here too."""

    starts = (
        "three brokers, PostgreSQL, a REST catalog over S3, a Spark cluster of four workers, which runs the drivers"
    )
    flags = "--realistic "
    impossible = frozenset({"full-disk", "orphan-removal"})
    """Both need the warehouse's files in a folder."""
    commits = ((f"POST /v1/{WAREHOUSE}/namespaces/{_NAMESPACE}/tables/{_NAME}".encode(),),)
    replicas = 3

    def _open_kafka(self) -> None:
        self._login = Login(self.home)
        settings = {
            **self._login.of_broker(),
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
        }
        self.brokers = self._stack.enter_context(Brokers(3, settings, PROTOCOLS))
        self.brokers.restore()
        self.bootstrap = self.brokers.addresses("PLAINTEXT")

    def a_broker(self, choose: random.Random) -> LocalKafka:
        """Choose one of the three; the first is the controller too."""
        return self.brokers[choose.randint(1, 3)]

    def catalog_address(self, postgres: Path) -> tuple[str, int] | Path:
        """Start the catalog and its store, and return where the catalog answers."""
        self.lake = self._stack.enter_context(LocalLake())
        self.store_network = self._stack.enter_context(Proxy(_address(self.lake.endpoint)))
        return _address(self.lake.uri)

    def _open_lake(self) -> None:
        folder = self.home / "cluster"
        folder.mkdir()
        memory = {"spark.deploy.recoveryMode": "FILESYSTEM", "spark.deploy.recoveryDirectory": str(folder / "memory")}
        self.cluster = Cluster(folder, [HERE] * (1 + WORKERS), memory)
        self.cluster_turn = threading.Lock()
        self._stack.callback(self.cluster.stop)
        self.cluster.start()

    def connections(self) -> dict[str, str]:
        """Return the connections: catalog, store and ledger lie behind their networks."""
        kafka = self._login.of_client(self.brokers.addresses(LOGIN))
        catalog, store = (f"http://127.0.0.1:{network.port}" for network in (self.catalog_network, self.store_network))
        lake = self.lake.extra(
            **{
                "uri": catalog,
                "oauth2-server-uri": f"{catalog}/v1/oauth/tokens",
                "s3.endpoint": store,
                "credential": f"{KEY}:{SECRET}",
            }
        )
        return {
            **super().connections(),
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": kafka}),
            "AIRFLOW_CONN_LAKE_DEFAULT": json.dumps({"conn_type": "lake", "extra": lake}),
            "AIRFLOW_CONN_SPARK_DEFAULT": self.cluster.connection(**{"deploy-mode": "cluster"}),
        }

    def catalog(self) -> Any:
        """Open the catalog past its network."""
        from pyiceberg.catalog import load_catalog

        extra = self.lake.extra(credential=f"{KEY}:{SECRET}")
        return load_catalog("lake", **{**extra, "type": extra.pop("catalog")})


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 0
