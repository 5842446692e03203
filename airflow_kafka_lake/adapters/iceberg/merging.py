"""Keep the number of main's manifests bounded: many small ones become one, as part of a commit that adds files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table

MOST_SMALL = 50
"""Fewer than the hundred from which on Spark merges: its staging commits, which main never sees, find nothing to do."""

LARGEST_SMALL_BYTES = 2 * 1024 * 1024
MOST_BYTES = 8 * 1024 * 1024
"""Iceberg's own target of a manifest. One merge reads no more, whatever the length of the history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """One manifest with the entries of several; it takes their place on a main that still has all of them."""

    paths: frozenset[str]
    manifest: ManifestFile

    def applied(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """Return main's manifests with the merged one, or as they are when one of its sources is gone."""
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
    """Return the files that some manifests hold, as files that were there before: each keeps its own commit."""
    for manifest in manifests:
        for entry in manifest.fetch_manifest_entry(table.io):
            yield ManifestEntry.from_args(
                status=ManifestEntryStatus.EXISTING,
                snapshot_id=entry.snapshot_id,
                sequence_number=entry.sequence_number,
                file_sequence_number=entry.file_sequence_number,
                data_file=entry.data_file,
            )
