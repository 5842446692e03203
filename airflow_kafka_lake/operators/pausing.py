"""Wait, without a worker slot, until what a person has paused is resumed."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, Never

from airflow_kafka_lake.core.errors import PausedError
from airflow_kafka_lake.triggers.waits import ResumedTrigger

PAUSE_TIMEOUT = timedelta(days=7)
"""How long a task waits for a resume before it fails: longer than a weekend."""


def wait_for_resume(task: Any, paused: PausedError, until: float | None) -> Never:
    """Defer a task until `execute_resumed` goes on; raise the error where it may not wait, or its time was over.

    `until` (epoch seconds) is the end of a wait that came to its end while the pause went on.
    """
    if not task.deferrable:
        raise paused
    if until is not None:
        raise PausedError(
            f"{paused.message}. This task has waited for {task.pause_timeout}, its pause_timeout: clear it after that",
            **paused.facts,
        )
    end = time.time() + task.pause_timeout.total_seconds()
    task.log.info("%s. Waiting without a worker slot, at most for %s.", paused.message, task.pause_timeout)
    plan = paused.facts["plan"]
    trigger = ResumedTrigger(
        pipeline=str(paused.facts["pipeline"]),
        plan=None if plan is None else str(plan),
        until=end,
        ledger_conn_id=task.ledger_conn_id,
    )
    task.defer(trigger=trigger, method_name="execute_resumed", kwargs={"until": end})
    raise AssertionError("unreachable: defer raises")


def ended_unresumed(until: float) -> float | None:
    """Return the end of a wait that was not ended by a resume; None where a resume ended it."""
    return until if time.time() >= until else None
