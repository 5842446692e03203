"""The parts of the proof: what each plays, in which chunks, and how its report is read."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree as ET

from airflow_kafka_lake.adapters.jars.cache import CACHE_VARIABLE
from tests.faults.run_matrix import CATALOGS
from tests.installations import SETS
from tests.proof.evidence import Counts

ROOT = Path(__file__).parents[2]
REPORT = "REPORT"
"""Stands in a chunk's words for the file that its program reports to."""
EMPTY = "EMPTY"
"""Stands in a chunk's environment for an empty folder that goes with the chunk."""
HISTORIES, PER_CHUNK = 100_000, 5_000
STORED, STORED_CHUNKS = 200, 4
"""So many histories over each REST catalog, in so many chunks."""
SOAK_MINUTES, RECORDS_PER_MINUTE = 60.0, 33_000
SLIPS = 200
FORKED, SPARK, RANDOM, GENERATED = "failpoints", "failpoints-spark", "random-mutants", "histories"
CHUNKED = (FORKED, GENERATED)
"""Parts of which `tests/parts.toml` names chunks, by what is before the comma of their names."""
ALONE = ("tests/faults/test_matrix.py", "tests/properties/test_stored_protocol.py")
"""Tests of a family that has a part of its own."""
ALL = (
    "pytest",
    "-q",
    "--whole",
    "-p",
    "no:cacheprovider",
    "--junitxml",
    REPORT,
)
BENCH_ARMS = ("ours", "ours-warm", "batch", "batch-tuned", "available-now", "connect-tuned", "loader")
BENCH_ARMS += ("read", "files", "encode")
"""What can be played in seconds; the others wait for Airflow or for minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person asks of a proof."""

    seed: int
    histories: int = HISTORIES
    minutes: float = SOAK_MINUTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A process to play: a Python module and its words. `minutes` is what it takes on two idle cores."""

    name: str
    words: Sequence[str]
    minutes: float
    environment: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the line that plays it by hand."""
        return " ".join([*(f"{key}={value}" for key, value in self.environment.items()), "python -m", *self.words])


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part; `cases` is what it counts."""

    name: str
    proves: str
    cases: str
    works: Callable[[Wish], Sequence[Work]]
    read: Callable[[Path], Counts]


STRUCK = "struck: "
"""Begins a property of a test that says how often one fault has struck."""


def pytest_report(file: Path) -> Counts:
    """Read `pytest --junitxml`; a test that records how many `cases` it tried counts as so many."""
    passed = failed = skipped = 0
    struck: Counter[str] = Counter()
    for case in ET.parse(file).getroot().iter("testcase"):
        for item in case.iterfind("properties/property"):
            if (name := item.attrib["name"]).startswith(STRUCK):
                struck[name.removeprefix(STRUCK)] += int(item.attrib["value"])
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            tried = case.find("properties/property[@name='cases']")
            passed += 1 if tried is None else int(tried.attrib["value"])
    return Counts(passed=passed, failed=failed, skipped=skipped, facts=dict(sorted(struck.items())))


def named_cases(file: Path) -> Counts:
    """Read what `tests.faults.run_matrix --results` writes: each case with what was wrong."""
    cases = json.loads(file.read_text(encoding="utf-8"))
    failed = sum(map(bool, cases.values()))
    return Counts(passed=len(cases) - failed, failed=failed, cases=cases)


def installation_report(file: Path) -> Counts:
    """Read `tests.installations --report`; a case is a step."""
    report = json.loads(file.read_text(encoding="utf-8"))
    failed = sum(map(bool, report["cases"].values()))
    facts = {"versions": report["versions"], "seconds": report["seconds"]}
    return Counts(passed=len(report["cases"]) - failed, failed=failed, cases=report["cases"], facts=facts)


def soak_report(file: Path) -> Counts:
    """Read `soak.py --report`; a case is a fault that struck."""
    report = json.loads(file.read_text(encoding="utf-8"))
    facts = {**report["numbers"], "problems": report["problems"]}
    return Counts(passed=report["numbers"]["faults"], failed=len(report["problems"]), facts=facts)


def demo_report(file: Path) -> Counts:
    """Read `kafka-lake demo --report`; a case is a row of the table that was held against what producers were told."""
    report = json.loads(file.read_text(encoding="utf-8"))
    wrong = sum(
        topic[kind] for topic in report["topics"] for kind in ("duplicates", "missing", "different", "unexpected")
    )
    rows = sum(topic["rows"] for topic in report["topics"])
    return Counts(passed=rows, failed=wrong or int(not report["ok"]), facts={"seconds": report["seconds"]})


def bench_report(file: Path) -> Counts:
    """Read `bench.run --report`; a case is an arm, or a part, that was measured: an arm's work was right then."""
    report = json.loads(file.read_text(encoding="utf-8"))
    parts = {part["arm"]: round(part["seconds"], 1) for part in report["parts"]}
    right = {f"{run['workload']}: {run['arm']}": round(run["seconds"], 1) for run in report["runs"] if run["seconds"]}
    wrong = {f"{run['workload']}: {run['arm']}": run["problem"] for run in report["runs"] if run["problem"]}
    return Counts(passed=len(right) + len(parts), failed=len(wrong), facts=right | wrong | parts)


