"""A plan as a document, as lines of text, and as Markdown for its approval."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Self

from airflow_kafka_lake.core.amounts import NAMED, count, size
from airflow_kafka_lake.core.document import Document
from airflow_kafka_lake.core.errors import HangingTransactionError, HeldError
from airflow_kafka_lake.core.kafka.snapshots import OBSERVED, OpenTransaction, PartitionSnapshot
from airflow_kafka_lake.core.offsets import RangeSet, Stream, grouped
from airflow_kafka_lake.core.planning.plan import Forecast, Plan
from airflow_kafka_lake.core.planning.selection import WaveChoice
from airflow_kafka_lake.core.wire import timestamp

# `plan --json`, and the waits of partitions. An unknown value is null beside a `_state`.

Json = dict[str, Any]
HANGING = 100
"""Hanging transactions that a task names to the tasks after it."""


def plan_document(plan: Plan, *, recorded: bool) -> Json:
    """Return `plan --json`; `plan` is null when nothing was recorded."""
    forecast = plan.forecast
    return {
        "plan": plan.id if recorded else None,
        "pipeline": plan.spec.name,
        "observed_at": timestamp(plan.observed_at),
        "streams": [
            stream.snapshot.stream._asdict() | {"start": stream.start, "end": stream.end, "reason": stream.reason}
            for stream in plan.streams
        ],
        "waves": [
            {
                "wave": wave.id if recorded else None,
                "table": wave.table,
                "ranges": [
                    {
                        **item.stream.facts,
                        "start": item.range.start,
                        "end": item.range.end,
                        "estimated_bytes": item.estimated_bytes,
                    }
                    for item in wave.ranges
                ],
            }
            for wave in plan.waves
        ],
        "period": None if plan.period is None else plan.period.to_json(),
        "estimated_records": forecast.records,
        "estimated_bytes": forecast.bytes,
        "estimated_bytes_state": forecast.bytes_state,
        "estimated_lake_bytes": forecast.lake_bytes,
        "estimated_lake_bytes_state": forecast.lake_bytes_state,
        "estimated_seconds": forecast.seconds,
        "retention_deadline": timestamp(forecast.retention_deadline),
        "retention_deadline_state": forecast.retention_deadline_state,
        "retention_stream": [held.topic, held.partition] if (held := forecast.retention_stream) else None,
        "blocked": [{"topic": b.topic, "partition": b.partition, "reason": b.reason} for b in plan.blocked],
        "in_grace": [item.to_json() for item in plan.layout_change.in_grace],
        "waiting_for_stable": [item.to_json() for item in waiting_of(plan)],
        "notes": list(plan.notes),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPartition:
    """A partition that ends at an open transaction, as it was seen `at`: `held_by` is the first one, and `state` says
    why none is known."""

    bounds: PartitionSnapshot
    held_by: OpenTransaction | None
    state: str
    at: datetime

    @property
    def message(self) -> str | None:
        """The hold in words; None where Kafka has told of no transaction."""
        if self.held_by:
            return self.held_by.describe(self.at)
        if self.state == OBSERVED:
            return None
        return f"a transaction of which nothing is known, nor whether it hangs ({self.state})"

    def describe(self) -> str:
        """Return that it waits, and for which transaction, as far as that is known."""
        held = f", held by {self.message}" if self.message else ""
        bounds = self.bounds
        return f"waiting for stable: {bounds.stream} is stable to {bounds.last_stable} of {bounds.high_watermark}{held}"

    def to_json(self) -> Json:
        """Return the wire form."""
        return {
            **self.bounds.stream.facts,
            "last_stable": self.bounds.last_stable,
            "high_watermark": self.bounds.high_watermark,
            "transaction": self.held_by.to_json(self.at) if self.held_by else None,
            "transaction_state": self.state,
            "message": self.message,
        }


def waiting(
    partitions: Iterable[PartitionSnapshot], transactions: Sequence[OpenTransaction], now: datetime, state: str
) -> tuple[WaitingPartition, ...]:
    """Return the waiting partitions: each with the first transaction that holds it."""
    first = {(item.topic, item.partition): item for item in reversed(transactions)}
    return tuple(
        WaitingPartition(bounds=item, held_by=first.get(item.stream.place), state=state, at=now) for item in partitions
    )


def waiting_of(plan: Plan) -> tuple[WaitingPartition, ...]:
    """Return the waits of a plan's partitions that end at an open transaction."""
    return waiting(plan.waiting_for_stable, plan.transactions, plan.observed_at, plan.transactions_state)


