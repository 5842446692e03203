"""The page of the benchmark: how it is run, what takes part, and what the committed reports say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.pictures import bars, lines
from bench.results import Report, growths
from bench.tables import arms_table, glance_table, sections, title_of, workloads_table

RESULTS = Path(__file__).with_name("results")
"""Committed reports, by `--report bench/results/NAME.json`; the page has a section of each."""

FOLDER = "benchmark"
"""Where the pictures lie, beside the page."""

INTRO = """
```
make bench                                                             # everything: many hours
make bench ARGS="--only race --workload quiet --repeat 5"              # one workload, all arms
make bench ARGS="--only race --workload uniform --arm ours --arm batch --scale 0.1"
make bench ARGS="--only race --workload uniform --scale 1 --scale 4 --scale 16"  # growth, with its exponent
make bench ARGS="--only race --report FILE"                            # the numbers of every run, as JSON
make bench ARGS="--only race --report FILE --resume"                   # the same, where it was interrupted
```

It starts a real Kafka on this machine, fills topics, and lets every arm bring them into a table of its own. What is
compared is the arms of one run on one machine: seconds of two machines, or of two days, are not.

- **The same for all.** One broker, one set of topics with the same bytes, the same cores (`--cores`), the same Java
  heap (`--heap`), a lake on the same disk. The page cache is warm: the topics are read once before. Rivals get the
  jars on the class path and no Spark UI, which is their fastest start.
- **Interleaved.** Every round runs each arm once, and each second round runs them backwards, after a round that is
  thrown away. Ratios are taken within a round; the table has medians with the least and the most.
- **Verified first.** An arm has a time when its table has as many rows as the topics have records, and the same sum
  of hashes over topic, partition, offset, key and value. What is missing, twice, moved or changed makes it *none*,
  however fast it was. Ours must also have advanced every watermark.
- **To the commit.** The time is that of the whole command, its start included. The clock of a rival stops at its
  commit; of ours when the command has ended: committed, audited, every watermark advanced.
- **Commits.** A Spark job, the loader and AvailableNow commit once, this package once for each wave. A Connect worker
  commits by its clock, each five minutes by its defaults and each ten seconds tuned: its times come in such steps, so
  on small work they say little of its speed. It is ended when the table has all rows.
- **Cold and warm.** Every process of a cold arm is new. A warm arm has a process that has done the same work twice, in
  other tables. Airflow runs already for those that go through it; a broker runs already for all.
- **All processes.** CPU seconds are the kernel's account of every process that the command has started, orphans
  included; of Airflow, those of the running servers too. The broker's are apart, and so are its requests, by its own
  metrics. Memory is the largest sum of resident memory, sampled four times a second.
- **Busy machines show.** What others used of the processor meanwhile is measured. A number is marked ‡ when it was
  more than a tenth of the cores.
- **Small runs.** `--scale` below 1 makes fewer records in fewer partitions (`--scale 0.1,1`: in all of them): then
  the start of each arm is nearly all of its time.

The commit, the versions, the machine and its load are in every report. A run that fails says why; `--keep DIR` keeps
its folder. A command that takes over an hour is ended. The report is written after each run, so a race of hours can be
interrupted: `--resume` keeps its right runs, of the same commit and versions, and does the others.
"""
ARMS_NOTE = """
Kafka Connect has no transformation that puts a record's key into the row, so its table has no key and no headers: it
writes less than the others. `submit-for-each` and `connect` run once, whatever `--repeat` says: the first takes
minutes for each partition, the second commits every five minutes. Reading and writing are one pipeline in Spark;
apart, `read` and `encode` are what bounds them.
"""
PARTS = """
`audit`, `deep`, `accounting`, `history`, `control` and `mapped` are parts of this package by themselves (`--only`):
[what they cost](costs.md).
"""
GLANCE = """
How many times what this package takes the others take, `ours` cold unless it says warm: medians of the ratios within
each round. Spreads, parts and ceilings are below.
"""

CLOSE = """
To put results here: run with `--report bench/results/NAME.json` on an idle machine and a tree without changes, and
commit the file with what `python docs/generate.py` writes.
"""


def reports(folder: Path = RESULTS) -> dict[str, Report]:
    """Return the committed reports by name."""
    return {path.stem: Report.read(path) for path in sorted(folder.glob("*.json"))}


def page(found: Mapping[str, Report]) -> tuple[str, ...]:
    """Return the parts of the page."""
    shown = [part for name, report in found.items() for part in _of(name, report)]
    return (
        INTRO,
        "## Arms",
        arms_table(),
        ARMS_NOTE,
        "## Workloads",
        workloads_table(),
        PARTS,
        *(["## Results", GLANCE, glance_table(found.values()), *shown] if shown else []),
        CLOSE,
    )


def _of(name: str, report: Report) -> Iterator[str]:
    drawn = {title: f"{FOLDER}/{file}" for title, file, _ in _drawn(name, report)}
    yield from sections(report, drawn)


def pictures(found: Mapping[str, Report]) -> dict[str, str]:
    """Return every picture by its file name."""
    return {file: svg for name, report in found.items() for _, file, svg in _drawn(name, report)}


def _drawn(name: str, report: Report) -> Iterator[tuple[str, str, str]]:
    for (workload, scale), arms in report.races().items():
        title = title_of(workload, scale)
        yield title, _file(name, title), bars(title, arms)
    grown = growths(report)
    for workload, of in dict.fromkeys((item.workload, item.of) for item in grown):
        title = f"{workload}, growth of {of}"
        chosen = [item for item in grown if (item.workload, item.of) == (workload, of)]
        yield title, _file(name, title), lines(title, chosen)


def _file(name: str, title: str) -> str:
    return f"{name}-{re.sub(r'[^a-z0-9]+', '-', title.lower())}.svg"
