"""What a driver does around its jobs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_lake.jobs.driver import (
    JAVA_OPTIONS_FILE,
    PROPERTIES_FILE,
    RESULT_FILE,
    compiled_first,
    hidden,
    leave,
    perform,
    session,
)

pytestmark = pytest.mark.unit

SITE = "/venv/site-packages"
HOME = f"{SITE}/pyspark"
ARCHIVES = [f"{HOME}/python/lib/pyspark.zip", f"{HOME}/python/lib/py4j-0.10-src.zip"]


@pytest.mark.parametrize(
    ("places", "home", "expected"),
    [
        (["/job", *ARCHIVES, "/lib", SITE], HOME, ["/job", "/lib", SITE, *ARCHIVES]),
        (["/job", *ARCHIVES, "/lib"], HOME, ["/job", *ARCHIVES, "/lib"]),
        (["/job", "/opt/spark/python/lib/pyspark.zip", SITE], "/opt/spark", None),
        (["/job", SITE], None, None),
    ],
)
def test_installed_pyspark_is_found_before_the_archive_of_its_sources(
    places: list[str], home: str | None, expected: list[str] | None
) -> None:
    """Only where both are the same: a Spark elsewhere brings a Python of its own version."""
    assert compiled_first(places, home) == (places if expected is None else expected)


NO_JAVA = """
import os, sys, types
from contextlib import suppress
from pathlib import Path
from airflow_kafka_lake.jobs.driver import session

os.environ |= {"PYSPARK_GATEWAY_PORT": "1", "PYSPARK_GATEWAY_SECRET": ""}  # nobody listens there
with suppress(Exception), session(Path()):
    sys.exit("there is a Java")
from pyspark.sql import SparkSession

def begun(_):
    import pyspark.testing.utils  # as PySpark does when it first gives a value to Java
    return types.SimpleNamespace(stop=lambda: None)

SparkSession.Builder.getOrCreate = begun
with session(Path()):
    found = {"numpy", "pandas", "pyarrow"} & sys.modules.keys()
sys.exit(f"{found}" if found else None)
"""


def test_driver_begins_without_the_libraries_that_pyspark_only_looks_at() -> None:
    """Loading them takes as long as loading PySpark, before Spark can start; a job that needs one loads it then."""
    done = subprocess.run([sys.executable, "-c", NO_JAVA], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_files_of_a_submit_are_gone_before_spark_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may hold secrets, and a driver that is killed cannot remove them."""
    from pyspark.sql import SparkSession

    for name in (PROPERTIES_FILE, JAVA_OPTIONS_FILE, "another"):
        (tmp_path / name).touch()
    left: list[str] = []

    def begun(_: object) -> SimpleNamespace:
        left.extend(path.name for path in tmp_path.iterdir())
        return SimpleNamespace(stop=lambda: None)

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", begun)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with session(tmp_path):
        assert left == ["another"]


@pytest.mark.parametrize("program", ["stage", "serve"])
def test_driver_of_this_machine_loads_no_tls(program: str) -> None:
    """A driver that calls its worker alone needs it, and every start would wait for it."""
    code = f"import sys, airflow_kafka_lake.jobs.{program}; sys.exit('ssl' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_module_is_hidden_while_a_block_lasts_unless_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the block raises."""
    (tmp_path / "of_this_test.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with suppress(RuntimeError), hidden("of_this_test", "json"):
        assert importlib.import_module("json")
        assert not importlib.util.find_spec("of_this_test")
        raise RuntimeError
    assert importlib.util.find_spec("of_this_test")


def test_job_that_fails_over_its_last_step_leaves_what_is_known(tmp_path: Path) -> None:
    """Its worker looks whether that step was done all the same, and needs the document then."""

    def work(_: Any, __: Mapping[str, Any], ___: Callable[[str], object]) -> None:
        error = RuntimeError("the answer was lost")
        leave(error, {"read": [1]})
        raise error

    session: Any = SimpleNamespace()
    with pytest.raises(RuntimeError, match="the answer was lost"):
        perform(session, {}, tmp_path, work)
    assert (tmp_path / RESULT_FILE).read_text() == '{"read": [1]}'
