"""Actions that put waves on hold and let them go on, and that keep a pipeline or a plan from beginning waves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from airflow_kafka_lake.actions.action import Action, ActionOutcome, FieldKind, asked, drop_staged, switch
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import UnknownSubjectError
from airflow_kafka_lake.core.remedies import Remedy
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import LedgerReader, Ports
from airflow_kafka_lake.services import decisions

# Put a wave or a range on hold, take it off hold, make a wave ready for its next try.


def pipeline_of(ledger: LedgerReader, subject: str) -> str:
    """Return the pipeline of a wave or a range. Raises UnknownSubjectError for neither."""
    with suppress(UnknownSubjectError):
        return ledger.wave(subject).pipeline
    try:
        return ledger.range(subject).pipeline
    except UnknownSubjectError:
        known = ", ".join(ledger.pipelines()) or "none yet"
        raise UnknownSubjectError(
            f"the ledger knows no wave or range {subject!r}. Take an id from: {remedies.status('PIPELINE')} "
            f"(the ledger knows: {known})",
            subject=subject,
        ) from None


def _wave() -> Any:
    found: dict[str, Any] = {"metavar": "WAVE|RANGE", "find": lambda ledger, name: (pipeline_of(ledger, name), name)}
    return asked(FieldKind.SUBJECT, "Wave or range", "wave or range id", **found)


class CancelAction(Action):
    """Put a wave or a range on hold; one that is being worked on is taken from its worker."""

    name = "cancel"
    help = "put a wave or a range on hold"
    label = "Cancel"
    title = "Cancel wave"
    consequences = (
        "The watermarks of its partitions stop before it. Other waves go on.",
        "It stays on hold until a person releases it.",
    )

    subject: str = _wave()
    drop_staged: bool = drop_staged()

    @classmethod
    def button_label(cls, remedy: Remedy) -> str:
        """Return its label."""
        return "Give up what is staged" if cls.is_grave(remedy) else cls.label

    @classmethod
    def is_grave(cls, remedy: Remedy) -> bool:
        """Return whether it gives up the staged rows."""
        return "drop_staged" in remedy.switches

    @classmethod
    def button_lines(cls, remedy: Remedy, ranges: int = 0) -> tuple[str, ...]:
        """Return the consequences, and how large the wave is."""
        wave = f"Wave {remedy.subject}" + (f" with its {count(ranges, 'range')}" if ranges else "")
        lost = "What it has staged is the only copy of some records, and is given up: they are lost."
        return (
            f"{wave} is taken from the worker that has it, if there is one; nothing of it becomes visible.",
            *cls.consequences,
            *((lost,) if cls.is_grave(remedy) else ()),
        )

    def apply(self, ports: Ports, spec: PipelineSpec) -> ActionOutcome:  # noqa: ARG002  # the wave names it
        """Cancel; raises the refusals of `decisions.cancel`."""
        ranges = decisions.cancel(ports, self.subject, self.reason or "", drop_staged=self.drop_staged)
        line = f"cancelled {count(len(ranges), 'range')}; take the hold off with: {remedies.release(self.subject)}"
        return ActionOutcome(document={"cancelled": list(ranges)}, lines=[line])


class ReleaseAction(Action):
    """Take a wave or a range off hold."""

    name = "release"
    help = "take a wave or a range off hold"
    label = "Release"
    title = "Release"
    consequences = (
        "It is planned again: a run that takes it reads it, which is the next one without bounds.",
        "If the cause is still there, it is put on hold again. Nothing is lost by trying.",
    )

    subject: str = _wave()
    reason: str | None = asked(FieldKind.REASON, "Reason", "why", needed=False)

    def apply(self, ports: Ports, spec: PipelineSpec) -> ActionOutcome:
        """Release; raises the refusals of `decisions.release`."""
        wave, ranges = decisions.release(ports, self.subject, self.reason)
        line = f"released {count(len(ranges), 'range')} into wave {wave}; run it with: {remedies.run(spec.name)}"
        return ActionOutcome(document={"wave": wave, "released": list(ranges)}, lines=[line])


class RetryAction(Action):
    """Make a wave ready for its next try; the command line has `recover` and `release` for it."""

    name = "retry"
    help = "make a wave ready for its next try"
    label = "Make ready"
    title = "Make ready: wave"
    consequences = (
        "The table is asked whether the wave is there; if it is, it is recorded as landed.",
        "If it is not, it is free for the next run, and nothing reads it before. Records cannot come twice by that.",
    )
    is_command = False

    subject: str = _wave()

    def apply(self, ports: Ports, spec: PipelineSpec) -> ActionOutcome:  # noqa: ARG002  # the wave names it
        """Make it ready; raises the refusals of `decisions.retry`."""
        wave, ready = decisions.retry(ports, self.subject, self.reason or "")
        return ActionOutcome(document={"wave": wave, "ready": ready.value}, lines=[f"{wave} is {ready}"])


# Keep a pipeline or a plan from beginning waves, and let it go on.


def _pausable(ledger: LedgerReader, name: str) -> tuple[str, str | None]:
    found = decisions.find_pausable(ledger, name)
    return found.pipeline, found.plan


def _plan() -> Any:
    help_ = "a pipeline, or one plan of it"
    return asked(FieldKind.SUBJECT, "Plan", help_, needed=False, metavar="PIPELINE|PLAN", find=_pausable)


def _paused(done: decisions.PauseResult) -> Iterator[str]:
    """Yield the pause, the waves that go on to their end, and the command that resumes."""
    already = "" if done.changed else " already"
    yield f"{_subject(done)} is paused{already}, {done.pause and done.pause.since}"
    if done.stopped:
        yield (
            f"taken from their workers, and planned still: {', '.join(done.stopped)}. They are not in the lake now; a "
            "commit that was on its way may still land, and the next run finds it"
        )
    if done.landed:
        yield f"was published meanwhile, and has landed: {', '.join(done.landed)}"
    if done.at_work:
        yield f"goes on to its end: {', '.join(done.at_work)}"
    resume = remedies.resume(done.subject.plan or done.subject.pipeline)
    yield f"{count(done.waiting, 'wave waits', 'waves wait')}; go on with: {resume}"


def _resumed(done: decisions.PauseResult) -> Iterator[str]:
    """Yield the end of the pause, and the pause."""
    if done.pause is None:
        yield f"{_subject(done)} is not paused: nothing was changed"
        return
    yield f"{_subject(done)} goes on; it was paused {done.pause.since}"
    run = remedies.run(done.subject.pipeline)
    yield f"{count(done.waiting, 'wave waits', 'waves wait')} for a run: {run}"


def _subject(done: decisions.PauseResult) -> str:
    pipeline, plan = done.subject.pipeline, done.subject.plan
    return f"pipeline {pipeline}" if plan is None else f"plan {plan} of pipeline {pipeline}"


class PauseAction(Action):
    """Begin nothing new of a pipeline, or of one plan; with `now`, end what is at work too."""

    name = "pause"
    help = "begin nothing new of a pipeline or a plan until it is resumed"
    label = "Pause"
    title = "Pause"
    consequences = (
        "No new plan is made, and no run or command begins a further wave, until a person resumes it.",
        "Waves that are being read go on to their end. Meanwhile Kafka's retention goes on.",
    )

    plan: str | None = _plan()
    now: bool = switch("Now", "also stop the waves that are at work; they stay planned")

    def apply(self, ports: Ports, spec: PipelineSpec) -> ActionOutcome:
        """Pause; raises the refusals of `decisions.pause`."""
        subject = decisions.PauseSubject(pipeline=spec.name, plan=self.plan)
        done = decisions.pause(ports, subject, self.reason or "", now=self.now)
        return ActionOutcome(document=done.to_json(), lines=list(_paused(done)))


class ResumeAction(Action):
    """End the pause of a pipeline, or of one plan of it."""

    name = "resume"
    help = "let a paused pipeline or plan go on"
    label = "Resume"
    title = "Resume"
    consequences = ("Tasks that wait for it go on, and the next run does.",)

    plan: str | None = _plan()
    reason: str | None = asked(FieldKind.REASON, "Reason", "why", needed=False)

    def apply(self, ports: Ports, spec: PipelineSpec) -> ActionOutcome:
        """Resume."""
        subject = decisions.PauseSubject(pipeline=spec.name, plan=self.plan)
        done, left = decisions.resume(ports, subject, self.reason), ports.ledger.pipeline(spec.name)
        others = [item for item in left.pauses if None in (item.plan, self.plan)] if left else []
        lines = [f"{item.subject} is paused still; end that with: {remedies.resume(item.subject)}" for item in others]
        return ActionOutcome(document=done.to_json(), lines=[*_resumed(done), *lines])
