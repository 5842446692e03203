"""`kafka-lake run` as a user runs it: real Kafka, Spark, Iceberg, a SQLite ledger."""

from __future__ import annotations

import json
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import psutil
import pytest
from pyiceberg.exceptions import NoSuchTableError

from tests.kit import arming
from tests.sandbox import Sandbox

READS_BETWEEN = 3
SECONDS = 60


def _spans(document: dict) -> dict[int, list[list[int]]]:
    return {stream["partition"]: stream["coverage"] for stream in document["streams"]}


def test_second_run_finds_nothing_and_a_third_reads_only_what_is_new(sandbox: Sandbox) -> None:
    """What is committed is not read again; new records are read alone."""
    sandbox.produce(1000)
    first = sandbox.run()
    assert (first.code, first.document["rows"]) == (0, 1000), first.err
    again = sandbox.run()
    assert (again.code, again.document["waves"], again.document["advanced"]) == (0, [], []), again.err
    sandbox.produce(50, begin=1000)
    third = sandbox.run()
    assert (third.code, third.document["rows"]) == (0, 50)
    assert {(move["from"], move["to"]) for move in third.document["advanced"]} == {(500, 525)}
    sandbox.assert_exact()
    audit = sandbox.command("audit", sandbox.name, "--json")
    assert (audit.code, audit.document["ok"]) == (0, True)
    assert [stream["rows"] for stream in audit.document["streams"]] == [525, 525]
    assert not [*(sandbox.home / "warehouse").rglob("*.crc")], "a tenth of the processor that writing takes"
    _another_table_is_not_called_done(sandbox)


def _another_table_is_not_called_done(sandbox: Sandbox) -> None:
    """A file that names another table reads nothing again, and says where everything is instead of being done."""
    moved = sandbox.home / "moved.toml"
    moved.write_text(sandbox.file.read_text().replace(f'table = "{sandbox.table}"', 'table = "raw.moved"'))
    for command in ("plan", "run"):
        shown = sandbox.command(command, str(moved))
        assert shown.code == 1, shown.out
        said = f"1,050 offsets, is in {sandbox.table} and stays there; only new records land in raw.moved"
        assert said in " ".join(shown.out.split()), shown.out
    assert sandbox.command("status", str(moved), "--json").document["tables"] == [sandbox.table]


def test_transactions_markers_and_aborted_records_are_accounted_for(sandbox: Sandbox) -> None:
    """Committed records are visible, aborted ones never; every offset has its number."""
    sandbox.transaction(100, commit=True)
    sandbox.transaction(60, commit=False)
    sandbox.transaction(40, commit=True)
    done = sandbox.run()
    assert done.code == 0, done.err
    sandbox.assert_exact()
    wave = sandbox.command("wave", done.document["waves"][0]["wave"], "--json").document
    totals = {key: sum(item["accounting"][key] for item in wave["ranges"]) for key in wave["ranges"][0]["accounting"]}
    assert totals == {"visible": 140, "control": 6, "aborted": 60, "compacted": 0, "skipped": 0, "unexplained": 0}


@pytest.mark.nightly  # by day: the job (test_stage.py), the accounting (the test before), the watermark (test_holds.py)
def test_a_range_of_markers_alone_is_committed_with_zero_rows(sandbox: Sandbox) -> None:
    """An aborted transaction leaves nothing to see, and the watermark passes it."""
    sandbox.transaction(10, commit=False)
    done = sandbox.run()
    assert (done.code, done.document["rows"]) == (0, 0), done.err
    assert {move["to"] for move in done.document["advanced"]} == {6}
    assert sandbox.run().document["waves"] == []


