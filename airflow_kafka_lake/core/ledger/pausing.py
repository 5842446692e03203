"""Pause a pipeline or a plan, and resume it: nothing new of it is planned or begun in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import Change, Edit, Entry, Records, Scope, Turn, Write
from airflow_kafka_lake.core.ledger.pauses import PauseRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Pausing:
    """The answer to a pause or a resume: whether it changed anything, and the pause that is there, or was."""

    changed: bool
    pause: PauseRow | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(Write[Pausing]):
    """Pause a pipeline, or one plan of it: from then on no new plan of that pipeline is recorded, and no wave claimed.

    What is at work goes on. A pause that is there stays as it was first recorded. UnknownSubjectError for a pipeline
    that has no configuration yet, and for a plan that is none of it.
    """

    name: ClassVar[str] = "pause"
    pipeline: str
    reason: str
    actor: str
    plan: str | None = None

    def scope(self) -> Scope:
        return Scope(pipeline=self.pipeline, turn=Turn.PAUSE, configurations=True, plan_ids=_plans(self.plan))

    def decide(self, records: Records) -> Change[Pausing]:
        if known := _recorded(records, self.pipeline, self.plan):
            return Change(result=Pausing(changed=False, pause=known))
        new = PauseRow(pipeline=self.pipeline, plan=self.plan, reason=self.reason, actor=self.actor, at=records.now)
        entry = Entry(pipeline=self.pipeline, actor=self.actor, kind="pause", subject=new.subject, detail=self.reason)
        return Change(result=Pausing(changed=True, pause=new), edits=(Edit(after=new),), entries=(entry,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(Write[Pausing]):
    """End the pause of a pipeline, or of one plan of it; nothing changes where there is none. Refused as a pause is."""

    name: ClassVar[str] = "resume"
    pipeline: str
    actor: str
    plan: str | None = None
    reason: str | None = None

    def scope(self) -> Scope:
        return Scope(pipeline=self.pipeline, turn=Turn.PAUSE, configurations=True, plan_ids=_plans(self.plan))

    def decide(self, records: Records) -> Change[Pausing]:
        known = _recorded(records, self.pipeline, self.plan)
        if known is None:
            return Change(result=Pausing(changed=False, pause=None))
        detail = f"paused by {known.actor}" + (f": {self.reason}" if self.reason else "")
        entry = Entry(pipeline=self.pipeline, actor=self.actor, kind="resume", subject=known.subject, detail=detail)
        return Change(result=Pausing(changed=True, pause=known), edits=(Edit(before=known),), entries=(entry,))


def _plans(plan: str | None) -> tuple[str, ...]:
    return () if plan is None else (plan,)


def _recorded(records: Records, pipeline: str, plan: str | None) -> PauseRow | None:
    """Return the pause of a subject that is on record; UnknownSubjectError when the subject is not."""
    if records.newest is None:
        raise guards.unknown("pipeline", pipeline)
    if plan is not None and (plan not in records.plans or records.plans[plan].spec.name != pipeline):
        raise guards.unknown("plan", plan)
    return next((item for item in records.pauses if item.plan == plan), None)
