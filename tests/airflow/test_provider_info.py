"""Airflow discovers the provider: a description that is legal to the letter, a connection form and commands."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest
from airflow.providers_manager import ProvidersManager
from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

import airflow_kafka_lake
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings, SecurityProtocol
from airflow_kafka_lake.get_provider_info import connection_type, get_provider_info

ALLOWED = {
    "package-name", "name", "description", "versions", "integrations", "operators", "sensors", "triggers", "hooks",
    "connection-types", "extra-links", "asset-uris", "config", "cli",
}  # fmt: skip
CONNECTION_TYPE = {"connection-type", "hook-class-name", "hook-name", "ui-field-behaviour", "conn-fields"}
BEHAVIOUR = {"hidden-fields", "relabeling", "placeholders"}
CONN_FIELD = {"label", "description", "schema"}
REUSED = {"kafka", "spark", "spark_connect", "sqlite", "postgres", "http"}


def schema(name: str) -> dict[str, Any]:
    """Return a schema that Airflow ships."""
    return json.loads((Path(airflow.__file__).parent / name).read_text())


def test_every_key_is_one_that_airflow_reads() -> None:
    """Airflow drops a misspelt key without a word: only known ones may be there."""
    info = get_provider_info()
    assert set(info) <= ALLOWED
    for kind in info["connection-types"]:
        assert set(kind) <= CONNECTION_TYPE
        assert set(kind["ui-field-behaviour"]) <= BEHAVIOUR
        for field in kind["conn-fields"].values():
            assert set(field) <= CONN_FIELD


def test_description_fits_airflows_own_schemas() -> None:
    """The runtime's schema takes the whole; the stricter one of provider files takes the connection types."""
    info = get_provider_info()
    jsonschema.validate(info, schema("provider_info.schema.json"))
    strict = schema("provider.yaml.schema.json")["properties"]["connection-types"]
    jsonschema.validate(info["connection-types"], strict)


def test_form_of_a_kafka_connection_has_settings_that_are_taken() -> None:
    """Airflow's form writes every field, and null for an empty one."""
    fields = connection_type("kafka_lake_kafka")["conn-fields"]
    protocol = fields["security.protocol"]["schema"]
    assert set(protocol["enum"]) == set(SecurityProtocol)
    written = {name: field["schema"].get("default") for name, field in fields.items()}
    assert KafkaSettings.parse({**written, "bootstrap.servers": "b:9092"}).protocol is SecurityProtocol.PLAINTEXT
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "secret"}
    assert fields.keys() == {"bootstrap.servers", "security.protocol", *login}
    assert fields["sasl.password"]["schema"]["format"] == "password"


KINDS = {"operators": "Operator", "sensors": "Sensor", "triggers": "Trigger", "hooks": "Hook"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_module_with_a_public_class_is_named(kind: str) -> None:
    """Airflow's reference and its tools see what the description names, and nothing else."""
    root = Path(airflow_kafka_lake.__file__).parent
    public = re.compile(rf"^class [A-Z]\w*{KINDS[kind]}\b", re.MULTILINE)
    files = [*root.glob(f"{kind}.py"), *root.glob(f"{kind}/*.py"), *root.glob("cli/*.py")]
    found = {
        ".".join((root.name, *file.relative_to(root).with_suffix("").parts))
        for file in files
        if public.search(file.read_text())
    }
    (named,) = get_provider_info()[kind]
    assert found == set(named["python-modules"])


def test_package_name_is_the_distributions() -> None:
    """Any other name would break the discovery of every provider."""
    assert get_provider_info()["package-name"] == metadata.metadata("airflow-kafka-lake")["Name"]


def test_description_imports_nothing_of_airflow() -> None:
    """Airflow calls it at every start of every component."""
    code = (
        "import sys; from airflow_kafka_lake.get_provider_info import get_provider_info; get_provider_info(); "
        "print([m for m in sys.modules if m.partition('.')[0] == 'airflow'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def modules() -> Iterator[str]:
    """Every module the description names."""
    info = get_provider_info()
    for kind in ("operators", "sensors", "triggers", "hooks"):
        for entry in info[kind]:
            yield from entry["python-modules"]


@pytest.mark.parametrize("module", list(modules()))
def test_named_module_exists(module: str) -> None:
    """What is named can be imported."""
    assert importlib.import_module(module)


def test_airflow_finds_provider_and_hook() -> None:
    """The installed entry point leads Airflow to the provider and its connection form."""
    found = ProvidersManager()
    assert "airflow-kafka-lake" in found.providers
    for described in get_provider_info()["connection-types"]:
        hook = ProvidersManagerTaskRuntime().hooks[described["connection-type"]]
        assert hook is not None
        assert (hook.hook_class_name, hook.hook_name) == (described["hook-class-name"], described["hook-name"])
        assert hook.connection_testable
    assert {name for name in found.connection_form_widgets if name.startswith("extra__lake__")} == {
        f"extra__lake__{field}" for field in ("format", "catalog", "uri", "warehouse", "snapshot_url")
    }
    assert found.field_behaviours["lake"]["hidden_fields"] == ["host", "port", "schema"]


def test_no_connection_type_of_others_is_registered() -> None:
    """The types of other providers are reused and stay theirs."""
    assert not REUSED & {item["connection-type"] for item in get_provider_info()["connection-types"]}
