"""A mutant: the package without one of its guards."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.anchor import exchange

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One guard and its removal: `old` is exactly once in a function, `new` is there without the guard.

    Both are patterns (tests/mutants/anchor.py). `function` is a qualified name, empty for the module itself. `more` are
    further changes, each with its function, for a guard that is doubled. `red` are the tests that must fail then, as
    pytest takes them; `law` names the law, or the fine print of one.
    """

    name: str
    law: str
    guard: str
    module: str
    function: str
    old: str
    new: str
    red: tuple[str, ...]
    more: tuple[tuple[str, str, str], ...] = ()

    def path(self) -> Path:
        """Return the module's file."""
        path = ROOT.joinpath(*self.module.split("."))
        return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")

    def source(self) -> str:
        """Return the module's source as it is."""
        return self.path().read_text(encoding="utf-8")

    def changed(self, source: str) -> ast.Module:
        """Return the module without the guard; ValueError when a change does not fit."""
        tree = ast.parse(source)
        for change in ((self.function, self.old, self.new), *self.more):
            try:
                exchange(tree, *change)
            except ValueError as error:
                raise ValueError(f"mutant {self.name}: {error} ({self.module})") from None
        return ast.fix_missing_locations(tree)
