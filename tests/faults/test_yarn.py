"""YARN, deploy mode client, on Hadoop's mini cluster: each record lands once, whatever becomes of containers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests import canaries
from tests.faults.conftest import PASSWORD, STORE_KEY
from tests.faults.test_kubernetes import shown_and_logged
from tests.faults.test_standalone import TWO_TASKS, assert_landed
from tests.sandbox import Sandbox, drivers
from tests.spark_cluster import wait_for
from tests.yarn_cluster import Yarn

pytestmark = [pytest.mark.faults, pytest.mark.nightly]


@pytest.fixture
def yarn(service: None, spark_jars: list[Path], tmp_path: Path) -> Iterator[Yarn]:
    """A cluster of one node."""
    cluster = Yarn(tmp_path / "yarn")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def reading_in_two(sandbox: Sandbox, yarn: Yarn) -> subprocess.Popen[str]:
    """Return a run whose wave is being read in two containers."""
    sandbox.produce(**TWO_TASKS)
    rate = ("--bytes-per-second", "2 MB")  # containers may take longer to start than a quick read lasts
    process = sandbox.start("run", str(sandbox.file), *rate, "--json", env=yarn.environment(2))
    sandbox.wait_for_rows(process)
    assert len(yarn.executors()) == 2
    return process


def test_wave_is_read_in_containers_and_kafkas_password_is_not_told(
    guarded: tuple[Sandbox, dict[str, str]], yarn: Yarn
) -> None:
    """Spark writes its settings, with the lake's keys, into files of the application that its user alone can read."""
    sandbox, connections = guarded
    env = connections | yarn.environment(2, **{"spark.log.level": "INFO"})
    sandbox.produce(12_000, size=1000, dense=True)
    process = sandbox.start("run", str(sandbox.file), "--bytes-per-second", "1 MB", "--json", env=env)
    sandbox.wait_for_rows(process)
    told = shown_and_logged(process) + "".join(" ".join(item.cmdline()) for item in yarn.containers())
    assert "YarnCoarseGrainedExecutorBackend" in told
    assert "YarnClientSchedulerBackend" in told
    (staged,) = yarn.staging.rglob("application_*")
    assert staged.stat().st_mode & 0o077 == 0
    done = sandbox.end(process)
    assert_landed(sandbox, done)
    said = f"{told}\n{done.out}\n{done.err}"
    assert canaries.found((PASSWORD,), said, yarn.home, sandbox.home) == []
    assert canaries.found((STORE_KEY,), said, sandbox.home) == []
    kept = [path for path in yarn.home.rglob("*") if path.is_file() and STORE_KEY.encode() in path.read_bytes()]
    assert {path.name for path in kept} == {"__spark_conf__.properties"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)
    deep = sandbox.end(sandbox.start("audit", sandbox.name, "--deep", "--json", env=env))
    assert deep.code == 0, deep.err
    assert sum(stream["rows"] for stream in deep.document["streams"]) == len(sandbox.acknowledged)
    assert set(yarn.applications().values()) == {"FINISHED"}


def test_container_that_is_killed_in_mid_read_loses_and_doubles_nothing(sandbox: Sandbox, yarn: Yarn) -> None:
    """Spark asks for another one, and its task is repeated within the same job."""
    process = reading_in_two(sandbox, yarn)
    yarn.executors()[0].kill()
    assert_landed(sandbox, sandbox.end(process))
    assert yarn.executors_started() == 3


def test_full_queue_is_waited_for_and_told(sandbox: Sandbox, yarn: Yarn, tmp_path: Path) -> None:
    """Another application has it; when that ends, the wave is read."""
    with closing(Sandbox(tmp_path / "other", sandbox.bootstrap)) as other:
        first = reading_in_two(other, yarn)
        driver = drivers(first.pid)[0]
        driver.suspend()
        sandbox.produce(100)
        process = sandbox.start("run", str(sandbox.file), env=yarn.environment())
        assert process.stderr is not None
        said = next(line for line in process.stderr if "no executor" in line or "landed" in line)
        assert "nothing counted yet" in said
        assert sorted(yarn.applications().values()) == ["ACCEPTED", "RUNNING"]
        driver.resume()
        assert_landed(other, other.end(first))
        assert sandbox.end(process).code == 0
        sandbox.assert_exact()


def test_queue_that_is_not_there_ends_the_run_and_is_no_use_to_repeat(sandbox: Sandbox, yarn: Yarn) -> None:
    sandbox.produce(100)
    done = sandbox.run(env=yarn.environment(**{"spark.yarn.queue": "nosuch"}))
    assert (done.code, done.document["problems"][0]["reason"]) == (1, "cluster-refuses"), done.err
    assert "nosuch" in done.out + done.err


def test_resource_manager_that_is_down_is_told_and_ends_the_run_worth_repeating(sandbox: Sandbox, yarn: Yarn) -> None:
    """Hadoop's client looks for it for twenty minutes, unless its settings say how long."""
    yarn.stop()
    sandbox.produce(100)
    patience = {"max-wait.ms": "10000", "retry-interval.ms": "5000"}
    conf = {f"spark.hadoop.yarn.resourcemanager.connect.{name}": value for name, value in patience.items()}
    done = sandbox.run(env=yarn.environment(**conf))
    assert (done.code, done.document["problems"][0]["reason"]) == (3, "master-unreachable"), done.err
    assert "nothing counted yet, 30 s so far: no executor of the cluster works for it" in done.err


def test_killed_worker_leaves_no_container_and_the_next_run_lands_its_wave(sandbox: Sandbox, yarn: Yarn) -> None:
    """Its driver ends by itself, and the application with it."""
    process = reading_in_two(sandbox, yarn)
    process.kill()
    process.communicate(timeout=30)
    wait_for(lambda: not yarn.containers())
    assert_landed(sandbox, sandbox.run(env=yarn.environment()))
    wait_for(lambda: not yarn.containers())
