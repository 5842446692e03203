"""What a feature may add to the main path, which knows of no feature: everything in a `Feature` is optional."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.spec import PipelineSpec

if TYPE_CHECKING:
    from airflow_kafka_lake.ports import Ports

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One feature that can be taken out; importing its value is cheap, what it does is imported when it is used.

    `ports` are what it needs of the world, by name: each is opened for a pipeline when it is first used, and is in
    `Ports.added` then. `after_advance` is called when the watermarks have moved, or could have; it raises nothing, and
    what it returns is part of the answer of `run` and `advance`. `pages` draw a document: by name, from the document
    that a command also shows as JSON to the text of a file.
    """

    name: str
    ports: Mapping[str, Callable[[PipelineSpec], Any]] = field(default_factory=dict)
    after_advance: Callable[[Ports, PipelineSpec], Json] | None = None
    pages: Mapping[str, Callable[[Json], str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Features:
    """The features of an installation, in the order in which each is asked."""

    all: tuple[Feature, ...] = ()

    def ports(self, spec: PipelineSpec) -> dict[str, Callable[[], Any]]:
        """Return what opens the features' ports for a pipeline, by name."""
        return {name: partial(build, spec) for item in self.all for name, build in item.ports.items()}

    def after_advance(self, ports: Ports, spec: PipelineSpec) -> dict[str, Any]:
        """Let every feature follow the watermarks; returns what each adds to the answer."""
        done: dict[str, Any] = {}
        for item in self.all:
            if item.after_advance is not None:
                done |= item.after_advance(ports, spec)
        return done

    def page(self, name: str) -> Callable[[Json], str]:
        """Return what draws a document; UsageError where no feature does."""
        found = next((item.pages[name] for item in self.all if name in item.pages), None)
        if found is None:
            raise UsageError(f"this installation draws no page {name!r}: the feature that does was taken out")
        return found
