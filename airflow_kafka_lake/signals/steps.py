"""How long each step of a wave took, seen from the writes that record the steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_kafka_lake.core.ledger.attempts import RecordCommit
from airflow_kafka_lake.core.progress import Progress, Step
from airflow_kafka_lake.ports import Clock


class SteppingLedger:
    """A ledger that notes when a write records the begin of a step, and is the given ledger in everything else.

    `has_committed`: whether a wave was recorded as committed through it.
    """

    def __init__(self, ledger: Any, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._seconds: dict[Step, float] = {}
        self._step: Step | None = None
        self._since = clock.monotonic()
        self.has_committed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def commit(self, write: Any) -> Any:
        """Write, and note the step that the write names."""
        done = self._ledger.commit(write)
        self.has_committed = self.has_committed or isinstance(write, RecordCommit)
        progress = getattr(write, "progress", None)
        if isinstance(progress, Progress) and progress.step is not self._step:
            self._turn(progress.step)
        return done

    def seconds(self) -> Mapping[Step, float]:
        """Return the seconds of each step until now; of a step that was repeated all of them."""
        self._turn(self._step)
        return dict(self._seconds)

    def _turn(self, step: Step | None) -> None:
        now = self._clock.monotonic()
        if self._step is not None:
            self._seconds[self._step] = self._seconds.get(self._step, 0.0) + now - self._since
        self._step, self._since = step, now
