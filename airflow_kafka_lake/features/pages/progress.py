"""How far a wave is, as a bar with words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from airflow_kafka_lake.core.amounts import count, size, span
from airflow_kafka_lake.core.live import silence
from airflow_kafka_lake.core.progress import Step
from airflow_kafka_lake.features.pages.rendering import Json, percent

_STEPS = {Step.READ: "reading Kafka", Step.AUDIT: "auditing what is staged", Step.PUBLISH: "publishing"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: `share` is in per cent, None where the whole is not known, or nothing was counted yet; `brief` is the
    label for little room."""

    share: float | None
    label: str
    brief: str


def bar_of(progress: Json | None) -> Bar:
    """Return the bar of an attempt's `progress`; before it has reported anything nothing is known."""
    if progress is None:
        return Bar(share=None, label="started: nothing is reported yet", brief="started")
    done, expected = progress["rows_done"], progress["rows_expected"]
    share = percent(done, expected) if done and expected else None
    step = _STEPS[Step(progress["step"])]
    left = [f"about {span(progress['seconds_left'])} left"] if progress["seconds_left"] else []
    counted = [] if share is None else [f"{share:.0f} %"]
    return Bar(
        share=share,
        label=", ".join((step, *_counts(progress), *left)),
        brief=", ".join((step, *counted, *left)),
    )


def silence_of(wave: Json) -> str:
    """Return since when the worker of a wave gives no sign of life; nothing where the next sign is not overdue."""
    return "" if wave["silent_seconds"] is None else silence(wave["silent_seconds"], wave["free_in_seconds"])


def _counts(progress: Json) -> Iterator[str]:
    step, done, expected = Step(progress["step"]), progress["rows_done"], progress["rows_expected"]
    of = f"{done:,} of " if done else ""
    if expected:
        yield f"{of}{count(expected, step.expects)}"
    elif done:
        yield count(done, step.counts)
    if step is Step.READ and progress["bytes_expected"]:
        of = f"{size(progress['bytes_done'])} of " if done else ""
        yield f"about {of}{size(progress['bytes_expected'])}"
    if progress["rows_per_second"]:
        yield f"{progress['rows_per_second']:,} {step.counts}s/s"
