"""What a feature may add to the main path, which knows no feature: everything in a `Feature` is optional."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from airflow_kafka_lake.core.audit.inputs import AuditInputs, Finding
from airflow_kafka_lake.core.audit.report import Observed, Scope
from airflow_kafka_lake.core.decoding import Decoder, Decoding
from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.ledger.records import Claim, Staged, Verdict
from airflow_kafka_lake.core.spec import PipelineSpec

if TYPE_CHECKING:
    from airflow_kafka_lake.ports import Ports

Json = Mapping[str, Any]


class Checked(Protocol):
    """The result of a further check of an audit."""

    def findings(self) -> Iterable[Finding]:
        """Return what is wrong."""

    def to_json(self) -> dict[str, Any]:
        """Return its part of `audit --json`; people are shown its `sentence` and `lines`."""


class AuditCheck(Protocol):
    """A further check of an audit; it needs Kafka."""

    @property
    def name(self) -> str:
        """Its key in `audit --json`."""

    @property
    def needs_spark(self) -> bool:
        """Return whether it runs a job."""

    def narrow(self, inputs: AuditInputs) -> AuditInputs:
        """Return the inputs without what this check knows not to belong to the pipeline."""

    def check(self, ports: Ports, spec: PipelineSpec, inputs: AuditInputs, observed: Observed, scope: Scope) -> Checked:
        """Gather what the check needs through ports, and return its result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of a command, `--name` on the command line; a flag unless it has a `metavar`.

    `beside` is the option that it needs, and `does` describes what it adds to that one.
    """

    name: str
    help: str
    metavar: str | None = None
    beside: str | None = None
    does: str = ""

    @property
    def flag(self) -> str:
        """The option as it is written on the command line."""
        return "--" + self.name.replace("_", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureCommand:
    """A command about a pipeline, or one topic of it; both are its arguments beside `options`.

    `act` takes the pipeline, the topic (None for all) and the options by name, and returns the document that the
    command prints as JSON; `lines` are what it shows to people instead. `needs_spark`: it runs a job.
    """

    name: str
    help: str
    act: Callable[[Ports, PipelineSpec, str | None, Json], Json]
    lines: Callable[[Json], Iterable[str]]
    options: tuple[Option, ...] = ()
    needs_spark: bool = False


class ValueDecoding(Protocol):
    """Decodes values into further columns."""

    def decoders(self, ports: Ports, asked: Decoding, topics: Iterable[str]) -> tuple[Decoder, ...]:
        """Return the decoders of some topics' values, with the schemas that are registered now.

        A topic without a schema that can be used has a decoder that says why. Raises UnavailableError when the
        registry does not answer, ConnectionSettingsError when it refuses the credentials.
        """

    def refuse(self, asked: Decoding, claim: Claim, staged: Staged) -> tuple[Verdict, ...]:
        """Return verdicts that hold the ranges with undecoded values, if the wave has more of them than is allowed."""


class OpenPorts(Protocol):
    """Opens a pipeline's ports for the length of a `with` block; each is asked nothing before it is used."""

    def __call__(
        self,
        spec: PipelineSpec,
        *,
        ledger_conn_id: str,
        actor: str,
        progress: Callable[[str], None],
        kafka_seconds: float,
    ) -> AbstractContextManager[Ports]:
        """Return the ports of a pipeline; `kafka_seconds` is how long an admin call waits for Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Pages in Airflow's API server, below `prefix` of its address.

    `build` makes the ASGI application from what opens a pipeline's ports; it is called in the API server alone, when
    the first request comes. `views` are where Airflow's own page shows it, in the form of a plugin's `external_views`.
    """

    name: str
    prefix: str
    build: Callable[[OpenPorts], Any]
    views: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One feature that can be taken out; importing its value is cheap, its code is imported when it is used.

    `ports` makes its own ports for a pipeline, by name; each is opened when it is first used, through `Ports.added`.
    `decoding` decodes what a job stages. `after_advance` is called after each wave that moved a watermark, and at the
    end of a run in any case; it raises nothing. It is given its result of before in this run, and returns the result of
    all, which is part of the output of `run` and `advance`. `audit_check` makes a check
    from the values of its `audit_options`; None where none of them was given. `commands` are added to the
    command line. `pages` are functions, by name, from the document that a command also prints as JSON to the text of a
    file. `site` are pages in Airflow's API server.
    """

    name: str
    ports: Mapping[str, Callable[[PipelineSpec], Any]] = field(default_factory=dict)
    after_advance: Callable[[Ports, PipelineSpec, Json], Json] | None = None
    audit_options: tuple[Option, ...] = ()
    audit_check: Callable[[Json], AuditCheck | None] | None = None
    decoding: ValueDecoding | None = None
    commands: tuple[FeatureCommand, ...] = ()
    pages: Mapping[str, Callable[[Json], str]] = field(default_factory=dict)
    site: Site | None = None


@dataclass(frozen=True, slots=True)
class Features:
    """The features of an installation, in the order in which they act."""

    all: tuple[Feature, ...] = ()

    def ports(self, spec: PipelineSpec) -> dict[str, Callable[[], Any]]:
        """Return functions that open the features' ports for a pipeline, by name."""
        return {name: partial(build, spec) for item in self.all for name, build in item.ports.items()}

    def after_advance(self, ports: Ports, spec: PipelineSpec, before: Json = MappingProxyType({})) -> dict[str, Any]:
        """Call every feature's `after_advance`; return their results together. `before` is what it returned last."""
        done: dict[str, Any] = {}
        for item in self.all:
            if item.after_advance is not None:
                done |= item.after_advance(ports, spec, before)
        return done

    @property
    def audit_options(self) -> tuple[Option, ...]:
        """The options that the features add to `audit`."""
        return tuple(option for item in self.all for option in item.audit_options)

    @property
    def commands(self) -> tuple[FeatureCommand, ...]:
        """The commands that the features add."""
        return tuple(command for item in self.all for command in item.commands)

    @property
    def sites(self) -> tuple[Site, ...]:
        """The pages that the features add to Airflow's API server."""
        return tuple(item.site for item in self.all if item.site is not None)

    def audit_checks(self, given: Json) -> tuple[AuditCheck, ...]:
        """Return the checks that the given options ask for; values that are None, False or empty are not given.

        Raises UsageError for an option of no feature, or without the option that it needs."""
        asked = {name: value for name, value in given.items() if value not in {None, False, ""}}
        known = {option.name: option for option in self.audit_options}
        for name in asked:
            if name not in known:
                raise UsageError(f"this installation has no {name!r}: the feature that does was taken out")
            option = known[name]
            if option.beside is not None and option.beside not in asked:
                beside = known[option.beside].flag
                raise UsageError(f"{option.flag} {option.does}: give {beside} too")
        made = (item.audit_check(asked) for item in self.all if item.audit_check is not None)
        return tuple(check for check in made if check is not None)

    def decoders(self, ports: Ports, asked: Decoding | None, topics: Iterable[str]) -> tuple[Decoder, ...]:
        """Return the decoders of values (`ValueDecoding.decoders`); none where the pipeline asks for none."""
        return () if asked is None else self._decoding.decoders(ports, asked, topics)

    def refuse_undecoded(self, asked: Decoding | None, claim: Claim, staged: Staged) -> tuple[Verdict, ...]:
        """Return verdicts about values that do not decode (`ValueDecoding.refuse`)."""
        return () if asked is None else self._decoding.refuse(asked, claim, staged)

    @property
    def _decoding(self) -> ValueDecoding:
        found = next((item.decoding for item in self.all if item.decoding is not None), None)
        if found is None:
            raise UsageError(
                "this installation decodes no values: take [decode] out of the pipeline file, and plan once"
            )
        return found

    def page(self, name: str) -> Callable[[Json], str]:
        """Return the function that draws a document; UsageError where no feature has one."""
        found = next((item.pages[name] for item in self.all if name in item.pages), None)
        if found is None:
            raise UsageError(f"this installation draws no page {name!r}: the feature that does was taken out")
        return found
