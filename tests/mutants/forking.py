"""Tests in a fork of a process that has the slow imports behind it, against a copy of the package with one slip."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.mutants.mutant import ROOT
from tests.mutants.reach import CHOSEN, PACKAGE_IN

SLOW = (
    "_pytest.assertion.rewrite",
    "anyio._backends._asyncio",
    "hypothesis",
    "numpy",
    "sqlalchemy.dialects.sqlite",
    "alembic.command",
    "pyiceberg.catalog.sql",
)
"""What tests need beside the package; the package itself must be imported anew in every fork."""
PRELOADED = "ignore:Module already imported so cannot be rewritten:pytest.PytestAssertRewriteWarning"
_OPTIONS = (
    "-q", "-W", PRELOADED, "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly", "-p",
    "tests.mutants.reach",
)  # fmt: skip
_MEMORY_BYTES = 12 * 2**30
"""A slip may allocate without end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """How a run of tests ended; `red` is the first test that failed, `words` its error or the end of the output."""

    code: int
    red: str = ""
    message: str = ""
    hung: bool = False
    passed: int = 0

    @property
    def is_red(self) -> bool:
        """Whether a test, or the import of one, failed, or all ended without a word; not when pytest could not run."""
        return bool(self.red) or self.hung or self.code < 0


@dataclass(slots=True, eq=False)
class _Reports:
    red: str = ""
    message: str = ""
    passed: int = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.red:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.red, self.message = report.nodeid, crash.message if crash else str(report.longrepr)
        self.passed += report.passed and report.when == "call"

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.red:
            self.red, self.message = report.nodeid, str(report.longrepr)


@dataclass(slots=True)
class Overlay:
    """A copy of the package in a folder that stands before the real one; one module at a time is changed."""

    folder: Path
    _stamps: int = field(default=10**9)

    def __post_init__(self) -> None:
        shutil.copytree(
            ROOT / "airflow_kafka_lake",
            self.folder / "airflow_kafka_lake",
            ignore=shutil.ignore_patterns("__pycache__"),
        )

    @contextlib.contextmanager
    def changed(self, file: str, source: bytes) -> Iterator[None]:
        """Give one module another source for a while; its time is never that of another one, so no cache holds it."""
        self._stamps += 1
        place = self.folder / file
        try:
            place.write_bytes(source)
            os.utime(place, (self._stamps, self._stamps))
            yield
        finally:
            shutil.copy2(ROOT / file, place)


def preload() -> None:
    """Import what tests need beside the package; the package itself is imported anew in every fork."""
    os.chdir(ROOT)
    for name in SLOW:
        importlib.import_module(name)
    assert "airflow_kafka_lake" not in sys.modules
    sys.dont_write_bytecode, sys.pycache_prefix = False, tempfile.mkdtemp(prefix="kafka-lake-mutants-")


def play(
    tests: Mapping[str, float] | Iterable[str],
    *,
    overlay: Path | None = None,
    limit: float,
    first_red: bool = True,
    real: bool = False,
    **environment: str,
) -> Played:
    """Run tests in a fork, `real` ones with the services that they ask for, until the first is red.

    Given as `{test: seconds}` they run in that order, and nothing else does.
    """
    with tempfile.TemporaryDirectory(prefix="kafka-lake-mutant-") as name:
        folder = Path(name)
        if isinstance(tests, Mapping):
            environment[CHOSEN] = str(folder / "tests.json")
            (folder / "tests.json").write_text(json.dumps(dict(tests)))
        if overlay is not None:
            environment[PACKAGE_IN] = str(overlay)
        files = sorted({test.partition("::")[0] for test in tests})
        child = os.fork()
        if not child:
            words = [*files, *["-x"] * first_red, "--whole" if real else "--fast"]
            _be_the_fork(words, overlay, folder, environment, None if real else _MEMORY_BYTES)
        code, hung = _ended(child, limit)
        said = folder / "said.json"
        output = (folder / "output").read_text(errors="replace") if (folder / "output").exists() else ""
        reports = json.loads(said.read_text()) if said.exists() else {"red": "", "message": output[-1000:]}
    timed_out = "from pytest-timeout" in reports["message"]
    words = (reports["message"] or (output[-1500:] if code not in {0, 1} else ""))[:1500]
    return Played(**{**reports, "message": words}, code=code, hung=hung or timed_out)


def _ended(child: int, limit: float) -> tuple[int, bool]:
    """Wait for a fork, and end it with its children when its time is over."""
    until, hung = time.monotonic() + limit, False
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            break
        if not hung and time.monotonic() > until:
            hung = True
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status), hung


def _be_the_fork(
    words: list[str], overlay: Path | None, folder: Path, environment: Mapping[str, str], memory: int | None
) -> None:
    """Run the tests as this process, and end it."""
    code = 70
    try:
        os.setpgid(0, 0)
        if memory:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ |= environment
        (folder / "tmp").mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "tmp")
        options = [*_OPTIONS]
        if overlay is not None:
            # Commands that a test starts meet the copy as well.
            os.environ["PYTHONPATH"] = f"{overlay}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep)
            options += ["-o", f"pythonpath={overlay} ."]
        reports = _Reports()
        code = int(pytest.main([*options, *words], plugins=[reports]))
        said = {"red": reports.red, "message": reports.message, "passed": reports.passed}
        (folder / "said.json").write_text(json.dumps(said))
    except BaseException:  # noqa: BLE001 - nothing may go on as the parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
