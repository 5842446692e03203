"""A Spark standalone cluster: a driver that outlives its worker is found by its name, and ended; executors can read."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from airflow_kafka_lake.local.processes import free_ports, wait_until
from tests.faults.test_kills import WAIT_SECONDS, _driver_of
from tests.sandbox import Sandbox

_STRANGER = """
import time
from pyspark import SparkContext
SparkContext()
time.sleep(600)
"""
pytestmark = [pytest.mark.faults, pytest.mark.nightly]

QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


class Cluster:
    """A standalone master with one worker of one core, both of this machine."""

    def __init__(self, home: Path) -> None:
        import pyspark

        self._home = home
        self._spark = Path(pyspark.__file__).parent
        self._port, self._ui, self._worker_ui = free_ports(3)
        self.master = f"spark://127.0.0.1:{self._port}"
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start both, and wait until the worker is known."""
        here = ("--host", "127.0.0.1")
        self._daemon("master.Master", *here, "--port", str(self._port), "--webui-port", str(self._ui))
        wait_for(lambda: self._listing() is not None)
        room = ("--cores", "1", "--memory", "2g", "--webui-port", str(self._worker_ui))
        self._daemon("worker.Worker", *here, *room, "--work-dir", str(self._home / "work"), self.master)
        wait_for(lambda: (self._listing() or {}).get("aliveworkers") == 1)

    def stop(self) -> None:
        """End everything that was started here."""
        for process in reversed(self._started):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def applications(self) -> list[str]:
        """Return the names of the applications that run or wait."""
        return sorted(item["name"] for item in (self._listing() or {}).get("activeapps", ()))

    def given_jars(self) -> dict[str, set[str]]:
        """Return the names of the jars that the executors of each application were given."""
        found: dict[str, set[str]] = {}
        for path in (self._home / "work").glob("app-*/*/*.jar"):
            found.setdefault(path.parent.parent.name, set()).add(path.name)
        return found

    def executors(self) -> list[psutil.Process]:
        """Return the executors that run."""
        found = (psutil.Process(item.pid).children(recursive=True) for item in self._started)
        return [each for its in found for each in its if _is_executor(each)]

    def executors_started(self) -> int:
        """Return how many executors there have been."""
        return len(list((self._home / "work").glob("app-*/*")))

    def connection(self) -> str:
        """Return the Airflow connection to this cluster; a job takes one core."""
        conf = {
            "spark.master.ui.port": str(self._ui),
            "spark.cores.max": "1",
            "spark.executor.memory": "512m",
            "spark.driver.memory": "768m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": QUICK,
            "spark.executor.extraJavaOptions": QUICK,
        }
        return json.dumps({"conn_type": "spark", "host": self.master, "extra": {"conf": conf}})

    def submit_stranger(self, name: str) -> None:
        """Let another application wait for more memory than the worker has: it runs, and takes no core."""
        script = self._home / "stranger.py"
        script.write_text(_STRANGER)
        settings = ("spark.executor.memory=4g", "spark.driver.host=127.0.0.1", "spark.ui.enabled=false")
        words = [word for setting in settings for word in ("--conf", setting)]
        words += ["--driver-java-options", QUICK]
        self._start("bin/spark-submit", "--master", self.master, "--name", name, *words, str(script))
        wait_for(lambda: name in self.applications())

    def _daemon(self, name: str, *words: str) -> None:
        self._start("bin/spark-class", f"org.apache.spark.deploy.{name}", *words)

    def _start(self, program: str, *words: str) -> None:
        environment = {
            **os.environ,
            "SPARK_HOME": str(self._spark),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
            "PYSPARK_PYTHON": sys.executable,
        }
        with (self._home / f"{len(self._started)}.log").open("wb") as log:
            self._started.append(
                subprocess.Popen(
                    [str(self._spark / program), *words],
                    env=environment,
                    cwd=self._home,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    def _listing(self) -> dict | None:  # type: ignore[type-arg]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._ui}/json/", timeout=5) as answer:
                return json.load(answer)  # type: ignore[no-any-return]
        except OSError:
            return None


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until something holds."""
    wait_until(lambda: bool(condition()), timeout=WAIT_SECONDS, failed=AssertionError, every=0.2)


@pytest.fixture
def cluster(service: None, tmp_path: Path) -> Iterator[Cluster]:
    home = tmp_path / "cluster"
    home.mkdir()
    made = Cluster(home)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def _is_executor(process: psutil.Process) -> bool:
    """Return whether a process is an executor that has not ended."""
    with suppress(psutil.NoSuchProcess):
        return any("CoarseGrainedExecutorBackend" in word for word in process.cmdline())
    return False


@contextmanager
def continued(driver: psutil.Process) -> Iterator[None]:
    """Let a stopped driver go on when the block ends, whatever happens in it, and see its end."""
    try:
        yield
    finally:
        driver.resume()
        driver.wait(WAIT_SECONDS)


def _its_host_is_gone(sandbox: Sandbox) -> None:
    """Let the holder of every wave be of another machine, and its lease be over."""
    with closing(sqlite3.connect(sandbox.ledger)) as ledger, ledger:
        ledger.execute(
            "UPDATE kafka_lake_wave SET lease_holder = 'elsewhere/1/1.00', lease_until = '2000-01-01 00:00:00'"
        )
        ledger.execute("UPDATE kafka_lake_attempt SET lease_holder = 'elsewhere/1/1.00', job = 'elsewhere/2/1.00'")


def test_a_retry_on_another_host_ends_the_driver_that_its_wave_left_on_the_cluster(
    sandbox: Sandbox, cluster: Cluster
) -> None:
    """The worker is killed, its driver hangs and keeps its core: the retry ends that application, and no other."""
    cluster.submit_stranger("report")
    sandbox.produce(100)
    spark = {"AIRFLOW_CONN_SPARK_DEFAULT": cluster.connection()}
    process = sandbox.start("run", str(sandbox.file), "--json", env=spark)
    driver = _driver_of(process)
    wait_for(lambda: len(cluster.applications()) == 2)
    driver.suspend()
    with continued(driver):
        process.kill()
        process.communicate(timeout=30)
        (forgotten,) = set(cluster.applications()) - {"report"}
        assert forgotten.startswith(f"kafka-lake {sandbox.name} ")
        _its_host_is_gone(sandbox)
        again = sandbox.run(env=spark)
        assert (again.code, again.document["rows"]) == (0, 100), again.err
        assert f"ended the forgotten job of wave {forgotten.split()[2]}: {forgotten}" in again.err
        assert cluster.applications() == ["report"]
    sandbox.assert_exact()
    assert len(sandbox.publishes()) == 1
    assert sandbox.run().document["waves"] == []


def test_executor_that_dies_in_mid_read_loses_and_doubles_nothing(sandbox: Sandbox, cluster: Cluster) -> None:
    """Spark repeats its task on the next one, within the same job."""
    sandbox.produce(800, size=1000)
    words = ("run", str(sandbox.file), "--bytes-per-second", "100 kB", "--json")
    process = sandbox.start(*words, env={"AIRFLOW_CONN_SPARK_DEFAULT": cluster.connection()})
    wait_for(lambda: process.poll() is not None or any(cluster.given_jars().values()))
    (executor,) = cluster.executors()
    executor.kill()
    done = sandbox.end(process)
    assert (done.code, done.document["rows"]) == (0, 800), done.err
    assert cluster.executors_started() > 1
    sandbox.assert_exact()


def test_executors_of_a_cluster_read_with_shared_consumers(sandbox: Sandbox, cluster: Cluster) -> None:
    """Every wave of a run is read by the class that its submit brings, and every record comes once."""
    sandbox.write_pipeline(sizes='target_range_bytes = "64 KiB"\nmax_wave_bytes = "64 KiB"')
    sandbox.produce(200, size=1000)
    done = sandbox.run(env={"AIRFLOW_CONN_SPARK_DEFAULT": cluster.connection()})
    assert (done.code, len(done.document["waves"]) > 1) == (0, True), done.err
    sandbox.assert_exact()
    given = cluster.given_jars()
    assert given
    assert all(any(name.startswith("kafka-lake-") for name in names) for names in given.values()), given
