"""Which functions of the package a test runs: `python -m pytest -p tests.mutants.reach …`, and tests in a given order.

Only calls are traced, not lines: a function is what a mutant stands in, and a trace of calls costs little.
"""

from __future__ import annotations

import inspect
import itertools
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType

import pytest

from tests.mutants.mutant import ROOT

WRITTEN_TO = "KAFKA_LAKE_REACH"
"""The environment variable that names the file for the record."""
CHOSEN = "KAFKA_LAKE_TESTS"
"""The environment variable that names a file of `{test: seconds}`: these run, in this order, and nothing else."""
PACKAGE_IN = "KAFKA_LAKE_PACKAGE_IN"
"""The environment variable that names the folder which holds the package to be met."""
CALLS, CALLS_OF = "KAFKA_LAKE_CALLS", "KAFKA_LAKE_CALLS_OF"
"""The environment variables with the file and the package of `site/sitecustomize.py`."""
SITE = Path(__file__).with_name("site")
PATIENCE, AT_LEAST_SECONDS = 20, 30
"""How many times as long as on record a test may take before it counts as hanging, and how long at least."""


class Recorder:
    """Writes down, per test, its seconds and the functions of the package that it ran."""

    def __init__(self, file: Path, package: str) -> None:
        self._file = file
        self._package = package
        self._codes: dict[int, CodeType] = {}
        self._tests: dict[str, dict[str, object]] = {}
        self._calls = file.with_suffix(".calls")
        os.environ[CALLS], os.environ[CALLS_OF] = str(self._calls), package
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SITE), os.environ.get("PYTHONPATH", "")]))

    def _call(self, frame: FrameType, event: str, arg: object) -> None:
        code = frame.f_code
        self._codes[id(code)] = code

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Trace one test with its fixtures."""
        self._codes.clear()
        threading.settrace(self._call)
        sys.settrace(self._call)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            record = self._tests.setdefault(item.nodeid, {})
            # What modules and classes run themselves is met by the test that imports them first.
            functions = (code for code in self._codes.values() if code.co_flags & inspect.CO_NEWLOCALS)
            ran = [(code.co_filename, code.co_qualname) for code in functions]
            record["functions"] = sorted({self._name(*it) for it in ran if it[0].startswith(self._package)})

    def _name(self, path: str, place: str) -> str:
        """Name a function as `tests.mutants.mutations` names a place; what has no name belongs to what holds it."""
        parts = place.split(".")
        named = [*itertools.takewhile(lambda part: not part.startswith("<") or part == "<locals>", parts)]
        file = path.removeprefix(self._package)
        return f"airflow_kafka_lake/{file}:{'.'.join(part for part in named if part != '<locals>')}"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Revoke a phase of a test."""
        record = self._tests.setdefault(report.nodeid, {})
        record["seconds"] = round(float(record.get("seconds", 0)) + report.duration, 4)  # type: ignore[arg-type]
        if report.when == "call" or not report.passed:
            record["passed"] = report.passed

    def pytest_sessionfinish(self) -> None:
        """Keep the record of tests that passed; what ran in other processes counts for every test of the file."""
        said = self._calls.read_text().splitlines() if self._calls.exists() else []
        others = {self._name(*line.split("\t")) for line in said}
        for record in self._tests.values():
            record["functions"] = sorted(others.union(record.get("functions", ())))  # type: ignore[arg-type]
        self._file.write_text(json.dumps({test: it for test, it in self._tests.items() if it.get("passed")}))


class Chooser:
    """Leaves in only the chosen tests, in their order, each with a limit of time."""

    def __init__(self, chosen: dict[str, float]) -> None:
        self._chosen = chosen
        self._order = {test: at for at, test in enumerate(chosen)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Choose and order."""
        items[:] = sorted(
            (item for item in items if item.nodeid in self._order), key=lambda item: self._order[item.nodeid]
        )
        for item in items:
            limit = max(AT_LEAST_SECONDS, PATIENCE * self._chosen[item.nodeid])
            item.add_marker(pytest.mark.timeout(limit), append=False)


class Proof:
    """A run that met another package than the one it was given proves nothing."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def pytest_sessionfinish(self) -> None:
        """Check where the package came from."""
        found = sys.modules.get("airflow_kafka_lake")
        if found is not None and not str(found.__file__).startswith(self._folder):
            raise RuntimeError(f"the tests met {found.__file__}, not the one in {self._folder}")


def pytest_configure(config: pytest.Config) -> None:
    """Do what the environment asks for."""
    if file := os.environ.get(WRITTEN_TO):
        config.pluginmanager.register(Recorder(Path(file), f"{ROOT}/airflow_kafka_lake/"), "reach-recorder")
    if file := os.environ.get(CHOSEN):
        config.pluginmanager.register(Chooser(json.loads(Path(file).read_text())), "reach-chooser")
    if folder := os.environ.get(PACKAGE_IN):
        config.pluginmanager.register(Proof(folder), "reach-proof")
