"""Topics drawn at random, landed decoded: each row says what an independent library says, or has an error beside it.

KAFKA_LAKE_SEED sets what is drawn, KAFKA_LAKE_CASES how many records the nightly's part has:
`KAFKA_LAKE_CASES=10000 KAFKA_LAKE_SEED=7 python -m pytest -n 0 --whole tests/integration/test_decoding_generated.py`.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.decoding import avro, json_values, protobuf
from tests.decoding.landing import Seen, land
from tests.spark_lake import SparkLake, started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.integration, pytest.mark.timeout(3600)]

SEED = int(os.environ.get("KAFKA_LAKE_SEED", "2026"))
CASES = int(os.environ.get("KAFKA_LAKE_CASES", "3000"))
FORMATS = (avro, protobuf, json_values)
PER_TOPIC = 40

KNOWN: frozenset[str] = frozenset()
"""Peculiarities whose faults are known and not mended yet: a fault that is mended leaves this list."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> SparkLake:
    return SparkLake(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def spark(lake: SparkLake, spark_jars: list[Path]) -> Iterator[SparkSession]:
    with started(lake, spark_jars, {"spark.log.level": "OFF"}) as session:
        yield session


@pytest.mark.parametrize("cases", [200, pytest.param(CASES, marks=pytest.mark.nightly)])
def test_what_lands_is_what_an_independent_library_says(spark: SparkSession, lake: SparkLake, cases: int) -> None:
    """No landing stops, and three readers read every row."""
    print(f"KAFKA_LAKE_SEED={SEED}")  # noqa: T201  # shown when it fails
    seen = Seen()
    number = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # PySpark leaves the closing of its sockets to the collector
        warnings.simplefilter("ignore", UserWarning)  # it looks for types of pandas in the hints of functions
        while seen.cases < cases:
            land(spark, lake, FORMATS[number % len(FORMATS)].drawn(number, SEED, PER_TOPIC), seen)
            number += 1
    found = [item for item in seen.findings if not item.peculiar & KNOWN]
    kinds = Counter((item.kind, *sorted(item.peculiar)) for item in seen.findings)
    texts = [f"{item.kind}, {item.topic}:\n  {item.text}" for item in found]
    assert not found, f"KAFKA_LAKE_SEED={SEED}, {seen.cases} cases, {seen.decoded} decoded\n" + "\n".join(texts[:20])
    assert seen.decoded, f"KAFKA_LAKE_SEED={SEED}: {kinds}"
