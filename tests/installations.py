"""The package installed as strangers do: a clean environment, constraints of Airflow, and one small real run.

    python -m tests.installations --list
    python -m tests.installations "Airflow 3.3.1, its constraints" --report result.json

A set is installed in two steps, each from an empty cache and timed: the Airflow that is there before, and this package
with its extras beside it. The report holds each step with what was wrong, the versions that were found and the seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_kafka_lake.local.kafka import LocalKafka

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "tests" / "constraints"
UV = Path(sys.executable).with_name("uv")
PARTITIONS, RECORDS = 2, 200
LIBRARIES = ("apache-airflow", "pyiceberg", "confluent-kafka", "sqlalchemy", "pyarrow")
EVERYTHING = """
import importlib, os, pkgutil, sys, airflow_kafka_lake
if beside := os.environ.get("KAFKA_LAKE_SPARK_HOME"):
    sys.path.append(os.path.dirname(beside))  # a driver, which imports the decoders, has it there too
for module in pkgutil.walk_packages(airflow_kafka_lake.__path__, "airflow_kafka_lake."):
    if not module.name.endswith("__main__") and ".versions" not in module.name:
        importlib.import_module(module.name)
"""
ASKED = """
import json, platform, sys
from importlib.metadata import version
from airflow_kafka_lake.adapters.java import spark_version
found = {name: version(name) for name in sys.argv[1:]}
print(json.dumps({"python": platform.python_version(), "spark": spark_version()} | found))
"""


class StepFailedError(Exception):
    """A step of an installation ended otherwise than it should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """One set: a Python, an Airflow, its constraints or none, and further words for the resolver."""

    python: str
    airflow: str
    constraints: str = ""
    extras: str = "spark,postgres,schema-registry,openlineage,msk"
    words: Sequence[str] = ()
    spark_beside: str = ""
    """The PySpark that gets a folder of its own, where the constraints leave no place for one."""
    refused: str = ""
    """The library that the resolver names where it cannot be installed."""


SETS: Mapping[str, Installation] = {
    "Airflow 3.0.6, its constraints": Installation(
        python="3.12", airflow="3.0.6", constraints="airflow-3.0.6", refused="sqlalchemy==1.4"
    ),
    "Airflow 3.2.1, its constraints": Installation(
        python="3.12", airflow="3.2.1", constraints="airflow-3.2.1", words=("pyspark==4.1.1",)
    ),
    "Airflow 3.3.1, its constraints": Installation(
        python="3.12", airflow="3.3.1", constraints="airflow-3.3.1",
        extras="postgres,schema-registry,openlineage,msk", spark_beside="4.1.3",
    ),
    "Airflow 3.2.1, its constraints, Spark 4.0": Installation(
        python="3.12", airflow="3.2.1", constraints="airflow-3.2.1",
        extras="postgres,schema-registry,openlineage,msk", spark_beside="4.0.0",
    ),
    "the newest of everything, Python 3.13": Installation(python="3.13", airflow="3.3.2"),
    "the newest of everything, Python 3.11": Installation(python="3.11", airflow="3.3.2"),
}  # fmt: skip


