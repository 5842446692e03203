"""Each feature can be taken out: without its folder and its lines in the registration the rest stands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_kafka_lake.cli.entry_point import COMMANDS

pytestmark = pytest.mark.architecture

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_kafka_lake"
NAMES = sorted(path.parent.name for path in PACKAGE.glob("features/*/feature.py"))

IMPORT = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
"""
NEVER = {"__main__", "env", "versions"}
"""What runs something by being imported."""

_QUICK = ("registration", "pipeline", "core", "ports", "services", "jobs", "cli")


def without(names: list[str], folder: Path) -> Path:
    """Copy the package to a folder without some features and their lines of registration; returns the copy."""
    copy = folder / PACKAGE.name
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    if "decoding" in names:
        (copy / "hooks" / "registry.py").unlink()
    registration = copy / "registration.py"
    text = registration.read_text()
    for name in names:
        shutil.rmtree(copy / "features" / name)
        (line,) = re.findall(rf"^from {PACKAGE.name}\.features\.{name}\.feature import \w+\n", text, re.MULTILINE)
        text = text.replace(line, "")
        text = re.sub(rf"\b{line.split()[-1]}\b(, |,\n|,(?=\)))?", "", text)
    registration.write_text(text)
    return copy


def _run(folder: Path, *words: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(folder)}
    environment["AIRFLOW_HOME"] = str(folder)
    done = subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


def _modules(copy: Path, chosen: tuple[str, ...] = ()) -> list[str]:
    found = []
    for path in sorted(copy.rglob("*.py")):
        parts = path.relative_to(copy.parent).with_suffix("").parts
        if NEVER & set(parts) or (chosen and (len(parts) < 2 or parts[1] not in chosen)):
            continue
        found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_main_path_imports_without_a_feature(name: str, tmp_path: Path) -> None:
    """Planning, staging, auditing and the command line are there when a feature is gone."""
    copy = without([name], tmp_path)
    _run(tmp_path, "-c", IMPORT, *_modules(copy, _QUICK))


def test_command_of_a_feature_goes_with_it(tmp_path: Path) -> None:
    """The command line has `decode` while decoding is there, and lacks nothing else without it."""
    without(["decoding"], tmp_path)
    left = (
        "from airflow_kafka_lake.cli.entry_point import COMMANDS; names = [item.name for item in COMMANDS]; "
        "assert 'decode' not in names and 'audit' in names, names"
    )
    _run(tmp_path, "-c", left)
    assert "decode" in {item.name for item in COMMANDS}


@pytest.mark.nightly
@pytest.mark.parametrize("names", [*([name] for name in NAMES), NAMES], ids="+".join)
def test_rest_is_whole_without_a_feature(names: list[str], tmp_path: Path) -> None:
    """Every module imports, the types fit, and the main path does what its tests say."""
    copy = without(names, tmp_path)
    _run(tmp_path, "-c", IMPORT, *_modules(copy))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    _run(tmp_path, "-m", "mypy", "--no-error-summary", "airflow_kafka_lake")
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    _run(tmp_path, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--fast", *_MAIN_PATH)


_MAIN_PATH = tuple(
    f"tests/unit/services/test_{name}.py"
    for name in ("planning", "running", "publishing", "recovery", "skipping", "losses", "rebuilding", "withdrawals")
)
"""From a plan to a watermark, holds and a rebuild; none of these names a feature."""
