"""The tool that draws slips at random: what it may change, what it draws, and that a slip is met."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.mutant import ROOT
from tests.mutants.mutations import PACKAGE, slips, slips_of
from tests.mutants.random import reaching

pytestmark = pytest.mark.nightly  # what it is about is a tool of the tests

SOURCE = '''"""LongText: 1 < 2."""
from typing import TYPE_CHECKING
__all__ = ["named"]
_WAIT_SECONDS = 3
LIMIT = 7
if TYPE_CHECKING:
    x = 1
class Thing:
    """LongText."""
    many: dict[str, int] = field(default=3)
    def __repr__(self) -> str:
        return "a" if self.many else "b"
def named(count: int | None = 4, *, key: str = "word") -> bool:
    """LongText."""
    assert count is not None
    log.info("read %s of %s", count, 5)
    if count < 2 and key:
        raise ValueError(f"{count + 1} is too few", 9)
    for at in (1, 2):
        continue
    é = "é"; recover(count, key)
    return min(count, 8) >= 3
'''


def test_slips_are_small_and_pass_by_what_no_test_looks_at() -> None:
    """Documentation, types, exports, tuned waits, logs, words of errors and narrowing assertions stay as they are."""
    found = {(slip.place, slip.operator, slip.before, slip.after) for slip in slips_of(SOURCE.encode(), "m.py")}
    named = {("named", "constant changed", str(n), str(n + 1)) for n in (2, 1, 8, 3, 4)}
    assert found == named | {
        ("", "constant changed", "7", "8"),
        ("Thing", "constant changed", "3", "4"),
        ("Thing", "argument dropped", "field(default=3)", "field()"),
        ("named", "constant changed", "'word'", "'wordx'"),
        ("named", "constant changed", "'é'", "'éx'"),
        ("named", "condition forced", "count < 2 and key", "True"),
        ("named", "condition forced", "count < 2 and key", "False"),
        ("named", "and/or", "count < 2 and key", "count < 2 or key"),
        ("named", "condition dropped", "count < 2 and key", "key"),
        ("named", "condition dropped", "count < 2 and key", "count < 2"),
        ("named", "comparison turned", "count < 2", "count >= 2"),
        ("named", "boundary moved", "count < 2", "count <= 2"),
        ("named", "raise removed", "raise ValueError(f'{count + 1} is too few', 9)", "pass"),
        ("named", "statement removed", "continue", "pass"),
        ("named", "statement removed", "recover(count, key)", "pass"),
        ("named", "arguments swapped", "recover(count, key)", "recover(key, count)"),
        ("named", "result dropped", "return min(count, 8) >= 3", "return None"),
        ("named", "comparison turned", "min(count, 8) >= 3", "min(count, 8) < 3"),
        ("named", "boundary moved", "min(count, 8) >= 3", "min(count, 8) > 3"),
        ("named", "twin called", "min", "max"),
    }


def test_source_with_a_slip_is_another_program() -> None:
    """Each slip of a module is Python, and differs from the module and from every other slip."""
    path = PACKAGE / "core" / "kafka" / "batches.py"
    source = path.read_bytes()
    found = slips(path)
    programs = [ast.dump(ast.parse(slip.changed(source))) for slip in found]
    assert len({ast.dump(ast.parse(source)), *programs}) == len(found) + 1
    assert len({slip.key for slip in found}) == len(found)


def test_slip_of_a_constant_meets_the_tests_of_those_who_use_it() -> None:
    """A helper of its module runs while it is imported, in one test alone: most that depend on it run no function of
    it."""
    file, user = (f"airflow_kafka_lake/adapters/sql_ledger/{name}.py" for name in ("tables", "queries"))

    def ran(function: str) -> dict[str, Any]:
        return {"seconds": 1.0, "functions": {function}, "modules": {function.partition(":")[0]}}

    mine = {"seconds": 1.0, "functions": set(), "modules": set()}
    reached = {
        "tests/faults/test_zombies.py::test_compares": mine,
        "tests/contracts/test_first.py::test_imports": ran(f"{file}:_table"),
        "tests/contracts/test_user.py::test_reads": ran(f"{user}:waves"),
        "tests/unit/test_other.py::test_other": ran("airflow_kafka_lake/core/offsets.py:missing"),
    }
    constant = next(slip for slip in slips(ROOT / file) if not slip.place)
    found = reaching(constant, reached)
    assert set(found) == {*reached} - {"tests/unit/test_other.py::test_other"}


PLAY = """
import json, sys, tempfile
from pathlib import Path
from tests.mutants.forking import Overlay, play, preload
from tests.mutants.mutant import ROOT
from tests.mutants.mutations import slips
preload()
overlay = Overlay(Path(tempfile.mkdtemp()))
(slip,) = [it for it in slips(ROOT / sys.argv[1]) if it.before == sys.argv[2] and it.operator == "comparison turned"]
tests = {sys.argv[3]: 1.0}
with overlay.changed(slip.file, slip.changed((ROOT / slip.file).read_bytes())):
    red = play(tests, overlay=overlay.folder, limit=120)
green = play(tests, overlay=overlay.folder, limit=120)
print(json.dumps([red.red, red.code, green.red, green.code, green.passed]))
"""


def test_slip_is_met_and_leaves_no_trace(tmp_path: Path) -> None:
    """The test is red with the slip, green without it, in forks of one process."""
    test = "tests/unit/adapters/test_kafka_batches.py::test_unknown_codec_is_damage"
    given = ["airflow_kafka_lake/adapters/kafka_batches.py", "ranges[at].start <= batch.last_offset", test]
    done = subprocess.run(
        [sys.executable, "-c", PLAY, *given], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300,
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [test, 1, "", 0, 1]
