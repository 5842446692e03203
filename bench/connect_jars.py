"""The jars of a Kafka Connect worker with Iceberg's sink: pinned here, because only the benchmark needs them."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from airflow_kafka_lake.adapters.jars.cache import Jar, JarSet, default_cache, fetch, retrieve
from airflow_kafka_lake.core.errors import JarChecksumError

ICEBERG_CONNECT = Path(__file__).with_name("iceberg-connect.txt")
_OF_SPARK = ("sqlite-jdbc",)
_OF_PYSPARK = (
    "hadoop-client-api-*",
    "hadoop-client-runtime-*",
    "jcl-over-slf4j-*",
    "log4j-api-2*",
    "log4j-core-*",
    "log4j-slf4j2-impl-*",
)
"""Iceberg's files on a local disk, and Parquet's classes, go through Hadoop's client: PySpark brings it, and a log."""

Retrieve = Callable[[Sequence[Jar], Path], None]


def listed(path: Path) -> tuple[Jar, ...]:
    """Return the jars of a list, `group:artifact:version sha256` a line; a fourth part is the classifier."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(_parsed(line) for line in lines if line.strip() and not line.startswith("#"))


def _parsed(line: str) -> Jar:
    coordinates, sha256 = line.split()
    group, artifact, version, *classifier = coordinates.split(":")
    return Jar(group=group, artifact=artifact, version=version, sha256=sha256, classifier="".join(classifier))


def fetched(path: Path, *, cache: Path | None = None, retrieve: Retrieve = retrieve) -> list[Path]:
    """Return the files of a list, each compared with its SHA-256; they are fetched where they are missing."""
    jars = listed(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    folder = (cache or default_cache()) / "jars" / f"bench-{path.stem}-{digest}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".bench-", dir=folder.parent, ignore_cleanup_errors=True) as scratch:
            arriving = Path(scratch) / "arriving"
            arriving.mkdir()
            retrieve(list(jars), arriving)
            _verify(jars, arriving)
            arriving.rename(folder)
    _verify(jars, folder)
    return [folder / jar.file_name for jar in jars]


def _verify(jars: Sequence[Jar], folder: Path) -> None:
    for jar in jars:
        with (folder / jar.file_name).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != jar.sha256:
            raise JarChecksumError(f"{jar.file_name} in {folder} is not the one that is pinned", jar=jar.file_name)


def connect_class_path() -> str:
    """Return the class path of a Connect worker with Iceberg's sink."""
    (pyspark,) = find_spec("pyspark").submodule_search_locations
    theirs = [path for name in _OF_PYSPARK for path in sorted(Path(pyspark, "jars").glob(f"{name}.jar"))]
    spark = [path for path in fetch(JarSet.SPARK) if any(name in path.name for name in _OF_SPARK)]
    return os.pathsep.join(map(str, [*fetched(ICEBERG_CONNECT), *spark, *theirs]))
