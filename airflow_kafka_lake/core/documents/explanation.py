"""A plan in lines for people: what the command line and the log of a task say of it, beside its ranges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from airflow_kafka_lake.core.amounts import count, size
from airflow_kafka_lake.core.documents.plan import Json, waiting_document
from airflow_kafka_lake.core.planning.plan import Forecast, Plan
from airflow_kafka_lake.core.wire import timestamp


def heading(plan: Plan, *, dry_run: bool) -> str:
    """Return what it is, and how large."""
    act = "dry run" if dry_run else "plan"
    return f"{act} of {plan.spec.name}: {count(len(plan.ranges), 'range')}, {count(len(plan.waves), 'wave')}"


def remarks(plan: Plan, where: str, *, dry_run: bool, most: int | None = None) -> Iterator[str]:
    """Give what a plan costs on `where` its jobs run, what it waits for, what it leaves out and why.

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
    yield from _first(map(waiting_text, waiting_document(plan)), most)
    yield from _first(in_grace(plan), most)
    yield from _first((f"blocked: {item.where}: {item.reason}" for item in plan.blocked), most)
    if dry_run:
        yield "nothing was written"


def everything(done: str, plan: Plan) -> str:
    """Return that there was nothing to do, where no period was asked for, in as many partitions as were looked at."""
    return f"everything up to the end policy is {done}, in {count(len(plan.streams), 'partition')}"


def in_grace(plan: Plan) -> Iterator[str]:
    """Give the partitions that wait until a change of their topic is sure: what is in them is not read yet."""
    return (f"waiting: {item.stream}: {item.reason}" for item in plan.layout_change.in_grace)


def waiting_text(item: Json) -> str:
    """Return that a partition waits for an open transaction, and for which, as far as that is known."""
    held = f", held by {item['message']}" if item["message"] else ""
    where = f"{item['topic']}/{item['partition']}"
    return f"waiting for stable: {where} is stable to {item['last_stable']} of {item['high_watermark']}{held}"


def range_lines(plan: Plan, most: int | None = None) -> Iterator[str]:
    """Give the tables with their waves, then the ranges."""
    yield from _first((f"into {i.table}, wave {i.id}: {count(len(i.ranges), 'range')}" for i in plan.waves), most)
    yield from _first((f"  {i.slice}: about {size(i.estimated_bytes)} in Kafka" for i in plan.ranges), most)


def _cost(forecast: Forecast, where: str) -> Iterator[str]:
    yield (
        f"about {forecast.records} records, {size(forecast.bytes or 0)} in Kafka ({forecast.bytes_state}), "
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
