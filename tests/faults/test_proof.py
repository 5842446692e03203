"""The proof cannot lie: not by a part that died, not by one that played nothing, and not by evidence of long ago."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.proof.command import main
from tests.proof.evidence import ALLOWED, Chunk, Counts, Evidence
from tests.proof.parts import HISTORIES, PARTS, Part, Wish, Work, named
from tests.proof.reports import bench_report, demo_report, pytest_report, random_report, soak_report
from tests.proof.tree import ROOT, Tree, UnknownCommitError

FIRST_RECORD = "384d07e"
"""The commit that first recorded the matrix."""
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


def _fakes(root: Path, **does: Sequence[str]) -> list[Part]:
    """Return parts by name whose chunks do what is said."""
    notes = str(root.parent / "notes")

    def works(acts: Sequence[str]) -> Callable[[Wish], Sequence[Work]]:
        return lambda _: [
            Work(name=f"{number} of {len(acts)}", words=("fake", "REPORT", act, notes), minutes=1)
            for number, act in enumerate(acts, 1)
        ]

    return [
        Part(
            name=name,
            proves="little",
            cases="cases",
            works=works(acts),
            read=lambda report: Counts(**json.loads(report.read_text())),
            speaks_of=("package",),
        )
        for name, acts in does.items()
    ]


def _prove(root: Path, *words: str, **does: Sequence[str]) -> int:
    folder = str(root.parent / "evidence")
    return main(["--evidence", folder, *words], parts=_fakes(root, **does), tree=Tree(root), found_versions=dict)


def _played(root: Path) -> list[str]:
    notes = root.parent / "notes"
    return notes.read_text().splitlines() if notes.exists() else []


def _evidence(root: Path, part: str) -> Evidence:
    return Evidence.read(part, root.parent / "evidence")


def test_evidence_says_what_was_played_on_which_commit(repository: Path) -> None:
    """Commit, date, seed, seconds, exit code and counts, for each chunk."""
    assert _prove(repository, "--seed", "7", first=["goes well", "goes well"], second=["goes well"]) == 0
    chunk = _evidence(repository, "first").chunks["2 of 2"]
    assert (chunk.commit, chunk.seed, chunk.code, chunk.counts.passed) == (Tree(repository).commit(), 7, 0, 1)
    assert chunk.date.endswith("+00:00")
    assert chunk.command.startswith("python -m fake REPORT")
    assert _evidence(repository, "first").counts.passed == 2


def test_what_is_red_can_be_played_alone_once_more(repository: Path) -> None:
    """With its seed, on a later commit, beside what was green before and stays as it is."""
    assert _prove(repository, "--seed", "7", first=["goes well", "fails"], second=["goes well"]) == 1
    before = Tree(repository).commit()
    _commit(repository, "package/code.py")
    again = {"first": ["goes well", "goes well too"], "second": ["goes well"]}
    assert _prove(repository, "--red", **again) == 0
    assert _played(repository)[3:] == ["goes well too"]
    chunks = _evidence(repository, "first").chunks
    now = Tree(repository).commit()
    assert [(chunk.commit, chunk.seed, chunk.red) for chunk in chunks.values()] == [(before, 7, ""), (now, 7, "")]


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
    assert _evidence(repository, "bad").chunks["1 of 1"].red == why
    assert list(_evidence(repository, "bad").problems(Tree(repository), ["package"])) != []
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


def test_a_green_of_another_size_is_no_green(repository: Path) -> None:
    """A chunk is what its command says: other words are another chunk."""
    assert _prove(repository, part=["goes well"]) == 0
    assert _prove(repository, part=["goes better"]) == 0
    assert _played(repository) == ["goes well", "goes better"]
    assert _prove(repository, "--again", part=["goes better"]) == 0
    assert len(_played(repository)) == 3


def test_a_tree_with_changes_of_its_own_gets_no_evidence(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither when it begins so nor when it becomes so amid a chunk: evidence speaks of a commit."""
    assert _prove(repository, part=["changes the tree"]) == 2
    assert _evidence(repository, "part").chunks == {}
    assert "more.py" in capsys.readouterr().out
    assert _prove(repository, part=["goes well"]) == 2
    assert _played(repository) == ["changes the tree"]


def test_evidence_that_the_code_has_left_behind_is_red(repository: Path) -> None:
    """The count is of commits that touch what the part speaks of, not of those beside it."""
    assert _prove(repository, part=["goes well"]) == 0
    for _ in range(3):
        _commit(repository, "package/code.py")
        _commit(repository, "docs/page.md")
    tree, evidence = Tree(repository), _evidence(repository, "part")
    assert list(evidence.problems(tree, ["package"], allowed=3)) == []
    (old,) = evidence.problems(tree, ["package"], allowed=2)
    assert "3 commits changed package since, and 2 may" in old


def test_evidence_of_an_unknown_commit_is_no_evidence(repository: Path) -> None:
    """Nothing can be said about its age."""
    assert _prove(repository, part=["goes well"]) == 0
    evidence = _evidence(repository, "part")
    evidence.chunks["1 of 1"] = replace(evidence.chunks["1 of 1"], commit="0" * 12)
    with pytest.raises(UnknownCommitError, match="no commit of this history"):
        list(evidence.problems(Tree(repository), ["package"]))


def test_evidence_of_a_commit_beside_the_history_is_no_evidence(repository: Path) -> None:
    """A commit that was rewritten afterwards is known where it was made, and to no clone."""
    _commit(repository, "package/code.py")
    assert _prove(repository, part=["goes well"]) == 0
    _git(repository, "reset", "-q", "--hard", "HEAD~")
    _commit(repository, "package/more.py")
    with pytest.raises(UnknownCommitError, match="no commit of this history"):
        list(_evidence(repository, "part").problems(Tree(repository), ["package"]))


