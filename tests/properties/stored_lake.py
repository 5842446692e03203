"""The lake of generated histories in a REST catalog: what a history does to it, and sees of it past all faults."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.exceptions import NoSuchNamespaceError, RESTError
from pyiceberg.expressions import And, In
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from requests import RequestException

from airflow_kafka_lake.adapters.iceberg.head import head_of, summary_of
from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.iceberg.table import IcebergLake
from airflow_kafka_lake.core.errors import UnavailableError
from airflow_kafka_lake.core.ledger.records import ReceiptRow
from airflow_kafka_lake.core.spec import RECEIPTS_SUFFIX
from airflow_kafka_lake.core.wire import token_from_summary
from airflow_kafka_lake.jobs.formats import STAGED_BY
from tests.catalog_proxy import MAIN, CatalogProxy, _send
from tests.kit.local_lake import LocalLake
from tests.kit.memory_lake import Answer, Row
from tests.kit.memory_lake.store import Commit, Store
from tests.kit.rest_catalog import RestCatalogServer
from tests.pyiceberg_jobs import TableJobs, landed, position

SPECS = ("kafka_topic", "kafka_partition", "ingest_attempt")
"""Columns that a changed partition spec takes in, one after the other."""
LIED, STALE = HTTPStatus.OK, -1
BREAKS: Mapping[Answer, tuple[int | None, ...]] = {
    Answer.LOST_LANDED: (None, 409, 500, 502, 503, 504, STALE),
    Answer.LOST: (None, LIED, 400, 429, 500, 502, 503, 504),
    Answer.LATE: (None, 500, 502, 504),
}
"""What a catalog, or a gateway before it, answers where an answer is lost: None is none, 409 a commit that was sent
twice, STALE the right answer, before loads of a cache that does not know of it."""
STALE_LOADS = (1, 2, 3)
BESIDE_RECEIPTS = (False, False, True)
"""Whether the answer to the next commit of receipts breaks too."""


@dataclass
class HistoryProxy(CatalogProxy):
    """A catalog that is out of reach when a history says so, and counts what may have changed a table."""

    down: bool = False
    writes: Counter[str] = field(default_factory=Counter)
    lag: Lag | None = None

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes] | None:
        if self.down:
            return None
        try:
            return super().answer(method, path, headers, body)
        finally:
            if method not in {"GET", "HEAD"}:
                self.writes[_table(path)] += 1

    def _answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes] | None:
        lag = self.lag
        if lag is not None and lag.table == _table(path):
            if lag.old is not None and method == "GET" and lag.left:
                lag.left -= 1
                return lag.old
            if lag.old is None and method == "POST" and MAIN in _refs_of(body):
                lag.old = _send(self.target, "GET", path, headers, b"")
                lag.sprung += 1
        return super()._answer(method, path, headers, body)


@dataclass
class Lag:
    """The next commit to main of a table is done and answered, and some loads after it are from before it."""

    table: str
    left: int
    old: tuple[int, bytes] | None = None
    sprung: int = 0


def _table(path: str) -> str:
    return path.partition("?")[0].rpartition("/")[2]


def _refs_of(body: bytes) -> set[str]:
    updates = json.loads(body or b"{}").get("updates", ())
    return {item["ref-name"] for item in updates if item["action"] == "set-snapshot-ref"}


@dataclass
class Armed:
    """An answer that breaks at the next commit to main; `trap.sprung` says whether there was one."""

    answer: Answer
    status: int | None
    trap: Any
    table: str

    def __str__(self) -> str:
        how = {None: "no answer", STALE: "stale loads"}.get(self.status, str(self.status and int(self.status)))
        where = " of receipts" if self.table.endswith(RECEIPTS_SUFFIX) else ""
        return f"{self.answer.name.lower().replace('_', ' ')}{where}, {how}"


class StoredJobs(TableJobs):
    """Jobs that end as a driver does when the catalog does not answer."""

    def begin(self, *told: Any) -> None:
        with reaching():
            super().begin(*told)

    def stage(self, *told: Any, **more: Any) -> None:
        with reaching():
            super().stage(*told, **more)


@contextmanager
def reaching() -> Iterator[None]:
    """Say in the product's words that the catalog gave no answer, or none that a client knows."""
    try:
        yield
    except (RequestException, RESTError) as error:
        raise UnavailableError(f"the catalog did not answer: {type(error).__name__}") from error


