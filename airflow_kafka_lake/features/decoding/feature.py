"""Decoding, as a feature of staging."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow_kafka_lake.core.decoding import Decoder, Decoding
from airflow_kafka_lake.core.ledger.records import Claim, Staged, Verdict
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.features.decoding.port import PORT, SchemaRegistry
from airflow_kafka_lake.ports.feature import Feature

if TYPE_CHECKING:
    from airflow_kafka_lake.ports import Ports


def _registry(spec: PipelineSpec) -> SchemaRegistry:
    from airflow_kafka_lake.features.decoding.connection import registry_of

    return registry_of(spec)


class _Decoding:
    """See `ports.feature.ValueDecoding`."""

    def decoders(self, ports: Ports, asked: Decoding, topics: Iterable[str]) -> tuple[Decoder, ...]:
        from airflow_kafka_lake.features.decoding.schemas import decoders

        return decoders(ports, asked, topics)

    def refuse(self, asked: Decoding, claim: Claim, staged: Staged) -> tuple[Verdict, ...]:
        from airflow_kafka_lake.features.decoding.schemas import refuse_undecoded

        return refuse_undecoded(asked, claim, staged)


DECODING = Feature(name="decoding", ports={PORT: _registry}, decoding=_Decoding())
