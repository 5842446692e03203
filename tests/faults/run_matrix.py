"""Play the matrix and write its results: `python -m tests.faults.run_matrix [--all | --real] [--points REGEX]`.

Without a flag: one case for each point and mode, in commands that are forked over real ledgers and lakes. `--all`: in
every command that crosses a point, and at its last crossing too. `--real`: with the real command line, Kafka and Spark.
`--catalog`: over a REST catalog, each place at a server of its own. `--seed` deals the commands to the points, so that
each command has its share; with `--real` it also deals the mode of each point outside of the driver, for such a case
costs half a minute.

`--results` writes each case with what was wrong with it.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.faults import matrix
from tests.faults.matrix import DRIVER, Case, Traces
from tests.faults.operations import ACTS
from tests.faults.place import ForkedPlace, Place
from tests.kit.failpoints import points
from tests.kit.local_lake import LocalLake
from tests.kit.rest_catalog import RestCatalogServer
from tests.kit.traps import modes

CATALOGS = {"sqlite": None, "seaweedfs": LocalLake, "iceberg-rest": RestCatalogServer}
TOLD_EVERY = 25
"""Cases after which a log without a bar is told."""


def main(words: Sequence[str]) -> int:
    """Play, record, and say what is red; returns the exit code."""
    parser = argparse.ArgumentParser(prog="run_matrix", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true", help="in every command that crosses a point")
    parser.add_argument("--real", action="store_true", help="the real command line, Kafka and Spark")
    parser.add_argument("--catalog", choices=CATALOGS, default="sqlite", help="whose tables they are (sqlite)")
    parser.add_argument("--points", default="", help="only points that match this regular expression")
    parser.add_argument("--workers", type=int, default=2, help="places that are played in at once")
    parser.add_argument("--seed", type=int, help="deals the commands to the points; without it the first that fits")
    parser.add_argument("--share", default="1/1", metavar="N/OF", help="only each so manieth case")
    parser.add_argument("--results", type=Path, help="write each case with what was wrong")
    chosen = parser.parse_args(words)
    console = Console(stderr=True)
    with _places(chosen, chosen.workers, real=chosen.real) as places:
        number, of = map(int, chosen.share.split("/"))
        cases = list(_wanted(_traces(places[0], chosen), chosen))[number - 1 :: of]
        results = _played(places, cases, console)
    if chosen.results:
        chosen.results.write_text(json.dumps({str(case): why for case, why in results.items()}), encoding="utf-8")
    red = {case: why for case, why in results.items() if why}
    for case, why in red.items():
        console.print(f"RED {case}: {why}", highlight=False, markup=False)
    console.print(f"{len(results) - len(red)} of {len(results)} green")
    return 1 if red else 0


@contextmanager
def _places(chosen: argparse.Namespace, count: int, *, real: bool) -> Iterator[list[Place]]:
    folder, start = Path(tempfile.mkdtemp(prefix="kafka-lake-matrix-")), CATALOGS[chosen.catalog]
    try:
        with ExitStack() as stack:
            servers = [stack.enter_context(start()) if start else None for _ in range(count)]
            if real:
                from tests.faults.real_place import real_places

                yield list(stack.enter_context(real_places(folder, servers)))
                return
            forked = [ForkedPlace(folder / str(number), server) for number, server in enumerate(servers)]
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
    with _places(chosen, 1, real=False) as (forked,):
        found = {act.name: matrix.traced(forked, act) for act in ACTS}
    return {
        act.name: {} if act.forked else found[act.name] | (steps if "runner.stage:before" in found[act.name] else {})
        for act in ACTS
    }


def _named(chosen: argparse.Namespace) -> list[str]:
    return [
        point
        for point in matrix.crossed()
        if re.search(chosen.points, point) and (chosen.real or not point.startswith(DRIVER))
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


def _played(places: Sequence[Place], wanted: Sequence[Case], console: Console) -> dict[Case, str]:
    free: SimpleQueue[Place] = SimpleQueue()
    for place in places:
        free.put(place)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    results: dict[Case, str] = {}
    with Progress(*columns, console=console) as progress, ThreadPoolExecutor(len(places)) as pool:
        task = progress.add_task("failpoints", total=len(wanted))

        def play(case: Case) -> None:
            place = free.get()
            try:
                results[case] = matrix.played(place, case)
            finally:
                free.put(place)
            if not len(results) % TOLD_EVERY and not console.is_terminal:
                console.print(f"{len(results)} of {len(wanted)}")
            if results[case]:
                progress.console.print(f"RED {case}: {results[case]}", highlight=False, markup=False)
            progress.update(task, advance=1, description=case.point)

        list(pool.map(play, wanted))
    return results


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
