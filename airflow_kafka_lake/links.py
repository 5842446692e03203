"""The links that Airflow shows beside a task: the pipeline's page, the Spark application, the snapshot."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


_SHOWN = "kafka_lake_links"
_logger = logging.getLogger(__name__)


class TaskLink(BaseOperatorLink):
    """A link whose address the task itself finds out while it runs; none where there is nothing to see."""

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002  # Airflow's signature
        """Return the address that the task has found; empty: Airflow shows no link."""
        return str(getattr(operator, _SHOWN, {}).get(self.xcom_key, ""))


class PipelinePageLink(TaskLink):
    """The page of the task's pipeline, at its wave if it has one.

    A task that was deferred may end without having found it again: it then keeps the address from before.
    """

    name = "Kafka Lake"
    xcom_key = "kafka_lake_page"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address that the task has found in this process, else the one that is stored."""
        found = super().get_link(operator, ti_key=ti_key)
        if found or self.xcom_key in getattr(operator, _SHOWN, {}):
            return found
        with never_failing("the link to the page"):
            from airflow.sdk.execution_time.xcom import XCom

            return str(XCom.get_value(ti_key=ti_key, key=self.xcom_key) or "")
        return ""


class SparkLink(TaskLink):
    """The page of the Spark application while it runs; afterwards its page at the history server, if there is one."""

    name = "Spark"
    xcom_key = "kafka_lake_spark"


class SnapshotLink(TaskLink):
    """The snapshot in which a wave became visible, where the lake's connection says how snapshots are shown."""

    name = "Snapshot"
    xcom_key = "kafka_lake_snapshot"


PAGE, SPARK, SNAPSHOT = PipelinePageLink(), SparkLink(), SnapshotLink()


def show(task: Any, link: TaskLink, address: str | None, *, at_once: Mapping[str, Any] | None = None) -> None:
    """Let a task have a link, from its end on; with a context `at_once`, from now on. No address takes it away."""
    shown: dict[str, str] = {**getattr(task, _SHOWN, {}), link.xcom_key: address or ""}
    setattr(task, _SHOWN, shown)
    if at_once is not None:
        at_once["ti"].xcom_push(key=link.xcom_key, value=address or "")


@contextmanager
def never_failing(what: str) -> Iterator[None]:
    """Log the kind of whatever goes wrong with something that is only shown, without its text, and go on."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - nothing that is shown may fail what it shows
        _logger.info("%s could not be shown (%s)", what, type(error).__name__)
