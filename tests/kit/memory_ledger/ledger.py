"""The ledger in memory: the whole contract without a database, for tests, simulations and dry runs."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace

from airflow_kafka_lake.core.ledger.changes import Entry, NotifiedRow
from airflow_kafka_lake.core.ledger.moves import advanced
from airflow_kafka_lake.core.ledger.records import Advance, watermark
from airflow_kafka_lake.core.ledger.waves import (
    RESOLVED,
)
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.ports import Clock
from tests.kit.memory_ledger.committing import MemoryWriter


class MemoryLedger(MemoryWriter):
    """`ports.Ledger` over dicts; see the port for every method."""

    def __init__(self, clock: Clock, *, ledger_id: str | None = None, actor: str = "ledger") -> None:
        super().__init__(clock, ledger_id=ledger_id or secrets.token_hex(16))
        self._actor = actor

    def close(self) -> None:
        """Close nothing: there are no connections."""

    def advance(self, pipeline: str) -> tuple[Advance, ...]:
        moves: list[Advance] = []
        with self._writing() as draft:
            for (owner, key), row in sorted(draft.streams.items(), key=lambda item: item[0]):
                if owner != pipeline:
                    continue
                resolved = [item for item in draft.pieces(pipeline, key) if item.state in RESOLVED]
                end = watermark(row.watermark, RangeSet(item.range for item in resolved))
                if end == row.watermark:
                    continue
                moved = [item for item in resolved if row.watermark <= item.range.start < end]
                move = Advance(
                    stream=row.key,
                    sequence=len(draft.moves) + 1,
                    start=row.watermark,
                    end=end,
                    rows=sum(item.rows or 0 for item in moved),
                )
                draft.streams[owner, key] = replace(row, watermark=end, version=row.version + 1)
                draft.moves.append((pipeline, move))
                moves.append(move)
            if moves:
                entry = Entry(
                    pipeline=pipeline, actor=self._actor, kind="advance", subject=pipeline, detail=advanced(moves)
                )
                self._event(draft, entry)
        return tuple(moves)

    def mark_notified(self, pipeline: str, sequence: int) -> None:
        with self._writing() as draft:
            row = draft.notified.get(pipeline, NotifiedRow(pipeline=pipeline))
            draft.notified[pipeline] = row.notified(sequence)

    def sent(self, items: Sequence[int]) -> None:
        with self._writing() as draft:
            for item in items:
                draft.outbox.pop(item, None)
