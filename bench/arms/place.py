"""Where one run of an arm works: a folder with a lake of its own, beside topics that all arms share."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from airflow_kafka_lake.adapters.iceberg.schema import LANDING, partition_spec
from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.jars.cache import JarSet, fetch
from airflow_kafka_lake.adapters.java import spark_home
from airflow_kafka_lake.adapters.spark_submit.submission import properties_text
from bench.workloads import DECODED, Workload

TABLE = "raw.bench"
SPARK_TABLE = "lake.raw.bench"
LANDED = ("key", "value", "headers", "kafka_topic", "kafka_partition", "kafka_offset", "kafka_timestamp")
"""What every arm that can lands of a record: all that Kafka has of it."""

POSITION = {"topic": "kafka_topic", "partition": "kafka_partition", "offset": "kafka_offset"}


@dataclass(frozen=True, kw_only=True)
class Place:
    """One run. `cores` and `heap` are what each arm may use."""

    home: Path
    bootstrap: str
    topics: Sequence[str]
    workload: Workload
    cores: int
    heap: str
    login: Mapping[str, str] = field(default_factory=dict)
    """What a client gives to log in to the broker."""
    extra: dict[str, str] = field(default_factory=dict)
    """What an arm's servers have told of themselves."""
    swapped: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The connections of the parts that an arm has started in place of the defaults."""

    @property
    def catalog(self) -> Path:
        """The database of the lake's catalog."""
        return self.home / "catalog.db"

    @property
    def lake(self) -> dict[str, str]:
        """The extra of the lake's connection."""
        if "LAKE_DEFAULT" in self.swapped:
            return dict(self.swapped["LAKE_DEFAULT"]["extra"])
        return {
            "format": "iceberg",
            "catalog": "sql",
            "uri": f"sqlite:///{self.catalog}",
            "warehouse": f"file://{self.home}/warehouse",
        }

    @cached_property
    def settings(self) -> LakeSettings:
        """The same, validated, for PyIceberg and for Java."""
        (self.home / "warehouse").mkdir(exist_ok=True)
        return LakeSettings.parse("lake_default", self.lake)

    @property
    def connections(self) -> dict[str, str]:
        """The variables of the connections."""
        given = {
            "KAFKA_DEFAULT": {"conn_type": "kafka", "extra": {"bootstrap.servers": self.bootstrap}},
            "LAKE_DEFAULT": {"conn_type": "lake", "extra": self.lake},
            "KAFKA_LAKE_LEDGER": {"conn_type": "sqlite", "host": str(self.home / "ledger.db")},
            "SPARK_DEFAULT": {"conn_type": "spark", "host": f"local[{self.cores}]", "extra": self._spark_extra},
            **self.swapped,
        }
        return {f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in given.items()}

    @property
    def environment(self) -> dict[str, str]:
        """This process's environment, with connections in place of the caller's Airflow."""
        foreign = ("AIRFLOW", "KAFKA_LAKE_FAIL", "SPARK_", "PYSPARK_")
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith(foreign)},
            **self.connections,
            "AIRFLOW_HOME": str(self.home / "airflow"),
            "PYSPARK_PYTHON": sys.executable,
        }

    @property
    def rivals_environment(self) -> dict[str, str]:
        """The same for a Spark job that knows nothing of this package, with the installed PySpark as Spark's home."""
        kept = {key: value for key, value in self.environment.items() if not key.startswith("AIRFLOW")}
        return kept | {"SPARK_HOME": str(spark_home())}

    @property
    def _spark_extra(self) -> dict[str, str]:
        return {"spark.driver.memory": self.heap}

    def create_table(self, *, without: Sequence[str] = ()) -> Any:
        """Create the table as an owner would for a job of theirs, with Iceberg's own defaults; return it."""
        from pyiceberg.catalog import load_catalog
        from pyiceberg.schema import Schema
        from pyiceberg.types import DoubleType, LongType, NestedField, StringType

        kinds = {"long": LongType(), "double": DoubleType(), "string": StringType()}
        wanted = [LANDING.find_field(name) for name in LANDED if name not in without]
        if self.workload.decoded:
            wanted += [NestedField(100 + n, name, kinds[kind]) for n, (name, kind) in enumerate(DECODED.items())]
        schema = Schema(*wanted)
        catalog = load_catalog("lake", **self.settings.pyiceberg())
        catalog.create_namespace_if_not_exists("raw")
        return catalog.create_table(
            TABLE,
            schema,
            partition_spec=partition_spec(self.workload.partition_by, schema),
            properties={"format-version": "2"},
        )

    def table(self) -> Any:
        """Load the table as any reader would."""
        from pyiceberg.catalog import load_catalog

        return load_catalog("lake", **self.settings.pyiceberg()).load_table(TABLE)

    def write_pipeline(self, name: str = "bench", table: str = TABLE) -> Path:
        """Write the pipeline file of this workload, with nothing tuned for it."""
        decode = "[decode]\nformat = 'json'\nschema = '{}'\n".format(
            ", ".join(f"{name} {'bigint' if kind == 'long' else kind}" for name, kind in DECODED.items())
        )
        file = self.home / "pipelines" / f"{name}.toml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(
            f'[pipeline]\nname = "{name}"\n[source]\ntopics = {json.dumps(list(self.topics))}\n[lake]\n'
            f'table = "{table}"\npartition_by = "{self.workload.partition_by}"\n[spark]\n'
            f'connection = "spark_default"\n{decode if self.workload.decoded else ""}',
            encoding="utf-8",
        )
        return file

    def spark_submit(
        self, program: Path, request: Mapping[str, Any], conf: Mapping[str, str], *, name: str
    ) -> list[str]:
        """Return a spark-submit of a plain job: with the jars that our jobs have, on the class path."""
        settings = {
            **self.settings.spark(),
            "spark.driver.memory": self.heap,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(self.home),
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.log.level": "WARN",
            "spark.ui.showConsoleProgress": "false",
            **conf,
        }
        (self.home / f"{name}.properties").write_text(properties_text(settings), encoding="utf-8")
        (self.home / f"{name}.json").write_text(json.dumps({"home": str(self.home), **request}), encoding="utf-8")
        return [
            str(spark_home() / "bin" / "spark-submit"),
            *("--master", f"local[{self.cores}]"),
            *("--properties-file", str(self.home / f"{name}.properties")),
            *("--driver-class-path", os.pathsep.join(map(str, fetch(JarSet.SPARK)))),
            *(str(program), str(self.home / f"{name}.json")),
        ]
