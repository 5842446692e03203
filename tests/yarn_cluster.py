"""YARN: Hadoop's mini cluster, a real ResourceManager and a real NodeManager in a process of this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from airflow_kafka_lake.adapters.java import require_java, spark_home
from tests.kit.fetched_jars import fetched
from tests.spark_cluster import QUICK, wait_for

_JARS, _PROGRAM = Path(__file__).with_name("yarn-cluster.txt"), Path(__file__).with_name("MiniYarn.java")
_CHECKS = ("vmem-check-enabled", "pmem-check-enabled", "disk-health-checker.enable")
_SETTINGS = {
    **{f"yarn.nodemanager.{name}": "false" for name in _CHECKS},
    "yarn.nodemanager.delete.debug-delay-sec": "600",
    "yarn.scheduler.minimum-allocation-mb": "64",
}
"""What containers leave stays for the tests; a machine without much room is one that works."""
_QUEUES = {"queues": "default", "default.capacity": "100"}
_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--add-opens=java.base/java.lang=ALL-UNNAMED")


class Yarn:
    """A cluster of one node. Its queue starts a second application when the first one has ended."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.conf = home / "conf"
        """What `HADOOP_CONF_DIR` names."""
        self.staging = home / "staging"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        given = self.home / "given"
        for folder in (self.home, given, self.conf, self.staging):
            folder.mkdir()
        _write(given / "yarn-site.xml", _SETTINGS)
        queues = {f"yarn.scheduler.capacity.root.{name}": value for name, value in _QUEUES.items()}
        _write(given / "capacity-scheduler.xml", queues)
        places = [given, *fetched(_JARS), *sorted((spark_home() / "jars").glob("*.jar"))]
        words = [require_java(), *_JVM, f"-Dtest.build.data={self.home}/data", f"-Djava.io.tmpdir={self.home}"]
        words += ["-cp", ":".join(map(str, places)), _PROGRAM, self.conf]
        java = {"JAVA_HOME": str(require_java().resolve().parents[1])}
        with (self.home / "log").open("wb") as log:
            self._process = subprocess.Popen(
                list(map(str, words)), env=os.environ | java, cwd=self.home, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        wait_for(lambda: self._process is None or self._process.poll() is not None or self._has_begun())
        assert self._has_begun(), (self.home / "log").read_text()[-3000:]

    def stop(self) -> None:
        """Kill the cluster and all that it runs."""
        if self._process is not None:
            containers = self.containers()
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            for container in containers:
                with suppress(psutil.NoSuchProcess):
                    container.kill()
            self._process = None

    def environment(self, executors: int = 1, **conf: str) -> dict[str, str]:
        """Return the environment of a command that uses the cluster."""
        given = {
            "spark.yarn.jars": f"local:{spark_home()}/jars/*",
            "spark.yarn.stagingDir": f"file://{self.staging}",
            "spark.executor.instances": str(executors),
            "spark.executor.heartbeatInterval": "1s",
            "spark.executor.memory": "512m",
            "spark.driver.memory": "768m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": QUICK,
            "spark.executor.extraJavaOptions": QUICK,
            "spark.yarn.am.extraJavaOptions": QUICK,
            **conf,
        }
        connection = {"conn_type": "spark", "host": "yarn", "extra": {"queue": "default", "conf": given}}
        return {"HADOOP_CONF_DIR": str(self.conf), "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection)}

    def containers(self, kind: str = "") -> list[psutil.Process]:
        """Return the Java processes of containers whose command line has a word."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                shown = process.cmdline()
                if shown and shown[0].endswith("java") and any(str(self.home / "data") in word for word in shown):
                    found += [process] if kind in " ".join(shown) and process.pid != self._pid else []
        return found

    def executors(self) -> list[psutil.Process]:
        """Return the executors that run."""
        return self.containers("YarnCoarseGrainedExecutorBackend")

    def executors_started(self) -> int:
        """Return how many executors there have been."""
        scripts = self.home.glob("data/**/*-logDir-*/**/launch_container.sh")
        return sum("YarnCoarseGrainedExecutorBackend" in script.read_text() for script in scripts)

    def applications(self) -> dict[str, str]:
        """Return the state of each application that there has been, by its name."""
        lines = (self.conf / "applications").read_text().splitlines()
        return {name: state for state, _, name in (line.partition(" ") for line in lines)}

    @property
    def _pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    def _has_begun(self) -> bool:
        return (self.conf / "applications").exists()


def _write(file: Path, settings: Mapping[str, str]) -> None:
    rows = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>\n" for key, value in settings.items()
    )
    file.write_text(f"<configuration>\n{rows}</configuration>\n")
