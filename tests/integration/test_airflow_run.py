"""The example Dags under the real supervisor: a form lands rows and moves watermarks, wrong words are refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest
from confluent_kafka import Producer

from airflow_kafka_lake.local.airflow import AirflowApiError
from tests.airflow_lanes import MANUAL, REOPEN, RUN_SECONDS, Lane, Ran, World, drivers, until, world_of
from tests.keyed_records import KeyedRecords

PIPELINES = (
    "landed",
    "followed",
    "commanded",
    "shown",
    "asked",
    "decided",
    "killed",
    "held",
    "awaited",
    "ordered",
    "hours",
    "untimed",
    "ended",
)
WAITS = """
from datetime import timedelta

from airflow.sdk import DAG
from airflow_kafka_lake.sensors import WatermarkSensor

# Where a trigger fires sooner than the scheduler hears of the worker that deferred, Airflow fails the task.
with DAG("waits", schedule=None, default_args={"retries": 3, "retry_delay": timedelta(seconds=1)}):
    WatermarkSensor(
        task_id="watermark", pipeline="awaited", topic="awaited", partition=1, offset=10, timeout=900, deferrable=True
    )
    WatermarkSensor(
        task_id="more",
        pipeline="awaited",
        topic="awaited",
        offset="{{ dag_run.conf['offset'] }}",
        timeout=900,
        deferrable=True,
    )
"""

ECHO = """
import os
from airflow.sdk import DAG, task

with DAG("echo", schedule=None):

    @task
    def say(dag_run=None):
        print("said", dag_run.conf["word"], os.environ["EXTRA"])

    say()
"""

UNTIMED = """
from airflow.sdk import DAG
from airflow_kafka_lake.task_groups import kafka_lake_ingest

with DAG("untimed", schedule="@hourly", catchup=False):
    kafka_lake_ingest(pipeline="untimed")
"""

ENDED = """
from datetime import UTC, datetime

from airflow.sdk import DAG, CronDataIntervalTimetable
from airflow_kafka_lake.task_groups import kafka_lake_ingest

hours = CronDataIntervalTimetable("0 * * * *", timezone="UTC")
first, last = datetime(2026, 3, 1, 0, tzinfo=UTC), datetime(2026, 3, 1, 2, tzinfo=UTC)
with DAG("ended", schedule=hours, start_date=first, end_date=last, catchup=False):
    kafka_lake_ingest(pipeline="ended")
"""

COMMAND = "kafka_lake_command"
FOLLOWER = "follower"
FOLLOWS = f"""
from airflow.sdk import DAG, task
from airflow_kafka_lake.assets import all_pipelines, landed

with DAG({FOLLOWER!r}, schedule=[all_pipelines()], catchup=False):

    @task
    def show(triggering_asset_events=None):
        found = landed(triggering_asset_events)
        return {{name: [list(item) for item in what.slices] for name, what in found.items()}}

    show()
"""

STORY_SECONDS = 900

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def world(spark_jars: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One Airflow and one broker for this module, with one pipeline file per test; afterwards, nothing may be left."""
    dags = {"waits.py": WAITS, "echo.py": ECHO, "untimed.py": UNTIMED, "ended.py": ENDED, "follows.py": FOLLOWS}
    down = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}
    extra = {
        "AIRFLOW_CONN_KAFKA_DOWN": json.dumps(down),
        "EXTRA": "extra-from-outside",
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
    }
    with world_of(tmp_path_factory.mktemp("world"), dict.fromkeys(PIPELINES, 2), dags, extra) as made:
        airflow = psutil.Process(made.airflow.pid)
        family = [airflow, *airflow.children(recursive=True)]
        yield made
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive
    assert not made.airflow.home.exists()


