"""What documents say of pauses."""

from __future__ import annotations

from typing import Any

from airflow_kafka_lake.core.ledger.pauses import PauseRow
from airflow_kafka_lake.core.wire import timestamp


def pause_document(pause: PauseRow | None) -> dict[str, Any] | None:
    """Return a pause as every document has it; None while nothing is paused."""
    if pause is None:
        return None
    return {"plan": pause.plan, "since": timestamp(pause.at), "by": pause.actor, "reason": pause.reason}
