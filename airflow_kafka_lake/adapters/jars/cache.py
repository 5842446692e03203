"""The pinned jars of Spark and of the local servers: fetched once by the Ivy of PySpark, verified before each use.

Ivy comes with PySpark, so that fetching needs no tool of its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cache as remembered
from importlib import resources
from pathlib import Path
from xml.sax.saxutils import quoteattr

from airflow_kafka_lake.adapters.java import PysparkMissingError, minor, require_java, spark_home, spark_version
from airflow_kafka_lake.adapters.machine import telling
from airflow_kafka_lake.core.amounts import size
from airflow_kafka_lake.core.errors import JarChecksumError, JarsMissingError, UnavailableError, UsageError
from airflow_kafka_lake.core.remedies import fetch_jars

SETTINGS_VARIABLE = "KAFKA_LAKE_IVY_SETTINGS"
_LIMIT_SECONDS, _TOLD_SECONDS = 900, 5.0
_IVY = "kafka-lake-ivy-"
_TELLING = ("unresolved dependency", "not found", "server access error", "unknownhost", "connect", "download failed")


class JarsUnreachableError(UnavailableError):
    """Ivy could not bring every jar: no network, or a repository without some of them."""


def retrieve(jars: Sequence[Jar], folder: Path) -> None:
    """Bring the jars into `folder`, from Ivy's default repositories.

    They are `<group>.<artifact>-<version>[-<classifier>].<extension>` there. `$KAFKA_LAKE_IVY_SETTINGS` may name an
    ivysettings.xml, for a mirror. Raises JarsUnreachableError, PysparkMissingError, or the errors of `require_java`.
    """
    java, ivy = require_java(), max((spark_home() / "jars").glob("ivy-*.jar"))
    with tempfile.TemporaryDirectory(prefix=_IVY, dir=folder.parent, ignore_cleanup_errors=True) as scratch:
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


def _module(jars: Sequence[Jar]) -> str:
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)} "
        f'transitive="false">{_file(jar)}</dependency>'
        for jar in jars
    )
    head = '<info organisation="airflow-kafka-lake" module="jars"/>'
    names = 'version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"'
    return f"<ivy-module {names}>{head}<dependencies>{dependencies}</dependencies></ivy-module>"


def _file(jar: Jar) -> str:
    """Name the file where it is not the module's jar, which may be of the type bundle."""
    if not jar.classifier:
        return ""
    kind = quoteattr(jar.extension)
    return f"<artifact name={quoteattr(jar.artifact)} type={kind} ext={kind} m:classifier={quoteattr(jar.classifier)}/>"


def _reason(output: str) -> str:
    lines = [line.strip(" \t:") for line in output.splitlines()]
    telling = [line for line in lines if any(word in line.lower() for word in _TELLING)]
    return "; ".join(list(dict.fromkeys(telling))[:3]) or "Ivy gave no reason"


# A set lives in a folder named after the digest of its list, so a changed list is another folder. The folder
# appears in one rename after every SHA-256 in it was right: a killed fetch leaves nothing that could be mistaken
# for a result.

CACHE_VARIABLE = "KAFKA_LAKE_CACHE"


class JarSet(StrEnum):
    """A pinned list of jars, `<value>.txt` beside this module."""

    SPARK = "spark"
    S3 = "s3"
    GCS = "gcs"
    AZURE = "azure"
    MSK = "msk"
    KAFKA_BROKER = "kafka-broker"
    SCHEMA_REGISTRY = "schema-registry"


STORES = (JarSet.S3, JarSet.GCS, JarSet.AZURE, JarSet.MSK)
"""The sets that follow Spark's own for a lake in a store, or for a login, of that name; they share a jar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """One pinned jar, or archive of jars, by its Maven coordinates and the SHA-256 (hex) of its bytes."""

    group: str
    artifact: str
    version: str
    sha256: str
    classifier: str = ""
    extension: str = "jar"
    spark: str = ""
    """The minor version of Spark that it is for, where it is for one only."""

    @property
    def file_name(self) -> str:
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.group}.{self.artifact}-{self.version}{classifier}.{self.extension}"


Retrieve = Callable[[list[Jar], Path], None]
"""Bring jars into a folder under their `file_name`; raises when any cannot be had."""


def default_cache() -> Path:
    """Return `$KAFKA_LAKE_CACHE`, else `~/.cache/airflow-kafka-lake`."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named).absolute() if named else Path.home() / ".cache" / "airflow-kafka-lake"


def pinned(jar_set: JarSet) -> tuple[Jar, ...]:
    """Return the set's jars in the order of its list, those for the Spark that is here; without one that the list
    knows, those for the newest."""
    listed, found = _listed(jar_set), ""
    with suppress(PysparkMissingError):
        found = minor(spark_version())
    known = sorted({jar.spark for jar in listed if jar.spark})
    chosen = {"", found} if found in known else {"", *known[-1:]}
    return tuple(jar for jar in listed if jar.spark in chosen)


def fitting_sparks() -> list[str]:
    """Return the versions of Spark that there are jars for, one of each minor version."""
    return [jar.version for jar in _listed(JarSet.SPARK) if jar.artifact.startswith("spark-sql-kafka")]


