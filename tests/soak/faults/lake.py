"""What others do to the same table at the same time: compaction, expiry, orphan removal, rows of their own."""

from __future__ import annotations

import itertools
import os
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from pyiceberg.exceptions import RESTError

from tests.soak.faults.strike import Fault
from tests.soak.lanes import TABLE
from tests.soak.maintenance import spark_sql
from tests.soak.place import Place

OLD_SECONDS = 900
DAYS_AGO = 5


def is_there(place: Place) -> bool:
    """Return whether the table is known to be there; False where another fault has ended the catalog."""
    with suppress(OSError, RESTError):  # the errors of a client's HTTP library are of the first kind
        return place.catalog().table_exists(TABLE)
    return False


class Maintenance(Fault):
    """SQL that a table's owner runs."""

    every = 15.0

    def statements(self) -> list[str]:
        """Return what is run."""
        raise NotImplementedError

    def strike(self) -> bool:
        """Run it in a Spark of its own; whether it gets through beside the other faults is its own affair."""
        if not is_there(self.scene.place):
            return False
        spark_sql(self.scene.place, *self.statements())
        return True


class Compaction(Maintenance):
    """Small files become large ones."""

    name = "compaction"
    words = "Spark rewrites the table's files (rewrite_data_files, rewrite_manifests)"

    def statements(self) -> list[str]:
        """Return what is run."""
        options = "map('rewrite-all','true','partial-progress.enabled','true','partial-progress.max-commits','2')"
        return [
            f"CALL lake.system.rewrite_data_files(table => '{TABLE}', options => {options})",
            f"CALL lake.system.rewrite_manifests('{TABLE}')",
        ]


class SnapshotExpiry(Maintenance):
    """History ends: tokens of published waves are gone."""

    name = "snapshot-expiry"
    words = "Spark expires all snapshots but the last one, of the table and of its receipts"

    def statements(self) -> list[str]:
        """Return what is run."""
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
        return [
            f"CALL lake.system.expire_snapshots(table => '{table}', older_than => TIMESTAMP '{now}', retain_last => 1)"
            for table in (TABLE, f"{TABLE}__receipts")
        ]


class OrphanRemoval(Maintenance):
    """Files that no metadata names are removed; ours are named, however old they look."""

    name = "orphan-removal"
    words = "every file of the last quarter of an hour apart looks five days old; Spark removes the orphans"

    def strike(self) -> bool:
        """Make files look old, also some that no snapshot needs, and remove the orphans."""
        data = self.scene.place.home / "warehouse" / TABLE.replace(".", "/") / "data"
        if not data.is_dir():
            return False
        now, then = time.time(), time.time() - DAYS_AGO * 86_400
        with suppress(OSError):  # another fault may have filled the disk
            (data / f"forgotten-{time.time_ns()}.parquet").write_bytes(b"orphan")
        for path in [*data.rglob("*"), *data.with_name("metadata").glob("*")]:
            if path.name.startswith("forgotten") or now - path.stat().st_mtime > OLD_SECONDS:
                os.utime(path, (then, then))
        return super().strike()

    def statements(self) -> list[str]:
        """Return what is run."""
        before = (datetime.now(UTC) - timedelta(days=3)).strftime("%Y-%m-%d %H:%M:%S")
        return [f"CALL lake.system.remove_orphan_files(table => '{TABLE}', older_than => TIMESTAMP '{before}')"]


class LiveWriter(Fault):
    """Another program writes rows into the same table."""

    name = "live-writer"
    words = "another program appends rows of its own to the same table"
    every = 2.0
    _numbers = itertools.count()

    def strike(self) -> bool:
        """Append a few rows."""
        import pyarrow as pa

        place = self.scene.place
        if not is_there(place):
            return False
        number = next(self._numbers)
        row = {"kafka_topic": "foreign", "kafka_topic_id": "foreign", "kafka_partition": 0, "kafka_offset": number}
        try:
            table = place.table()
            schema = table.schema().as_arrow()
            filled = {
                field.name: row.get(field.name, "foreign" if pa.types.is_large_string(field.type) else None)
                for field in schema
            }
            table.append(pa.Table.from_pylist([filled], schema=schema))
        except Exception as error:  # noqa: BLE001  # a busy table refuses a writer now and then
            place.journal("foreign row refused", number=number, error=f"{type(error).__name__}: {error}"[:300])
            return False
        place.foreign.add(number)
        return True


LAKE_FAULTS = (Compaction, SnapshotExpiry, OrphanRemoval, LiveWriter)
