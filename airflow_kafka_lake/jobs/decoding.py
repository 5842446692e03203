"""Load the feature that decodes by name, so that the package is whole without it."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.core.decoding import Decoder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEATURE = "airflow_kafka_lake.features.decoding.job.decode"


def with_decoded(spark: SparkSession, rows: DataFrame, decoders: Sequence[Decoder], table: str) -> DataFrame:
    """Return rows of the landing table with their decoded columns, in the types of `table` (a quoted name)."""
    feature: Any = importlib.import_module(FEATURE)
    found: DataFrame = feature.with_decoded(spark, rows, decoders, table)
    return found
