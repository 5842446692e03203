"""A command: its name and arguments, the action that makes a document, and the view that prints it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_lake.cli.output import Output

Json = Mapping[str, Any]
REFUSED = 1
"""Exit code: a check failed, or something is held."""
REPEAT = 3
"""Exit code: another run is working on what is left."""


class Argument:
    """One argument of a command, as argparse takes it."""

    def __init__(self, *names: str, **settings: Any) -> None:
        self.names = names
        self.settings = settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of an action; `beside` is what only the view shows, not the JSON document.

    `shown` says that the action has printed it.
    """

    document: Json
    beside: Json = field(default_factory=dict)
    exit_code: int = 0
    shown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command; its action returns the result or raises a KafkaLakeError."""

    name: str
    help: str
    arguments: tuple[Argument, ...]
    action: Callable[[argparse.Namespace, Output], Result]
    view: Callable[[Output, Json], None] | None = None
    """None where the action prints while it works."""

    def run(self, arguments: argparse.Namespace, output: Output) -> int:
        """Act, print the result as a document or by the view, and return the exit code."""
        result = self.action(arguments, output)
        if self.view is None or result.shown:
            return result.exit_code
        if output.as_json:
            output.document(result.document)
        else:
            self.view(output, {**result.document, **result.beside})
        return result.exit_code
