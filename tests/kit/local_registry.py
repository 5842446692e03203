"""A real schema registry (Apicurio, in memory) from the pinned archive, on a free port of 127.0.0.1."""

from __future__ import annotations

import json
import os
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from airflow_kafka_lake.adapters.jars.cache import JarSet, fetch, pinned
from airflow_kafka_lake.adapters.java import require_java
from airflow_kafka_lake.core.decoding import Format
from airflow_kafka_lake.local.processes import LocalServer, LocalServerError, free_ports

_READY_LINE = b"Listening on:"
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
        super().__init__(
            "schema registry",
            self.url,
            server_log=self._folder / "registry.log",
            folders=[self._folder],
            stop_seconds=0,
        )

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
        with tarfile.open(archive) as packed:
            packed.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)  # Python 3.11.4
            packed.extractall(self._folder)
        (runner,) = self._folder.glob("*-runner.jar")
        self.launch(
            [str(require_java()), *_JVM, f"-Djava.io.tmpdir={self._folder}", "-Dquarkus.http.host=127.0.0.1",
             f"-Dquarkus.http.port={self._port}", "-jar", str(runner)],
            env=_environment(),
            cwd=self._folder,
            answers=lambda: _READY_LINE in self.server_log.read_bytes(),
            timeout=_START_SECONDS,
        )  # fmt: skip
        return self

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
                answer = error.read(2000).decode(errors="replace")
            raise LocalServerError(f"The local schema registry refuses {method} {path}: {answer}") from None


def _environment() -> dict[str, str]:
    """Return this process's environment without what would change the registry or give it Airflow's secrets."""
    return {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("AIRFLOW", "KAFKA_", "QUARKUS_", "REGISTRY_"))
        and key not in {"CLASSPATH", "JDK_JAVA_OPTIONS", "JAVA_OPTS"}
    }