def test_manual_run_lands_every_record_and_the_next_finds_nothing_to_do(world: World) -> None:
    """A run of the form brings every acknowledged record into the table, moves the watermarks and tells it once."""
    lane = world.lanes["landed"]
    lane.produce(400)
    lane.transaction(20, commit=True)
    lane.transaction(20, commit=False)

    state, tasks, run_id = world.run(MANUAL, {"pipeline": "landed"})
    assert (state, tasks["kafka_lake.finish"]) == ("success", "success"), tasks
    ledger = lane.open_ledger()
    (attempt,) = ledger.attempts(pipeline="landed")
    ledger.close()
    assert attempt.actor == f"airflow:{MANUAL}/{run_id}/kafka_lake.ingest[0]"
    assert (attempt.application or "").startswith("local-")
    lane.assert_exact()
    ends = lane.watermarks()
    assert ends
    assert all(end > max(o for p, o in lane.acknowledged if p == partition) for partition, end in ends.items())

    state, tasks, _ = world.run(MANUAL, {"pipeline": "landed"})
    assert state == "success", tasks
    assert tasks["kafka_lake.ingest"] == "skipped"
    assert len(lane.publishes()) == 1
    lane.assert_exact()

    events = until(lambda: landed_events(world))
    assert [event["extra"]["pipeline"] for event in events] == ["landed"]
    told = {stream["partition"]: stream["to"] for stream in events[0]["extra"]["streams"]}
    assert told == ends
    ledger = lane.open_ledger()
    until(lambda: not ledger.unnotified("landed"))
    ledger.close()


def landed_events(world: World) -> list[dict[str, Any]]:
    """Return the asset events of the pipeline `landed`."""
    events = world.airflow.api("GET", "/assets/events?limit=100")["asset_events"]
    return [event for event in events if "landed" in event["uri"]]


def test_command_that_a_message_names_is_run_without_a_terminal(world: World) -> None:
    """Its output is the task's log, the history has the person, and what cannot work fails in a sentence."""
    lane = world.lanes["commanded"]
    lane.produce(4)
    world.airflow.unpause(COMMAND)
    state, tasks, run_id = world.run(COMMAND, {"command": "kafka-lake plan commanded.toml"})
    assert state == "success", tasks
    assert "commanded/0" in world.airflow.task_log(COMMAND, run_id, "command")
    ledger = lane.open_ledger()
    (planned,) = ledger.events("commanded", kind="plan")
    assert planned.actor == f"airflow user {world.airflow.user}, airflow:{COMMAND}/{run_id}/command"
    ledger.close()
    state, _, run_id = world.run(COMMAND, {"command": "audit nothing"})
    assert state == "failed"
    assert "knows no pipeline 'nothing'" in world.airflow.task_log(COMMAND, run_id, "command")


@pytest.mark.nightly
def test_dag_that_follows_gets_what_landed_once(world: World) -> None:
    """Each wave's event triggers it, long before the last wave; together its runs were told of every offset once."""
    lane = world.lanes["followed"]
    world.airflow.unpause(FOLLOWER)
    lane.produce(12)
    for end in ("2", "4"):
        assert lane.command("plan", str(lane.file), "--to", end).code == 0
    state, tasks, run_id = world.run(MANUAL, {"pipeline": "followed"})
    assert state == "success", tasks
    ends = lane.watermarks()
    assert ends == {0: 6, 1: 6}

    events = world.airflow.api("GET", "/assets/events?limit=100")["asset_events"]
    mine = [event for event in sorted(events, key=lambda event: event["id"]) if "followed" in event["uri"]]
    extras = [event["extra"] for event in mine]
    assert [extra["after"] for extra in extras] == [0, *(extra["sequence"] for extra in extras[:-1])]
    assert [event["source_task_id"] for event in mine[:2]] == ["kafka_lake.ingest"] * 2
    assert mine[0]["timestamp"] < world.ended(MANUAL, run_id, "kafka_lake.ingest", 2)

    def followed() -> list[list[Any]]:
        runs = world.airflow.api("GET", f"/dags/{FOLLOWER}/dagRuns?limit=100")["dag_runs"]
        found = [world.returned(FOLLOWER, run["dag_run_id"], "show") for run in runs if run["state"] == "success"]
        return [item for value in found for item in value.get("followed", ())]

    until(lambda: sum(end - start for _, _, start, end in followed()) >= sum(ends.values()), RUN_SECONDS)
    slices = sorted(followed())
    for partition, end in ends.items():
        pieces = [(start, stop) for _, number, start, stop in slices if number == partition]
        assert [start for start, _ in pieces] == [0, *(stop for _, stop in pieces[:-1])]
        assert pieces[-1][1] == end
    ledger = lane.open_ledger()
    until(lambda: not ledger.unnotified("followed"))
    ledger.close()


