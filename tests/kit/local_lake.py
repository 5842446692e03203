"""A lake of another make on free ports of 127.0.0.1: S3, Iceberg's REST catalog and OAuth of one program, SeaweedFS."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from airflow_kafka_lake.local.processes import LocalServer, free_ports

_START_SECONDS = 60
_STOP_SECONDS = 30
KEY, SECRET = "lake-key", "lake-secret-5b1c"
"""The login of S3 and of the catalog alike."""

WAREHOUSE = "warehouse"
_PORTS = (
    "s3.port", "s3.port.iceberg", "s3.port.grpc", "master.port", "master.port.grpc", "volume.port", "volume.port.grpc",
    "filer.port", "filer.port.grpc", "admin.port", "admin.port.grpc",
)  # fmt: skip


class LocalLake(LocalServer):
    """A store and a catalog that live as long as the `with` block; nothing of them stays behind.

    `uri` is the catalog's address, `endpoint` the store's; `options` are further options of `weed mini`.
    """

    def __init__(self, *options: str) -> None:
        self._options = options
        self._ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
        self.folder = Path(tempfile.mkdtemp(prefix="kafka-lake-seaweed-"))
        super().__init__(
            "SeaweedFS",
            self.uri,
            server_log=self.folder / "server.log",
            folders=[self.folder],
            stop_seconds=_STOP_SECONDS,
        )

    @property
    def uri(self) -> str:
        """The address of the REST catalog."""
        return f"http://127.0.0.1:{self._ports['s3.port.iceberg']}"

    @property
    def endpoint(self) -> str:
        """The address of the store."""
        return f"http://127.0.0.1:{self._ports['s3.port']}"

    def extra(self, **further: Any) -> dict[str, Any]:
        """Return the extra of a lake connection, without its secrets but those of the store."""
        return {
            "catalog": "rest",
            "uri": self.uri,
            "warehouse": f"s3://{WAREHOUSE}",
            "oauth2-server-uri": f"{self.uri}/v1/oauth/tokens",
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
            "s3.path-style-access": "true",
            "client.region": "us-east-1",
            **further,
        }

    def connection(self, **further: Any) -> dict[str, Any]:
        """Return a lake connection that works, as JSON values."""
        return {"conn_type": "lake", "login": KEY, "password": SECRET, "extra": self.extra(**further)}

    def start(self) -> Self:
        """Start, or start again on the same data and ports; returns when catalog and store answer."""
        ports = [f"-{name}={port}" for name, port in self._ports.items()]
        self.launch(
            [*self._command(), *ports, *self._options],
            env=os.environ | {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET},
            cwd=self.folder,
            answers=lambda: _answers(f"{self.uri}/v1/config?warehouse=s3://{WAREHOUSE}") and _answers(self.endpoint),
            timeout=_START_SECONDS,
        )
        return self

    def stop(self) -> None:
        """Shut down in order and keep the data, for `start()`; does nothing when stopped."""
        self.end(signal.SIGTERM)

    def _command(self) -> Sequence[str]:
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        beside = Path(sys.executable).with_name("weed")
        program = str(beside) if beside.exists() else shutil.which("weed") or "weed"
        return [
            *(program, "mini", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-admin.ui=false"),
            *("-webdav=false", "-s3.port.lance=0", f"-tableBucket={WAREHOUSE}", "-bucket=lake"),
        ]


def _answers(address: str) -> bool:
    """Return whether a server answers at all: a refusal of a caller without a login is an answer."""
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except urllib.error.HTTPError as error:
        error.close()
        return error.code < 500
    except OSError:
        return False
