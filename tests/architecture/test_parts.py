"""The list of parts names tests that exist, and calls daily only what `make test` plays."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.test_documents import _generator
from tests.architecture.test_laws import _assigns, _is_nightly

TESTS = Path(__file__).parents[1]
PARTS = tomllib.loads((TESTS / "parts.toml").read_text(encoding="utf-8"))
CELLS = [
    pytest.param(when, name, id=f"{part}-{kind}-{name}")
    for part, cells in PARTS.items()
    for kind, times in cells.items()
    for when, names in times.items()
    for name in names.split()
]


def _tests(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Yield the name of each test of a module, and whether all of it is left to the nightly."""
    whole = any(_is_nightly(node) for node in tree.body if _assigns(node, "pytestmark"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.name, whole or any(map(_is_nightly, node.decorator_list))


@pytest.mark.parametrize(("when", "name"), CELLS)
def test_a_cell_names_tests_that_are_played_then(when: str, name: str) -> None:
    """A file counts as daily when any of its tests is; as nightly when it leaves anything to the nightly."""
    file, _, function = name.partition("::")
    text = (TESTS / file).read_text(encoding="utf-8")
    found = {test: nightly for test, nightly in _tests(ast.parse(text)) if test == (function or test)}
    assert found, name
    assert (not all(found.values())) if when == "daily" else "nightly" in text


def test_cells_are_those_of_the_page() -> None:
    """A misspelt kind or time would leave a cell empty without a word."""
    assert {kind for cells in PARTS.values() for kind in cells} <= _generator().CELLS.keys()
    assert {when for cells in PARTS.values() for times in cells.values() for when in times} <= {"daily", "nightly"}
