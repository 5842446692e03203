"""The catalog of guards keeps up with the code."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from tests.mutants.catalog import MUTANTS
from tests.mutants.mutant import ROOT, Mutant


def test_mutants_have_names_of_their_own() -> None:
    """A name arms one mutant."""
    assert [name for name, count in Counter(item.name for item in MUTANTS).items() if count > 1] == []
    assert len(MUTANTS) >= 75


def test_no_mutant_is_of_a_double() -> None:
    """A contract test shows that it can fail on the real adapter; a double without a guard shows it once more."""
    assert [item.name for item in MUTANTS if ".memory_" in item.module] == []


@pytest.mark.slow
def test_mutants_fit_their_modules() -> None:
    """The guard stands where the catalog says, and without it the module is still Python."""
    assert {item.name: error_kind for item in MUTANTS if (error_kind := _trouble(item))} == {}


def _trouble(mutant: Mutant) -> str:
    try:
        compile(mutant.changed(mutant.source()), mutant.module, "exec")
    except (OSError, SyntaxError, TypeError, ValueError) as error:
        return repr(error)
    return ""


def test_mutants_have_tests_that_are_there() -> None:
    """Each names at least one test function."""
    assert [item.name for item in MUTANTS if not item.red] == []
    text = cache(lambda path: (ROOT / path).read_text(encoding="utf-8"))
    named = [(item.name, *test.partition("::")[::2]) for item in MUTANTS for test in item.red]
    assert [
        (mutant, name) for mutant, path, name in named if f"\ndef {name.partition('[')[0]}(" not in text(path)
    ] == []
