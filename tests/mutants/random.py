"""Random slips in the whole package, played against the tests that reach them: `python -m tests.mutants.random`.

A seed chooses the slips, each folder by its share of the lines; a mutant meets the tests that run its function, the
most special ones first, tier by tier, until one is red. What a person has judged to change nothing that a user or a
promise could notice stands in `judged.json` with a reason. The tool exits with 1 when a guarded part falls under its
share, 0 otherwise; results are kept in the inputs file, and a later call goes on with what is missing.

Libraries were looked at: mutmut 3 changes only functions without decorators, in a copy of the whole package, and draws
no sample; cosmic-ray rewrites the work tree and starts the same test command for each mutant; mutatest draws samples,
and has not followed Python since 3.8.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tests.mutants.forking import Overlay, play, preload
from tests.mutants.mutant import ROOT
from tests.mutants.mutations import PACKAGE, Slip, slips
from tests.mutants.reach import WRITTEN_TO

VERSION = 2
TIERS = ("unit", "properties", "contracts", "airflow")
JUDGED = Path(__file__).with_name("judged.json")
LEAST, SHARE = 24, 0.9
GUARDED: Mapping[str, tuple[str, ...]] = {
    "raw-batch reader": ("adapters/kafka_batches",),
    "operators, triggers, sensors": ("operators", "triggers", "sensors"),
}
"""Parts that get at least LEAST mutants, of which at least SHARE must be killed."""

WALKERS = ("tests/airflow/test_conformity.py", "tests/airflow/test_provider_info.py")
"""Tests that look at every class which the provider's description names, and run no function of it."""
WALKED = tuple(f"airflow_kafka_lake/{folder}/" for folder in ("operators", "sensors", "triggers", "hooks"))

_FIRST = 25
"""How many tests of a tier run before the files of all others are imported."""
KILLED = ("killed", "hung")

Reach = dict[str, dict[str, Any]]


def folder_of(file: str) -> str:
    """Return the part of the package that a file counts to."""
    parts = Path(file).parts[1:-1]
    return "/".join(parts[: 2 if parts[:1] == ("adapters",) else 1]) or "."


def drawn(seed: int, count: int, only: Iterable[str] = ()) -> list[Slip]:
    """Return the slips that a seed chooses: whose keys hash lowest: an edit elsewhere changes no choice."""
    by_folder: dict[str, list[Slip]] = defaultdict(list)
    lines: Counter[str] = Counter()
    for path in sorted(PACKAGE.rglob("*.py")):
        folder = folder_of(path.relative_to(ROOT).as_posix())
        by_folder[folder] += slips(path)
        lines[folder] += path.read_text(encoding="utf-8").count("\n")
    shares = _shares(lines, count)
    chosen = []
    for folder, found in sorted(by_folder.items()):
        found.sort(key=lambda slip: hashlib.sha256(f"{seed}:{slip.key}".encode()).digest())
        if not only or folder in only:
            chosen += found[: shares[folder]]
    return chosen


