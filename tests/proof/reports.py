"""How to read what the programs of the proof report: each returns its counts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.proof.evidence import Counts

WRONG = ("duplicates", "missing", "different", "unexpected")


def pytest_report(file: Path) -> Counts:
    """Read `pytest --junitxml`; a test that records how many `cases` it tried counts as so many."""
    passed = failed = skipped = 0
    for case in ET.parse(file).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            tried = case.find("properties/property[@name='cases']")
            passed += 1 if tried is None else int(tried.attrib["value"])
    return Counts(passed=passed, failed=failed, skipped=skipped)


def named_cases(file: Path) -> Counts:
    """Read what `tests.faults.run_matrix --results` writes: each case with what was wrong."""
    return Counts.of(json.loads(file.read_text(encoding="utf-8")))


def soak_report(file: Path) -> Counts:
    """Read `soak.py --report`; a case is a fault that struck."""
    report = json.loads(file.read_text(encoding="utf-8"))
    facts = {**report["numbers"], "problems": report["problems"]}
    return Counts(passed=report["numbers"]["faults"], failed=len(report["problems"]), facts=facts)


def demo_report(file: Path) -> Counts:
    """Read `kafka-lake demo --report`; a case is a row of the table that was held against what producers were told."""
    report = json.loads(file.read_text(encoding="utf-8"))
    wrong = sum(topic[kind] for topic in report["topics"] for kind in WRONG)
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
        f"line {mutant['line']} of {mutant['key']}": mutant.get("reason", "")
        for mutant in report["mutants"]
        if mutant["fate"] in {"survived", "unreached"}
    }
    facts = {"table": report["table"], "parts": report["parts"], "survivors": survivors}
    return Counts(passed=fates["killed"] + fates["hung"], failed=fates["broken"], facts=facts)
