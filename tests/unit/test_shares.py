"""What is left to the nightly: a share that moves, never what the change touches, and nothing in a whole run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import shares
from tests.shares import ROOT, Shares, plays, rotating


@pytest.mark.parametrize("of", [2, 3, 8])
def test_each_member_plays_once_in_as_many_successive_shares(of: int) -> None:
    """No guard and no failpoint waits for ever."""
    for name in ("a", "b", "some longer name"):
        assert sum(plays(name, of, moved) for moved in range(of)) == 1


def test_what_the_change_touches_plays_in_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """And everything does where no history says what was touched."""
    monkeypatch.setattr(shares, "touched", lambda: frozenset({ROOT / "changed.py"}))
    assert rotating(2, ROOT / "changed.py") == ()
    assert [mark.name for mark in rotating(2, ROOT / "other.py")] == ["rotating"]
    monkeypatch.setattr(shares, "touched", lambda: None)
    assert rotating(2, ROOT / "other.py") == ()


def test_a_file_of_the_last_commits_is_touched() -> None:
    """The history of this tree is read."""
    found = shares.touched()
    assert found is None or all(isinstance(path, Path) and path.is_absolute() for path in found)


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({}, ["nightly", "odd"]),
        ({"keyword": "odd"}, ["nightly"]),
        ({"args": ["a::b"]}, ["nightly"]),
        ({"whole": True}, []),
    ],
)
def test_a_run_says_what_it_leaves_out(given: dict[str, Any], left: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that names its tests plays their shares all, a whole run plays everything."""
    monkeypatch.setattr(shares, "share", lambda: 0)
    names = {"nightly": pytest.mark.nightly, "plain": pytest.mark.unit, "odd": _rotating("odd", plays_now=False)}
    names["even"] = _rotating("even", plays_now=True)
    said: list[Any] = []
    config: Any = SimpleNamespace(
        getoption=lambda name: given.get(name.removeprefix("--"), False),
        args=given.get("args", ["tests"]),
        hook=SimpleNamespace(pytest_deselected=lambda items: said.extend(item.nodeid for item in items)),
    )
    items: Any = [_item(name, mark) for name, mark in names.items()]
    Shares(config).pytest_collection_modifyitems(config, items)
    assert sorted(said) == left
    assert sorted([*said, *(item.nodeid for item in items)]) == sorted(names)


def _rotating(name: str, *, plays_now: bool) -> pytest.MarkDecorator:
    return pytest.mark.rotating(next(of for of in range(2, 100) if plays(name, of, 0) is plays_now))


def _item(name: str, mark: pytest.MarkDecorator) -> Any:
    marks = {mark.name: mark.mark}
    return SimpleNamespace(nodeid=name, get_closest_marker=marks.get)
