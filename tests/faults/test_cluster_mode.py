"""Deploy mode cluster: the driver is a process of the cluster and calls its worker; each record lands once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import psutil
import pytest

from airflow_kafka_lake.adapters.java import find_java, spark_home
from airflow_kafka_lake.adapters.spark_submit.driver import ADDRESS
from airflow_kafka_lake.jobs.caller import TOKEN
from tests import canaries
from tests.faults.conftest import PASSWORD, STORE_KEY
from tests.faults.test_standalone import TWO_TASKS, assert_landed
from tests.hosts import HERE
from tests.kubernetes_cluster import Kubernetes
from tests.sandbox import Sandbox
from tests.spark_cluster import Cluster, wait_for
from tests.yarn_cluster import Yarn

pytestmark = [pytest.mark.faults, pytest.mark.nightly]


class OfDrivers(Protocol):
    """A cluster that runs drivers, too."""

    home: Path

    def environment(self, **conf: str) -> dict[str, str]:
        """Return the environment of a command whose driver and two executors are on the cluster."""
        ...

    def drivers(self) -> list[psutil.Process]:
        """Return the Java processes of drivers that run."""
        ...

    def executors(self) -> list[psutil.Process]:
        """Return the executors that run."""
        ...

    def told(self) -> str:
        """Return the cluster's public answers about its drivers."""
        ...


class Standalone(Cluster):
    """A master and three workers of one core: for a driver and two executors."""

    def __init__(self, home: Path) -> None:
        home.mkdir()
        super().__init__(home, [HERE] * 4, {})
        self.home = home

    def environment(self, **conf: str) -> dict[str, str]:
        return _in_cluster_mode(self.connection(2), {"spark.driver.host": HERE.address, **conf})

    def told(self) -> str:
        pages = ("json/", "")
        return "".join(urllib.request.urlopen(f"{self.page}/{page}").read().decode() for page in pages)


class OnYarn(Yarn):
    """One node; the driver is in the application master."""

    def environment(self, executors: int = 2, **conf: str) -> dict[str, str]:
        found = super().environment(executors, **conf)
        return found | _in_cluster_mode(found["AIRFLOW_CONN_SPARK_DEFAULT"], {})

    def drivers(self) -> list[psutil.Process]:
        return self.containers("yarn.ApplicationMaster")

    def told(self) -> str:
        return json.dumps(self.applications())


class OnKubernetes(Kubernetes):
    """A stand-in of its API, where drivers and executors are pods."""

    def __init__(self, home: Path) -> None:
        home.mkdir()
        super().__init__(home)

    def start(self) -> None:
        self.__enter__()

    def stop(self) -> None:
        self.__exit__()

    def environment(self, **conf: str) -> dict[str, str]:
        return _in_cluster_mode(self.drivers_connection(2), conf)

    def told(self) -> str:
        return b"\n".join((*self.bodies, *self.pods_told)).decode()


def _in_cluster_mode(connection: str, conf: Mapping[str, str]) -> dict[str, str]:
    found = json.loads(connection)
    found["extra"]["deploy-mode"] = "cluster"
    found["extra"]["conf"] |= {"spark.executor.heartbeatInterval": "1s", **conf}
    return {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(found)}


@pytest.fixture(params=[Standalone, OnYarn, OnKubernetes])
def cluster(
    request: pytest.FixtureRequest, service: None, spark_jars: list[Path], tmp_path: Path
) -> Iterator[OfDrivers]:
    made = request.param(tmp_path / "cluster")
    try:
        made.start()
        yield made
    finally:
        made.stop()


def reading(sandbox: Sandbox, cluster: OfDrivers, *, rate: str = "2 MB") -> subprocess.Popen[str]:
    """Return a run whose wave is being read by two executors of a driver on the cluster."""
    sandbox.produce(**TWO_TASKS)
    process = sandbox.start("run", str(sandbox.file), "--bytes-per-second", rate, "--json", env=cluster.environment())
    sandbox.wait_for_rows(process)
    assert len(cluster.drivers()) == 1
    return process


def _command_line(pid: int) -> str:
    """Return the command line of a process, nothing of one that has ended meanwhile."""
    with suppress(psutil.Error):
        return " ".join(psutil.Process(pid).cmdline())
    return ""


def test_wave_is_read_by_a_driver_on_the_cluster_and_no_secret_is_told(
    guarded: tuple[Sandbox, dict[str, str]], cluster: OfDrivers
) -> None:
    """The submission, the cluster's pages and files, and the command lines have neither a password nor a key.

    The word by which the driver comes in is used up by then. It is in no command line.
    """
    sandbox, connections = guarded
    before = [*Path("/tmp").glob("kafka-lake-called-*")]
    env = connections | cluster.environment(**{"spark.log.level": "INFO"})
    sandbox.produce(12_000, size=1000, dense=True)
    process = sandbox.start("run", str(sandbox.file), "--bytes-per-second", "1 MB", "--json", env=env)
    sandbox.wait_for_rows(process)
    (driver,) = cluster.drivers()
    seen = [process.pid, *(item.pid for item in psutil.Process(process.pid).children(recursive=True))]
    shown = [*seen, driver.pid, *(item.pid for item in (*driver.children(recursive=True), *cluster.executors()))]
    lines = "\n".join(map(_command_line, shown))
    assert "PythonRunner" in lines
    word = driver.environ()[TOKEN]
    done = sandbox.end(process)
    assert_landed(sandbox, done)
    said = f"{lines}\n{done.out}\n{done.err}"
    assert canaries.found((PASSWORD, STORE_KEY, word), said, sandbox.home) == []
    assert canaries.found((PASSWORD, STORE_KEY), cluster.told(), cluster.home) == []
    deep = sandbox.end(sandbox.start("audit", sandbox.name, "--deep", "--json", env=env))
    assert deep.code == 0, deep.err
    assert sum(stream["rows"] for stream in deep.document["streams"]) == len(sandbox.acknowledged)
    wait_for(lambda: not cluster.drivers() + cluster.executors())
    assert [*Path("/tmp").glob("kafka-lake-called-*"), *cluster.home.rglob("kafka-lake-called-*")] == before


