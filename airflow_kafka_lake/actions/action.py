"""An action of a person: its fields with their names, texts and checks, which every form that asks a person reads.

The command line, Airflow's forms and templates, the bodies of HTTP requests and the buttons of the pages are made from
the fields of the classes that `ACTIONS` lists.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, dataclass_transform

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.ledger.decisions import needed_reason
from airflow_kafka_lake.core.remedies import Remedy
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import LedgerReader, Ports

Json = dict[str, Any]
FIELD = "action field"
"""Key of the metadata of a dataclass field."""


class FieldKind(StrEnum):
    """How a field is filled in; each form has its own way for each kind."""

    SUBJECT = "subject"
    """The id of a plan, wave or range. A command takes it where it takes a pipeline otherwise."""
    SELECTION = "selection"
    """Topic, generation, partitions, begin and end; a needed one has a topic and both ends."""
    TEXT = "text"
    SWITCH = "switch"
    REASON = "reason"
    SHOWN = "shown"
    """The digest of a dry run, which a program hands on: no form asks a person for it."""


FindSubject = Callable[[LedgerReader, str], tuple[str, str | None]]
"""Return the pipeline of a name, and the part that it means: None for all of it; UnknownSubjectError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionField:
    """One field of an action: `help` is a clause in lower case, which every form shows.

    `warning` is the sentence for the approval of an action with this switch; `metavar` and `find` are of a subject.
    """

    name: str = ""
    kind: FieldKind
    title: str
    help: str
    needed: bool
    warning: str = ""
    metavar: str = "TEXT"
    find: FindSubject | None = None

    @property
    def sentence(self) -> str:
        """The help as a sentence."""
        return f"{self.help[0].upper()}{self.help[1:]}."


def asked(kind: FieldKind, title: str, help_: str, *, needed: bool = True, default: Any = None, **more: Any) -> Any:
    """Declare a dataclass field that a person fills in; one that is not needed has a default."""
    item = ActionField(kind=kind, title=title, help=help_, needed=needed, **more)
    return dataclasses.field(default=dataclasses.MISSING if needed else default, metadata={FIELD: item})


def switch(title: str, help_: str, warning: str = "") -> Any:
    """Declare a field that is off unless a person sets it."""
    return asked(FieldKind.SWITCH, title, help_, needed=False, default=False, warning=warning)


def drop_staged() -> Any:
    """Declare the switch that gives up the staged rows."""
    return switch(
        "Drop staged rows",
        "also if rows would be dropped that are staged, not landed, and gone from Kafka",
        "Staged records that exist nowhere else may be dropped: they are lost then.",
    )


TerminalTable = tuple[str, Sequence[str], Sequence[Sequence[object]]]
"""Title, columns and rows of a table among the lines for a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionOutcome:
    """The result of an action, or of its dry run; `digest` says which offsets it is about, where it is about some.

    The command of that name prints `document` with `--json`, which the pages answer too, and `lines` without it. It
    ends with exit code 1 where a part was `refused`. Of a dry run that `leaves_nothing` there is nothing to carry out.
    """

    document: Json
    lines: Sequence[str | TerminalTable]
    refused: bool = False
    leaves_nothing: bool = False
    digest: str = ""

    def to_json(self) -> Json:
        """Return the document, with the digest as `shown`."""
        return self.document | ({"shown": self.digest} if self.digest else {})


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True, kw_only=True)
class Action(ABC):
    """One action with the values that a person gave. Raises UsageError for a reason that is none.

    A class of it is a frozen dataclass with keywords only, as declared.
    """

    name: ClassVar[str]
    help: ClassVar[str]
    label: ClassVar[str]
    title: ClassVar[str]
    consequences: ClassVar[tuple[str, ...]]
    asks: ClassVar[str] = ""
    grave: ClassVar[bool] = False
    is_command: ClassVar[bool] = True
    has_dry_run: ClassVar[bool] = False

    reason: str | None = asked(FieldKind.REASON, "Reason", "why, for those who read it later")

    def __init_subclass__(cls) -> None:
        """Make a dataclass of the class: a field that was forgotten would be in no form."""
        dataclass(frozen=True, kw_only=True)(cls)

    def __post_init__(self) -> None:
        """Check the reason, wherever it was typed."""
        given = (self.reason or "").strip() or None
        if given is not None or self.field("reason").needed:
            given = needed_reason(given or "")
        object.__setattr__(self, "reason", given)

    @classmethod
    def fields(cls) -> tuple[ActionField, ...]:
        """Return its fields: the reason is the last but for switches."""
        declared = [
            dataclasses.replace(item.metadata[FIELD], name=item.name)
            for item in dataclasses.fields(cls)
            if FIELD in item.metadata
        ]
        return tuple(sorted(declared, key=lambda item: list(FieldKind).index(item.kind)))

    @classmethod
    def field(cls, name: str) -> ActionField:
        """Return the field of a name."""
        return next(item for item in cls.fields() if item.name == name)

    @classmethod
    def of_kind(cls, *kinds: FieldKind) -> tuple[ActionField, ...]:
        """Return the fields of some kinds."""
        return tuple(item for item in cls.fields() if item.kind in kinds)

    @classmethod
    def is_on_menu(cls) -> bool:
        """Return whether a pipeline's page offers it for whatever a person chooses."""
        return cls.subject_field() is None or bool(cls.of_kind(FieldKind.SELECTION))

    @classmethod
    def switches(cls) -> tuple[str, ...]:
        """Return the names of its switches."""
        return tuple(item.name for item in cls.of_kind(FieldKind.SWITCH))

    @classmethod
    def subject_field(cls) -> ActionField | None:
        """Return the field for a plan, a wave or a range; None for an action about a pipeline."""
        return next(iter(cls.of_kind(FieldKind.SUBJECT)), None)

    @classmethod
    def button_label(cls, remedy: Remedy) -> str:  # noqa: ARG003  # for actions that say more
        """Return the label of its button; `remedy` has the known part of it."""
        return cls.label

    @classmethod
    def button_title(cls, remedy: Remedy) -> str:
        """Return the title of the question to a person."""
        return f"{cls.title} {remedy.subject}" if cls.subject_field() and remedy.subject else cls.title

    @classmethod
    def button_asks(cls, remedy: Remedy) -> str:
        """Return the line that the effects of a dry run replace; empty without a dry run."""
        if not cls.has_dry_run or (known := remedy.slice) is None:
            return cls.asks
        return f"{count(known.range.span, 'offset')} of {known.stream}, {known.range.start} to {known.range.end}."

    @classmethod
    def button_lines(cls, remedy: Remedy, ranges: int = 0) -> tuple[str, ...]:  # noqa: ARG003  # for actions that say more
        """Return the consequences that a person confirms; `ranges` is how many its wave has."""
        return cls.consequences

    @classmethod
    def is_grave(cls, remedy: Remedy) -> bool:  # noqa: ARG003  # for actions that say more
        """Return whether it cannot be taken back."""
        return cls.grave

    @abstractmethod
    def apply(self, ports: Ports, spec: PipelineSpec) -> ActionOutcome:
        """Carry the action out. Raises its refusal."""

    def preview(self, ports: Ports, spec: PipelineSpec) -> ActionOutcome:
        """Return its exact result, where it has a dry run."""
        raise NotImplementedError

    def outcome(self, ports: Ports, spec: PipelineSpec, *, dry_run: bool) -> ActionOutcome:
        """Carry the action out, or try it."""
        return self.preview(ports, spec) if dry_run else self.apply(ports, spec)
