"""A Spark standalone cluster: parts of it die, or all are busy, in mid-wave, and each record lands once."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest

from tests.faults.test_kills import WAIT_SECONDS, _driver_of
from tests.hosts import HERE
from tests.sandbox import Ended, Sandbox
from tests.spark_cluster import Cluster, wait_for

pytestmark = [pytest.mark.faults, pytest.mark.nightly]

TWO_TASKS = {"records": 80, "size": 900_000, "dense": True}
"""What two tasks read, seconds long with the words of `SLOWLY`."""
SLOWLY = ("--bytes-per-second", "8 MB")


@pytest.fixture
def clusters(service: None, tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """A function that starts a cluster of so many workers."""
    home = tmp_path / "cluster"
    home.mkdir()
    made: list[Cluster] = []

    def start(workers: int = 2, **settings: str) -> Cluster:
        made.append(Cluster(home, [HERE] * (1 + workers), settings))
        made[0].start()
        return made[0]

    yield start
    for cluster in made:
        cluster.stop()


@pytest.fixture
def cluster(clusters: Callable[..., Cluster]) -> Cluster:
    """A cluster of one worker."""
    return clusters(1)


def spark(cluster: Cluster, cores: int = 1) -> dict[str, str]:
    """Return the connection to a cluster in the environment of a command."""
    return {"AIRFLOW_CONN_SPARK_DEFAULT": cluster.connection(cores)}


def reading_on_two(sandbox: Sandbox, cluster: Cluster) -> subprocess.Popen[str]:
    """Return a run whose wave is being read by an executor on each worker."""
    sandbox.produce(**TWO_TASKS)
    process = sandbox.start("run", str(sandbox.file), *SLOWLY, "--json", env=spark(cluster, 2))
    wait_for(lambda: process.poll() is not None or len(cluster.busy()) == 2)
    assert process.poll() is None, process.communicate()
    return process


def assert_landed(sandbox: Sandbox, done: Ended) -> None:
    """A run has brought all records into the table in one commit, and both audits find nothing."""
    assert (done.code, done.document["rows"]) == (0, len(sandbox.acknowledged)), done.err
    sandbox.assert_exact()
    assert len(sandbox.publishes()) == 1
    audit = sandbox.command("audit", sandbox.name, "--json")
    assert audit.code == 0, audit.err


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


def test_worker_that_dies_in_mid_read_loses_and_doubles_nothing(
    sandbox: Sandbox, clusters: Callable[..., Cluster]
) -> None:
    """It takes an executor with it: the other one reads the rest, in the same attempt, and compares every value."""
    cluster = clusters()
    process = reading_on_two(sandbox, cluster)
    cluster.kill("worker-1")
    assert_landed(sandbox, sandbox.end(process))
    deep = sandbox.command("audit", sandbox.name, "--deep", "--json", env=spark(cluster))
    assert deep.code == 0, deep.err
    assert sum(stream["rows"] for stream in deep.document["streams"]) == len(sandbox.acknowledged)
    assert len(cluster.given_jars()) == 2
    wait_for(lambda: not cluster.applications())


def test_master_that_dies_in_mid_read_and_comes_back_stops_no_job(
    sandbox: Sandbox, clusters: Callable[..., Cluster], tmp_path: Path
) -> None:
    """Driver and executors have each other meanwhile, and it knows them from its recovery directory."""
    memory = {"spark.deploy.recoveryMode": "FILESYSTEM", "spark.deploy.recoveryDirectory": str(tmp_path)}
    cluster = clusters(**memory)
    process = reading_on_two(sandbox, cluster)
    cluster.kill("master")
    cluster.start_master()
    cluster.wait_for_workers(2)
    assert_landed(sandbox, sandbox.end(process))


def test_master_that_comes_back_without_memory_takes_the_executors_and_the_next_run_lands_it(
    sandbox: Sandbox, clusters: Callable[..., Cluster]
) -> None:
    """It has those of an application ended that it does not know. The driver waits for others in vain, until a person,
    or the connection's quiet time, ends it."""
    cluster = clusters()
    process = reading_on_two(sandbox, cluster)
    cluster.kill("master")
    cluster.start_master()
    cluster.wait_for_workers(2)
    wait_for(lambda: not cluster.executors())
    assert cluster.applications() == []
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert sandbox.end(process).code == 130
    assert_landed(sandbox, sandbox.run(env=spark(cluster, 2)))