@pytest.mark.nightly
def test_dry_run_writes_nothing(world: World) -> None:
    """A dry run shows the plan in the run, as a table and in the log; ledger and lake do not know the pipeline
    afterwards, and the tasks that would read are skipped."""
    lane = world.lanes["shown"]
    lane.produce(40)
    state, tasks, run_id = world.run(MANUAL, {"pipeline": "shown", "dry_run": True, "partitions": "0-1"})
    assert (state, tasks["review"], tasks["kafka_lake.finish"]) == ("success", "success", "skipped"), tasks
    shown = world.asked(MANUAL, run_id, "review")
    assert shown["subject"].startswith("Dry run: shown: 40 offsets, at most 40 records")
    assert "| shown/0 | 0-20 | 20 |" in shown["body"]
    assert shown["chosen_options"] == ["Seen"]
    page = f"{world.airflow.base_url}/kafka-lake/dags/{MANUAL}/runs/{quote(run_id, safe='')}"
    assert f"[run it in earnest]({page})" in shown["body"]
    log = world.log(run_id, "review")
    assert "shown/0 0-20" in log
    assert "nothing was recorded" in log
    ledger = lane.open_ledger()
    assert ledger.pipeline("shown") is None
    ledger.close()
    from pyiceberg.exceptions import NoSuchTableError

    with pytest.raises(NoSuchTableError):
        lane.iceberg()


@pytest.mark.parametrize(
    "conf",
    [
        {},
        {"pipline": "shown"},
        {"pipeline": "missing"},
        {"pipeline": "shown", "dry_run": "perhaps"},
    ],
)
def test_choice_that_the_form_does_not_offer_starts_no_run(world: World, conf: dict[str, Any]) -> None:
    """What cannot be chosen on the page never becomes a run."""
    world.airflow.wait_dag(MANUAL)
    with pytest.raises(AirflowApiError) as refused:
        world.airflow.trigger(MANUAL, conf)
    assert 400 <= int(str(refused.value.facts["status"])) < 500


@pytest.mark.nightly
def test_unknown_key_of_a_configuration_is_refused_before_anything_starts(world: World) -> None:
    """A misspelt bound is no run without bounds."""
    run_id = world.airflow.trigger(MANUAL, {"pipeline": "shown", "form": "5"})
    assert world.airflow.wait_run(MANUAL, run_id, RUN_SECONDS)["state"] == "failed"
    assert "'form', which is none of its keys; did you mean 'from'?" in world.log(run_id, "review")


@pytest.mark.nightly  # by day: the same words from the same task (tests/airflow/test_forms.py)
def test_wrong_value_is_refused_in_words_before_anything_starts(world: World) -> None:
    """The first task says what is wrong with it and what helps; nothing else of the run begins."""
    state, tasks, run_id = world.run(MANUAL, {"pipeline": "shown", "from": "2026-01-31", "to_offset": "9"})
    assert (state, tasks["review"], tasks["kafka_lake.plan"]) == ("failed", "failed", "upstream_failed"), tasks
    log = world.log(run_id, "review")
    assert "from: '2026-01-31' is not a time but a date, and days begin at different moments" in log


