"""Output of a command: text and tables on stdout, progress on stderr, or one JSON document."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live as Screen
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from airflow_kafka_lake.actions.action import TerminalTable
from airflow_kafka_lake.core.amounts import span
from airflow_kafka_lake.core.errors import KafkaLakeError, kinds
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.remedies import Remedy
from airflow_kafka_lake.core.reports.progress import Moment, ProgressEvent
from airflow_kafka_lake.services.watching import Lines

# Lines of text for a terminal of any width: wrapped between words, put into columns, never cut.

RED, YELLOW, CYAN, GREEN, BOLD, DIM = "bold red", "yellow", "cyan", "green", "bold", "dim"
GAP = 2
"""Blanks between columns."""


@dataclass(frozen=True, slots=True)
class TextLine:
    """One line. It fits the width, unless it is one word: an id or a command, which is copied as a whole."""

    text: str = ""
    style: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column of a table; `right` for numbers. Of columns that do not fit, the one with the largest `rank` goes."""

    title: str
    right: bool = False
    rank: int = 0


def wrapped(
    text: str, width: int, *, indent: str = "", hanging: str | None = None, style: str = ""
) -> Iterator[TextLine]:
    """Break text between words; a word that is longer than a line is left whole."""
    lines = textwrap.wrap(
        text,
        max(width, len(indent) + 1),
        initial_indent=indent,
        subsequent_indent=indent if hanging is None else hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return (TextLine(line, style) for line in lines)


def labelled(label: str, text: str, width: int, *, style: str = "") -> Iterator[TextLine]:
    """Yield text beside a label, the further lines under it."""
    yield from wrapped(f"{label:<12}{text}", width, indent="  ", hanging=" " * 14, style=style)


def table(
    columns: Sequence[TableColumn], rows: Sequence[tuple[Sequence[str], str]], width: int, *, indent: str = "  "
) -> Iterator[TextLine]:
    """Yield rows, each with its style, under their titles, without columns in which nothing stands.

    When they do not fit, columns are left out by rank; when that does not help, a row's last cell goes to lines of its
    own. A first cell of more than a third of the width has a line of its own. Nothing is cut.
    """
    used = [n for n, _ in enumerate(columns) if n == 0 or any(cells[n] for cells, _ in rows)]
    first = max(width // 3, len(columns[0].title))

    def widths() -> list[int]:
        cells = ([cells[n] for cells, _ in rows if n or len(cells[n]) <= first] for n in used)
        return [max(map(len, (columns[n].title, *found))) for n, found in zip(used, cells, strict=True)]

    while not (fits := len(indent) + sum(widths()) + GAP * (len(used) - 1) <= width) and len(used) > 2:
        last = max(used, key=lambda n: columns[n].rank)
        if not columns[last].rank:
            break
        used.remove(last)
    chosen, sizes = [columns[n] for n in used], widths() if fits else widths()[:-1]
    yield TextLine((indent + _row([column.title for column in chosen], chosen, sizes)).rstrip(), DIM)
    for row, style in rows:
        cells = [row[n] for n in used]
        if len(cells[0]) > first:
            yield TextLine(indent + cells[0], style)
            cells[0] = ""
        yield TextLine((indent + _row(cells, chosen, sizes)).rstrip(), style)
        if not fits:
            yield from wrapped(cells[-1], width, indent=indent * 2 + "  ", style=style)


def _row(cells: Sequence[str], columns: Sequence[TableColumn], widths: Sequence[int]) -> str:
    aligned = (
        cell.rjust(size) if column.right else cell.ljust(size)
        for cell, column, size in zip(cells, columns, widths, strict=False)
    )
    return (" " * GAP).join(aligned)


def ago(at: datetime | None, now: datetime) -> str:
    """Return how long ago something was."""
    return "" if at is None else f"{span(max(0, (now - at).total_seconds()))} ago"


def until(at: datetime | None, now: datetime) -> str:
    """Return in how much time something will be."""
    if at is None:
        return ""
    seconds = (at - now).total_seconds()
    return f"in {span(seconds)}" if seconds > 0 else "now"


def numbers(found: RangeSet, most: int = 12) -> str:
    """Return partitions as people write them; of many the first ones."""
    every = [str(item.start) if item.span == 1 else f"{item.start}–{item.end - 1}" for item in found]
    return ", ".join(every[:most]) + (", …" if len(every) > most else "")


def offsets(found: RangeSet, most: int = 6) -> str:
    """Return offsets as people write them, ends exclusive; of many the first and the last ones."""
    every = [f"{item.start:,}–{item.end:,}" for item in found]
    if len(every) <= most:
        return ", ".join(every)
    return ", ".join([*every[: most - 1], f"… {len(every) - most} more …", every[-1]])


# The display of a working command in a terminal: a spinner with the last sentence, and a wave's progress as a bar.

_BAR_WIDTH = 24


class Display:
    """A few lines at the foot of a terminal, gone when the command ends; landed waves stay above them."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._spinner = Spinner("dots", style="green")
        self._sentence = Text()
        self._live: ProgressEvent | None = None
        self._is_open = False
        self._screen = Screen(console=console, transient=True, refresh_per_second=8, get_renderable=self.rendered)

    def __enter__(self) -> Self:
        self._is_open = True
        self._resume()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_open = False
        self.pause()

    def pause(self) -> None:
        """Leave the terminal to others, until there is something to show again."""
        self._screen.stop()

    def _resume(self) -> None:
        if self._is_open:
            self._screen.start()

    def message(self, sentence: Text) -> None:
        """Show a sentence until the next one comes."""
        self._sentence = sentence
        self._resume()

    def show(self, live: ProgressEvent) -> None:
        """Show how far something is."""
        self._resume()
        if live.moment is Moment.LANDED:
            self._live = None
            self._console.print(Text(live.sentence()))
        else:
            self._live = live

    def rendered(self) -> RenderableType:
        """Return the lines as they are now."""
        self._spinner.update(text=self._sentence if self._live is None else Text(self._live.name))
        if self._live is None:
            return self._spinner
        beneath = Text(self._live.news(), no_wrap=False, overflow="fold")
        return Group(_heading(self._spinner, self._live), Padding(beneath, (0, 0, 0, 2)))


def _heading(spinner: Spinner, live: ProgressEvent) -> Table:
    row = Table.grid(padding=(0, 1))
    row.add_column(no_wrap=True, overflow="ellipsis")
    row.add_column(width=_BAR_WIDTH)
    row.add_column(justify="right", no_wrap=True)
    share = live.progress.share
    bar = ProgressBar(total=1.0, completed=share or 0.0, width=_BAR_WIDTH)
    row.add_row(spinner, bar, "" if share is None else f"{share:.0%}")
    return row


# Output of a command: tables on stdout and progress on stderr, or one JSON document on stdout.

WIDE = 160
"""Width when stdout is no terminal: a table in a log file must not be cut at 80 columns."""
SHOWN = 40
"""How many rows of a long table, or lines of a long text, are shown; the rest is counted."""


class Output:
    """One command's output; `as_json` keeps stdout for the document alone. `log` takes the lines beside the result."""

    def __init__(self, *, as_json: bool, log: Callable[[str], None] | None = None) -> None:
        self.as_json = as_json
        self._out = Console(soft_wrap=False, highlight=False, width=None if Console().is_terminal else WIDE)
        self._err = Console(stderr=True, highlight=False, soft_wrap=True)
        self._log = log or (lambda text: self._err.print(_visible(text)))
        self._display = Display(self._err) if self._err.is_terminal else None
        self._lines = Lines(self.note)

    def working(self) -> AbstractContextManager[object]:
        """Show progress while a block runs (a bar on a terminal, lines elsewhere)."""
        return self._display or nullcontext()

    def progress(self, text: str) -> None:
        """Show the current step."""
        if self._display is None:
            self.note(text)
        else:
            self._display.message(_visible(text))

    def live(self, live: ProgressEvent) -> None:
        """Show how far something is: as a bar, or as lines from time to time."""
        if self._display is None:
            self._lines(live)
        else:
            self._display.show(live)

    def note(self, text: str) -> None:
        """Print a line beside the result, on stderr or into the log."""
        self._log(text)

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
        """Print a line of the result; it is never broken, so that names in it can be copied."""
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

    def lines(self, lines: Iterable[TextLine]) -> None:
        """Print lines of the result, each in its style where there is a terminal; none is broken."""
        self._result()
        for line in lines:
            self._out.print(styled(line), soft_wrap=True)

    @contextmanager
    def screen(self) -> Iterator[Callable[[Iterable[TextLine]], None]]:
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
            cells = ("-" if cell is None else f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row)
            table.add_row(*map(_visible, cells))
        self._result()
        self._out.print(table)

    def long_table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print a table unless it is empty, its first rows only where it has many."""
        if rows:
            self.table(title, columns, rows[:SHOWN])
        if len(rows) > SHOWN:
            self.line(f"… and {len(rows) - SHOWN} more: all of them with --json")

    def entries(self, entries: Iterable[str | TerminalTable]) -> None:
        """Print lines and tables."""
        for each in entries:
            if isinstance(each, str):
                self.line(each)
            else:
                self.long_table(*each)

    def error(self, error: KafkaLakeError) -> None:
        """Print a failure: a sentence, or its JSON form."""
        if self.as_json:
            self.document({"error": error.to_json()})
        else:
            self._err.print(Text.assemble(("error: ", "bold red"), _visible(error.message)))
            known = (kind.__name__ for kind in type(error).__mro__ if kind.__name__ in kinds())
            if self._err.is_terminal and (name := next(known, None)):
                self._err.print(Text(f"more: {Remedy(command='help', subject=name)}", DIM))


def styled(line: TextLine) -> Text:
    """Return a line with everything escaped that would control a terminal."""
    text = _visible(line.text)
    text.stylize(line.style)
    return text


_PLAIN = str.maketrans({"–": "-", "→": "->", "…": "..."})
"""The signs written instead where a terminal lacks these."""


def _visible(text: str) -> Text:
    """Return text with everything escaped that would control a terminal or break its encoding."""
    found = "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)
    encoding = sys.stdout.encoding or "utf-8"
    if not encoding.lower().startswith("utf"):
        found = found.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
    return Text(found)
