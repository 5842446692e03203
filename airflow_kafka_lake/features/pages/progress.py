"""How far a wave is, as a bar with words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from airflow_kafka_lake.core.amounts import size, span
from airflow_kafka_lake.features.pages.rendering import Json, percent

_STEPS = {"read": "reading Kafka", "audit": "auditing what is staged", "publish": "publishing"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: `share` is in per cent, None where the whole is not known; `brief` is the label for little room."""

    share: float | None
    label: str
    brief: str


def bar_of(progress: Json | None) -> Bar:
    """Return the bar of an attempt's `progress`; before it has reported anything nothing is known."""
    if progress is None:
        return Bar(share=None, label="started: nothing is reported yet", brief="started")
    done, expected = progress["rows_done"], progress["rows_expected"]
    share = percent(done, expected) if expected else None
    step = str(_STEPS.get(progress["step"], progress["step"]))
    left = [f"about {span(progress['seconds_left'])} left"] if progress["seconds_left"] else []
    counted = [] if share is None else [f"{share:.0f} %"]
    return Bar(
        share=share,
        label=", ".join((step, *_counts(progress), *left)),
        brief=", ".join((step, *counted, *left)),
    )


def _counts(progress: Json) -> Iterator[str]:
    done, expected = progress["rows_done"], progress["rows_expected"]
    reads = progress["step"] == "read"
    if expected:
        yield f"{done:,} of {expected:,} {'offsets' if reads else 'rows'}"
    elif done:
        yield f"{done:,} rows"
    if reads and progress["bytes_expected"]:
        yield f"about {size(progress['bytes_done'])} of {size(progress['bytes_expected'])}"
    if progress["rows_per_second"]:
        yield f"{progress['rows_per_second']:,} rows/s"
