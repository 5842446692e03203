"""The demonstration: real Kafka, Airflow, Spark and Iceberg on this machine, the main job, and the proof."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn, Protocol

from airflow_kafka_lake.adapters.jars import JarSet, fetch
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import KafkaLakeError, UsageError
from airflow_kafka_lake.local.airflow import LocalAirflow
from airflow_kafka_lake.local.demo_proof import NUMBERS, prove, read_rows
from airflow_kafka_lake.local.demo_topics import MAX_MESSAGE, Acknowledged, create_topics, fill
from airflow_kafka_lake.local.kafka import LocalKafka
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.services import pipeline_audit, reporting
from airflow_kafka_lake.wiring.assemble import open_ports
from airflow_kafka_lake.wiring.spark import fetch_jars

DAG = "kafka_lake_manual"
TABLE = "demo.events"
RUN_SECONDS = 900
PIPELINE = """\
[pipeline]
name = "demo"
[source]
connection = "kafka_default"
topics = {topics}
[lake]
connection = "lake_default"
table = "{table}"
"""


class Show(Protocol):
    """Where the demonstration prints."""

    def progress(self, text: str) -> None:
        """Show what is being done."""

    def note(self, text: str) -> None:
        """Print a line beside the result."""

    def line(self, text: str) -> None:
        """Print a line of the result."""

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print a table."""


class Seconds(dict[str, float]):
    """How long each part took, in seconds."""

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Time a part."""
        begin = time.monotonic()
        yield
        self[part] = round(time.monotonic() - begin, 1)


def demonstrate(show: Show, *, keep_running: bool, report: Path | None) -> int:
    """Run the demonstration; returns 0 when the proof holds. Everything it started ends with it, also on Ctrl-C."""
    if report is not None and not report.absolute().parent.is_dir():
        raise UsageError(f"the folder of the report {report} does not exist: create it first")
    seconds = Seconds()
    with ExitStack() as stack:
        # SIGTERM cleans up as Ctrl-C does.
        stack.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, _interrupt))
        with seconds.of("setup"):
            show.progress("fetching and verifying jars")
            fetch_jars(show.progress)
            fetch(JarSet.KAFKA_BROKER, progress=show.progress)
            home = Path(tempfile.mkdtemp(prefix="kafka-lake-demo-"))
            stack.callback(shutil.rmtree, home, ignore_errors=True)
        with seconds.of("kafka"):
            show.progress("starting Kafka")
            broker = stack.enter_context(LocalKafka(settings={"message.max.bytes": str(MAX_MESSAGE)}))
            topics = create_topics(broker.bootstrap)
            fill(broker.bootstrap, topics, show.progress)
        demo = Demo(home, broker, topics)
        with seconds.of("airflow"):
            show.progress("starting Airflow")
            airflow = stack.enter_context(LocalAirflow(dags_folder=demo.dags_folder, env=demo.environment))
            airflow.unpause(DAG)
        with seconds.of("run"):
            dag_run = _run_dag(show, airflow)
        document = demo.report(dag_run, seconds)
        _show_proof(show, document)
        if report is not None:
            report.write_text(json.dumps(document, indent=2) + "\n")
        if keep_running:
            _stay(show, demo, airflow)
    return 0 if document["ok"] else 1


class Demo:
    """The demonstration's pipeline file, catalog and ledger, and the variables that point Airflow to them."""

    def __init__(self, home: Path, broker: LocalKafka, topics: Sequence[Acknowledged]) -> None:
        self.home = home
        self.broker = broker
        self.topics = topics
        self.catalog = f"sqlite:///{home}/catalog.db"
        self.warehouse = f"file://{home}/warehouse"
        self.ledger = home / "ledger.db"
        self.pipelines = home / "pipelines"
        self.pipelines.mkdir()
        (home / "warehouse").mkdir()
        names = json.dumps([topic.topic for topic in topics])
        (self.pipelines / "demo.toml").write_text(PIPELINE.format(topics=names, table=TABLE))

    @property
    def dags_folder(self) -> Path:
        """The example Dags as this package ships them."""
        return Path(__file__).parent.parent / "example_dags"

    @property
    def environment(self) -> dict[str, str]:
        """The connections of the README, as environment variables."""
        lake = {"format": "iceberg", "catalog": "sql", "uri": self.catalog, "warehouse": self.warehouse}
        kafka = {"bootstrap.servers": self.broker.bootstrap}
        return {
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": kafka}),
            "AIRFLOW_CONN_LAKE_DEFAULT": json.dumps({"conn_type": "lake", "extra": lake}),
            "AIRFLOW_CONN_KAFKA_LAKE_LEDGER": json.dumps({"conn_type": "sqlite", "host": str(self.ledger)}),
            "AIRFLOW__KAFKA_LAKE__PIPELINES_FOLDER": str(self.pipelines),
        }

    def report(self, dag_run: dict[str, Any], seconds: Seconds) -> dict[str, Any]:
        """Read ledger, table and broker, and compare them with what the broker acknowledged."""
        with patched_environment(self.environment):
            spec = Pipeline.from_toml(self.pipelines / "demo.toml").spec
            with open_ports(spec, actor="demo", progress=lambda _: None) as ports:
                audit = pipeline_audit.audit(ports, spec)
                status = reporting.status(ports, spec)
        ends = {topic.topic: 0 for topic in self.topics}
        for stream in status["streams"]:
            ends[stream["topic"]] += stream["high_watermark"] or 0
        proofs = prove(self.topics, ends, read_rows(self.catalog, self.warehouse, TABLE), audit)
        known = sum(topic.partitions for topic in self.topics)
        matches = len(status["streams"]) == known and all(
            stream["watermark"] == stream["last_stable"] for stream in status["streams"]
        )
        return {
            "ok": bool(matches and audit["ok"] and dag_run["state"] == "success" and all(proof.ok for proof in proofs)),
            "kafka": {"version": self.broker.version, "bootstrap": self.broker.bootstrap},
            "dag_run": dag_run,
            "topics": [asdict(proof) for proof in proofs],
            "watermarks_match": matches,
            "table": TABLE,
            "ledger": str(self.ledger),
            "catalog": self.catalog,
            "seconds": dict(seconds),
        }


