"""Output of a command: tables on stdout and progress on stderr, or one JSON document on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from rich.console import Console, Group
from rich.live import Live as Screen
from rich.table import Table
from rich.text import Text

from airflow_kafka_lake.cli.display import Display
from airflow_kafka_lake.cli.text import Line
from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.live import Live
from airflow_kafka_lake.services.watching import Lines

WIDE = 160
"""Width when stdout is no terminal: a table in a log file must not be cut at 80 columns."""
SHOWN = 40
"""How many rows of a long table, or lines of a long text, are shown; the rest is counted."""


class Output:
    """One command's output; `as_json` keeps stdout for the document alone."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._out = Console(soft_wrap=False, highlight=False, width=None if Console().is_terminal else WIDE)
        self._err = Console(stderr=True, highlight=False, soft_wrap=True)
        self._display = Display(self._err) if self._err.is_terminal else None
        self._lines = Lines(self.note)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Show progress while the block runs (a bar on a terminal, lines elsewhere)."""
        if self._display is None:
            yield
            return
        with self._display:
            yield

    def progress(self, text: str) -> None:
        """Show what is being done."""
        if self._display is None:
            self.note(text)
        else:
            self._display.message(_visible(text))

    def live(self, live: Live) -> None:
        """Show how far something is: as a bar, or as lines from time to time."""
        if self._display is None:
            self._lines(live)
        else:
            self._display.show(live)

    def note(self, text: str) -> None:
        """Print a line beside the result, on stderr."""
        self._err.print(_visible(text))

    def _result(self) -> None:
        """Make room for the result: one display at a time can hold the terminal."""
        if self._display is not None:
            self._display.pause()

    def document(self, data: Any) -> None:
        """Print the JSON document."""
        self._result()
        print(json.dumps(data, indent=2))

    def compact(self, data: Any) -> None:
        """Print a JSON document on one line, at once: one of many."""
        print(json.dumps(data), flush=True)

    def line(self, text: str) -> None:
        """Print a line of the result; it is never broken, so that what it names can be copied."""
        self._result()
        self._out.print(_visible(text), soft_wrap=True)

    @property
    def width(self) -> int:
        """How many characters a line of the result has."""
        return self._out.width

    @property
    def height(self) -> int | None:
        """How many lines a screen has; None where stdout is no terminal."""
        return self._out.height if self._out.is_terminal else None

    def lines(self, lines: Iterable[Line]) -> None:
        """Print lines of the result, each in its style where there is a terminal; none is broken."""
        self._result()
        for line in lines:
            self._out.print(styled(line), soft_wrap=True)

    @contextmanager
    def screen(self) -> Iterator[Callable[[Iterable[Line]], None]]:
        """Give a function that shows lines in the place of those before, as many as the screen has."""
        self._result()
        with Screen(console=self._out, auto_refresh=False, vertical_overflow="ellipsis") as screen:
            yield lambda lines: screen.update(Group(*map(styled, lines)), refresh=True)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print a table; columns that begin with `#` hold numbers and are aligned right."""
        table = Table(title=title, title_justify="left", header_style="bold")
        for column in columns:
            # Folded on a narrow terminal, not cut: an id that is cut cannot be copied.
            justify: Literal["left", "right"] = "right" if column.startswith("#") else "left"
            table.add_column(column.lstrip("#"), justify=justify, overflow="fold")
        for row in rows:
            table.add_row(*(_visible("-" if cell is None else str(cell)) for cell in row))
        self._result()
        self._out.print(table)

    def long_table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print a table unless it is empty, its first rows only where it has many."""
        if rows:
            self.table(title, columns, rows[:SHOWN])
        if len(rows) > SHOWN:
            self.line(f"… and {len(rows) - SHOWN} more: all of them with --json")

    def error(self, error: KafkaLakeError) -> None:
        """Print a failure: a sentence, or its JSON form."""
        if self.as_json:
            self.document({"error": error.to_json()})
        else:
            self._err.print(Text.assemble(("error: ", "bold red"), _visible(error.message)))


def word_of(state: str) -> str:
    """Return a state for people: what is COMMITTED has landed, for Kafka and databases commit too."""
    return "landed" if state.lower() == "committed" else state.lower()


def stream_text(item: Mapping[str, Any]) -> str:
    """Return `topic/partition` of an entry of a document."""
    return f"{item['topic']}/{item['partition']}"


def styled(line: Line) -> Text:
    """Return a line with everything escaped that would control a terminal."""
    text = _visible(line.text)
    text.stylize(line.style)
    return text


_PLAIN = str.maketrans({"–": "-", "→": "->", "…": "..."})
"""What is written instead where a terminal has no such sign."""


def _visible(text: str) -> Text:
    """Return text with everything escaped that would control a terminal or break its encoding."""
    found = "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)
    encoding = sys.stdout.encoding or "utf-8"
    if not encoding.lower().startswith("utf"):
        found = found.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
    return Text(found)
