"""A person pauses a pipeline or a plan, and resumes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.documents.pauses import pause_document
from airflow_kafka_lake.core.errors import KafkaLakeError, UnknownSubjectError, expected
from airflow_kafka_lake.core.ledger.pauses import PauseRow
from airflow_kafka_lake.core.ledger.pausing import Pause, Pausing, Resume
from airflow_kafka_lake.core.ledger.records import WaveRecord
from airflow_kafka_lake.core.ledger.waves import OPEN, UNFINISHED
from airflow_kafka_lake.ports import LedgerReader, Ports
from airflow_kafka_lake.services.decisions import needed_reason
from airflow_kafka_lake.services.recovery import OVERTAKEN, recover_wave


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseSubject:
    """A pipeline, or one plan of it, that a person names."""

    pipeline: str
    plan: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """What a pause or a resume has done. `pause` is the one that is there, or was; None where a resume found none.

    `at_work` are the waves that an attempt works on and that go on to their end; `stopped` those that were taken from
    their attempt and are planned still, `landed` those that turned out to be in the lake; `waiting` counts the waves
    that are not begun.
    """

    subject: PauseSubject
    changed: bool
    pause: PauseRow | None
    at_work: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    landed: tuple[str, ...] = ()
    waiting: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return `pause --json` and `resume --json`."""
        return {
            "pipeline": self.subject.pipeline,
            "plan": self.subject.plan,
            "changed": self.changed,
            "paused": pause_document(self.pause),
            "at_work": list(self.at_work),
            "stopped": list(self.stopped),
            "landed": list(self.landed),
            "waiting": self.waiting,
        }


def find_pausable(ledger: LedgerReader, name: str) -> PauseSubject:
    """Find a pipeline by its name, or a plan by its id; UnknownSubjectError for neither."""
    if ledger.pipeline(name) is not None:
        return PauseSubject(pipeline=name)
    if found := ledger.ranges(plan=name):
        return PauseSubject(pipeline=found[0].pipeline, plan=name)
    known = ", ".join(ledger.pipelines()) or "none yet"
    raise UnknownSubjectError(
        f"the ledger knows no pipeline and no plan {name!r}: take one from {remedies.status('PIPELINE')} (pipelines "
        f"that it knows: {known})",
        subject=name,
    )


def pause(ports: Ports, subject: PauseSubject, reason: str, *, now: bool = False) -> Paused:
    """Let nothing new of a pipeline or a plan be begun until it is resumed; a pause that is there stays as it is.

    Waves at work go on to their end. With `now` they are taken from their attempts, whose Spark jobs end with their
    next heartbeat, and stay planned; one that has been published meanwhile is committed. Raises what kept a wave from
    being stopped, after all others were; the pause holds all the same.
    """
    reason = needed_reason(reason)
    done = ports.ledger.commit(Pause(pipeline=subject.pipeline, plan=subject.plan, reason=reason, actor=ports.actor))
    stopped, landed = _stop(ports, subject) if now else ((), ())
    return replace(_answer(ports, subject, done), stopped=stopped, landed=landed)


def resume(ports: Ports, subject: PauseSubject, reason: str | None = None) -> Paused:
    """End the pause of a pipeline or a plan; what is planned waits for the next run, which is not started here."""
    done = ports.ledger.commit(Resume(pipeline=subject.pipeline, plan=subject.plan, reason=reason, actor=ports.actor))
    return _answer(ports, subject, done)


def _answer(ports: Ports, subject: PauseSubject, done: Pausing) -> Paused:
    left = _waves(ports, subject, lambda wave: wave.state in UNFINISHED)
    at_work = tuple(wave.id for wave in left if wave.lease_live)
    return Paused(
        subject=subject,
        changed=done.changed,
        pause=done.pause,
        at_work=at_work,
        waiting=len(left) - len(at_work),
    )


def _waves(ports: Ports, subject: PauseSubject, wanted: Callable[[WaveRecord], bool]) -> list[WaveRecord]:
    waves = ports.ledger.waves(subject.pipeline, UNFINISHED)
    return [wave for wave in waves if subject.plan in (None, wave.plan) and wanted(wave)]


def _stop(ports: Ports, subject: PauseSubject) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Take every wave at work from its attempt; return those that are planned still, and those that are in the lake."""
    stopped: list[str] = []
    landed: list[str] = []
    problems: list[KafkaLakeError] = []
    for wave in _waves(ports, subject, lambda wave: wave.state in OPEN):
        try:
            (landed if recover_wave(ports, wave, by_force=True) else stopped).append(wave.id)
        except OVERTAKEN as error:
            ports.progress(f"wave {wave.id} was ended or taken by another process meanwhile: {error}")
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a problem of this wave alone
            problems.append(expected(error, f"stopping wave {wave.id}", wave=wave.id))
    if problems:
        raise problems[0]
    return tuple(stopped), tuple(landed)
