"""The house has a budget: its figures only shrink, and each file is one subject."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.survey import PACKAGE, House, budgeted, lookups, survey

pytestmark = pytest.mark.architecture

BUDGET: dict[str, float] = {
    "modules": 169,
    "lines": 51_737,
    "module_max": 800,
    "depth": 24,
    "data_types": 317,
    "participles": 12,
    "lookups": 267,
    "nouns": 0.4,
}
"""The most that each figure may be. Who makes one smaller writes the new one here; none is ever raised: an addition is
paid for by a removal."""

SMALL, IMPORTERS = 150, 2
BY_NAME = (
    r"(.+\.)?(__main__|guardian|plugins|airflow_task)$"
    r"|(hooks|operators|example_dags|jobs\.decoding|adapters\.sql_ledger\.migrations\.versions)\."
)
"""Modules that Airflow, people's Dags, Alembic, Spark or a shell load by name."""


@cache
def house() -> House:
    """Return the package as it is."""
    return House(Path(__file__).parents[2])


def test_the_package_does_not_grow() -> None:
    """What is added is paid for by what is taken away."""
    figures = budgeted(house())
    assert {name: figures[name] for name, most in BUDGET.items() if figures[name] > most} == {}


def test_a_module_has_two_importers_or_is_large() -> None:
    """What one module alone needs stands in it."""
    small = {house().module(path) for path, text in house().text.items() if text.count("\n") < SMALL}
    alone = {name.removeprefix(f"{PACKAGE}.") for name in small if len(house().importers[name]) < IMPORTERS}
    assert {name for name in alone if not re.match(BY_NAME, name)} == set()


def test_class_names_are_unique() -> None:
    """A name that two classes have is a question at each use."""
    assert {name for name, times in house().classes.items() if times > 1} == set()


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('document["rows"]', 1),
        ('document.get("rows", 0)', 1),
        ('document["rows"] = 1', 0),
        ("rows[0]", 0),
        ("environ.get(name)", 0),
    ],
)
def test_lookups_by_a_string_are_counted(code: str, found: int) -> None:
    """A document's key is one, an index and a write are none."""
    assert lookups(ast.parse(code)) == found


def test_a_tree_is_surveyed(tmp_path: Path) -> None:
    """Figures of a package of two modules, of which one imports the other; an empty one does not count."""
    folder = tmp_path / PACKAGE
    folder.mkdir()
    (folder / "__init__.py").write_text('"""Nothing else."""\n')
    (folder / "one.py").write_text(
        '"""One."""\n\n\nclass Made:\n    """Who made it."""\n\n'
        "    def two(self) -> int:\n        # Why.\n        return 2\n"
    )
    (folder / "two.py").write_text(f"from {PACKAGE}.one import Made\n\nMADE = Made()\n")
    found = survey(tmp_path)
    assert (found.modules, found.lines, found.depth, found.one_importer) == (2, 12, 2, 50)
    assert (found.participles, found.names_twice, found.lookups) == (1, 0, 0)
