"""What a driver does around its jobs."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.jobs.driver import compiled_first

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
