"""How many waves of a pipeline are at work at once, and how fast each of them reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import LimitReachedError
from airflow_kafka_lake.core.spec import PipelineSpec

NAMED = 3
"""Waves at work that a refusal names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a pipeline; `waves` is None where any number may be at work, `rate` where they read unhindered.

    `rate` is what one wave may read, in Kafka's bytes per second: so many at once make the pipeline's rate together.
    """

    waves: int | None = None
    rate: int | None = None

    @classmethod
    def of(cls, spec: PipelineSpec, bytes_per_second: int | None = None) -> Limits:
        """Return a pipeline's limits, with another rate where a run asks for one.

        A rate counts for the whole pipeline: where it does not say how many waves are at work at once, one is.
        """
        total = spec.bytes_per_second if bytes_per_second is None else bytes_per_second
        if total is None:
            return cls(waves=spec.waves_at_once)
        waves = spec.waves_at_once or 1
        return cls(waves=waves, rate=max(1, total // waves))


def refuse_above(limits: Limits, pipeline: str, at_work: Sequence[str]) -> None:
    """Raise LimitReachedError when as many other waves are at work as may be at once."""
    if limits.waves is None or len(at_work) < limits.waves:
        return
    more = f" and {len(at_work) - NAMED} more" if len(at_work) > NAMED else ""
    raise LimitReachedError(
        f"Pipeline {pipeline} allows {count(limits.waves, 'wave')} at once, and at work already: "
        f"{', '.join(at_work[:NAMED])}{more}. Nothing was begun; repeat when one of them has ended: "
        f"{remedies.status(pipeline)}",
        pipeline=pipeline,
        limit=limits.waves,
    )
