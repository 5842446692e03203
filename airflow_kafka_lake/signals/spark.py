"""The link from a task to its Spark application."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from airflow_kafka_lake.core.lake.application import Application
from airflow_kafka_lake.links.task_links import SPARK, never_failing, show


class SparkPage:
    """Links to the page of a task's Spark application while it runs, and to the history server's afterwards."""

    def __init__(self, task: Any, context: Mapping[str, Any]) -> None:
        self._task = task
        self._context = context
        self.application: Application | None = None
        """The newest one: a wave that is halved has several."""

    def began(self, found: Application) -> None:
        """Link to an application that has begun, at once."""
        self.application = found
        with never_failing("the link to Spark"):
            show(self._task, SPARK, found.page or found.history, at_once=self._context)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Link to nothing that has ended with a block."""
        try:
            yield
        finally:
            if self.application is not None:
                show(self._task, SPARK, self.application.history)
