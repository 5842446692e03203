"""Row filters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, cast

from pyiceberg.expressions import (
    AlwaysFalse,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    In,
    LessThan,
    Or,
)
from pyiceberg.expressions import And as All

from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.slices import Slice, SliceSet

# PyIceberg's own signatures are hidden from type checkers by the model class they are declared in.
_in = cast(Callable[[str, set[str]], BooleanExpression], In)
_is, _from, _below = (
    cast(Callable[[str, Any], BooleanExpression], kind) for kind in (EqualTo, GreaterThanOrEqual, LessThan)
)
_either = cast(Callable[[BooleanExpression, BooleanExpression], BooleanExpression], Or)
_NOTHING: BooleanExpression = AlwaysFalse()
_MOST = 100
"""More slices of one stream are asked for as one, from the first to the last; the reader sorts them out."""


def among(column: str, values: Iterable[str]) -> BooleanExpression:
    """Return the filter for rows whose text column has one of some values; no values match nothing."""
    return _in(column, set(values))


def near(slices: Iterable[Slice]) -> BooleanExpression:
    """Return the filter for rows of some slices, and perhaps of offsets of the same streams between them."""
    found: list[BooleanExpression] = []
    for (_, topic_id, partition), offsets in SliceSet(slices).items():
        parts = offsets.ranges
        if len(parts) > _MOST:
            parts = (OffsetRange(parts[0].start, parts[-1].end),)
        stream = All(_is("kafka_topic_id", topic_id), _is("kafka_partition", partition))
        asked = (All(_from("kafka_offset", part.start), _below("kafka_offset", part.end)) for part in parts)
        found.append(All(stream, _any(asked)))
    return _any(found)


def _any(wanted: Iterable[BooleanExpression]) -> BooleanExpression:
    return functools.reduce(_either, wanted, _NOTHING)
