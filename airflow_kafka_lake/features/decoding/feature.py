"""Decoding, as a feature of staging, with the command that decodes again what is in the lake."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.decoding import Decoder, Decoding
from airflow_kafka_lake.core.ledger.records import Claim, Staged, Verdict
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.features.decoding.port import PORT, SchemaRegistry
from airflow_kafka_lake.ports.feature import Feature, FeatureCommand, Json, Option

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


def _decode_again(ports: Ports, spec: PipelineSpec, topic: str | None, given: Json) -> Json:
    from airflow_kafka_lake.features.decoding.redecoding import redecode

    done = redecode(ports, spec, topic=topic, only_failed=given["failed"])
    return {"pipeline": spec.name, "tables": [{"table": table, **item.to_json()} for table, item in done.items()]}


def _lines(document: Json) -> Iterator[str]:
    """Name the tables that were decoded again, and how many rows still do not decode."""
    for item in document["tables"]:
        left = f"{item['failed']:,} of them do not decode" if item["failed"] else "all of them decode"
        done = f"{count(item['rows'], 'row')} decoded again; {left}" if item["rows"] else "no such rows"
        yield f"{item['table']}: {done}"


DECODE = FeatureCommand(
    name="decode",
    help="decode once more what is in the lake, from its raw bytes",
    act=_decode_again,
    lines=_lines,
    options=(Option(name="failed", help="only rows that did not decode"),),
    needs_spark=True,
)
DECODING = Feature(name="decoding", ports={PORT: _registry}, decoding=_Decoding(), commands=(DECODE,))