@contextmanager
def patched_environment(variables: dict[str, str]) -> Iterator[None]:
    """Set variables for this process as long as the block lasts."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _run_dag(show: Show, airflow: LocalAirflow) -> dict[str, Any]:
    show.progress(f"running Dag {DAG}")
    run_id = airflow.trigger(DAG, {"pipeline": "demo"})

    def on_progress(states: dict[str, str]) -> None:
        active = {task: state for task, state in states.items() if state not in ("none", "skipped")}
        if active:
            show.progress(f"Dag {DAG}: " + ", ".join(f"{task} {state}" for task, state in sorted(active.items())))

    run = airflow.wait_run(DAG, run_id, RUN_SECONDS, on_progress)
    if run["state"] != "success":
        for task, state in sorted(airflow.task_states(DAG, run_id).items()):
            show.note(f"task {task}: {state}")
            if state == "failed":
                show.note(_log(airflow, run_id, task))
    return {"dag_id": DAG, "run_id": run_id, "state": run["state"]}


def _log(airflow: LocalAirflow, run_id: str, task: str) -> str:
    name, _, index = task.rstrip("]").partition("[")
    try:
        return airflow.task_log(DAG, run_id, name, map_index=int(index or -1))
    except KafkaLakeError as error:
        return f"its log could not be read: {error}"


def _show_proof(show: Show, document: dict[str, Any]) -> None:
    rows = [
        (
            topic["topic"],
            topic["partitions"],
            topic["offsets"],
            topic["visible_expected"],
            topic["rows"],
            topic["duplicates"],
            topic["missing"],
            topic["different"],
            *(topic["accounting"][name] for name in NUMBERS[1:]),
        )
        for topic in document["topics"]
    ]
    columns = ("topic", "#partitions", "#offsets", "#acknowledged", "#rows", "#twice", "#missing", "#different")
    show.table("the lake against the producers' acknowledgements", (*columns, *(f"#{n}" for n in NUMBERS[1:])), rows)
    run = document["dag_run"]
    matches = "at" if document["watermarks_match"] else "NOT at"
    show.line(f"Dag run {run['dag_id']} {run['run_id']}: {run['state']}")
    show.line(f"every watermark is {matches} its partition's last stable offset")
    show.line("seconds: " + ", ".join(f"{part} {took}" for part, took in document["seconds"].items()))
    verdict = "PROVED: every acknowledged record is in the table once, nothing else is"
    show.line(verdict if document["ok"] else "NOT PROVED: see above")


def _stay(show: Show, demo: Demo, airflow: LocalAirflow) -> None:
    python = Path(sys.executable)
    variables = "\n".join(f"export {name}='{value}'" for name, value in demo.environment.items())
    show.line(f"\nAirflow: {airflow.base_url}/dags/{DAG}  (user {airflow.user}, password {airflow.password()})")
    show.line(f"\nIn another terminal:\n{variables}")
    show.line(f"{python.parent}/{remedies.status('demo')}\n{python.parent}/{remedies.audit('demo')}")
    show.line(
        f"{python} -c \"from pyiceberg.catalog import load_catalog as c; print(c('lake', type='sql', "
        f"uri='{demo.catalog}', warehouse='{demo.warehouse}').load_table('{TABLE}').scan(limit=10).to_arrow())\""
    )
    show.progress("running until Ctrl-C")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        show.note("stopping")
