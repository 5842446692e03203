"""The parts of the proof: what each plays, in which chunks, and what it speaks of."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from airflow_kafka_lake.adapters.jars import CACHE_VARIABLE
from tests.proof.evidence import Counts
from tests.proof.reports import bench_report, demo_report, named_cases, pytest_report, random_report, soak_report
from tests.proof.tree import ROOT

REPORT = "REPORT"
"""Stands in a chunk's words for the file that its program reports to."""
EMPTY = "EMPTY"
"""Stands in a chunk's environment for an empty folder that goes with the chunk."""
PER_CHUNK = 5_000
HISTORIES = 100_000
SOAK_MINUTES = 60.0
RECORDS_PER_MINUTE = 33_000
FORKED, SPARK = "failpoints", "failpoints-spark"
MUTANTS, RANDOM = "mutants", "random-mutants"
ALL_TESTS, LEFT_OUT = "--whole", "nightly or rotating"
"""The flag with which pytest leaves out nothing, and the marks of what it leaves out without it."""
HISTORY_SECONDS = 0.044
"""What a history costs of one core."""
SUITE_MINUTES = 60
RANDOM_MUTANTS = 200
NO_TESTS = 5
"""pytest's exit code where nothing was chosen."""
GUARDS = "tests/mutants/test_mutants.py"
BENCH_PARTS = ("audit", "accounting", "history", "control", "deep")
BENCH_ARMS = ("ours", "ours-warm", "batch", "batch-tuned", "available-now", "connect-tuned", "loader")
BENCH_ARMS += ("read", "files", "encode")
"""What can be played in seconds; the others wait for Airflow or for minutes."""
APART = (GUARDS, "tests/faults/test_matrix.py")
"""Tests of families that have a part of their own."""


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
    """One part. `cases` is what it counts, `at_least` how many must pass, `speaks_of` the code that it is proof of."""

    name: str
    proves: str
    cases: str
    works: Callable[[Wish], Sequence[Work]]
    read: Callable[[Path], Counts]
    speaks_of: tuple[str, ...] = ("airflow_kafka_lake",)
    at_least: int = 1


def _mutants(wish: Wish) -> Sequence[Work]:
    return [_tests("all", "-n", "2", GUARDS, seed=wish.seed, minutes=5)]


def _random(wish: Wish) -> Sequence[Work]:
    words = ("tests.mutants.random", "--seed", str(wish.seed), "--count", str(RANDOM_MUTANTS), "--json", REPORT)
    return [Work(name="all", words=words, minutes=30)]


def _histories(wish: Wish) -> Sequence[Work]:
    of = -(-wish.histories // PER_CHUNK)
    works = []
    for number in range(of):
        count = min(PER_CHUNK, wish.histories - number * PER_CHUNK)
        chosen = {"KAFKA_LAKE_HISTORIES": str(count), "KAFKA_LAKE_SEED": str(wish.seed + 10 * number)}
        minutes = 0.3 + count * HISTORY_SECONDS / 60 / 2
        test = "tests/properties/test_protocol.py"
        works.append(_tests(_nth(number, of), "-n", "2", test, seed=wish.seed, minutes=minutes, environment=chosen))
    return works


def _matrix(of: int, minutes: float, *flags: str) -> Callable[[Wish], Sequence[Work]]:
    def works(wish: Wish) -> Sequence[Work]:
        words = ("tests.faults.run_matrix", *flags, "--seed", str(wish.seed), "--results", REPORT)
        return [
            Work(name=_nth(number, of), words=(*words, "--share", f"{number + 1}/{of}"), minutes=minutes / of)
            for number in range(of)
        ]

    return works


def _suite(wish: Wish) -> Sequence[Work]:
    """Return each file with tests that `make test` leaves out, but for the families that have a part of their own."""
    chosen = (ALL_TESTS, "-m", LEFT_OUT, *(f"--ignore={path}" for path in APART))
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *chosen]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode not in {0, NO_TESTS}:
        sys.exit(f"the tests cannot be collected, so nothing can be proved:\n{listed.stdout}{listed.stderr}")
    files = sorted(set(re.findall(r"^(tests/\S+?)::", listed.stdout, re.MULTILINE)))
    return [_tests(file, "-m", LEFT_OUT, file, seed=wish.seed, minutes=SUITE_MINUTES / len(files)) for file in files]


