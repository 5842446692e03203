"""Write a driver's progress to a file beside its request.

When the file no longer changes, the driver hangs or was stopped, and its worker no longer renews the lease.
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
    """Write Spark's progress to `folder` whenever it changes, until the block ends."""
    ended = threading.Event()
    reporter = threading.Thread(target=report_progress, args=(spark, folder / PROGRESS_FILE, ended), daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join()


def report_progress(spark: Any, file: Path, ended: Any) -> None:
    """Read a Spark session's progress every few seconds and write it when it has changed, until `ended` is set.

    A failed read or write is tried again, because a worker ends a driver without progress.
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
    """Return the metrics of each running query's operators, which count rows within a long task.

    Executors report them every ten seconds. In a local master the counters of a stage do not change before a task ends,
    because Spark sends them without names there.
    """
    store = spark._jsparkSession.sharedState().statusStore()  # noqa: SLF001 - as above
    running = [query.executionId() for query in _listed(store.executionsList()) if query.completionTime().isEmpty()]
    return [store.executionMetrics(query).toString() for query in running]


def _listed(sequence: Any) -> list[Any]:
    """Return the items of a sequence of Scala's."""
    return [sequence.apply(number) for number in range(sequence.size())]
