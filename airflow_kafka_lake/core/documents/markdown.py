"""Texts that Airflow's page renders as Markdown: tables, and words of others that are taken as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SPECIAL = re.compile(r"([\\`*\[\]<>|~#_])")


def plain(text: str) -> str:
    """Return a text as Markdown that shows it as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, most: int, numbers: Sequence[int] = ()) -> str:
    """Return a table of at most so many rows, then how many more there are; `numbers` are columns set to the right."""
    lines = [columns, ["---:" if at in numbers else "---" for at in range(len(columns))]]
    lines += [[plain(str(cell)) for cell in row] for row in rows[:most]]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{text}\n\nand {len(rows) - most:,} more like these" if rows[most:] else text


def bullets(lines: Sequence[str]) -> str:
    """Return a list."""
    return "\n".join(f"- {plain(line)}" for line in lines)