@dataclass(slots=True)
class Trial:
    """An installation that is tried in a folder."""

    installation: Installation
    home: Path
    cases: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def python(self) -> Path:
        """The Python of the new environment."""
        return self.home / "venv" / "bin" / "python"

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a step, and keep what was wrong with it."""
        began = time.monotonic()
        try:
            yield
        except StepFailedError as error:
            self.cases[name] = str(error)
            raise
        finally:
            self.seconds[name] = round(time.monotonic() - began, 1)
        self.cases[name] = ""

    def run(self, *words: str | Path, code: int = 0) -> str:
        """Run a command of the environment as a user of nothing else does; return what it wrote."""
        kept = {key: os.environ[key] for key in ("HOME", "JAVA_HOME", "LANG", "SSL_CERT_FILE") if key in os.environ}
        path = os.pathsep.join([str(self.python.parent), os.environ["PATH"]])
        done = subprocess.run(
            [str(word) for word in words], cwd=self.home, env=kept | {"PATH": path} | self.environment,
            capture_output=True, text=True, timeout=1800, check=False,
        )  # fmt: skip
        if done.returncode != code:
            raise StepFailedError(f"{' '.join(map(str, words))} ended with {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout if code == 0 else done.stderr

    def document(self, *words: str) -> Any:
        """Run a command of the package, and return its document."""
        return json.loads(self.run(self.python.parent / "kafka-lake", *words, "--json"))

    def install(self, wheel: Path) -> None:
        """Make the environment with Airflow, and install this package beside it from an empty cache."""
        chosen = self.installation
        self.environment["UV_CACHE_DIR"] = str(self.home / "uv")
        self.run(UV, "venv", "--python", interpreter(chosen.python), self.home / "venv")
        beside = ["-c", CONSTRAINTS / f"{chosen.constraints}.txt"] if chosen.constraints else []
        words = (UV, "pip", "install", "--python", self.python, *beside, f"apache-airflow=={chosen.airflow}")
        if not chosen.refused:
            with self.step("Airflow is installed"):
                self.run(*words)
            shutil.rmtree(self.home / "uv")
        with self.step("the package is installed"):
            said = self.run(*words, f"{wheel}[{chosen.extras}]", *chosen.words, code=int(bool(chosen.refused)))
            if chosen.refused not in said.lower():
                raise StepFailedError(f"it is refused for another reason: {said}")
            if chosen.spark_beside:
                beside_it = (UV, "pip", "install", "--python", self.python, "--target", self.home / "spark")
                self.run(*beside_it, f"pyspark=={chosen.spark_beside}")
                self.environment["KAFKA_LAKE_SPARK_HOME"] = str(self.home / "spark" / "pyspark")
        shutil.rmtree(self.home / "uv")

    def versions(self) -> dict[str, str]:
        """Return the version of each library that matters, of Python and of Spark."""
        return dict(json.loads(self.run(self.python, "-c", ASKED, *LIBRARIES)))

    def play(self, broker: LocalKafka) -> None:
        """Plan, run, look and audit, of a topic whose records the broker has acknowledged."""
        produce(broker.bootstrap)
        lake = {"catalog": "sql", "uri": f"sqlite:///{self.home}/catalog.db", "warehouse": f"file://{self.home}/lake"}
        kafka = {"bootstrap.servers": broker.bootstrap}
        (self.home / "lake").mkdir()
        self.environment |= {
            "KAFKA_LAKE_CACHE": str(self.home / "jars"),
            "AIRFLOW_HOME": str(self.home / "airflow"),
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": kafka}),
            "AIRFLOW_CONN_LAKE_DEFAULT": json.dumps({"conn_type": "lake", "extra": lake}),
            "AIRFLOW_CONN_KAFKA_LAKE_LEDGER": json.dumps({"conn_type": "sqlite", "host": f"{self.home}/ledger.db"}),
        }
        (self.home / "orders.toml").write_text(
            '[pipeline]\nname = "orders"\n[source]\ntopics = ["orders"]\n[lake]\ntable = "raw.orders"\n'
        )
        with self.step("every module is imported"):
            self.run(self.python, "-c", EVERYTHING)
        with self.step("the jars are fetched"):
            self.document("jars", "fetch")
        with self.step("plan"):
            self.document("plan", "orders.toml", "--dry-run")
        with self.step("run"):
            self.document("run", "orders.toml")
        with self.step("status"):
            self.document("status", "orders")
        for name, words in (("audit", ("audit", "orders")), ("deep audit", ("audit", "orders", "--deep"))):
            with self.step(name):
                found = self.document(*words)
                rows = sum(stream["rows"] for stream in found["streams"])
                if not found["ok"] or rows != RECORDS:
                    raise StepFailedError(f"{rows} rows of {RECORDS} records: {json.dumps(found)[:2000]}")


def interpreter(version: str) -> str:
    """Return a Python of this machine: the first of its name in PATH, or in pyenv's folder, that starts."""
    places = [shutil.which(f"python{version}") or "", *Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
    for place in filter(None, map(str, places)):
        said = subprocess.run([place, "-V"], capture_output=True, text=True, check=False)
        if said.returncode == 0 and f" {version}." in said.stdout:
            return place
    raise StepFailedError(f"there is no Python {version} on this machine")


def produce(bootstrap: str) -> None:
    """Produce the records of the topic, each acknowledged."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic("orders", PARTITIONS, 1)]).values():
        made.result()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce("orders", f"{number}", f"{number}", partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def build(folder: Path) -> Path:
    """Return the wheel of this clone."""
    words = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def main(words: Sequence[str]) -> int:
    """Try a set; return 0 if all of its steps were right."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("set", nargs="?", choices=list(SETS))
    parser.add_argument("--list", action="store_true", help="show the sets, and end")
    parser.add_argument("--report", type=Path)
    asked = parser.parse_args(words)
    if asked.list or asked.set is None:
        sys.stdout.write("".join(f"{name}: {item}\n" for name, item in SETS.items()))
        return 0
    with tempfile.TemporaryDirectory(prefix="kafka-lake-installation-") as folder:
        trial, versions = Trial(SETS[asked.set], Path(folder)), {}
        try:
            trial.install(build(trial.home))
            if not trial.installation.refused:
                versions = trial.versions()
                with LocalKafka() as broker:
                    trial.play(broker)
        except StepFailedError:
            pass
    document = {"versions": versions, "seconds": trial.seconds, "cases": trial.cases}
    sys.stdout.write(f"{json.dumps(document, indent=1)}\n")
    if asked.report:
        asked.report.write_text(json.dumps(document))
    return int(any(trial.cases.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