@pytest.mark.nightly
def test_plan_that_asks_starts_when_a_person_approves_it(world: World) -> None:
    """It waits without a worker slot and shows its plan; Approve lands the records, Reject leaves everything."""
    lane = world.lanes["asked"]
    lane.produce(40)
    conf = {"pipeline": "asked", "ask": True, "from_offset": 0, "to_offset": 10, "reason": "the audit"}
    first, second = world.airflow.trigger(MANUAL, conf), world.airflow.trigger(MANUAL, conf)
    for run_id in (first, second):
        until(lambda run_id=run_id: world.airflow.task_states(MANUAL, run_id).get("review") == "awaiting_input")
    assert world.asked(MANUAL, first, "review")["subject"].startswith("Start this: asked: 20 offsets")
    world.answer(MANUAL, first, "review", "Reject")
    ended = world.end(MANUAL, first)
    assert (ended.state, ended.tasks["kafka_lake.plan"], ended.tasks["kafka_lake.finish"]) == (
        "success", "skipped", "skipped",
    ), ended.tasks  # fmt: skip
    ledger = lane.open_ledger()
    assert ledger.pipeline("asked") is None
    world.answer(MANUAL, second, "review", "Approve")
    assert world.end(MANUAL, second).state == "success"
    lane.assert_exact({(p, o): value for (p, o), value in lane.acknowledged.items() if o < 10})
    (planned,) = [event for event in ledger.events("asked") if event.kind == "plan"]
    ledger.close()
    assert planned.detail.endswith(": the audit")


MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)