def test_cluster_without_a_free_core_is_waited_for_and_told(sandbox: Sandbox, clusters: Callable[..., Cluster]) -> None:
    """Another application has all cores; when it ends, the wave is read."""
    cluster = clusters()
    cluster.submit_stranger("report", "512m")
    wait_for(lambda: cluster.executors_started() == 2)
    sandbox.produce(100)
    process = sandbox.start("run", str(sandbox.file), env=spark(cluster))
    assert process.stderr is not None
    said = next(line for line in process.stderr if "no executor" in line or "landed" in line)
    assert "reading, nothing counted yet" in said
    assert "no executor of the cluster works for it" in said
    cluster.kill("report")
    assert sandbox.end(process).code == 0
    sandbox.assert_exact()


def test_executor_that_is_larger_than_any_worker_is_told_with_both_sizes(sandbox: Sandbox, cluster: Cluster) -> None:
    sandbox.produce(100)
    env = json.loads(spark(cluster)["AIRFLOW_CONN_SPARK_DEFAULT"])
    env["extra"]["conf"]["spark.executor.memory"] = "8g"
    process = sandbox.start("run", str(sandbox.file), env={"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(env)})
    assert process.stderr is not None
    said = next(line for line in process.stderr if "no worker has" in line or "landed" in line)
    assert "no worker has 8 GiB and 1 core free for an executor; at most they have 2 GiB and 1 core" in said
    process.send_signal(signal.SIGINT)
    assert sandbox.end(process).code == 130
    assert_landed(sandbox, sandbox.run(env=spark(cluster)))


def test_a_retry_on_another_host_ends_the_driver_that_its_wave_left_on_the_cluster(
    sandbox: Sandbox, cluster: Cluster
) -> None:
    """The worker is killed, its driver hangs and keeps its core: the retry ends that application, and no other."""
    cluster.submit_stranger("report", "4g")
    sandbox.produce(100)
    process = sandbox.start("run", str(sandbox.file), "--json", env=spark(cluster))
    driver = _driver_of(process)
    wait_for(lambda: len(cluster.applications()) == 2)
    driver.suspend()
    with continued(driver):
        process.kill()
        process.communicate(timeout=30)
        (forgotten,) = set(cluster.applications()) - {"report"}
        assert forgotten.startswith(f"kafka-lake {sandbox.name} ")
        _its_host_is_gone(sandbox)
        again = sandbox.run(env=spark(cluster))
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
    process = sandbox.start(*words, env=spark(cluster))
    wait_for(lambda: process.poll() is not None or cluster.busy())
    (executor,) = cluster.executors()
    executor.kill()
    assert_landed(sandbox, sandbox.end(process))
    assert cluster.executors_started() > 1


def test_executors_of_a_cluster_read_with_shared_consumers(sandbox: Sandbox, cluster: Cluster) -> None:
    """Every wave of a run is read by the class that its submit brings, and every record comes once."""
    sandbox.write_pipeline(sizes='target_range_bytes = "64 KiB"\nmax_wave_bytes = "64 KiB"')
    sandbox.produce(200, size=1000)
    done = sandbox.run(env=spark(cluster))
    assert (done.code, len(done.document["waves"]) > 1) == (0, True), done.err
    sandbox.assert_exact()
    given = cluster.given_jars()
    assert given
    assert all(any(name.startswith("kafka-lake-") for name in names) for names in given.values()), given
