"""The forms of the ready-made Dags: fields as Airflow's page shows them, and templates that hand them to operators.

A field that Airflow would refuse in the words of JSON Schema ("does not match …", "is not a 'date-time'") is shown by
its schema and not checked by it: the first task reads it and refuses it in a sentence. Fields that cannot be
filled in wrong on the page (a choice, a switch) stay strict, so that a wrong value starts no run at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from airflow.sdk import Param

from airflow_kafka_lake.actions.action import Action, FieldKind
from airflow_kafka_lake.pipeline import Pipeline

SETTING = "[kafka_lake] pipelines_folder (AIRFLOW__KAFKA_LAKE__PIPELINES_FOLDER)"
NO_PIPELINES = f"There is none to choose: {SETTING} is not set, or has no pipeline files (*.toml)."
OPEN, OFFSETS, HOW = None, "Period by offset", "How"
"""Sections, in the order in which the page shows them. It opens the fields without one, and keeps the others closed."""

_SHOWN_ONLY: Mapping[str, Any] = {
    # Until draft 7, JSON Schema ignores what stands beside a `$ref`: the page reads it, and no validator does.
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$ref": "#/definitions/anything",
    "definitions": {"anything": {}},
}
_ZONE = "in the time zone of Airflow's menu. A program gives the zone: 2026-03-01T06:00:00+01:00"


def ingest_form(pipelines: Mapping[str, Pipeline]) -> dict[str, Param]:
    """Return the fields of a run by hand: its pipeline, its offsets, and the limits of the run."""
    return {
        "pipeline": _choice(pipelines),
        "topic": _topic(pipelines, "Only this topic; empty for all topics of the pipeline."),
        "partitions": _partitions(),
        **_times("Empty for no begin: from what is missing on.", "Empty for no end: as far as the pipeline reads."),
        "dry_run": _switch(OPEN, "Dry run", "Only show the plan, in the tab Required Actions of the task review."),
        "ask": _switch(OPEN, "Ask before it starts", "Show the plan there, and wait a day at most for an approval."),
        "reason": _text(OPEN, "Reason", "Why it is read, for those who look at the plan later."),
        **_offsets(OFFSETS),
        "all_waves": _switch(HOW, "Everything unfinished", "Also finish what earlier runs left outside of the period."),
        "acknowledge_order": _switch(
            HOW,
            "Acknowledge order",
            "Also read offsets before those the pipeline began with, though later records are in the table already.",
        ),
        "max_waves": _text(HOW, "Waves at most", "Begin so many waves at most, and leave the rest planned."),
        "bytes_per_second": _text(
            HOW, "Bytes per second", "Read no faster than this, such as 5 MB, instead of the pipeline's own rate."
        ),
    }


def ingest_templates() -> dict[str, Any]:
    """Return the templates that hand an ingest form to `kafka_lake_ingest` and PlanIngestOperator."""
    return {
        **_texts("pipeline", "topic", "max_waves", "bytes_per_second", "reason"),
        "partitions": LISTED,
        "from_": _first_of("from", "from_offset"),
        "to": _first_of("to", "to_offset"),
        **_flags("all_waves", "acknowledge_order"),
    }


def review_templates() -> dict[str, Any]:
    """Return the templates that hand an ingest form to ReviewPlanOperator."""
    return {
        **ingest_templates(),
        **{name: _first_of(field) for name, field in _ENDS.items()},
        "is_dry_run": "{{ params['dry_run'] | tojson }}",
        **_flags("ask"),
    }


def decision_form(action: type[Action], pipelines: Mapping[str, Pipeline]) -> dict[str, Param]:
    """Return the fields of an action of a person: its subject, its switches, and the reason."""
    form = {"pipeline": _choice(pipelines)}
    for field in action.fields():
        match field.kind:
            case FieldKind.SUBJECT:
                form[field.name] = _text(OPEN, field.title, field.sentence, needed=field.needed)
            case FieldKind.SELECTION:
                form |= _selection(pipelines, needed=field.needed)
            case FieldKind.TEXT:
                form[field.name] = _text(HOW, field.title, field.sentence, needed=field.needed)
            case FieldKind.SWITCH:
                form[field.name] = _switch(HOW, field.title, field.sentence)
            case FieldKind.REASON:
                form[field.name] = _text(OPEN, field.title, field.sentence, needed=True)
            case FieldKind.SHOWN:
                pass
            case _ as never:
                assert_never(never)
    return form


def decision_templates(action: type[Action]) -> dict[str, Any]:
    """Return the templates that hand a form to the operator of its action."""
    texts = [field.name for field in action.of_kind(FieldKind.SUBJECT, FieldKind.TEXT)]
    found = _texts("pipeline", *texts, "reason") | _flags(*action.switches())
    if action.of_kind(FieldKind.SELECTION):
        found |= _texts("topic", "topic_id") | {"partitions": LISTED}
        found |= {name: _first_of(field) for name, field in _ENDS.items()}
    return found


def _selection(pipelines: Mapping[str, Pipeline], *, needed: bool) -> dict[str, Param]:
    topic = "The topic it is about. Needed." if needed else "Only this topic; empty for all topics of the pipeline."
    ends = ("Needed, or an offset.",) * 2 if needed else ("Empty for no begin.", "Empty for no end.")
    return {
        "topic": _topic(pipelines, topic, needed=needed),
        "partitions": _partitions(),
        "topic_id": _text(
            OPEN, "Topic id", "Only where the topic was deleted and created again: the id of the one that is meant."
        ),
        **_times(*ends),
        **_offsets(OPEN),
    }


_ENDS = {"from_": "from", "to": "to", "from_offset": "from_offset", "to_offset": "to_offset"}

LISTED = (
    "{{ '' if params['partitions'] is none else params['partitions'] if params['partitions'] is string "
    "else params['partitions'] | tojson }}"
)
"""Partitions as a person types them, or as a program lists them."""


def _texts(*fields: str) -> dict[str, str]:
    return {field: f"{{{{ params['{field}'] or '' }}}}" for field in fields}


def _flags(*fields: str) -> dict[str, str]:
    return {field: f"{{{{ params['{field}'] | tojson }}}}" for field in fields}


def _first_of(*fields: str) -> str:
    """Return the template of the first of some fields that is filled in; offset 0 is."""
    each = " else ".join(f"params['{field}'] if params['{field}'] not in (none, '')" for field in fields)
    return f"{{{{ {each} else '' }}}}"


def _choice(pipelines: Mapping[str, Pipeline]) -> Param:
    """Return the choice of a pipeline. Of several none is chosen beforehand, and none is no run."""
    words = "A file of the folder [kafka_lake] pipelines_folder. One must be chosen."
    only: dict[str, Any] = {"default": next(iter(pipelines))} if len(pipelines) == 1 else {}
    look: dict[str, Any] = {"title": "Pipeline", "description": words, "section": OPEN}
    if not pipelines:
        return Param(type="string", minLength=1, maxLength=0, **look | {"description": NO_PIPELINES})
    return Param(type="string", enum=list(pipelines), **only, **look)


def _topic(pipelines: Mapping[str, Pipeline], description: str, *, needed: bool = False) -> Param:
    known = sorted({topic for pipeline in pipelines.values() for topic in pipeline.spec.topics})
    return _text(OPEN, "Topic", description, look={"examples": known} if known else {}, needed=needed)


def _partitions() -> Param:
    return _text(OPEN, "Partitions", "Only these partitions, such as 0-5, 9; empty for all.")


def _times(begin: str, end: str) -> dict[str, Param]:
    return {
        "from": _text(OPEN, "From", f"Begin, {_ZONE}. {begin}", look={"format": "date-time"}),
        "to": _text(OPEN, "To", f"End, exclusive, {_ZONE}. {end}", look={"format": "date-time"}),
    }


def _offsets(section: str | None) -> dict[str, Param]:
    """Return the ends of a period as offsets: which of the ends are filled in decides."""
    return {
        "from_offset": _text(section, "From offset", "Begin as an offset, of each partition chosen above."),
        "to_offset": _text(section, "To offset", "End as an offset, exclusive, of each partition chosen above."),
    }


def _switch(section: str | None, title: str, description: str) -> Param:
    return Param(False, type="boolean", title=title, description=description, section=section)


def _text(
    section: str | None, title: str, description: str, *, look: Mapping[str, Any] | None = None, needed: bool = False
) -> Param:
    """Return a text that the first task checks; the page starts no run while a needed one is empty."""
    kind: Any = "string" if needed else ["null", "string"]
    shown = {"type": kind, "title": title, "section": section, **(look or {})}
    return Param(None, description=description, **_SHOWN_ONLY, **shown)
