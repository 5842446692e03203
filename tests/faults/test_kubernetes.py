"""Kubernetes, deploy mode client, over a stand-in of its API: each record lands once, whatever becomes of pods."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from airflow_kafka_lake.adapters.spark_submit.driver import LOG_FILE
from tests import canaries
from tests.faults.conftest import PASSWORD, STORE_KEY
from tests.faults.test_standalone import SLOWLY, TWO_TASKS, assert_landed
from tests.kubernetes_cluster import TOKEN, Kubernetes
from tests.sandbox import Sandbox, drivers
from tests.spark_cluster import wait_for

pytestmark = [pytest.mark.faults, pytest.mark.nightly]

SECRETS = (PASSWORD, STORE_KEY, TOKEN)


@pytest.fixture
def clusters(service: None, spark_jars: list[Path], tmp_path: Path) -> Iterator[Callable[..., Kubernetes]]:
    """A function that starts a cluster."""
    home = tmp_path / "cluster"
    home.mkdir()
    with ExitStack() as stack:
        yield lambda **kind: stack.enter_context(Kubernetes(home, **kind))


def spark(cluster: Kubernetes, executors: int = 1, **given: str) -> dict[str, str]:
    """Return the connection to a cluster in the environment of a command."""
    return {"AIRFLOW_CONN_SPARK_DEFAULT": cluster.connection(executors, **given)}


def reading_in_two(sandbox: Sandbox, cluster: Kubernetes) -> subprocess.Popen[str]:
    """Return a run whose wave is being read in two pods."""
    sandbox.produce(**TWO_TASKS)
    process = sandbox.start("run", str(sandbox.file), *SLOWLY, "--json", env=spark(cluster, 2))
    wait_for(lambda: process.poll() is not None or len(cluster.busy()) == 2)
    assert process.poll() is None, process.communicate()
    return process


def shown_and_logged(command: subprocess.Popen[str]) -> str:
    """Return the command lines of a command and its drivers, and the drivers' logs."""
    started = drivers(command.pid)
    shown = [" ".join(item.cmdline()) for item in (psutil.Process(command.pid), *started)]
    return "\n".join(shown + [Path(item.cwd(), LOG_FILE).read_text() for item in started])


def test_wave_is_read_in_pods_and_no_secret_is_told(
    guarded: tuple[Sandbox, dict[str, str]], clusters: Callable[..., Kubernetes]
) -> None:
    """Executors get passwords from the driver alone: none is in a call of the API, a pod's definition, or a file."""
    (sandbox, connections), cluster = guarded, clusters()
    env = connections | spark(cluster, 2, **{"spark.log.level": "INFO"})
    sandbox.produce(12_000, size=500, dense=True)
    words = ("run", str(sandbox.file), "--bytes-per-second", "1 MB", "--json")
    process = sandbox.start(*words, env=env)
    wait_for(lambda: process.poll() is not None or cluster.busy())
    assert process.poll() is None, process.communicate()
    told = shown_and_logged(process)
    assert "KubernetesClusterSchedulerBackend" in told
    done = sandbox.end(process)
    assert_landed(sandbox, done)
    assert cluster.pods() == {}
    calls = b"\n".join((*cluster.bodies, *cluster.pods_told)).decode()
    assert "KubernetesExecutorBackend" in calls
    assert "SPARK_DRIVER_URL" in calls
    said = f"{told}\n{calls}\n{done.out}\n{done.err}"
    assert canaries.found(SECRETS, said, cluster.home, sandbox.home) == []
    deep = sandbox.end(sandbox.start("audit", sandbox.name, "--deep", "--json", env=env))
    assert deep.code == 0, deep.err
    assert sum(stream["rows"] for stream in deep.document["streams"]) == len(sandbox.acknowledged)


def test_pod_that_is_killed_in_mid_read_loses_and_doubles_nothing(
    sandbox: Sandbox, clusters: Callable[..., Kubernetes]
) -> None:
    """Spark asks for another one, and its task is repeated within the same job."""
    cluster = clusters()
    process = reading_in_two(sandbox, cluster)
    cluster.executors()[0].kill()
    assert_landed(sandbox, sandbox.end(process))
    assert cluster.started() == 3


def test_namespace_without_room_is_waited_for_and_told(sandbox: Sandbox, clusters: Callable[..., Kubernetes]) -> None:
    """Its pods stay pending; once there is room, the wave is read."""
    cluster = clusters(full=True)
    sandbox.produce(100)
    process = sandbox.start("run", str(sandbox.file), env=spark(cluster))
    assert process.stderr is not None
    said = next(line for line in process.stderr if "no executor" in line or "landed" in line)
    assert "nothing counted yet" in said
    assert set(cluster.pods().values()) == {"Pending"}
    cluster.make_room()
    assert sandbox.end(process).code == 0
    sandbox.assert_exact()


def test_namespace_that_refuses_pods_is_told_in_its_words(
    sandbox: Sandbox, clusters: Callable[..., Kubernetes]
) -> None:
    """A quota may have room later, so the job waits; the cluster's words say for which right or room."""
    cluster = clusters(forbidden=True)
    sandbox.produce(100)
    process = sandbox.start("run", str(sandbox.file), env=spark(cluster))
    assert process.stderr is not None
    said = next(line for line in process.stderr if "forbidden" in line or "landed" in line)
    assert 'no executor of the cluster works for it: pods is forbidden: User "lake" cannot create' in said
    cluster.forbidden = False
    assert sandbox.end(process).code == 0
    sandbox.assert_exact()


def test_api_that_is_down_ends_the_run_in_words_worth_repeating(sandbox: Sandbox, tmp_path: Path) -> None:
    with Kubernetes(tmp_path) as cluster:
        env = spark(cluster)
    sandbox.produce(100)
    done = sandbox.run(env=env)
    assert (done.code, done.document["problems"][0]["reason"]) == (3, "master-unreachable"), done.err
    assert "Spark does not reach its master" in done.err
    check = sandbox.command("check", str(sandbox.file), env=env)
    assert f"The Spark master k8s://{cluster.base} takes no connection" in check.out + check.err


def test_token_that_the_api_refuses_ends_the_run_and_is_no_use_to_repeat(
    sandbox: Sandbox, clusters: Callable[..., Kubernetes]
) -> None:
    cluster = clusters()
    sandbox.produce(100)
    done = sandbox.run(env=spark(cluster, token="canary-of-another"))
    assert (done.code, done.document["problems"][0]["reason"]) == (1, "cluster-refuses"), done.err
    assert "canary" not in done.err + done.out


def test_killed_worker_leaves_no_process_and_the_next_run_lands_its_wave(
    sandbox: Sandbox, clusters: Callable[..., Kubernetes]
) -> None:
    """Its driver and the pods end by themselves; the ended pods stay in the namespace's list."""
    cluster = clusters()
    process = reading_in_two(sandbox, cluster)
    (driver,) = drivers(process.pid)
    process.kill()
    process.communicate(timeout=30)
    wait_for(lambda: not driver.is_running() and not cluster.executors())
    assert set(cluster.pods().values()) <= {"Succeeded", "Failed"}
    again = sandbox.run(env=spark(cluster))
    assert_landed(sandbox, again)