class StoredLake:
    """A REST catalog, reached by workers through a proxy, and past it by other engines and by the truth."""

    def __init__(self, server: LocalLake | RestCatalogServer, proxy: HistoryProxy) -> None:
        self.proxy = proxy
        through = server.extra(**proxy.addresses) if isinstance(server, LocalLake) else server.extra(uri=proxy.uri)
        self._opened = IcebergLake(LakeSettings.parse("lake_default", through, *server.login))
        self.past = IcebergLake(LakeSettings.parse("lake_default", server.extra(), *server.login))
        self.catalog = self._opened.catalog

    def of_a_process(self) -> IcebergLake:
        """Return the lake of one more worker: nothing but the connection is shared with others."""
        made = IcebergLake(self._opened.catalog._settings)
        made.catalog = self._opened.catalog
        return made

    @property
    def reachable(self) -> bool:
        """Whether the catalog answers."""
        return not self.proxy.down

    @reachable.setter
    def reachable(self, yes: bool) -> None:
        self.proxy.down = not yes

    def clear(self) -> None:
        """Drop every table."""
        api = self.past.catalog.api
        with suppress(NoSuchNamespaceError):
            for table in api.list_tables("raw"):
                api.drop_table(table)

    def close(self) -> None:
        """Close the connections."""
        self._opened.close()
        self.past.close()


