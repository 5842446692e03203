"""What a driver does around its jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_lake.jobs.driver import RESULT_FILE, compiled_first, leave, perform

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
