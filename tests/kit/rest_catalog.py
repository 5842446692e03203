"""Iceberg's own REST catalog for tests, on a free port of 127.0.0.1, over a folder: a server of another make."""

from __future__ import annotations

import os
import tempfile
import urllib.request
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from airflow_kafka_lake.adapters.jars.cache import JarSet, fetch
from airflow_kafka_lake.adapters.java import require_java
from airflow_kafka_lake.local.processes import LocalServer, free_ports
from tests.kit.fetched_jars import fetched

_LIST = Path(__file__).with_name("rest-catalog.txt")
_OF_PYSPARK = (
    *("jackson-core-2", "jackson-annotations", "jackson-databind", "avro-1", "hadoop-client", "slf4j-api"),
    *("RoaringBitmap", "aircompressor", "zstd-jni"),
)
_START_SECONDS = 60
_JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


class RestCatalogServer(LocalServer):
    """A catalog that lives as long as the `with` block: its tables are in a folder, its state in SQLite, no login."""

    login: tuple[str | None, str | None] = (None, None)
    """Password and login of a connection, in the order of `LakeSettings.parse`."""

    def __init__(self) -> None:
        (self._port,) = free_ports(1)
        self.folder = Path(tempfile.mkdtemp(prefix="kafka-lake-rest-"))
        super().__init__(
            "REST catalog",
            self.uri,
            server_log=self.folder / "server.log",
            folders=[self.folder],
            stop_seconds=0,
        )

    @property
    def uri(self) -> str:
        """The address of the catalog."""
        return f"http://127.0.0.1:{self._port}"

    def extra(self, **further: Any) -> dict[str, Any]:
        """Return the extra of a lake connection."""
        return {"catalog": "rest", "uri": self.uri, **further}

    def connection(self) -> dict[str, Any]:
        """Return a lake connection that works, as JSON values."""
        return {"conn_type": "lake", "extra": self.extra()}

    def start(self) -> Self:
        """Start; returns when the catalog answers."""
        sqlite = [path for path in fetch(JarSet.SPARK) if "sqlite-jdbc" in path.name]  # not Iceberg's runtime of Spark
        jars = ":".join(map(str, [*fetched(_LIST), *_beside(), *sqlite]))
        state = {
            "CATALOG_URI": f"jdbc:sqlite:{self.folder}/catalog.db",
            "CATALOG_WAREHOUSE": f"file://{self.folder}/warehouse",
            "CATALOG_REST_PORT": str(self._port),
        }
        self.launch(
            [str(require_java()), *_JVM, "-cp", jars, "org.apache.iceberg.rest.RESTCatalogServer"],
            env=os.environ | state,
            cwd=self.folder,
            answers=self._answers,
            timeout=_START_SECONDS,
        )
        return self

    def _answers(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"{self.uri}/v1/config", timeout=5) as answer:
            return bool(answer.status == 200)
        return False


def _beside() -> list[Path]:
    (package,) = getattr(find_spec("pyspark"), "submodule_search_locations", ())
    return [path for name in _OF_PYSPARK for path in sorted(Path(package, "jars").glob(f"{name}*.jar"))]
