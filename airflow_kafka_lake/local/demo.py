"""The demonstration: real Kafka, Airflow, Spark and Iceberg, the main job, and a byte-for-byte proof."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any
from unittest.mock import patch

from airflow_kafka_lake.adapters.jars.cache import JarSet, fetch
from airflow_kafka_lake.adapters.spark_submit.runner import fetch_jars
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.errors import KafkaLakeError, UsageError
from airflow_kafka_lake.core.offsets import summed
from airflow_kafka_lake.local.airflow import LocalAirflow
from airflow_kafka_lake.local.kafka import LocalKafka
from airflow_kafka_lake.local.processes import Keeper
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.services import pipeline_audit, reporting
from airflow_kafka_lake.wiring.assemble import open_ports

# The demonstration's records, as the broker acknowledged them: the lake is compared with them.

Headers = list[tuple[str, bytes | None]]

RECORDS = 20_000
QUIET_PARTITIONS = 220
BIG_VALUE = 2 * 1024 * 1024
MAX_MESSAGE = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgedRecords:
    """One topic: digest of every visible record by `(partition, offset)`."""

    topic: str
    partitions: int
    visible: dict[tuple[int, int], bytes] = field(default_factory=dict)


def digest(key: bytes | None, value: bytes | None, headers: Headers) -> bytes:
    """Digest a record so that null, empty and missing differ."""
    return hashlib.sha256(repr((key, value, headers)).encode()).digest()


def create_topics(bootstrap: str) -> list[AcknowledgedRecords]:
    """Create the demonstration's topics: mixed, transactional, uneven, and many quiet partitions."""
    from confluent_kafka.admin import AdminClient, NewTopic

    partitions = {"orders": 4, "payments": 3, "clicks": 6, "quiet": QUIET_PARTITIONS}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {"max.message.bytes": str(MAX_MESSAGE)}
    for future in admin.create_topics([NewTopic(t, n, 1, config=settings) for t, n in partitions.items()]).values():
        future.result(timeout=30)
    return [AcknowledgedRecords(topic=topic, partitions=count) for topic, count in partitions.items()]


def fill(bootstrap: str, topics: Sequence[AcknowledgedRecords], progress: Callable[[str], None]) -> None:
    """Produce every topic's records and note the acknowledged ones."""
    by_name = {topic.topic: topic for topic in topics}
    for name, records in (("orders", _orders()), ("clicks", _clicks()), ("quiet", _quiet())):
        progress(f"producing {name}")
        _produce(_producer(bootstrap), by_name[name], records, by_name[name].visible)
    progress("producing payments in transactions, some of them aborted")
    _transactions(bootstrap, by_name["payments"])


def _producer(bootstrap: str, **settings: Any) -> Any:
    from confluent_kafka import Producer

    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "message.max.bytes": MAX_MESSAGE,
            "log_level": 2,  # a broker that is still starting needs no log line
            "queue.buffering.max.messages": 200_000,
            "linger.ms": 20,
            "enable.idempotence": True,
            **settings,
        }
    )


Record = tuple[int, bytes | None, bytes | None, Headers]


def _produce(
    producer: Any, topic: AcknowledgedRecords, records: Iterator[Record], acknowledged: dict[tuple[int, int], bytes]
) -> None:
    failed: list[str] = []

    def on_delivery(content: bytes) -> Callable[[Any, Any], None]:
        def done(error: Any, message: Any) -> None:
            if error is not None:
                failed.append(str(error))
            else:
                acknowledged[message.partition(), message.offset()] = content

        return done

    for partition, key, value, headers in records:
        producer.poll(0)
        producer.produce(
            topic.topic,
            key=key,
            value=value,
            headers=headers,
            partition=partition,
            on_delivery=on_delivery(digest(key, value, headers)),
        )
    if producer.flush(60) or failed:
        raise RuntimeError(f"the local broker did not take every record of {topic.topic}: {failed[:3]}")


def _orders() -> Iterator[Record]:
    """Keys, null keys, tombstones, empty values, headers with null and empty values, one record of 2 MB."""
    chance = random.Random(1)
    for number in range(RECORDS):
        key = None if number % 11 == 0 else f"customer-{number % 997}".encode()
        value: bytes | None = f'{{"order": {number}, "note": "{"x" * chance.randrange(200)}"}}'.encode()
        if number % 13 == 0:
            value = None
        elif number % 17 == 0:
            value = b""
        headers: Headers = [("trace", str(number).encode())] if number % 3 == 0 else []
        if number % 19 == 0:
            headers = [("empty", b""), ("null", None), ("twice", b"1"), ("twice", b"2")]
        if number == RECORDS // 2:
            value = chance.randbytes(BIG_VALUE)
        yield number % 4, key, value, headers