def test_executor_that_is_killed_in_mid_read_loses_and_doubles_nothing(sandbox: Sandbox, cluster: OfDrivers) -> None:
    process = reading(sandbox, cluster)
    cluster.executors()[0].kill()
    assert_landed(sandbox, sandbox.end(process))


def test_driver_that_is_killed_in_mid_read_is_worth_repeating(sandbox: Sandbox, cluster: OfDrivers) -> None:
    process = reading(sandbox, cluster)
    cluster.drivers()[0].kill()
    ended = sandbox.end(process)
    assert (ended.code, ended.document["problems"][0]["type"]) == (3, "JobFailedError"), ended.err
    wait_for(lambda: not cluster.executors())
    assert_landed(sandbox, sandbox.run(env=cluster.environment()))


def test_command_that_is_killed_takes_its_driver_with_it_and_the_next_run_lands_the_wave(
    sandbox: Sandbox, cluster: OfDrivers
) -> None:
    process = reading(sandbox, cluster)
    process.kill()
    process.communicate(timeout=30)
    wait_for(lambda: not cluster.drivers() + cluster.executors())
    assert_landed(sandbox, sandbox.run(env=cluster.environment()))


def test_job_that_fails_on_the_cluster_says_why(sandbox: Sandbox, cluster: OfDrivers) -> None:
    sandbox.produce(100)
    conf = {"spark.serializer": "no.such.Serializer"}
    ended = sandbox.run(env=cluster.environment(**conf))
    assert (ended.code, ended.document["problems"][0]["reason"]) == (1, "missing-classes"), ended.out
    assert_landed(sandbox, sandbox.run(env=cluster.environment()))


def test_machine_that_the_cluster_does_not_reach_is_told_and_named(sandbox: Sandbox, cluster: OfDrivers) -> None:
    """No part of the wave is tried by itself: no record is the cause."""
    sandbox.produce(100)
    ended = sandbox.run(env=cluster.environment(**{ADDRESS: "192.0.2.255"}))
    (problem,) = ended.document["problems"]
    assert (ended.code, problem["reason"]) == (3, "driver-did-not-call"), ended.out
    assert ADDRESS in problem["message"]
    assert_landed(sandbox, sandbox.run(env=cluster.environment()))


@pytest.mark.parametrize("cluster", [Standalone], indirect=True)
def test_cluster_has_java_spark_and_python_in_other_places_than_this_machine(
    sandbox: Sandbox, cluster: OfDrivers, tmp_path: Path
) -> None:
    """A standalone cluster is sent the variables of the submission; its Python has no PySpark of its own."""
    java, spark, ours = tmp_path / "java", tmp_path / "spark", spark_home()
    java.symlink_to(find_java().resolve().parents[1])
    spark.mkdir()
    for name in ("bin", "jars"):
        (spark / name).symlink_to(ours / name)
    bare = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    env = cluster.environment(**{"spark.pyspark.python": str(bare)})
    env |= {"JAVA_HOME": str(java), "KAFKA_LAKE_SPARK_HOME": str(spark)}
    sandbox.produce(**TWO_TASKS)
    process = sandbox.start("run", str(sandbox.file), "--bytes-per-second", "2 MB", "--json", env=env)
    sandbox.wait_for_rows(process)
    (driver,) = cluster.drivers()
    assert not driver.cmdline()[0].startswith(str(java))
    assert_landed(sandbox, sandbox.end(process))


@pytest.mark.parametrize("cluster", [Standalone], indirect=True)
def test_driver_that_is_larger_than_any_worker_is_told_with_both_sizes(sandbox: Sandbox, cluster: OfDrivers) -> None:
    sandbox.produce(100)
    process = sandbox.start("run", str(sandbox.file), env=cluster.environment(**{"spark.driver.memory": "8g"}))
    assert process.stderr is not None
    said = next(line for line in process.stderr if "no worker has" in line or "landed" in line)
    assert "no worker has 8 GiB and 1 core free for the driver; at most they have 2 GiB and 1 core" in said
    process.send_signal(signal.SIGINT)
    assert sandbox.end(process).code == 130
    assert_landed(sandbox, sandbox.run(env=cluster.environment()))


@pytest.mark.parametrize("cluster", [Standalone], indirect=True)
def test_python_of_a_driver_that_is_killed_takes_its_java_with_it(sandbox: Sandbox, cluster: OfDrivers) -> None:
    process = reading(sandbox, cluster)
    (python,) = (child for child in cluster.drivers()[0].children() if "-c" in child.cmdline())
    python.kill()
    assert sandbox.end(process).code == 3
    wait_for(lambda: not cluster.drivers() + cluster.executors())
    assert list(cluster.home.rglob("kafka-lake-called-*")), "its files are where the cluster clears them"
    assert_landed(sandbox, sandbox.run(env=cluster.environment()))
