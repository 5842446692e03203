"""What both sensors are: one look in the worker, then a trigger."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from datetime import timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator

from airflow_kafka_lake.core.errors import TransientError, UnknownSubjectError
from airflow_kafka_lake.core.naming import unknown_topic
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.hooks import assembly, pipelines
from airflow_kafka_lake.hooks.kafka import KafkaSourceHook
from airflow_kafka_lake.hooks.ledger import DEFAULT_LEDGER
from airflow_kafka_lake.operators.boundary import airflow_errors, text_of
from airflow_kafka_lake.operators.plan import name_of
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.ports import Ledger, OffsetSource
from airflow_kafka_lake.services.reporting import known_spec
from airflow_kafka_lake.triggers.waits import LedgerTrigger, done_or_fail

if TYPE_CHECKING:
    from airflow.sdk import Context


class LedgerSensor(BaseSensorOperator):
    """Looks once and then waits without a worker slot, up to `timeout` seconds; `poke_interval` has no meaning here.

    A pipeline that was never planned is waited for, and what can be known of it is refused: a file that is not there, a
    topic that is none of its.
    """

    def __init__(
        self,
        *,
        pipeline: Pipeline | str | PathLike[str],
        ledger_conn_id: str = DEFAULT_LEDGER,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = name_of(pipeline)
        self.ledger_conn_id = ledger_conn_id
        self._spec = pipeline.spec if isinstance(pipeline, Pipeline) else None

    @abstractmethod
    def trigger(self, pipeline: str) -> LedgerTrigger | None:
        """Validate what was given and return what waits for it; None when there is nothing to wait for."""

    @abstractmethod
    def topics(self) -> Collection[str]:
        """Return the topics that are named, once `trigger` has accepted them."""

    def execute(self, context: Context) -> str:  # noqa: ARG002, RET503  # Airflow's signature; `defer` does not return
        """Look once; defer unless the answer is yes."""
        with airflow_errors():
            spec = self._known()
            trigger = self.trigger(text_of(self.pipeline, "pipeline") if spec is None else spec.name)
            if trigger is None:
                return "nothing to wait for"
            try:
                with assembly.open_ledger(self.ledger_conn_id) as ledger:
                    self._refuse_unplanned(ledger, spec)
                    answer = trigger.condition()(ledger, lambda: self._source(trigger.pipeline))
            except TransientError as unknown:
                self.log.info("not known: %s", unknown.message)
            else:
                self.log.info("%s", answer.words)
                if answer.done:
                    return answer.words
        self.defer(trigger=trigger, method_name="execute_complete", timeout=timedelta(seconds=self.timeout))

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> str:  # noqa: ARG002  # Airflow's
        """End with the trigger's answer."""
        return done_or_fail(event)

    def _known(self) -> PipelineSpec | None:
        """Return the pipeline as operators find it; None where no folder and no ledger has its name, or none answers:
        its first plan may be still to come."""
        if self._spec is not None:
            return self._spec
        try:
            return pipelines.find_pipeline(text_of(self.pipeline, "pipeline"), self.ledger_conn_id)
        except (UnknownSubjectError, TransientError):
            return None

    def _refuse_unplanned(self, ledger: Ledger, spec: PipelineSpec | None) -> None:
        """Refuse a topic that a pipeline will not read; once it was planned, the condition judges by what it reads."""
        if spec is None or ledger.pipeline(spec.name) is not None:
            return
        for topic in self.topics():
            if not spec.reads(topic):
                raise unknown_topic(spec.name, topic, spec.topics)

    def _source(self, pipeline: str) -> OffsetSource:
        with assembly.open_ledger(self.ledger_conn_id) as ledger:
            name = known_spec(ledger, pipeline).kafka_connection
        return KafkaSourceHook(name).source()
