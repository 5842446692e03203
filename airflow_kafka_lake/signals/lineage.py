"""Lineage of a wave for OpenLineage, in the way of Airflow's provider: a task has a method that its listener asks.

The listener asks in a process of its own when the task has ended. So what it needs is gathered before, while the task
may still use its connections, and only where the provider is installed and has somewhere to send events.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from airflow_kafka_lake.core.documents.landed import LandedWave
from airflow_kafka_lake.core.lineage import (
    MOST_SLICES,
    TopicRead,
    WaveLineage,
    catalog_namespace,
    kafka_namespace,
    name_of_location,
    topics_read,
)
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.wiring.kafka import KafkaConnection
from airflow_kafka_lake.wiring.lake import LakeConnection


def is_sent() -> bool:
    """Return whether OpenLineage's provider is installed here, and sends events."""
    try:
        from airflow.providers.openlineage import conf
    except ImportError:
        return False
    return not conf.is_disabled()


def lineage_of(spec: PipelineSpec, wave: LandedWave) -> WaveLineage:
    """Gather what a committed wave read and wrote: one look at its table."""
    return WaveLineage(
        pipeline=spec.name,
        wave=wave.record.id,
        attempt=wave.attempt.attempt if wave.attempt else None,
        kafka=kafka_namespace(KafkaConnection(spec.kafka_connection).settings.bootstrap),
        topics=topics_read(wave.ranges),
        table=wave.record.table,
        described=LakeConnection(spec.lake_connection).describe(wave.record.table),
        snapshot=wave.record.snapshot,
        rows=wave.rows,
        bytes=wave.bytes,
        application=wave.application.id if wave.application else None,
    )


class WithLineage:
    """A task that landed a wave; `kafka_lake_lineage` is there once it has."""

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002  # the provider's signature
        """Return `OperatorLineage` with the topics and the table; nothing where the task has landed nothing."""
        found: WaveLineage | None = getattr(self, "kafka_lake_lineage", None)
        return None if found is None else operator_lineage(found)


def operator_lineage(found: WaveLineage) -> Any:
    """Return a wave's lineage in the provider's form."""
    from airflow.providers.openlineage.extractors import OperatorLineage

    return OperatorLineage(
        inputs=[_topic(found.kafka, topic) for topic in found.topics],
        outputs=[_table(found)],
        run_facets={"kafkaLake_wave": _facets()["wave"](**_wave(found))},
    )


def parent_properties(context: Mapping[str, Any]) -> dict[str, str]:
    """Return the Spark settings that name a task as the parent of its Spark application; none without the provider."""
    from airflow.providers.common.compat.openlineage.utils.spark import (
        inject_parent_job_information_into_spark_properties as injected,
    )

    return {key: str(value) for key, value in injected({}, context).items()}


def _topic(namespace: str, topic: TopicRead) -> Any:
    from openlineage.client.event_v2 import InputDataset
    from openlineage.client.facet_v2 import input_statistics_input_dataset

    return InputDataset(
        namespace=namespace,
        name=topic.topic,
        inputFacets={
            "inputStatistics": input_statistics_input_dataset.InputStatisticsInputDatasetFacet(rowCount=topic.rows),
            "kafkaLake_offsets": _facets()["offsets"](**_offsets(topic)),
        },
    )


def _table(found: WaveLineage) -> Any:
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import (
        dataset_version_dataset,
        output_statistics_output_dataset,
        schema_dataset,
        storage_dataset,
        symlinks_dataset,
    )

    named = name_of_location(found.described.location)
    fields = [
        schema_dataset.SchemaDatasetFacetFields(name=item.name, type=item.type, description=item.doc)
        for item in found.described.columns
    ]
    facets: dict[str, Any] = {
        "schema": schema_dataset.SchemaDatasetFacet(fields=fields),
        "storage": storage_dataset.StorageDatasetFacet(
            storageLayer=found.described.format, fileFormat=found.described.file_format
        ),
    }
    if found.snapshot is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(found.snapshot))
    if found.described.catalog:
        identifier = symlinks_dataset.Identifier(
            namespace=catalog_namespace(found.described.catalog), name=found.table, type="TABLE"
        )
        facets["symlinks"] = symlinks_dataset.SymlinksDatasetFacet(identifiers=[identifier])
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=found.rows, size=found.bytes
    )
    return OutputDataset(
        namespace=named.namespace, name=named.name, facets=facets, outputFacets={"outputStatistics": statistics}
    )


def _offsets(topic: TopicRead) -> dict[str, Any]:
    return {
        "topicId": topic.topic_id,
        "offsets": topic.offsets,
        "rangeCount": len(topic.slices),
        "ranges": [
            {"partition": partition, "from": start, "to": end} for partition, start, end in topic.slices[:MOST_SLICES]
        ],
    }


def _wave(found: WaveLineage) -> dict[str, Any]:
    return {
        "pipeline": found.pipeline,
        "wave": found.wave,
        "attempt": found.attempt,
        "sparkApplication": found.application,
    }


@cache
def _facets() -> dict[str, Any]:
    """Return facets of our own: which offsets were read, and which wave it was."""
    import attr
    from openlineage.client.facet_v2 import InputDatasetFacet, RunFacet

    @attr.define
    class KafkaLakeOffsetsInputDatasetFacet(InputDatasetFacet):
        topicId: str  # noqa: N815  # OpenLineage's spelling
        offsets: int
        rangeCount: int  # noqa: N815
        ranges: list[dict[str, int]]

    @attr.define
    class KafkaLakeWaveRunFacet(RunFacet):
        pipeline: str
        wave: str
        attempt: str | None
        sparkApplication: str | None  # noqa: N815

    return {"offsets": KafkaLakeOffsetsInputDatasetFacet, "wave": KafkaLakeWaveRunFacet}
