"""What the work on a wave lets others see of itself: how long its steps take, and that it recorded a commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_kafka_lake.core.ledger.attempts import RecordCommit
from airflow_kafka_lake.core.live import Live, Moment
from airflow_kafka_lake.core.progress import Step
from airflow_kafka_lake.ports import Clock


class StepTimes:
    """Times the steps of what is shown live, and passes it on to who shows it."""

    def __init__(self, live: Callable[[Live], None], clock: Clock) -> None:
        self._live = live
        self._clock = clock
        self._seconds: dict[Step, float] = {}
        self._step: Step | None = None
        self._since = 0.0

    def __call__(self, live: Live) -> None:
        """Take one moment."""
        if live.moment is not Moment.GOING:
            self._turn(live.progress.step if live.moment is Moment.BEGUN else None, live.at)
        self._live(live)

    def seconds(self) -> Mapping[Step, float]:
        """Return the seconds of each step until now; of a step that was repeated all of them."""
        self._turn(self._step, self._clock.monotonic())
        return dict(self._seconds)

    def _turn(self, step: Step | None, now: float) -> None:
        if self._step is not None:
            self._seconds[self._step] = self._seconds.get(self._step, 0.0) + now - self._since
        self._step, self._since = step, now


class CommittingLedger:
    """A ledger that knows whether a wave was recorded as committed through it, and is the given one in all else."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger
        self.has_committed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def commit(self, write: Any) -> Any:
        """Write, and note the record of a commit."""
        done = self._ledger.commit(write)
        self.has_committed = self.has_committed or isinstance(write, RecordCommit)
        return done
