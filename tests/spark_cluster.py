"""A standalone Spark cluster of real processes: a master and its workers, on this machine or on hosts of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from airflow_kafka_lake.local.processes import free_ports, wait_until
from tests.hosts import HERE, Host

WAIT_SECONDS = 120
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_STRANGER = """
import time
from pyspark import SparkContext
SparkContext()
time.sleep(600)
"""


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until something holds."""
    wait_until(lambda: bool(condition()), timeout=WAIT_SECONDS, failed=AssertionError, every=0.2)


class Cluster:
    """A master on the first host and a worker of one core on each other; `settings` are those of all of them."""

    def __init__(self, home: Path, hosts: Sequence[Host], settings: Mapping[str, str]) -> None:
        import pyspark

        self._home = home
        self._spark = Path(pyspark.__file__).parent
        self._at, *self._hosts = hosts
        self._port, self._ui = free_ports(2)
        self._settings = settings
        self.master = f"spark://{self._at.address}:{self._port}"
        self.page = f"http://{self._at.address}:{self._ui}"
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start all, and wait until every worker is known."""
        settings = {"spark.master.rest.enabled": "false", **self._settings}
        defaults = "".join(f"{key} {value}\n" for key, value in settings.items())
        (self._home / "spark-defaults.conf").write_text(defaults)
        self.start_master()
        for number in range(len(self._hosts)):
            self.start_worker(number)
        wait_for(lambda: self._alive_workers() == len(self._hosts))

    def start_master(self) -> None:
        """Start the master, or start it again under its address."""
        self._daemon("master", self._at, "master.Master", "--port", str(self._port), ui=self._ui)
        wait_for(lambda: self._listing() is not None)

    def start_worker(self, number: int) -> None:
        """Start a worker, or start it again."""
        room = ("--cores", "1", "--memory", "2g", "--work-dir", str(self._work(number)))
        self._daemon(f"worker-{number}", self._hosts[number], "worker.Worker", *room, self.master)

    def wait_for_workers(self, count: int) -> None:
        """Wait until the master knows so many workers that live."""
        wait_for(lambda: self._alive_workers() == count)

    def kill(self, name: str) -> None:
        """Kill the master, or a worker with its executors, as their host's end does."""
        process = self._started.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """End everything that was started here."""
        for name in reversed(list(self._started)):
            self.kill(name)

    @property
    def pids(self) -> list[int]:
        """The processes of the master and the workers."""
        return [process.pid for process in self._started.values()]

    def applications(self) -> list[str]:
        """Return the names of the applications that run or wait."""
        return sorted(item["name"] for item in (self._listing() or {}).get("activeapps", ()))

    def readers(self) -> dict[str, set[str]]:
        """Return the executors that each worker has started and that have begun a task, by application.

        An executor is given the jars of its application with its first task.
        """
        found: dict[str, set[str]] = {}
        for number in range(len(self._hosts)):
            executors = {jar.parent for jar in self._work(number).glob("app-*/*/kafka-lake-*.jar")}
            found[f"worker-{number}"] = {f"{item.parent.name}/{item.name}" for item in executors}
        return found

    def busy(self) -> list[str]:
        """Return the workers whose executors have begun a task."""
        return [name for name, executors in self.readers().items() if executors]

    def given_jars(self) -> dict[str, set[str]]:
        """Return the names of the jars that the executors of each application were given."""
        found: dict[str, set[str]] = {}
        for path in self._home.glob("work-*/app-*/*/*.jar"):
            found.setdefault(path.parent.parent.name, set()).add(path.name)
        return found

    def executors(self) -> list[psutil.Process]:
        """Return the executors that run."""
        return self._processes("CoarseGrainedExecutorBackend")

    def drivers(self) -> list[psutil.Process]:
        """Return the drivers of deploy mode cluster that run."""
        return self._processes("DriverWrapper")

    def _processes(self, word: str) -> list[psutil.Process]:
        found = (psutil.Process(item.pid).children(recursive=True) for item in self._started.values())
        return [each for its in found for each in its if _names(each, word)]

    def executors_started(self) -> int:
        """Return how many executors there have been."""
        return len(list(self._home.glob("work-*/app-*/*")))

    def connection(self, cores: int = 1, driver: str = HERE.address, **extra: str) -> str:
        """Return the Airflow connection to this cluster; a job takes so many cores. Its driver is at an address, or on
        the cluster."""
        conf = {
            "spark.master.ui.port": str(self._ui),
            "spark.cores.max": str(cores),
            "spark.executor.memory": "512m",
            "spark.driver.memory": "768m",
            "spark.driver.host": driver,
            "spark.driver.extraJavaOptions": QUICK,
            "spark.executor.extraJavaOptions": QUICK,
        }
        if extra.get("deploy-mode") == "cluster":
            del conf["spark.driver.host"]
        return json.dumps({"conn_type": "spark", "host": self.master, "extra": {**extra, "conf": conf}})

    def submit_stranger(self, name: str, memory: str) -> None:
        """Start another application, which takes every core that is free where its executors have so much memory."""
        script = self._home / "stranger.py"
        script.write_text(_STRANGER)
        settings = (f"spark.executor.memory={memory}", "spark.driver.host=127.0.0.1", "spark.ui.enabled=false")
        words = [word for setting in settings for word in ("--conf", setting)]
        words += ["--driver-java-options", QUICK]
        self._start(name, HERE, "bin/spark-submit", "--master", self.master, "--name", name, *words, str(script))
        wait_for(lambda: name in self.applications())

    def _work(self, number: int) -> Path:
        return self._home / f"work-{number}"

    def _daemon(self, name: str, host: Host, kind: str, *words: str, ui: int | None = None) -> None:
        (port,) = free_ports(1)
        where = ("--host", host.address, "--webui-port", str(ui or port))
        self._start(name, host, "bin/spark-class", f"org.apache.spark.deploy.{kind}", *where, *words)

    def _start(self, name: str, host: Host, program: str, *words: str) -> None:
        environment: Mapping[str, str] = {
            **os.environ,
            "SPARK_HOME": str(self._spark),
            "SPARK_CONF_DIR": str(self._home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
            "PYSPARK_PYTHON": sys.executable,
        }
        with (self._home / f"{name}.log").open("ab") as log:
            self._started[name] = subprocess.Popen(
                [*host.before, str(self._spark / program), *words],
                env=environment,
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _alive_workers(self) -> int:
        return int((self._listing() or {}).get("aliveworkers", 0))

    def _listing(self) -> dict | None:  # type: ignore[type-arg]
        try:
            with urllib.request.urlopen(f"{self.page}/json/", timeout=5) as answer:
                return json.load(answer)  # type: ignore[no-any-return]
        except OSError:
            return None


def _names(process: psutil.Process, word: str) -> bool:
    """Return whether the command line of a process that has not ended has a word."""
    with suppress(psutil.NoSuchProcess):
        return any(word in item for item in process.cmdline())
    return False
