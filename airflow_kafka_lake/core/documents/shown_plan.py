"""A plan for a person who decides about it in Airflow's page: one line, then tables and remarks in Markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from airflow_kafka_lake.core.amounts import count, size
from airflow_kafka_lake.core.documents.explanation import everything, remarks
from airflow_kafka_lake.core.documents.markdown import bullets, plain, table
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.planning.plan import Plan, PlannedRange
from airflow_kafka_lake.core.planning.work import Choice
from airflow_kafka_lake.core.slices import Stream

MOST = 50
"""Partitions, waves and remarks of one kind that are shown."""


def plan_headline(plan: Plan) -> str:
    """Return in one line what would be read, and into which tables."""
    if not plan.ranges:
        found = plan.period.describe()[0] if plan.period else everything("planned or landed", plan)
        left_out = f"; {count(len(plan.blocked), 'slice')} left out" if plan.blocked else ""
        return f"{plan.spec.name}: nothing to read: {found}{left_out}"
    cost = plan.forecast
    offsets = sum(item.range.span for item in plan.ranges)
    tables = ", ".join(dict.fromkeys(wave.table for wave in plan.waves))
    records = (
        "" if cost.records is None else f", about {count(cost.records, 'record')}, {size(cost.bytes or 0)} in Kafka"
    )
    waves = count(len(plan.waves), "wave")
    return f"{plan.spec.name}: {count(offsets, 'offset')}{records}, in {waves} into {tables}"


def plan_markdown(plan: Plan, choice: Choice, where: str, *, reason: str | None) -> str:
    """Return a plan as text for people, below its headline: what of which partition, the cost, what is left out and
    why."""
    parts = [f"Reason: {plain(reason)}"] if reason else []
    if rows := list(_rows(plan)):
        parts.append(table(("partition", "offsets", "how many", "in Kafka"), rows, most=MOST, numbers=(2, 3)))
    parts.append(bullets(list(remarks(plan, where, dry_run=False, most=MOST))))
    others = (("are finished too", choice.taken), ("stay for the next run", choice.later), ("stay", choice.left))
    for act, works in others:
        if earlier := [item for item in works if item.plan != plan.id]:
            waves = [(item.wave, item.plan, item.table, item.ranges, size(item.bytes)) for item in earlier]
            parts.append(f"Waves that an earlier plan left and that {act}:")
            parts.append(table(("wave", "plan", "into", "ranges", "in Kafka"), waves, most=MOST, numbers=(3, 4)))
    return "\n\n".join(parts)


def _rows(plan: Plan) -> Iterator[tuple[Stream, str, str, str]]:
    """Yield a row for each stream of which something is to be read."""
    found: dict[Stream, list[PlannedRange]] = defaultdict(list)
    for item in plan.ranges:
        found[item.stream].append(item)
    for stream, ranges in sorted(found.items()):
        offsets = RangeSet(item.range for item in ranges)
        yield stream, offsets.describe(), f"{offsets.span:,}", size(sum(item.estimated_bytes for item in ranges))
