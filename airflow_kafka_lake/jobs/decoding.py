"""Load the feature that decodes by name, so that the package is whole without it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from airflow_kafka_lake.core.decoding import Decoder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEATURE = "airflow_kafka_lake.features.decoding.job.decode"


class Decoded(Protocol):
    """Rows of the landing table with their decoded columns."""

    @property
    def refused(self) -> Mapping[str, str]:
        """By topic, why none of its values can be decoded."""

    def fitted(self, table: str) -> DataFrame:
        """Widen the table (a quoted name) where it lacks columns, and return the rows in its types."""


def decode(spark: SparkSession, rows: DataFrame, decoders: Sequence[Decoder], table: str) -> Decoded:
    """Decode rows of the landing table; the table (a quoted name) is looked at and not changed."""
    feature: Any = importlib.import_module(FEATURE)
    found: Decoded = feature.decode(spark, rows, decoders, table)
    return found
