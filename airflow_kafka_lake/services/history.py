"""What a pipeline's history says, however long it has become: its newest event, and what an actor has decided."""

from __future__ import annotations

from airflow_kafka_lake.ports import LedgerReader

_AT_ONCE = 1000


def newest_event(ledger: LedgerReader, pipeline: str, after: int = 0) -> int:
    """Return the sequence of a pipeline's newest event; `after` when there is none above it."""
    newest = ledger.events(pipeline, after, 1, newest=True)
    return newest[0].sequence if newest else after


def recorded(ledger: LedgerReader, pipeline: str, kind: str, actor: str, *, after: int) -> frozenset[str]:
    """Return the slices about which an actor has recorded decisions of a kind since an event of the history."""
    found: set[str] = set()
    while own := ledger.events(pipeline, after, _AT_ONCE, kind=kind, actor=actor):
        found |= {item.detail.partition(", ")[0] for item in own}
        after = own[-1].sequence
    return frozenset(found)
