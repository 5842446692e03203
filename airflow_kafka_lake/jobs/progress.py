"""Signs of progress: while a driver gets on with its job, it says so in a file beside its request.

A driver that hangs, or was stopped, says nothing new; its worker then stops vouching for it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRESS_FILE = "progress"
_SECONDS = 2.0


@contextmanager
def progress_lines(spark: SparkSession, folder: Path) -> Iterator[None]:
    """Write to `folder` what Spark has done of its work, whenever that changes, until the block ends."""
    ended = threading.Event()
    reporter = threading.Thread(target=report_progress, args=(spark, folder / PROGRESS_FILE, ended), daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join()


def report_progress(spark: Any, file: Path, ended: Any) -> None:
    """Look at a Spark session every few seconds and write down what has changed, until `ended` is set.

    A look or a write that fails is tried again: a driver that fell silent for good would be ended in its work.
    """
    last = ""
    while True:
        try:
            if (found := f"{_done(spark)} {_counted(spark)}") != last:
                file.write_text(found, encoding="utf-8")
                last = found
        except Exception:  # noqa: BLE001 - a full disk, a folder that is gone, whatever the gateway to Java raises
            last = ""
        if ended.wait(_SECONDS):
            return


def _done(spark: Any) -> list[tuple[int, int]]:
    """Return id and finished tasks of each active stage."""
    stages = spark.sparkContext._jsc.sc().statusStore().activeStages()  # noqa: SLF001 - no public door in Python
    return sorted((stage.stageId(), stage.numCompleteTasks()) for stage in _listed(stages))


def _counted(spark: Any) -> list[str]:
    """Return what the operators of each running query count: one task may take long, and they count its rows.

    Executors report this every ten seconds. A stage's own counters would not do: in a local master they stand still
    until a task ends, because Spark sends them without the names that only a message to another JVM gives back.
    """
    store = spark._jsparkSession.sharedState().statusStore()  # noqa: SLF001 - as above
    running = [query.executionId() for query in _listed(store.executionsList()) if query.completionTime().isEmpty()]
    return [store.executionMetrics(query).toString() for query in running]


def _listed(sequence: Any) -> list[Any]:
    """Return the items of a sequence of Scala's."""
    return [sequence.apply(number) for number in range(sequence.size())]
