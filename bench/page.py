"""The page of the benchmark: how it is run, what takes part, and what the committed reports say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.pictures import bars
from bench.results import Report
from bench.tables import (
    arms_table,
    growth_table,
    on_what_table,
    races_of,
    speed_table,
    steps_table,
    title_of,
    workloads_table,
)

RESULTS = Path(__file__).with_name("results")
"""Committed reports, by `--report bench/results/NAME.json`; the page has a section of each."""

FOLDER = "benchmark"
"""Where the pictures lie, beside the page."""

DRAWN = ("uniform", "quiet")
"""Reports of one workload that a picture is of."""

INTRO = """
From a filled Kafka topic to a committed Iceberg table, beside other ways, on one machine with two cores, broker
included. Times are those of the whole command with its start; ours also plans, audits, and moves its stored position. A
run counts only when the table then holds exactly the records of the topic.

**Ratios say how long another way takes, in times of `ours`: 3.7× is slower than ours, 0.5× is faster.** Medians, with
the least and the most.

**A script of a hundred lines (`loader`) beats a cold start of ours at the smallest run, and takes a third to all of its
processor**; it is slower from half a gigabyte in one topic on, and proves nothing. Its races come first.
"""
PARTS = """
## On the parts people run

Each way changes one part of `ours`, the last one all four, on one machine, without a network between. The steps say
where the difference goes: to executors that start anew for each run. CPU seconds include store and cluster.
"""
CEILINGS = """
## Upper limits

Parts of the work alone.
"""
STEPS = """
## Where our time goes

Seconds of each step.
"""
GROWTH = """
## Growth

Exponent 1 is time in proportion to size; less than 1 is better.
"""
COSTS = """
## Parts by themselves

Measured alone by `make bench ARGS="--only …"`, once.

| part (`--only`) | size | takes |
| --- | --- | --- |
| `audit` | 10,000,000 rows, no gaps | 2.8 s, 364 MiB |
| `audit` | 5,000,000 rows, every second offset a marker | 4.3 s, 440 MiB |
| `deep` (`audit --deep`) | 10,000,000 records of 100 bytes | 26 s, 1,674 MiB |
| `control`: plan and record | 100,000 partitions | 11 CPU-s, 901 MiB |
| `control`: next plan, nothing new | 100,000 partitions | 7.1 CPU-s |
| `control`: status | 100,000 partitions | 11 CPU-s, 1,836 MiB |
| `history`: publish after 10,000 waves, old snapshots expired | one wave | 0.16 CPU-s |
| `history`: publish after 1,000 waves, nothing expired | one wave | 2.2 CPU-s |
| `mapped`: a Dag run with 1,000 waves, a `kafka-lake worker` | 1,000 waves | 1,376 s, 1.4 s a wave |

The smallest run through Airflow takes 13.8 s, a third of it Spark.
"""
METHOD = """
## How it is measured

- All ways read the same topics on one broker, with the same cores (`--cores`) and Java heap (`--heap`), from a warm
  page cache. Others start their fastest way: no Spark UI.
- Every round runs each way once, every second round backwards. The first does not count, except at 8 GB.
- The clock of another way stops at its commit. Ours stops when the command has ended.
- Kafka Connect commits every 10 s, so small work says little of it; its table lacks the key.
- CPU seconds are those of the command; the broker's are apart.
- ‡: other work used more than a tenth of the cores meanwhile.

```
make bench ARGS="--only race --workload uniform --arm ours --arm loader"      # one workload, two ways
make bench ARGS="--only race --report bench/results/NAME.json --resume"       # keep results; go on after a stop
```
"""


def reports(folder: Path = RESULTS) -> dict[str, Report]:
    """Return the committed reports by name."""
    return {path.stem: Report.read(path) for path in sorted(folder.glob("*.json"))}


def page(found: Mapping[str, Report]) -> tuple[str, ...]:
    """Return the parts of the page."""
    every = [race for report in found.values() for race in races_of(report)]
    parts = [race for race in every if "ours-on-parts" in race.arms]
    races = [race for race in every if race not in parts]
    races.sort(key=lambda race: "loader" not in race.arms)
    drawn = {title: f"{FOLDER}/{file}" for name, report in found.items() for title, file, _ in _drawn(name, report)}
    shown = [f"![{title}]({drawn[title]})" for title in drawn]
    return (
        INTRO,
        speed_table(races),
        *shown,
        *((PARTS, speed_table(parts, burden=()), steps_table(parts)) if parts else ()),
        "## The ways",
        arms_table({arm for race in every for arm in race.arms}),
        "## The workloads",
        workloads_table({workload for report in found.values() for workload, _ in report.races()}),
        CEILINGS,
        speed_table(races, lands=False, burden=()),
        STEPS,
        steps_table(race for race in races if "loader" in race.arms),
        GROWTH,
        growth_table(report for name, report in found.items() if name.startswith("growth")),
        COSTS,
        METHOD,
        "## On what",
        on_what_table(found),
    )


def pictures(found: Mapping[str, Report]) -> dict[str, str]:
    """Return every picture by its file name."""
    return {file: svg for name, report in found.items() for _, file, svg in _drawn(name, report)}


def _drawn(name: str, report: Report) -> Iterator[tuple[str, str, str]]:
    for (workload, scale), arms in report.races().items():
        if name == workload and name in DRAWN:
            title = title_of(workload, scale)
            yield title, _file(name, title), bars(title, arms)


def _file(name: str, title: str) -> str:
    return f"{name}-{re.sub(r'[^a-z0-9]+', '-', title.lower())}.svg"
