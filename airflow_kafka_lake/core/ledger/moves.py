"""Moves of watermarks, put together: for the history, and as if one advance had made them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.ledger.records import Advance


def advanced(moves: Sequence[Advance]) -> str:
    """Return how far some moves took the watermarks, for the history."""
    offsets = sum(move.end - move.start for move in moves)
    return ", ".join(
        (count(len(moves), "watermark"), count(offsets, "offset"), count(sum(move.rows for move in moves), "row"))
    )


def joined(moves: Iterable[Advance]) -> tuple[Advance, ...]:
    """Join moves of a stream that follow each other, as if one advance had made them; sorted by stream and start."""
    found: list[Advance] = []
    for move in sorted(moves, key=lambda move: (move.stream, move.start)):
        last = found[-1] if found else None
        if last is not None and (last.stream, last.end) == (move.stream, move.start):
            sequence = max(last.sequence, move.sequence)
            found[-1] = replace(last, end=move.end, rows=last.rows + move.rows, sequence=sequence)
        else:
            found.append(move)
    return tuple(found)
