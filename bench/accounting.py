"""What exact accounting costs: the time of an attempt's audit beside the rest of the same wave.

One topic is plain: rows equal to the span prove everything. The other one has a transaction marker behind every 99
records, so that one offset in a hundred has no row and is explained from Kafka's raw batches.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow_kafka_lake.core.ledger.guards import landed
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.local.kafka import LocalKafka
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.services import planning, staging
from airflow_kafka_lake.services.decisions import new_id
from airflow_kafka_lake.wiring import assemble
from bench.audit import Measured

PER_TRANSACTION = 99
VALUE_BYTES = 500


def overhead(records: int) -> list[Measured]:
    """Measure both topics: each wave without its audit, and the audit, with its share of the rest."""
    found: list[Measured] = []
    with LocalKafka(heap="1g") as broker, tempfile.TemporaryDirectory(prefix="kafka-lake-bench-") as folder:
        before = dict(os.environ)
        os.environ.update(connections(broker.bootstrap, Path(folder)))
        try:
            for topic, transactional in (("plain", False), ("transactional", True)):
                produce(broker.bootstrap, topic, records, transactional=transactional)
                rest, audit = measured(topic)
                found.append(Measured(arm=f"{topic}: wave", records=records, seconds=rest, mib=0))
                share = f"{topic}: its audit, {100 * audit / rest:.1f} %"
                found.append(Measured(arm=share, records=records, seconds=audit, mib=0))
        finally:
            os.environ.clear()
            os.environ.update(before)
    return found


def connections(bootstrap: str, home: Path) -> dict[str, str]:
    """Return the connections of a place of its own."""
    (home / "warehouse").mkdir()
    lake = {"format": "iceberg", "catalog": "sql", "uri": f"sqlite:///{home}/catalog.db"}
    given = {
        "KAFKA_DEFAULT": {"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}},
        "LAKE_DEFAULT": {"conn_type": "lake", "extra": {**lake, "warehouse": f"file://{home}/warehouse"}},
        "KAFKA_LAKE_LEDGER": {"conn_type": "sqlite", "host": f"{home}/ledger.db"},
        "SPARK_DEFAULT": {"conn_type": "spark", "host": "local[2]"},
    }
    found = {f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in given.items()}
    return {**found, "AIRFLOW_HOME": str(home / "airflow")}


def produce(bootstrap: str, topic: str, records: int, *, transactional: bool) -> None:
    """Fill a topic of one partition."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    own = {"transactional.id": topic} if transactional else {}
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **own})
    if transactional:
        producer.init_transactions(60)
    for first in range(0, records, PER_TRANSACTION):
        if transactional:
            producer.begin_transaction()
        for number in range(first, min(first + PER_TRANSACTION, records)):
            producer.produce(topic, os.urandom(VALUE_BYTES // 2).hex(), str(number), partition=0)
        if transactional:
            producer.commit_transaction(60)
        else:
            producer.poll(0)
    assert producer.flush(120) == 0


def measured(topic: str) -> tuple[float, float]:
    """Plan a topic and bring its one wave into the lake; returns the seconds of all but its audit, and of that."""
    spec = Pipeline(name=topic, topics=[topic], table=f"raw.{topic}", spark_connection="spark_default").spec
    with assemble.open_ports(spec, actor="bench", progress=_to_stderr, need_spark=True) as ports, timed() as audits:
        (wave,) = planning.plan(ports, spec, Bounds(), plan_id=new_id()).plan.waves
        began = time.monotonic()
        landed(staging.ingest(ports, wave.id))
        seconds = time.monotonic() - began
        (item,) = ports.ledger.ranges(wave=wave.id)
    _to_stderr(f"{topic}: {item.accounting}")
    return seconds - sum(audits), sum(audits)


@contextmanager
def timed() -> Iterator[list[float]]:
    """Take the time of every audit of an attempt."""
    real = staging.audit_attempt
    taken: list[float] = []

    def audit(*given: Any, **named: Any) -> Any:
        began = time.monotonic()
        try:
            return real(*given, **named)
        finally:
            taken.append(time.monotonic() - began)

    staging.audit_attempt = audit
    try:
        yield taken
    finally:
        staging.audit_attempt = real


def _to_stderr(text: str) -> None:
    sys.stderr.write(text + "\n")