def _clicks() -> Iterator[Record]:
    """One partition with nine tenths of the bytes."""
    chance = random.Random(2)
    for number in range(RECORDS):
        partition = 0 if number % 10 else 1 + (number // 10) % 5
        yield partition, str(number).encode(), chance.randbytes(1000), []


def _quiet() -> Iterator[Record]:
    for number in range(QUIET_PARTITIONS * 5):
        yield number % QUIET_PARTITIONS, None, f"quiet {number}".encode(), []


def _transactions(bootstrap: str, topic: AcknowledgedRecords) -> None:
    """Two producers in turn, so that committed and aborted records lie between each other."""
    producers = [_producer(bootstrap, **{"transactional.id": f"demo-{name}"}) for name in "ab"]
    for producer in producers:
        producer.init_transactions(30)
    for number in range(30):
        producer = producers[number % 2]
        aborted = number % 5 == 4
        seen: dict[tuple[int, int], bytes] = {}
        producer.begin_transaction()
        records: Iterator[Record] = (
            (i % 3, f"{number}".encode(), f"{'no' if aborted else 'yes'} {number} {i}".encode(), []) for i in range(90)
        )
        _produce(producer, topic, records, seen)
        if aborted:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            topic.visible.update(seen)


# The proof: every row of the table against the broker's acknowledgements, byte for byte.

NUMBERS = tuple(item.name for item in fields(Accounting))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProof:
    """One topic: its acknowledged records, its rows in the table, and the pipeline's own accounting beside it."""

    topic: str
    partitions: int
    offsets: int
    visible_expected: int
    rows: int
    duplicates: int
    missing: int
    different: int
    unexpected: int
    accounting: Accounting

    @property
    def ok(self) -> bool:
        wrong = self.duplicates + self.missing + self.different + self.unexpected + self.accounting.unexplained
        return (
            wrong == 0 < self.visible_expected
            and self.rows == self.visible_expected
            and self.accounting.span == self.offsets
        )


def read_rows(catalog_uri: str, warehouse: str, table: str) -> dict[str, Counter[tuple[int, int, bytes]]]:
    """Read the table as any reader would and count rows by topic as `(partition, offset, digest)`."""
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("lake", type="sql", uri=catalog_uri, warehouse=warehouse)
    found: dict[str, Counter[tuple[int, int, bytes]]] = {}
    scan = catalog.load_table(table).scan(
        selected_fields=("kafka_topic", "kafka_partition", "kafka_offset", "key", "value", "headers")
    )
    for batch in scan.to_arrow_batch_reader():
        for row in batch.to_pylist():
            headers = [(item["key"], item["value"]) for item in row["headers"] or []]
            content = digest(row["key"], row["value"], headers)
            found.setdefault(row["kafka_topic"], Counter())[row["kafka_partition"], row["kafka_offset"], content] += 1
    return found


def prove(
    topics: Sequence[AcknowledgedRecords],
    ends: Mapping[str, int],
    rows: Mapping[str, Counter[tuple[int, int, bytes]]],
    accounted: Mapping[str, Accounting],
) -> list[TopicProof]:
    """Hold the table against the acknowledgements; `ends` is the number of offsets of each topic, `accounted`
    the pipeline's own accounting of them."""
    proofs = []
    for topic in topics:
        found = rows.get(topic.topic, Counter())
        there = summed(((partition, offset), count) for (partition, offset, _), count in found.items())
        proof = TopicProof(
            topic=topic.topic,
            partitions=topic.partitions,
            offsets=ends[topic.topic],
            visible_expected=len(topic.visible),
            rows=sum(found.values()),
            duplicates=sum(count - 1 for count in there.values()),
            missing=len(topic.visible.keys() - there.keys()),
            different=sum(1 for p, o, content in found if topic.visible.get((p, o), content) != content),
            unexpected=len(there.keys() - topic.visible.keys()),
            accounting=accounted[topic.topic],
        )
        proofs.append(proof)
    return proofs


# The demonstration: real Kafka, Airflow, Spark and Iceberg on this machine, the main job, and the proof.

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


Show = Any
"""The `Output` of the command line, which stands above this module: where the demonstration prints."""


class Seconds(dict[str, float]):
    """How long each part took, in seconds."""

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        begin = time.monotonic()
        yield
        self[part] = round(time.monotonic() - begin, 1)


def demonstrate(show: Show, *, keep_running: bool, report: Path | None) -> int:
    """Run the demonstration; returns 0 when the proof holds. Everything it started ends with it, also on Ctrl-C.

    Raises UsageError for a report without a folder, and the errors of services that do not start.
    """
    if report is not None and not report.absolute().parent.is_dir():
        raise UsageError(f"the folder of the report {report} does not exist: create it first")
    seconds = Seconds()
    with ExitStack() as stack:
        # SIGTERM cleans up as Ctrl-C does.
        stack.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, signal.default_int_handler))
        with seconds.of("setup"):
            show.progress("fetching and verifying jars")
            fetch_jars(show.progress)
            fetch(JarSet.KAFKA_BROKER, progress=show.progress)
            home = Path(tempfile.mkdtemp(prefix="kafka-lake-demo-"))
            stack.enter_context(Keeper(remove=[home]))
        with seconds.of("kafka"):
            show.progress("starting Kafka")
            broker = stack.enter_context(LocalKafka(settings={"message.max.bytes": str(MAX_MESSAGE)}))
            topics = create_topics(broker.bootstrap)
            fill(broker.bootstrap, topics, show.progress)
        demo = Demo(home, broker, topics)
        with seconds.of("airflow"):
            show.progress("starting Airflow")
            shipped = Path(__file__).parent.parent / "example_dags"
            airflow = stack.enter_context(LocalAirflow(dags_folder=shipped, env=demo.environment))
            airflow.unpause(DAG)
        with seconds.of("run"):
            dag_run = _run_dag(show, airflow)
        proof = demo.report(dag_run, seconds)
        _show_proof(show, proof)
        if report is not None:
            report.write_text(json.dumps(asdict(proof), indent=2) + "\n")
        if keep_running:
            _stay(show, demo, airflow)
    return 0 if proof.ok else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """The proof of each topic, and where everything is: the fields are the keys of its document."""

    ok: bool
    kafka: Mapping[str, str]
    dag_run: Mapping[str, str]
    topics: Sequence[TopicProof]
    watermarks_match: bool
    table: str
    ledger: str
    catalog: str
    seconds: Mapping[str, float]


