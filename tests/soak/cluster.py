"""A Spark standalone cluster on this machine, so that a job has executors that can die without its driver."""

from __future__ import annotations

import json
import os
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

from airflow_kafka_lake.adapters.java import require_java
from airflow_kafka_lake.adapters.spark_submit.submission import pyspark_home
from airflow_kafka_lake.local.processes import Keeper, LocalServerError, free_ports, tail, wait_until

START_SECONDS = 90
_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


class SparkCluster:
    """A master and one worker, started on first use; `master` is its address."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._keepers: list[Keeper] = []
        self._starting = threading.Lock()
        self._port, self._page, self._worker_page = free_ports(3)

    @property
    def master(self) -> str:
        """`spark://host:port`."""
        return f"spark://127.0.0.1:{self._port}"

    def connection(self) -> dict[str, Any]:
        """Return the connection to it: a job takes one core, so that every worker of the soak has room for its own."""
        conf = {
            "spark.master.ui.port": str(self._page),
            "spark.cores.max": "1",
            "spark.executor.memory": "512m",
            "spark.driver.host": "127.0.0.1",
        }
        return {"host": self.master, "extra": {"conf": conf}}

    def start(self) -> None:
        """Start it unless it runs; a caller who asks meanwhile waits until it does."""
        with self._starting:
            if not self._keepers:
                self._start()

    def _start(self) -> None:
        self._home.mkdir(exist_ok=True)
        deploy = "org.apache.spark.deploy"
        here = ["--host", "127.0.0.1"]
        self._run(f"{deploy}.master.Master", *here, "--port", str(self._port), "--webui-port", str(self._page))
        wait_until(lambda: self._answers(workers=0), timeout=START_SECONDS, failed=self._failed)
        work = ["--webui-port", str(self._worker_page), "--cores", "2", "--memory", "2g", "-d", str(self._home)]
        self._run(f"{deploy}.worker.Worker", *here, *work, self.master)
        wait_until(lambda: self._answers(workers=1), timeout=START_SECONDS, failed=self._failed)

    def pids(self) -> list[int]:
        """Return the process ids of master and worker."""
        return [keeper.pid for keeper in self._keepers if keeper.pid]

    def close(self) -> None:
        """End it; safe to repeat."""
        while self._keepers:
            self._keepers.pop().close()

    def _run(self, *words: str) -> None:
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "KAFKA", "SPARK"))},
            "SPARK_HOME": str(pyspark_home()),
            "JAVA_HOME": str(Path(require_java()).resolve().parents[1]),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(self._home),
            "PYSPARK_PYTHON": sys.executable,
        }
        keeper = Keeper()
        self._keepers.append(keeper)
        binary = pyspark_home() / "bin" / "spark-class"
        keeper.start([binary, *words], log=self._home / "cluster.log", env=environment, cwd=self._home)

    def _answers(self, *, workers: int) -> bool:
        try:
            with _open(f"http://127.0.0.1:{self._page}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"]) >= workers
        except OSError:
            return False

    def _failed(self, why: str) -> LocalServerError:
        return LocalServerError(f"Spark's standalone cluster did not start: {why}.\n{tail(self._home / 'cluster.log')}")
