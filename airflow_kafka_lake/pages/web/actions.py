"""Decisions that people make on the pages: the services and refusals of the command line, in the user's name."""

from __future__ import annotations

from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
from airflow.configuration import conf
from fastapi import APIRouter, Depends
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model
from starlette.exceptions import HTTPException

from airflow_kafka_lake.actions.action import Action, FieldKind
from airflow_kafka_lake.actions.offsets import selected
from airflow_kafka_lake.actions.registry import ACTIONS
from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.ledger.decisions import kept_text
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.planning.selection import Selection
from airflow_kafka_lake.core.spec import TOPIC_NAME
from airflow_kafka_lake.pages.web import access
from airflow_kafka_lake.pages.web.access import AskedDep, Name, PageRequest, unknown
from airflow_kafka_lake.pages.web.answers import digest
from airflow_kafka_lake.pipeline.keys import MAX_PARTITION, parse_bound
from airflow_kafka_lake.services.identity import known_spec

Json = dict[str, Any]
actions = APIRouter(prefix="/api/pipelines/{pipeline}")


def _checked(text: str) -> str:
    """Refuse text that a database cannot keep."""
    try:
        return kept_text(text)
    except UsageError as error:
        raise ValueError(error.message) from None


Reason = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_checked)]
Text = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_checked)]
Topic = Annotated[str, Field(pattern=f"^{TOPIC_NAME.pattern}$")]
TopicId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Partition = Annotated[int, Field(ge=0, le=MAX_PARTITION)]
Bound = Annotated[str, Field(max_length=60), AfterValidator(_checked)]


class DecisionBody(BaseModel):
    """The body of every decision; `request` is an id that the page gives it, so that a second click is none."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    reason: Reason
    request: Annotated[str, Field(max_length=100)] | None = None


class SelectionBody(DecisionBody):
    """A decision about offsets: of which topic, generation and partitions, and from where to where."""

    topic: Topic | None = None
    topic_id: TopicId | None = None
    partitions: Annotated[list[Partition], Field(max_length=100_000)] | None = None
    from_: Annotated[Bound | None, Field(alias="from")] = None
    to: Bound | None = None

    def selection(self) -> Selection:
        """Return the meant offsets. Raises UsageError for a time without a zone, or that is none."""
        bounds = Bounds(
            topic=self.topic,
            partitions=None if self.partitions is None else tuple(sorted(set(self.partitions))),
            start=None if self.from_ is None else parse_bound(self.from_),
            end=None if self.to is None else parse_bound(self.to),
        )
        return selected(bounds, self.topic_id)


def body_of(action: type[Action]) -> type[DecisionBody]:
    """Return the body of an action's request, made of its fields."""
    fields: dict[str, Any] = {"dry_run": (bool, False)} if action.has_dry_run else {}
    for field in action.of_kind(FieldKind.SUBJECT, FieldKind.TEXT, FieldKind.SHOWN):
        fields[field.name] = (Text, ...) if field.needed else (Text | None, None)
    fields |= dict.fromkeys(action.switches(), (bool, False))
    base = SelectionBody if action.of_kind(FieldKind.SELECTION) else DecisionBody
    return create_model(f"{action.__name__}Body", __base__=base, __doc__=action.__doc__, **fields)


def given(action: type[Action], body: DecisionBody) -> Action:
    """Return the action with the values of a body. Raises UsageError for values that it refuses."""
    values = {field.name: getattr(body, field.name, None) for field in action.fields()}
    if isinstance(body, SelectionBody):
        values["selection"] = body.selection()
    return action(**values)


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


def add_route(action: type[Action]) -> None:
    """Let an action be asked for below the address of its pipeline."""

    async def endpoint(asked: GenuineDep, pipeline: Name, body: Any) -> Json:
        return await _decide(asked, pipeline, action, body)

    endpoint.__annotations__ |= {"asked": GenuineDep, "pipeline": Name, "body": body_of(action)}
    actions.post(f"/{action.name}", name=action.name, description=action.__doc__, response_model=None)(endpoint)


async def _decide(asked: PageRequest, pipeline: str, action: type[Action], body: DecisionBody) -> Json:
    """Let a user that may decide about a pipeline decide; a subject of another one is as unknown as none."""
    if not (await asked.before(pipeline)).may_decide:
        raise HTTPException(
            403,
            f"you may see pipeline {pipeline} and not decide about it: that needs the right to trigger one of its "
            "Dags, or to edit the connection of its ledger. Nothing was done",
        )

    def carry_out() -> Json:
        ledger = asked.server.ledgers.ledger(asked.ledger)
        field = action.subject_field()
        subject = getattr(body, field.name) if field else None
        if subject is not None and not ledger.has_subject(pipeline, subject):
            raise unknown("wave, range or plan in this pipeline")
        spec = known_spec(ledger, pipeline)
        with asked.ports(spec) as ports:
            return given(action, body).outcome(ports, spec, dry_run=getattr(body, "dry_run", False)).to_json()

    said = digest(action.name, pipeline, body.model_dump())
    once = (asked.ledger, "decision", asked.user_id, body.request, said)
    try:
        return await asked.decided(carry_out, once=once if body.request else None)
    finally:
        asked.server.workers.forget(asked.ledger)


for each in ACTIONS:
    add_route(each)
