"""Remedies as buttons: what is sent, and what it will do in words and numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.remedies import Remedy
from airflow_kafka_lake.core.slices import Slice
from airflow_kafka_lake.pages.rendering import Json, Visitor, address

ASKED_FIRST = frozenset({"skip", "reopen", "withdraw"})
"""Commands that are tried as a dry run before a person confirms them: it says exactly what they would do."""


class FieldKind(StrEnum):
    """How something is filled in."""

    TEXT = "text"
    PARTITIONS = "partitions"
    FLAG = "flag"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One further thing that a person fills in; `name` is its key in what is sent."""

    name: str
    label: str
    kind: FieldKind = FieldKind.TEXT
    value: str = ""
    options: tuple[str, ...] = ()
    """What can be chosen, if not anything; the empty one is all."""
    hint: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """One command: `body` is sent to `url` with the reason, after the person has read `consequences`.

    `grave` is what cannot be taken back.
    """

    command: str
    url: str
    label: str
    title: str
    consequences: tuple[str, ...]
    body: Json = field(default_factory=dict)
    fields: tuple[Field, ...] = ()
    grave: bool = False

    @property
    def wire(self) -> str:
        """The button for the page's script."""
        document = {
            "command": self.command,
            "url": self.url,
            "title": self.title,
            "label": self.label,
            "lines": self.consequences,
            "body": self.body,
            "fields": [asdict(item) for item in self.fields],
            "grave": self.grave,
            "first": self.command in ASKED_FIRST,
        }
        return json.dumps(document, separators=(",", ":"))


def button_of(remedy: Remedy, pipeline: str, visitor: Visitor) -> Button | None:
    """Return the button for a command; None for one that has none, and for a visitor who may not give it."""
    if not visitor.may_decide:
        return None
    match remedy:
        case Remedy(command="skip", slice=Slice() as item):
            return skip(pipeline, item, remedy, visitor)
        case Remedy(command="release", subject=str(subject)):
            return release(pipeline, subject, visitor)
        case Remedy(command="cancel", subject=str(subject)):
            return cancel(pipeline, subject, visitor, drop_staged="drop_staged" in remedy.switches)
        case Remedy(command="resume", subject=str(subject)):
            return resume(pipeline, subject, visitor)
        case _:
            return None


def skip(pipeline: str, item: Slice, remedy: Remedy, visitor: Visitor) -> Button:
    """Return the button that passes a slice unread."""
    where, start, end = str(item.stream), item.range.start, item.range.end
    what = count(item.range.span, "offset")
    lines = [
        f"{what} of {where}, {start} to {end}, will not be in the table.",
        "The watermark passes them, and every audit counts them as skipped, with your name and reason.",
        "Only a reopen reads them later, and only while Kafka still has them.",
    ]
    if "acknowledge_order" in remedy.switches:
        lines.append("Later partitions of the topic no longer wait for them: the order of records has a gap here.")
    generation = {"topic_id": item.stream.topic_id} if remedy.names_topic_id else {}
    sent = {"topic": item.stream.topic, **generation, "from": str(start), "to": str(end)}
    return Button(
        command="skip",
        url=_url(visitor, pipeline, "skip"),
        label=f"Skip {what}",
        title=f"Skip {where} {start}-{end}",
        body=sent | dict.fromkeys(remedy.switches, True) | {"partitions": [item.stream.partition]},
        consequences=tuple(lines),
        grave=True,
    )


def release(pipeline: str, subject: str, visitor: Visitor) -> Button:
    """Return the button that takes a wave or a range off hold."""
    return Button(
        command="release",
        url=_url(visitor, pipeline, "release"),
        label="Release",
        title=f"Release {subject}",
        body={"subject": subject},
        consequences=(
            "It is planned again: a run that takes it reads it, which is the next one without bounds.",
            "If the cause is still there, it is put on hold again. Nothing is lost by trying.",
        ),
    )


def retry(pipeline: str, wave: str, visitor: Visitor) -> Button:
    """Return the button that makes a wave ready for its next try."""
    return Button(
        command="retry",
        url=_url(visitor, pipeline, "retry"),
        label="Retry",
        title=f"Retry wave {wave}",
        body={"subject": wave},
        consequences=(
            "The table is asked whether the wave is there; if it is, it is recorded as landed.",
            "If it is not, it is free for the next run. Records cannot come twice by that.",
        ),
    )


