"""The tables of a report, as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from bench.arms import ARMS
from bench.pictures import is_ours
from bench.racing import Run
from bench.results import Report, Spread, good, growths, is_busy, ratio, spread
from bench.workloads import WORKLOADS

NONE = "–"
Number = Callable[[Run], float | None]
SECONDS: Number = lambda run: run.seconds  # noqa: E731
CPU_SECONDS: Number = lambda run: run.cpu_seconds  # noqa: E731
NUMBERS: Mapping[str, tuple[Number, int]] = {
    "seconds": (SECONDS, 1),
    "CPU-s": (CPU_SECONDS, 1),
    "broker CPU-s": (lambda run: run.broker_cpu_seconds, 1),
    "memory, MiB": (lambda run: run.peak_mib, 0),
    "at rest, MB": (lambda run: None if run.bytes_at_rest is None else run.bytes_at_rest / 1e6, 1),
    "files": (lambda run: run.files, 0),
    "requests": (lambda run: run.requests, 0),
}
"""What is told of every run, and with how many digits."""
BURDEN = ("broker CPU-s", "requests", "memory, MiB")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def arms_table(measured: Collection[str]) -> str:
    """Return the ways that a committed report has measured."""
    return table(
        ("way", "is"),
        ([f"`{arm.name}`", arm.says] for arm in ARMS.values() if arm.name in measured),
    )


def workloads_table(measured: Collection[str]) -> str:
    """Return what was read."""
    return table(
        ("workload", "is", "records", "MB"),
        (
            [f"`{item.name}`", item.says, f"{item.records:,}", f"{item.bytes / 1e6:,.0f}"]
            for item in WORKLOADS.values()
            if item.name in measured
        ),
    )


class Race(NamedTuple):
    """The runs of each way on one workload, on so many cores."""

    title: str
    arms: Mapping[str, Sequence[Run]]
    cores: int


def races_of(report: Report) -> Iterator[Race]:
    """Yield the races of a report."""
    for (workload, scale), arms in report.races().items():
        yield Race(title_of(workload, scale), arms, report.described["machine"]["cores"])


MB_A_SECOND: Number = lambda run: run.bytes / 1e6 / run.seconds if run.seconds else None  # noqa: E731
MB_A_CPU_SECOND: Number = lambda run: run.bytes / 1e6 / run.cpu_seconds if run.cpu_seconds else None  # noqa: E731


def speed_table(races: Iterable[Race], *, lands: bool = True, burden: Sequence[str] = BURDEN) -> str:
    """Return how fast each way was, the fastest of a workload first, and what it asked of the broker, of memory and of
    the disk (`burden`)."""
    rows: list[list[str]] = []
    for title, arms, cores in races:
        ours = arms[against_of(arms)]
        for name, runs in _fastest_first(arms, lands=lands):
            mark = " ‡" if any(is_busy(run, cores) for run in good(runs)) else ""
            speeds = [spread(runs, MB_A_SECOND), spread(runs, MB_A_CPU_SECOND)]
            takes = [ratio(runs, ours, get) if runs is not ours else None for get in (SECONDS, CPU_SECONDS)]
            rows.append(
                [
                    f"`{title}`",
                    f"`{name}`{mark}",
                    *(f"{item.median:,.{int(item.median < 10)}f}" if item else NONE for item in speeds),
                    *(_times(item) for item in takes),
                    *(middle(spread(runs, NUMBERS[head][0]), NUMBERS[head][1]) for head in burden),
                ]
            )
    return table(("workload", "way", "MB/s", "MB per CPU-second", "time", "CPU time", *burden), _named_once(rows))


def steps_table(races: Iterable[Race]) -> str:
    """Return the seconds of each step of ours: medians."""
    found = [
        (title, name, {part: spread(runs, lambda run, part=part: run.phases.get(part)) for part in runs[0].phases})
        for title, arms, _ in races
        for name, runs in _fastest_first(arms)
        if is_ours(name) and runs[0].phases and runs[0].start == "cold"
    ]
    steps = list(dict.fromkeys(step for *_, parts in found for step in parts))
    rows = [
        [f"`{workload}`", f"`{name}`", *(middle(parts.get(step), 1) for step in steps)]
        for workload, name, parts in found
    ]
    return table(("workload", "way", *steps), _named_once(rows))


def _named_once(rows: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
    """Yield the rows with the first cell left empty where the row before begins alike."""
    before = None
    for first, *rest in rows:
        yield ["" if first == before else first, *rest]
        before = first


def _fastest_first(arms: Mapping[str, Sequence[Run]], *, lands: bool = True) -> list[tuple[str, Sequence[Run]]]:
    """Return the ways with a time, where another one has one too: a size alone is for growth."""
    timed = [(found.median, name) for name, runs in arms.items() if (found := spread(runs, SECONDS))]
    return [(name, arms[name]) for _, name in sorted(timed) if len(timed) > 1 and ARMS[name].lands is lands]


def _times(found: Spread | None) -> str:
    if found is None:
        return NONE
    digits = 1 if found.median >= 1 else 2
    spread_of = f" ({found.least:.{digits}f}–{found.most:.{digits}f})" if found.count > 1 else ""
    return f"{found.median:.{digits}f}×{spread_of}"


def middle(found: Spread | None, digits: int) -> str:
    """Return a median for a table."""
    return NONE if found is None else f"{found.median:,.{digits}f}"


def race_table(arms: Mapping[str, Sequence[Run]], *, cores: int) -> str:
    """Return the table of one race: medians with their spread."""
    return table(("arm", *NUMBERS), (_row(name, runs, cores=cores) for name, runs in arms.items()))


def _row(name: str, runs: Sequence[Run], *, cores: int) -> list[str]:
    if not good(runs):
        return [f"`{name}`", f"**none**: {_first_line(runs)}", *[NONE] * (len(NUMBERS) - 1)]
    first, *rest = (_text(spread(runs, number), digits=digits) for number, digits in NUMBERS.values())
    mark = " ‡" if any(is_busy(run, cores) for run in good(runs)) else ""
    return [f"`{name}`", first + mark, *rest]


def ratios_table(arms: Mapping[str, Sequence[Run]], *, against: str) -> str:
    """Return how many times as much each arm takes as one of them; nothing where that has no numbers."""
    base = arms.get(against, ())
    if not good(base):
        return ""
    rows = [
        [f"`{name}`", *(_text(ratio(runs, base, number), digits=2) for number, _ in NUMBERS.values())]
        for name, runs in arms.items()
        if name != against and good(runs)
    ]
    return table((f"times `{against}`", *map(_unitless, NUMBERS)), rows) if rows else ""


def _unitless(head: str) -> str:
    return head.partition(",")[0]


def against_of(arms: Mapping[str, Sequence[Run]]) -> str:
    """Return the arm that the others are held against: ours."""
    return next((name for name in arms if is_ours(name)), next(iter(arms)))


def _text(found: Spread | None, digits: int = 1) -> str:
    return NONE if found is None else found.text(digits=digits)


def _first_line(runs: Sequence[Run]) -> str:
    return next((run.problem.splitlines()[0][:120] for run in runs if run.problem), "")


def phases_table(arms: Mapping[str, Sequence[Run]]) -> str:
    """Return the seconds of the parts of each arm that tells them apart; nothing where none does."""
    rows = []
    for name, runs in arms.items():
        parts = list(dict.fromkeys(part for run in good(runs) for part in run.phases))
        shown = [f"{part} {_text(spread(runs, lambda run, part=part: run.phases.get(part)))}" for part in parts]
        if shown:
            rows.append([f"`{name}`", ", ".join(shown)])
    return table(("arm", "seconds of its parts"), rows) if rows else ""


def growth_table(reports: Iterable[Report]) -> str:
    """Return how times grow; nothing where only one size was run."""
    rows = [
        [
            f"`{item.workload}`",
            f"`{item.arm}`",
            item.of,
            ", ".join(f"{size:g}×: {seconds:.1f} s" for size, seconds in item.points),
            f"{item.exponent:.2f}",
        ]
        for report in reports
        for item in growths(report)
    ]
    return table(("workload", "way", "grows in", "median", "exponent"), rows) if rows else ""


def on_what_table(reports: Mapping[str, Report]) -> str:
    """Return the commit, the machine and the versions of each report."""
    rows = [
        (f"`{name}`", f"{found['commit']}, {found['at']}")
        for name, found in ((name, report.described) for name, report in reports.items())
    ]
    said = dict.fromkeys(text for tell in (_machine, _versions) for text in map(tell, reports.values()))
    return "\n\n".join([table(("report", "commit, day"), rows), *said])


def _machine(report: Report) -> str:
    machine, arms = report.described["machine"], report.described["arms"]
    return (
        f"{machine['cores']} cores ({machine['processor']}), {machine['memory_gib']:g} GiB, {machine['system']}; each "
        f"way: {arms['cores']} cores, {arms['heap']} heap."
    )


def _versions(report: Report) -> str:
    return ", ".join(f"{name} {version}" for name, version in report.described["versions"].items()) + "."


def sections(report: Report) -> Iterator[str]:
    """Yield everything that a report says, as Markdown."""
    for (workload, scale), arms in report.races().items():
        runs = next(iter(arms.values()))
        yield f"### {title_of(workload, scale)}"
        yield f"{WORKLOADS[workload].says}: {runs[0].records:,} records, {runs[0].bytes / 1e6:,.0f} MB of values."
        yield race_table(arms, cores=report.described["machine"]["cores"])
        if ratios := ratios_table(arms, against=against_of(arms)):
            yield ratios
        if parts := phases_table(arms):
            yield parts
    if grown := growth_table([report]):
        yield grown
    yield on_what_table({"this": report})


def title_of(workload: str, scale: tuple[float, float]) -> str:
    """Name a race."""
    if scale == (1.0, 1.0):
        return workload
    records, partitions = scale
    more = f", {partitions:g} times the partitions" if partitions != 1 else ""
    return f"{workload}, {records:g} times the records{more}"
