"""Command, master and executors on hosts that share nothing but the files of the lake and a network."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from airflow_kafka_lake.adapters.jars.cache import default_cache
from airflow_kafka_lake.adapters.spark_submit.driver import ADDRESS, WorkerLine, came
from airflow_kafka_lake.adapters.spark_submit.submission import PACKAGE
from airflow_kafka_lake.jobs import caller
from airflow_kafka_lake.jobs.caller import GivenJob
from airflow_kafka_lake.local.kafka import LocalKafka
from tests.faults.test_standalone import SLOWLY, TWO_TASKS, assert_landed
from tests.hosts import Host, Network, can_make_hosts, network
from tests.sandbox import Sandbox
from tests.spark_cluster import Cluster, wait_for
from tests.warm.broker import KEEPS_ALL

pytestmark = [pytest.mark.faults, pytest.mark.nightly]

SECRET, OF_THE_CLUSTER = "canary-of-hosts", "canary-of-the-cluster"
CLOSED = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": OF_THE_CLUSTER,
    "spark.network.crypto.enabled": "true",
}
"""Settings of a cluster whose network others can read, and of the connection to it."""
_ETH_P_ALL = 3


class BridgedKafka(LocalKafka):
    """A broker that listens at an address of a network's bridge."""

    def __init__(self, address: str) -> None:
        self._host = address
        super().__init__(settings=KEEPS_ALL)

    def address(self, listener: str) -> str:
        """Return its address for all hosts."""
        return super().address(listener).replace("127.0.0.1", self._host)


class Place:
    """A sandbox whose commands run on a host of their own, and a cluster of four other hosts; drivers are in `mode`."""

    def __init__(self, folder: Path, bridge: Network, broker: LocalKafka, mode: str) -> None:
        self.mode = mode
        self.home = folder / "cluster"
        self.home.mkdir()
        lake = folder / "place" / "warehouse"
        self.sandbox = Sandbox(folder / "place", broker.bootstrap, catalog=f"sqlite:///{lake}/catalog.db")
        self._bridge, self.bridge = bridge, bridge.name
        nothing_of_ours = [default_cache(), PACKAGE]
        others = [bridge.host(self.home, kept=[self.home, lake], hidden=nothing_of_ours) for _ in range(4)]
        self.cluster = Cluster(self.home, others, CLOSED)

    def new_host(self) -> tuple[Host, dict[str, str]]:
        """Return a host for a command, and the connection with which its driver is reached there."""
        host = self._bridge.host(self.sandbox.home, kept=[self.sandbox.home])
        of_driver = {"deploy-mode": self.mode, ADDRESS: host.address, "spark.hadoop.fs.s3a.secret.key": SECRET}
        given = self.cluster.connection(2, host.address, **CLOSED, **of_driver)
        return host, {"AIRFLOW_CONN_SPARK_DEFAULT": given}

    def close(self) -> None:
        """End all that was started."""
        self.cluster.stop()
        self.sandbox.close()


@pytest.fixture(params=["client", "cluster"])
def place(request: pytest.FixtureRequest, service: None, spark_jars: list[Path], tmp_path: Path) -> Iterator[Place]:
    if not can_make_hosts():
        pytest.skip("only root makes hosts, with ip, unshare, nsenter and hostname")
    with (
        network(tmp_path) as bridge,
        BridgedKafka(bridge.address) as broker,
        closing(Place(tmp_path, bridge, broker, request.param)) as made,
    ):
        made.cluster.start()
        yield made


def _shown(process: psutil.Process) -> bytes:
    """Return the command line of a process, which everybody on its host may read."""
    return Path(f"/proc/{process.pid}/cmdline").read_bytes()


@contextmanager
def heard(bridge: str) -> Iterator[list[bytes]]:
    """Listen to the network of a bridge; yields the packets, which are complete when the block has ended."""
    packets: list[bytes] = []
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL)) as ear:
        ear.bind((bridge, 0))
        ear.settimeout(1)
        ended = threading.Event()

        def listen() -> None:
            while not ended.is_set():
                with suppress(TimeoutError):
                    packets.append(ear.recv(70_000))

        listener = threading.Thread(target=listen)
        listener.start()
        try:
            yield packets
        finally:
            ended.set()
            listener.join()


