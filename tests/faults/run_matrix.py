"""Play the matrix and write its results: `python -m tests.faults.run_matrix [--all | --real] [--points REGEX]`.

Without a flag: one case for each point and mode, in commands that are forked over real ledgers and lakes. `--all`: in
every command that crosses a point, and at its last crossing too. `--real`: with the real command line, Kafka and Spark.
`--seed` deals the commands to the points, so that each command has its share; with `--real` it also deals the mode of
each point outside of the driver, for such a case costs half a minute.

Results go into the evidence of the proof (`tests/proof/evidence`); `python docs/generate.py` makes the page.
`--missing` plays what is not there, red, or left too far behind by the code; `--red` exactly the cases that are red.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from threading import Lock

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.faults import matrix
from tests.faults.matrix import DRIVER, Case, Traces
from tests.faults.operations import ACTS
from tests.faults.place import ForkedPlace, Place
from tests.kit.failpoints import points
from tests.kit.traps import Mode, modes
from tests.proof.evidence import ALLOWED, Chunk, Counts, Evidence
from tests.proof.parts import FORKED, SPARK, named
from tests.proof.tree import Tree
from tests.proof.versions import versions

RECORDED_EVERY = 25
"""Cases after which the results so far are kept, and told where there is no terminal to show a bar on."""


def main(words: Sequence[str]) -> int:
    """Play, record, and say what is red; returns the exit code."""
    parser = argparse.ArgumentParser(prog="run_matrix", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true", help="in every command that crosses a point")
    parser.add_argument("--real", action="store_true", help="the real command line, Kafka and Spark")
    parser.add_argument("--points", default="", help="only points that match this regular expression")
    parser.add_argument("--missing", action="store_true", help="only what is not green in the results yet, or too old")
    parser.add_argument("--red", action="store_true", help="only the cases that are red in the results")
    parser.add_argument("--workers", type=int, default=2, help="places that are played in at once")
    parser.add_argument("--seed", type=int, help="deals the commands to the points; without it the first that fits")
    parser.add_argument("--share", default="1/1", metavar="N/OF", help="only each so manieth case")
    parser.add_argument("--results", type=Path, help="write a file of results instead of evidence")
    chosen = parser.parse_args(words)
    console = Console(stderr=True)
    if chosen.results is None and (changed := Tree().changed()):
        console.print(f"evidence speaks of a commit: commit {changed[0]} first, or give a file as --results")
        return 2
    with _places(chosen.workers, real=chosen.real) as places:
        record = _recorder(chosen, words)
        known = _green(SPARK if chosen.real else FORKED) if chosen.missing else frozenset()
        number, of = map(int, chosen.share.split("/"))
        wanted = _red(SPARK if chosen.real else FORKED) if chosen.red else _wanted(_traces(places[0], chosen), chosen)
        cases = list(wanted)[number - 1 :: of]
        results = _played(places, [case for case in cases if str(case) not in known], console, record)
    red = {case: why for case, why in results.items() if why}
    for case, why in red.items():
        console.print(f"RED {case}: {why}", highlight=False, markup=False)
    console.print(f"{len(results) - len(red)} of {len(results)} green")
    return 1 if red else 0


@contextmanager
def _places(count: int, *, real: bool) -> Iterator[list[Place]]:
    folder = Path(tempfile.mkdtemp(prefix="kafka-lake-matrix-"))
    try:
        if real:
            from tests.faults.real_place import real_places

            with real_places(folder, count) as places:
                yield list(places)
        else:
            forked = [ForkedPlace(folder / str(number)) for number in range(count)]
            yield list(forked)
            for place in forked:
                place.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _traces(place: Place, chosen: argparse.Namespace) -> Traces:
    """Return what each act crosses; the steps inside the driver are crossed by whatever stages."""
    steps = {point: 1 for point in points() if point.startswith(DRIVER)}
    if chosen.real and set(_named(chosen)) <= steps.keys():
        return {act.name: steps if act is ACTS[0] else {} for act in ACTS}
    if not chosen.real:
        return matrix.TracesOnDemand(place)
    with _places(1, real=False) as (forked,):
        found = {act.name: matrix.traced(forked, act) for act in ACTS}
    return {
        act.name: {} if act.forked else found[act.name] | (steps if "runner.stage:before" in found[act.name] else {})
        for act in ACTS
    }


def _named(chosen: argparse.Namespace) -> list[str]:
    return [
        point for point in points() if re.search(chosen.points, point) and (chosen.real or not point.startswith(DRIVER))
    ]


def _wanted(traces: Traces, chosen: argparse.Namespace) -> Iterator[Case]:
    named = _named(chosen)
    if chosen.all:
        yield from (case for case in matrix.cases(traces) if case.point in named)
    else:
        crossed = {point for trace in traces.values() for point in trace}
        pairs = [(point, mode) for point in named if not chosen.real or point in crossed for mode in modes(point)]
        if chosen.seed is None:
            yield from (matrix.chosen(traces, point, mode) for point, mode in pairs)
        else:
            dealt = matrix.sampled(pairs, chosen.seed) if chosen.real else pairs
            yield from matrix.dealt(traces, dealt, chosen.seed)


def _played(
    places: Sequence[Place],
    wanted: Sequence[Case],
    console: Console,
    record: Callable[[Mapping[Case, str]], None],
) -> dict[Case, str]:
    free: SimpleQueue[Place] = SimpleQueue()
    for place in places:
        free.put(place)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    results: dict[Case, str] = {}
    recording = Lock()
    with Progress(*columns, console=console) as progress, ThreadPoolExecutor(len(places)) as pool:
        task = progress.add_task("failpoints", total=len(wanted))

        def play(case: Case) -> None:
            place = free.get()
            try:
                results[case] = matrix.played(place, case)
            finally:
                free.put(place)
            if not len(results) % RECORDED_EVERY:
                with recording:
                    record(dict(results))
                if not console.is_terminal:
                    console.print(f"{len(results)} of {len(wanted)}")
            if results[case]:
                progress.console.print(f"RED {case}: {results[case]}", highlight=False, markup=False)
            progress.update(task, advance=1, description=case.point)

        list(pool.map(play, wanted))
    record(results)
    return results


def _green(part: str) -> frozenset[str]:
    """Return what is green in the evidence, and not too old to be believed."""
    tree = Tree()
    return frozenset(
        case
        for chunk in Evidence.read(part).chunks.values()
        if tree.commits_since(chunk.commit, named(part).speaks_of) <= ALLOWED
        for case, why in chunk.counts.cases.items()
        if not why
    )


def _red(part: str) -> Iterator[Case]:
    """Yield what is red in the evidence."""
    acts = {act.name: act for act in ACTS}
    for case, why in Evidence.read(part).counts.cases.items():
        if why:
            trap, name = case.split(" in ", 1)
            point, mode = trap.split("=", 1)
            mode, _, nth = mode.partition("@")
            yield Case(act=acts[name], point=point, mode=Mode(mode), nth=int(nth or 1))


def _recorder(chosen: argparse.Namespace, words: Sequence[str]) -> Callable[[Mapping[Case, str]], None]:
    """Return what keeps results: in a file, or as evidence, from which what names a point of the past goes."""

    def write(results: Mapping[Case, str]) -> None:
        chosen.results.write_text(json.dumps({str(case): why for case, why in results.items()}), encoding="utf-8")

    tree, began, date = Tree(), time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    commit = tree.commit()

    def record(results: Mapping[Case, str]) -> None:
        evidence = Evidence.read(SPARK if chosen.real else FORKED)
        counts = Counts.of({str(case): why for case, why in results.items()})
        chunk = Chunk(
            commit=commit,
            date=date,
            command=" ".join(["python -m tests.faults.run_matrix", *words]),
            seed=chosen.seed,
            seconds=round(time.monotonic() - began, 1),
            code=int(counts.failed > 0),
            counts=counts,
            versions=versions(),
        )
        if results:
            evidence.add(f"by hand, {date}", chunk)
        pairs = {f"{point}={mode}" for point in points() for mode in modes(point)}
        evidence.keep_cases(case for case in evidence.counts.cases if case.split(" in ")[0].split("@")[0] in pairs)
        evidence.write()

    return record if chosen.results is None else write


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
