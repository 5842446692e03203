"""The page of the laws names tests that exist, and leaves no law without one."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "laws.md"
_ROW = re.compile(r"\| (?P<about>[^|]+) \| (?P<words>[^|]+) \| (?P<held>[^|]+) \|")
_NAME = re.compile(r"`(test_\w+)`")
_NIGHTLY = re.compile(r"`(test_\w+)` \(nightly\)")
WHOLE_PRODUCT = frozenset({"integration", "faults"})
"""Tiers of commands, Dags and workers on a real broker, Spark, Iceberg table, database."""
REAL_PARTS = WHOLE_PRODUCT | {"contracts"}
"""And the suites that run over every adapter of a port, the real ones too."""


def lines() -> dict[str, str]:
    """Return what each line of the page is about, and what holds it."""
    rows = [row for text in PAGE.read_text(encoding="utf-8").splitlines() if (row := _ROW.fullmatch(text))]
    found = {row["about"]: row["held"] for row in rows if row["held"] != "held by"}
    assert len(found) == len([row for row in rows if row["held"] != "held by"])
    return found


@dataclass(frozen=True)
class Where:
    """A test's tier, which is its folder, and whether `make test` leaves it to the nightly."""

    tier: str
    nightly: bool


@cache
def places() -> Mapping[str, frozenset[Where]]:
    """Return where each test is; some names are given twice."""
    found: dict[str, set[Where]] = defaultdict(set)
    for path in (ROOT / "tests").rglob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        whole = any(_is_nightly(node) for node in tree.body if _assigns(node, "pytestmark"))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                nightly = whole or any(map(_is_nightly, node.decorator_list))
                found[node.name].add(Where(path.relative_to(ROOT / "tests").parts[0], nightly))
    return {name: frozenset(places) for name, places in found.items()}


def _assigns(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in node.targets)


def _is_nightly(node: ast.AST) -> bool:
    """Return whether all of what is marked is left to the nightly, not some of its parameters."""
    if isinstance(node, ast.Call):
        return False
    return any(isinstance(part, ast.Attribute) and part.attr == "nightly" for part in ast.walk(node))


def nightly(name: str) -> bool:
    """Return whether `make test` plays no test of that name."""
    return all(place.nightly for place in places()[name])


def played_in(name: str) -> set[str]:
    """Return the tiers in which `make test` plays a test of that name."""
    return {place.tier for place in places()[name] if not place.nightly}


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
    assert named - places().keys() == set()


def test_every_line_is_held_by_make_test() -> None:
    """What plays in the nightly alone proves a change a day late; such names say so."""
    for about, held in lines().items():
        assert any(map(played_in, _NAME.findall(held))), about
        assert {name for name in _NAME.findall(held) if nightly(name)} == set(_NIGHTLY.findall(held)), about


def test_contracts_leave_no_test_of_another_folder_to_the_nightly() -> None:
    """Pytest asks each conftest about the tests of all folders: races of processes on PostgreSQL are played daily."""
    from tests.contracts import conftest

    def left(folder: str) -> int:
        path, marks = ROOT / "tests" / folder / "test_claims.py", list[object]()
        case = SimpleNamespace(params={"ledger": "postgres"})
        items = [
            SimpleNamespace(path=path, nodeid=f"{number}", callspec=case, add_marker=marks.append)
            for number in range(100)
        ]
        conftest.pytest_collection_modifyitems(cast("list[pytest.Item]", items))
        return len(marks)

    assert left("faults") == 0 < left("contracts")


def test_every_law_is_held_by_the_whole_product_in_make_test() -> None:
    """Doubles and single adapters do not make a product: each law has a test with real parts around all of it."""
    for number in range(1, 19):
        names = _NAME.findall(lines()[f"L{number}"])
        assert any(played_in(name) & WHOLE_PRODUCT for name in names), f"L{number}"


def test_every_line_is_held_on_real_parts() -> None:
    """By the whole product, or by a suite that runs over the real adapter: no line loses its last such test."""
    for about, held in lines().items():
        assert any(place.tier in REAL_PARTS for name in _NAME.findall(held) for place in places()[name]), about
