"""The list of parts names tests that exist, and calls daily only what `make test` plays."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.architecture.test_laws import functions_of
from tests.docs_scripts import script
from tests.proof.parts import CHUNKED, Wish
from tests.proof.parts import PARTS as PROOF

TESTS = Path(__file__).parents[1]
PARTS = tomllib.loads((TESTS / "parts.toml").read_text(encoding="utf-8"))
CELLS = [
    pytest.param(when, name, id=f"{part}-{kind}-{name}")
    for part, cells in PARTS.items()
    for kind, times in cells.items()
    for when, names in times.items()
    for name in names.split()
]


@pytest.mark.parametrize(("when", "name"), CELLS)
def test_a_cell_names_tests_that_are_played_then(when: str, name: str) -> None:
    """A file counts as daily when any of its tests is; as nightly when it leaves anything to the nightly.

    A chunk of the failpoints or the histories is always left to it.
    """
    file, _, function = name.partition("::")
    if file in CHUNKED:
        (chunked,) = (part for part in PROOF if part.name == file)
        assert (when, function) in {("nightly", work.name.partition(",")[0]) for work in chunked.works(Wish(seed=1))}
        return
    text = (TESTS / file).read_text(encoding="utf-8")
    tests = ((test, nightly) for test, nightly in functions_of(TESTS / file) if test.startswith("test_"))
    found = {test: nightly for test, nightly in tests if test == (function or test)}
    assert found, name
    assert (not all(found.values())) if when == "daily" else "nightly" in text


def test_cells_are_those_of_the_page() -> None:
    """A misspelt kind or time would leave a cell empty without a word."""
    assert {kind for cells in PARTS.values() for kind in cells} <= script().CELLS.keys()
    assert {when for cells in PARTS.values() for times in cells.values() for when in times} <= {"daily", "nightly"}
