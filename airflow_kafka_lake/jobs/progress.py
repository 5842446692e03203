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
def told_progress(spark: SparkSession, folder: Path) -> Iterator[None]:
    """Write to `folder` what Spark has done of its work, whenever that changes, until the block ends."""
    ended = threading.Event()
    teller = threading.Thread(target=tell, args=(spark.sparkContext, folder / PROGRESS_FILE, ended), daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


def tell(context: Any, file: Path, ended: Any) -> None:
    """Look at a Spark context every few seconds and write down what has changed, until `ended` is set.

    A look or a write that fails is tried again: a driver that fell silent for good would be ended in its work.
    """
    told = ""
    while True:
        try:
            if (found := str(_done(context))) != told:
                file.write_text(found, encoding="utf-8")
                told = found
        except Exception:  # noqa: BLE001 - a full disk, a folder that is gone, whatever the gateway to Java raises
            told = ""
        if ended.wait(_SECONDS):
            return


def _done(context: Any) -> list[tuple[int, ...]]:
    """Return id, finished tasks and records read of each active stage.

    Python's status tracker knows tasks only, and one task may take long; executors report records every ten seconds.
    """
    stages = context._jsc.sc().statusStore().activeStages()  # noqa: SLF001 - it has no public door in Python
    found = [stages.apply(number) for number in range(stages.size())]
    return sorted((stage.stageId(), stage.numCompleteTasks(), stage.inputRecords()) for stage in found)