def test_overlapping_periods_read_only_what_is_missing(sandbox: Sandbox) -> None:
    """A past period is an island; a second one that overlaps reads the rest; following closes the gap."""
    sandbox.produce(400)
    first = sandbox.run("--partition", "0", "--from", "50", "--to", "100")
    assert (first.code, first.document["rows"], first.document["advanced"]) == (0, 50, []), first.err
    second = sandbox.run("--partition", "0", "--from", "80", "--to", "130")
    assert (second.code, second.document["rows"]) == (0, 30)
    status = sandbox.command("status", sandbox.name, "--json").document
    assert _spans(status) == {0: [[50, 130]]}
    rest = sandbox.run()
    assert (rest.code, rest.document["rows"]) == (0, 320)
    assert {move["to"] for move in rest.document["advanced"]} == {200}
    sandbox.assert_exact()


@pytest.mark.nightly
def test_a_period_below_the_origin_is_read_and_moves_no_watermark(sandbox: Sandbox) -> None:
    """Any past period can be ingested, also one that the start policy left out."""
    sandbox.produce(200)
    offsets = sandbox.home / "start.json"
    offsets.write_text(json.dumps({sandbox.topic: {"0": 60, "1": 60}}))
    sandbox.write_pipeline(source='start = "offsets:start.json"')
    assert sandbox.run().document["rows"] == 80
    below = sandbox.run("--from", "10", "--to", "70")
    assert (below.code, below.document["rows"], below.document["advanced"]) == (0, 100, []), below.err
    sandbox.assert_exact({key: value for key, value in sandbox.acknowledged.items() if key[1] >= 10})


def test_two_runs_at_once_land_every_record_once(sandbox: Sandbox) -> None:
    """One does the work; the other says so (0 done, or 3 worth repeating)."""
    sandbox.produce(2000)
    both = [sandbox.start("run", str(sandbox.file), "--json", quick=True) for _ in range(2)]
    ended = [sandbox.end(process) for process in both]
    assert 0 in {item.code for item in ended}, [item.err for item in ended]
    assert {item.code for item in ended} <= {0, 3}
    assert all(json.loads(item.out) for item in ended)
    assert sandbox.run().code == 0
    sandbox.assert_exact()
    assert len(sandbox.publishes()) == len(set(sandbox.publishes()))


def test_a_reader_never_sees_a_wave_in_part_nor_an_aborted_record(sandbox: Sandbox) -> None:
    """A reader who polls the table sees whole waves only."""
    sandbox.write_pipeline(sizes='target_range_bytes = "64 KiB"\nmax_wave_bytes = "64 KiB"')
    sandbox.produce(400, size=500)
    sandbox.transaction(200, commit=False)
    seen: list[Counter[tuple[int, int, bytes]]] = []
    stop, ready = threading.Event(), threading.Event()

    def poll() -> None:
        while True:
            last = stop.wait(0.15)
            try:
                seen.append(sandbox.rows())
            except NoSuchTableError:
                seen.append(Counter())
            ready.set()
            if last:
                return

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(poll)
        try:
            assert ready.wait(SECONDS)
            done = sandbox.run()
        finally:
            stop.set()
        reader.result()
    assert done.code == 0, done.err
    waves = {item["wave"]: item["rows"] for item in done.document["waves"]}
    assert len(waves) > 2
    sizes, total = {0}, 0
    for wave in sandbox.publishes():
        total += waves[wave]
        sizes.add(total)
    read = [state.total() for state in seen]
    assert (read[0], read[-1]) == (0, total)
    assert sum(0 < rows < total for rows in read) >= READS_BETWEEN, read
    assert {*read} <= sizes
    assert all(state <= seen[-1] for state in seen)
    sandbox.assert_exact()


def test_a_dry_run_shows_ranges_bytes_time_and_deadline_and_writes_nothing(sandbox: Sandbox) -> None:
    """The dry run reads the same plan, and leaves ledger and lake as they were."""
    sandbox.produce(500)
    shown = sandbox.command("plan", str(sandbox.file), "--dry-run", "--json")
    assert shown.code == 0, shown.err
    plan = shown.document
    assert plan["plan"] is None
    assert [(r["partition"], r["start"], r["end"]) for w in plan["waves"] for r in w["ranges"]] == [
        (0, 0, 250),
        (1, 0, 250),
    ]
    assert plan["estimated_bytes"] > 0
    assert plan["estimated_seconds"] > 0
    assert not list(sandbox.home.glob("*.db"))
    deadline = datetime.fromisoformat(plan["retention_deadline"])
    assert 6 <= (deadline - datetime.now(UTC)).days <= 7
    status = sandbox.command("status", sandbox.name, "--json")
    assert (status.code, status.document["error"]["type"]) == (1, "UnknownSubjectError")
    people = sandbox.command("plan", str(sandbox.file), "--dry-run")
    assert "nothing was recorded" in people.out
    assert f"read it with: kafka-lake run {sandbox.file}" in " ".join(people.out.split())
    assert "retention may take" in people.out


