"""The page of all pipelines: one row each, the worst first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from markupsafe import Markup

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.features.pages.beginning import FIRST_PLAN
from airflow_kafka_lake.features.pages.grouping import kind_of
from airflow_kafka_lake.features.pages.progress import Bar, bar_of, silence_of
from airflow_kafka_lake.features.pages.rendering import Json
from airflow_kafka_lake.features.pages.site import BUSY, IDLE, draw
from airflow_kafka_lake.features.pages.summary import behind, shares_of
from airflow_kafka_lake.features.pages.timeline import MEANINGS, shares_bar
from airflow_kafka_lake.features.pages.web.visitor import Visitor

BARS = 3
"""Running waves that a row shows one by one; of more, how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One pipeline."""

    pipeline: Json
    kind: str
    chart: Markup
    behind: str
    bars: tuple[tuple[str, Bar], ...]
    notes: tuple[str, ...]


def overview_page(visitor: Visitor, document: Json) -> str:
    """Draw the pipelines of a document: its summaries, in its order."""
    rows = [_row(item) for item in document["pipelines"]]
    states = dict.fromkeys((row.pipeline["state"], row.kind) for row in rows)
    return draw(
        "overview.html",
        visitor,
        poll=BUSY if any(item["running"] for item in document["pipelines"]) else IDLE,
        observed_at=document["observed_at"],
        rows=rows,
        states=[(state, kind, sum(row.kind == kind for row in rows)) for state, kind in states],
        meanings=MEANINGS.items(),
        first_plan=FIRST_PLAN,
    )


def _row(item: Json) -> Row:
    alive = [wave for wave in item["running"] if wave["alive"]]
    return Row(
        pipeline=item,
        kind=kind_of(item["state"]),
        chart=shares_bar(shares_of(item), f"offsets of {item['pipeline']}"),
        behind=behind(item),
        bars=tuple((wave["wave"], _bar(wave)) for wave in alive[:BARS]),
        notes=tuple(_notes(item["waves"], len(alive[BARS:]))),
    )


def _bar(wave: Json) -> Bar:
    bar = bar_of(wave["progress"])
    return replace(bar, brief=silence_of(wave) or bar.brief)


def _notes(waves: Json, more: int) -> Iterator[str]:
    if more:
        yield f"and {count(more, 'more wave')}"
    parts = []
    if waves["of_current_plans"]:
        parts.append(f"{waves['of_current_plans_committed']:,} of {count(waves['of_current_plans'], 'wave')} landed")
    parts += [f"{waves[name]:,} {name}" for name in ("interrupted", "cancelled") if waves[name]]
    if parts:
        yield ", ".join(parts)
