"""A lake of another make on free ports of 127.0.0.1: S3, Iceberg's REST catalog and OAuth of one program, SeaweedFS."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

from airflow_kafka_lake.local.processes import LocalServer, LocalServerError, free_ports

_START_SECONDS = 60
_STOP_SECONDS = 30
KEY, SECRET = "lake-key", "lake-secret-5b1c"
"""The login of S3 and of the catalog alike."""

WAREHOUSE = "warehouse"
_PORTS = (
    "s3.port", "s3.port.iceberg", "s3.port.grpc", "master.port", "master.port.grpc", "volume.port", "volume.port.grpc",
    "filer.port", "filer.port.grpc", "admin.port", "admin.port.grpc",
)  # fmt: skip

# Where less than a hundredth of the disk is free, it makes no volume, and each write ends after half a minute with 500.
_FREE_SHARE, _FREE_BYTES = 0.015, 3_000_000_000
_MEMORY = Path("/dev/shm")

_ROLE = "arn:aws:iam::role/Vendor"
_IAM = {
    "sts": {
        "tokenDuration": "1h",
        "maxSessionLength": "12h",
        "issuer": "tests",
        "signingKey": base64.b64encode(b"a key that signs the tests' keys").decode(),
    },
    "policy": {"defaultEffect": "Deny", "storeType": "memory"},
    "policies": [
        {
            "name": "Files",
            "document": {
                "Version": "2012-10-17",
                "Statement": [{"Effect": "Allow", "Action": ["s3:*"], "Resource": ["*"]}],
            },
        }
    ],
    "roles": [
        {
            "roleName": "Vendor",
            "roleArn": _ROLE,
            "attachedPolicies": ["Files"],
            "trustPolicy": {
                "Version": "2012-10-17",
                "Statement": [
                    {
                        "Effect": "Allow",
                        "Principal": {"Federated": "iceberg-catalog"},
                        "Action": ["sts:AssumeRoleWithWebIdentity", "sts:AssumeRoleWithCredentials"],
                    }
                ],
            },
        }
    ],
}


class LocalLake(LocalServer):
    """A store and a catalog that live as long as the `with` block; nothing of them stays behind.

    `uri` is the catalog's address, `endpoint` the store's; `options` are further options of `weed mini`. One that
    `vends` hands out keys for the files of each table.
    """

    def __init__(self, *options: str, vends: bool = False) -> None:
        self._options, self._vends = options, vends
        self._ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
        self.folder = Path(tempfile.mkdtemp(prefix="kafka-lake-seaweed-", dir=_roomy()))
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
            "client.region": "us-east-1",
            **further,
        }

    def vended(self, **further: Any) -> dict[str, Any]:
        """Return a lake connection without any key of the store, which the catalog hands out."""
        connection = self.connection(**further)
        kept = {key: value for key, value in connection["extra"].items() if not key.startswith("s3.")}
        return {**connection, "extra": {**kept, "io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}}

    @property
    def login(self) -> tuple[str, str]:
        """Password and login of a connection, in the order of `LakeSettings.parse`."""
        return SECRET, KEY

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
            answers=lambda: self._has_warehouse() and _status(self.endpoint) not in {0, *range(500, 600)},
            timeout=_START_SECONDS,
        )
        return self

    def stop(self) -> None:
        """Shut down in order and keep the data, for `start()`; does nothing when stopped."""
        self.end(signal.SIGTERM)

    def _has_warehouse(self) -> bool:
        """Return whether the catalog serves its warehouse, which is made after it has begun to answer."""
        login = {"grant_type": "client_credentials", "client_id": KEY, "client_secret": SECRET, "scope": "catalog"}
        token = json.loads(_answer(f"{self.uri}/v1/oauth/tokens", data=urlencode(login).encode()) or "{}")
        bearer = {"Authorization": f"Bearer {token.get('access_token')}"}
        return _status(f"{self.uri}/v1/{WAREHOUSE}/namespaces", bearer) == 200

    def _command(self) -> Sequence[str]:
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        beside = Path(sys.executable).with_name("weed")
        program = str(beside) if beside.exists() else shutil.which("weed") or "weed"
        return [
            *(program, "mini", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-admin.ui=false"),
            *("-webdav=false", "-s3.port.lance=0", f"-tableBucket={WAREHOUSE}", "-bucket=lake"),
            *(self._vending() if self._vends else ()),
        ]

    def _vending(self) -> Sequence[str]:
        """Let the catalog take on a role that may do everything, from which it makes keys for one table."""
        file = self.folder / "iam.json"
        file.write_text(json.dumps(_IAM), encoding="utf-8")
        return f"-s3.iam.config={file}", f"-s3.iceberg.credentialRole={_ROLE}"


def _roomy() -> str:
    """Return the folder for the data: the system's for temporary files, or memory where its disk is full."""
    folders = [folder for folder in (Path(tempfile.gettempdir()), _MEMORY) if folder.is_dir()]
    for folder in folders:
        disk = shutil.disk_usage(folder)
        if disk.free > max(disk.total * _FREE_SHARE, _FREE_BYTES):
            return str(folder)
    places = " or ".join(map(str, folders))
    raise LocalServerError(f"SeaweedFS needs 3 GB and 1.5 % of a disk, which are not free in {places}.")


def _answer(address: str, data: bytes | None = None, headers: Mapping[str, str] | None = None) -> str:
    """Return the text of an answer; an empty one where there is none, or a refusal."""
    with (
        suppress(OSError),
        urllib.request.urlopen(urllib.request.Request(address, data, dict(headers or {})), timeout=5) as answer,
    ):
        text: str = answer.read().decode()
        return text
    return ""


def _status(address: str, headers: Mapping[str, str] | None = None) -> int:
    """Return the status of an answer, 0 where there is none."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=dict(headers or {})), timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return 0
