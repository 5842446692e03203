"""Decoding once more what is in the lake: what a job is asked, and what it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_kafka_lake.core.decoding import Decoder
from airflow_kafka_lake.core.lake.effort import LIGHT
from airflow_kafka_lake.core.lake.staging import branch_of
from airflow_kafka_lake.core.ledger.waves import DECODE, Token


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
    def staged_as(self) -> str:
        """The branch's name, as `LakeTable.drop` takes it: never an attempt's, whose branch others may drop."""
        return f"{DECODE}_{self.id}"

    @property
    def branch(self) -> str:
        """The branch the job writes to."""
        return branch_of(self.staged_as)

    @property
    def token(self) -> Token:
        """What the commit that publishes the rows says about itself."""
        return Token(pipeline=self.pipeline, wave=DECODE, attempt=self.staged_as, fence=0, ranges="", kind=DECODE)

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
    def effort(self) -> int:
        """More than a light job's: how many rows the job will read is not known."""
        return LIGHT + 1

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
    """What a job did: rows that it decoded, and how many of them do not decode now either.

    `base` is the snapshot of main that it read, and `staged` the one on its branch, with the same rows; both are None
    when it found no row to decode and left no branch.
    """

    rows: int
    failed: int
    base: int | None = None
    staged: int | None = None

    def to_json(self) -> dict[str, int]:
        """Return the form that the command shows."""
        return {"rows": self.rows, "failed": self.failed}
