"""What a rival runs on is pinned as what we run on is."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from airflow_kafka_lake.adapters.jars import Jar, JarChecksumError
from bench.connect_jars import ICEBERG_CONNECT, fetched, listed


def test_every_jar_is_pinned_once() -> None:
    """A version, a checksum, and no jar in two versions."""
    jars = listed(ICEBERG_CONNECT)
    assert all(re.fullmatch(r"[0-9a-f]{64}", jar.sha256) for jar in jars)
    names = [(jar.group, jar.artifact) for jar in jars]
    assert len(set(names)) == len(names)
    assert {"iceberg-kafka-connect", "iceberg-parquet", "connect-runtime"} <= {jar.artifact for jar in jars}


def test_other_bytes_are_refused(tmp_path: Path) -> None:
    """Nothing stays behind that a later run could take for the jar."""
    right = hashlib.sha256(b"right").hexdigest()
    file = tmp_path / "some.txt"
    file.write_text(f"# some\na.b:c:1 {right}\na.b:d:1:nohive {right}\n")

    def bringing(content: bytes):
        def retrieve(jars: list[Jar], folder: Path) -> None:
            for jar in jars:
                (folder / jar.file_name).write_bytes(content)

        return retrieve

    with pytest.raises(JarChecksumError, match=r"a\.b\.c-1\.jar"):
        fetched(file, cache=tmp_path, retrieve=bringing(b"wrong"))
    found = fetched(file, cache=tmp_path, retrieve=bringing(b"right"))
    assert [path.name for path in found] == ["a.b.c-1.jar", "a.b.d-1-nohive.jar"]
    found[0].write_bytes(b"changed")
    with pytest.raises(JarChecksumError):
        fetched(file, cache=tmp_path, retrieve=bringing(b"right"))
