"""A mutant: the package without one of its guards."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ARMED_BY = "KAFKA_LAKE_MUTANT"
"""The environment variable that names the mutant which a test run shall meet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One guard and its removal: `old` stands exactly once in the module's source, `new` is there without the guard.

    `more` are further such pairs, for a guard that is doubled. `red` are the tests that must fail then, as pytest takes
    them; `law` names the law, or the fine print of one.
    """

    name: str
    law: str
    guard: str
    module: str
    old: str
    new: str
    red: tuple[str, ...]
    more: tuple[tuple[str, str], ...] = ()

    def path(self) -> Path:
        """Return the module's file."""
        path = ROOT.joinpath(*self.module.split("."))
        return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")

    def source(self) -> str:
        """Return the module's source as it is."""
        return self.path().read_text(encoding="utf-8")

    def changed(self, source: str) -> str:
        """Return the source without the guard."""
        for old, new in ((self.old, self.new), *self.more):
            found = source.count(old)
            if found != 1:
                raise ValueError(f"mutant {self.name}: {old!r} is {found} times in {self.module}, not once")
            source = source.replace(old, new)
        return source
