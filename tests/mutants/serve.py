"""Run tests in forks of one process that has the slow imports behind it: `python -m tests.mutants.serve`.

Reads one request a line, `{"mutant": NAME or null, "tests": [ARGUMENT, …]}`, and answers each with one line,
`{"code": EXIT CODE, "passed": N, "failed": [NODE ID, …], "broken": [NODE ID, …], "message": OUTPUT}`; a test is broken
when something outside of its body failed, or when it met a slip of the pen in the mutant.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.mutant import ARMED_BY

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
SLIPS = ("NameError", "UnboundLocalError", "ImportError", "SyntaxError")
OPTIONS = ("-q", "--fast", "-W", PRELOADED, "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "tests.mutants.plugin")


class _Reports:
    def __init__(self) -> None:
        self.said: dict[str, Any] = {"passed": 0, "failed": [], "broken": []}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            slip = crash is not None and crash.message.startswith(SLIPS)
            self.said["failed" if report.when == "call" and not slip else "broken"].append(report.nodeid)
        elif report.passed and report.when == "call":
            self.said["passed"] += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.said["broken"].append(report.nodeid)


def main() -> int:
    """Answer requests until there are no more."""
    for name in SLOW:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        # What one fork compiles, the next ones read; a mutant itself is never written.
        sys.dont_write_bytecode, sys.pycache_prefix = False, folder
        for line in sys.stdin:
            request = json.loads(line)
            print(json.dumps(_in_a_fork(request["mutant"], request["tests"])), flush=True)  # noqa: T201 - the answer
    return 0


def _in_a_fork(mutant: str | None, tests: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        child = os.fork()
        if not child:
            _run(mutant, tests, Path(folder))
        _, status = os.waitpid(child, 0)
        words = (Path(folder) / "message").read_text(encoding="utf-8", errors="replace")
        said = Path(folder) / "said"
        reports = json.loads(said.read_text()) if said.exists() else _Reports().said
    return {**reports, "code": os.waitstatus_to_exitcode(status), "message": words[-5000:]}


def _run(mutant: str | None, tests: list[str], folder: Path) -> None:
    """Run the tests as this process, and end it."""
    code = 70
    try:
        output = os.open(folder / "message", os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ[ARMED_BY] = mutant or ""
        reports = _Reports()
        code = int(pytest.main([*OPTIONS, *tests], plugins=[reports]))
        (folder / "said").write_text(json.dumps(reports.said))
    except BaseException:  # noqa: BLE001 - nothing may go on as the server
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
