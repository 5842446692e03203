"""Random slips in the whole package, each played against the tests that reach it: `python -m tests.mutants.random`.

    python -m tests.mutants.random --slips 300 --seed 31             # the tests without services, until one is red
    python -m tests.mutants.random --slips 300 --seed 31 --daily     # then what `make test` plays on real parts
    python -m tests.mutants.random --slips 300 --seed 31 --nightly   # then what the nightly plays besides
    … --against FILE   # says also what another selection notices: the lines of `pytest --collect-only -q`

A seed chooses the slips. Each meets the tests that run its function, those that run the least beside it first. Tests of
`FILE` come before others, and those of `make test` before those of the nightly: the first red one says who notices.
Results are kept in `--json FILE`: a later call goes on, and plays what survived against what it has not met yet.

Libraries were looked at: mutmut 3 changes only functions without decorators, in a copy of the whole package, and draws
no sample; cosmic-ray rewrites the work tree and starts the same test command for each mutant; mutatest draws samples,
and has not followed Python since 3.8.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.mutants.forking import Overlay, play, preload
from tests.mutants.mutant import ROOT
from tests.mutants.mutations import PACKAGE, Slip, slips
from tests.mutants.reach import WRITTEN_TO

FAST, REAL = ("unit", "properties", "contracts", "airflow"), ("faults", "integration")
SLOW = ("tests/properties/test_small_model.py",)
"""Files that are played with those on real parts."""
LEAST = 0.8
"""The share that must be killed of those that some test reaches; below it the exit code is 1."""
KILLED = ("killed", "hung")
WALKERS = ("tests/airflow/test_conformity.py", "tests/airflow/test_provider_info.py")
"""Tests that look at every class which the provider's description names, and run no function of it."""
WALKED = tuple(f"airflow_kafka_lake/{folder}/" for folder in ("operators", "sensors", "triggers", "hooks"))
FIRST = 25
"""How many tests run before the files of all others are imported."""

Reach = Mapping[str, Mapping[str, Any]]


def folder_of(file: str) -> str:
    """Return the part of the package that a file counts to."""
    parts = Path(file).parts[1:-1]
    return "/".join(parts[: 2 if parts[:1] == ("adapters",) else 1]) or "."


def drawn(seed: int, count: int) -> list[Slip]:
    """Return the slips whose keys hash lowest: an edit elsewhere changes no choice."""
    every = [slip for path in sorted(PACKAGE.rglob("*.py")) for slip in slips(path)]
    return sorted(every, key=lambda slip: hashlib.sha256(f"{seed}:{slip.key}".encode()).digest())[:count]


# Which tests reach what


def files_of(*, real: bool) -> list[str]:
    """Return the test files, with or without those on real parts."""
    found = (path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests").rglob("test_*.py")))
    return [file for file in found if file.split("/")[1] in FAST + REAL and real is _is_real(file)]


def _is_real(test: str) -> bool:
    return test.split("/")[1] in REAL or test.startswith(SLOW)


def reach(file: Path, *, real: bool) -> Reach:
    """Return what each test runs, from the record where neither its file nor what it runs has changed."""
    kept: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    found: dict[str, Mapping[str, Any]] = {}
    for test in files_of(real=real):
        old = kept.get(test)
        if not old or old["digest"] != _digest([test, *old["modules"]]):
            _say(f"recording {test}")
            tests = _recorded(test, real=real)
            modules = sorted({it.partition(":")[0] for record in tests.values() for it in record["functions"]})
            old = kept[test] = {"digest": _digest([test, *modules]), "modules": modules, "tests": tests}
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(kept))
        for name, record in old["tests"].items():
            functions = frozenset(record["functions"])
            modules = {it.partition(":")[0] for it in functions}
            found[name] = {"seconds": record["seconds"], "functions": functions, "modules": modules}
    return found