def test_missing_chunks_and_too_few_cases_are_red(repository: Path) -> None:
    """A part that was stopped, or played small, is not played."""
    assert _prove(repository, part=["goes well"]) == 0
    evidence = _evidence(repository, "part")
    evidence.wanted.append("2 of 2")
    first, second = evidence.problems(Tree(repository), ["package"], at_least=2)
    assert first.startswith("1 of 2 chunks are not played yet")
    assert second == "1 passed, and 2 is the least"


def test_a_case_counts_where_it_was_played_last(tmp_path: Path) -> None:
    """Cases played again by hand leave their old chunk; one without cases is gone, and a red one may become green."""
    evidence = Evidence(tmp_path / "part.json", wanted=["one", "two"])
    evidence.add("one", _chunk(a="", b="red"))
    evidence.add("two", _chunk(c=""))
    assert evidence.chunks["one"].red == "1 failed"
    evidence.add("by hand", _chunk(b="", c=""))
    assert {name: set(item.counts.cases) for name, item in evidence.chunks.items()} == {
        "one": {"a"},
        "by hand": {"b", "c"},
    }
    assert [item.red for item in evidence.chunks.values()] == ["", ""]
    assert evidence.wanted == ["one"]
    evidence.write()
    again = Evidence.read("part", tmp_path)
    assert (again.wanted, again.chunks) == (evidence.wanted, evidence.chunks)
    again.end()
    assert list(again.chunks) == ["one"], "the part was played whole: nothing by hand is left"


def _chunk(**cases: str) -> Chunk:
    counts = Counts.of(cases)
    code = int(counts.failed > 0)
    date = "2026-11-22T10:00:00+00:00"
    return Chunk(commit="c", date=date, command="play", seed=1, seconds=1, code=code, counts=counts)


@pytest.mark.parametrize("part", [part.name for part in PARTS])
def test_what_is_on_record_is_true_of_today(part: str) -> None:
    """Nothing recorded is red, half played, or left behind by the code: else `make proof ARGS="--only PART"`."""
    evidence, about = Evidence.read(part), named(part)
    assert evidence.chunks
    assert list(evidence.problems(Tree(), about.speaks_of, at_least=about.at_least)) == []


@pytest.mark.parametrize("part", [part.name for part in PARTS])
def test_what_is_on_record_would_be_red_if_it_were_old(part: str) -> None:
    """Each piece of the evidence, set back to an early commit, is found."""
    evidence, about = Evidence.read(part), named(part)
    evidence.chunks = {name: replace(item, commit=FIRST_RECORD) for name, item in evidence.chunks.items()}
    found = list(evidence.problems(Tree(), about.speaks_of, at_least=about.at_least))
    assert len(found) == len(evidence.chunks)
    assert all(f"and {ALLOWED} may" in line for line in found)


def test_histories_are_dealt_in_chunks_that_share_no_seed() -> None:
    """Each history counts once; each lane of a chunk has a seed of its own."""
    works = named("histories").works(Wish(seed=100))
    assert sum(int(work.environment["KAFKA_LAKE_HISTORIES"]) for work in works) == HISTORIES
    seeds = [int(work.environment["KAFKA_LAKE_SEED"]) + lane for work in works for lane in (0, 1)]
    assert len(set(seeds)) == 2 * len(works)
    (small,) = named("histories").works(Wish(seed=1, histories=500))
    assert small.environment["KAFKA_LAKE_HISTORIES"] == "500"


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


def test_reports_of_the_other_programs_are_counted(tmp_path: Path) -> None:
    """Wrong rows and problems are failures, also where the program itself says nothing."""

    def written(document: object) -> Path:
        (tmp_path / "report").write_text(json.dumps(document))
        return tmp_path / "report"

    topic = {"rows": 10, "duplicates": 0, "missing": 0, "different": 0, "unexpected": 0}
    good = {"ok": True, "topics": [topic, topic], "seconds": {"run": 9.0}}
    assert demo_report(written(good)) == Counts(passed=20, facts={"seconds": {"run": 9.0}})
    assert demo_report(written(good | {"topics": [topic | {"missing": 3}]})).failed == 3
    assert demo_report(written(good | {"ok": False})).failed == 1
    soaked = {"numbers": {"faults": 100, "records": 5}, "problems": ["lost"]}
    assert (soak_report(written(soaked)).passed, soak_report(written(soaked)).failed) == (100, 1)
    killed, left = {"fate": "killed"}, {"fate": "survived", "line": 3, "key": "a.py:f"}
    drawn = {
        "mutants": [killed, killed | {"fate": "hung"}, left, killed | {"fate": "broken"}],
        "table": [],
        "parts": [],
    }
    found = random_report(written(drawn))
    assert (found.passed, found.failed, found.facts["survivors"]) == (2, 1, {"line 3 of a.py:f": ""})
    run = {"workload": "quiet", "arm": "ours", "seconds": 9.04, "problem": None}
    wrong = run | {"arm": "batch", "seconds": None, "problem": "9 rows instead of 10"}
    parts = [{"arm": "audit", "seconds": 1.25}]
    assert bench_report(written({"runs": [run, wrong], "parts": parts})) == Counts(
        passed=2, failed=1, facts={"audit": 1.2, "quiet: ours": 9.0, "quiet: batch": "9 rows instead of 10"}
    )
