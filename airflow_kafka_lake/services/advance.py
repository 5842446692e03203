"""Move watermarks over what is committed."""

from __future__ import annotations

from airflow_kafka_lake.core.ledger.records import Advance
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.outbox import flush


def advance(ports: Ports, pipeline: str) -> tuple[Advance, ...]:
    """Move every watermark of the pipeline to the end of its unbroken committed run."""
    moves = ports.ledger.advance(pipeline)
    flush(ports, pipeline)
    return moves
