"""What a driver does around a job: take its request, open a session, show what it does, write its result."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.jobs.application import write_application
from airflow_kafka_lake.jobs.progress import progress_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROPERTIES_FILE, JAVA_OPTIONS_FILE = "spark.properties", "java.options"
"""What else of a submit may hold secrets, beside the job's file."""

RESULT_FILE, MESSAGES_FILE = "result.json", "messages"
_LEFT = "kafka_lake_document"

Work = Callable[["SparkSession", Mapping[str, Any], Callable[[str], object]], Mapping[str, Any] | None]
"""Takes the session, the request and a function that reports a sentence; returns the job's document, if it has one."""


def run(argv: list[str], work: Work) -> None:
    """Run the one job of this driver, of the file named by the only argument; its secrets are removed first."""
    request = taken(argv)
    with session() as spark:
        perform(spark, request, Path(argv[0]).parent, work)


def perform(spark: SparkSession, request: Mapping[str, Any], folder: Path, work: Work) -> None:
    """Do a job whose request was taken from `folder`.

    The document is written last; that of a job that fails is what it has left for its worker (`leave`).
    """
    messages = (folder / MESSAGES_FILE).open("w", encoding="utf-8", buffering=1)
    with messages, progress_lines(spark, folder):
        write_application(spark, folder)
        try:
            document = work(spark, request, lambda text: messages.write(f"{text}\n"))
        except Exception as error:
            _write(folder, getattr(error, _LEFT, None))
            raise
    _write(folder, document)


def leave(error: Exception, document: Mapping[str, Any]) -> None:
    """Have a document written by a job that ends with an error: what it is about may have been done."""
    setattr(error, _LEFT, document)


def _write(folder: Path, document: Mapping[str, Any] | None) -> None:
    if document is not None:
        (folder / RESULT_FILE).write_text(json.dumps(document), encoding="utf-8")


def taken(argv: list[str]) -> dict[str, Any]:
    """Return the request in the file named by the only argument, and remove it with what lies beside it.

    Spark and Java have read their files by now; a job that dies from here on leaves no secret behind.
    """
    (path,) = map(Path, argv)
    request: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for name in (path.name, PROPERTIES_FILE, JAVA_OPTIONS_FILE):
        path.with_name(name).unlink(missing_ok=True)
    return request


def compiled_first(places: Sequence[str], spark_home: str | None) -> list[str]:
    """Return where to look for modules: for PySpark where it is installed, and compiled, before the archive of its
    sources, which spark-submit names first.

    Compiling these takes seconds of every start. Where Spark's home is the installed PySpark, both are the same.
    """
    if spark_home is None or str(Path(spark_home).parent) not in places:
        return list(places)
    sources = f"{spark_home}/python/lib/"
    return sorted(places, key=lambda place: place.startswith(sources))


@contextmanager
def session(beside: Callable[[Any], object] = lambda _: None) -> Iterator[SparkSession]:
    """Yield the session that spark-submit has configured; `beside` works in its Java while Spark starts."""
    sys.path[:] = compiled_first(sys.path, os.environ.get("SPARK_HOME"))
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._ensure_initialized()  # noqa: SLF001 - Java is there already, and Spark is not begun by it
    threading.Thread(target=beside, args=(SparkContext._jvm,), daemon=True).start()  # noqa: SLF001
    spark = SparkSession.builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