def test_hosts_that_share_only_the_lake_bring_a_wave_into_it(place: Place) -> None:
    """Executors, and a driver on the cluster, have no file of the command's host; no secret is in what they are called
    with, keep or are sent."""
    sandbox, (host, spark) = place.sandbox, place.new_host()
    sandbox.produce(**TWO_TASKS)
    words = ("run", str(sandbox.file), *SLOWLY, "--json")
    with heard(place.bridge) as packets:
        process = sandbox.start(*words, env=spark, before=host.before)
        wait_for(lambda: process.poll() is not None or len(place.cluster.busy()) == 2)
        executors = place.cluster.executors()
        told = b"".join(map(_shown, executors))
        assert len({Path(f"/proc/{item.pid}/ns/pid").readlink() for item in executors}) == 2
        done = sandbox.end(process)
    assert_landed(sandbox, done)
    assert b"CoarseGrainedExecutorBackend" in told
    files = (file for file in place.home.rglob("*") if file.is_file() and file.name != "spark-defaults.conf")
    kept = b"".join(file.read_bytes() for file in files)
    for secret in (SECRET.encode(), OF_THE_CLUSTER.encode()):
        assert secret not in told + kept
        assert not any(secret in packet for packet in packets)
    assert any(sandbox.topic.encode() in packet for packet in packets)
    deep = sandbox.end(sandbox.start("audit", sandbox.name, "--deep", "--json", env=spark, before=host.before))
    assert deep.code == 0, deep.err


def test_host_of_a_command_that_is_lost_in_mid_read_is_followed_by_another(place: Place) -> None:
    """Command and driver are gone at once. Another host ends what is left of the application, and lands the wave."""
    sandbox, (host, spark) = place.sandbox, place.new_host()
    sandbox.produce(**TWO_TASKS)
    process = sandbox.start("run", str(sandbox.file), *SLOWLY, "--json", env=spark, before=host.before)
    wait_for(lambda: process.poll() is not None or len(place.cluster.busy()) == 2)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    with closing(sqlite3.connect(sandbox.ledger)) as ledger, ledger:
        ledger.execute("UPDATE kafka_lake_wave SET lease_until = '2000-01-01 00:00:00'")
    other, spark = place.new_host()
    again = sandbox.start("run", str(sandbox.file), "--json", env=spark, before=other.before)
    assert_landed(sandbox, sandbox.end(again))
    wait_for(lambda: not place.cluster.applications())


_DRIVER = """
import sys, time
from pathlib import Path
from airflow_kafka_lake.jobs import caller
address, digest, token, folder = sys.argv[1:]
line = caller.reached(address, digest)
line.sendall(f"{token}\\n".encode())
caller.taken(line, Path(folder))
call = caller.Call(line, caller.Files(Path(folder)), 600, lambda: None)
time.sleep(600)
"""


@pytest.mark.skipif(not can_make_hosts(), reason="only root makes hosts, with ip, unshare, nsenter and hostname")
def test_host_of_a_driver_that_is_lost_without_a_word_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing tells the worker but the beats that nobody confirms; a system that was not asked waits 16 minutes."""
    monkeypatch.setattr(caller, "CALL_SECONDS", 5.0)
    package, folders = tmp_path / "package.zip", [tmp_path / "worker", tmp_path / "driver"]
    package.write_bytes(b"a package")
    for folder in folders:
        folder.mkdir()
    given = GivenJob(
        package=package.name,
        jars=[],
        further_jars=[],
        settings={},
        properties={},
        program="stage",
        request={},
        silence_seconds=600,
    )
    with network(tmp_path) as bridge:
        host = bridge.host(tmp_path, kept=[tmp_path])
        line = WorkerLine(folders[0], bridge.address, files=[package], job=given)
        words = (line.address, line.digest, line.token, str(folders[1]))
        driver = subprocess.Popen([*host.before, sys.executable, "-c", _DRIVER, *words], cwd=tmp_path)
        try:
            wait_for((folders[1] / package.name).exists)
            subprocess.run(["ip", "link", "set", f"{bridge.name}v2", "down"], check=True)

            def is_noticed() -> bool:
                line.beat()
                return line.ended_at is not None

            assert came(is_noticed, 30)
        finally:
            driver.kill()
            driver.wait()
    assert line.code is None
