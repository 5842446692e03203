"""What a feature may add to the main path, which knows of no feature: everything in a `Feature` is optional."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_lake.core.errors import UsageError

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One feature that can be taken out; importing its value is cheap, what it does is imported when it is used.

    `pages` draw a document: by name, from the document that a command also shows as JSON to the text of a file.
    """

    name: str
    pages: Mapping[str, Callable[[Json], str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Features:
    """The features of an installation, in the order in which each is asked."""

    all: tuple[Feature, ...] = ()

    def page(self, name: str) -> Callable[[Json], str]:
        """Return what draws a document; UsageError where no feature does."""
        found = next((item.pages[name] for item in self.all if name in item.pages), None)
        if found is None:
            raise UsageError(f"this installation draws no page {name!r}: the feature that does was taken out")
        return found
