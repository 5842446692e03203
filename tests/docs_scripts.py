"""The scripts in docs/, which are no package: what writes the pages knows which names are public."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parents[1] / "docs"


@cache
def script(name: str = "generate") -> ModuleType:
    """Return a script as a module."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
