"""A real single-node Kafka (KRaft) from the pinned jars, on free ports of 127.0.0.1."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from airflow_kafka_lake.adapters.jars.cache import JarSet, fetch, pinned
from airflow_kafka_lake.adapters.java import require_java
from airflow_kafka_lake.local.processes import LocalServer, LocalServerError, free_ports

_READY_LINE = b"Kafka Server started"
_START_SECONDS = 60
_STOP_SECONDS = 30
_TOOL_SECONDS = 120
_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class LocalKafka(LocalServer):
    """A broker that lives as long as the `with` block: `bootstrap` is its address, nothing of it stays behind.

    `settings` override or extend server.properties, `java` are options of its Java; `listeners` adds listeners by
    name and security protocol (their address is `address(name)`). With a `data_dir` of the caller's the data stay;
    otherwise they are temporary.
    """

    def __init__(
        self,
        *,
        settings: Mapping[str, str] | None = None,
        listeners: Mapping[str, str] | None = None,
        data_dir: Path | None = None,
        heap: str = "512m",
        java: Sequence[str] = (),
    ) -> None:
        self.settings = dict(settings or {})
        self._protocols = {"PLAINTEXT": "PLAINTEXT", **(listeners or {}), "CONTROLLER": "PLAINTEXT"}
        self._ports = dict(zip(self._protocols, free_ports(len(self._protocols)), strict=True))
        self._temporary = data_dir is None
        self.data_dir = data_dir or Path(tempfile.mkdtemp(prefix="kafka-lake-broker-"))
        self._options = (f"-Xmx{heap}", *java)
        super().__init__(
            "Kafka",
            self.bootstrap,
            server_log=self.data_dir / "server.log",
            folders=[self.data_dir] if self._temporary else [],
            stop_seconds=_STOP_SECONDS,
        )

    @property
    def bootstrap(self) -> str:
        return self.address("PLAINTEXT")

    @property
    def version(self) -> str:
        return next(jar.version for jar in pinned(JarSet.KAFKA_BROKER) if jar.artifact == "kafka_2.13")

    @property
    def log_dir(self) -> Path:
        """Where the broker keeps a folder `<topic>-<partition>` for each partition."""
        return self.data_dir / "data"

    def address(self, listener: str) -> str:
        """Return `127.0.0.1:<port>` of a listener by its name; the same over restarts."""
        return f"127.0.0.1:{self._ports[listener]}"

    def start(self) -> Self:
        """Start, or start again on the same data and ports; returns when the broker answers (about 3 s).

        Raises LocalServerError with the end of the broker's log when it does not start.
        """
        fetch(JarSet.KAFKA_BROKER)
        self.data_dir.mkdir(parents=True, exist_ok=True)
        properties = self._write_properties()
        if not (self.log_dir / "meta.properties").exists():
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            self.tool("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(properties))
        read_from = self.server_log.stat().st_size if self.server_log.exists() else 0
        self.launch(
            self._java(*self._options, *_JVM, "kafka.Kafka", str(properties)),
            env=_environment(),
            cwd=self.data_dir,
            answers=lambda: _READY_LINE in self.server_log.read_bytes()[read_from:],
            timeout=_START_SECONDS,
        )
        return self

    def stop(self) -> None:
        """Shut down in order (SIGTERM) and keep the data, for `start()`; does nothing when stopped."""
        self.end(signal.SIGTERM)

    def close(self) -> None:
        """End the broker; temporary data go with it. Safe to repeat."""
        if not self._temporary:
            self.stop()
        super().close()

    def tool(self, main_class: str, *arguments: str, java: Sequence[str] = ()) -> str:
        """Return the output of a Kafka tool (`kafka.tools.DumpLogSegments`, …). Raises LocalServerError."""
        words = ["-Xmx256m", *_JVM, *java, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", main_class, *arguments]
        answer = subprocess.run(
            self._java(*words),
            capture_output=True, text=True, env=_environment(), cwd=self.data_dir, timeout=_TOOL_SECONDS, check=False,
        )  # fmt: skip
        if answer.returncode != 0:
            output = (answer.stdout + answer.stderr).strip()[-2000:]
            raise LocalServerError(f"Kafka's tool {main_class} ended with {answer.returncode}:\n{output}")
        return answer.stdout

    def _java(self, *arguments: str) -> Sequence[str]:
        jars = fetch(JarSet.KAFKA_BROKER)
        # The codecs unpack native libraries into the temporary folder, and a killed broker would leave them there.
        temporary = f"-Djava.io.tmpdir={self.data_dir}"
        return [str(require_java()), "-cp", f"{jars[0].parent}/*", temporary, "-XX:-UsePerfData", *arguments]

    def _write_properties(self) -> Path:
        path = self.data_dir / "server.properties"
        # The caller's settings may hold SASL secrets.
        path.touch(mode=0o600)
        path.write_text("".join(f"{key}={value}\n" for key, value in self._properties().items()), encoding="utf-8")
        return path

    def _properties(self) -> dict[str, str]:
        addresses = {name: f"{name}://{self.address(name)}" for name in self._ports}
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{self.address('CONTROLLER')}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listeners": ",".join(addresses.values()),
            "advertised.listeners": ",".join(text for name, text in addresses.items() if name != "CONTROLLER"),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in self._protocols.items()),
            "log.dirs": str(self.log_dir),
            **_ONE_SMALL_NODE,
            **self.settings,
        }


_ONE_SMALL_NODE = {
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    # After kill() the controller waits this long before it accepts the new broker under the old id (9 s by default).
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "num.network.threads": "2",
    "num.io.threads": "4",
    # The default of 128 MiB would take a quarter of the heap.
    "log.cleaner.dedupe.buffer.size": "16777216",
}


def _environment() -> dict[str, str]:
    """Return the environment without variables that would change the broker's Java or hold Airflow's secrets."""
    return {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("AIRFLOW", "KAFKA_")) and key not in ("CLASSPATH", "JDK_JAVA_OPTIONS", "JAVA_OPTS")
    }
