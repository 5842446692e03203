"""What a person sees: lines, and the result as tables."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

LINE_SECONDS = 20


class Screen:
    """Shows the facts it is given; safe to use from one thread."""

    def __init__(self) -> None:
        self._console = Console(width=None if Console().is_terminal else 140, highlight=False)
        self._said = 0.0

    def line(self, text: str) -> None:
        """Leave a line."""
        self._console.print(text, markup=False, soft_wrap=True)

    def show(self, facts: Mapping[str, object]) -> None:
        """Say how it stands, now and then."""
        if time.monotonic() - self._said > LINE_SECONDS:
            self._said = time.monotonic()
            self.line(" · ".join(f"{name} {value}" for name, value in facts.items()))

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print a table; columns that begin with `#` hold numbers."""
        table = Table(title=title, title_justify="left", header_style="bold")
        for column in columns:
            table.add_column(column.lstrip("#"), justify="right" if column.startswith("#") else "left", overflow="fold")
        for row in rows:
            table.add_row(*map(str, row))
        self._console.print(table)

    def result(self, report: Mapping[str, Any]) -> None:
        """Print the final tables."""
        self.table(
            "faults",
            ("fault", "#struck", "what it does"),
            [(name, item["struck"], item["message"]) for name, item in report["faults"].items()],
        )
        self.table("result", ("number", "#"), [(name.replace("_", " "), n) for name, n in report["numbers"].items()])
        for problem in report["problems"]:
            self.line(f"PROBLEM {problem}")
        verdict = "HELD: every acknowledged record is in the table exactly once, nothing else, and nothing is stuck"
        self.line(verdict if report["ok"] else "NOT HELD: see above")
