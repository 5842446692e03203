"""Write what one new snapshot on main consists of: its manifest, its manifest list, its summary."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.manifest import (
    DataFile,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotSummaryCollector, Summary, update_snapshot_summaries

from airflow_kafka_lake.adapters.iceberg.commit_time import commit_time_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A snapshot to be: its id, and the manifest of the files it will add, already written.

    Writing the manifest is the long part (seconds for many thousand files) and does not depend on main, so it happens
    before main is loaded, and once for all tries.
    """

    snapshot_id: int
    manifest: ManifestFile | None
    files: tuple[DataFile, ...]
    spec_id: int | None


def prepare(table: Table, files: Sequence[DataFile]) -> Prepared:
    """Write the manifest for some data files of one partition spec; none for an empty commit."""
    snapshot_id = table.metadata.new_snapshot_id()
    if not files:
        return Prepared(snapshot_id=snapshot_id, manifest=None, files=(), spec_id=None)
    spec = table.metadata.specs()[files[0].spec_id]
    path = table.location_provider().new_metadata_location(f"{uuid.uuid4()}-m0.avro")
    with write_manifest(
        format_version=table.metadata.format_version,
        spec=spec,
        schema=table.schema(),
        output_file=table.io.new_output(path),
        snapshot_id=snapshot_id,
        avro_compression=_compression(table.metadata),
    ) as writer:
        for file in files:
            writer.add(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED,
                    snapshot_id=snapshot_id,
                    sequence_number=None,
                    file_sequence_number=None,
                    data_file=file,
                )
            )
    return Prepared(
        snapshot_id=snapshot_id, manifest=writer.to_manifest_file(), files=tuple(files), spec_id=spec.spec_id
    )


def write_snapshot(table: Table, prepared: Prepared, summary: Mapping[str, str], now_ms: int) -> Snapshot:
    """Write the manifest list of main plus the prepared files, as of this load of the table."""
    metadata = table.metadata
    parent = metadata.current_snapshot()
    manifests = [] if prepared.manifest is None else [prepared.manifest]
    if parent is not None:
        manifests += [m for m in parent.manifests(table.io) if m.has_added_files() or m.has_existing_files()]
    name = f"snap-{prepared.snapshot_id}-0-{uuid.uuid4()}.avro"
    path = table.location_provider().new_metadata_location(name)
    sequence_number = metadata.next_sequence_number()
    with write_manifest_list(
        format_version=metadata.format_version,
        output_file=table.io.new_output(path),
        snapshot_id=prepared.snapshot_id,
        parent_snapshot_id=parent.snapshot_id if parent else None,
        sequence_number=sequence_number,
        avro_compression=_compression(metadata),
    ) as writer:
        writer.add_manifests(manifests)
    return Snapshot.model_validate(
        {
            "snapshot-id": prepared.snapshot_id,
            "parent-snapshot-id": parent.snapshot_id if parent else None,
            "sequence-number": sequence_number,
            "timestamp-ms": commit_time_ms(metadata, now_ms),
            "manifest-list": path,
            "summary": _summary(metadata, prepared, summary, parent),
            "schema-id": metadata.current_schema_id,
        }
    )


def _summary(
    metadata: TableMetadata, prepared: Prepared, summary: Mapping[str, str], parent: Snapshot | None
) -> Summary:
    limit = int(metadata.properties.get(TableProperties.WRITE_PARTITION_SUMMARY_LIMIT, "0"))
    collector = SnapshotSummaryCollector(partition_summary_limit=limit)
    for file in prepared.files:
        collector.add_file(data_file=file, schema=metadata.schema(), partition_spec=metadata.specs()[file.spec_id])
    return update_snapshot_summaries(
        summary=Summary(operation=Operation.APPEND, **collector.build(), **summary),
        previous_summary=parent.summary if parent else None,
    )


def _compression(metadata: TableMetadata) -> AvroCompressionCodec:
    named = metadata.properties.get(
        TableProperties.WRITE_AVRO_COMPRESSION, TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT
    )
    return cast(AvroCompressionCodec, named)
