"""What other programs rely on stays, or the changelog names what has changed (docs/reference/compatibility.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

import airflow_kafka_lake
from tests.promise import changelog
from tests.promise.__main__ import freeze
from tests.promise.surfaces import FROZEN, SURFACES, Surface, breaks

pytestmark = pytest.mark.architecture

POLICY = Path(__file__).parents[2] / "docs" / "reference" / "compatibility.md"
BEFORE = ["run", "run --from", "run --from: default now", "run PIPELINE", "run PIPELINE: required"]
EMPTY = "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-01-01\n\n### Added\n\n- All.\n"


def surface(folder: Path, *lines: str, grows: bool = True) -> Surface:
    """Return a surface with such lines, which was frozen with those of BEFORE."""
    made = Surface(name=str(folder / "some"), lines=lambda: lines, grows=grows)
    made.file.write_text("\n".join(BEFORE) + "\n", encoding="utf-8")
    return made


def saying(kind: str, text: str) -> str:
    """Return a changelog that says something of what is not released."""
    return EMPTY.replace("## [Unreleased]\n", f"## [Unreleased]\n\n### {kind}\n\n- {text}\n")


@pytest.mark.parametrize("promised", SURFACES, ids=lambda item: item.name)
def test_what_is_promised_stays_or_the_changelog_names_it(promised: Surface) -> None:
    """Bring it back, or name each of these in backquotes under Changed or Removed of CHANGELOG.md's Unreleased. Before
    the first release `python -m tests.promise` is enough."""
    assert changelog.unnamed(breaks(promised, promised.frozen(), promised.now()), changelog.read()) == []


def test_a_removal_is_a_break_until_the_changelog_names_it(tmp_path: Path) -> None:
    """By its name, in the right place."""
    less = surface(tmp_path, "run", "run PIPELINE", "run PIPELINE: required")
    found = breaks(less, less.frozen(), less.now())
    assert found == ["run --from"]
    assert changelog.unnamed(found, EMPTY) == found
    assert changelog.unnamed(found, saying("Added", "`run --from`")) == found
    assert changelog.unnamed(found, saying("Removed", "run --from")) == found
    assert changelog.unnamed(found, EMPTY + "\n### Removed\n\n- `run --from`\n") == found
    assert changelog.unnamed(found, saying("Removed", "`run --from`: say `--since`.")) == []


@pytest.mark.parametrize(
    ("new", "found"),
    [
        ("run --to", []),
        ("run --to: required", ["run --to"]),
        ("drop PIPELINE: required", []),
    ],
)
def test_an_addition_is_a_break_where_an_older_caller_lacks_it(tmp_path: Path, new: str, found: list[str]) -> None:
    """A new argument is none, if it may be left out."""
    more = surface(tmp_path, *BEFORE, new)
    assert breaks(more, more.frozen(), more.now()) == found


def test_a_demand_that_is_dropped_is_no_break(tmp_path: Path) -> None:
    """Who still gives it is right."""
    lenient = surface(tmp_path, *BEFORE[:-1])
    assert breaks(lenient, lenient.frozen(), lenient.now()) == []


def test_a_changed_meaning_is_a_break(tmp_path: Path) -> None:
    """Another default, type or place."""
    other = surface(tmp_path, *(line.replace("now", "never") for line in BEFORE))
    assert breaks(other, other.frozen(), other.now()) == ["run --from"]


def test_an_addition_is_named_where_the_surface_does_not_grow_by_itself(tmp_path: Path) -> None:
    """A column of a table: readers see it."""
    more = surface(tmp_path, *BEFORE, "run --to", grows=False)
    assert breaks(more, more.frozen(), more.now()) == ["run --to"]


def test_a_break_is_not_frozen_before_it_is_named(tmp_path: Path) -> None:
    """The command that renews the frozen copies forgets nothing, and writes none of them then."""
    less = surface(tmp_path, "run")
    assert freeze([less], EMPTY) == ["run --from", "run PIPELINE"]
    assert less.frozen() == BEFORE
    assert freeze([less], saying("Removed", "`run --from`, `run PIPELINE`")) == []
    assert less.frozen() == ["run"]


def test_every_surface_has_its_line_in_the_policy_and_nothing_else_is_frozen() -> None:
    """A reader finds the frozen copy, and whether it may grow."""
    rows = [line for line in POLICY.read_text(encoding="utf-8").splitlines() if "tests/promise/frozen/" in line]
    told = {item.name: next(line for line in rows if f"/{item.name}.txt" in line) for item in SURFACES}
    assert {name: "yes" in line.split("|")[3] for name, line in told.items()} == {s.name: s.grows for s in SURFACES}
    assert {file.stem for file in FROZEN.iterdir()} == set(told)


@pytest.mark.parametrize("promised", SURFACES, ids=lambda item: item.name)
def test_a_surface_is_not_empty_and_is_the_same_each_time(promised: Surface) -> None:
    """Nothing of a machine or a process is in it."""
    assert len(promised.now()) >= 10
    assert promised.now() == promised.now()
    assert [line for line in promised.now() if " object at 0x" in line or "/home/" in line] == []


def test_the_changelog_has_its_form() -> None:
    """Newest first, `Unreleased` on top, days that do not run backwards, and the six kinds of changes."""
    text = changelog.read()
    first, *others = changelog.versions(text).items()
    assert first == (changelog.UNRELEASED, None)
    days = [day or "" for _, day in others]
    assert days == sorted(days, reverse=True)
    assert all(days)
    for version in changelog.versions(text):
        assert set(changelog.parts(text, version)) <= set(changelog.KINDS)
    assert [version for version, _ in others][:1] in ([], [airflow_kafka_lake.__version__])