@remembered
def _listed(jar_set: JarSet) -> tuple[Jar, ...]:
    lines = resources.files(__package__).joinpath(f"{jar_set}.txt").read_text(encoding="utf-8").splitlines()
    return tuple(_parse(line) for line in lines if line.strip() and not line.startswith("#"))


def jars_folder(jar_set: JarSet, cache: Path | None = None) -> Path:
    """Return where the set is or would be; the folder exists only when the set was fetched whole."""
    digest = hashlib.sha256("\n".join(f"{jar.file_name} {jar.sha256}" for jar in pinned(jar_set)).encode()).hexdigest()
    return (cache or default_cache()) / "jars" / f"{jar_set}-{digest[:12]}"


def verified(jar_set: JarSet, *, cache: Path | None = None) -> list[Path]:
    """Return the set's files after comparing every SHA-256, in the order of the list (about 0.1 s).

    Raises JarsMissingError or JarChecksumError; touches no network and starts nothing.
    """
    _verify(jar_set, jars_folder(jar_set, cache))
    return files(jar_set, cache=cache)


def files(jar_set: JarSet, *, cache: Path | None = None) -> list[Path]:
    folder = jars_folder(jar_set, cache)
    return [folder / jar.file_name for jar in pinned(jar_set)]


def fetch(
    jar_set: JarSet,
    *,
    cache: Path | None = None,
    progress: Callable[[str], None] | None = None,
    retrieve: Retrieve = retrieve,
) -> list[Path]:
    """Return the set's verified files, fetching them first when they are missing or damaged.

    Safe to run twice at once and to kill at any moment. Raises JarsUnreachableError (worth repeating),
    JarChecksumError, or the errors of a missing Java or PySpark.
    """
    progress = progress or (lambda _: None)
    with suppress(JarsMissingError, JarChecksumError):
        return verified(jar_set, cache=cache)
    folder = jars_folder(jar_set, cache)
    with _only_one(folder.parent):
        try:
            return verified(jar_set, cache=cache)
        except JarsMissingError:
            progress(f"fetching {len(pinned(jar_set))} jars ({jar_set}) into {folder}")
        except JarChecksumError as damage:
            progress(f"{damage}; fetching the set again")
        _fetch_into(folder, jar_set, retrieve, progress)
    progress(f"{len(pinned(jar_set))} jars ({jar_set}) verified in {folder}")
    return files(jar_set, cache=cache)


def _fetch_into(folder: Path, jar_set: JarSet, retrieve: Retrieve, progress: Callable[[str], None]) -> None:
    for left_by_a_killed_fetch in folder.parent.glob(".fetch-*"):
        shutil.rmtree(left_by_a_killed_fetch, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent, ignore_cleanup_errors=True) as scratch:
        arriving = Path(scratch) / "arriving"
        arriving.mkdir()

        told = 0

        def tell() -> None:
            nonlocal told
            found = {path.name: path.stat().st_size for path in Path(scratch).glob(f"{_IVY}*/cache/*/*/*/*.jar*")}
            if (here := sum(found.values())) > told:  # descriptions come first, and a slow network is no news
                told, whole = here, sum(name.endswith(".jar") for name in found)
                progress(f"{whole} of {len(pinned(jar_set))} jars are here, {size(here)}")

        with telling(_TOLD_SECONDS, tell):
            retrieve(list(pinned(jar_set)), arriving)
        _verify(jar_set, arriving)
        if folder.exists():
            folder.rename(Path(scratch) / "damaged")
        arriving.rename(folder)


def _verify(jar_set: JarSet, folder: Path) -> None:
    jars, command = pinned(jar_set), fetch_jars(jar_set if jar_set in STORES else None)
    missing = [jar.file_name for jar in jars if not (folder / jar.file_name).is_file()]
    if missing:
        raise JarsMissingError(
            f"{len(missing)} of {len(jars)} jars are not in {folder} (first: {missing[0]}). Run: {command}",
            folder=str(folder),
            missing=missing,
        )
    for jar in jars:
        with (folder / jar.file_name).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != jar.sha256:
            raise JarChecksumError(
                f"{jar.file_name} in {folder} has SHA-256 {found[:16]}…, and {jar.sha256[:16]}… is pinned: damaged or "
                f"not the published jar. Run: {command} (if it happens again, do not trust the repository)",
                jar=jar.file_name,
                found=found,
                pinned=jar.sha256,
            )


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the kernel frees it when the process dies."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        opened = (folder / ".lock").open("w")
    except OSError as error:
        mend = f"Let this user write there, or name another folder by {CACHE_VARIABLE}"
        raise UsageError(f"{folder} cannot be written: {error.strerror}. {mend}", file=str(folder)) from None
    with opened as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _parse(line: str) -> Jar:
    coordinates, sha256, *of = line.split()
    group, artifact, version, *further = coordinates.split(":")
    named = dict(zip(("classifier", "extension", "spark"), (*(further or ("", "jar")), *of), strict=False))
    return Jar(group=group, artifact=artifact, version=version, sha256=sha256, **named)
