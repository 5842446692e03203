"""What imports may and may not do: point inward, cost little, touch nothing."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.architecture

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_kafka_lake"
HEAVY = {
    "airflow",
    "alembic",
    "confluent_kafka",
    "kafka",
    "pendulum",
    "psutil",
    "pyarrow",
    "pydantic",
    "pyiceberg",
    "pyspark",
    "rich",
    "sqlalchemy",
}

WORLDLY = {
    "asyncio",
    "io",
    "logging",
    "os",
    "pathlib",
    "random",
    "shutil",
    "socket",
    "subprocess",
    "threading",
    "time",
}
OUTWARD = {"open", "print", "input", "exec", "eval", ".now", ".utcnow", ".today"}
"""Calls of a clock and of the world, methods with their dot."""

LIGHT = ("pipeline", "ports", "get_provider_info", "core", "services")
"""What Dag files, provider discovery and the Spark driver import: standard library and ourselves."""

NOT_IMPORTABLE = {"__main__", "env", "versions"}
"""Entry points that run something by being imported: that is their purpose, and no module imports them by accident."""


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _modules() -> list[str]:
    files = sorted(PACKAGE.rglob("*.py"))
    return [_module(file) for file in files if not NOT_IMPORTABLE & set(file.relative_to(ROOT).with_suffix("").parts)]


def _light() -> list[str]:
    chosen = tuple(f"airflow_kafka_lake.{name}" for name in LIGHT)
    return ["airflow_kafka_lake"] + [
        name for name in _modules() if any(name == light or name.startswith(f"{light}.") for light in chosen)
    ]


def _run(code: str, *arguments: str, home: Path) -> object:
    """Run code in a fresh interpreter and return the JSON document in its last line."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "AIRFLOW_HOME": str(home),
        "HOME": str(home),
    }
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, check=False, cwd=home
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@cache
def _core() -> list[tuple[str, ast.AST]]:
    """Return everything that stands in core, with its place."""
    trees = {path: ast.parse(path.read_text()) for path in sorted((PACKAGE / "core").rglob("*.py"))}
    return [
        (f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", node)
        for path, tree in trees.items()
        for node in ast.walk(tree)
    ]


def _imported() -> list[tuple[str, str]]:
    """Return every module that core imports, with the place; one that is imported relatively begins with a dot."""
    found = []
    for place, node in _core():
        if isinstance(node, ast.Import):
            found += [(place, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((place, "." * node.level + (node.module or "")))
    return found


def test_core_imports_only_the_standard_library_and_core() -> None:
    """Decisions know no outside world, not even inside a function."""
    core = "airflow_kafka_lake.core"
    assert [
        f"{place} imports {name}"
        for place, name in _imported()
        if not f"{name}.".startswith(f"{core}.") and name.partition(".")[0] not in sys.stdlib_module_names
    ] == []


def test_core_has_no_clock_no_io_no_logging() -> None:
    """Time and the world are arguments of a decision."""
    found = [f"{place} imports {name}" for place, name in _imported() if name.partition(".")[0] in WORLDLY]
    for place, node in _core():
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else f".{getattr(node.func, 'attr', '')}"
            found += [f"{place} calls {name}"] if name in OUTWARD else []
    assert found == []


def test_light_modules_pull_in_nothing_heavy(tmp_path: Path) -> None:
    """A Dag file that imports `Pipeline` pays for no library it does not use."""
    code = """
import importlib, json, sys
culprits = {}
for name in sys.argv[1:]:
    before = set(sys.modules)
    importlib.import_module(name)
    culprits[name] = sorted({new.partition(".")[0] for new in set(sys.modules) - before})
print(json.dumps(culprits))
"""
    modules = _light()
    assert "airflow_kafka_lake.pipeline" in modules
    loaded = _run(code, *modules, home=tmp_path)
    assert isinstance(loaded, dict)
    assert {name: bad for name, new in loaded.items() if (bad := sorted(HEAVY & set(new)))} == {}


AUDIT = """
import importlib, json, os, sys

PREFIX = sys.argv[1]
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
ACTS = {"subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.mkdir", "os.remove",
        "os.rename", "os.rmdir", "os.chmod", "os.symlink", "socket.__new__", "socket.connect", "socket.bind",
        "sqlite3.connect", "shutil.rmtree", "tempfile.mkstemp", "tempfile.mkdtemp"}
seen = []

def ours():
    # The innermost frame decides: a third-party module that is being imported acts for itself, not for us.
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(PREFIX):
            return f"{name[len(PREFIX):]}:{frame.f_lineno}"
        if name.startswith("<frozen importlib"):
            return None
        frame = frame.f_back
    return None

def hook(event, args):
    if event == "open":
        mode, flags = args[1], args[2]
        if not ((isinstance(mode, str) and set(mode) & set("wax+")) or (isinstance(flags, int) and flags & WRITING)):
            return
    elif event not in ACTS:
        return
    if place := ours():
        seen.append(f"{place} {event}")

sys.addaudithook(hook)
for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
    except Exception as error:
        seen.append(f"{name} does not import: {error!r}")
print()
print(json.dumps(seen))
"""


@pytest.mark.nightly  # by day: core imports no clock and no I/O, below
@pytest.mark.slow
def test_importing_any_module_touches_nothing(tmp_path: Path) -> None:
    """No import of ours opens a socket, writes a file or starts a process."""
    assert _run(AUDIT, str(PACKAGE), *_modules(), home=tmp_path) == []


@pytest.mark.parametrize(
    "line",
    [
        "import subprocess; subprocess.run(['true'])",
        "open('x', 'w').close()",
        "import socket; socket.socket()",
        "import tempfile; tempfile.mkdtemp()",
        "import pathlib; pathlib.Path('d').mkdir()",
    ],
)
def test_the_audit_sees_a_module_that_acts(line: str, tmp_path: Path) -> None:
    """The guard itself is tried: a module that does something when imported is named."""
    (tmp_path / "culprit.py").write_text(f"import sys\n{line}\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{AUDIT}"
    seen = _run(code, str(tmp_path), "culprit", home=tmp_path)
    assert seen
    assert all("culprit.py:2" in place for place in seen)  # type: ignore[attr-defined]