def _soak(wish: Wish) -> Sequence[Work]:
    size = ("--minutes", f"{wish.minutes:g}", "--records", str(round(wish.minutes * RECORDS_PER_MINUTE)))
    words = ("tests.faults.soak", *size, "--seed", str(wish.seed), "--report", REPORT)
    return [Work(name="all", words=words, minutes=wish.minutes + 6)]


def _demo(_: Wish) -> Sequence[Work]:
    words = ("airflow_kafka_lake.cli", "demo", "--exit", "--report", REPORT)
    # A newcomer has nothing in the cache: whatever the demonstration needs, it fetches.
    return [Work(name="all", words=words, minutes=3, environment={CACHE_VARIABLE: EMPTY})]


def _bench(_: Wish) -> Sequence[Work]:
    parts = ("--records", "200000", "--deep-records", "20000", "--wave-records", "20000", "--waves", "30")
    parts += ("--partitions", "1000", *(word for name in BENCH_PARTS for word in ("--only", name)))
    arms = (word for name in BENCH_ARMS for word in ("--arm", name))
    race = ("--only", "race", "--scale", "0.01", "--repeat", "1", "--no-warm-up", "--workload", "quiet-topics", *arms)
    return [
        Work(name="arms", words=("bench.run", *race, "--report", REPORT), minutes=3),
        Work(name="parts", words=("bench.run", *parts, "--report", REPORT), minutes=2),
    ]


def _tests(
    name: str, *words: str, seed: int, minutes: float, environment: Mapping[str, str] = MappingProxyType({})
) -> Work:
    more = (ALL_TESTS, "-p", "no:cacheprovider", "--randomly-seed", str(seed), "--junitxml", REPORT)
    return Work(name=name, words=("pytest", "-q", *more, *words), minutes=minutes, environment=environment)


def _nth(number: int, of: int) -> str:
    return f"{number + 1:0{len(str(of))}} of {of}"


PARTS = (
    Part(
        name=MUTANTS,
        proves="every guard of the catalog is taken out once, and its tests turn red",
        cases="tests of mutants",
        works=_mutants,
        read=pytest_report,
    ),
    Part(
        name=RANDOM,
        proves="slips drawn at random in the whole package meet the tests that reach them",
        cases="killed",
        works=_random,
        read=random_report,
    ),
    Part(
        name=FORKED,
        proves="every failpoint in every mode, in forked commands over a real ledger and a real lake",
        cases="cases",
        works=_matrix(4, 12),
        read=named_cases,
    ),
    Part(
        name=SPARK,
        proves="every failpoint with the real command line, a real broker and real Spark: those inside the driver in "
        "every mode, the others in one that the seed deals",
        cases="cases",
        works=_matrix(8, 60, "--real"),
        read=named_cases,
    ),
    Part(
        name="suite",
        proves="every test that `make test` leaves out: scenarios through a Dag, maintenance between any two steps",
        cases="tests",
        works=_suite,
        read=pytest_report,
    ),
    Part(
        name="histories",
        proves="whole histories of the protocol with crashes, lost answers, several workers and people",
        cases="histories",
        works=_histories,
        read=pytest_report,
        at_least=HISTORIES,
    ),
    Part(
        name="soak",
        proves="an hour of faults on real parts, and every acknowledged record exactly once afterwards",
        cases="faults",
        works=_soak,
        read=soak_report,
    ),
    Part(
        name="demo",
        proves='the demonstration, `make demo ARGS="--exit"`',
        cases="rows",
        works=_demo,
        read=demo_report,
    ),
    Part(
        name="bench",
        proves="the benchmark runs, small: its arms land what the topics hold",
        cases="arms",
        works=_bench,
        read=bench_report,
        speaks_of=("airflow_kafka_lake", "bench"),
    ),
)


def named(name: str) -> Part:
    """Return a part by its name."""
    return next(part for part in PARTS if part.name == name)