# A plan as its task tells it to the tasks after it.


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary(Document):
    """The size of a plan, and the waves that its Dag run takes, that stay for the next run (`later`), and that were not
    asked for (`left`). `plan` is None when nothing is to be read, `hanging` where Kafka did not say which transactions
    are open; `left_out` has the first of the `blocked` slices, with their reasons."""

    pipeline: str
    plan: str | None = None
    plans: Sequence[str] = ()
    waves: Sequence[str] = ()
    later: Sequence[str] = ()
    left: Sequence[str] = ()
    ranges: int = 0
    records: int | None = 0
    bytes: int | None = 0
    lake_bytes: int | None = 0
    blocked: int = 0
    left_out: Sequence[str] = ()
    hanging: Sequence[str] | None = ()
    dry_run: bool = False

    @classmethod
    def of(cls, plan: Plan, choice: WaveChoice, *, recorded: bool, dry_run: bool) -> PlanSummary:
        """Return the summary of a plan and of the choice of its waves."""
        own = plan.id if recorded and plan.waves else None
        hanging = tuple(item.describe(plan.observed_at) for item in plan.hanging[:HANGING])
        return cls(
            pipeline=plan.spec.name,
            plan=own,
            plans=sorted({item.plan for item in (*choice.taken, *choice.later)} | ({own} if own else set())),
            waves=() if dry_run else [item.wave for item in choice.taken],
            later=() if dry_run else [item.wave for item in choice.later],
            left=[item.wave for item in choice.left],
            ranges=len(plan.ranges),
            records=plan.forecast.records,
            bytes=plan.forecast.bytes,
            lake_bytes=plan.forecast.lake_bytes,
            blocked=len(plan.blocked),
            left_out=[f"{item.where}: {item.reason}" for item in plan.blocked[:NAMED]],
            hanging=hanging if plan.transactions_state == OBSERVED else None,
            dry_run=dry_run,
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read an XCom, also that of another version: one without `plans` has told its own plan alone."""
        found = cls(**{item.name: data[item.name] for item in fields(cls) if item.name in data})
        return replace(found, plans=[found.plan]) if found.plan and "plans" not in data else found

    def refuse_left_out(self) -> None:
        """Raise HeldError where the plan has left something out, HangingTransactionError where records behind a
        transaction are never read."""
        if self.blocked:
            raise HeldError(
                f"{count(self.blocked, 'slice was', 'slices were')} left out of the plan, each named in the log of its "
                f"task. {'; '.join(self.left_out)}"
            )
        if self.hanging:
            raise HangingTransactionError(
                f"what lies behind a transaction that no producer will end is not read: {self.hanging[0]}"
            )


# A plan in lines for people: on the command line and in the log of a task, beside its ranges.


def heading(plan: Plan, *, dry_run: bool) -> str:
    """Return its kind and its size."""
    act = "dry run" if dry_run else "plan"
    return f"{act} of {plan.spec.name}: {count(len(plan.ranges), 'range')}, {count(len(plan.waves), 'wave')}"


def remarks(plan: Plan, where: str, *, dry_run: bool, most: int | None = None) -> Iterator[str]:
    """Give the costs of a plan on `where` its jobs run, its waits, and its blocks.

    Of remarks of one kind there are at most so many, then how many more there would be.
    """
    period = plan.period.describe() if plan.period else ()
    if plan.ranges:
        yield from _cost(plan.forecast, where)
        yield from period
    else:
        yield f"nothing to do: {period[0] if period else everything('planned or landed', plan)}"
        yield from period[1:]
    yield from _first((f"note: {note}" for note in plan.notes), most)
    yield from _first((item.describe() for item in waiting_of(plan)), most)
    yield from _first(in_grace(plan), most)
    yield from _first((f"blocked: {item.where}: {item.reason}" for item in plan.blocked), most)
    if dry_run:
        yield "nothing was recorded"


def everything(done: str, plan: Plan) -> str:
    """Return that there was nothing to do, where no period was asked for, in as many partitions as were looked at."""
    waits = plan.layout_change.in_grace or waiting_of(plan)
    but = " but what is blocked" if plan.blocked else " but what waits" if waits else ""
    return f"everything{but} up to the end policy is {done}, in {count(len(plan.streams), 'partition')}"


def in_grace(plan: Plan) -> Iterator[str]:
    """Give the partitions that wait until a change of their topic is sure: their records are not read yet."""
    return (f"waiting: {item.stream}: {item.reason}" for item in plan.layout_change.in_grace)


def range_lines(plan: Plan, most: int | None = None) -> Iterator[str]:
    """Give the tables with their waves, then the ranges."""
    yield from _first((f"into {i.table}, wave {i.id}: {count(len(i.ranges), 'range')}" for i in plan.waves), most)
    yield from _first((f"  {i.slice}: about {size(i.estimated_bytes)} in Kafka" for i in plan.ranges), most)


def _cost(forecast: Forecast, where: str) -> Iterator[str]:
    yield (
        f"{forecast.records:,} records at most, about {size(forecast.bytes or 0)} in Kafka ({forecast.bytes_state}), "
        f"{forecast.seconds or 0:.0f} s on {where}"
    )
    in_lake, state = forecast.lake_bytes, forecast.lake_bytes_state
    yield f"bytes in the lake: {state}" if in_lake is None else f"about {size(in_lake)} in the lake ({state})"
    state, stream = forecast.retention_deadline_state, forecast.retention_stream
    if stream and forecast.retention_deadline:
        yield f"retention may take {stream} from {timestamp(forecast.retention_deadline)} on ({state})"
    else:
        yield f"retention deadline: {state}"


def _first(lines: Iterable[str], most: int | None) -> Iterator[str]:
    every = list(lines)
    yield from every[:most]
    if most is not None and every[most:]:
        yield f"  and {len(every) - most:,} more like the last"


# Texts that Airflow's page renders as Markdown: tables, and words of others that are taken as they are.

_SPECIAL = re.compile(r"([\\`*\[\]<>|~#_])")


def plain(text: str) -> str:
    """Return a text as Markdown that shows it as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, most: int, numbers: Sequence[int] = ()) -> str:
    """Return a table of at most so many rows, then how many more there are; `numbers` are columns set to the right."""
    lines = [columns, ["---:" if at in numbers else "---" for at in range(len(columns))]]
    lines += [[plain(str(cell)) for cell in row] for row in rows[:most]]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{text}\n\nand {len(rows) - most:,} more like these" if rows[most:] else text


