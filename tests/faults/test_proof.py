"""The proof cannot lie: not by a part that died, and not by one that played nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.proof.__main__ import main
from tests.proof.evidence import Chunk, Counts, Evidence
from tests.proof.parts import ROOT, Part, Wish, Work, pytest_report

pytestmark = pytest.mark.nightly  # what it is about is a tool of the tests

FAKE = """
import json, os, signal, sys
report, does, notes = sys.argv[1:]
open(notes, "a").write(does + "\\n")
counts = {"passed": 1}
if does == "stands" and not os.path.exists(notes + ".calm"):
    reached = os.open(notes + ".reached", os.O_WRONLY)
    signal.pause()
if does == "dies":
    json.dump(counts, open(report, "w"))
    os.kill(os.getpid(), signal.SIGKILL)
if does == "changes the tree":
    open("more.py", "w").close()
counts |= {"fails": {"failed": 1}, "skips": {"skipped": 1}, "plays nothing": {"passed": 0}}.get(does, {})
if does != "reports nothing":
    json.dump(counts, open(report, "w"))
sys.exit(3 if does == "ends badly" else 0)
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small history with a package and a program that stands for a part's."""
    root = tmp_path / "repository"
    (root / "package").mkdir(parents=True)
    (root / "docs").mkdir()
    (root / "fake.py").write_text(FAKE)
    (root / ".gitignore").write_text("/build/\n__pycache__/\n")
    _git(root, "init", "-q")
    _commit(root, "package/code.py")
    return root


def _git(root: Path, *words: str) -> None:
    person = ("-c", "user.name=a person", "-c", "user.email=a@example.org")
    subprocess.run(["git", *person, *words], cwd=root, check=True, capture_output=True)


def _commit(root: Path, file: str) -> None:
    """Change a file, and commit."""
    with (root / file).open("a") as changed:
        changed.write("# more\n")
    _git(root, "add", ".")
    _git(root, "commit", "-q", "-m", f"change {file}")


def _prove(root: Path, *words: str, **does: Sequence[str]) -> int:
    """Play parts by name whose chunks do what is said."""
    notes = str(root.parent / "notes")

    def works(acts: Sequence[str]) -> Callable[[Wish], Sequence[Work]]:
        return lambda _: [
            Work(name=f"{number} of {len(acts)}", words=("fake", "REPORT", act, notes), minutes=1)
            for number, act in enumerate(acts, 1)
        ]

    def read(report: Path) -> Counts:
        return Counts(**json.loads(report.read_text()))

    parts = [
        Part(name=name, proves="little", cases="cases", works=works(acts), read=read) for name, acts in does.items()
    ]
    return main(["--evidence", str(root.parent / "evidence"), *words], parts, root)


def _played(root: Path) -> list[str]:
    notes = root.parent / "notes"
    return notes.read_text().splitlines() if notes.exists() else []


def _chunk(root: Path, part: str, name: str) -> Chunk:
    return Evidence.read(part, root.parent / "evidence").chunks[name]


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("dies", "killed by SIGKILL"),
        ("fails", "1 failed"),
        ("ends badly", "exit code 3"),
        ("skips", "1 skipped"),
        ("plays nothing", "no case was played"),
        ("reports nothing", "no case was played"),
    ],
)
def test_one_bad_part_turns_the_whole_red(
    repository: Path, capsys: pytest.CaptureFixture[str], does: str, why: str
) -> None:
    """A part that was killed, failed, left something out or played nothing is no proof, whatever the others say."""
    assert _prove(repository, bad=[does], good=["goes well"]) == 1
    assert _chunk(repository, "bad", "1 of 1").red == why
    assert _played(repository) == [does, "goes well"]
    assert f"RED, {why}" in capsys.readouterr().out


def test_a_part_without_chunks_turns_the_whole_red(repository: Path) -> None:
    """Nothing to play is nothing played."""
    assert _prove(repository, empty=[], good=["goes well"]) == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_proof_goes_on_where_it_was(repository: Path, number: signal.Signals) -> None:
    """What it had started dies with it; what had ended is not played again."""
    reached = repository.parent / "notes.reached"
    os.mkfifo(reached)
    call = f"_prove(Path({str(repository)!r}), slow=['goes well', 'stands', 'ends'])"
    # A suite that a shell has started in the background ignores Ctrl-C, and so would what it starts.
    script = (
        "import signal, sys; from pathlib import Path; from tests.faults.test_proof import _prove; "
        f"signal.signal(signal.SIGINT, signal.default_int_handler); sys.exit({call})"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.DEVNULL) as proof:
        with reached.open("rb") as chunk:
            proof.send_signal(number)
            assert chunk.read() == b"", "the chunk's end"
        assert proof.wait() == (130 if number is signal.SIGINT else -number)
    assert _played(repository) == ["goes well", "stands"]
    (repository.parent / "notes.calm").touch()
    assert _prove(repository, slow=["goes well", "stands", "ends"]) == 0
    assert _played(repository) == ["goes well", "stands", "stands", "ends"]


def test_only_what_is_not_green_for_this_code_is_played(repository: Path) -> None:
    """Documents change nothing, code changes everything, and what was red is tried again."""
    assert _prove(repository, part=["goes well", "fails"]) == 1
    _commit(repository, "docs/page.md")
    assert _prove(repository, part=["goes well", "fails"]) == 1
    assert _played(repository) == ["goes well", "fails", "fails"]
    _commit(repository, "package/code.py")
    assert _prove(repository, part=["goes well", "fails"]) == 1
    assert _played(repository)[3:] == ["goes well", "fails"]
    assert _prove(repository, "--list", part=["goes well", "fails"]) == 0
    assert len(_played(repository)) == 5


def test_a_chunk_is_played_by_its_name_and_leaves_the_others_unplayed(repository: Path) -> None:
    """The whole is not green for it."""
    assert _prove(repository, "--chunk", "2 of", part=["goes well", "goes well"]) == 1
    assert list(Evidence.read("part", repository.parent / "evidence").chunks) == ["2 of 2"]


def test_a_tree_with_changes_of_its_own_gets_no_evidence(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither when it begins so nor when it becomes so amid a chunk: evidence speaks of a commit."""
    assert _prove(repository, part=["changes the tree"]) == 2
    assert Evidence.read("part", repository.parent / "evidence").chunks == {}
    assert _prove(repository, part=["goes well"]) == 2
    assert "more.py" in capsys.readouterr().out
    assert _played(repository) == ["changes the tree"]


TESTS = """
import pytest
def test_passes(): pass
def test_tries_many(record_property): record_property("cases", 40)
def test_fails(): assert False
@pytest.fixture
def broken(): raise ValueError
def test_breaks(broken): pass
def test_skips(): pytest.skip("not here")
"""


def test_pytest_is_counted_by_what_it_tried(tmp_path: Path) -> None:
    """A broken fixture is a failure; a test that tries many cases counts them all."""
    (tmp_path / "test_it.py").write_text(TESTS)
    report = tmp_path / "report.xml"
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", str(report)]
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    subprocess.run(words, cwd=tmp_path, env=alone, capture_output=True, check=False)
    assert pytest_report(report) == Counts(passed=41, failed=2, skipped=1)
