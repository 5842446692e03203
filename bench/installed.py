"""`python -m bench.installed`: weigh this package with and without each extra, and what its parts import.

Writes docs/reference/installed.md, from an environment that has all extras. Megabytes are those of the files that a
distribution brings, of its own and of all it needs; time is that of the processor, whatever else a machine does.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "installed.md"
AIRFLOW = "apache-airflow"
LARGEST = 4
PARTS = {
    "airflow": "Airflow itself",
    "airflow_kafka_lake.get_provider_info": "Airflow finds the provider, at each start",
    "airflow_kafka_lake.pipeline": "`Pipeline`, in a Dag file",
    "airflow_kafka_lake.task_groups": "`kafka_lake_ingest`, in a Dag file",
    "airflow_kafka_lake.operators.ingest": "an operator, with Airflow's SDK",
    "airflow_kafka_lake.plugins": "the plugin",
    "airflow_kafka_lake.cli.entry_point": "the command line",
}
HEAVY = (
    "confluent_kafka",
    "google",
    "grpc",
    "kafka",
    "numpy",
    "pandas",
    "pyarrow",
    "pyiceberg",
    "pyspark",
    "sqlalchemy",
)
TIMES = 5
IMPORT = f"""
import importlib, json, sys, time
before = time.process_time()
importlib.import_module(sys.argv[1])
seconds = time.process_time() - before
names = {{name.partition(".")[0] for name in sys.modules}}
print(json.dumps([seconds, len(sys.modules), sorted(names & set({HEAVY!r}))]))
"""
INTRO = """
What an installation weighs, and what is imported before anything is asked of it. Spark, Kafka's client, Arrow, Iceberg
and SQLAlchemy are imported by the work that needs them. A page in Airflow adds nothing: its libraries are Airflow's.
Times were taken on two busy cores: compare them with that of Airflow itself.
"""

LATER = "The jars that Spark needs come with [`kafka-lake jars fetch`](commands.md#jars): 74 MB, and 69 MB for S3."


def brought(*wanted: Requirement) -> set[str]:
    """Return every distribution that some requirements bring in this environment, with what extras of theirs add."""
    found, left = set[str](), {(canonicalize_name(item.name), frozenset(item.extras)) for item in wanted}
    seen: set[tuple[str, frozenset[str]]] = set()
    while left:
        name, extras = item = left.pop()
        if item in seen or not (metadata_of := _installed().get(name)):
            continue
        seen.add(item)
        found.add(name)
        for needed in map(Requirement, metadata_of.requires or ()):
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                left.add((canonicalize_name(needed.name), frozenset(needed.extras)))
    return found


@cache
def _installed() -> dict[str, metadata.Distribution]:
    return {canonicalize_name(item.name): item for item in metadata.distributions()}


def weight(names: Iterable[str]) -> float:
    """Return the megabytes of distributions."""
    files = (file for name in names for file in _installed()[name].files or ())
    return sum(file.size or 0 for file in files) / 1e6


def imported(python: Path, module: str) -> tuple[float, int, list[str]]:
    """Import a module in new processes; returns the least seconds, the modules, and the heavy libraries among them."""
    said = [
        subprocess.run([python, "-c", IMPORT, module], capture_output=True, text=True, check=True).stdout
        for _ in range(TIMES)
    ]
    found = [json.loads(text.splitlines()[-1]) for text in said]
    return min(item[0] for item in found), found[-1][1], found[-1][2]


def rows_of_weights() -> Iterator[str]:
    """Yield a row for Airflow alone, for this package beside it, and for each extra beside that."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    alone = brought(Requirement(AIRFLOW))
    core = brought(*map(Requirement, project["dependencies"])) | {canonicalize_name(project["name"])}
    yield _row("Airflow alone", alone)
    yield _row("this, without extras", core - alone)
    for extra, wanted in project["optional-dependencies"].items():
        yield _row(f"`[{extra}]`", brought(*map(Requirement, wanted)) - core - alone)


def _row(what: str, names: set[str]) -> str:
    largest = sorted(((weight([name]), name) for name in names), reverse=True)[:LARGEST]
    told = ", ".join(f"{name} {size:,.0f}" for size, name in largest if size >= 1)
    return f"| {what} | {len(names)} | {weight(names):,.0f} | {told or '–'} |"


def rows_of_imports(python: Path) -> Iterator[str]:
    """Yield a row for each part that Airflow, a Dag or a person imports."""
    for module, means in PARTS.items():
        seconds, modules, heavy = imported(python, module)
        yield f"| {means} | {seconds * 1000:,.0f} | {modules:,} | {', '.join(heavy) or '–'} |"


def main() -> int:
    """Measure, and write the page."""
    weights, imports = list(rows_of_weights()), list(rows_of_imports(Path(sys.executable)))
    parts = (
        "<!-- written by bench/installed.py -->",
        "# What it installs and imports",
        INTRO.strip(),
        "\n".join(["| beside the rows above | packages | MB | largest |", "|---|---|---|---|", *weights]),
        LATER,
        "\n".join(["| imports | ms of CPU | modules | heavy libraries |", "|---|---|---|---|", *imports]),
        "To measure again: `.venv/bin/python -m bench.installed`.",
    )
    PAGE.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