@pytest.mark.nightly
def test_compaction_and_expiry_between_any_two_steps_lose_nothing(sandbox: Sandbox) -> None:
    """Maintenance of the table is an ordinary neighbour."""
    table = f"lake.{sandbox.table}"
    columns = "kafka_topic, kafka_topic_id, kafka_partition, kafka_offset"
    insert = f"INSERT INTO {table} ({columns}) VALUES ('x', 'x', 0, 0)"
    expire = f"table => '{sandbox.table}', older_than => TIMESTAMP '2100-01-01', retain_last => 1"
    maintain = [
        f"CALL lake.system.rewrite_data_files(table => '{sandbox.table}', options => map('min-input-files', '2'))",
        f"CALL lake.system.expire_snapshots({expire})",
    ]
    sandbox.produce(300)
    staged = sandbox.run(env=arming.environment(traps="table.publish:before=kill"))
    assert staged.code == -9
    sandbox.spark_sql([insert, *maintain])
    published = sandbox.run(env=arming.environment(traps="table.publish:after=kill"))
    assert published.code == -9
    sandbox.spark_sql([*maintain, f"DELETE FROM {table} WHERE kafka_topic = 'x'", *maintain])
    assert sandbox.run().code == 0
    sandbox.assert_exact()
    sandbox.produce(100, begin=300)
    assert sandbox.run().code == 0
    sandbox.spark_sql(maintain)
    assert sandbox.run().document["waves"] == []
    sandbox.assert_exact()
    assert sandbox.command("audit", sandbox.name, "--json").document["ok"] is True


@pytest.mark.parametrize("quick", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_a_terminated_run_ends_its_driver_and_says_how_to_go_on(sandbox: Sandbox, *, quick: bool) -> None:
    """SIGTERM, as `kill` and service managers send it, unwinds as Ctrl-C does: 143, no driver, the attempt recorded."""
    sandbox.produce(20, size=100_000)
    process = sandbox.start("run", str(sandbox.file), "--bytes-per-second", "100 kB", quick=quick)
    sandbox.wait_for_job(process)
    drivers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGTERM)
    ended = sandbox.end(process)
    assert ended.code == 143, ended
    assert "terminated: run the same command again, it goes on from where it stopped" in ended.err
    assert not [driver for driver in drivers if driver.is_running() and driver.status() != psutil.STATUS_ZOMBIE]
    (wave,) = sandbox.command("status", sandbox.name, "--json").document["waves"]
    assert wave["state"] == "PLANNED"
    (attempt,) = sandbox.command("wave", wave["wave"], "--json").document["attempts"]
    assert (attempt["outcome"], attempt["error"]) == ("failed", "EndedBySignal")
    assert sandbox.run().code == 0
    sandbox.assert_exact()


@pytest.mark.nightly  # by day: the table of test_deep_audit.py
def test_table_in_nested_namespaces_of_any_name_is_run_and_audited(sandbox: Sandbox) -> None:
    """Quoted right by both engines, the topic in a namespace too."""
    place = sandbox
    place.write_pipeline(table="deep.lake-{topic}.2026-select")
    place.produce(30)
    ran = place.run()
    assert ran.code == 0, ran.err
    assert ran.document["rows"] == 30
    audited = place.command("audit", place.name, "--deep", "--json")
    assert (audited.code, audited.document["ok"]) == (0, True), audited.err or audited.out