class Demo:
    """The demonstration's pipeline file, catalog and ledger, and the variables that point Airflow to them."""

    def __init__(self, home: Path, broker: LocalKafka, topics: Sequence[AcknowledgedRecords]) -> None:
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

    def report(self, dag_run: Mapping[str, str], seconds: Seconds) -> DemoReport:
        """Read ledger, table and broker, and compare them with the broker's acknowledgements."""
        with patch.dict(os.environ, self.environment):
            spec = Pipeline.from_toml(self.pipelines / "demo.toml").spec
            with open_ports(spec, actor="demo", progress=lambda _: None) as ports:
                audit = pipeline_audit.audit(ports, spec)
                status = reporting.status(ports, spec)
        ends = {topic.topic: 0 for topic in self.topics}
        for stream in status.streams:
            ends[stream.key.topic] += stream.bounds.high_watermark if stream.bounds else 0
        accounted = dict.fromkeys(ends, Accounting())
        for found in audit.streams:
            accounted[found.record.key.topic] += found.accounting
        proofs = prove(self.topics, ends, read_rows(self.catalog, self.warehouse, TABLE), accounted)
        known = sum(topic.partitions for topic in self.topics)
        matches = len(status.streams) == known and all(
            stream.bounds and stream.record.watermark == stream.bounds.last_stable for stream in status.streams
        )
        return DemoReport(
            ok=bool(matches and audit.ok and dag_run["state"] == "success" and all(proof.ok for proof in proofs)),
            kafka={"version": self.broker.version, "bootstrap": self.broker.bootstrap},
            dag_run=dag_run,
            topics=proofs,
            watermarks_match=matches,
            table=TABLE,
            ledger=str(self.ledger),
            catalog=self.catalog,
            seconds=dict(seconds),
        )


def _run_dag(show: Show, airflow: LocalAirflow) -> dict[str, str]:
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


def _show_proof(show: Show, proof: DemoReport) -> None:
    rows = [
        (t.topic, t.partitions, t.offsets, t.visible_expected, t.rows, t.duplicates, t.missing, t.different)
        for t in proof.topics
    ]
    columns = ("topic", "#partitions", "#offsets", "#acknowledged", "#rows", "#twice", "#missing", "#different")
    show.table("the lake against the producers' acknowledgements", columns, rows)
    fates = [(t.topic, *(getattr(t.accounting, name) for name in NUMBERS)) for t in proof.topics]
    show.table("every offset is accounted for", ("topic", *(f"#{name}" for name in NUMBERS)), fates)
    matches = "at" if proof.watermarks_match else "NOT at"
    show.line("Dag run {dag_id} {run_id}: {state}".format(**proof.dag_run))
    show.line(f"every watermark is {matches} its partition's last stable offset")
    show.line("seconds: " + ", ".join(f"{part} {took}" for part, took in proof.seconds.items()))
    verdict = "PROVED: every acknowledged record is in the table once, nothing else is"
    show.line(verdict if proof.ok else "NOT PROVED: see above")


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
