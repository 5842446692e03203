"""Decisions that people make on the pages: the services and refusals of the command line, in the user's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
from airflow.configuration import conf
from fastapi import APIRouter, Depends
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.pages.web import access, reads
from airflow_kafka_lake.pages.web.access import AskedDep, PageRequest, unknown
from airflow_kafka_lake.pages.web.answers import digest
from airflow_kafka_lake.pages.web.routes import Name
from airflow_kafka_lake.pipeline.keys import parse_bound
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services import (
    bulk_decisions,
    decisions,
)
from airflow_kafka_lake.services.reporting import known_spec

Json = dict[str, Any]
Work = Callable[[Ports, PipelineSpec], Json]
B = TypeVar("B", bound="DecisionBody")
actions = APIRouter(prefix="/api/pipelines/{pipeline}")


def _kept(text: str) -> str:
    """Refuse what a database cannot keep."""
    if "\0" in text or text != text.encode(errors="replace").decode():
        raise ValueError("it holds a NUL or broken UTF-8: leave that out")
    return text


Reason = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_kept)]
Subject = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_kept)]
Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
TopicId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Partition = Annotated[int, Field(ge=0, le=2**31 - 1)]
Bound = Annotated[str, Field(max_length=60), AfterValidator(_kept)]


class DecisionBody(BaseModel):
    """What comes with every decision; `request` is an id that the page gives it, so that a second click is none."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    reason: Reason
    request: Annotated[str, Field(max_length=100)] | None = None


class OfWave(DecisionBody):
    """A decision about a wave, or about a range of one."""

    subject: Subject


class Cancel(OfWave):
    """Put a wave, or a range, on hold."""

    drop_staged: bool = False


class SelectionBody(DecisionBody):
    """A decision about offsets: of which topic, generation and partitions, and from where to where."""

    topic: Topic | None = None
    topic_id: TopicId | None = None
    partitions: Annotated[list[Partition], Field(max_length=100_000)] | None = None
    from_: Annotated[Bound | None, Field(alias="from")] = None
    to: Bound | None = None
    dry_run: bool = False

    def bounds(self) -> Bounds:
        """Return topic, partitions, begin and end; UsageError for a time without a zone, or that is none."""
        return Bounds(
            topic=self.topic,
            partitions=None if self.partitions is None else tuple(sorted(set(self.partitions))),
            start=None if self.from_ is None else parse_bound(self.from_),
            end=None if self.to is None else parse_bound(self.to),
        )


class OfPeriod(SelectionBody):
    """A decision about a period with both ends, with switches of its own."""

    drop_staged: bool = False

    def about_a_period(self, decide: Callable[..., Json]) -> Work:
        """Return how it is carried out: the decision is given the period, the reason, and its switches by name."""
        switches = type(self).model_fields.keys() - SelectionBody.model_fields.keys()
        how = self.model_dump(include={"reason", "dry_run", *switches})
        return lambda ports, spec: decide(ports, spec, bulk_decisions.period(self.bounds(), self.topic_id), **how)


class SkipBody(OfPeriod):
    """Pass a period unread."""

    acknowledge_order: bool = False


class ReopenBody(OfPeriod):
    """Have a period read again."""

    accept_fewer: bool = False


class WithdrawBody(SelectionBody):
    """Take off the plan what no run has begun: of a plan, a wave or a range, or without a `subject` of all."""

    subject: Subject | None = None


class ResumeBody(DecisionBody):
    """End the pause of a pipeline, or of one plan of it."""

    plan: Subject | None = None


class PauseBody(ResumeBody):
    """Begin nothing new of a pipeline, or of one plan; with `now`, end what is at work too."""

    now: bool = False


def genuine(asked: AskedDep) -> PageRequest:
    """Refuse a request that these pages have not made."""
    request = asked.request
    reason = access.refusal(
        request.headers,
        user=asked.user_id,
        secret=asked.server.secret(),
        base_url=conf.get("api", "base_url", fallback=""),
        by_bearer_alone="authorization" in request.headers and COOKIE_NAME_JWT_TOKEN not in request.cookies,
    )
    if reason is not None:
        raise HTTPException(403, f"{reason}. Nothing was done")
    return asked


GenuineDep = Annotated[PageRequest, Depends(genuine)]


