"""Sensors: look once, then wait in the triggerer until a plan is drained or a watermark is reached."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_kafka_lake.core.errors import TransientError, UnknownSubjectError, UsageError, unknown_topic
from airflow_kafka_lake.core.reports.plan import PlanSummary
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.core.wire import milliseconds
from airflow_kafka_lake.links import PAGE, TaskLink
from airflow_kafka_lake.operators.boundary import PipelineTask, airflow_errors, bounds_of, message_of, spec_of, text_of
from airflow_kafka_lake.signals import show_page
from airflow_kafka_lake.triggers import LedgerTrigger, PlanResolvedTrigger, WaitEvent, WatermarkTrigger
from airflow_kafka_lake.wiring import assemble
from airflow_kafka_lake.wiring.connections import KafkaConnection

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg


# The base of both sensors: a question to the ledger, asked in the worker or, deferred, in the triggerer.


class LedgerSensor(PipelineTask, BaseSensorOperator):
    """Asks the ledger one question until the answer is yes; a ledger that does not answer is asked again.

    It waits for a pipeline that was never planned, and refuses at once a file that does not exist and a topic that the
    pipeline does not read. Deferred, it asks soon after an event of the pipeline and ever more rarely without one;
    `poke_interval` is for a sensor that is not deferred.

    :param deferrable: wait in the triggerer, without a worker slot; `[operators] default_deferrable` where left out
    """

    operator_extra_links: Collection[TaskLink] = (PAGE,)

    def __init__(
        self, *, deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False), **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.deferrable = deferrable

    @abstractmethod
    def trigger(self, pipeline: str) -> LedgerTrigger | None:
        """Validate the parameters and return the trigger that waits; None when there is nothing to wait for."""

    def poke(self, context: Context) -> PokeReturnValue:  # noqa: ARG002  # Airflow's signature
        """Ask once; the answer is the XCom value."""
        return self._look()[1]

    def execute(self, context: Context) -> Any:
        """Poke until the answer is yes, or poke once and then defer."""
        if not self.deferrable:
            return super().execute(context)
        try:
            trigger, answer = self._look()
        except AirflowFailException as error:
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException("skipped, as soft_fail or never_fail wants it") from error
            raise
        if not answer and trigger is not None:
            self.defer(trigger=trigger, method_name="execute_complete", timeout=timedelta(seconds=self.timeout))
        return answer.xcom_value

    def execute_complete(self, context: Context, event: WaitEvent) -> str:  # noqa: ARG002  # Airflow's signature
        """End with the trigger's answer."""
        return message_of(event)

    def _look(self) -> tuple[LedgerTrigger | None, PokeReturnValue]:
        with airflow_errors():
            spec = self._known()
            trigger = self.trigger(text_of(self.pipeline, "pipeline") if spec is None else spec.name)
            if trigger is None:
                return None, PokeReturnValue(is_done=True, xcom_value="nothing to wait for")
            show_page(self, trigger.pipeline)
            try:
                with assemble.open_ledger(self.ledger_conn_id) as ledger:
                    topic = getattr(self, "topic", None)
                    # Once it was planned, the trigger refuses a topic that the pipeline does not read, by the ledger.
                    if topic and spec and ledger.pipeline(spec.name) is None and not spec.reads(topic):
                        raise unknown_topic(spec.name, topic, spec.topics)
                    if name := trigger.kafka(ledger):
                        trigger.source = KafkaConnection(name).source()
                    answer = trigger.ask(ledger)
            except TransientError as unknown:
                self.log.info("not known: %s", unknown.message)
                return trigger, PokeReturnValue(is_done=False)
        self.log.info("%s", answer.message)
        return trigger, PokeReturnValue(is_done=answer.done, xcom_value=answer.message)

    def _known(self) -> PipelineSpec | None:
        """Return the pipeline as operators find it; None where no folder and no ledger has its name, or none answers:
        its first plan may still come."""
        try:
            return spec_of(self.pipeline, self.ledger_conn_id)
        except (UnknownSubjectError, TransientError):
            return None


# Wait until a plan is committed or skipped.


class SegmentDrainedSensor(LedgerSensor):
    """Waits until every range of a plan is committed or skipped; a plan unknown to the ledger is not drained.

    :param plan: plan id, or the XCom `plan` of PlanIngestOperator (templated); one that planned nothing ends the wait,
        one that left something out fails, and that of a dry run skips the tasks after it
    """

    template_fields: Sequence[str] = (*PipelineTask.template_fields, "plan")

    def __init__(self, *, plan: str | Mapping[str, Any] | XComArg, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan

    def trigger(self, pipeline: str) -> LedgerTrigger | None:
        """See `LedgerSensor`."""
        plan: Any = self.plan
        if isinstance(plan, Mapping):
            planned = PlanSummary.from_json({"pipeline": pipeline, **plan})
            if planned.dry_run:
                raise AirflowSkipException(
                    "a dry run plans nothing: there is nothing to wait for, and nothing has landed"
                )
            planned.refuse_left_out()
            if planned.plan is None:
                return None
            plan = planned.plan
        return PlanResolvedTrigger(pipeline=pipeline, plan=text_of(plan, "plan"), ledger_conn_id=self.ledger_conn_id)


# Wait until watermarks reach an offset or a time.


class WatermarkSensor(LedgerSensor):
    """Waits until everything below an offset, or before a time, is committed from each stream's origin on.

    A time is reached only once Kafka has a record at or after it: until then, an earlier one may still come. For every
    hour or day, of partitions without records too, schedule a Dag on those that are complete (`assets.closed_periods`).

    :param topic: topic (templated)
    :param partition: one partition; None means all (templated)
    :param offset: end, exclusive, in the topic that was planned last under this name; either this or `time` (templated)
    :param time: RFC 3339 time with its offset from UTC (templated)
    """

    template_fields: Sequence[str] = (*PipelineTask.template_fields, "topic", "partition", "offset", "time")

    def __init__(
        self,
        *,
        topic: str,
        partition: int | str | None = None,
        offset: int | str | None = None,
        time: str | datetime | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.time = time

    def trigger(self, pipeline: str) -> WatermarkTrigger:
        """See `LedgerSensor`."""
        topic = text_of(self.topic, "topic")
        if (self.offset is None) == (self.time is None):
            raise UsageError("either offset or time is needed, and exactly one")
        partitions = None if self.partition in (None, "") else [number_of(self.partition, "partition")]
        bounds = bounds_of(topic, partitions, None, self.time)
        if self.time is not None and not isinstance(bounds.end, datetime):
            raise UsageError("time must be a time with its offset from UTC; for an offset use offset")
        return WatermarkTrigger(
            pipeline=pipeline,
            topic=topic,
            partition=bounds.partitions[0] if bounds.partitions else None,
            offset=0 if self.offset is None else number_of(self.offset, "offset"),
            at_ms=milliseconds(bounds.end) if isinstance(bounds.end, datetime) else None,
            ledger_conn_id=self.ledger_conn_id,
        )


def number_of(value: Any, what: str) -> int:
    """Read a whole number, at least 0, as people or templates give it. Raises UsageError."""
    if isinstance(value, str) and value.isdecimal() and value.isascii() and len(value) <= 19:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise UsageError(f"{what} must be a whole number, at least 0")