def _shares(lines: Mapping[str, int], count: int) -> dict[str, int]:
    """Divide a number of mutants by lines, with no folder and no guarded part left out."""
    every = sum(lines.values())
    shares = {folder: max(1, round(count * many / every)) for folder, many in lines.items()}
    for part in GUARDED.values():
        mine = sum(lines[folder] for folder in part)
        for folder in part:
            shares[folder] = max(shares[folder], -(-LEAST * lines[folder] // mine))
    return shares


# Which tests reach what


def reach(pool: ProcessPoolExecutor, file: Path, only: Sequence[str] = ()) -> Reach:
    """Return what each test runs, from the record where neither a test file nor what it runs has changed."""
    kept: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    tests = [
        path.relative_to(ROOT).as_posix()
        for tier in TIERS
        for path in sorted((ROOT / "tests" / tier).rglob("test_*.py"))
    ]
    tests = [test for test in tests if not only or test.startswith(tuple(only))]
    fresh = {}
    for test in tests:
        old = kept.get(test)
        if old and old["digest"] == _digest([ROOT / test, *(ROOT / it for it in old["modules"])]):
            fresh[test] = old
    missing = [test for test in tests if test not in fresh]
    _say(f"{len(missing)} of {len(tests)} test files are recorded anew")
    running = {pool.submit(_recorded, test): test for test in missing}
    for done in as_completed(running):
        test = running[done]
        found: Reach = done.result()
        _say(f"recorded {test}: {len(found)} tests")
        modules = sorted({it.partition(":")[0] for record in found.values() for it in record["functions"]})
        digest = _digest([ROOT / test, *(ROOT / it for it in modules)])
        fresh[test] = {"digest": digest, "modules": modules, "tests": found}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({**kept, **fresh}))
    return {test: _as_sets(record) for entry in fresh.values() for test, record in entry["tests"].items()}


def _as_sets(record: Mapping[str, Any]) -> dict[str, Any]:
    modules = {name.partition(":")[0] for name in record["functions"]}
    return {"seconds": record["seconds"], "functions": frozenset(record["functions"]), "modules": modules}


def _recorded(test: str) -> Reach:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "reach.json"
        played = play([test], limit=1800, first_red=False, **{WRITTEN_TO: str(file)})
        if not file.exists():
            _say(f"{test} cannot be recorded: {played.message}")
        return json.loads(file.read_text()) if file.exists() else {}


def _digest(files: Iterable[Path]) -> str:
    sums = hashlib.sha256()
    for path in sorted(files):
        sums.update(path.read_bytes() if path.exists() else b"")
    return sums.hexdigest()


def reaching(slip: Slip, reached: Reach) -> dict[str, dict[str, float]]:
    """Return the tests that run a slip's function, by tier, those that run the least beside it first.

    What runs while modules are imported, such as a table of constants, is met by all tests that run a function of the
    module or of one which imports it, or that import it themselves.
    """
    function = f"{slip.file}:{slip.place}"
    found = [test for test, record in reached.items() if slip.place and function in record["functions"]]
    if not found:
        modules = {slip.file, *importers(slip.file)}
        found = [
            test
            for test, record in reached.items()
            if not modules.isdisjoint({*record["modules"], test.split("::")[0]})
        ]
    if slip.file.startswith(WALKED):
        found += [test for test in reached if test.startswith(WALKERS) and test not in found]
    found.sort(key=lambda test: (len(reached[test]["functions"]), reached[test]["seconds"]))
    return {tier: {test: reached[test]["seconds"] for test in found if test.split("/")[1] == tier} for tier in TIERS}


def importers(file: str) -> set[str]:
    """Return the files of the package and of the tests that import a module."""
    name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    folder, _, own = map(re.escape, name.rpartition("."))
    imported = re.compile(rf"^\s*((from|import) {re.escape(name)}\b|from {folder} import .*\b{own}\b)", re.MULTILINE)
    every = (path for place in (PACKAGE, ROOT / "tests") for path in place.rglob("*.py"))
    found = (path for path in every if imported.search(path.read_text(encoding="utf-8")))
    return {path.relative_to(ROOT).as_posix() for path in found}


# Playing

_overlay: list[Overlay] = []


def played(slip: Slip, module: str, tests: Mapping[str, Mapping[str, float]], seconds: float) -> dict[str, Any]:
    """Play the tests against a slip until one is red, at most so many recorded seconds of each tier."""
    began = time.monotonic()
    if not _overlay:
        _overlay.append(Overlay(Path(tempfile.mkdtemp(prefix="kafka-lake-overlay-"))))
    result: dict[str, Any] = {"fate": "survived" if any(tests.values()) else "unreached", "tests": 0}
    if _digest([ROOT / slip.file]) != module:
        return result | {"fate": "broken", "error": "the module was changed meanwhile: run it again", "seconds": 0}
    with _overlay[0].changed(slip.file, slip.changed((ROOT / slip.file).read_bytes())):
        for tier, chosen in tests.items():
            for some in _portions(chosen, seconds):
                done = play(some, overlay=_overlay[0].folder, limit=60 + 10 * sum(some.values()) + 0.5 * len(some))
                result["tests"] += done.passed
                if done.code and not done.is_red and not fails_in(slip, done.message):
                    return result | {"fate": "broken", "tier": tier, "error": done.message, "seconds": 0}
                if done.code:
                    result |= {"fate": "hung" if done.hung else "killed", "tier": tier}
                    result |= {"test": done.red, "error": done.message.splitlines()[0][:200] if done.message else ""}
                    return result | {"seconds": round(time.monotonic() - began, 1)}
    return result | {"seconds": round(time.monotonic() - began, 1)}


def fails_in(slip: Slip, message: str) -> bool:
    """Return whether tests cannot be collected because the line of the slip raises as its module is imported."""
    return f"/{slip.file}:{slip.line}: in " in message


def _portions(tests: Mapping[str, float], seconds: float) -> list[dict[str, float]]:
    left, paid = [], 0.0
    for test, took in tests.items():
        if paid + took <= seconds or not left:
            paid += took
            left.append((test, took))
    return [dict(some) for some in (left[:_FIRST], left[_FIRST:]) if some]


# What is kept and told


def _evidence(given: argparse.Namespace, mutants: list[dict[str, Any]], took: float) -> dict[str, Any]:
    status = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=False)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {
        "tool": "tests.mutants.random",
        "version": VERSION,
        "commit": commit.stdout.strip(),
        "clean": not status.stdout.strip(),
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "seed": given.seed,
        "count": given.slips,
        "tiers": list(TIERS),
        "tests": given.tests,
        "seconds": round(took),
        "table": table(mutants),
        "parts": parts(mutants),
        "mutants": mutants,
    }


