"""Habits that a reader relies on, checked for every file."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.architecture

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_kafka_lake"
MODULES = sorted(PACKAGE.rglob("*.py"))
MAX_LINES = 800
VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "misc", "base"}

# Written in pieces, so that this file passes its own test.
HOSTS = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("maven", "apache", "org"),
        ("maven", "org"),
        ("packages", "confluent", "io"),
        ("npmjs", "org"),
        ("docker", "io"),
        ("ghcr", "io"),
        ("quay", "io"),
        ("gcr", "io"),
    )
]
REGISTRY = re.compile("|".join(rf"(?<![\w-]){re.escape(host)}\b" for host in HOSTS))
MACHINE_PATH = re.compile(r"(?<![\w.<])/(?:work|root)(?![\w-])")


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _committed() -> list[Path]:
    """Every file that is or could be committed; the whole tree where there is no repository (a source archive)."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    names = listed.stdout.splitlines() if listed.returncode == 0 else [str(path) for path in ROOT.rglob("*")]
    return [path for name in names if (path := ROOT / name).is_file() and not path.is_symlink()]


def test_modules_are_one_subject_long() -> None:
    """A module that outgrows eight hundred lines has a second subject inside."""
    lines = {_name(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: count for name, count in lines.items() if count > MAX_LINES} == {}


def test_names_say_what_is_inside() -> None:
    """No module is a drawer for whatever has no place."""
    assert [_name(path) for path in MODULES if VAGUE & set(path.relative_to(ROOT).with_suffix("").parts)] == []


def test_annotations_are_not_evaluated() -> None:
    """Types never cost an import at run time."""
    assert [_name(path) for path in MODULES if _defines(tree := _tree(path)) and not _from_the_future(tree)] == []


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _defines(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) for node in tree.body)


def _from_the_future(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)


def test_files_name_no_registry_and_no_machine() -> None:
    """Where packages come from, and where a developer's checkout lies, is the reader's own business."""
    found = []
    for path in _committed():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if REGISTRY.search(line) or MACHINE_PATH.search(line):
                found.append(f"{_name(path)}:{number}: {line.strip()[:100]}")
    assert found == []


@pytest.mark.parametrize(
    "line", ["https://" + HOSTS[0] + "/simple", "cd /wo" + "rk/main", '"file:///ro' + 'ot/x"', "=/ro" + "ot"]
)
def test_the_search_finds_what_it_should(line: str) -> None:
    """The patterns are tried on what they are for."""
    assert REGISTRY.search(line) or MACHINE_PATH.search(line)


@pytest.mark.parametrize(
    "line", ["a framework/root", "</root>", "/workers/1", "/rooted", "work/root", "my-" + HOSTS[0]]
)
def test_the_search_leaves_prose_alone(line: str) -> None:
    """Words that only look alike are no finding."""
    assert not REGISTRY.search(line)
    assert not MACHINE_PATH.search(line)


def _public(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                of_write = {"scope", "decide", "refused"} if _is_write(node) else set()
                mine = _public(node, f"{prefix}{node.name}.")
                yield from ((name, each) for name, each in mine if name.rpartition(".")[2] not in of_write)


def _is_write(node: ast.ClassDef) -> bool:
    """Return whether a class is a write of the ledger: its class says what it does, `Write` what its methods do."""
    return any(isinstance(base, ast.Subscript) and ast.unparse(base.value).endswith("Write") for base in node.bases)


DOCUMENTED = [path for path in MODULES if {"core", "ports", "services"} & {*path.relative_to(PACKAGE).parts}]


def test_public_names_state_their_contract() -> None:
    """Every module, public class, function and method has a docstring."""
    trees = {_name(path): _tree(path) for path in [*DOCUMENTED, *PACKAGE.glob("*.py")]}
    silent = [module for module, tree in trees.items() if tree.body and not ast.get_docstring(tree)]
    for module, tree in trees.items():
        public = [name for name, node in _public(tree) if not ast.get_docstring(node)]  # type: ignore[arg-type]
        silent += [f"{module}: {name}" for name in public]
    assert silent == []
