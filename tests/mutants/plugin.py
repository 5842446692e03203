"""Let a test run meet a mutant: `KAFKA_LAKE_MUTANT=NAME python -m pytest -p tests.mutants.plugin …`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

from tests.mutants.catalog import MUTANTS
from tests.mutants.mutant import ARMED_BY, Mutant


class _Loader(SourceFileLoader):
    """Compiles the changed source, and leaves no trace of it on disk."""

    def __init__(self, mutant: Mutant, path: str) -> None:
        super().__init__(mutant.module, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the mutant."""
        changed = self._mutant.changed(self.get_data(self.path).decode())
        return compile(changed, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """Finds one module of the package changed, and everything else as it is."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self.used = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the mutant's spec for its module, None for every other."""
        if fullname != self._mutant.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        self.used = True
        spec.loader = _Loader(self._mutant, spec.origin)
        return spec


def _armed() -> _Finder:
    mutant = next(item for item in MUTANTS if item.name == os.environ[ARMED_BY])
    assert mutant.module not in sys.modules, f"{mutant.module} was imported before the mutant was armed"
    finder = _Finder(mutant)
    sys.meta_path.insert(0, finder)
    return finder


_finder = _armed() if os.environ.get(ARMED_BY) else None


def pytest_report_header() -> str | None:
    """Return what is missing from the package in this run."""
    return f"without a guard: {os.environ[ARMED_BY]}" if _finder else None


def pytest_sessionfinish(session: object) -> None:
    """A run that never met its mutant proves nothing."""
    if _finder and not _finder.used:
        raise RuntimeError(f"mutant {os.environ[ARMED_BY]} was never imported")