def table(mutants: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return, per folder, how many mutants each tier killed, hung (among them), survived, and how many are judged."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for it in mutants:
        row = rows[it["folder"]]
        row["mutants"] += 1
        row[it["tier"] if it["fate"] in KILLED else "equivalent" if it.get("reason") else it["fate"]] += 1
        row["hung"] += it["fate"] == "hung"
    columns = ("mutants", *TIERS, "hung", "survived", "unreached", "equivalent", "broken")
    return [{"folder": folder, **{name: row[name] for name in columns}} for folder, row in sorted(rows.items())]


def parts(mutants: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the share of killed mutants in each guarded part, and in all; judged ones do not count."""
    found = []
    known = [it for it in mutants if it["fate"] in KILLED or not it.get("reason")]
    for name, folders in {**GUARDED, "all": ()}.items():
        mine = [it for it in known if not folders or it["folder"] in folders]
        killed = sum(it["fate"] in KILLED for it in mine)
        if mine:
            share = round(killed / len(mine), 3)
            needed = SHARE if folders else 0.0
            found.append({"part": name, "mutants": len(mine), "killed": killed, "share": share, "needed": needed})
    return found


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - a program of ours


def _told(inputs: Mapping[str, Any]) -> None:
    columns = [name for name in inputs["table"][0] if name != "folder"]
    _say(f"{'folder':28}" + "".join(f"{name:>11}" for name in columns))
    for row in inputs["table"]:
        _say(f"{row['folder']:28}" + "".join(f"{row[name] or '-':>11}" for name in columns))
    _say(f"{'all':28}" + "".join(f"{sum(row[name] for row in inputs['table']):>11}" for name in columns))
    for part in inputs["parts"]:
        _say("{part}: {killed} of {mutants}, {share:.0%} (at least {needed:.0%})".format(**part))


def main() -> int:
    """Draw, play, tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.random", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slips", type=int, default=200, help="mutants; guarded parts get some on top")
    parser.add_argument("--folder", action="append", default=[], help="only these, as in the table")
    parser.add_argument("--tests", action="append", default=[], help="only test files whose path begins with this")
    parser.add_argument("--json", type=Path, default=Path(".mutants.json"), help="the evidence, also what is kept")
    parser.add_argument("--processes", type=int, choices=(1, 2), default=2)
    parser.add_argument("--seconds", type=float, default=120, help="of recorded tests in a tier that one mutant meets")
    parser.add_argument("--list", action="store_true", help="only show what would be played")
    given = parser.parse_args()
    modules = {path.relative_to(ROOT).as_posix(): _digest([path]) for path in PACKAGE.rglob("*.py")}
    chosen = drawn(given.seed, given.slips, given.folder)
    if given.list:
        for slip in chosen:
            _say(f"{slip.file}:{slip.line} {slip.place} | {slip.operator} | {slip.before} -> {slip.after}")
        return 0
    began, target = time.monotonic(), given.json.absolute()
    judged = {it["mutant"]: it["reason"] for it in json.loads(JUDGED.read_text())} if JUDGED.exists() else {}
    before = json.loads(target.read_text()) if target.exists() else {"mutants": [], "seconds": 0}
    kept = {it["key"]: it for it in before["mutants"]}
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kafka-lake-tests" / "reach-2.json"
    preload()
    with ProcessPoolExecutor(given.processes, get_context("fork")) as pool:
        reached = reach(pool, cache, given.tests)
        running, results = {}, {}
        # Folders take turns, so that a run which is stopped speaks of all of them.
        for slip in sorted(chosen, key=lambda slip: hashlib.sha256(slip.key.encode()).digest()):
            tests = reaching(slip, reached)
            met = _digest(
                [ROOT / slip.file, *(ROOT / it for it in {t.partition("::")[0] for of in tests.values() for t in of})]
            )
            old, module = kept.get(slip.key), modules[slip.file]
            # What was killed stays so while its module is the same; a survivor meets every new test.
            same = old and (old["met"] == met or (old["fate"] in KILLED and old["module"] == module))
            if old and same and old["fate"] != "broken":
                results[slip.key] = old
            else:
                running[pool.submit(played, slip, module, tests, given.seconds)] = (slip, met)
        _say(f"{len(chosen)} mutants, {len(results)} of them played before")
        order = [slip.key for slip in chosen]
        for done in as_completed(running):
            slip, met = running[done]
            shown = {name: value for name, value in asdict(slip).items() if name not in {"start", "end", "new"}}
            folder, module = folder_of(slip.file), modules[slip.file]
            results[slip.key] = {
                "key": slip.key,
                "folder": folder,
                **shown,
                **done.result(),
                "met": met,
                "module": module,
            }
            it = results[slip.key]
            _say(f"{len(results)}/{len(chosen)} {it['fate']:9} {it.get('tier', ''):10} line {slip.line} of {slip.key}")
            _write(target, given, [results[key] for key in order if key in results], judged, before, began)
    return _end(_write(target, given, [results[key] for key in order], judged, before, began))


def _write(
    target: Path,
    given: argparse.Namespace,
    mutants: list[dict[str, Any]],
    judged: Mapping[str, str],
    before: Mapping[str, Any],
    began: float,
) -> dict[str, Any]:
    for it in mutants:
        it.pop("reason", None)
        if it["fate"] not in KILLED and it["key"] in judged:
            it["reason"] = judged[it["key"]]
    inputs = _evidence(given, mutants, before["seconds"] + time.monotonic() - began)
    new = target.with_suffix(".new")
    new.write_text(json.dumps(inputs, indent=1) + "\n")
    new.replace(target)
    return inputs


def _end(inputs: Mapping[str, Any]) -> int:
    _told(inputs)
    shutil.rmtree(sys.pycache_prefix or "", ignore_errors=True)
    return int(any(part["share"] < part["needed"] for part in inputs["parts"]))


if __name__ == "__main__":
    sys.exit(main())