def bullets(lines: Sequence[str]) -> str:
    """Return a list."""
    return "\n".join(f"- {plain(line)}" for line in lines)


# A plan for the decision about it in Airflow's page: one line, then tables and remarks in Markdown.

MOST = 50
"""Partitions, waves and remarks of one kind that are shown."""


def plan_headline(plan: Plan) -> str:
    """Return in one line the size of a plan, and its tables."""
    if not plan.ranges:
        found = plan.period.describe()[0] if plan.period else everything("planned or landed", plan)
        left_out = f"; {count(len(plan.blocked), 'slice')} left out" if plan.blocked else ""
        return f"{plan.spec.name}: nothing to read: {found}{left_out}"
    cost = plan.forecast
    offsets = sum(item.range.span for item in plan.ranges)
    tables = ", ".join(dict.fromkeys(wave.table for wave in plan.waves))
    records = (
        ""
        if cost.records is None
        else f", at most {count(cost.records, 'record')}, about {size(cost.bytes or 0)} in Kafka"
    )
    waves = count(len(plan.waves), "wave")
    return f"{plan.spec.name}: {count(offsets, 'offset')}{records}, in {waves} into {tables}"


def plan_markdown(plan: Plan, choice: WaveChoice, where: str, *, reason: str | None) -> str:
    """Return a plan as text for people, below its headline: the slice of each partition, the costs, the blocks."""
    parts = [f"Reason: {plain(reason)}"] if reason else []
    if rows := list(_rows(plan)):
        parts.append(table(("partition", "offsets", "how many", "in Kafka"), rows, most=MOST, numbers=(2, 3)))
    parts.append(bullets(list(remarks(plan, where, dry_run=False, most=MOST))))
    others = (("are finished too", choice.taken), ("stay for the next run", choice.later), ("stay", choice.left))
    for act, works in others:
        if earlier := [item for item in works if item.plan != plan.id]:
            waves = [(item.wave, item.plan, item.table, item.ranges, size(item.estimated_bytes)) for item in earlier]
            parts.append(f"Waves that an earlier plan left and that {act}:")
            parts.append(table(("wave", "plan", "into", "ranges", "in Kafka"), waves, most=MOST, numbers=(3, 4)))
    return "\n\n".join(parts)


def _rows(plan: Plan) -> Iterator[tuple[Stream, str, str, str]]:
    """Yield a row for each stream of which something is to be read."""
    found = grouped((item.stream, item) for item in plan.ranges)
    for stream, ranges in sorted(found.items()):
        offsets = RangeSet(item.range for item in ranges)
        yield stream, offsets.describe(), f"{offsets.span:,}", size(sum(item.estimated_bytes for item in ranges))
