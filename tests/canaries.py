"""A value of its own for every secret setting that docs/reference/connections.md names."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs" / "reference" / "connections.md"


def documented(connection: str) -> tuple[str, ...]:
    """Return the keys that the page's table of secret settings lists for a connection."""
    _, _, table = DOCS.read_text(encoding="utf-8").partition("| secret of |")
    (row,) = re.findall(rf"^\| {connection} \|(.*)\|$", table, re.MULTILINE)
    return tuple(re.findall(r"`([^`]+)`", row))


def planted(connection: str) -> dict[str, str]:
    """Return the documented secret settings of a connection, each with a canary for its value."""
    return {key: f"canary-{connection}-{number}" for number, key in enumerate(documented(connection))}
