"""Divide the slices of a staging job among its tasks."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable

from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.slices import Slice

FEWEST = 500
"""Offsets that a part of a slice has on average at least, where tasks share all slices: about what one poll takes."""

_TIME = re.compile(r"\b(?:year|month|day|hour)s?\(")
_PLACE = re.compile(r"\bkafka_(?:topic|topic_id|partition|offset)\b")


def is_by_time(partition_by: str) -> bool:
    """Return whether a table that is partitioned so is divided by time, and not by Kafka's partitions as well."""
    return bool(_TIME.search(partition_by)) and not _PLACE.search(partition_by)


def abreast(slices: Iterable[Slice], tasks: int, fewest: int = FEWEST) -> tuple[tuple[Slice, ...], ...] | None:
    """Return the slices of at most `tasks` tasks of about the same weight, each with the same stretch of every slice:
    the first has the beginnings of all, the last the ends. None where parts would have fewer than `fewest` offsets.

    Records of all partitions that were written at the same time then come to the same task. So where a table is
    partitioned by time, a task writes few of its partitions, and each of those has few files, without a shuffle.
    """
    found = sorted(slices, key=lambda item: (item.stream, item.range))
    if sum(item.range.span for item in found) < fewest * tasks * len(found):
        return None
    shares: list[list[Slice]] = [[] for _ in range(tasks)]
    for item in found:
        parts = _cut(item, min(tasks, item.range.span))
        for number, part in enumerate(parts):
            shares[number * tasks // len(parts)].append(part)
    return tuple(tuple(share) for share in shares if share)


def divided(slices: Iterable[Slice], tasks: int, limit: int | None) -> tuple[tuple[Slice, ...], ...]:
    """Return the slices of each task: every offset of every slice once, in tasks of about the same weight.

    A slice of more than `limit` offsets is split, and each part has a task of its own. The others, in their order, fill
    as many tasks as their offsets need: `tasks` where nothing is split. Neighbours stay together, so that a file holds
    few partitions.
    """
    found = sorted(slices, key=lambda item: (item.stream, item.range))
    heavy = [item for item in found if limit is not None and item.range.span > limit]
    light = [item for item in found if limit is None or item.range.span <= limit]
    total = sum(item.range.span for item in light)
    count = tasks if limit is None else math.ceil(total / limit)
    parts = (part for item in heavy for part in _cut(item, math.ceil(item.range.span / (limit or 1))))
    return (*((part,) for part in parts), *_gathered(light, total, count))


def evenly(slices: Iterable[Slice], tasks: int) -> tuple[tuple[Slice, ...], ...]:
    """Return the slices of at most `tasks` tasks of equal weight: slices are split wherever that takes it."""
    found = sorted(slices, key=lambda item: (item.stream, item.range))
    *starts, total = itertools.accumulate((item.range.span for item in found), initial=0)
    edges = [total * number // tasks for number in range(1, tasks)]
    parts = [
        item.part(piece)
        for before, item in zip(starts, found, strict=True)
        for piece in item.range.split_at(item.range.start + edge - before for edge in edges)
    ]
    return tuple(_gathered(parts, total, tasks))


def _cut(item: Slice, count: int) -> list[Slice]:
    edges = [item.range.start + item.range.span * number // count for number in range(count + 1)]
    return [item.part(OffsetRange(start, end)) for start, end in itertools.pairwise(edges)]


def _gathered(light: list[Slice], total: int, count: int) -> list[tuple[Slice, ...]]:
    """Put each slice where its middle falls when all of them, one after the other, are cut into equal lengths."""
    before = itertools.accumulate((item.range.span for item in light), initial=0)
    places = [(2 * start + item.range.span) * count // (2 * total) for item, start in zip(light, before, strict=False)]
    grouped = itertools.groupby(zip(places, light, strict=True), key=lambda pair: pair[0])
    return [tuple(item for _, item in its) for _, its in grouped]
