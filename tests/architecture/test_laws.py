"""The page of the laws names tests that exist, and leaves no law without one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "laws.md"
_ROW = re.compile(r"\| (?P<about>[^|]+) \| (?P<words>[^|]+) \| (?P<held>[^|]+) \|")
_NAME = re.compile(r"`(test_\w+)`")


def lines() -> dict[str, str]:
    """Return what each line of the page is about, and what holds it."""
    rows = [row for text in PAGE.read_text(encoding="utf-8").splitlines() if (row := _ROW.fullmatch(text))]
    found = {row["about"]: row["held"] for row in rows if row["held"] != "held by"}
    assert len(found) == len([row for row in rows if row["held"] != "held by"])
    return found


def defined() -> set[str]:
    """Return the names of all tests."""
    files = (ROOT / "tests").rglob("test_*.py")
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_law_has_a_line() -> None:
    """L1 to L18, none left out."""
    assert {f"L{number}" for number in range(1, 19)} <= lines().keys()


def test_every_line_is_held_by_tests_or_is_not_built() -> None:
    """A line without a test says that there is nothing to test yet, and then it names none."""
    for about, held in lines().items():
        assert bool(_NAME.findall(held)) != held.startswith("Not built yet"), about


def test_every_test_that_is_named_exists() -> None:
    """A test that was renamed or removed takes its name from the page."""
    named = {name for held in lines().values() for name in _NAME.findall(held)}
    assert len(named) > 100
    assert named - defined() == set()
