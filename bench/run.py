"""The benchmark: `make bench`, or a part of it: `make bench ARGS="--only race --workload quiet --arm ours"`.

Seconds depend on the machine and on what else it does; what is compared is the arms of one run with each other.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from bench.accounting import overhead
from bench.arms import ARMS
from bench.audit import Measured, comparing, counting
from bench.control import growing as control
from bench.history import growing as history
from bench.machine import described
from bench.mapped import growing as mapped
from bench.racing import Race
from bench.results import Report
from bench.tables import sections
from bench.workloads import WORKLOADS

PARTS: dict[str, Callable[[argparse.Namespace], Iterable[Measured]]] = {
    "audit": lambda chosen: [
        counting("audit", chosen.records, 0),
        counting("audit, 1 % gaps", chosen.records, 100),
        counting("audit, one-record transactions", chosen.records, 2),
    ],
    "accounting": lambda chosen: overhead(chosen.wave_records),
    "history": lambda chosen: history(chosen.waves),
    "control": lambda chosen: control(chosen.partitions),
    "deep": lambda chosen: comparing(chosen.deep_records),
    "mapped": lambda chosen: mapped(chosen.mapped_waves, cores=chosen.cores, heap=chosen.heap),
}
RACE = "race"


def main(words: Sequence[str] | None = None) -> int:
    """Run what is chosen and print what it cost; returns 1 when an arm did not do its work."""
    chosen = arguments().parse_args(words)
    only = chosen.only or [RACE, *PARTS]
    report = begun(chosen)
    if RACE in only:
        for run in race_of(chosen).run(_say, {run.turn for run in report.runs}):
            report = _kept(replace(report, runs=[*report.runs, run]), chosen.report)
        print("\n\n".join(sections(report)), flush=True)
    for item in _parts(chosen, only):
        report = _kept(replace(report, parts=[*report.parts, asdict(item)]), chosen.report)
    return int(any(run.problem for run in report.runs))


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=[RACE, *PARTS], action="append", help="only this part; may be given again")
    parser.add_argument("--report", type=Path, help="also write the numbers to this file, as JSON, after every run")
    parser.add_argument("--resume", action="store_true", help="run only what the report does not have; parts anew")
    race = parser.add_argument_group("race", "arms on workloads, interleaved")
    race.add_argument("--workload", choices=sorted(WORKLOADS), action="append", help="may be given again; else all")
    race.add_argument("--arm", choices=sorted(ARMS), action="append", help="may be given again; else all that fit")
    race.add_argument("--repeat", type=int, default=5, help="rounds that count, after one that warms up")
    race.add_argument("--no-warm-up", action="store_true", help="count the first round too")
    race.add_argument(
        "--scale",
        type=scale_of,
        action="append",
        metavar="RECORDS[,PARTITIONS]",
        help="so many times the records and the partitions, which without a number only shrink with the records; "
        "given again, growth is told",
    )
    race.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)), help="of each arm")
    race.add_argument("--heap", default="2g", help="of each arm's Java")
    race.add_argument("--keep", type=Path, help="keep the folders of runs that fail here")
    parts = parser.add_argument_group("parts", "steps of this package by themselves")
    parts.add_argument("--records", type=int, default=10_000_000, help="offsets that are counted")
    parts.add_argument("--deep-records", type=int, default=1_000_000, help="records that are compared byte by byte")
    parts.add_argument("--wave-records", type=int, default=300_000, help="records of a wave whose audit is timed")
    parts.add_argument("--waves", type=int, default=1_000, help="waves that are behind a table at most")
    parts.add_argument("--mapped-waves", type=int, default=1_000, help="waves of one Dag run")
    parts.add_argument("--partitions", type=int, default=100_000, help="partitions that are planned at most")
    return parser


def scale_of(text: str) -> tuple[float, float]:
    """Parse how many times the records and the partitions of a workload are wanted."""
    records, _, partitions = text.partition(",")
    return float(records), float(partitions) if partitions else min(1.0, float(records))


def race_of(chosen: argparse.Namespace) -> Race:
    """Return the race that a command line asks for."""
    return Race(
        workloads=[WORKLOADS[name] for name in chosen.workload or WORKLOADS],
        arms=[ARMS[name] for name in chosen.arm or ARMS],
        rounds=chosen.repeat,
        warm_up=not chosen.no_warm_up,
        scales=list(dict.fromkeys(chosen.scale or [(1.0, 1.0)])),
        cores=chosen.cores,
        heap=chosen.heap,
        keep=chosen.keep,
    )


def begun(chosen: argparse.Namespace) -> Report:
    """Return the report that a command line goes on with; exits where that was measured otherwise."""
    fresh = Report(described={**described(), "arms": {"cores": chosen.cores, "heap": chosen.heap}})
    if not (chosen.resume and chosen.report and chosen.report.exists()):
        return fresh
    try:
        return Report.read(chosen.report).resumed(fresh)
    except ValueError as error:
        sys.exit(f"bench: {chosen.report} cannot be gone on with: {error}")


def _kept(report: Report, file: Path | None) -> Report:
    if file:
        report.write(file)
    return report


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parts(chosen: argparse.Namespace, only: Sequence[str]) -> Iterable[Measured]:
    first: Measured | None = None
    for name in (name for name in PARTS if name in only):
        for item in PARTS[name](chosen):
            if first is None:
                first = item
                print(f"\n{'arm':44}{'records':>12}{'seconds':>10}{'MiB':>8}{'records/s':>12}{'of the first':>14}")
            share = (item.seconds / item.records) / (first.seconds / first.records)
            speed = item.records / item.seconds
            print(
                f"{item.arm:44}{item.records:12,}{item.seconds:10.2f}{item.mib:8,.0f}{speed:12,.0f}{share:13.1f}x",
                flush=True,
            )
            yield item


if __name__ == "__main__":
    sys.exit(main())
