"""Lines of text for a terminal of any width: wrapped between words, put into columns, never cut."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow_kafka_lake.core.amounts import span

RED, YELLOW, CYAN, GREEN, BOLD, DIM = "bold red", "yellow", "cyan", "green", "bold", "dim"
GAP = 2
"""Blanks between columns."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line. It fits the width, unless it is one word: an id or a command, which is copied as a whole."""

    text: str = ""
    style: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table; `right` for numbers. Of columns that do not fit, the one with the largest `rank` goes."""

    title: str
    right: bool = False
    rank: int = 0


def wrapped(text: str, width: int, *, indent: str = "", hanging: str | None = None, style: str = "") -> Iterator[Line]:
    """Break text between words; a word that is longer than a line is left whole."""
    lines = textwrap.wrap(
        text,
        max(width, len(indent) + 1),
        initial_indent=indent,
        subsequent_indent=indent if hanging is None else hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return (Line(line, style) for line in lines)


def labelled(label: str, text: str, width: int, *, style: str = "") -> Iterator[Line]:
    """Give text beside a label, the further lines under it."""
    yield from wrapped(f"{label:<12}{text}", width, indent="  ", hanging=" " * 14, style=style)


def table(
    columns: Sequence[Column], rows: Sequence[tuple[Sequence[str], str]], width: int, *, indent: str = "  "
) -> Iterator[Line]:
    """Give rows, each with its style, under their titles, without columns in which nothing stands.

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
    yield Line((indent + _row([column.title for column in chosen], chosen, sizes)).rstrip(), DIM)
    for row, style in rows:
        cells = [row[n] for n in used]
        if len(cells[0]) > first:
            yield Line(indent + cells[0], style)
            cells[0] = ""
        yield Line((indent + _row(cells, chosen, sizes)).rstrip(), style)
        if not fits:
            yield from wrapped(cells[-1], width, indent=indent * 2 + "  ", style=style)


def _row(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    aligned = (
        cell.rjust(size) if column.right else cell.ljust(size)
        for cell, column, size in zip(cells, columns, widths, strict=False)
    )
    return (" " * GAP).join(aligned)


def moment(at: str) -> str:
    """Return a time of a document as people write it."""
    return f"{at[:19].replace('T', ' ')} UTC"


def ago(at: str | None, now: str) -> str:
    """Return how long ago something was, of two times of a document."""
    if at is None:
        return ""
    seconds = (datetime.fromisoformat(now) - datetime.fromisoformat(at)).total_seconds()
    return f"{span(max(0, seconds))} ago"


def until(at: str | None, now: str) -> str:
    """Return in how much time something will be, of two times of a document."""
    if at is None:
        return ""
    seconds = (datetime.fromisoformat(at) - datetime.fromisoformat(now)).total_seconds()
    return f"in {span(seconds)}" if seconds > 0 else "now"


def numbers(pairs: Iterable[Sequence[int]], most: int = 12) -> str:
    """Return partitions `[[first, last + 1], …]` as people write them; of many the first ones."""
    every = [str(first) if end == first + 1 else f"{first}–{end - 1}" for first, end in pairs]
    return ", ".join(every[:most]) + (", …" if len(every) > most else "")


def offsets(pairs: Sequence[Sequence[int]], most: int = 6) -> str:
    """Return offsets `[[start, end], …]` as people write them, ends exclusive; of many the first and the last ones."""
    every = [f"{start:,}–{end:,}" for start, end in pairs]
    if len(every) <= most:
        return ", ".join(every)
    return ", ".join([*every[: most - 1], f"… {len(every) - most} more …", every[-1]])