class StoredTable:
    """One table, as `tests.kit.memory_lake.MemoryTable` shows it to histories and lets things happen to it."""

    def __init__(self, identifier: str, lake: StoredLake, dice: random.Random, armed: list[Armed]) -> None:
        self.identifier = identifier
        self._armed = armed
        self._lake, self._dice = lake, dice
        self._past = lake.past.table(identifier)
        self._name = identifier.rpartition(".")[2]
        self._next: list[Armed] = []
        self._files: dict[str, tuple[Row, ...]] = {}
        self._commits: dict[int, Commit] = {}
        self._seen: tuple[int, Store | None] = (-1, None)
        self._receipts_seen: tuple[int, dict[Any, ReceiptRow]] = (-1, {})

    # What there is.

    @property
    def _store(self) -> Store | None:
        written = self._lake.proxy.writes[self._name]
        if self._seen[0] != written:
            table = self._lake.past.catalog.find(self.identifier)
            self._seen = (written, self._read(table) if table else None)
        return self._seen[1]

    @property
    def _receipts(self) -> dict[Any, ReceiptRow]:
        written = self._lake.proxy.writes[self._name + RECEIPTS_SUFFIX]
        if self._receipts_seen[0] != written:
            self._receipts_seen = (written, dict(enumerate(self._past.all_receipts())))
        return self._receipts_seen[1]

    def rows(self) -> tuple[Row, ...]:
        """Return what a reader of main sees."""
        store = self._store
        return store.rows() if store else ()

    def _read(self, table: Table) -> Store:
        head, metadata = head_of(table.metadata), table.metadata
        for snapshot in metadata.snapshots:
            if snapshot.snapshot_id not in self._commits:
                self._commits[snapshot.snapshot_id] = self._commit(table, snapshot)
        return Store(
            uuid=str(metadata.table_uuid),
            refs={name: ref.snapshot_id for name, ref in metadata.refs.items()},
            commits={snapshot.snapshot_id: self._commits[snapshot.snapshot_id] for snapshot in metadata.snapshots},
            owners=head.owners,
            last=head.last,
            lines=head.lines,
        )

    def _commit(self, table: Table, snapshot: Snapshot) -> Commit:
        """Read a snapshot from its files; nothing changes it any more."""
        rows: list[Row] = []
        added: Counter[Row] = Counter()
        for manifest in snapshot.manifests(table.io):
            assert manifest.content is ManifestContent.DATA, manifest
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                found = self._rows_of(table, entry.data_file.file_path)
                is_own = entry.snapshot_id == snapshot.snapshot_id
                if entry.status is ManifestEntryStatus.DELETED:
                    added.subtract(found if is_own else ())
                    continue
                rows += found
                added.update(found if is_own and entry.status is ManifestEntryStatus.ADDED else ())
        summary = summary_of(snapshot)
        return Commit(
            id=snapshot.snapshot_id,
            parent=snapshot.parent_snapshot_id,
            at=datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC),
            spec=0,
            token=token_from_summary(summary),
            staged_by=summary.get(STAGED_BY),
            added=tuple(added.elements()),
            rows=tuple(rows),
        )

    def _rows_of(self, table: Table, path: str) -> tuple[Row, ...]:
        if path not in self._files:
            with table.io.new_input(path).open() as file:
                found = pq.read_table(file).to_pylist()
            self._files[path] = tuple(Row.at(position(row), row["ingest_attempt"] or "") for row in found)
        return self._files[path]

    # What happens to its commits.

    @property
    def next_answer(self) -> Answer:
        """What becomes of the next commit to main."""
        return self._next[0].answer if self._next and not self._next[0].trap.sprung else Answer.GIVEN

    @next_answer.setter
    def next_answer(self, answer: Answer) -> None:
        proxy, untouched = self._lake.proxy, [item.trap for item in self._next if not item.trap.sprung]
        proxy._traps[:] = [trap for trap in proxy._traps if trap not in untouched]
        if proxy.lag in untouched or answer is Answer.GIVEN:
            proxy.lag = None
        self._next = []
        if answer in BREAKS:
            self._arm(answer, self._name)
            if self._dice.choice(BESIDE_RECEIPTS):
                self._arm(self._dice.choice(list(BREAKS)), self._name + RECEIPTS_SUFFIX)

    def _arm(self, answer: Answer, table: str) -> None:
        """Break the answer to the next commit to main of a table."""
        proxy, status = self._lake.proxy, self._dice.choice(BREAKS[answer])
        if status == STALE and proxy.lag is None:
            trap: Any = Lag(table, self._dice.choice(STALE_LOADS))
            proxy.lag = trap
        else:
            status = None if status == STALE else status
            trap = proxy.refuse(status, landed=answer is Answer.LOST_LANDED, table=table, branch=False)
        self._next.append(Armed(answer, status, trap, table))
        self._armed += self._next[-1:]

    def land_late(self) -> None:
        """Let every commit arrive whose answer was lost as LATE."""
        for item in self._armed:
            if item.answer is Answer.LATE:
                item.trap.land()
                self._changed(item.table)

    # What other engines do.

    def write_foreign(self, rows: Iterable[Row] = ()) -> None:
        """Commit to main without a token."""
        table = self._load()
        made = [{**landed(row.position, ""), "ingest_attempt": None} for row in rows]
        table.append(pa.Table.from_pylist(made, schema=table.schema().as_arrow()))
        self._changed()

    def delete_foreign(self, gone: Callable[[Row], bool]) -> None:
        """Delete rows of main, all at the offsets of some partitions."""
        if found := [row for row in self.rows() if gone(row)]:
            partitions, offsets = ({getattr(row, name) for row in found} for name in ("partition", "offset"))
            self._load().delete(And(In("kafka_partition", values=partitions), In("kafka_offset", values=offsets)))
            self._changed()

    def expire(self) -> None:
        """Forget every snapshot that no branch points to."""
        later = datetime.now(UTC) + timedelta(days=1)
        self._load().maintenance.expire_snapshots().older_than(later).commit()
        self._changed()

    def roll_back(self, snapshot: int) -> None:
        """Set main to an earlier snapshot."""
        self._load().manage_snapshots().set_current_snapshot(snapshot_id=snapshot).commit()
        self._changed()

    def change_spec(self) -> None:
        """Change the partition spec: files staged before do not fit any more."""
        table = self._load()
        named = {field.name for field in table.spec().fields}
        if left := [name for name in SPECS if name not in named]:
            with table.update_spec() as update:
                update.add_identity(left[0])
            self._changed()

    def _load(self) -> Table:
        return self._lake.past.catalog.load(self.identifier)

    def _changed(self, table: str = "") -> None:
        self._lake.proxy.writes[table or self._name] += 1
