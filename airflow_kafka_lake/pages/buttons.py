"""Remedies as buttons: the request, and its consequences in words and numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_kafka_lake.actions.action import Action, FieldKind
from airflow_kafka_lake.actions.registry import ACTIONS
from airflow_kafka_lake.actions.waves import CancelAction, ReleaseAction, RetryAction
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.ledger.records import WaveRecord
from airflow_kafka_lake.core.remedies import Remedy
from airflow_kafka_lake.core.reports.attention import Attention, Need
from airflow_kafka_lake.pages.rendering import Json, Visitor, address


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """One command: `body` is sent to `url` with the reason, after the person has read `consequences`.

    A `grave` one cannot be taken back. Where it `asks`, the effects of a dry run take the place of that line: the
    page's script sends the same body with `dry_run` whenever all needed `fields` are filled in, and words the answer by
    the `command`.
    """

    command: str
    url: str
    label: str
    title: str
    consequences: tuple[str, ...]
    asks: str = ""
    body: Json = field(default_factory=dict)
    fields: tuple[Json, ...] = ()
    grave: bool = False

    @property
    def wire(self) -> str:
        """The button for the page's script."""
        return json.dumps(asdict(self), separators=(",", ":"))


def button_of(remedy: Remedy, pipeline: str, visitor: Visitor) -> Button | None:
    """Return the button for a remedy; None for one that is no action or says too little, and for a visitor without
    the right to decide."""
    action = _ACTIONS.get(remedy.command)
    if action is None or not visitor.may_decide:
        return None
    lacks_slice = action.of_kind(FieldKind.SELECTION) and remedy.slice is None
    lacks_subject = action.subject_field() and remedy.subject is None
    return None if lacks_slice or lacks_subject else action_button(action, pipeline, visitor, remedy=remedy)


_ACTIONS = {action.name: action for action in ACTIONS}


def action_button(
    action: type[Action],
    pipeline: str,
    visitor: Visitor,
    *,
    remedy: Remedy | None = None,
    topics: tuple[str, ...] = (),
    ranges: int = 0,
) -> Button:
    """Return the button for an action; the rest of a remedy is filled in by the person."""
    known = remedy or Remedy(command=action.name)
    subject = action.subject_field()
    is_chosen = known.slice is not None or (subject is not None and subject.needed)
    return Button(
        command=action.name,
        url=address(visitor, "api", "pipelines", pipeline, action.name),
        label=action.button_label(known),
        title=action.button_title(known),
        consequences=action.button_lines(known, ranges),
        asks=action.button_asks(known),
        body=_body(action, pipeline, known),
        fields=() if is_chosen else tuple(_fields(action, topics)),
        grave=action.is_grave(known),
    )


_RETRIED = frozenset({Need.UNANSWERED, Need.INTERRUPTED})
"""Needs of a wave whose worker is gone."""


def need_buttons(item: Attention, pipeline: str, visitor: Visitor) -> Iterator[Button]:
    """Yield the buttons for a need of a person: its remedies, and another try of a wave whose last one is over."""
    retry = [Remedy(command="retry", subject=item.subject)] if item.need in _RETRIED else []
    for remedy in (*item.commands, *retry):
        if button := button_of(remedy, pipeline, visitor):
            yield button


def wave_buttons(wave: WaveRecord, visitor: Visitor, *, label: str, kind: str) -> Iterator[Button]:
    """Yield the buttons for a wave of a list, by its label and the kind of its line."""
    pipeline = wave.pipeline
    if label == "cancelled":
        yield action_button(ReleaseAction, pipeline, visitor, remedy=remedies.release(wave.id))
    if label == "interrupted":
        yield action_button(RetryAction, pipeline, visitor, remedy=Remedy(command="retry", subject=wave.id))
    if kind in {"behind", "running", "waiting"}:
        yield action_button(CancelAction, pipeline, visitor, remedy=remedies.cancel(wave.id), ranges=wave.ranges)


def decisions(pipeline: str, topics: tuple[str, ...], visitor: Visitor) -> Iterator[Button]:
    """Yield the buttons for actions whose offsets a person chooses."""
    if visitor.may_decide and topics:
        yield from (action_button(each, pipeline, visitor, topics=topics) for each in ACTIONS if each.is_on_menu())


def _body(action: type[Action], pipeline: str, remedy: Remedy) -> Json:
    body: dict[str, Any] = {}
    if (subject := action.subject_field()) and remedy.subject not in {None, pipeline}:
        body[subject.name] = remedy.subject
    if (meant := remedy.slice) is not None:
        generation = {"topic_id": meant.stream.topic_id} if remedy.names_topic_id else {}
        offsets = {"from": str(meant.range.start), "to": str(meant.range.end)}
        body |= {"topic": meant.stream.topic, **generation, **offsets, "partitions": [meant.stream.partition]}
    return body | dict.fromkeys(remedy.switches, True)


def _fields(action: type[Action], topics: tuple[str, ...]) -> Iterator[Json]:
    for each in action.fields():
        if each.kind is FieldKind.SELECTION:
            yield from _period(topics, required=each.needed)
        elif each.kind is FieldKind.SWITCH:
            yield _field(each.name, each.help, "flag")
        elif each.kind is FieldKind.TEXT:
            yield _field(each.name, each.title, hint=each.help, required=each.needed)


def _period(topics: tuple[str, ...], *, required: bool) -> Iterator[Json]:
    one = "offset, or time with a zone: 2026-03-01T00:00:00Z"
    choice = topics if required else ("", *topics)
    yield _field("topic", "Topic", value=choice[0], options=choice, required=required)
    yield _field("partitions", "Partitions", "partitions", hint="all, or: 0, 3, 7-9")
    yield _field("from", "From", hint=one, required=required)
    yield _field("to", "To, not included", hint=one, required=required)


def _field(name: str, label: str, kind: str = "text", **more: Any) -> Json:
    """Return one thing that a person fills in, for the page's script: `name` is its key in the request.

    `options` are the values to choose from, if not any; the empty one is all.
    """
    usual = {"value": "", "options": (), "hint": "", "required": False}
    return {"name": name, "label": label, "kind": kind, **usual, **more}
