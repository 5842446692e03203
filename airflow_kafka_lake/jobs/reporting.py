"""A job that reports its progress in sentences and returns a document."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.jobs.application import write_application
from airflow_kafka_lake.jobs.progress import progress_lines
from airflow_kafka_lake.jobs.stage import session, taken

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESULT_FILE, MESSAGES_FILE = "result.json", "messages"

Work = Callable[["SparkSession", Mapping[str, Any], Callable[[str], object]], Mapping[str, Any]]
"""Takes the session, the request and a function that reports a sentence; returns the document."""


def report(argv: list[str], work: Work) -> None:
    """Run the job of the file named by the only argument; its secrets are removed first.

    The document is written last, and read only after this process has ended well.
    """
    request = taken(argv)
    folder = Path(argv[0]).parent
    messages = (folder / MESSAGES_FILE).open("w", encoding="utf-8", buffering=1)
    with messages, session() as spark, progress_lines(spark, folder):
        write_application(spark, folder)
        document = work(spark, request, lambda text: messages.write(f"{text}\n"))
    (folder / RESULT_FILE).write_text(json.dumps(document), encoding="utf-8")
