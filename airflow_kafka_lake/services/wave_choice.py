"""What a run takes of the waves that are not finished."""

from __future__ import annotations

from airflow_kafka_lake.core.ledger.waves import UNFINISHED, RangeState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.plan import Plan
from airflow_kafka_lake.core.planning.work import Choice, choose
from airflow_kafka_lake.ports import Ports


def chosen(ports: Ports, pipeline: str, plan: Plan | None) -> Choice:
    """Choose the unfinished waves that hold something of what a plan was asked for; without a plan, all of them."""
    waves = ports.ledger.waves(pipeline, UNFINISHED)
    if not waves:
        return Choice()
    asked = None
    if plan is not None:
        streams = [item for item in plan.streams if item.start < item.end]
        asked = {item.snapshot.stream: OffsetRange(item.start, item.end) for item in streams}
    return choose(waves, ports.ledger.ranges(pipeline=pipeline, states=(RangeState.PLANNED,)), asked)
