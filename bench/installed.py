"""`python -m bench.installed WHEEL`: weigh an installation with and without each extra, and what its parts import.

Writes docs/reference/installed.md. Megabytes are those of the installed files; time is that of the processor, which
does not depend on what else a machine does.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "installed.md"
AIRFLOW = "apache-airflow"
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
"""

LATER = "The jars that Spark needs come with [`kafka-lake jars fetch`](commands.md#jars): 115 MB, and 69 MB for S3."


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What lies in an environment: distributions by name, and the bytes of all files."""

    distributions: frozenset[str]
    size: int


def environment(place: Path, *wanted: str) -> Path:
    """Make an environment with what is wanted, in the versions of the tests; returns its interpreter."""
    uv, python = Path(sys.executable).with_name("uv"), place / "bin" / "python"
    for words in (
        (uv, "venv", "--quiet", "--python", sys.executable, place),
        (uv, "pip", "install", "--quiet", "--python", python, "-c", ROOT / "constraints.txt", *wanted),
    ):
        subprocess.run([str(word) for word in words], check=True)
    return python


def weighed(place: Path) -> Installation:
    """Weigh an environment."""
    (packages,) = (place / "lib").glob("python*/site-packages")
    files = [file for file in packages.rglob("*") if file.is_file() and file.suffix != ".pyc"]
    names = frozenset(folder.name.partition("-")[0] for folder in packages.glob("*.dist-info"))
    return Installation(distributions=names, size=sum(file.stat().st_size for file in files))


def imported(python: Path, module: str) -> tuple[float, int, list[str]]:
    """Import a module in new processes; returns the least seconds, the modules, and the heavy libraries among them."""
    said = [
        subprocess.run([python, "-c", IMPORT, module], capture_output=True, text=True, check=True).stdout
        for _ in range(TIMES)
    ]
    found = [json.loads(text.splitlines()[-1]) for text in said]
    return min(item[0] for item in found), found[-1][1], found[-1][2]


def rows_of_extras(wheel: Path, place: Path, extras: Sequence[str]) -> Iterator[str]:
    """Yield a row for Airflow alone, for the core and for each extra."""
    environment(place / AIRFLOW, AIRFLOW)
    alone = weighed(place / AIRFLOW)
    yield f"| Airflow alone | {len(alone.distributions)} | {_mb(alone.size)} |"
    environment(place / "core", str(wheel))
    core = weighed(place / "core")
    yield f"| this, without extras | {_more(core, alone)} |"
    for extra in extras:
        environment(place / extra, f"{wheel}[{extra}]")
        yield f"| `[{extra}]` | {_more(weighed(place / extra), core)} |"


def _more(found: Installation, than: Installation) -> str:
    return f"+{len(found.distributions - than.distributions)} | +{_mb(found.size - than.size)}"


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f}"


def rows_of_imports(python: Path) -> Iterator[str]:
    """Yield a row for each part that Airflow, a Dag or a person imports."""
    for module, means in PARTS.items():
        seconds, modules, heavy = imported(python, module)
        yield f"| {means} | {seconds * 1000:,.0f} | {modules:,} | {', '.join(heavy) or '–'} |"


def main(wheel: Path) -> int:
    """Measure, and write the page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with tempfile.TemporaryDirectory(prefix="kafka-lake-installed-") as folder:
        place = Path(folder)
        weights = list(rows_of_extras(wheel, place, list(project["optional-dependencies"])))
        imports = list(rows_of_imports(place / "core" / "bin" / "python"))
    parts = (
        "<!-- written by bench/installed.py -->",
        "# What it installs and imports",
        INTRO.strip(),
        "\n".join(["| | packages | MB |", "|---|---|---|", *weights]),
        LATER,
        "\n".join(["| imports | ms of CPU | modules | heavy libraries |", "|---|---|---|---|", *imports]),
        "To measure again: `make dist && .venv/bin/python -m bench.installed dist/*.whl`.",
    )
    PAGE.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