def backfilled(world: World, dag: str) -> dict[int, Ran]:
    """Backfill the hours 1 and 2 of a day with Airflow's own command; returns how each hour's run ended."""
    running = psutil.Process(world.airflow.pid)
    days = [
        word for hour, end in ((1, "from"), (2, "to")) for word in (f"--{end}-date", f"{MIDNIGHT:%F}T0{hour}:00:00Z")
    ]
    command = [sys.executable, "-m", "airflow", "backfill", "create", "--dag-id", dag, *days]

    def is_created() -> bool:
        # Airflow's own SQLite database is locked now and then, and the command does not wait for it.
        done = subprocess.run(command, env=running.environ(), check=False, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 or "database is locked" in done.stderr, done.stderr
        return done.returncode == 0

    until(is_created, RUN_SECONDS)

    def runs() -> list[dict[str, Any]]:
        found = world.airflow.api("GET", f"/dags/{dag}/dagRuns?run_type=backfill&order_by=logical_date")["dag_runs"]
        return found if all(run["state"] in {"success", "failed"} for run in found) else []

    ended = [world.end(dag, run["dag_run_id"]) for run in until(runs, RUN_SECONDS)]
    return dict(zip((1, 2), ended, strict=True))


@pytest.mark.nightly
def test_backfill_reads_its_dates_and_nothing_else(world: World) -> None:
    """Each run of a backfill of the ready-made Dag lands its hour; one without a record is green, and says so. A Dag
    that ends with its last hour has no other runs. One whose runs have no interval is refused before anything is
    read."""
    lane, untimed, over = (world.lanes[name] for name in ("hours", "untimed", "ended"))
    for each in (lane, over):
        each.write_pipeline('start = "timestamp:2026-03-01T04:00:00Z"', table=each.table)
    hours = (0, 0, 1, 1, 1, 3, 5)
    for each in (lane, untimed, over):
        producer = Producer({"bootstrap.servers": each.bootstrap})
        for number, hour in enumerate(hours):
            at = int((MIDNIGHT + timedelta(hours=hour, minutes=number)).timestamp() * 1000)
            producer.produce(each.topic, value=f"{hour}".encode(), partition=0, timestamp=at)
        assert producer.flush(60) == 0
    for dag in ("kafka_lake.hours", "untimed", "ended"):
        world.airflow.unpause(dag)
    runs = backfilled(world, "kafka_lake.hours")
    assert {hour: run.state for hour, run in runs.items()} == dict.fromkeys(runs, "success")
    # The last is read by the hourly run, which follows the pipeline.
    assert [offset for offset in offsets(lane) if offset < 6] == [2, 3, 4]
    quiet = world.airflow.task_log("kafka_lake.hours", runs[2].id, "kafka_lake.plan")
    assert "nothing to do in this run's data interval, 2026-03-01 02:00:00+00:00 to 2026-03-01 03:00:00+00:00" in quiet
    assert runs[2].tasks["kafka_lake.ingest"] == "skipped"

    assert [run.state for run in backfilled(world, "ended").values()] == ["success", "success"]
    assert world.airflow.api("GET", "/dags/ended/dagRuns?run_type=scheduled")["dag_runs"] == []
    assert offsets(over) == [2, 3, 4]

    refused = backfilled(world, "untimed")
    assert {run.state for run in refused.values()} == {"failed"}
    log = world.airflow.task_log("untimed", refused[2].id, "kafka_lake.plan")
    assert "this is a backfill run, and its data interval has no length (2026-03-01T02:00:00+00:00)" in log
    ends = {(run.tasks["kafka_lake.advance"], run.tasks["kafka_lake.finish"]) for run in refused.values()}
    assert ends == {("skipped", "upstream_failed")}


def offsets(lane: Lane) -> list[int]:
    """Return the offsets of every row."""
    return sorted(offset for (_, offset, _), times in lane.rows().items() for _ in range(times))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("conf", "says"),
    [
        ({"topic": "elsewhere", "from": "5", "to": "9"}, "topic 'elsewhere' is not one of pipeline shown"),
        ({"partitions": "1-7"}, "shown has no partition 2: it has 0 to 1"),
    ],
)
def test_unknown_topic_or_partition_is_refused_before_anything_starts(
    world: World, conf: dict[str, Any], says: str
) -> None:
    """What the form cannot know, the first task refuses at once: one try, one sentence, one red task."""
    run_id = world.airflow.trigger(MANUAL, {"pipeline": "shown", **conf})
    ended = world.end(MANUAL, run_id)
    assert (ended.state, [task for task, state in ended.tasks.items() if state == "failed"]) == ("failed", ["review"])
    assert ended.tasks["kafka_lake.finish"] == "upstream_failed"
    assert says in world.log(run_id, "review")


@pytest.mark.nightly  # by day: `on_kill` (tests/airflow), drivers of killed commands (test_kills.py)
def test_killed_task_takes_its_driver_along_and_the_next_run_finishes(world: World) -> None:
    """Marking a running ingest as failed ends its Spark driver and fails the run; the next one lands everything."""
    lane = world.lanes["killed"]
    lane.produce(60)
    run_id = world.airflow.trigger(MANUAL, {"pipeline": "killed"})
    driver = until(lambda: next(iter(drivers(lane)), None))
    path = f"/dags/{MANUAL}/dagRuns/{quote(run_id)}/taskInstances/kafka_lake.ingest/0"
    world.airflow.api("PATCH", path, {"new_state": "failed"})
    until(lambda: not driver.is_running())
    assert world.airflow.wait_run(MANUAL, run_id, RUN_SECONDS)["state"] == "failed"

    assert lane.run().code == 0
    lane.assert_exact()


@pytest.mark.nightly
def test_period_above_a_hold_lands_and_the_watermark_waits(world: World) -> None:
    """A period that a person asks for is landed as an island; following fills the gap, and the watermark jumps."""
    lane = world.lanes["held"]
    lane.produce(60)
    state, tasks, _ = world.run(MANUAL, {"pipeline": "held", "from": "10", "to": "20", "partitions": [0]})
    assert state == "success", tasks
    lane.assert_exact({(p, o): value for (p, o), value in lane.acknowledged.items() if p == 0 and 10 <= o < 20})
    assert lane.watermarks()[0] <= 10

    assert lane.run().code == 0
    lane.assert_exact()
    assert lane.watermarks() == {0: 30, 1: 30}


