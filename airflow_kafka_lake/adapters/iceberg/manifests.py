"""What one new snapshot of main consists of: manifests (small ones merged), the manifest list, the summary."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotSummaryCollector, Summary, update_snapshot_summaries

from airflow_kafka_lake.adapters.iceberg.changes import commit_time_ms

MOST_SMALL = 50
"""Spark merges from a hundred on: with fewer, its staging commits, whose manifests main never gets, merge nothing."""

LARGEST_SMALL_BYTES = 2 * 1024 * 1024
MOST_BYTES = 8 * 1024 * 1024
"""Iceberg's own target of a manifest. One merge reads no more, whatever the length of the history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """One manifest with the entries of several; it replaces them if main still has all of them."""

    paths: frozenset[str]
    manifest: ManifestFile

    def applied(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """Return main's manifests with the merged one, or unchanged when main lacks one of its sources."""
        if not self.paths <= {item.manifest_path for item in manifests}:
            return list(manifests)
        return [*(item for item in manifests if item.manifest_path not in self.paths), self.manifest]


def to_merge(table: Table) -> tuple[ManifestFile, ...]:
    """Return main's smallest data manifests when they are too many, as many as one manifest may hold; else none."""
    snapshot = table.metadata.current_snapshot()
    small = sorted(
        (
            item
            for item in (snapshot.manifests(table.io) if snapshot else ())
            if item.content is ManifestContent.DATA
            and item.partition_spec_id == table.metadata.default_spec_id
            and item.manifest_length <= LARGEST_SMALL_BYTES
        ),
        key=lambda item: item.manifest_length,
    )
    if len(small) < MOST_SMALL:
        return ()
    found: list[ManifestFile] = []
    size = 0
    for item in small:
        if found and size + item.manifest_length > MOST_BYTES:
            break
        found.append(item)
        size += item.manifest_length
    return tuple(found)


def entries_of(table: Table, manifests: Sequence[ManifestFile]) -> Iterator[ManifestEntry]:
    """Return the entries of some manifests as existing files: each keeps its snapshot and sequence number."""
    for manifest in manifests:
        for entry in manifest.fetch_manifest_entry(table.io):
            yield ManifestEntry.from_args(
                status=ManifestEntryStatus.EXISTING,
                snapshot_id=entry.snapshot_id,
                sequence_number=entry.sequence_number,
                file_sequence_number=entry.file_sequence_number,
                data_file=entry.data_file,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A snapshot to be written: its id, the manifest of the files that it adds, already written, and the files that it
    removes.

    If files are added, main's small manifests are merged where that is due. Writing manifests takes longest (seconds
    for many thousand files) and does not depend on the head, so it happens once for all tries, before the head is
    loaded. `without` caches, by path, main's manifests rewritten without the removed files, for the next try.
    """

    snapshot_id: int
    manifest: ManifestFile | None
    files: tuple[DataFile, ...]
    spec_id: int | None
    removed: tuple[DataFile, ...] = ()
    merge: Merge | None = None
    without: dict[str, ManifestFile] = field(default_factory=dict, compare=False)


def prepare(table: Table, files: Sequence[DataFile], removed: Sequence[DataFile] = ()) -> Prepared:
    """Write the manifest for some data files of one partition spec; none for a commit that adds nothing."""
    snapshot_id, removed_files = table.metadata.new_snapshot_id(), tuple(removed)
    if not files:
        return Prepared(snapshot_id=snapshot_id, manifest=None, files=(), spec_id=None, removed=removed_files)
    spec = table.metadata.specs()[files[0].spec_id]
    added = (
        ManifestEntry.from_args(
            status=ManifestEntryStatus.ADDED,
            snapshot_id=snapshot_id,
            sequence_number=None,
            file_sequence_number=None,
            data_file=file,
        )
        for file in files
    )
    return Prepared(
        snapshot_id=snapshot_id,
        manifest=_write_manifest(table, spec, snapshot_id, added),
        files=tuple(files),
        spec_id=spec.spec_id,
        removed=removed_files,
        merge=None if removed_files else _merge(table, snapshot_id),
    )


def _merge(table: Table, snapshot_id: int) -> Merge | None:
    chosen = to_merge(table)
    if not chosen:
        return None
    manifest = _write_manifest(table, table.spec(), snapshot_id, entries_of(table, chosen))
    return Merge(paths=frozenset(item.manifest_path for item in chosen), manifest=manifest)


def _write_manifest(
    table: Table, spec: PartitionSpec, snapshot_id: int, entries: Iterable[ManifestEntry]
) -> ManifestFile:
    path = table.location_provider().new_metadata_location(f"{uuid.uuid4()}-m0.avro")
    with write_manifest(
        format_version=table.metadata.format_version,
        spec=spec,
        schema=table.schema(),
        output_file=table.io.new_output(path),
        snapshot_id=snapshot_id,
        avro_compression=_compression(table.metadata),
    ) as writer:
        for entry in entries:
            writer.add_entry(entry)
    return writer.to_manifest_file()


def write_snapshot(table: Table, prepared: Prepared, summary: Mapping[str, str], now_ms: int) -> Snapshot:
    """Write the manifest list of main plus the prepared files, less the removed ones, as of this load of the table."""
    metadata = table.metadata
    parent = metadata.current_snapshot()
    manifests = [] if prepared.manifest is None else [prepared.manifest]
    if parent is not None:
        alive = [m for m in parent.manifests(table.io) if m.has_added_files() or m.has_existing_files()]
        if prepared.removed:
            alive = _without_removed(table, prepared, alive)
        manifests += prepared.merge.applied(alive) if prepared.merge else alive
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


def _without_removed(table: Table, prepared: Prepared, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
    """Return main's manifests; those that name a removed file are rewritten with the file as deleted."""
    removed = {file.file_path for file in prepared.removed}
    found = []
    for manifest in manifests:
        path = manifest.manifest_path
        if path not in prepared.without:
            prepared.without[path] = manifest
            entries = manifest.fetch_manifest_entry(table.io) if manifest.content is ManifestContent.DATA else []
            if any(entry.data_file.file_path in removed for entry in entries):
                spec = table.metadata.specs()[manifest.partition_spec_id]
                kept = (_kept_or_deleted(entry, removed, prepared.snapshot_id) for entry in entries)
                prepared.without[path] = _write_manifest(table, spec, prepared.snapshot_id, kept)
        found.append(prepared.without[path])
    return found


def _kept_or_deleted(entry: ManifestEntry, removed: Collection[str], snapshot_id: int) -> ManifestEntry:
    deleted = entry.data_file.file_path in removed
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.DELETED if deleted else ManifestEntryStatus.EXISTING,
        snapshot_id=snapshot_id if deleted else entry.snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )


def _summary(
    metadata: TableMetadata, prepared: Prepared, summary: Mapping[str, str], parent: Snapshot | None
) -> Summary:
    limit = int(metadata.properties.get(TableProperties.WRITE_PARTITION_SUMMARY_LIMIT, "0"))
    collector = SnapshotSummaryCollector(partition_summary_limit=limit)
    for file in prepared.files:
        collector.add_file(data_file=file, schema=metadata.schema(), partition_spec=metadata.specs()[file.spec_id])
    for file in prepared.removed:
        collector.remove_file(data_file=file, schema=metadata.schema(), partition_spec=metadata.specs()[file.spec_id])
    operation = Operation.OVERWRITE if prepared.removed else Operation.APPEND
    return update_snapshot_summaries(
        summary=Summary(operation=operation, **collector.build(), **summary),
        previous_summary=parent.summary if parent else None,
    )


def _compression(metadata: TableMetadata) -> AvroCompressionCodec:
    named = metadata.properties.get(
        TableProperties.WRITE_AVRO_COMPRESSION, TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT
    )
    return cast(AvroCompressionCodec, named)
