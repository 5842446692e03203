"""The asset of a pipeline, its events, and the slices that a Dag triggered by them reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_kafka_lake.core.ledger.records import Advance
from airflow_kafka_lake.core.offsets import OffsetRange, Stream, grouped, merged, offsets_by

if TYPE_CHECKING:
    from airflow.sdk import Asset, AssetAlias

ALIAS = "kafka-lake"
"""Every event comes through this asset alias: which pipeline moved is known only when the task runs."""

MAX_STREAMS = 100
"""How many streams one event names."""


def pipeline_asset(pipeline: str) -> Asset:
    """Return the asset of a pipeline, to schedule a Dag on: its events come when a watermark has moved."""
    from airflow.sdk import Asset

    return Asset(f"kafka-lake://{pipeline}")


def closed_periods(pipeline: str, kind: str = "hour") -> Asset:
    """Return the asset of a pipeline's closed hours or days: each is an event with the period as its partition key."""
    return pipeline_asset(f"{pipeline}/{kind}")


def late_records(pipeline: str, kind: str = "hour") -> Asset:
    """Return the asset of records that came after their hour or day was closed: events with the same keys."""
    return pipeline_asset(f"{pipeline}/{kind}/late")


def all_pipelines() -> AssetAlias:
    """Return the alias of all pipelines' assets, to schedule a Dag on the events of every one."""
    from airflow.sdk import AssetAlias

    return AssetAlias(name=ALIAS, group=ALIAS)


class LandedSlice(NamedTuple):
    """Offsets of a partition, from `start` up to, but not including, `end`."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """The slices that watermarks of a pipeline have passed: `slices`, which do not overlap, with so many `rows`.

    These are all moves after move `after` up to move `sequence` of a `ledger`: one that was lost counts anew.
    """

    pipeline: str
    after: int
    sequence: int
    rows: int
    slices: tuple[LandedSlice, ...]
    ledger: str | None = None

    @classmethod
    def from_extra(cls, extra: Mapping[str, Any]) -> Landed:
        """Read the extra of one event; one of an earlier version counts as one move."""
        names = {"pipeline", "ledger", "after", "sequence", "rows"} & extra.keys()
        named: dict[str, Any] = {"after": extra["sequence"] - 1, **{name: extra[name] for name in names}}
        slices = tuple(LandedSlice(*(item[key] for key in _KEYS)) for item in extra["streams"])
        return cls(**named, slices=slices)


_KEYS = ("topic", "partition", "from", "to")
"""Of a slice in the extra of an event."""


def landed(triggering_asset_events: Mapping[Any, Iterable[Any]]) -> dict[str, Landed]:
    """Return the slices that have triggered a Dag run, for each pipeline: each slice once, also if an event came twice.

    The argument is the variable of that name in a task's context; events of other assets are left out.
    """
    extras = [event.extra or {} for events in triggering_asset_events.values() for event in events]
    ours = (Landed.from_extra(extra) for extra in extras if {"pipeline", "sequence", "streams"} <= extra.keys())
    told = grouped((item.pipeline, item) for item in ours)
    return {pipeline: _joined(events) for pipeline, events in sorted(told.items())}


def _joined(events: Iterable[Landed]) -> Landed:
    kept: list[Landed] = []
    for ledger, its in grouped((event.ledger, event) for event in events).items():
        for event in sorted(its, key=lambda event: (event.after, -event.sequence)):
            if not kept or kept[-1].ledger != ledger or event.sequence > kept[-1].sequence:
                kept.append(event)
    slices = (item for event in kept for item in event.slices)
    found = offsets_by(((item.topic, item.partition), OffsetRange(item.start, item.end)) for item in slices)
    return replace(
        kept[-1],
        after=next(event.after for event in kept if event.ledger == kept[-1].ledger),
        rows=sum(event.rows for event in kept),
        slices=tuple(
            LandedSlice(topic, partition, item.start, item.end)
            for topic, partition in sorted(found)
            for item in found[topic, partition]
        ),
    )


def event_extras(
    pipeline: str, plan: str | None, moves: Sequence[Advance], *, after: int, ledger: str
) -> list[dict[str, Any]]:
    """Return the extras of the events for the watermark moves after move `after`, in order (docs/reference/json.md).

    Each has one slice per stream, of at most `MAX_STREAMS`; its `sequence` is that of its last move, and its `after`
    the `sequence` of the event before: so they show which event came twice, and that none is missing.
    """
    groups: list[list[Advance]] = []
    streams: set[Stream] = set()
    for move in sorted(moves, key=lambda move: move.sequence):
        if not groups or len(streams | {move.stream}) > MAX_STREAMS:
            groups.append([])
            streams = set()
        streams.add(move.stream)
        groups[-1].append(move)
    befores = [after, *(group[-1].sequence for group in groups)]
    told = zip(groups, befores, strict=False)
    return [{"pipeline": pipeline, "ledger": ledger, "plan": plan, **_extra(group, before)} for group, before in told]


def _extra(moves: Sequence[Advance], after: int) -> dict[str, Any]:
    starts = merged(min, ((move.stream, move.start) for move in moves))
    ends = merged(max, ((move.stream, move.end) for move in moves))
    return {
        "after": after,
        "sequence": max(move.sequence for move in moves),
        "streams": [
            dict(zip(_KEYS, (*stream.place, start, ends[stream]), strict=True))
            for stream, start in sorted(starts.items())
        ],
        "rows": sum(move.rows for move in moves),
    }