def test_sensors_wait_in_the_triggerer_until_the_rows_are_there(world: World) -> None:
    """They give their worker slots back, and go on once another process has landed what they wait for."""
    lane = world.lanes["awaited"]
    lane.produce(20)
    world.airflow.unpause("waits")
    run_id = world.airflow.trigger("waits", {"offset": 12})

    def states() -> dict[str, str]:
        found = world.airflow.task_states("waits", run_id)
        return {task: found.get(task, "") for task in ("watermark", "more")}

    until(lambda: states() == {"watermark": "deferred", "more": "deferred"}, RUN_SECONDS)
    assert lane.run().code == 0
    until(lambda: states() == {"watermark": "success", "more": "deferred"}, RUN_SECONDS)
    lane.produce(4, begin=20)
    assert lane.run().code == 0
    run = world.airflow.wait_run("waits", run_id, RUN_SECONDS)
    assert run["state"] == "success", world.airflow.task_log("waits", run_id, "more")


@pytest.mark.nightly
def test_waves_of_any_depth_go_through_in_one_run(world: World) -> None:
    """Three levels in one mapped task: what must wait gives its worker slot back and goes on by itself."""
    lane = world.lanes["ordered"]
    lane.write_pipeline(source='layout_grace = "0 s"', table=lane.table)
    keyed = KeyedRecords(lane)
    keyed.write(5)
    assert lane.command("plan", str(lane.file)).code == 0
    for partitions in (3, 6):
        keyed.expand(partitions)
        assert lane.command("plan", str(lane.file)).code == 0
        keyed.write(5)
    run_id = world.airflow.trigger(MANUAL, {"pipeline": "ordered"})
    state = world.airflow.wait_run(MANUAL, run_id, RUN_SECONDS)["state"]
    assert state == "success", world.airflow.task_states(MANUAL, run_id)
    lane.assert_exact()
    assert keyed.read() == keyed.written
    logs = [world.airflow.task_log(MANUAL, run_id, "kafka_lake.ingest", map_index=index) for index in range(3)]
    assert any("waits for its turn" in log for log in logs)


def test_each_pipeline_file_has_a_scheduled_dag(world: World) -> None:
    """Nothing failed to import."""
    for name in PIPELINES:
        world.airflow.wait_dag(f"kafka_lake.{name}")
        tasks = world.airflow.api("GET", f"/dags/kafka_lake.{name}/tasks")["tasks"]
        assert {task["task_id"] for task in tasks} == {
            f"kafka_lake.{task}" for task in ("plan", "ingest", "advance", "finish")
        }
        assert json.dumps(tasks).count('"is_mapped": true') == 1
    assert world.airflow.api("GET", "/importErrors")["total_entries"] == 0


@pytest.mark.nightly
def test_run_goes_to_success_through_the_api(world: World) -> None:
    """A Dag of the folder is parsed, triggered, run by the supervisor with our environment, and logged."""
    seen: list[dict[str, str]] = []
    world.airflow.unpause("echo")
    run_id = world.airflow.trigger("echo", {"word": "hello"})
    run = world.airflow.wait_run("echo", run_id, 400, on_progress=seen.append)
    assert run["state"] == "success", world.airflow.task_log("echo", run_id, "say")
    assert seen[-1] == {"say": "success"}
    assert "said hello extra-from-outside" in world.airflow.task_log("echo", run_id, "say")


@pytest.mark.nightly
def test_failed_run_is_returned_and_not_raised(world: World) -> None:
    """A failed run is an answer; its log says why."""
    world.airflow.unpause("echo")
    run_id = world.airflow.trigger("echo")
    assert world.airflow.wait_run("echo", run_id, 400)["state"] == "failed"
    assert "KeyError" in world.airflow.task_log("echo", run_id, "say")


