"""The group sync, as a feature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.features.group_sync.port import PORT, GroupCommitter
from airflow_kafka_lake.ports.feature import Feature, Json

if TYPE_CHECKING:
    from airflow_kafka_lake.ports import Ports


def _committer(spec: PipelineSpec) -> GroupCommitter:
    from airflow_kafka_lake.adapters.machine import SystemClock
    from airflow_kafka_lake.features.group_sync.kafka import KafkaGroupCommitter
    from airflow_kafka_lake.wiring.kafka import KafkaConnection

    return KafkaGroupCommitter(KafkaConnection(spec.kafka_connection).settings, clock=SystemClock())


def _sync(ports: Ports, spec: PipelineSpec, before: Json) -> Json:
    from airflow_kafka_lake.features.group_sync.sync import sync_group

    done = sync_group(ports, spec)
    return {"group_sync": None if done is None else done.to_json(before.get("group_sync"))}


GROUP_SYNC = Feature(name="group_sync", ports={PORT: _committer}, after_advance=_sync)
