"""Iceberg's own sink in a real Kafka Connect worker: it streams, so it is ended when all rows are committed."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from airflow_kafka_lake.adapters.java import require_java
from airflow_kafka_lake.adapters.spark_submit.submission import properties_text
from airflow_kafka_lake.local.processes import free_ports
from bench.arms.arm import Arm
from bench.arms.place import POSITION, TABLE, Place
from bench.connect_jars import connect_class_path
from bench.workloads import DECODED, Workload

PROGRAM = Path(__file__).with_name("connect_program.py")
_CATALOG = "spark.sql.catalog.lake."
_TUNED_CONSUMER = {"max.poll.records": "5000", "max.partition.fetch.bytes": str(4 * 1024 * 1024)}
_NOT_THERE = ("key", "headers")
"""Kafka Connect has no transformation that puts the key into the row: this arm lands less than all others."""


class Connect(Arm):
    """A standalone worker with as many tasks as cores."""

    def __init__(self, name: str, says: str, *, tuned: bool) -> None:
        self.name, self.says, self._tuned = name, says, tuned
        if not tuned:
            self.most_repeats = 1  # it commits every five minutes

    def prepare(self, place: Place) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        place.create_table(without=(*_NOT_THERE, "value") if place.workload.decoded else _NOT_THERE)
        control = self._control(place)
        admin = AdminClient({"bootstrap.servers": place.bootstrap})  # which must live until it has answered
        admin.create_topics([NewTopic(control, 1, 1)])[control].result(60)

    def columns(self, workload: Workload) -> Mapping[str, str]:
        return POSITION | {name: name for name in (DECODED if workload.decoded else ("value",))}

    def command(self, place: Place) -> Sequence[str]:
        worker, sink = place.home / "worker.properties", place.home / "sink.properties"
        worker.write_text(properties_text(self._worker(place)), encoding="utf-8")
        sink.write_text(properties_text(self._sink(place)), encoding="utf-8")
        java = [
            str(require_java()),
            f"-Xmx{place.heap}",
            "-Dlog4j2.level=INFO",
            *("-cp", connect_class_path()),
            *("org.apache.kafka.connect.cli.ConnectStandalone", str(worker), str(sink)),
        ]
        request = place.home / "connect.json"
        asked = {"command": java, "catalog": str(place.catalog), "table": TABLE, "rows": place.workload.records}
        request.write_text(json.dumps(asked), encoding="utf-8")
        return [sys.executable, str(PROGRAM), str(request)]

    def environment(self, place: Place) -> Mapping[str, str]:
        return place.rivals_environment

    def _control(self, place: Place) -> str:
        return f"control-{place.home.name}"

    def _worker(self, place: Place) -> dict[str, str]:
        bytes_ = "org.apache.kafka.connect.converters.ByteArrayConverter"
        json_ = "org.apache.kafka.connect.json.JsonConverter"
        (port,) = free_ports(1)
        tuned = {f"consumer.{key}": value for key, value in _TUNED_CONSUMER.items()}
        return {
            "bootstrap.servers": place.bootstrap,
            "key.converter": bytes_,
            "value.converter": json_ if place.workload.decoded else bytes_,
            **({"value.converter.schemas.enable": "false"} if place.workload.decoded else {}),
            "offset.storage.file.filename": str(place.home / "offsets"),
            "listeners": f"http://127.0.0.1:{port}",
            "plugin.discovery": "service_load",
            "consumer.auto.offset.reset": "earliest",
            "consumer.isolation.level": "read_committed",
            **({"offset.flush.interval.ms": "1000", **tuned} if self._tuned else {}),
        }

    def _sink(self, place: Place) -> dict[str, str]:
        catalog = {
            f"iceberg.catalog.{key.removeprefix(_CATALOG)}": value
            for key, value in place.settings.spark().items()
            if key.startswith(_CATALOG)
        }
        insert = "org.apache.kafka.connect.transforms.InsertField$Value"
        hoist = {
            "transforms": "value,position",
            "transforms.value.type": "org.apache.kafka.connect.transforms.HoistField$Value",
            "transforms.value.field": "value",
        }
        return {
            "name": place.home.name,
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "tasks.max": str(place.cores),
            "topics": ",".join(place.topics),
            "iceberg.catalog": "lake",
            **catalog,
            "iceberg.tables": TABLE,
            "iceberg.control.topic": self._control(place),
            **({"iceberg.control.commit.interval-ms": "10000"} if self._tuned else {}),
            **({"transforms": "position"} if place.workload.decoded else hoist),
            "transforms.position.type": insert,
            "transforms.position.topic.field": "kafka_topic",
            "transforms.position.partition.field": "kafka_partition",
            "transforms.position.offset.field": "kafka_offset",
            "transforms.position.timestamp.field": "kafka_timestamp",
        }
