"""Requests: a task asks for a wave, and a worker outside of Airflow brings it into the lake.

A request names a wave and a time, and takes the answer. It decides nothing about the wave: the worker that takes it
claims it as always, and its fence guards every write.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import ClassVar

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import KafkaLakeError, restored
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import Change, Edit, Entry, Records, RequestRow, T_co, Write, WriteScope
from airflow_kafka_lake.core.ledger.waves import FINISHED, LeaseHolder, WaveState

WANTED_FOR = timedelta(minutes=5)
"""How long a request holds after it was last renewed: longer than a triggerer takes to start again."""

RENEWALS = 5
"""A request is renewed so many times in the time that it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord(RequestRow):
    """A request with the state of its wave; `live` and `lease_live` are judged by the database's clock."""

    live: bool
    state: WaveState
    holder: LeaseHolder | None
    lease_live: bool

    @property
    def is_wanted(self) -> bool:
        """Whether a worker may take the wave for it: it is wanted now, was not answered, and the wave has not ended."""
        return self.live and self.answer is None and self.state not in FINISHED


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveRequest:
    """A request as it is on record `now`; None once it has ended, as all requests of a wave do with the wave."""

    request: RequestRow | None
    now: datetime


class RequestWrite(Write[T_co]):
    """A write of the requests for one wave."""

    wave: str

    def scope(self) -> WriteScope:
        return WriteScope(waves=(self.wave,), requests=True)


class AskForWave(RequestWrite[WaveRequest]):
    """Ask for a wave, or say that it is still wanted: for `wanted_for` from now on.

    An answer stays as it is. A task that `begins` ends with its request any earlier one of the same actor for the wave:
    it was cleared while it waited. One that `renews` asks for nothing new: a request that was ended, by a person, by
    its answer or by such a task, does not come back. UnknownSubjectError for a wave that is not on record.
    """

    name: ClassVar[str] = "ask"
    id: str
    actor: str
    wanted_for: timedelta = WANTED_FOR
    bytes_per_second: int | None = None
    begins: bool = False
    renews: bool = False

    def decide(self, records: Records) -> Change[WaveRequest]:
        wave, known, now = records.wave(self.wave), _own(records, self.id), records.now
        if wave.state in FINISHED:
            ended = tuple(Edit(before=item) for item in records.requests)
            return Change(result=WaveRequest(request=None, now=now), edits=ended)
        if known is None and self.renews:
            return Change(result=WaveRequest(request=None, now=now))
        if known is None:
            new = RequestRow(
                id=self.id,
                pipeline=wave.pipeline,
                wave=wave.id,
                actor=self.actor,
                at=now,
                until=now + self.wanted_for,
                bytes_per_second=self.bytes_per_second,
            )
            told = f"request {self.id}"
            entry = Entry(pipeline=wave.pipeline, actor=self.actor, kind="request", subject=wave.id, detail=told)
            earlier = [item for item in records.requests if self.begins and item.actor == self.actor]
            edits = (*(Edit(before=item) for item in earlier), Edit(after=new))
            return Change(result=WaveRequest(request=new, now=now), edits=edits, entries=(entry,))
        if known.answer is not None or known.until - now > self.wanted_for * (RENEWALS - 1) / RENEWALS:
            return Change(result=WaveRequest(request=known, now=now))
        renewed = replace(known, until=now + self.wanted_for)
        return Change(result=WaveRequest(request=renewed, now=now), edits=(Edit(before=known, after=renewed),))

    def refused(self, *, overlap: bool) -> KafkaLakeError | None:  # noqa: ARG002  # as every write has it
        return guards.taken_id("request", self.id)


class AnswerRequests(RequestWrite[int]):
    """Answer all that was asked for a wave with the error that ended the work on it; returns how many were waiting.

    Nothing is answered while a process works on the wave: it was another one that failed, and this one may not.
    Each of them may ask anew: an answer is not about the wave, and holds nothing.
    """

    name: ClassVar[str] = "answer"
    error: KafkaLakeError
    actor: str

    def decide(self, records: Records) -> Change[int]:
        wave = records.wave(self.wave)
        waiting = [item for item in records.requests if item.answer is None]
        if not waiting or guards.lease_is_live(wave.lease_until, records.now):
            return Change(result=0)
        answer = json.dumps(self.error.to_json(), default=str)
        told = f"{count(len(waiting), 'request')}: {type(self.error).__name__}"
        entry = Entry(pipeline=wave.pipeline, actor=self.actor, kind="answer", subject=wave.id, detail=told)
        return Change(
            result=len(waiting),
            edits=tuple(Edit(before=item, after=replace(item, answer=answer)) for item in waiting),
            entries=(entry,),
        )


class EndRequest(RequestWrite[RequestRow | None]):
    """End a request: its answer is taken, or the wave is not wanted any more. Returns it as it was, None without one.

    The wave may be wanted by others: each request is one task's own.
    """

    id: str

    def decide(self, records: Records) -> Change[RequestRow | None]:
        known = _own(records, self.id)
        return Change(result=known, edits=(Edit(before=known),) if known else ())


def error_of(request: RequestRow | None) -> KafkaLakeError | None:
    """Return the error by which a request was answered; None without an answer."""
    return restored(json.loads(request.answer)) if request is not None and request.answer is not None else None


def is_wanted(requests: Iterable[RequestRecord]) -> bool:
    """Return whether any of some requests still wants its wave."""
    return any(item.is_wanted for item in requests)


def next_request(
    requests: Iterable[RequestRecord],
    *,
    pipelines: Collection[str] = (),
    dead: Callable[[LeaseHolder], bool] = lambda _: False,
) -> RequestRecord | None:
    """Return the first request that a worker of some pipelines, or of all, can take: no living process has its wave."""
    for item in requests:
        is_mine = not pipelines or item.pipeline in pipelines
        if is_mine and item.is_wanted and not (item.lease_live and not (item.holder and dead(item.holder))):
            return item
    return None


def _own(records: Records, name: str) -> RequestRow | None:
    return next((item for item in records.requests if item.id == name), None)
