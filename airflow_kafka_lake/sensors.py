"""Sensors: look once, then wait in the triggerer until a plan is drained or a watermark is reached."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_kafka_lake.core.errors import TransientError, UnknownSubjectError, UsageError, unknown_topic
from airflow_kafka_lake.core.reports.plan import PlanSummary
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.core.wire import milliseconds
from airflow_kafka_lake.links import PAGE, TaskLink
from airflow_kafka_lake.operators.boundary import airflow_errors, bounds_of, message_of, spec_of, text_of
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.ports import Ledger, OffsetSource
from airflow_kafka_lake.services.identity import known_spec
from airflow_kafka_lake.signals import show_page
from airflow_kafka_lake.triggers import DrainedTrigger, LedgerTrigger, PlanResolvedTrigger, WaitEvent, WatermarkTrigger
from airflow_kafka_lake.wiring import assemble
from airflow_kafka_lake.wiring.connections import DEFAULT_LEDGER, KafkaConnection

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg


# The base of both sensors: a question to the ledger, asked in the worker or, deferred, in the triggerer.


class LedgerSensor(BaseSensorOperator):
    """Asks the ledger one question until the answer is yes; a ledger that does not answer is asked again.

    It waits for a pipeline that was never planned, and refuses at once a file that does not exist and a topic that the
    pipeline does not read. Deferred, it asks soon after an event of the pipeline and ever more rarely without one;
    `poke_interval` is for a sensor that is not deferred.

    :param pipeline: a `Pipeline`, a pipeline file, or a name (templated)
    :param ledger_conn_id: Airflow connection of the ledger (templated)
    :param deferrable: wait in the triggerer, without a worker slot; `[operators] default_deferrable` where left out
    """

    template_fields: Sequence[str] = ("pipeline", "ledger_conn_id")
    operator_extra_links: Collection[TaskLink] = (PAGE,)

    def __init__(
        self,
        *,
        pipeline: Pipeline | str | PathLike[str],
        ledger_conn_id: str = DEFAULT_LEDGER,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.ledger_conn_id = ledger_conn_id
        self.deferrable = deferrable

    @abstractmethod
    def trigger(self, pipeline: str) -> LedgerTrigger | None:
        """Validate the parameters and return the trigger that waits; None when there is nothing to wait for."""

    @abstractmethod
    def topics(self) -> Collection[str]:
        """Return the topics of the parameters, once `trigger` has accepted them."""

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
                    self._refuse_unplanned(ledger, spec)
                    answer = trigger.ask(ledger, lambda: self._source(trigger.pipeline))
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

    def _refuse_unplanned(self, ledger: Ledger, spec: PipelineSpec | None) -> None:
        """Refuse a topic that a pipeline will not read; once it was planned, the trigger refuses it by the ledger."""
        if spec is None or ledger.pipeline(spec.name) is not None:
            return
        for topic in self.topics():
            if not spec.reads(topic):
                raise unknown_topic(spec.name, topic, spec.topics)

    def _source(self, pipeline: str) -> OffsetSource:
        with assemble.open_ledger(self.ledger_conn_id) as ledger:
            name = known_spec(ledger, pipeline).kafka_connection
        return KafkaConnection(name).source()


# Wait until a plan, or everything up to given ends, is committed or skipped.


class SegmentDrainedSensor(LedgerSensor):
    """Waits until every offset below a seal is committed or skipped; an offset unknown to the ledger is not drained.

    The seal is a plan's end (`plan`), or explicit ends (`until`); exactly one of the two is given.

    :param pipeline: a `Pipeline`, a pipeline file, or a name (templated)
    :param plan: plan id, or the XCom `plan` of PlanIngestOperator (templated); one that planned nothing ends the wait,
        one that left something out fails, and that of a dry run skips the tasks after it
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
        plan = self.plan
        if isinstance(plan, Mapping):
            planned = PlanSummary.from_json({"pipeline": pipeline, **plan})
            if planned.dry_run:
                raise AirflowSkipException(
                    "a dry run plans nothing: there is nothing to wait for, and nothing has landed"
                )
            planned.refuse_left_out()
            plan = planned.plan
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


# Wait until watermarks reach an offset or a time.


class WatermarkSensor(LedgerSensor):
    """Waits until everything below an offset, or before a time, is committed from each stream's origin on.

    A time is reached only once Kafka has a record at or after it: until then, an earlier one may still come.

    :param pipeline: a `Pipeline`, a pipeline file, or a name (templated)
    :param topic: topic (templated)
    :param partition: one partition; None means all (templated)
    :param offset: end, exclusive; either this or `time` (templated)
    :param time: RFC 3339 time with its offset from UTC (templated)
    :param ledger_conn_id: Airflow connection of the ledger (templated)
    :param deferrable: wait in the triggerer, without a worker slot; `[operators] default_deferrable` where left out
    """

    template_fields: Sequence[str] = ("pipeline", "topic", "partition", "offset", "time", "ledger_conn_id")

    def __init__(
        self,
        *,
        pipeline: Pipeline | str | PathLike[str],
        topic: str,
        partition: int | str | None = None,
        offset: int | str | None = None,
        time: str | datetime | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(pipeline=pipeline, **kwargs)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.time = time

    def topics(self) -> tuple[str]:
        """See `LedgerSensor`."""
        return (self.topic,)

    def trigger(self, pipeline: str) -> WatermarkTrigger:
        """See `LedgerSensor`."""
        if (self.offset is None) == (self.time is None):
            raise UsageError("either offset or time is needed, and exactly one")
        topic = text_of(self.topic, "topic")
        partitions = None if self.partition in (None, "") else [number_of(self.partition, "partition")]
        bounds = bounds_of(topic, partitions, None, self.time)
        if self.time is not None and bounds.end is None:
            raise UsageError("time is needed, and none was given")
        return WatermarkTrigger(
            pipeline=pipeline,
            topic=topic,
            partition=bounds.partitions[0] if bounds.partitions else None,
            offset=None if self.offset is None else number_of(self.offset, "offset"),
            at_ms=None if bounds.end is None else time_in_ms(bounds.end),
            ledger_conn_id=self.ledger_conn_id,
        )


def time_in_ms(at: int | datetime) -> int:
    """Return Kafka's time of a bound that was read as a time; an offset is refused."""
    if isinstance(at, int):
        raise UsageError("time must be a time with its offset from UTC; for an offset use offset")
    return milliseconds(at)


def number_of(value: Any, what: str) -> int:
    """Read a whole number, at least 0, as people or templates give it. Raises UsageError."""
    if isinstance(value, str) and value.isdecimal() and value.isascii() and len(value) <= 19:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise UsageError(f"{what} must be a whole number, at least 0")
