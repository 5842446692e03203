"""The package imports only what installing it brings, and its floors fit beside Airflow's own constraints."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import airflow_kafka_lake
from airflow_kafka_lake.adapters.iceberg.catalog import require_pyiceberg
from airflow_kafka_lake.adapters.jars.cache import fitting_sparks
from airflow_kafka_lake.adapters.java import minor
from airflow_kafka_lake.core.errors import LibraryError
from bench.installed import PAGE, brought
from tests.proof.evidence import Evidence

PACKAGE = Path(airflow_kafka_lake.__file__).parent
ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TOO_OLD, *CONSTRAINTS = sorted((ROOT / "tests" / "constraints").glob("*.txt"))

IN_AN_EXTRA = {
    "pyspark": ("jobs/", "jobs/decoding/"),
    "py4j": ("jobs/decoding/",),
    "google": ("jobs/decoding/protobuf.py", "adapters/registry/"),
    "grpc_tools": ("adapters/registry/",),
    "attr": ("signals.py",),
    "openlineage": ("signals.py",),
    "aws_msk_iam_sasl_signer": ("adapters/access_tokens.py",),
    "botocore": ("adapters/access_tokens.py",),
}
"""What a plain installation lacks, and the only places that import it, each after asking whether it is there."""


def _requirements(*extras: str) -> dict[str, Requirement]:
    texts = [*PROJECT["dependencies"], *(item for name in extras for item in PROJECT["optional-dependencies"][name])]
    return {canonicalize_name(found.name): found for found in map(Requirement, texts)}


def _imports() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Import():
                    names = [alias.name for alias in node.names]
                case ast.ImportFrom(level=0, module=str(module)):
                    names = [module]
                case _:
                    continue
            yield from ((path.relative_to(PACKAGE).as_posix(), name.partition(".")[0]) for name in names)


def test_every_library_that_is_imported_is_a_dependency() -> None:
    """Not one that another library happens to bring, nor one of an extra: the demonstration once did not start."""
    distributions, required, missing = packages_distributions(), _requirements(), set()
    for path, name in _imports():
        if name in sys.stdlib_module_names or name in {"airflow_kafka_lake", "airflow"}:
            continue
        if name in IN_AN_EXTRA:
            assert path.startswith(IN_AN_EXTRA[name]), f"{path} imports {name}, which is in an extra only"
        elif not {canonicalize_name(item) for item in distributions[name]} & required.keys():
            missing.add(name)
    assert missing == set()


PAGES = ("fastapi", "itsdangerous", "jinja2", "markupsafe", "starlette")
WITHOUT_EXTRAS = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in set(sys.argv[1:]):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import airflow_kafka_lake.cli.entry_point, airflow_kafka_lake.services.running
from airflow_kafka_lake.core.errors import LibraryError
from airflow_kafka_lake.wiring.connections import RegistryConnection
try:
    RegistryConnection("r").registry()
except LibraryError as error:
    print(error.message)
"""


def test_a_plain_installation_starts_and_names_the_extra_that_it_lacks() -> None:
    """Commands and a run need neither Spark, schemas, lineage nor the libraries of the pages."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS, *sorted(IN_AN_EXTRA), *PAGES],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[-1:] == [
        "A schema registry needs google, which is not installed. Run: pip install 'airflow-kafka-lake[schema-registry]'"
    ], done.stderr


def test_a_plain_installation_brings_no_spark_and_no_pandas() -> None:
    """Half a gigabyte that a machine without jobs of its own has no use for."""
    plain, with_spark = brought(*_requirements().values()), brought(*_requirements("spark").values())
    assert {"pyarrow", "pyiceberg", "confluent-kafka"} <= plain
    assert not plain & {"pyspark", "pyspark-client", "pandas"}
    assert {"pyspark", "pyspark-client", "pandas"} <= with_spark


def test_the_page_of_weights_has_every_extra() -> None:
    """Run `python -m bench.installed` after a change of what is installed."""
    text = PAGE.read_text(encoding="utf-8")
    assert [extra for extra in PROJECT["optional-dependencies"] if f"| `[{extra}]` |" not in text] == []


def test_classifiers_name_the_pythons_that_were_tried() -> None:
    """The floor by the whole suite, others by an installation on record, with a run and its audit."""
    chunks = Evidence.read("installations").chunks.values()
    passed = [chunk.counts.facts.get("versions", {}) for chunk in chunks if not chunk.red]
    tried = {minor(versions["python"]) for versions in passed if "python" in versions}
    named = {text.rpartition(" :: ")[2] for text in PROJECT["classifiers"] if text.startswith("Programming Language")}
    floor = PROJECT["requires-python"].removeprefix(">=")
    assert {name for name in named if re.fullmatch(r"3\.\d+", name)} == {floor, *tried}


def _pinned(path: Path) -> dict[str, str]:
    lines = [line.split("==") for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in lines}


@pytest.mark.parametrize("path", CONSTRAINTS, ids=lambda path: path.stem)
def test_the_floors_fit_beside_constraints_of_airflow(path: Path) -> None:
    """Whoever installs with the constraints of an Airflow can install this package with them; each exception is here,
    with what the documents say to do."""
    pinned = _pinned(path)
    extras = ("spark", "postgres", "schema-registry", "openlineage", "msk")
    refused = {
        name
        for name, requirement in _requirements(*extras).items()
        if name in pinned and not requirement.specifier.contains(pinned[name])
    }
    assert refused == EXCEPTIONS.get(path.stem, set())


def test_what_the_lake_stands_on_refuses_the_constraints_of_airflow_3_0() -> None:
    """No range of ours could change it: PyIceberg's own extra asks for an SQLAlchemy that they do not name."""
    needed = [Requirement(text) for text in metadata.requires("pyiceberg") or () if text.startswith("sqlalchemy")]
    pinned = _pinned(TOO_OLD)["sqlalchemy"]
    assert pinned.startswith("1.4.")
    assert not any(item.specifier.contains(pinned) for item in needed)


EXCEPTIONS = {"airflow-3.3.1": {"pyspark-client"}}
"""Airflow 3.3.1 pins the client of Spark 4.2, which has no jars: there Spark is put into a folder of its own."""


def test_both_wheels_of_spark_have_one_range_that_the_jars_fit() -> None:
    """They write one folder; another minor version of Spark has other classes than the jars."""
    spark, client = (item for name, item in sorted(_requirements("spark").items()) if name.startswith("pyspark"))
    assert spark.specifier == client.specifier
    assert {minor(text) for text in SPARKS if spark.specifier.contains(text)} == set(map(minor, fitting_sparks()))
    assert not spark.specifier.contains("4.2.0"), "it has no jars"


SPARKS = ("3.5.9", "4.0.0", "4.0.4", "4.1.1", "4.1.3", "4.2.0", "4.3.0")


def test_a_pyiceberg_beside_the_range_is_refused_by_name() -> None:
    """Commits are built from its internals: another version may do something else without a word."""
    require_pyiceberg(lambda _: "0.12.0")
    for version in ("0.10.0", "0.13.0", "1.0.0"):
        with pytest.raises(
            LibraryError, match=rf"pyiceberg {version} is installed, .*Run: pip install 'pyiceberg<0\.13"
        ):
            require_pyiceberg(lambda _, version=version: version)  # type: ignore[misc]
