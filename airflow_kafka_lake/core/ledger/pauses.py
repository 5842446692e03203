"""What is paused, and the refusal of everything that would begin something new there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import PausedError
from airflow_kafka_lake.core.wire import timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseRow:
    """A pause of a pipeline, or of one plan of it: who asked for it, when and why. It is there as long as it lasts."""

    pipeline: str
    plan: str | None
    reason: str
    actor: str
    at: datetime

    @property
    def id(self) -> str:
        """The name of what is paused, unique over pipelines and plans: no pipeline has a slash in its name."""
        return self.pipeline if self.plan is None else f"{self.pipeline}/{self.plan}"

    @property
    def subject(self) -> str:
        """What a person calls it, to resume it."""
        return self.plan or self.pipeline


def pause_of(pauses: Iterable[PauseRow], plan: str | None) -> PauseRow | None:
    """Return the pause that keeps a plan's waves from being begun: the pipeline's, else the plan's own."""
    found = {item.plan: item for item in pauses}
    return found.get(None) or (found.get(plan) if plan is not None else None)


def paused(pause: PauseRow) -> PausedError:
    """Return the refusal: who has paused what, since when and why, and how it goes on."""
    what, kept = f"Pipeline {pause.pipeline}", "Nothing of it is planned, and no wave is begun"
    if pause.plan is not None:
        what, kept = f"Plan {pause.plan} of pipeline {pause.pipeline}", "No wave of it is begun"
    return PausedError(
        f"{what} is paused since {timestamp(pause.at)} by {pause.actor}: {pause.reason.rstrip('.')}. {kept} before "
        f"a person resumes it with: {remedies.resume(pause.subject)}",
        pipeline=pause.pipeline,
        plan=pause.plan,
        since=timestamp(pause.at),
        by=pause.actor,
    )


def refuse_paused(pauses: Iterable[PauseRow], plan: str | None = None) -> None:
    """Raise PausedError while a pipeline is paused, or the plan."""
    if pause := pause_of(pauses, plan):
        raise paused(pause)
