"""Decoding once more what is in the lake: what a job is asked, and what it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_kafka_lake.core.decoding import Decoder

REDECODE_PREFIX = "kafka_lake_decode_"
"""How the branches of such jobs begin: not like an attempt's, which others may drop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedecodeJob:
    """Everything a decoding job needs but settings that may hold secrets.

    The rows are those of the decoders' topics, with `only_failed` those that did not decode before. `id` is 16 hex
    digits.
    """

    id: str
    pipeline: str
    table: str
    decoders: tuple[Decoder, ...]
    only_failed: bool

    @property
    def name(self) -> str:
        """The application name."""
        return f"kafka-lake {self.pipeline} decode {self.table}"

    @property
    def branch(self) -> str:
        """The branch the job writes to."""
        return REDECODE_PREFIX + self.id

    @property
    def program(self) -> str:
        """Where in the package the driver's program is."""
        return "features/decoding/job/redecode.py"

    @property
    def task(self) -> str:
        """What the job does."""
        return f"decodes {self.table} again"

    @property
    def left(self) -> str:
        """What a failure leaves behind, and what to do then."""
        return "nothing was changed: repeat it"

    @property
    def advice(self) -> Mapping[str, str]:
        """The usual reasons of a failure mean here what they mean for staging."""
        return {}

    @property
    def is_heavy(self) -> bool:
        """Return True: how many rows the job will read is not known."""
        return True

    def to_json(self) -> dict[str, Any]:
        """Return the form that travels."""
        return {
            "id": self.id,
            "pipeline": self.pipeline,
            "table": self.table,
            "decoders": [item.to_json() for item in self.decoders],
            "only_failed": self.only_failed,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RedecodeJob:
        """Read the form that travels."""
        return cls(**{**data, "decoders": tuple(map(Decoder.from_json, data["decoders"]))})


@dataclass(frozen=True, slots=True, kw_only=True)
class Redecoded:
    """What a job did: rows that it decoded, and how many of them do not decode now either."""

    rows: int
    failed: int

    def to_json(self) -> dict[str, int]:
        """Return the wire form."""
        return {"rows": self.rows, "failed": self.failed}