def test_button_of_the_connections_page_asks_the_real_thing(world: World, tmp_path: Path) -> None:
    """The server of Airflow asks brokers, catalog and ledger; what does not answer, or is refused, is a sentence."""
    catalog = {"catalog": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/warehouse"}
    ledger = {"host": str(tmp_path / "ledger.db"), "extra": {"database": "sqlite"}}
    kafka = {"bootstrap.servers": world.kafka.bootstrap, "security.protocol": "PLAINTEXT", "sasl.username": None}
    expected: dict[str, tuple[dict[str, Any], bool]] = {
        "kafka_lake_kafka": ({"extra": kafka}, True),
        "lake": ({"extra": catalog}, True),
        "kafka_lake_ledger": (ledger, True),
        "kafka_lake_registry": ({"host": "http://127.0.0.1:1", "password": "s3cr3t", "login": "me"}, False),
        "kafka_lake_spark": ({"host": "spark://me:s3cr3t@x"}, False),
    }
    for conn_type, (fields, works) in expected.items():
        body = {
            "connection_id": "asked",
            "conn_type": conn_type,
            **fields,
            "extra": json.dumps(fields.get("extra", {})),
        }
        answer = world.airflow.api("POST", "/connections/test", body)
        assert answer["status"] is works, (conn_type, answer)
        assert answer["message"]
        assert "s3cr3t" not in answer["message"]


def test_unknown_dag_is_a_sentence(world: World) -> None:
    """A Dag that never comes is named together with the import errors."""
    with pytest.raises(AirflowApiError, match=r"does not know the Dag absent.*Import errors: none"):
        world.airflow.wait_dag("absent", timeout=1)


def test_components_listen_on_this_machine_only(world: World) -> None:
    """No process of the family listens on an address that others reach."""
    family = [psutil.Process(world.airflow.pid), *psutil.Process(world.airflow.pid).children(recursive=True)]
    listening: set[str] = set()
    for process in family:
        with suppress(psutil.NoSuchProcess, FileNotFoundError):  # some live for a moment only
            listening |= {c.laddr.ip for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
    assert listening == {"127.0.0.1"}


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_mistakes_of_a_newcomer_are_answered_in_words(world: World) -> None:
    """A wrong year, a pipeline that is not there, a task that is cleared, a broker that is down."""
    lane = world.lanes["landed"]
    lane.produce(4, begin=10_000)
    with pytest.raises(AirflowApiError, match=r"'missing' is not one of \["):
        world.airflow.trigger(MANUAL, {"pipeline": "missing"})
    with pytest.raises(AirflowApiError, match=r"param pipeline: No value passed"):
        world.airflow.trigger(MANUAL, {"pipline": "landed"})

    wrong = world.run(MANUAL, {"pipeline": "landed", "from": "2016-03-01T00:00:00Z", "to": "2016-03-08T00:00:00Z"})
    assert (wrong.state, wrong.tasks["kafka_lake.plan"]) == ("failed", "failed"), wrong.tasks
    words = world.log(wrong.id, "kafka_lake.plan")
    assert "EmptyPeriodError: nothing lies in the period from 2016-03-01T00:00:00.000Z" in words
    assert "Correct the period, or leave it out to read what is missing" in words

    landed = world.run(MANUAL, {"pipeline": "landed"}, STORY_SECONDS)
    assert landed.state == "success", landed.tasks
    cleared = {"dry_run": False, "dag_run_id": landed.id, "task_ids": ["kafka_lake.ingest"], "only_failed": False}
    world.airflow.api("POST", f"/dags/{MANUAL}/clearTaskInstances", cleared)
    assert world.end(MANUAL, landed.id, STORY_SECONDS).state == "success"
    assert "is in the lake since" in world.log(landed.id, "kafka_lake.ingest", 0)
    lane.assert_exact()

    text = lane.file.read_text().replace("[source]", '[source]\nconnection = "kafka_down"')
    (lane.home / "down.toml").write_text(text.replace('name = "landed"', 'name = "down"'))
    (world.airflow._dags_folder / f"{MANUAL}.py").touch()
    down: list[str] = []

    def offered() -> bool:
        with suppress(AirflowApiError):
            down.append(world.airflow.trigger(MANUAL, {"pipeline": "down", "dry_run": True}))
        return bool(down)

    until(offered, STORY_SECONDS)
    until(lambda: world.airflow.task_states(MANUAL, down[0]).get("review") == "up_for_retry", STORY_SECONDS)
    path = f"/dags/{MANUAL}/dagRuns/{quote(down[0])}/taskInstances/review"
    words = world.airflow.task_log(MANUAL, down[0], "review", attempt=1)
    assert "UnavailableError: Kafka at 127.0.0.1:1 (connection 'kafka_down') did not answer" in words
    assert "Check that it runs and is reachable, then repeat" in words
    world.airflow.api("PATCH", path, {"new_state": "failed"})
    assert world.end(MANUAL, down[0]).state == "failed"
    (lane.home / "down.toml").unlink()


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_decision_is_made_when_a_person_approves_it(world: World) -> None:
    """Rejected, the offsets stay as they are; approved, they are read again, in the name of who has approved."""
    lane = world.lanes["decided"]
    lane.produce(40)
    assert world.run(MANUAL, {"pipeline": "decided"}, STORY_SECONDS).state == "success"
    conf = {"pipeline": "decided", "topic": "decided", "from_offset": "5", "to_offset": 10, "reason": "wrong decoder"}
    world.airflow.unpause(REOPEN)
    rejected, run_id = asking(world, conf), asking(world, conf)
    for run, chosen, last in ((rejected, "Reject", "skipped"), (run_id, "Approve", "success")):
        shown = world.asked(REOPEN, run, "approve")
        assert shown["subject"] == "Reopen 10 offsets with 10 rows of 2 partitions of decided?"
        assert "| decided/1 | 5-10 | 5 | 5 | 1 | 5 |" in shown["body"]
        world.answer(REOPEN, run, "approve", chosen)
        ended = world.end(REOPEN, run, STORY_SECONDS)
        log = world.airflow.task_log(REOPEN, run, "approve")
        assert (ended.state, ended.tasks["reopen"]) == ("success", last), (ended.tasks, log)
    ledger = lane.open_ledger()
    reopened = [event for event in ledger.events("decided") if event.kind == "reopen"]
    ledger.close()
    assert {event.actor for event in reopened} == {f"airflow user admin, airflow:{REOPEN}/{run_id}/reopen"}
    assert len(reopened) == 2
    assert lane.watermarks() == {0: 5, 1: 5}
    path = f"/dags/{REOPEN}/clearTaskInstances"
    cleared = {"dry_run": False, "dag_run_id": run_id, "task_ids": ["reopen"], "only_failed": False}
    assert world.run(MANUAL, {"pipeline": "decided"}, STORY_SECONDS).state == "success"
    world.airflow.api("POST", path, cleared)
    assert world.end(REOPEN, run_id, STORY_SECONDS).state == "success"
    assert "this task has decided before: decided/0 5-10, decided/1 5-10" in world.airflow.task_log(
        REOPEN, run_id, "reopen", attempt=2
    )
    assert lane.watermarks() == {0: 20, 1: 20}
    lane.assert_exact()


def asking(world: World, conf: dict[str, Any]) -> str:
    """Have a reopen shown, and return its run once it asks.

    Two runs are made before one is answered: Airflow fails a task whose answer comes sooner than the scheduler hears of
    the worker that has asked.
    """
    run_id = world.airflow.trigger(REOPEN, conf)
    until(lambda: world.airflow.task_states(REOPEN, run_id).get("approve") == "awaiting_input", STORY_SECONDS)
    return run_id
