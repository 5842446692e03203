"""A value of its own for every secret setting that docs/reference/connections.md names."""

from __future__ import annotations

import re
from collections.abc import Iterable
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


def found(secrets: Iterable[str], said: str, *folders: Path) -> list[str]:
    """Return the secrets that stand in a text, or in a file below some folders."""
    kept = [path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [secret for secret in secrets if any(secret.encode() in text for text in (said.encode(), *kept))]