def random_report(file: Path) -> Counts:
    """Read `tests.mutants.random --json`; a survivor is no failure by itself: the tool's exit code is the judge."""
    report = json.loads(file.read_text(encoding="utf-8"))
    fates = Counter(mutant["fate"] for mutant in report["mutants"])
    survivors = {
        f"line {mutant['line']} of {mutant['key']}": ""
        for mutant in report["mutants"]
        if mutant["fate"] in {"survived", "unreached"}
    }
    facts = {"table": report["table"], "survivors": survivors}
    return Counts(passed=fates["killed"] + fates["hung"], failed=fates["broken"], facts=facts)


def _random(wish: Wish) -> Sequence[Work]:
    words = ("tests.mutants.random", "--seed", str(wish.seed), "--slips", str(SLIPS), "--json", REPORT)
    return [Work(name="all", words=words, minutes=30)]


def _histories(wish: Wish) -> Sequence[Work]:
    of, works = -(-wish.histories // PER_CHUNK), []
    for number in range(of):
        count = min(PER_CHUNK, wish.histories - number * PER_CHUNK)
        chosen = {"KAFKA_LAKE_HISTORIES": str(count), "KAFKA_LAKE_SEED": str(wish.seed + 10 * number)}
        words = (*ALL, "-n", "2", "tests/properties/test_protocol.py")
        works.append(Work(name=_nth(number, of), words=words, minutes=0.3 + count / 1200, environment=chosen))
    for name, number in itertools.product((name for name in CATALOGS if name != "sqlite"), range(STORED_CHUNKS)):
        count = STORED // STORED_CHUNKS
        chosen = {"KAFKA_LAKE_STORED": str(count), "KAFKA_LAKE_SEED": str(wish.seed + number * count)}
        words = (*ALL, "-n", "2", "-k", name, "tests/properties/test_stored_protocol.py")
        named = f"{name}, {_nth(number, STORED_CHUNKS)}"
        works.append(Work(name=named, words=words, minutes=0.5 + count / 16, environment=chosen))
    return works


def _matrix(of: int, minutes: float, *flags: str) -> Callable[[Wish], Sequence[Work]]:
    def works(wish: Wish) -> Sequence[Work]:
        words = ("tests.faults.run_matrix", *flags, "--seed", str(wish.seed), "--results", REPORT)
        return [
            Work(name=_nth(number, of), words=(*words, "--share", f"{number + 1}/{of}"), minutes=minutes / of)
            for number in range(of)
        ]

    return works


def _failpoints(wish: Wish) -> Sequence[Work]:
    """Return the whole matrix in four, and for each other catalog the calls that reach it."""
    reaching = ("--points", "^(table|runner)")
    others = [name for name in CATALOGS if name != "sqlite"]
    return [
        *_matrix(4, 12)(wish),
        *(replace(work, name=name) for name in others for work in _matrix(1, 6, "--catalog", name, *reaching)(wish)),
    ]


def _suite(_: Wish) -> Sequence[Work]:
    """Return each file with tests that `make test` leaves out, but for those that have a part of their own."""
    chosen = ("--whole", "-m", "nightly", *(f"--ignore={path}" for path in ALONE))
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *chosen]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        sys.exit(f"the tests cannot be collected, so nothing can be proved:\n{listed.stdout}{listed.stderr}")
    files = sorted(set(re.findall(r"^(tests/\S+?)::", listed.stdout, re.MULTILINE)))
    return [Work(name=file, words=(*ALL, "-m", "nightly", file), minutes=75 / len(files)) for file in files]


