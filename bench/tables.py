"""The tables of a report, as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from bench.arms import ARMS
from bench.pictures import is_ours
from bench.racing import Run
from bench.results import Report, Spread, good, growths, is_busy, ratio, spread
from bench.workloads import WORKLOADS

NONE = "–"
Number = Callable[[Run], float | None]
NUMBERS: Mapping[str, tuple[Number, int]] = {
    "seconds": (lambda run: run.seconds, 1),
    "CPU-s": (lambda run: run.cpu_seconds, 1),
    "broker CPU-s": (lambda run: run.broker_cpu_seconds, 1),
    "memory, MiB": (lambda run: run.peak_mib, 0),
    "at rest, MB": (lambda run: None if run.bytes_at_rest is None else run.bytes_at_rest / 1e6, 1),
    "files": (lambda run: run.files, 0),
    "requests": (lambda run: run.requests, 0),
}
"""What is told of every run, and with how many digits."""


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def arms_table() -> str:
    """Return what takes part."""
    return table(
        ("arm", "is", "start", "lands a table"),
        ([f"`{arm.name}`", arm.says, arm.start, "yes" if arm.lands else "no"] for arm in ARMS.values()),
    )


def workloads_table() -> str:
    """Return what is read."""
    return table(
        ("workload", "is", "records", "partitions", "MB"),
        (
            [f"`{item.name}`", item.says, f"{item.records:,}", f"{item.partitions:,}", f"{item.bytes / 1e6:,.0f}"]
            for item in WORKLOADS.values()
        ),
    )


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


_GLANCED = ("CPU-s", "broker CPU-s", "requests", "at rest, MB")
"""Numbers whose ratios are told at a glance, beside seconds."""


def glance_table(reports: Iterable[Report]) -> str:
    """Return how many times what ours takes each rival takes, of all races; nothing without any."""
    rows = [row for report in reports for key, arms in report.races().items() for row in _glances(title_of(*key), arms)]
    heads = ("workload", "rival", "seconds", "seconds, ours warm", *map(_unitless, _GLANCED))
    return table(heads, rows) if rows else ""


def _glances(title: str, arms: Mapping[str, Sequence[Run]]) -> Iterator[list[str]]:
    ours, warm = arms.get(against_of(arms), ()), arms.get("ours-warm", ())
    seconds, *others = (NUMBERS[name][0] for name in ("seconds", *_GLANCED))
    for name, runs in arms.items():
        if good(runs) and not is_ours(name) and ARMS[name].lands:
            of = [ratio(runs, ours, seconds), ratio(runs, warm, seconds), *(ratio(runs, ours, get) for get in others)]
            yield [f"`{title}`", f"`{name}`", *(f"{item.median:.1f}×" if item else NONE for item in of)]


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


def growth_table(report: Report) -> str:
    """Return how times grow; nothing where only one size was run."""
    rows = [
        [
            f"`{item.workload}`",
            f"`{item.arm}`",
            item.of,
            ", ".join(f"{size:g}×: {seconds:.1f} s" for size, seconds in item.points),
            f"{item.exponent:.2f}",
        ]
        for item in growths(report)
    ]
    return table(("workload", "arm", "grows in", "median seconds", "exponent"), rows) if rows else ""


def on_what(report: Report) -> str:
    """Return one paragraph about the machine and the versions."""
    described = report.described
    machine, arms = described["machine"], described["arms"]
    versions = ", ".join(f"{name} {version}" for name, version in described["versions"].items())
    changed = " with changes of its own" if described["changed"] else ""
    return (
        f"Commit {described['commit']}{changed}, {described['at']}: {machine['cores']} cores ({machine['processor']}), "
        f"{machine['memory_gib']:g} GiB, {machine['system']}, load {machine['load']:.1f} before; each "
        f"arm: {arms['cores']} cores, {arms['heap']} heap. {versions}."
    )


def sections(report: Report, pictures: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield everything that a report says, as Markdown; `pictures` are file names by title."""
    yield on_what(report)
    cores = report.described["machine"]["cores"]
    for (workload, scale), arms in report.races().items():
        title = title_of(workload, scale)
        runs = next(iter(arms.values()))
        yield f"### {title}"
        yield f"{WORKLOADS[workload].says}: {runs[0].records:,} records, {runs[0].bytes / 1e6:,.0f} MB of values."
        if pictures and title in pictures:
            yield f"![{title}]({pictures[title]})"
        yield race_table(arms, cores=cores)
        if ratios := ratios_table(arms, against=against_of(arms)):
            yield ratios
        if parts := phases_table(arms):
            yield parts
    if grown := growth_table(report):
        yield "### Growth"
        yield from (f"![{title}]({file})" for title, file in (pictures or {}).items() if ", growth of " in title)
        yield grown


def title_of(workload: str, scale: tuple[float, float]) -> str:
    """Name a race."""
    if scale == (1.0, 1.0):
        return workload
    records, partitions = scale
    return f"{workload}, {records:g} times the records, {partitions:g} times the partitions"
