"""An archive of the driver's classes, ready to be mapped: a driver with it starts in less than half the time.

Java writes it at the end of a job that only loads the classes, and checks it at every start; Java ignores an archive
that does not fit (another Java, other jars). It is in the cache beside the jars, so an image that fetched them has it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from airflow_kafka_lake.adapters.jars import default_cache
from airflow_kafka_lake.adapters.spark_submit.driver import Driver
from airflow_kafka_lake.adapters.spark_submit.failures import tail
from airflow_kafka_lake.adapters.spark_submit.folder import private_folder
from airflow_kafka_lake.adapters.spark_submit.log import FollowedLog
from airflow_kafka_lake.adapters.spark_submit.submission import (
    QUICK_START,
    command,
    environment,
    java_options,
    properties,
    pyspark_home,
    write_files,
)
from airflow_kafka_lake.core.errors import JobFailedError
from airflow_kafka_lake.jobs import load_classes
from airflow_kafka_lake.jobs.formats import CATALOG_CLASS

_MASTER = "local[1]"


def archive_path(jars: Sequence[Path | str], *, java_home: Path | None = None, cache: Path | None = None) -> Path:
    """Return where the archive for this Spark, this Java and these jars is or would be.

    Java maps no archive whose jars have another size or time than those it was made from, so a Spark that was installed
    anew has another archive.
    """
    java = str(java_home) if java_home else os.environ.get("JAVA_HOME") or shutil.which("java") or ""
    place = _digest([str(pyspark_home()), str(Path(java).resolve()), *map(str, jars)])
    files = sorted([*(pyspark_home() / "jars").glob("*.jar"), *map(Path, jars)])
    stats = [(path.name, path.stat()) for path in files if path.exists()]
    state = _digest([f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in stats])
    return (cache or default_cache()) / "classes" / f"spark-{place}-{state}.jsa"


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def make_archive(jars: Sequence[Path], *, java_home: Path | None = None, cache: Path | None = None) -> Path:
    """Return the archive of a job's classes (about 180 MB), made before or now (half a minute).

    Raises JobFailedError when it cannot be made; jobs run without an archive too, but start more slowly.
    """
    target = archive_path(jars, java_home=java_home, cache=cache)
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with private_folder(None) as folder:
        made = folder / target.name
        _load_classes(folder, jars, made, java_home)
        arriving = target.with_name(f".{folder.name}-{target.name}")
        shutil.move(made, arriving)
        arriving.rename(target)
    place = target.stem.rpartition("-")[0]
    for old in target.parent.glob(f"{place}-*.jsa"):
        if old != target:
            old.unlink(missing_ok=True)
    return target


def _load_classes(folder: Path, jars: Sequence[Path], made: Path, java_home: Path | None) -> None:
    settings = properties(master=_MASTER, catalog=_catalog(folder), conf={}, driver_memory="1g", folder=folder)
    options = java_options(folder, [*QUICK_START, f"-XX:ArchiveClassesAtExit={made}"], {})
    write_files(folder, request={}, settings=settings, options=options)
    home = pyspark_home()
    words = command(
        home / "bin" / "spark-submit",
        folder,
        master=_MASTER,
        name="kafka-lake class archive",
        jars=jars,
        conf={},
        program=Path(load_classes.__file__),
    )
    log = FollowedLog(folder / "driver.log", lambda _: None)
    driver = Driver(words, log=log.path, env=environment(java_home=java_home, spark_home=home), cwd=folder)
    try:
        code = driver.wait(lambda: None, 60, log.follow)
    finally:
        driver.end()
    log.finish()
    if code or not made.exists():
        raise JobFailedError(
            f"The job that loads Spark's classes ended with exit code {code} and left no class archive:\n"
            f"{tail(log.lines)}"
        )


def _catalog(folder: Path) -> dict[str, str]:
    name = "spark.sql.catalog.lake"
    options = {"type": "jdbc", "uri": f"jdbc:sqlite:{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    extra = {"jdbc.schema-version": "V1"}
    return {
        name: CATALOG_CLASS,
        **{f"{name}.{key}": value for key, value in {**options, **extra}.items()},
    }
