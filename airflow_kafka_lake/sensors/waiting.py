"""What both sensors are: one look in the worker, then a trigger."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator

from airflow_kafka_lake.core.errors import TransientError
from airflow_kafka_lake.hooks import assembly
from airflow_kafka_lake.hooks.kafka import KafkaSourceHook
from airflow_kafka_lake.hooks.ledger import DEFAULT_LEDGER
from airflow_kafka_lake.operators.boundary import airflow_errors
from airflow_kafka_lake.ports import OffsetSource
from airflow_kafka_lake.services.reporting import known_spec
from airflow_kafka_lake.triggers.waits import LedgerTrigger, done_or_fail

if TYPE_CHECKING:
    from airflow.sdk import Context


class LedgerSensor(BaseSensorOperator):
    """Looks once and then waits without a worker slot, up to `timeout` seconds; `poke_interval` has no meaning here."""

    def __init__(self, *, ledger_connection: str = DEFAULT_LEDGER, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ledger_connection = ledger_connection

    @abstractmethod
    def trigger(self) -> LedgerTrigger | None:
        """Validate what was given and return what waits for it; None when there is nothing to wait for."""

    def execute(self, context: Context) -> str:  # noqa: ARG002, RET503  # Airflow's signature; `defer` does not return
        """Look once; defer unless the answer is yes."""
        with airflow_errors():
            trigger = self.trigger()
            if trigger is None:
                return "nothing to wait for"
            try:
                with assembly.open_ledger(self.ledger_connection) as ledger:
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

    def kafka_connection(self, pipeline: str) -> str:
        """Return the Kafka connection that the ledger recorded for a pipeline."""
        with assembly.open_ledger(self.ledger_connection) as ledger:
            return known_spec(ledger, pipeline).kafka_connection

    def _source(self, pipeline: str) -> OffsetSource:
        return KafkaSourceHook(self.kafka_connection(pipeline)).source()
