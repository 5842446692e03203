"""Run the Apache Ivy that the PySpark wheel carries, so that fetching jars needs no tool of its own."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol
from xml.sax.saxutils import quoteattr

from airflow_kafka_lake.adapters.java import PysparkMissingError, require_java
from airflow_kafka_lake.core.errors import UnavailableError

SETTINGS_VARIABLE = "KAFKA_LAKE_IVY_SETTINGS"
_LIMIT_SECONDS = 900
_TELLING = ("unresolved dependency", "not found", "server access error", "unknownhost", "connect", "download failed")


class JarsUnreachableError(UnavailableError):
    """Ivy could not bring every jar: no network, or a repository without some of them."""


class Coordinates(Protocol):
    """What Ivy needs to know of a jar."""

    @property
    def group(self) -> str: ...
    @property
    def artifact(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def classifier(self) -> str: ...
    @property
    def extension(self) -> str: ...


def retrieve(jars: Sequence[Coordinates], folder: Path) -> None:
    """Bring the jars into `folder`, from Ivy's default repositories.

    They are `<group>.<artifact>-<version>[-<classifier>].<extension>` there. `$KAFKA_LAKE_IVY_SETTINGS` may name an
    ivysettings.xml, for a mirror. Raises JarsUnreachableError, PysparkMissingError or what `require_java` raises.
    """
    java, ivy = require_java(), _ivy_jar()
    with tempfile.TemporaryDirectory(prefix="kafka-lake-ivy-", ignore_cleanup_errors=True) as scratch:
        module = Path(scratch) / "ivy.xml"
        module.write_text(_module(jars), encoding="utf-8")
        settings = os.environ.get(SETTINGS_VARIABLE)
        command = [java, "-jar", ivy, "-ivy", module, "-cache", Path(scratch) / "cache", "-confs", "default"]
        command += ["-retrieve", f"{folder}/[organisation].[artifact]-[revision](-[classifier]).[ext]"]
        command += ["-types", *sorted({"jar", "bundle"} | {jar.extension for jar in jars})]
        command += ["-settings", settings] if settings else []
        try:
            answer = subprocess.run(
                [str(word) for word in command], capture_output=True, text=True, timeout=_LIMIT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise JarsUnreachableError(f"Fetching jars took over {_LIMIT_SECONDS} s. Repeat it.") from None
    if answer.returncode != 0:
        raise JarsUnreachableError(
            f"{len(jars)} jars could not all be fetched: {_reason(answer.stdout + answer.stderr)}. Check the network "
            f"and repeat; behind a mirror, name its ivysettings.xml in {SETTINGS_VARIABLE}."
        )


def _module(jars: Sequence[Coordinates]) -> str:
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)} "
        f'transitive="false">{_file(jar)}</dependency>'
        for jar in jars
    )
    head = '<info organisation="airflow-kafka-lake" module="jars"/>'
    names = 'version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"'
    return f"<ivy-module {names}>{head}<dependencies>{dependencies}</dependencies></ivy-module>"


def _file(jar: Coordinates) -> str:
    """Name the file where it is not the module's jar, which may be of the type bundle."""
    if not jar.classifier:
        return ""
    kind = quoteattr(jar.extension)
    return f"<artifact name={quoteattr(jar.artifact)} type={kind} ext={kind} m:classifier={quoteattr(jar.classifier)}/>"


def _ivy_jar() -> Path:
    spec = find_spec("pyspark")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = [jar for folder in folders for jar in sorted(Path(folder, "jars").glob("ivy-*.jar"))]
    if not found:
        raise PysparkMissingError(
            "PySpark with its jars is not installed in this environment (pyspark-client alone has none). "
            "Run: pip install 'airflow-kafka-lake[spark]'"
        )
    return found[-1]


def _reason(output: str) -> str:
    lines = [line.strip(" \t:") for line in output.splitlines()]
    telling = [line for line in lines if any(word in line.lower() for word in _TELLING)]
    return "; ".join(list(dict.fromkeys(telling))[:3]) or "Ivy gave no reason"
