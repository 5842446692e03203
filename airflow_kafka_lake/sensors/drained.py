"""Wait until a plan, or everything up to given ends, is committed or skipped."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.operators.boundary import text_of
from airflow_kafka_lake.operators.plan import refuse_left_out
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.sensors.waiting import LedgerSensor
from airflow_kafka_lake.triggers.ledger import LedgerTrigger
from airflow_kafka_lake.triggers.waits import DrainedTrigger, PlanResolvedTrigger

if TYPE_CHECKING:
    from airflow.sdk import XComArg


class SegmentDrainedSensor(LedgerSensor):
    """Waits until every offset below a seal is committed or skipped; what the ledger does not know is not drained.

    The seal is a plan's end (`plan`), or explicit ends (`until`); exactly one of the two is given.

    :param pipeline: a `Pipeline`, a pipeline file, or a name (templated)
    :param plan: plan id, or the XCom `plan` of PlanIngestOperator (templated); one that planned nothing ends the wait,
        one that left something out fails, and that of a dry run skips what comes after
    :param until: `{"TOPIC": {"PARTITION": END}}`: from each stream's origin up to END, exclusive (templated)
    :param ledger_conn_id: Airflow connection of the ledger (templated)
    :param deferrable: wait in the triggerer, without a worker slot; `[operators] default_deferrable` where left out
    """

    template_fields: Sequence[str] = ("pipeline", "plan", "until", "ledger_conn_id")

    def __init__(
        self,
        *,
        pipeline: Pipeline | str | PathLike[str],
        plan: str | Mapping[str, Any] | XComArg | None = None,
        until: Mapping[str, Mapping[str, int]] | XComArg | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(pipeline=pipeline, **kwargs)
        self.plan = plan
        self.until = until

    def topics(self) -> Collection[str]:
        """See `LedgerSensor`."""
        return () if self.until is None else checked_until(self.until)

    def trigger(self, pipeline: str) -> LedgerTrigger | None:
        """See `LedgerSensor`."""
        if (self.plan is None) == (self.until is None):
            raise UsageError(
                "either plan or until is needed, and exactly one; a plan of a task that returned nothing is missing"
            )
        if self.until is not None:
            return DrainedTrigger(
                pipeline=pipeline, until=checked_until(self.until), ledger_conn_id=self.ledger_conn_id
            )
        if isinstance(self.plan, Mapping):
            if self.plan.get("dry_run"):
                raise AirflowSkipException(
                    "a dry run plans nothing: there is nothing to wait for, and nothing has landed"
                )
            refuse_left_out(self.plan)
        plan = self.plan.get("plan") if isinstance(self.plan, Mapping) else self.plan
        if plan is None:
            return None
        return PlanResolvedTrigger(pipeline=pipeline, plan=text_of(plan, "plan"), ledger_conn_id=self.ledger_conn_id)


def checked_until(until: Any) -> dict[str, dict[str, int]]:
    """Read `{topic: {partition: end}}` as people give it; UsageError otherwise."""
    if not _is_until(until):
        raise UsageError('until must be {"TOPIC": {"PARTITION": END}}, such as {"orders": {"0": 120}}')
    return {topic: {str(partition): end for partition, end in ends.items()} for topic, ends in until.items()}


def _is_until(until: Any) -> bool:
    return isinstance(until, Mapping) and bool(until) and all(map(_is_topic, until.items()))


def _is_topic(item: tuple[Any, Any]) -> bool:
    topic, ends = item
    if not isinstance(topic, str) or not isinstance(ends, Mapping) or not ends:
        return False
    return all(str(partition).isdecimal() and type(end) is int and end >= 0 for partition, end in ends.items())
