"""Files stay whole where several processes run the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lanes import DIVIDED, TESTS, TOGETHER, lane_of

ROOT = TESTS.parent
CONFTEST = "from tests.conftest import pytest_xdist_make_scheduler\n"
TEST = """
import os, pathlib, pytest

@pytest.mark.parametrize("number", range(8))
def test_it(number):
    with pathlib.Path(__file__).with_suffix(".ran").open("a") as ran:
        ran.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")
"""


@pytest.mark.slow
def test_a_file_runs_in_one_process(tmp_path: Path) -> None:
    """So its broker, its Spark or its Airflow starts once."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name in "abcd":
        (tmp_path / f"test_{name}.py").write_text(TEST)
    words = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "-c", os.devnull, "."]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    env.pop("PYTEST_XDIST_WORKER", None)
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    ran = [set(path.read_text().split()) for path in tmp_path.glob("*.ran")]
    assert [len(processes) for processes in ran] == [1] * 4
    assert len(set.union(*ran)) == 2


def test_files_that_are_named_for_lanes_exist() -> None:
    """A file that was renamed takes its lane with it."""
    assert all((TESTS / name).exists() for name in [*DIVIDED, *TOGETHER, *TOGETHER.values()])


def test_what_shares_nothing_is_divided() -> None:
    """A large file of independent tests has several lanes, others one."""
    (divided, parts), *_ = DIVIDED.items()
    assert {lane_of(f"tests/{divided}::test_it[{n}]") for n in range(100)} == {f"{divided}-{n}" for n in range(parts)}
    assert {lane_of(f"tests/unit/test_lanes.py::test_it[{n}]") for n in range(9)} == {"unit/test_lanes.py"}