def _recorded(test: str, *, real: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "reach.json"
        played = play([test], limit=5400, first_red=False, real=real, **{WRITTEN_TO: str(file)})
        if not file.exists():
            _say(f"{test} cannot be recorded: {played.message}")
        return json.loads(file.read_text()) if file.exists() else {}


def _digest(files: Iterable[str]) -> str:
    sums = hashlib.sha256()
    for path in (ROOT / name for name in sorted(files)):
        sums.update(path.read_bytes() if path.exists() else b"")
    return sums.hexdigest()


def reaching(slip: Slip, reached: Reach) -> list[str]:
    """Return the tests that run a slip's function, those that run the least beside it first.

    What runs while modules are imported, such as a table of constants, is met by all tests that run a function of the
    module or of one which imports it, or that import it themselves.
    """
    function = f"{slip.file}:{slip.place}"
    found = [test for test, record in reached.items() if slip.place and function in record["functions"]]
    if not found:
        modules = {slip.file, *importers(slip.file)}
        found = [test for test, it in reached.items() if not modules.isdisjoint({*it["modules"], test.split("::")[0]})]
    if slip.file.startswith(WALKED):
        found += [test for test in reached if test.startswith(WALKERS) and test not in found]
    return sorted(found, key=lambda test: (len(reached[test]["functions"]), reached[test]["seconds"]))


def importers(file: str) -> set[str]:
    """Return the files of the package and of the tests that import a module."""
    name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    folder, _, own = map(re.escape, name.rpartition("."))
    imported = re.compile(rf"^\s*((from|import) {re.escape(name)}\b|from {folder} import .*\b{own}\b)", re.MULTILINE)
    every = (path for place in (PACKAGE, ROOT / "tests") for path in place.rglob("*.py"))
    found = (path for path in every if imported.search(path.read_text(encoding="utf-8")))
    return {path.relative_to(ROOT).as_posix() for path in found}


def collected(*words: str) -> frozenset[str]:
    """Return the names of the tests that pytest would play."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-p", "no:cacheprovider", *words]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return frozenset(line for line in said.splitlines() if "::" in line)


# Playing


def played(slip: Slip, overlay: Overlay, portions: Iterable[Mapping[str, float]], *, real: bool) -> dict[str, Any]:
    """Play portions of tests against a slip until one is red."""
    began, fate = time.monotonic(), "unreached"
    with overlay.changed(slip.file, slip.changed((ROOT / slip.file).read_bytes())):
        for some in portions:
            done = play(some, overlay=overlay.folder, limit=60 + 10 * sum(some.values()) + 0.5 * len(some), real=real)
            fate = "survived"
            if done.code and not done.is_red and not fails_in(slip, done.message):
                return {"fate": "broken", "error": done.message}
            if done.code:
                fate = "hung" if done.hung else "killed"
                error = done.message.splitlines()[0][:200] if done.message else ""
                return {
                    "fate": fate,
                    "test": done.red or next(iter(some)),
                    "error": error,
                    "seconds": round(time.monotonic() - began),
                }
    return {"fate": fate, "seconds": round(time.monotonic() - began)}


def fails_in(slip: Slip, message: str) -> bool:
    """Return whether tests cannot be collected because the line of the slip raises as its module is imported."""
    return f"/{slip.file}:{slip.line}: in " in message


def portions(
    tests: Sequence[str], reached: Reach, seconds: float, firsts: Sequence[Collection[str]]
) -> Iterator[dict[str, float]]:
    """Yield at most so many seconds of tests of each selection, those of the first selections first."""
    left = list(tests)
    for chosen in firsts:
        mine, paid = [test for test in left if test in chosen], 0.0
        left = [test for test in left if test not in chosen]
        some: dict[str, float] = {}
        for test in mine:
            paid += reached[test]["seconds"]
            if paid > seconds and some:
                break
            some[test] = reached[test]["seconds"]
        names = list(some)
        for part in (names[:FIRST], names[FIRST:]):
            if part:
                yield {test: some[test] for test in part}


# What is kept and told


def table(mutants: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return, for each folder, how many slips are noticed by whom."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for it in mutants:
        row = rows[folder_of(it["file"])]
        row["slips"] += 1
        row[it["by"] if it["fate"] in KILLED else it["fate"]] += 1
        row["against"] += it["fate"] in KILLED and it["against"]
    columns = ("slips", "daily", "nightly", "survived", "unreached", "broken", "against")
    return [{"folder": folder, **{name: row[name] for name in columns}} for folder, row in sorted(rows.items())]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - a program of ours


def main() -> int:
    """Draw, play, tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.random", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slips", type=int, default=200)
    parser.add_argument("--daily", action="store_true", help="what survives meets the real parts of `make test`")
    parser.add_argument("--nightly", action="store_true", help="and those of the nightly")
    parser.add_argument("--against", type=Path, help="another selection, as `pytest --collect-only -q` writes it")
    parser.add_argument("--json", type=Path, default=Path(".mutants.json"), help="results, also what is kept")
    parser.add_argument("--seconds", type=float, default=120, help="of recorded tests of a selection that a slip meets")
    parser.add_argument("--list", action="store_true", help="only show what would be played")
    given = parser.parse_args()
    chosen = drawn(given.seed, given.slips)
    if given.list:
        for slip in chosen:
            _say(f"{slip.file}:{slip.line} {slip.place} | {slip.operator} | {slip.before} -> {slip.after}")
        return 0
    daily, whole = collected(), collected("--whole")
    other = frozenset(given.against.read_text().splitlines()) if given.against else daily
    firsts = [daily & other, daily - other]
    if given.nightly:
        firsts += [(whole - daily) & other, whole - daily - other]
    results: dict[str, dict[str, Any]] = json.loads(given.json.read_text())["slips"] if given.json.exists() else {}
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kafka-lake-tests" / "reach-3.json"
    preload()
    overlay = Overlay(Path(tempfile.mkdtemp(prefix="kafka-lake-overlay-")))
    for real in [False, True] if given.daily or given.nightly else [False]:
        reached = reach(cache, real=real)
        for number, slip in enumerate(chosen, 1):
            old = results.get(slip.key)
            met = f"{'real' if real else 'fast'} {'nightly' if given.nightly else 'daily'}"
            if old and (old["fate"] in KILLED or met in old["met"]):
                continue
            tests = reaching(slip, reached)
            found = played(
                slip, overlay, portions(tests, reached, given.seconds * (5 if real else 1), firsts), real=real
            )
            if found["fate"] == "unreached" and old:
                found = {**old, **found, "fate": old["fate"]}
            test = found.get("test", "")
            found |= {"by": "daily" if test in daily else "nightly", "against": test in other, "file": slip.file}
            results[slip.key] = {
                **found,
                "line": slip.line,
                "key": slip.key,
                "met": [*(old["met"] if old else ()), met],
            }
            _say(f"{met} {number}/{len(chosen)} {found['fate']:9} {slip.key} {test}")
            _write(given, chosen, results)
    shutil.rmtree(sys.pycache_prefix or "", ignore_errors=True)
    shutil.rmtree(overlay.folder, ignore_errors=True)
    return _end(_write(given, chosen, results))


def _write(given: argparse.Namespace, chosen: Sequence[Slip], results: Mapping[str, Any]) -> list[dict[str, Any]]:
    mutants = [results[slip.key] for slip in chosen if slip.key in results]
    document = {"seed": given.seed, "table": table(mutants), "mutants": mutants, "slips": results}
    new = given.json.with_suffix(".new")
    new.write_text(json.dumps(document, indent=1) + "\n")
    new.replace(given.json)
    return mutants


def _end(mutants: Sequence[Mapping[str, Any]]) -> int:
    rows = table(mutants)
    columns = [name for name in rows[0] if name != "folder"]
    total = {"folder": "all", **{name: sum(row[name] for row in rows) for name in columns}}
    for row in ({name: name for name in ("folder", *columns)}, *rows, total):
        _say(f"{row['folder']:28}" + "".join(f"{row[name]!s:>11}" for name in columns))
    killed = total["daily"] + total["nightly"]
    return int(killed < LEAST * (killed + total["survived"]) or total["broken"] > 0)


if __name__ == "__main__":
    sys.exit(main())