@actions.post("/cancel")
async def cancel(asked: GenuineDep, pipeline: Name, body: Cancel) -> Json:
    """Put a wave or a range on hold; one that is being worked on is taken from its worker."""

    def work(ports: Ports, _: PipelineSpec) -> Json:
        done = decisions.cancel(ports, body.subject, body.reason, drop_staged=body.drop_staged)
        return {"cancelled": list(done)}

    return await _decide(asked, pipeline, body, work, subject=body.subject)


@actions.post("/release")
async def release(asked: GenuineDep, pipeline: Name, body: OfWave) -> Json:
    """Take a wave or a range off hold."""

    def work(ports: Ports, _: PipelineSpec) -> Json:
        wave, ranges = decisions.release(ports, body.subject, body.reason)
        return {"wave": wave, "released": list(ranges)}

    return await _decide(asked, pipeline, body, work, subject=body.subject)


@actions.post("/retry")
async def retry(asked: GenuineDep, pipeline: Name, body: OfWave) -> Json:
    """Make a wave ready for its next try."""

    def work(ports: Ports, _: PipelineSpec) -> Json:
        done = decisions.retry(ports, body.subject, body.reason)
        return {"wave": done.wave, "ready": done.ready.value}

    return await _decide(asked, pipeline, body, work, subject=body.subject)


@actions.post("/skip")
async def skip(asked: GenuineDep, pipeline: Name, body: SkipBody) -> Json:
    """Pass a period unread, or show what that would change."""
    return await _decide(asked, pipeline, body, body.about_a_period(bulk_decisions.skip))


@actions.post("/reopen")
async def reopen(asked: GenuineDep, pipeline: Name, body: ReopenBody) -> Json:
    """Have a period read again, or show what that would change."""
    return await _decide(asked, pipeline, body, body.about_a_period(bulk_decisions.reopen))


@actions.post("/withdraw")
async def withdraw(asked: GenuineDep, pipeline: Name, body: WithdrawBody) -> Json:
    """Take off the plan what no run has begun to read, or show what that would be."""

    def work(ports: Ports, spec: PipelineSpec) -> Json:
        selection = bulk_decisions.selected(body.bounds(), body.topic_id)
        return bulk_decisions.withdraw(
            ports, body.subject or spec.name, selection, reason=body.reason, dry_run=body.dry_run
        )

    return await _decide(asked, pipeline, body, work, subject=body.subject)


@actions.post("/pause")
async def pause(asked: GenuineDep, pipeline: Name, body: PauseBody) -> Json:
    """Let nothing new of a pipeline or a plan be begun."""

    def work(ports: Ports, _: PipelineSpec) -> Json:
        subject = decisions.PauseSubject(pipeline=pipeline, plan=body.plan)
        return decisions.pause(ports, subject, body.reason, now=body.now).to_json()

    return await _decide(asked, pipeline, body, work, subject=body.plan)


@actions.post("/resume")
async def resume(asked: GenuineDep, pipeline: Name, body: ResumeBody) -> Json:
    """End a pause."""

    def work(ports: Ports, _: PipelineSpec) -> Json:
        subject = decisions.PauseSubject(pipeline=pipeline, plan=body.plan)
        return decisions.resume(ports, subject, body.reason).to_json()

    return await _decide(asked, pipeline, body, work, subject=body.plan)


async def _decide(
    asked: PageRequest,
    pipeline: str,
    body: DecisionBody,
    work: Work,
    *,
    subject: str | None = None,
) -> Json:
    """Let a user who may decide about a pipeline decide; a `subject` of another one is as unknown as none."""
    if not await asked.may_decide(pipeline):
        raise HTTPException(
            403,
            f"you may see pipeline {pipeline} and not decide about it: that needs the right to trigger one of its "
            "Dags, or to edit the connection of its ledger. Nothing was done",
        )

    def carry_out() -> Json:
        ledger = asked.server.ledgers.ledger(asked.ledger)
        if subject is not None and not reads.has_subject(ledger, pipeline, subject):
            raise unknown("wave, range or plan in this pipeline")
        spec = known_spec(ledger, pipeline)
        with asked.ports(spec) as ports:
            return work(ports, spec)

    said = digest(type(body).__name__, pipeline, body.model_dump())
    once = (asked.ledger, "decision", asked.user_id, body.request, said)
    try:
        return await asked.decided(carry_out, once=once if body.request else None)
    finally:
        asked.server.workers.forget(asked.ledger)
