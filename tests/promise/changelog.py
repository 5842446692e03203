"""CHANGELOG.md, as far as programs read it: its versions, and what the newest changes name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

FILE = Path(__file__).parents[2] / "CHANGELOG.md"
UNRELEASED = "Unreleased"
KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
BREAKING = ("Changed", "Removed")
_VERSION = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - (?P<day>\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)
_KIND = re.compile(r"^### (?P<kind>.+)$", re.MULTILINE)
_NAME = re.compile(r"`([^`]+)`")


def read() -> str:
    """Return the changelog."""
    return FILE.read_text(encoding="utf-8")


def versions(text: str) -> dict[str, str | None]:
    """Return each version with its day, the newest first; `Unreleased` has none."""
    return {found["version"]: found["day"] for found in _VERSION.finditer(text)}


def released(text: str) -> bool:
    """Return whether any version was released: before, nothing is promised."""
    return any(day for day in versions(text).values())


def parts(text: str, version: str = UNRELEASED) -> Mapping[str, str]:
    """Return the changes of a version by kind."""
    cut = _VERSION.split(text)
    sections = dict(zip(cut[1::3], cut[3::3], strict=True))
    _, *kinds = _KIND.split(sections.get(version, ""))
    return dict(zip(kinds[::2], kinds[1::2], strict=True))


def unnamed(subjects: Iterable[str], text: str) -> list[str]:
    """Return the subjects of breaks that `Unreleased` does not name, in backquotes, as changed or removed."""
    named = {name for kind, part in parts(text).items() if kind in BREAKING for name in _NAME.findall(part)}
    return [item for item in subjects if item not in named]