def cancel(pipeline: str, wave: str, visitor: Visitor, *, drop_staged: bool = False, ranges: int = 0) -> Button:
    """Return the button that puts a wave on hold."""
    size = f" with its {count(ranges, 'range')}" if ranges else ""
    lines = [
        f"Wave {wave}{size} is taken from the worker that has it, if there is one; nothing of it becomes visible.",
        "The watermarks of its partitions stop before it. Other waves go on.",
        "It stays on hold until a person releases it.",
    ]
    if drop_staged:
        lines.append("What it has staged is the only copy of some records, and is given up: they are lost.")
    return Button(
        command="cancel",
        url=_url(visitor, pipeline, "cancel"),
        label="Give up what is staged" if drop_staged else "Cancel",
        title=f"Cancel wave {wave}",
        body={"subject": wave} | ({"drop_staged": True} if drop_staged else {}),
        consequences=tuple(lines),
        grave=drop_staged,
    )


def pause(pipeline: str, visitor: Visitor) -> Button:
    """Return the button that lets nothing new of a pipeline be begun."""
    return Button(
        command="pause",
        url=_url(visitor, pipeline, "pause"),
        label="Pause",
        title=f"Pause {pipeline}",
        consequences=(
            "No new plan is made, and no run or command begins a further wave, until a person resumes it.",
            "Waves that are being read go on to their end. Meanwhile Kafka's retention goes on.",
        ),
        fields=(_flag("now", "stop what is being read too; it is read again after the resume"),),
    )


def resume(pipeline: str, subject: str, visitor: Visitor) -> Button:
    """Return the button that ends the pause of a pipeline, or of a plan of it."""
    return Button(
        command="resume",
        url=_url(visitor, pipeline, "resume"),
        label="Resume",
        title=f"Resume {subject}",
        body={} if subject == pipeline else {"plan": subject},
        consequences=("The next run goes on where the pause began. Nothing is begun by this alone.",),
    )


def decisions(pipeline: str, topics: tuple[str, ...], visitor: Visitor) -> Iterator[Button]:
    """Give the buttons for decisions about a period of one's own choice."""
    if not visitor.may_decide or not topics:
        return
    yield Button(
        command="skip",
        url=_url(visitor, pipeline, "skip"),
        label="Skip offsets …",
        title="Pass offsets unread",
        consequences=("They will not be in the table. Fill in which, and see here how many they are.",),
        fields=(*_period(topics), _flag("acknowledge_order", "the order of records may have a gap here")),
        grave=True,
    )
    yield Button(
        command="reopen",
        url=_url(visitor, pipeline, "reopen"),
        label="Read again …",
        title="Read offsets again",
        consequences=(
            "What is in the table is replaced, in one commit, by what Kafka has now; until then it stays as it is.",
            "The watermarks move back. Fill in which offsets, and see here how many they are.",
        ),
        fields=(*_period(topics), _flag("accept_fewer", "fewer rows than there are may come of it")),
    )
    yield Button(
        command="withdraw",
        url=_url(visitor, pipeline, "withdraw"),
        label="Withdraw from the plan …",
        title="Withdraw what no run has begun",
        consequences=("Planned ranges that were never claimed are taken off the plan. A later plan takes them again.",),
        fields=_period(topics, required=False),
    )


def _period(topics: tuple[str, ...], *, required: bool = True) -> tuple[Field, ...]:
    one = "offset, or time with a zone: 2026-03-01T00:00:00Z"
    choice = topics if required else ("", *topics)
    return (
        Field(name="topic", label="Topic", value=choice[0], options=choice, required=required),
        Field(name="partitions", label="Partitions", kind=FieldKind.PARTITIONS, hint="all, or: 0, 3, 7-9"),
        Field(name="from", label="From", hint=one, required=required),
        Field(name="to", label="To, not included", hint=one, required=required),
    )


def _flag(name: str, label: str) -> Field:
    return Field(name=name, label=label, kind=FieldKind.FLAG)


def _url(visitor: Visitor, pipeline: str, command: str) -> str:
    return address(visitor, "api", "pipelines", pipeline, command)
