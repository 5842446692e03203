"""No guard of the protocol can go without a test that notices."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import IO, Any

import pytest

from tests.mutants.catalog import MUTANTS
from tests.mutants.mutant import ROOT, Mutant


class Server:
    """Runs tests against a mutant, or against the package as it is."""

    def __init__(self, requests: IO[str], answers: IO[str]) -> None:
        self._requests = requests
        self._answers = answers

    def run(self, mutant: str | None, tests: list[str]) -> dict[str, Any]:
        """Run some tests; see `tests.mutants.serve` for the answer."""
        self._requests.write(json.dumps({"mutant": mutant, "tests": tests}) + "\n")
        self._requests.flush()
        return json.loads(self._answers.readline())


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One process that has collected all tests, for all mutants."""
    command = [sys.executable, "-m", "tests.mutants.serve"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Server(process.stdin, process.stdout)
        process.stdin.close()
        assert process.wait() == 0


@pytest.mark.nightly  # these tests themselves play in every run
def test_guarded_package_is_green(server: Server, request: pytest.FixtureRequest) -> None:
    """What shall turn red in this run is green while every guard is there, and none of it is skipped."""
    calls = [item.callspec for item in request.session.items if hasattr(item, "callspec")]
    playing = [call.params["mutant"] for call in calls if "mutant" in call.params] or MUTANTS
    tests = sorted({test for mutant in playing for test in mutant.red})
    done = server.run(None, tests)
    assert (done["failed"], done["broken"]) == ([], []), done["message"]
    assert done["passed"] >= len(tests), done["message"]


BY_DAY = {item.law: item for item in reversed(MUTANTS) if item.law.startswith("L")}.values()
"""One guard of each law; the nightly takes away the others too, and those of the fine print."""


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(item, id=item.name, marks=[] if item in BY_DAY else [pytest.mark.nightly]) for item in MUTANTS],
)
def test_package_without_a_guard_is_red(server: Server, mutant: Mutant) -> None:
    """A test fails by its own judgement: not for a collection error, and not for a fixture."""
    done = server.run(mutant.name, list(mutant.red))
    assert done["broken"] == [], done["message"]
    assert done["failed"], done["message"]
