"""A real schema registry (Apicurio, in memory) from the pinned archive, on a free port of 127.0.0.1."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from airflow_kafka_lake.adapters.jars import JarSet, fetch, pinned
from airflow_kafka_lake.adapters.java import require_java
from airflow_kafka_lake.core.decoding import Format
from airflow_kafka_lake.local.processes import Keeper, LocalServer, LocalServerError, free_ports, tail, wait_until

_READY_LINE = "Listening on:"
_START_SECONDS = 90
_ANSWER_SECONDS = 30
_JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


class LocalRegistry(LocalServer):
    """A registry that lives as long as the `with` block: `url` is its address, nothing of it stays behind.

    It speaks Confluent's API, except that it gives Protobuf as it was registered, whatever format is asked for.
    """

    def __init__(self, *, cache: Path | None = None) -> None:
        (self._port,) = free_ports(1)
        self._cache = cache
        self._folder = Path(tempfile.mkdtemp(prefix="kafka-lake-registry-"))
        self._keeper: Keeper | None = None

    @property
    def url(self) -> str:
        """The address of Confluent's API: `http://127.0.0.1:<port>/apis/ccompat/v7`."""
        return f"http://127.0.0.1:{self._port}/apis/ccompat/v7"

    @property
    def connection(self) -> dict[str, Any]:
        """An Airflow connection to it, as the JSON of `AIRFLOW_CONN_…`."""
        return {"conn_type": "http", "host": self.url}

    @property
    def version(self) -> str:
        """The registry's version, as pinned."""
        return pinned(JarSet.SCHEMA_REGISTRY)[0].version

    def start(self) -> Self:
        """Start; returns when the registry answers (about 6 s).

        Raises LocalServerError with the end of the registry's log when it does not start.
        """
        (archive,) = fetch(JarSet.SCHEMA_REGISTRY, cache=self._cache)
        self._keeper = Keeper(remove=[self._folder])
        with tarfile.open(archive) as packed:
            packed.extractall(self._folder, filter="data")
        (runner,) = self._folder.glob("*-runner.jar")
        self._keeper.start(
            [str(require_java()), *_JVM, f"-Djava.io.tmpdir={self._folder}", "-Dquarkus.http.host=127.0.0.1",
             f"-Dquarkus.http.port={self._port}", "-jar", str(runner)],
            log=self._log,
            env=_environment(),
            cwd=self._folder,
        )  # fmt: skip
        wait_until(self._started, timeout=_START_SECONDS, failed=self._not_started)
        return self

    def close(self) -> None:
        """End the registry and remove all of it. Safe to repeat."""
        if self._keeper:
            self._keeper.close()
            self._keeper = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def register(
        self, subject: str, kind: Format | str, text: str, references: Sequence[tuple[str, str, int]] = ()
    ) -> int:
        """Register a schema of a kind (`avro`, `protobuf`, `json`) as its producers do; return its id.

        `references` are `(import name, subject, version)`. Raises LocalServerError with the answer when it is refused.
        """
        named = [{"name": name, "subject": other, "version": number} for name, other, number in references]
        schema = {"schemaType": str(kind).upper(), "schema": text, "references": named}
        return int(self._send("POST", f"subjects/{quote(subject, safe='')}/versions", schema)["id"])

    def delete(self, subject: str, version: int) -> None:
        """Delete a version softly."""
        self._send("DELETE", f"subjects/{quote(subject, safe='')}/versions/{version}", None)

    def _send(self, method: str, path: str, body: Any) -> Any:
        request = urllib.request.Request(  # the address is our own
            f"{self.url}/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        try:
            # What asks for the outside through a proxy must not ask for this machine through it.
            direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with direct.open(request, timeout=_ANSWER_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                said = error.read(2000).decode(errors="replace")
            raise LocalServerError(f"The local schema registry refuses {method} {path}: {said}") from None

    @property
    def _log(self) -> Path:
        return self._folder / "registry.log"

    def _started(self) -> bool:
        assert self._keeper is not None
        if not self._keeper.running():
            raise self._not_started("it ended")
        return self._log.exists() and _READY_LINE in self._log.read_text(encoding="utf-8", errors="replace")

    def _not_started(self, why: str) -> LocalServerError:
        return LocalServerError(
            f"The local schema registry on {self.url} did not start: {why}. The end of its log:\n{tail(self._log)}"
        )


def _environment() -> dict[str, str]:
    """Return this process's environment without what would change the registry or give it Airflow's secrets."""
    return {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("AIRFLOW", "KAFKA_", "QUARKUS_", "REGISTRY_"))
        and key not in {"CLASSPATH", "JDK_JAVA_OPTIONS", "JAVA_OPTS"}
    }
