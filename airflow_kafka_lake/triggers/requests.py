"""Wait for a worker that brings a wave into the lake, and keep the request for it alive meanwhile."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from airflow_kafka_lake.core.ledger.requests import RENEWALS, AskForWave, EndRequest, error_of
from airflow_kafka_lake.core.ledger.waves import FINISHED
from airflow_kafka_lake.core.status.serving import serving, untaken_for_too_long
from airflow_kafka_lake.ports import Ledger
from airflow_kafka_lake.triggers.ledger import Answer, LedgerTrigger, Source
from airflow_kafka_lake.wiring.ledger import DEFAULT_LEDGER

ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
"""States in which a task does not come back by itself."""


class WaveServedTrigger(LedgerTrigger):
    """Waits until a requested wave has ended, or was answered; renews the request while it waits, and revives none.

    So the request lapses when the trigger ends without a word: a triggerer that starts again within `wanted_for`
    (seconds) finds it alive, and the worker at work. It ends at once where Airflow says that the task has ended by a
    person's hand. A task that was cleared asks anew, and goes on with the attempt that runs.
    """

    def __init__(
        self,
        *,
        pipeline: str,
        wave: str,
        request: str,
        actor: str,
        wanted_for: float,
        worker_timeout: float,
        bytes_per_second: int | None = None,
        ledger_conn_id: str = DEFAULT_LEDGER,
    ) -> None:
        super().__init__(pipeline=pipeline, ledger_conn_id=ledger_conn_id)
        self.wave = wave
        self.request = request
        self.actor = actor
        self.wanted_for = wanted_for
        self.worker_timeout = worker_timeout
        self.bytes_per_second = bytes_per_second
        self._renew_at: float | None = None

    def ask(self, ledger: Ledger, _source: Source) -> Answer:
        """See `LedgerTrigger`; UnfinishedError when no worker has come for `worker_timeout` (seconds)."""
        asked = ledger.commit(
            AskForWave(
                id=self.request,
                wave=self.wave,
                actor=self.actor,
                wanted_for=timedelta(seconds=self.wanted_for),
                bytes_per_second=self.bytes_per_second,
                renews=True,
            )
        )
        self._renew_at = self.now() + self.wanted_for / RENEWALS
        record = ledger.wave(self.wave)
        if asked.request is None and record.state in FINISHED:
            return Answer(done=True, message=f"wave {self.wave} is {record.state}")
        if asked.request is None:
            ended = f"the request {self.request} for wave {self.wave} has ended: a task that still waits asks anew"
            return Answer(done=True, message=ended)
        if error := error_of(asked.request):
            return Answer(done=True, message=f"a worker has tried wave {self.wave}: {type(error).__name__}")
        found = serving(asked.request, record, ledger.attempts(self.wave), asked.now)
        if problem := untaken_for_too_long(record, found, timedelta(seconds=self.worker_timeout)):
            ledger.commit(EndRequest(id=self.request, wave=self.wave))
            raise problem
        return Answer(done=False, message=found.message)

    def time_is_over(self) -> bool:
        """Return whether the request has to be renewed."""
        return self._renew_at is not None and self.now() >= self._renew_at

    async def on_kill(self) -> None:
        """End the request of a task that a person has marked as ended; the worker ends its job then.

        Airflow calls this as well when the task is cleared, which is about to ask again: its request is left to lapse.
        """
        if await asyncio.to_thread(self._has_ended):
            await self.query(lambda ledger: ledger.commit(EndRequest(id=self.request, wave=self.wave)))
            self.log.info("wave %s is not wanted any more", self.wave)

    def _has_ended(self) -> bool:
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        ti: Any = self.task_instance
        found = RuntimeTaskInstance.get_task_states(
            dag_id=ti.dag_id, run_ids=[ti.run_id], task_ids=[ti.task_id], map_index=ti.map_index
        )
        key = ti.task_id if ti.map_index < 0 else f"{ti.task_id}_{ti.map_index}"
        return found.get(ti.run_id, {}).get(key) in ENDED
