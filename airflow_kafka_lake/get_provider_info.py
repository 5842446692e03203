"""The facts by which Airflow discovers this provider; imports nothing of Airflow."""

from __future__ import annotations

from typing import Any

from airflow_kafka_lake import __version__

_INTEGRATION = "Kafka Lake"
_PACKAGE = "airflow_kafka_lake"
_PROTOCOLS = ["PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT"]
_LINKS = ("PipelinePageLink", "SparkLink", "SnapshotLink")


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description in the form of Airflow's `provider_info.schema.json`."""
    return {
        # Must be the distribution's name: with any other, Airflow stops discovering providers altogether.
        "package-name": "airflow-kafka-lake",
        "name": _INTEGRATION,
        "description": "Moves bounded Kafka offset ranges into a lake table, exactly once, proof included.",
        "versions": [__version__],
        "integrations": [{"integration-name": _INTEGRATION, "tags": ["service"]}],
        "operators": _modules(
            *(f"operators.{name}" for name in ("plan", "ingest", "advance", "audit", "decisions")), "cli.airflow_task"
        ),
        "sensors": _modules("sensors"),
        "triggers": _modules("triggers"),
        "hooks": _modules("hooks"),
        "connection-types": _connection_types(),
        "extra-links": [f"{_PACKAGE}.links.{name}" for name in _LINKS],
        "asset-uris": [{"schemes": ["kafka-lake"], "handler": None}],
        "config": {
            "kafka_lake": {
                "description": "Settings of the Kafka Lake provider.",
                "options": {
                    "pipelines_folder": {
                        "description": "Folder with pipeline files (*.toml). The example Dags make their choices from "
                        "it, and operators find pipelines in it by name.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "/opt/airflow/pipelines",
                        "default": None,
                    },
                    "stage_by": {
                        "description": "Which process brings waves into the lake where a Dag says nothing else: "
                        "`task`, the task's own, in its worker slot; or `worker`, the command of that name, "
                        "which runs beside Airflow, while the task is deferred.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "worker",
                        "default": "task",
                    },
                    "page_ledgers": {
                        "description": "Connections of the ledgers that the page in Airflow shows, with commas "
                        "between them. The first one is shown where an address names none (`?ledger=…`).",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "kafka_lake_ledger,other_ledger",
                        "default": "kafka_lake_ledger",
                    },
                },
            }
        },
    }


def _modules(*names: str) -> list[dict[str, Any]]:
    return [{"integration-name": _INTEGRATION, "python-modules": [f"{_PACKAGE}.{name}" for name in names]}]


def connection_type(name: str) -> dict[str, Any]:
    """Return the description of one of this package's connection types."""
    return next(item for item in _connection_types() if item["connection-type"] == name)


def _connection_types() -> list[dict[str, Any]]:
    """Return types of our own, so that Airflow's connections page tests them as our tasks use them; types of others
    stay theirs, and are taken as well."""
    return [
        _type(
            "lake",
            "LakeHook",
            "lake",
            hidden=["host", "port", "schema"],
            labels={
                "login": "Login (database user, or client id)",
                "password": "Password (database password, or client secret)",
            },
            examples={"extra": '{"s3.region": "eu-central-1"}'},
            fields={
                "format": _field("Table format", "How tables are written.", enum=["iceberg"]),
                "catalog": _field(
                    "Catalog",
                    "rest, or sql (SQLite or PostgreSQL, the same tables for Spark and PyIceberg).",
                    enum=["rest", "sql"],
                ),
                "uri": _field(
                    "Catalog address",
                    "https://… of a REST catalog; sqlite:////path or postgresql://host:port/database. "
                    "No password here: it has its own field.",
                    minLength=1,
                ),
                "warehouse": _optional(
                    "Warehouse",
                    "Where tables live: s3://bucket/path, file:///data/warehouse; a REST catalog may know its own.",
                ),
                "snapshot_url": _optional(
                    "Pages of snapshots",
                    "Where people see a snapshot, such as https://catalog/tables/{table}/snapshots/{snapshot}: tasks "
                    "then link to it. Everybody who sees a task sees its links.",
                ),
            },
        ),
        _type(
            "kafka_lake_ledger",
            "LedgerHook",
            "ledger",
            labels={"host": "Host (or the absolute path of a SQLite file)", "schema": "Database"},
            examples={"host": "db, or /data/ledger.db", "port": "5432", "extra": '{"sslmode": "verify-full"}'},
            fields={
                "database": _field(
                    "Database server",
                    "PostgreSQL, or SQLite where everything runs on one machine.",
                    enum=["postgres", "sqlite"],
                )
            },
        ),
        _type(
            "kafka_lake_kafka",
            "KafkaSourceHook",
            "Kafka",
            hidden=["host", "port", "schema", "login", "password"],
            examples={"extra": '{"ssl.ca.location": "/etc/kafka/ca.pem"}'},
            fields={
                "bootstrap.servers": _field("Brokers", "Such as broker-1:9092,broker-2:9092.", minLength=1),
                "security.protocol": _field("Protocol", "SASL: clients log in. SSL: encrypted.", enum=_PROTOCOLS),
                "sasl.mechanism": _optional("Mechanism", "With SASL: PLAIN, SCRAM-SHA-512, OAUTHBEARER, …"),
                "sasl.username": _optional("Login", "With a mechanism that takes a password."),
                "sasl.password": _optional("Password", "The same.", format="password"),
            },
        ),
        _type(
            "kafka_lake_registry",
            "SchemaRegistryHook",
            "schema registry",
            labels={"schema": "Schema (http or https)"},
            examples={"host": "registry, or https://registry:8443/apis/ccompat/v7", "extra": '{"timeout": 10}'},
        ),
        _type(
            "kafka_lake_spark",
            "SparkRunnerHook",
            "Spark",
            hidden=["schema", "login", "password"],
            labels={"host": "Master"},
            examples={
                "host": "local[2], or spark://spark-master",
                "extra": '{"conf": {"spark.executor.memory": "4g"}}',
            },
        ),
    ]


def _type(name: str, hook: str, title: str, *, fields: dict[str, Any] | None = None, **form: Any) -> dict[str, Any]:
    return {
        "connection-type": name,
        "hook-class-name": f"{_PACKAGE}.hooks.{hook}",
        "hook-name": f"Kafka Lake: {title}",
        "ui-field-behaviour": {
            "hidden-fields": form.get("hidden", []),
            "relabeling": form.get("labels", {}),
            "placeholders": form.get("examples", {}),
        },
        "conn-fields": fields or {},
    }


def _field(label: str, description: str, *, kind: Any = "string", enum: Any = (), **schema: Any) -> dict[str, Any]:
    limits = {"enum": enum, "default": enum[0]} if enum else {"maxLength": 2000}
    return {"label": label, "description": description, "schema": {"type": kind, **schema, **limits}}


def _optional(label: str, description: str, **schema: Any) -> dict[str, Any]:
    return _field(label, description, kind=["string", "null"], **schema)