def _installations(_: Wish) -> Sequence[Work]:
    return [Work(name=name, words=("tests.installations", name, "--report", REPORT), minutes=8) for name in SETS]


def _examples(_: Wish) -> Sequence[Work]:
    words = (*ALL, "-n", "2", "-m", "not nightly", "tests/properties", "--ignore=tests/properties/test_protocol.py")
    return [Work(name="all", words=words, minutes=8)]


def _soak(wish: Wish) -> Sequence[Work]:
    size = ("--minutes", f"{wish.minutes:g}", "--records", str(round(wish.minutes * RECORDS_PER_MINUTE)))
    words = ("tests.faults.soak", *size, "--seed", str(wish.seed), "--report", REPORT)
    return [
        Work(name="all", words=words, minutes=wish.minutes + 6),
        Work(name="realistic", words=(*words, "--realistic"), minutes=wish.minutes + 10),
    ]


def _demo(_: Wish) -> Sequence[Work]:
    words = ("airflow_kafka_lake.cli", "demo", "--exit", "--report", REPORT)
    # A newcomer has nothing in the cache: whatever the demonstration needs, it fetches.
    return [Work(name="all", words=words, minutes=3, environment={CACHE_VARIABLE: EMPTY})]


def _bench(_: Wish) -> Sequence[Work]:
    parts = "--records 200000 --deep-records 20000 --wave-records 20000 --waves 30 --partitions 1000 --only audit"
    parts += " --only accounting --only history --only control --only deep"
    race = "--only race --scale 0.01 --repeat 1 --no-warm-up --workload quiet-topics"
    race += "".join(f" --arm {name}" for name in BENCH_ARMS)
    return [
        Work(name="arms", words=("bench.run", *race.split(), "--report", REPORT), minutes=3),
        Work(name="parts", words=("bench.run", *parts.split(), "--report", REPORT), minutes=2),
    ]


def _nth(number: int, of: int) -> str:
    return f"{number + 1:0{len(str(of))}} of {of}"


def _part(
    name: str, cases: str, works: Callable[[Wish], Sequence[Work]], read: Callable[[Path], Counts], proves: str
) -> Part:
    return Part(name=name, cases=cases, works=works, read=read, proves=proves)


PARTS = (
    _part(RANDOM, "killed", _random, random_report, "random changes of the code, each against the tests that run it"),
    _part(
        FORKED, "cases", _failpoints, named_cases,
        "commands killed, stopped, delayed or without an answer at every call, over a real ledger and table; each call "
        "of the lake also over two REST catalogs",
    ),
    _part(
        SPARK, "cases", _matrix(8, 60, "--real"), named_cases,
        "the same with a real broker and real Spark",
    ),
    _part(
        "suite", "tests", _suite, pytest_report,
        "every test that `make test` leaves out: paused workers, a Spark cluster, Dags, table maintenance in between",
    ),
    _part(
        "examples", "tests", _examples, pytest_report,
        "generated inputs, twelve times as many as in `make test`",
    ),
    _part(
        GENERATED, "histories", _histories, pytest_report,
        "generated runs with crashes, lost answers, several workers and decisions of people, in memory; a sample "
        "over two REST catalogs",
    ),
    _part(
        "installations", "steps", _installations, installation_report,
        "the wheel beside several Airflow versions: a run and its audits",
    ),
    _part(
        "soak", "faults", _soak, soak_report,
        "faults on real parts, on one machine's defaults and on secured brokers, a REST catalog over S3 and a Spark "
        "cluster: every acknowledged record in the table once",
    ),
    _part("demo", "rows", _demo, demo_report, "the demonstration"),
    _part("bench", "arms", _bench, bench_report, "a small benchmark: every way lands all records"),
)  # fmt: skip
