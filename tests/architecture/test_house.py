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


PRIVATE_MEMBERS = {
    ("jobs/java.py", "_jvm"): "PySpark has no public way to its Java",
    ("jobs/java.py", "_jsparkSession"): "as above",
    ("jobs/java.py", "_activeSession"): "the public `createDataFrame` sets it too, and imports pandas",
    ("adapters/iceberg/rows.py", "_record_batches_from_scan_tasks_and_deletes"): "the public way keeps files in memory",
    ("adapters/iceberg/rows.py", "_read_all_delete_files"): "as above, which takes its result",
    ("adapters/iceberg/rows.py", "_dataframe_to_data_files"): "the public ways commit what they write",
}
"""Members that a library keeps to itself, each in one module, with the reason. This list only shrinks;
`tests/contracts/test_private_members.py` tells which version of a library has changed one."""


PUBLIC_ALL_THE_SAME = {"_asdict", "_fields", "_make", "_replace", "_exit"}
"""The first letter sets those of named tuples apart from fields, and `os._exit` from `sys.exit`."""


def _foreign_privates(tree: ast.Module) -> set[str]:
    """Return the private names that a module takes from others: imported, or of what is not itself.

    A name that the module gives to something itself is its own, also where another object of the same class has it.
    """
    own = {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    own |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                own.add(name)
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name):
                found.add(f"super {name}")
            case ast.Attribute(attr=name):
                found.add(name)
            case ast.ImportFrom(level=0, module=str(module), names=names) if not module.startswith(
                "airflow_kafka_lake"
            ):
                found |= {f"super {alias.name}" for alias in names}
    taken = {name.removeprefix("super ") for name in found if name.startswith("super ") or name not in own}
    return {name for name in taken - PUBLIC_ALL_THE_SAME if re.fullmatch(r"_[A-Za-z]\w*", name)}


def test_libraries_are_used_by_their_public_names() -> None:
    """What a library keeps to itself changes with any of its versions."""
    found = {(str(path.relative_to(PACKAGE)), name) for path in MODULES for name in _foreign_privates(_tree(path))}
    assert found == set(PRIVATE_MEMBERS)
    assert len(PRIVATE_MEMBERS) < 8
    assert len({name for _, name in PRIVATE_MEMBERS}) == len(PRIVATE_MEMBERS), "each is in one module"


@pytest.mark.parametrize(
    "text",
    [
        "spark._jvm",
        "client._manager.run()",
        "client.manager._net.sleep(1)",
        "from pyiceberg.io.pyarrow import _read_all_delete_files",
        "class A:\n    def _begin(self):\n        return super()._begin()",
        "spark._active = 1",
    ],
)
def test_the_search_finds_private_members_of_others(text: str) -> None:
    """In each of the forms that were in use."""
    assert _foreign_privates(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "self._rate",
        "class A:\n    def f(self, other):\n        self._x = 1\n        return other._x",
        "cls.__name__",
        "a.b",
    ],
)
def test_the_search_leaves_what_is_ours_alone(text: str) -> None:
    """Also that of another object of the same class."""
    assert not _foreign_privates(ast.parse(text))


# Texts of ours are for people: what a program needs of an error, a hold or an event is a value of its own.

PARSERS = {"partition", "rpartition", "split", "rsplit", "splitlines", "startswith", "endswith", "find", "index"}
PARSERS |= {"removeprefix", "removesuffix"}
MATCHERS = {"match", "search", "fullmatch", "findall", "finditer", "split", "sub"}
TEXTS = {"message", "reason", "detail", "named", "why", "state"}
"""Names of texts that this package has written, beside all that end in `_state`."""


def _is_our_text(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            return name in TEXTS or name.endswith("_state")
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id="error" | "problem")]):
            return True
        case ast.Call(func=ast.Name(id="str"), args=[text]):
            return _is_our_text(text)
        case ast.BoolOp(values=texts):
            return any(map(_is_our_text, texts))
    return False


def _parsed(tree: ast.AST) -> Iterator[str]:
    """Give the places that read something out of a text of ours."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=text, attr=name)) if name in PARSERS and _is_our_text(text):
                yield ast.unparse(node)
            case ast.Call(func=ast.Attribute(attr=name), args=texts) if name in MATCHERS and any(
                map(_is_our_text, texts)
            ):
                yield ast.unparse(node)
            case ast.Compare(left=ast.Constant(value=str()), ops=[ast.In() | ast.NotIn()], comparators=[text]) if (
                _is_our_text(text)
            ):
                yield ast.unparse(node)


SHOWN = {("core/errors.py", "self.message.partition('\\n')")}
"""The first line of a message, for a display of one line."""


def test_nothing_parses_our_own_text() -> None:
    """A reworded sentence breaks no button, no retry and no search. Adapters and jobs read what libraries say."""
    found = {
        (str(path.relative_to(PACKAGE)), place)
        for path in MODULES
        if path.relative_to(PACKAGE).parts[0] not in {"adapters", "jobs", "local"}
        for place in _parsed(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found - SHOWN == set()


@pytest.mark.parametrize(
    "text",
    [
        'error.message.startswith("no ")',
        '_KIND.match(item.reason or "")',
        're.search("x", str(error))',
        '"locked" in error.message',
        'item["detail"].partition(", ")',
        'summary["lag_state"].removeprefix("unknown: ")',
    ],
)
def test_the_search_finds_what_reads_our_text(text: str) -> None:
    """The shapes that such a reading has had here."""
    assert len(list(_parsed(ast.parse(text)))) == 1


@pytest.mark.parametrize("text", ['error.message.rstrip(".")', 'name.partition(".")', 'f"{item.reason}: more"'])
def test_the_search_lets_texts_be_written(text: str) -> None:
    """To end a sentence, or to put it into another, is no reading."""
    assert list(_parsed(ast.parse(text))) == []
