"""What Airflow reads to discover this provider; imports nothing of Airflow."""

from __future__ import annotations

from typing import Any

from airflow_kafka_lake import __version__

_INTEGRATION = "Kafka Lake"
_PACKAGE = "airflow_kafka_lake"


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description in the form of Airflow's `provider_info.schema.json`."""
    return {
        # Must be the distribution's name: with any other, Airflow stops discovering providers altogether.
        "package-name": "airflow-kafka-lake",
        "name": _INTEGRATION,
        "description": "Moves bounded Kafka offset ranges into a lake table, exactly once, proof included.",
        "versions": [__version__],
        "integrations": [{"integration-name": _INTEGRATION, "tags": ["service"]}],
        "operators": _modules("operators.plan", "operators.ingest", "operators.advance", "operators.audit"),
        "sensors": _modules("sensors.drained", "sensors.watermark"),
        "triggers": _modules("triggers.stable", "triggers.waits"),
        "hooks": _modules("hooks.kafka", "hooks.lake", "hooks.ledger", "hooks.registry", "hooks.spark"),
        "connection-types": [_lake_connection()],
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
                    }
                },
            }
        },
        "cli": [f"{_PACKAGE}.cli.airflow_commands.get_cli_commands"],
    }


def _modules(*names: str) -> list[dict[str, Any]]:
    return [{"integration-name": _INTEGRATION, "python-modules": [f"{_PACKAGE}.{name}" for name in names]}]


def _lake_connection() -> dict[str, Any]:
    return {
        "connection-type": "lake",
        "hook-class-name": f"{_PACKAGE}.hooks.lake.LakeHook",
        "hook-name": "Lake (Kafka Lake)",
        "ui-field-behaviour": {
            "hidden-fields": ["host", "port", "schema"],
            "relabeling": {
                "login": "Login (database user, or client id)",
                "password": "Password (database password, or client secret)",
            },
            "placeholders": {"extra": '{"s3.region": "eu-central-1"}'},
        },
        "conn-fields": {
            "format": {
                "label": "Table format",
                "description": "How tables are written.",
                "schema": {"type": "string", "enum": ["iceberg"], "default": "iceberg"},
            },
            "catalog": {
                "label": "Catalog",
                "description": "rest, or sql (SQLite or PostgreSQL, the same tables for Spark and PyIceberg).",
                "schema": {"type": "string", "enum": ["rest", "sql"], "default": "rest"},
            },
            "uri": {
                "label": "Catalog address",
                "description": "https://… of a REST catalog; sqlite:////path or postgresql://host:port/database. "
                "No password here: it has its own field.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 2000},
            },
            "warehouse": {
                "label": "Warehouse",
                "description": "Where tables live, such as s3://bucket/path or file:///data/warehouse; a REST catalog "
                "may know its own.",
                "schema": {"type": ["string", "null"], "maxLength": 2000},
            },
        },
    }
