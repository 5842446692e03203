"""Run tests in forks of one process that has collected them: `python -m tests.mutants.serve`.

Reads one request a line, `{"mutant": NAME or null, "tests": [NODE ID, …]}`, and answers each with one line,
`{"passed": N, "failed": [NODE ID, …], "broken": [NODE ID, …], "message": OUTPUT}`; a test is broken when something
outside of its body failed, or when it met a slip of the pen in the mutant. A fork gives the functions of its mutant
other code where they are, so nothing is imported anew.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import traceback
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import IO, Any

import pytest

from tests.mutants.catalog import MUTANTS
from tests.mutants.mutant import Mutant

SLIPS = ("NameError", "UnboundLocalError", "ImportError", "SyntaxError")
OPTIONS = ("-q", "-s", "--fast", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly")
Functions = dict[tuple[str, str], list[FunctionType]]


@dataclass(slots=True, eq=False)
class Server:
    """Takes requests in the place of pytest's own loop."""

    requests: IO[str]
    answers: IO[str]
    said: dict[str, Any] = field(default_factory=lambda: {"passed": 0, "failed": [], "broken": [], "message": ""})

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Answer requests until there are no more."""
        functions = functions_by_place()
        for line in self.requests:
            request = json.loads(line)
            items = [
                item for item in session.items if {item.nodeid, item.nodeid.partition("[")[0]} & {*request["tests"]}
            ]
            mutant = next((item for item in MUTANTS if item.name == request["mutant"]), None)
            self.answers.write(json.dumps(self._in_a_fork(mutant, functions, items)) + "\n")
            self.answers.flush()
        return True

    def _in_a_fork(self, mutant: Mutant | None, functions: Functions, items: list[pytest.Item]) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "said"
            child = os.fork()
            if not child:
                try:
                    if mutant:
                        arm(mutant, functions)
                    for item, following in zip(items, [*items[1:], None], strict=True):
                        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                    place.write_text(json.dumps(self.said))
                except BaseException:  # noqa: BLE001 - nothing may go on as the server
                    place.write_text(json.dumps(self.said | {"broken": [""], "message": traceback.format_exc()}))
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
            return json.loads(place.read_text()) if place.exists() else self.said | {"broken": ["the process died"]}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the fate of a test."""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            slip = crash is not None and crash.message.startswith(SLIPS)
            self.said["failed" if report.when == "call" and not slip else "broken"].append(report.nodeid)
            self.said["message"] += report.longreprtext[-5000:]
        elif report.passed and report.when == "call":
            self.said["passed"] += 1


def functions_by_place() -> Functions:
    """Return the functions of this process by file and qualified name; what decorators have wrapped is one of them."""
    gc.unfreeze()
    found: Functions = defaultdict(list)
    for item in gc.get_objects():
        if isinstance(item, FunctionType):
            found[item.__code__.co_filename, item.__code__.co_qualname].append(item)
    gc.freeze()
    return found


def arm(mutant: Mutant, functions: Functions) -> None:
    """Take the guard of a mutant out of this process."""
    file = str(mutant.path())
    module = compile(mutant.changed(mutant.source()), file, "exec", dont_inherit=True)
    changed = {code.co_qualname: code for code in _codes(module)}
    for function in {mutant.function, *(name for name, _, _ in mutant.more)}:
        words = function.split(".")
        outer = next(name for n in range(len(words)) if (file, name := ".".join(words[: n + 1])) in functions)
        assert any(item.__code__ != changed[outer] for item in functions[file, outer]), f"{mutant.name} changes nothing"
        for item in functions[file, outer]:
            item.__code__ = changed[outer]


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of what a module defines, at any depth but inside of functions."""
    for item in code.co_consts:
        if isinstance(item, CodeType):
            yield item
            if not item.co_flags & 2:  # a class: its methods
                yield from _codes(item)


def main() -> int:
    """Collect the tests that shall turn red, and take requests."""
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what pytest says is no answer
    files = sorted({test.partition("::")[0] for mutant in MUTANTS for test in mutant.red})
    return int(pytest.main([*OPTIONS, *files], plugins=[Server(requests, answers)]))


if __name__ == "__main__":
    sys.exit(main())
