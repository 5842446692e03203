"""A guard is found by what it says, and by nothing else."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.anchor import exchange

pytestmark = pytest.mark.unit

MODULE = """
class Gate:
    def closed(self, wave):
        # Why it is so.
        if (wave.open
                and not self.empty):
            raise GateError(f"wave {wave} waits", wave=wave)
        return told(wave, key="k")

def closed(wave):
    if wave.open and not self.empty:
        raise GateError("other words")
    if wave.open:
        return None
"""


def changed(function: str, old: str, new: str) -> str:
    """Return the module with a guard exchanged."""
    tree = ast.parse(MODULE)
    exchange(tree, function, old, new)
    return ast.unparse(ast.fix_missing_locations(tree))


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("wave.open and not self.empty", "wave.open", "        if wave.open:"),
        ("raise GateError(...)", "pass", "            pass"),
        ("raise GateError(...)", "", "            pass"),
        ("GateError(...)", "StateError(...)", "            raise StateError(f'wave {wave} waits', wave=wave)"),
        ("told(..., key='k')", "told(...)", "        return told(wave)"),
        ("return told(...)", "noted(wave)\nreturn told(...)", "        noted(wave)"),
        ("if ... and not self.empty:\n    ...", "if ...:\n    ...", "        if wave.open:"),
        (
            "if wave.open and not self.empty:\n    ...",
            "",
            "    def closed(self, wave):\n        return told(wave, key='k')",
        ),
    ],
)
def test_guard_is_found_whatever_its_layout_and_words(old: str, new: str, line: str) -> None:
    """`...` stands for what may be reworded, and keeps it where it comes again."""
    assert line in changed("Gate.closed", old, new)


@pytest.mark.parametrize(
    ("function", "old", "times"),
    [
        ("closed", "wave.open", 2),
        ("Gate.closed", "wave.shut", 0),
        ("Gate.closed", "not self.empty and wave.open", 0),
        ("Gate.open", "wave.open", 0),
        ("", "wave.open and not self.empty", 2),
    ],
)
def test_guard_that_is_not_there_once_is_refused(function: str, old: str, times: int) -> None:
    """A guard that is gone, is there twice, or says something else needs a person."""
    with pytest.raises(ValueError, match=f"is {times} times in"):
        changed(function, old, "True")
