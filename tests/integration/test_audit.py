"""`kafka-lake audit` on a real table and ledger that a person has edited: whatever was done to them is named."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.cli.entry_point import main
from airflow_kafka_lake.core.audit.check import Finding
from airflow_kafka_lake.core.errors import DamagedTableError
from airflow_kafka_lake.core.offsets import OffsetRange, Slice
from airflow_kafka_lake.services.identity import known_spec
from airflow_kafka_lake.services.pipeline_audit import gather_audit
from tests.contracts.lake_worlds import NAME, IcebergWorld
from tests.kit.clock import FakeClock
from tests.kit.history_check import check
from tests.kit.memory_runner import MemoryRunner
from tests.kit.operations import operations
from tests.kit.producers_truth import Evidence
from tests.kit.recorder import Recording, read
from tests.pyiceberg_jobs import TableJobs
from tests.sandbox import Ended
from tests.world import World

PIPELINE = "orders"
ROWS = 200


class Place:
    """A pipeline that has landed two waves: SQLite ledger, Iceberg table; only Kafka and Spark are not real.

    Ledger and catalog are put back after each mischief.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.lake = IcebergWorld(home)
        self.ledger = home / "ledger.db"
        self.history = home / "history"
        self._kept = [self.ledger, home / "catalog.db"]

    def land(self) -> None:
        """Bring two waves of two partitions into the lake, with their history."""
        world = World(partitions=2, clock=FakeClock(SystemClock().now()))  # the ledger has a clock of its own
        ledger = SqlLedger(f"sqlite:///{self.ledger}")
        runner = MemoryRunner(world.kafka, TableJobs(self.lake.lake.catalog.load))
        worker = replace(world.worker(), ledger=ledger, lake=self.lake.lake, runner=runner)
        for _ in range(2):
            for partition in range(2):
                world.produce(ROWS // 4, partition)
            assert world.run(worker=Recording(self.history).ports(worker)).exit_code == 0
        ledger.close()
        self.lake.lake.close()
        for path in self._kept:
            shutil.copy(path, path.with_suffix(".kept"))

    def put_back(self) -> None:
        """Restore ledger and catalog: files that a commit wrote stay, and nothing points to them."""
        self.lake.lake.close()
        for path in self._kept:
            for log in path.parent.glob(f"{path.name}-*"):
                log.unlink()
            shutil.copy(path.with_suffix(".kept"), path)

    def settle_in(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        """Take the place's connections, and nothing of the user who runs the tests."""
        lake = {
            "format": "iceberg",
            "catalog": "sql",
            "uri": f"sqlite:///{self.home}/catalog.db",
            "warehouse": f"file://{self.home}/warehouse",
        }
        kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}
        for name in [name for name in os.environ if name.startswith(("AIRFLOW", "KAFKA_LAKE"))]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("AIRFLOW_HOME", str(self.home / "airflow"))
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
        monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps({"conn_type": "lake", "extra": lake}))
        ledger = {"conn_type": "sqlite", "host": str(self.ledger)}
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_LAKE_LEDGER", json.dumps(ledger))
        self._capsys = capsys

    def command(self, *words: str) -> Ended:
        """Run a command here, in this process: a dozen of them cost seconds."""
        self._capsys.readouterr()
        code = main(words)
        out, err = self._capsys.readouterr()
        return Ended(code, out, err)

    def judged(self) -> tuple[Finding, ...]:
        """Return what the checker finds that knows the history of the runs too."""
        ledger = SqlLedger(f"sqlite:///{self.ledger}")
        with closing(ledger):
            spec = known_spec(ledger, PIPELINE)
            inputs = Evidence.of(gather_audit(ledger, self.lake.lake, spec), at_rest=True)
            return check(inputs, operations(read(self.history)))

    def audit(self, *words: str) -> Ended:
        """`kafka-lake audit orders --json`."""
        return self.command("audit", PIPELINE, "--json", *words)

    def kinds(self) -> set[str]:
        """Return the kinds of findings; an audit that found something says so by its exit code."""
        ended = self.audit()
        assert "findings" in ended.document, ended.out
        found = {item["kind"] for item in ended.document["findings"]}
        assert (ended.code, ended.document["ok"]) == (1 if found else 0, not found), ended.err
        return found

    def sql(self, statement: str) -> None:
        """Edit the ledger."""
        with closing(sqlite3.connect(self.ledger)) as connection, connection:
            assert connection.execute(statement).rowcount > 0


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Two hundred records in two waves."""
    place = Place(tmp_path_factory.mktemp("audited"))
    place.land()
    return place


@pytest.fixture
def place(landed: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Place]:
    """The place as it was before the last mischief."""
    landed.settle_in(monkeypatch, capsys)
    yield landed
    landed.put_back()


def test_a_sound_place_has_no_finding(place: Place) -> None:
    """Ledger, lake, receipts and the history of the runs agree."""
    ended = place.audit()
    assert place.judged() == ()
    assert (ended.code, ended.document["findings"]) == (0, []), ended.out
    assert sum(stream["rows"] for stream in ended.document["streams"]) == ROWS
    people = place.command("audit", PIPELINE)
    assert people.code == 0
    assert "nothing that landed is missing, twice or unexplained" in people.out


def test_people_read_where_every_offset_went(place: Place) -> None:
    """One sentence for each stream, and one for all."""
    words = "visible, 0 markers, 0 aborted, 0 compacted, 0 skipped, 0 unexplained"
    people = place.command("audit", PIPELINE)
    assert people.out.count(f"of [0, 100): 100 {words}") == 2
    assert f"of 200 offsets of 2 partitions: 200 {words}" in people.out


def test_rows_deleted_on_purpose_are_recorded(place: Place) -> None:
    """Missing until a person says why; shown first, recorded once."""
    place.lake.load().delete("kafka_partition = 0 and kafka_offset < 10")
    (found,) = place.audit().document["findings"]
    assert "kafka-lake accept-deletes orders --topic orders --partition 0 --from 0 --to" in found["message"]
    words = ("accept-deletes", PIPELINE, "--topic", "orders", "--from", "0", "--to", "90", "--reason", "90 days")
    shown = place.command(*words, "--dry-run", "--json")
    assert (shown.code, shown.document["rows"], shown.document["decision"]) == (0, 10, None), shown.out
    done = place.command(*words)
    assert done.code == 0, done.err
    assert "orders/0: 10 rows deleted on purpose" in done.out
    audited = place.audit()
    assert (audited.code, audited.document["findings"], audited.document["totals"]["deleted"]) == (0, [], 10)
    assert audited.document["streams"][0]["sentence"].endswith(
        "90 visible, 0 markers, 0 aborted, 0 compacted, 0 skipped, 10 deleted, 0 unexplained"
    )
    again = place.command(*words, "--json")
    assert (again.code, again.document["error"]["type"]) == (1, "StateError")
    wrong = place.command("accept-deletes", PIPELINE, "--from", "5", "--to", "5", "--reason", "x", "--json")
    assert (wrong.code, wrong.document["error"]["type"]) == (2, "UsageError")


def test_a_part_is_audited_alone(place: Place) -> None:
    """What is wrong elsewhere is left out; a stream that is not there is refused."""
    delete_some(place)
    assert place.audit("--partition", "1").code == 0
    ended = place.audit("--topic", "orders", "--partition", "0", "1")
    assert (ended.code, len(ended.document["streams"])) == (1, 2)
    ended = place.audit("--partition", "7")
    assert (ended.code, ended.document["error"]["type"]) == (1, "UnknownSubjectError")


@pytest.mark.parametrize("file", ["no/folder/report.html", "."])
def test_a_report_that_cannot_be_written_is_refused_first(place: Place, file: str) -> None:
    """Before anything is read."""
    ended = place.audit("--report", str(place.home / file))
    assert (ended.code, ended.document["error"]["type"]) == (2, "UsageError")


def delete_some(place: Place) -> None:
    place.lake.load().delete("kafka_partition = 0 and kafka_offset >= 10 and kafka_offset < 13")


def delete_all(place: Place) -> None:
    place.lake.load().delete("kafka_offset >= 0")


def append_again(place: Place) -> None:
    table = place.lake.load()
    table.append(table.scan("kafka_partition = 1 and kafka_offset < 5").to_arrow())


def append_a_file_again(place: Place) -> None:
    table = place.lake.load()
    file = next(iter(table.scan("kafka_partition = 1").plan_files())).file.file_path
    table.add_files([file], check_duplicate_files=False)


def edited(place: Place, column: str, change: Callable[[Any], Any], where: str) -> None:
    """Write some rows anew with one column changed, as an UPDATE does."""
    table = place.lake.load()
    rows = table.scan(where).to_arrow()
    index = rows.schema.get_field_index(column)
    table.delete(where)
    table.append(rows.set_column(index, rows.schema.field(column), change(rows.column(column))))


def move_rows(place: Place) -> None:
    """Rows of the first wave go to where none was published yet."""
    import pyarrow.compute as pc

    edited(place, "kafka_offset", lambda column: pc.add(column, 1000), "kafka_partition = 0 and kafka_offset < 5")


def move_to_another_partition(place: Place) -> None:
    import pyarrow.compute as pc

    moved = lambda column: pc.add(column, 7).cast(column.type)  # noqa: E731
    edited(place, "kafka_partition", moved, "kafka_partition = 0 and kafka_offset < 5")


def forget_whose(place: Place) -> None:
    import pyarrow as pa

    none = lambda column: pa.nulls(len(column), column.type)  # noqa: E731
    edited(place, "ingest_attempt", none, "kafka_partition = 0 and kafka_offset < 5")


def append_foreign(place: Place) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    table = place.lake.load()
    rows = table.scan("kafka_partition = 1 and kafka_offset < 5").to_arrow()
    moved = pc.add(rows.column("kafka_offset"), 1000)
    rows = rows.set_column(rows.schema.get_field_index("kafka_offset"), rows.schema.field("kafka_offset"), moved)
    unknown = pa.array(["f" * 16] * len(rows), rows.schema.field("ingest_attempt").type)
    table.append(rows.set_column(rows.schema.get_field_index("ingest_attempt"), "ingest_attempt", unknown))


def roll_back(place: Place) -> None:
    first = next(c for c in place.lake.table.commits() if c.token and c.token.kind == "publish")
    place.lake.roll_back(first.snapshot)


def move_watermark(place: Place) -> None:
    place.sql("UPDATE kafka_lake_stream SET watermark = watermark + 7 WHERE partition = 0")


def move_watermark_back(place: Place) -> None:
    place.sql("UPDATE kafka_lake_stream SET watermark = watermark - 7 WHERE partition = 0")


def make_a_hole(place: Place) -> None:
    place.sql("DELETE FROM kafka_lake_range WHERE start_offset = 0")


def forget_receipts(place: Place) -> None:
    place.lake.catalog.load_table(f"{NAME}__receipts").delete("kind = 'rows'")


MISCHIEF: dict[str, tuple[Callable[[Place], None], set[str]]] = {
    "some rows deleted": (delete_some, {"lost"}),
    "all rows deleted": (delete_all, {"lost", "token-without-rows"}),
    "rows appended again": (append_again, {"duplicate"}),
    "file appended again": (append_a_file_again, {"duplicate"}),
    "rows moved to other offsets": (move_rows, {"lost", "inconsistent", "visible-before-accounted"}),
    "rows moved to another partition": (
        move_to_another_partition,
        {"lost", "inconsistent", "visible-before-accounted"},
    ),
    "rows that forgot their attempt": (forget_whose, {"visible-without-token"}),
    "rows of no attempt": (append_foreign, {"visible-without-token"}),
    "table rolled back": (roll_back, {"lost", "inconsistent"}),
    "watermark edited": (move_watermark, {"watermark-ahead"}),
    "watermark edited back": (move_watermark_back, {"watermark-back"}),
    "receipts deleted": (forget_receipts, {"visible-before-accounted"}),
}


@pytest.mark.parametrize("what", MISCHIEF)
def test_audit_names_what_was_done(place: Place, what: str) -> None:
    """Exactly what was done, and nothing else."""
    mischief, expected = MISCHIEF[what]
    mischief(place)
    assert place.kinds() == expected


def test_a_range_that_vanished_from_the_ledger_is_a_hole(place: Place) -> None:
    """The watermark stands on nothing, and its rows belong to no wave."""
    make_a_hole(place)
    assert "watermark-ahead" in place.kinds()


def test_a_data_file_deleted_by_hand_is_lost(place: Place) -> None:
    """It is named, and what could not be counted is not a number; people see it too. To repeat a reopen cannot help."""
    table = place.lake.lake.table(NAME)
    everything = [Slice(rows.stream, OffsetRange(0, 1000)) for rows in table.attempt_rows()]
    file = Path(next(iter(place.lake.load().scan().plan_files())).file.file_path.removeprefix("file:"))
    kept = file.read_bytes()
    file.unlink()
    try:
        ended = place.audit()
        people = place.command("audit", PIPELINE)
        with pytest.raises(DamagedTableError, match=f"{file.name}. Restore that"):
            table.visible(everything)
    finally:
        file.write_bytes(kept)
    (finding,) = ended.document["findings"]
    assert (ended.code, finding["kind"], finding["table"]) == (1, "lost", NAME)
    assert file.name in finding["message"]
    assert {stream["rows"] for stream in ended.document["streams"]} == {None}
    assert people.code == 1
    assert "the audit failed" in people.out
    assert "missing or cannot be read" in people.out
