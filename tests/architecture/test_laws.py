"""The list of the laws names tests that exist, and leaves no law without one."""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]
LAWS = tomllib.loads((ROOT / "tests" / "laws.toml").read_text(encoding="utf-8"))
WHOLE_PRODUCT = frozenset({"integration", "faults"})
"""Tiers of commands, Dags and workers on a real broker, Spark, Iceberg table, database."""
REAL_PARTS = WHOLE_PRODUCT | {"contracts"}
"""And the suites that run over every adapter of a port, the real ones too."""


def held() -> dict[str, list[str]]:
    """Return the tests of each law, those of the nightly last."""
    return {about: f"{law['tests']} {law.get('nightly', '')}".split() for about, law in LAWS.items()}


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
        for name, nightly in functions_of(path):
            found[name].add(Where(path.relative_to(ROOT / "tests").parts[0], nightly))
    return {name: frozenset(places) for name, places in found.items()}


def functions_of(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield the name of each function of a module, and whether all of it is left to the nightly."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    whole = any(_is_nightly(node) for node in tree.body if _assigns(node, "pytestmark"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, whole or any(map(_is_nightly, node.decorator_list))


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


def test_every_law_has_its_tests_and_they_exist() -> None:
    """L1 to L18, none left out; a test that was renamed or removed takes its name from the list."""
    assert {f"L{number}" for number in range(1, 19)} <= held().keys()
    assert [about for about, names in held().items() if not names] == []
    named = {name for names in held().values() for name in names}
    assert len(named) > 100
    assert named - places().keys() == set()


def test_every_law_is_held_by_make_test() -> None:
    """What plays in the nightly alone proves a change a day late; such names are listed apart."""
    for about, names in held().items():
        assert any(map(played_in, names)), about
        assert {name for name in names if nightly(name)} == set(LAWS[about].get("nightly", "").split()), about


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
        assert any(played_in(name) & WHOLE_PRODUCT for name in held()[f"L{number}"]), f"L{number}"


def test_every_line_is_held_on_real_parts() -> None:
    """By the whole product, or by a suite that runs over the real adapter: no line loses its last such test."""
    for about, names in held().items():
        assert any(place.tier in REAL_PARTS for name in names for place in places()[name]), about
