"""Jars that only tests need: fetched once into the product's cache, verified each time."""

from __future__ import annotations

import hashlib
from pathlib import Path

from airflow_kafka_lake.adapters.jars.cache import Jar, default_cache, retrieve


def fetched(listing: Path) -> list[Path]:
    """Return the jars of a list, whose lines are `group:artifact:version[:classifier] SHA-256`."""
    jars = []
    for line in listing.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            coordinates, sha256 = line.split()
            group, artifact, version, *classifier = coordinates.split(":")
            named = {"group": group, "artifact": artifact, "version": version, "classifier": "".join(classifier[:1])}
            jars.append(Jar(**named, sha256=sha256))
    folder = default_cache() / "jars" / f"tests-{hashlib.sha256(listing.read_bytes()).hexdigest()[:12]}"
    files = [folder / jar.file_name for jar in jars]
    if not all(file.exists() for file in files):
        folder.mkdir(parents=True, exist_ok=True)
        for is_classified in (False, True):  # Ivy has a module once in a list
            if chosen := [jar for jar in jars if bool(jar.classifier) is is_classified]:
                retrieve(chosen, folder)
    assert [hashlib.sha256(file.read_bytes()).hexdigest() for file in files] == [jar.sha256 for jar in jars]
    return files
