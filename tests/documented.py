"""The keys of docs/reference/json.md, and which keys of a document are not among them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "json.md"
COMMAND = re.compile(r"`(\S+) --(?:json|report FILE)`")
LINK = re.compile(r"\]\(#([\w-]+)\)")
NAME = re.compile(r"`([^`]+)`")
ENTRY = re.compile(r"- (?P<names>`[^`]+`(?:, `[^`]+`)*): (?P<meaning>.+)")


def undocumented(command: str, document: Any) -> list[str]:
    """Return the keys of a command's document that the page does not name, as paths like `streams[].lag`."""
    known = keys_of(command) | {f"error.{rest}" for rest in ("type", "message", "*")}
    return sorted({path for path in _leaves(document) if not _is_known(path, known)})


def missing(command: str, document: Any) -> list[str]:
    """Return the keys that the page names and a document lacks, but for what stands in objects that it has none of."""
    found = set(_paths_of(document))
    gaps = {path for path in keys_of(command) if "*" not in path and not path.endswith("[]")} - found
    return sorted(path for path in gaps if _parent(path) in found | {""})


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def _paths_of(value: Any, path: str = "") -> Iterator[str]:
    """Walk through every key, objects too; a list that has objects is `[]`."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _paths_of(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for item in value:
            yield from _paths_of(item, f"{path}[]")


def strange(title: str, document: Any) -> list[str]:
    """Return the keys of a document that the section of a title does not name."""
    known = frozenset(_paths(title))
    return sorted({path for path in _leaves(document) if not _is_known(path, known)})


@cache
def commands() -> frozenset[str]:
    """Return the commands that have a section."""
    return frozenset(name for title in _sections() for name in COMMAND.findall(title))


@cache
def keys_of(command: str) -> frozenset[str]:
    """Return the paths that the page names for a command; what a row points to is put in its place."""
    titles = [title for title in _sections() if command in COMMAND.findall(title)]
    if not titles:
        raise LookupError(f"docs/reference/json.md has no section for {command}")
    return frozenset(path for title in titles for path in _paths(title))


def _paths(title: str) -> Iterator[str]:
    for names, meaning in _sections()[title]:
        target = LINK.search(meaning)
        part = target and next((other for other in _sections() if _anchor(other) == target[1]), None)
        for name in names:
            if part is None or COMMAND.search(part):
                yield name
            elif name == "*":
                yield from _paths(part)
            elif name.endswith(".*"):
                yield name
            else:
                yield from (f"{name}.{rest}" for rest in _paths(part))
        if part is not None and COMMAND.search(part):  # "as in another document": its keys of that name
            yield from (path for path in _paths(part) for name in names if path.startswith((f"{name}.", f"{name}[")))


@cache
def _sections() -> dict[str, list[tuple[list[str], str]]]:
    """Return the entries of each section's list: its names, and their meaning."""
    found: dict[str, list[tuple[list[str], str]]] = {}
    title = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            title = line[3:]
            found[title] = []
        elif entry := ENTRY.fullmatch(line):
            found[title].append((NAME.findall(entry["names"]), entry["meaning"]))
    return found


def _anchor(title: str) -> str:
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _leaves(value: Any, path: str = "") -> Iterator[str]:
    """Walk to what is no object; a list of objects is `[]`, another list is a leaf."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        for item in value:
            yield from _leaves(item, f"{path}[]")
    else:
        yield path


def _is_known(path: str, known: frozenset[str]) -> bool:
    if path in known or f"{path}[]" in known:
        return True
    inside = (f"{path}.", f"{path}[].", f"{path}[]")
    if any(name.startswith(inside) for name in known):
        return True  # an object that is null, or a list that is empty here
    return any(name.endswith("*") and path.startswith(name[:-1]) for name in known if name != "*")
