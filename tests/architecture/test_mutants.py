"""The catalog of guards keeps up with the code."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.mutants.catalog import MUTANTS
from tests.mutants.mutant import ROOT, Mutant


def test_mutants_have_names_of_their_own() -> None:
    """A name arms one mutant."""
    assert [name for name, count in Counter(item.name for item in MUTANTS).items() if count > 1] == []
    assert len(MUTANTS) >= 90


def test_no_mutant_is_of_a_double() -> None:
    """A contract test shows that it can fail on the real adapter; a double without a guard shows it once more."""
    assert [item.name for item in MUTANTS if ".memory_" in item.module] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_fits_its_module(mutant: Mutant) -> None:
    """The guard stands where the catalog says, and without it the module is still Python."""
    compile(mutant.changed(mutant.source()), mutant.module, "exec")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_has_tests_that_are_there(mutant: Mutant) -> None:
    """Each names at least one test function."""
    assert mutant.red
    for test in mutant.red:
        path, _, name = test.partition("::")
        assert f"\ndef {name.partition('[')[0]}(" in (ROOT / path).read_text(encoding="utf-8"), test
