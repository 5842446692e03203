"""The private members of libraries that the package relies on: which version has changed one of them."""

from __future__ import annotations

import inspect
import os
import subprocess
from collections.abc import Callable
from importlib import metadata
from typing import Any

import pytest

from airflow_kafka_lake.adapters.iceberg.catalog import rest_classes
from airflow_kafka_lake.adapters.java import find_java, spark_home
from airflow_kafka_lake.adapters.spark_submit.submission import options_of_spark

pytestmark = pytest.mark.contracts


def _names(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def _pyiceberg_reads_a_file_batch_by_batch() -> bool:
    from pyiceberg.io.pyarrow import ArrowScan

    expected = ["self", "tasks", "deletes_per_file"]
    return _names(ArrowScan._record_batches_from_scan_tasks_and_deletes) == expected


def _pyiceberg_reads_the_deletes_of_files() -> bool:
    from pyiceberg.io.pyarrow import _read_all_delete_files

    return _names(_read_all_delete_files) == ["io", "tasks"]


def _pyiceberg_writes_files_without_a_commit() -> bool:
    from pyiceberg.io.pyarrow import _dataframe_to_data_files

    return _names(_dataframe_to_data_files)[:3] == ["table_metadata", "df", "io"]


def _pyiceberg_begins_a_session_with_its_login() -> bool:
    from pyiceberg.catalog.rest import RestCatalog

    bounded, _ = rest_classes()
    (ours,) = (name for name in vars(bounded) if name.endswith("_auth_manager"))
    return _names(getattr(RestCatalog, ours)) == ["self", "session"]


def _pyiceberg_asks_for_a_refused_token_again() -> bool:
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.rest.auth import LegacyOAuth2AuthManager as Login

    expected = ["session", "auth_url", "credential", "initial_token", "optional_oauth_params"]
    return _names(Login) == expected and "_refresh_token" in inspect.getsource(RestCatalog._refresh_token)


def _pyspark_keeps_its_java() -> bool:
    from pyspark.sql import SparkSession

    kept = inspect.getsource(SparkSession.__init__)
    return "self._jvm = " in kept and "self._jsparkSession = " in kept


def _pyspark_keeps_the_active_session() -> bool:
    from pyspark.sql import SparkSession

    return "_activeSession" in vars(SparkSession) and "_activeSession" in inspect.getsource(
        SparkSession.createDataFrame
    )


def _pyspark_gives_java_the_options_of_ours() -> bool:
    """Apart from the module of its machine learning and a database that no job opens."""
    words = [str(find_java()), "-cp", f"{spark_home()}/jars/*", "org.apache.spark.launcher.Main"]
    words += ["org.apache.spark.deploy.SparkSubmit", "--master", "local", "any.jar"]
    home = {"SPARK_HOME": str(spark_home()), "SPARK_SCALA_VERSION": "2.13"}
    said = subprocess.run(words, env=os.environ | home, capture_output=True, text=True, check=True).stdout.split("\0")
    wanted = {word for word in said if word.startswith(("-D", "-XX", "--add", "--enable"))}
    ours = set(options_of_spark([], {}, "1g"))
    return wanted - ours == {"--add-modules=jdk.incubator.vector", "-Dderby.connection.requireAuthentication=false"}


def _pyspark_has_a_gateway_for_python() -> bool:
    """As `main`, which `DriverGateway.java` calls; it ends when its input ends, as a submit of `pyspark-shell` does."""
    words = ["javap", "-cp", f"{spark_home()}/jars/*", "org.apache.spark.api.python.PythonGatewayServer"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return "public static void main(java.lang.String[]);" in said


@pytest.mark.parametrize(
    ("library", "holds"),
    [
        ("pyiceberg", _pyiceberg_reads_a_file_batch_by_batch),
        ("pyiceberg", _pyiceberg_reads_the_deletes_of_files),
        ("pyiceberg", _pyiceberg_writes_files_without_a_commit),
        ("pyiceberg", _pyiceberg_begins_a_session_with_its_login),
        ("pyiceberg", _pyiceberg_asks_for_a_refused_token_again),
        ("pyspark", _pyspark_keeps_its_java),
        ("pyspark", _pyspark_keeps_the_active_session),
        pytest.param("pyspark", _pyspark_has_a_gateway_for_python, marks=pytest.mark.slow),
        pytest.param("pyspark", _pyspark_gives_java_the_options_of_ours, marks=pytest.mark.slow),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__.strip("_"),
)
def test_library_has_the_private_members_that_we_rely_on(library: str, holds: Callable[[], bool]) -> None:
    """The range in `pyproject.toml` is that of the versions that were tried."""
    broken = f"{library} {metadata.version(library)} has changed what {holds.__name__.strip('_')} says: see who uses it"
    try:
        assert holds(), broken
    except (AttributeError, ImportError) as error:
        raise AssertionError(broken) from error
