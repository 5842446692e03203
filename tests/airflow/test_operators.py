"""Operators over a world in memory: what they hand on, when they fail, and when Airflow may retry."""

from __future__ import annotations

import re
import traceback
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSkipException,
    AirflowTaskTerminated,
    TaskDeferred,
)
from sqlalchemy import event

from airflow_kafka_lake.adapters.spark_submit.failures import recognised
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.assets import MAX_STREAMS, event_extras
from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    JobFailedError,
    UnavailableError,
    UnexpectedError,
    UnknownOutcomeError,
    UsageError,
)
from airflow_kafka_lake.core.ledger.attempts import ClaimWave, EndAttempt, RecordCommit
from airflow_kafka_lake.core.ledger.changes import Write
from airflow_kafka_lake.core.ledger.guards import landed
from airflow_kafka_lake.core.ledger.plans import RecordPlan
from airflow_kafka_lake.core.ledger.records import Advance
from airflow_kafka_lake.core.offsets import Stream
from airflow_kafka_lake.core.reports.progress import Moment
from airflow_kafka_lake.core.wire import milliseconds, timestamp
from airflow_kafka_lake.operators.advance import (
    AdvanceWatermarkOperator,
    FinishPlanOperator,
    RefuseOperator,
)
from airflow_kafka_lake.operators.boundary import airflow_errors
from airflow_kafka_lake.operators.ingest import IngestWaveOperator
from airflow_kafka_lake.operators.plan import PlanIngestOperator
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.services import staging
from airflow_kafka_lake.services.decisions import cancel, release

from .conftest import ORDERS, OTHER, World, write_pipeline

Context = dict[str, Any]


def plan(world: World, context: Context, **given: Any) -> list[str]:
    """Run the plan operator as task `plan`."""
    context["ti"].task_id = "plan"
    given = {{"dry_run": "is_dry_run"}.get(word, word): value for word, value in given.items()}
    return PlanIngestOperator(task_id="plan", pipeline=given.pop("pipeline", ORDERS), **given).execute(context)


def planned(context: Context) -> dict[str, Any]:
    """Return the XCom `plan`."""
    return context["ti"].xcom_pull(task_ids="plan", key="plan")


def ingest(context: Context, wave: str, **given: Any) -> dict[str, Any]:
    return IngestWaveOperator(task_id="ingest", wave=wave, **given).execute(context)


def advance(context: Context, **given: Any) -> tuple[AdvanceWatermarkOperator, dict[str, Any]]:
    operator = AdvanceWatermarkOperator(task_id="advance", pipeline=ORDERS, **given)
    context["task"] = operator
    return operator, operator.execute(context)


def events(context: Context) -> list[Any]:
    """Return the asset events that a task would emit."""
    return [event for key in context["outlet_events"] for event in context["outlet_events"][key].asset_alias_events]


def finish(context: Context) -> None:
    FinishPlanOperator(task_id="finish", plan_task_id="plan").execute(context)


def test_plan_returns_waves_to_map_over_and_small_numbers(world: World, context: Context) -> None:
    """The return value is the list of waves; the XCom `plan` has ids and numbers, nothing else."""
    world.produce(5)
    waves = plan(world, context)
    assert waves == [wave.id for wave in world.ledger.waves("orders")]
    made = planned(context)
    assert made == {
        "pipeline": "orders", "plan": world.ledger.wave(waves[0]).plan, "plans": [made["plan"]], "waves": waves,
        "later": [], "left": [], "ranges": 1, "records": 5, "bytes": made["bytes"], "lake_bytes": made["lake_bytes"],
        "blocked": 0,
        "left_out": [], "hanging": [], "dry_run": False,
    }  # fmt: skip
    assert world.opened[-1]["actor"] == "airflow:dag/run/plan"


def test_main_job_lands_everything_and_the_second_time_nothing(
    world: World, context: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plan, ingest, advance and finish bring every offset over and tell it once."""
    world.produce(5)
    (wave,) = plan(world, context)
    assert ingest(context, wave, pipeline="orders")["state"] == "COMMITTED"
    _, moved = advance(context, plan_task_id="plan")
    finish(context)
    assert world.offsets() == [(0, offset) for offset in range(5)]
    assert world.watermarks() == {0: 5, 1: 0}
    assert (moved["moved"], moved["rows"]) == (1, 5)
    assert "nothing is open: this run took 1 wave, see the log of plan" in capsys.readouterr().out
    assert plan(world, context) == []
    assert planned(context)["plan"] is None
    finish(context)
    assert "nothing is open: this run took 0 waves, see the log of plan" in capsys.readouterr().out


def test_dry_run_records_nothing_and_advances_nothing(world: World, context: Context) -> None:
    """After a dry run the ledger does not know the pipeline, whatever runs after it."""
    world.produce(5)
    assert plan(world, context, dry_run="true") == []
    assert planned(context)["ranges"] == 1
    assert advance(context, plan_task_id="plan")[1]["moved"] == 0
    finish(context)
    assert world.ledger.pipelines() == ()
    assert events(context) == []


def test_dry_run_leaves_watermarks_that_could_move(world: World, context: Context) -> None:
    """What an earlier run committed is moved and told by a real run, not by a dry one."""
    world.produce(5)
    for wave in plan(world, context):
        landed(staging.ingest(world.ports(), wave))
    plan(world, context, dry_run=True)
    advance(context, plan_task_id="plan")
    assert world.watermarks()[0] == 0
    assert events(context) == []


def test_wave_that_is_in_the_lake_already_is_adopted_by_the_plan(
    world: World, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that died between publishing and committing leaves nothing to do twice."""
    world.produce(5)
    (wave,) = plan(world, context)

    alive = world.ledger.commit

    def dead(write: Write[Any]) -> object:
        if isinstance(write, RecordCommit | EndAttempt):
            raise UnavailableError("the worker died")
        return alive(write)

    with monkeypatch.context() as patched:
        patched.setattr(world.ledger, "commit", dead)
        with pytest.raises(UnknownOutcomeError):
            ingest(context, wave)
    world.clock.advance(timedelta(minutes=3))
    assert plan(world, context) == []
    assert world.ledger.wave(wave).state.value == "COMMITTED"
    assert len(world.runner.jobs) == 1


def test_unfinished_waves_of_earlier_runs_are_worked_on_too(world: World, context: Context) -> None:
    """What a crashed run left is among the waves of the next."""
    world.produce(3)
    (left,) = plan(world, context)
    world.produce(3, partition=1)
    waves = plan(world, context)
    assert waves[0] == left
    assert len(waves) == 2


def test_plan_that_another_planner_was_before_is_made_again(
    world: World, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runs of a backfill plan side by side: one that comes second does not use up a try of its task."""
    world.produce(5)
    commit, others = world.ledger.commit, [1, 2]

    def committed(write: Write[Any]) -> object:
        if isinstance(write, RecordPlan) and others:
            raise ConcurrentError(f"planner {others.pop()} was first: plan again")
        return commit(write)

    monkeypatch.setattr(world.ledger, "commit", committed)
    assert len(plan(world, context)) == 1


def test_a_bounded_plan_returns_only_what_was_asked_for(world: World, context: Context) -> None:
    """Waves of earlier plans are taken where they hold some of it, else named and left; the finish asks for no more."""
    world.produce(3)
    world.produce(3, partition=1)
    (first,) = plan(world, context, partitions=[0])
    (second,) = plan(world, context, partitions=[1])
    assert planned(context)["left"] == [first]
    assert plan(world, context, partitions=[0], dry_run=True) == []
    assert plan(world, context, from_=0, to=2, partitions=[0]) == [first]
    assert planned(context)["left"] == [second]
    ingest(context, first)
    advance(context, plan_task_id="plan")
    finish(context)
    assert [partition for partition, _ in world.offsets()] == [0, 0, 0]
    assert plan(world, context, partitions=[0], all_waves="true") == [second]
    assert planned(context)["left"] == []
    with pytest.raises(AirflowFailException, match="not run to its end"):
        finish(context)


def test_waves_that_are_too_many_for_a_run_are_named_and_do_not_look_done(
    world: World, context: Context, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Airflow maps a task over so many values: what is beyond is named, fails the finish, and is taken by the next."""
    world.produce(3)
    (first,) = plan(world, context)
    world.produce(2, partition=1)
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "1")
    assert plan(world, context, partitions=[1]) != [first]
    capsys.readouterr()
    (taken,) = plan(world, context)
    (second,) = planned(context)["later"]
    assert (taken, planned(context)["plan"]) == (first, None)
    logged = capsys.readouterr().out
    assert f"this run takes wave {first} into raw.orders: 1 range" in logged
    assert f"this run has no room for wave {second} into raw.orders: 1 range" in logged
    assert "this run takes 1 of 2 waves, and leaves 1 to the next" in logged
    ingest(context, first)
    advance(context, plan_task_id="plan")
    with pytest.raises(AirflowFailException, match=r"1 wave for which this run had no room.* kafka-lake run orders"):
        finish(context)
    assert plan(world, context) == [second]
    ingest(context, second)
    finish(context)
    assert planned(context)["later"] == []


@pytest.mark.parametrize(
    "given",
    [
        {"topic": "no topic"},
        {"topic": ["orders"]},
        {"from_": "yesterday"},
        {"from_": "None"},
        {"from_": True},
        {"to": "2026-01-31T06:00:00"},
        {"from_": "9", "to": "3"},
        {"partitions": "0..1"},
        {"partitions": "5-0"},
        {"partitions": "0-99999"},
        {"partitions": ","},
        {"partitions": "[0"},
        {"partitions": "{}"},
        {"partitions": [-1]},
        {"partitions": [True]},
        {"partitions": []},
        {"partitions": 3},
        {"partitions": [2147483648]},
        {"partitions": 0.5},
        {"reason": "\0"},
        {"acknowledge_order": "perhaps"},
        {"dry_run": "perhaps"},
        {"dry_run": 2},
        {"pipeline": ""},
        {"pipeline": "../missing"},
        {"pipeline": "No Body"},
        {"pipeline": "missing"},
    ],
    ids=str,
)
def test_wrong_values_are_refused_before_anything_is_opened(
    world: World, context: Context, given: dict[str, Any]
) -> None:
    """Values come from people: what cannot be meant fails at once, without a retry, and nothing was opened."""
    with pytest.raises(AirflowFailException):
        plan(world, context, **given)
    assert world.opened == []


@pytest.mark.parametrize(
    ("given", "landed"),
    [
        ({"from_": "2", "to": "4", "partitions": "[0]"}, [2, 3]),
        ({"from_": 2, "to": 4, "partitions": [0]}, [2, 3]),
        ({"from_": "", "to": "", "topic": "", "partitions": "", "dry_run": "false"}, [0, 1, 2, 3, 4]),
        ({"partitions": "[0]", "topic": "orders"}, [0, 1, 2, 3, 4]),
        ({"partitions": "null"}, [0, 1, 2, 3, 4]),
        ({"partitions": "0-0", "from_": " 3 "}, [3, 4]),
        ({"partitions": [1]}, []),
    ],
    ids=str,
)
def test_bounds_are_read_as_templates_and_as_values(
    world: World, context: Context, given: dict[str, Any], landed: list[int]
) -> None:
    """Offsets, times, lists and flags come as text from a form, or as values from a Dag."""
    world.produce(5)
    for wave in plan(world, context, **given):
        ingest(context, wave)
    assert [offset for _, offset in world.offsets()] == landed


def test_reason_of_a_plan_is_kept_with_it(world: World, context: Context) -> None:
    """The history says why a person had it read; without a reason it says nothing of one."""
    world.produce(5)
    plan(world, context, to="2", partitions=[0], reason=" the audit asked for it ")
    plan(world, context)
    first, second = [event.detail for event in world.ledger.events("orders") if event.kind == "plan"]
    assert first.endswith("2 offsets: the audit asked for it")
    assert second.endswith("3 offsets")


def test_a_period_in_which_nothing_lies_fails_the_plan(world: World, context: Context) -> None:
    """A wrong year is no green Dag run: the message says where Kafka's records are."""
    world.produce(5)
    with pytest.raises(AirflowFailException, match="EmptyPeriodError: nothing lies in the period from 2036"):
        plan(world, context, from_="2036-01-01T00:00:00Z", to="2036-02-01T00:00:00Z")
    assert planned(context) is None


HOUR = datetime(2026, 3, 1, 6, tzinfo=UTC)


def run_of(context: Context, kind: str, start: datetime | None, end: datetime | None) -> Context:
    """Let a task belong to a run of a kind, with a data interval."""
    run = SimpleNamespace(run_type=kind, data_interval_start=start, data_interval_end=end, conf={})
    return {**context, "dag_run": run}


def test_backfill_run_asks_for_its_data_interval(world: World, context: Context) -> None:
    """Every other run reads what is missing, whatever its dates are; bounds of the Dag's own stay as they are."""
    world.kafka.produce("orders", 0, b"early", timestamp_ms=milliseconds(HOUR))
    world.kafka.produce("orders", 0, b"late", timestamp_ms=milliseconds(HOUR + timedelta(hours=1)))
    hour = run_of(context, "backfill", HOUR, HOUR + timedelta(hours=1))
    (wave,) = plan(world, hour)
    (only,) = world.ledger.ranges(wave=wave)
    assert (only.range.start, only.range.end) == (0, 1)
    assert plan(world, run_of(context, "backfill", HOUR, HOUR), partitions="0", from_="0", to="1") == [wave]
    for kind in ("scheduled", "manual", "asset_triggered"):
        assert len(plan(world, run_of(context, kind, HOUR, HOUR))) == 2


def test_run_by_hand_with_a_date_is_told_that_the_date_bounds_nothing(
    world: World, context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    """As `airflow dags test` with a date, which a person may take for a period."""
    world.produce(5)
    with caplog.at_level("INFO"):
        plan(world, run_of(context, "manual", HOUR, HOUR + timedelta(hours=1)))
    assert "reads what is missing: the run's data interval, 2026-03-01 06:00:00+00:00 to" in caplog.text


@pytest.mark.parametrize(
    ("start", "end", "why"),
    [
        (
            HOUR,
            HOUR,
            r"its data interval has no length \(2026-03-01T06:00:00\+00:00\): it would read all that is missing",
        ),
        (None, None, "it has no data interval: it would read all that is missing"),
    ],
)
def test_backfill_run_without_an_interval_is_refused_before_anything_is_read(
    world: World, context: Context, start: datetime | None, end: datetime | None, why: str
) -> None:
    """It would take the whole topic, once for each of its dates."""
    world.produce(5)
    with pytest.raises(AirflowFailException, match=f"UsageError: this is a backfill run, and {why}.*Nothing was read"):
        plan(world, run_of(context, "backfill", start, end))
    assert (world.opened, world.ledger.pipelines()) == ([], ())


def test_hour_without_a_record_is_no_failure_of_a_backfill(
    world: World, context: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    """What an open transaction has of it may still come, and is one."""
    world.kafka.produce("orders", 0, b"late", timestamp_ms=milliseconds(HOUR + timedelta(hours=9)))
    hour = run_of(context, "backfill", HOUR, HOUR + timedelta(hours=1))
    assert plan(world, hour) == []
    assert (
        "nothing to do in this run's data interval, 2026-03-01 06:00:00+00:00 to 2026-03-01 07:00"
        in capsys.readouterr().out
    )
    advance(hour, plan_task_id="plan")
    finish(hour)
    assert world.ledger.pipelines() == ()
    world.kafka.produce("orders", 1, b"open", transaction="slow", timestamp_ms=milliseconds(HOUR))
    with pytest.raises(AirflowFailException, match=r"RangeBeyondEndError: orders partition 1: .* last stable offset 0"):
        plan(world, hour)


def test_moment_is_no_period(world: World, context: Context) -> None:
    """As the begin and the end of a cron run's interval are by default: the message says what gives it a length."""
    with pytest.raises(AirflowFailException, match=r"the same moment.*CronDataIntervalTimetable"):
        plan(world, context, from_=HOUR.isoformat(), to=HOUR.isoformat())


def test_unknown_key_of_a_runs_configuration_is_refused(world: World, context: Context) -> None:
    """A misspelt bound would be a run without bounds; what a Dag does not list is its own affair."""
    world.produce(5)
    for conf in ({"form": "3"}, {"from": "3", "parttitions": [0]}):
        context["dag_run"] = SimpleNamespace(
            run_type="manual", data_interval_start=None, data_interval_end=None, conf=conf
        )
        with pytest.raises(AirflowFailException, match=r"none of its keys; did you mean '(from|partitions)'"):
            plan(world, context, conf_keys=["pipeline", "from", "partitions"])
    assert world.opened == []
    for conf in ({"from": "3"}, {}, None):
        context["dag_run"] = SimpleNamespace(
            run_type="manual", data_interval_start=None, data_interval_end=None, conf=conf
        )
        plan(world, context, conf_keys=["pipeline", "from", "partitions"], dry_run=True)
    context["dag_run"] = SimpleNamespace(
        run_type="manual", data_interval_start=None, data_interval_end=None, conf={"form": "3"}
    )
    plan(world, context)


def test_pipeline_by_name_comes_from_the_folder_and_by_path_too(world: World, context: Context, folder: Path) -> None:
    """A name is looked up in the configured folder first, a relative file inside it."""
    write_pipeline(folder, "shop", topic="orders")
    world.produce(1)
    assert len(plan(world, context, pipeline="shop")) == 1
    assert plan(world, context, pipeline="shop.toml") == [wave.id for wave in world.ledger.waves("shop")]


def test_pipeline_by_name_may_be_one_that_only_the_ledger_knows(
    world: World, context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a folder, or with one that is not there, a recorded pipeline still goes on."""
    world.produce(1)
    plan(world, context)
    world.produce(1, partition=1)
    assert len(plan(world, context, pipeline="orders")) == 2
    monkeypatch.setenv("AIRFLOW__KAFKA_LAKE__PIPELINES_FOLDER", str(tmp_path / "missing"))
    assert len(plan(world, context, pipeline="orders")) == 2


@pytest.mark.parametrize("file", ["orders.toml", "other.toml"])
def test_pipeline_by_name_is_not_read_as_it_was_while_its_file_does_not_validate(
    world: World, context: Context, folder: Path, file: str
) -> None:
    """What the ledger has of it is older than the file, and would be planned without a word."""
    world.produce(1)
    plan(world, context)
    write_pipeline(folder, "orders").rename(folder / file)
    (folder / file).write_text((folder / file).read_text().replace("topics", "topcs"))
    with pytest.raises(AirflowFailException, match="topcs"):
        plan(world, context, pipeline="orders")


def test_pipeline_of_a_file_that_is_no_toml_is_known_by_the_files_name(
    world: World, context: Context, folder: Path
) -> None:
    """Nothing else of it can be read."""
    world.produce(1)
    plan(world, context)
    (folder / "orders.toml").write_text("[pipeline")
    with pytest.raises(AirflowFailException, match=r"orders\.toml"):
        plan(world, context, pipeline="orders")


def test_ingest_checks_its_machine_before_it_claims(world: World, context: Context) -> None:
    """Spark and Kafka are asked for before the wave is touched."""
    world.produce(1)
    (wave,) = plan(world, context)
    ingest(context, wave)
    assert world.opened[-1]["need_spark"]
    assert world.opened[-1]["need_kafka"]


@pytest.mark.parametrize(
    ("index", "mapped", "place"),
    [(-1, 1, ""), (None, 1, ""), (0, 3, " (1 of 3)"), (2, 3, " (3 of 3)"), (1, None, "")],
    ids=["not mapped", "as a test calls it", "first", "last", "Airflow does not say"],
)
def test_log_of_a_mapped_wave_says_which_of_how_many(
    world: World, context: Context, index: int, mapped: int | None, place: str
) -> None:
    """By the map index; it is only shown, so that a wave lands without it too."""
    world.produce(2)
    (wave,) = plan(world, context)
    context["ti"].map_index, context["ti"].mapped = index, mapped
    ingest(context, wave)
    (landed,) = [live.sentence() for live in world.seen if live.moment is Moment.LANDED]
    assert landed.startswith(f"wave {wave}{place} landed: 2 rows, ")


def test_ingest_of_a_committed_wave_says_so_and_does_nothing(world: World, context: Context) -> None:
    """Clearing a finished task is harmless, and its log says since when the wave is in the lake and what reads it
    again."""
    world.produce(2)
    (wave,) = plan(world, context)
    first = ingest(context, wave)
    since = timestamp(world.clock.now())
    world.clock.advance(timedelta(days=1))
    world.logged.clear()
    assert ingest(context, wave) == first
    assert len(world.runner.jobs) == 1
    logged = "\n".join(world.logged)
    assert f"wave {wave} is in the lake since {since}: 2 rows" in logged
    assert "kafka-lake reopen orders --topic orders --partition 0 --from 0 --to 2 --reason TEXT" in logged


def test_ingest_refuses_a_wave_of_another_pipeline(world: World, context: Context) -> None:
    """The pipeline, where it is given, is a check."""
    world.produce(1)
    (wave,) = plan(world, context)
    with pytest.raises(AirflowFailException, match="not of payments"):
        ingest(context, wave, pipeline="payments")


def test_failed_job_may_be_retried(world: World, context: Context) -> None:
    """A Spark job that died is Airflow's to repeat, and the repetition lands the rows once."""
    world.produce(2)
    (wave,) = plan(world, context)
    world.runner.failures.append("out of memory")
    with pytest.raises(JobFailedError, match=r"^out of memory"):
        ingest(context, wave)
    ingest(context, wave)
    assert world.offsets() == [(0, 0), (0, 1)]


def test_full_disk_under_a_job_is_a_sentence_of_the_log_and_the_next_try_lands(
    world: World, context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    """An error of its own, with what to do; it may be retried, because there may be room then."""
    world.produce(2)
    (wave,) = plan(world, context)
    full = recognised(["java.io.IOException: No space left on device"])
    assert full is not None
    world.runner.failures.append(f"The Spark job of wave {wave} ended with exit code 1. {full.advice}")
    with pytest.raises(JobFailedError):
        ingest(context, wave)
    (said,) = [line.getMessage() for line in caplog.records if line.levelname == "ERROR"]
    assert said.startswith(f"JobFailedError: The Spark job of wave {wave} ended with exit code 1. A disk is full: that")
    assert said.endswith("Make room there; nothing was published, the wave is unharmed and can be run again.")
    ingest(context, wave)
    assert world.offsets() == [(0, 0), (0, 1)]


def test_full_disk_under_the_ledger_is_a_sentence_of_the_log_and_the_next_try_plans(
    world: World, context: Context, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Nothing is recorded by halves."""
    ledger = SqlLedger(f"sqlite:///{tmp_path}/ledger.db")
    ledger.upgrade()
    world.clock.advance(datetime.now(UTC) - world.clock.now())
    world.ledger = ledger  # type: ignore[assignment]
    world.produce(2)
    limit = "PRAGMA max_page_count = 1"  # SQLite takes what the file has now for the least that it can be

    def is_full(connection: Any, _: Any) -> None:
        connection.execute(limit).close()

    ledger.close()
    event.listen(ledger.engine, "connect", is_full)
    with pytest.raises(UnavailableError):
        plan(world, context, reason="x" * 100_000)
    (said,) = [line.getMessage() for line in caplog.records if line.levelname == "ERROR"]
    assert re.search(r"UnavailableError: The ledger .* has no room to write: .*full", said)
    assert said.endswith("Nothing was recorded. Make room on its disk, then repeat.")
    event.remove(ledger.engine, "connect", is_full)
    ledger.close()
    assert plan(world, context)
    ledger.close()


def test_exception_that_no_part_expects_may_be_retried(
    world: World, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends the task with its name and place, not with a library's own words."""
    world.produce(2)
    (wave,) = plan(world, context)
    with monkeypatch.context() as changed:
        changed.setattr(world.runner, "tamper", lambda rows: rows[1 / 0])
        with pytest.raises(UnexpectedError, match=r"^wave .* an unexpected ZeroDivisionError"):
            ingest(context, wave)
    ingest(context, wave)
    assert world.offsets() == [(0, 0), (0, 1)]


def test_ingest_waits_without_a_slot_while_another_worker_works(world: World, context: Context) -> None:
    """A wave in other hands defers the task; once it is free the same task goes on."""
    world.produce(2)
    (wave,) = plan(world, context)
    world.ledger.commit(ClaimWave(wave=wave, attempt="f" * 16, holder=OTHER, lease=timedelta(minutes=2)))
    with pytest.raises(TaskDeferred) as deferred:
        ingest(context, wave)
    assert deferred.value.method_name == "execute_complete"
    assert deferred.value.trigger.serialize()[1]["wave"] == wave
    world.clock.advance(timedelta(minutes=3))
    operator = IngestWaveOperator(task_id="ingest", wave=wave)
    assert operator.execute_complete(context, {"status": "success", "message": "free"})["state"] == "COMMITTED"


def test_ingest_waits_for_the_worker_that_took_its_wave_over(
    world: World, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that lost its wave while it slept has nothing to repeat yet: the other one may do it all."""
    world.produce(2)
    (wave,) = plan(world, context)
    real = world.runner.stage

    def slow(*arguments: Any, **named: Any) -> None:
        world.clock.advance(timedelta(minutes=3))
        world.ledger.commit(ClaimWave(wave=wave, attempt="f" * 16, holder=OTHER, lease=timedelta(minutes=2)))
        real(*arguments, **named)

    monkeypatch.setattr(world.runner, "stage", slow)
    with pytest.raises(TaskDeferred) as deferred:
        ingest(context, wave)
    assert deferred.value.trigger.serialize()[1]["wave"] == wave


def test_kill_unwinds_the_running_job(world: World, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's kill reaches the runner as an exception, which ends the driver; the attempt is on record as failed."""
    world.produce(2)
    (wave,) = plan(world, context)
    operator = IngestWaveOperator(task_id="ingest", wave=wave)

    def killed(*_: Any, **__: Any) -> None:
        operator.on_kill()

    monkeypatch.setattr(world.runner, "stage", killed)
    with pytest.raises(AirflowTaskTerminated):
        operator.execute(context)
    assert [attempt.outcome.value for attempt in world.ledger.attempts(wave)] == ["failed"]
    operator.on_kill()  # after a timeout the stack is unwound already: nothing to do


def test_finish_fails_while_ranges_of_the_plan_are_unresolved(
    world: World, context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    """A run whose waves did not all land is not called a success, although its watermarks moved.

    It fails at once, for to look again brings nothing; what helps is logged as an error of its own.
    """
    world.produce(2)
    (wave,) = plan(world, context)
    with pytest.raises(AirflowFailException, match=r"1 range of plan .* kafka-lake run orders$"):
        finish(context)
    assert "kafka-lake run orders" in caplog.text
    cancel(world.ports(), wave, "not today")
    with pytest.raises(AirflowFailException, match="not today"):
        finish(context)


def test_transaction_that_hangs_turns_the_run_red(
    world: World, context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    """While it may still end by itself the run is green; what no producer ends is named, after all else has landed."""
    world.produce(2)
    world.kafka.produce("orders", 0, b"open", transaction="nightly-load")
    world.produce(3, 1)
    for wave in plan(world, context):
        ingest(context, wave)
    finish(context)
    world.clock.advance(timedelta(minutes=3))
    world.produce(1, 1)
    for wave in plan(world, context):
        ingest(context, wave)
    with pytest.raises(AirflowFailException, match=r"transaction 'nightly-load' of producer .*, which hangs"):
        finish(context)
    assert "--partition 0 --start-offset 2" in caplog.text
    assert len(world.offsets()) == 6


def test_hold_of_an_earlier_plan_keeps_every_run_red(world: World, context: Context) -> None:
    """A run that landed all it planned, or found nothing to do, is no success while a person must act."""
    world.produce(2)
    (wave,) = plan(world, context)
    cancel(world.ports(), wave, "not today")
    world.produce(3)
    (later,) = plan(world, context)
    assert ingest(context, later)["state"] == "COMMITTED"
    held = r"1 range of pipeline orders is on hold .*first orders/0 0-2 cancelled: not today\. End it with: "
    with pytest.raises(AirflowFailException, match=f"{held}kafka-lake release {wave}r0$"):
        finish(context)
    assert plan(world, context) == []
    with pytest.raises(AirflowFailException, match=held):
        finish(context)
    release(world.ports(), wave, None)
    for left in plan(world, context):
        ingest(context, left)
    finish(context)


def test_hold_is_named_before_what_was_not_run(world: World, context: Context) -> None:
    """A later wave that did not run may wait for the very hold, so no message says to just run it again."""
    world.produce(2)
    (wave,) = plan(world, context)
    cancel(world.ports(), wave, "not today")
    world.produce(3)
    assert len(plan(world, context)) == 1
    with pytest.raises(AirflowFailException, match=rf"cancelled: not today\. .*kafka-lake release {wave}r0$"):
        finish(context)


def test_finish_of_a_pipeline_that_was_never_planned_is_a_success(world: World, context: Context) -> None:
    """A ledger that knows nothing holds nothing."""
    context["ti"].task_id = "plan"
    nothing = {"pipeline": "orders", "plan": None, "waves": [], "blocked": 0, "dry_run": False}
    context["ti"].xcom_push(key="plan", value=nothing)
    finish(context)


def test_plan_of_another_version_is_checked_as_well(world: World, context: Context) -> None:
    """An upgrade in the middle of a run: where the task before has not told all plans, its own one is not done."""
    world.produce(2)
    plan(world, context)
    context["ti"].task_id = "plan"
    told = {name: value for name, value in planned(context).items() if name != "plans"}
    context["ti"].xcom_push(key="plan", value=told | {"of a later version": 1})
    with pytest.raises(AirflowFailException, match=r"1 range of plan .* is not committed"):
        finish(context)
    context["ti"].xcom_push(key="plan", value={"pipeline": "orders"})
    with pytest.raises(AirflowFailException, match="Task plan left no plan"):
        finish(context)


@pytest.mark.parametrize("lost", ["plan", "pipeline"])
def test_ledger_that_has_lost_the_plan_ends_no_run_well(world: World, context: Context, lost: str) -> None:
    """It has no open range of that plan: so has a ledger in which all is committed."""
    world.produce(2)
    for wave in plan(world, context):
        ingest(context, wave)
    finish(context)
    other = {"plan": {"plans": ["p-lost"]}, "pipeline": {"pipeline": "of-before"}}
    context["ti"].task_id = "plan"
    context["ti"].xcom_push(key="plan", value=planned(context) | other[lost])
    with pytest.raises(AirflowFailException, match=f"the ledger knows no {lost}"):
        finish(context)


def test_finish_fails_when_the_plan_left_something_out(world: World, context: Context) -> None:
    """A partition that could not be observed is a person's problem, not a success."""
    world.produce(2)
    world.kafka.log("orders", 1).unreachable = "its leader moved"
    for wave in plan(world, context):
        ingest(context, wave)
    with pytest.raises(AirflowFailException, match="1 slice was left out"):
        finish(context)


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("failed", "Task plan left no plan: its log says why. Clear it to plan again"),
        ("upstream_failed", "Task plan was not run, for what comes before it failed"),
    ],
)
def test_without_a_plan_nothing_is_called_a_success(world: World, context: Context, state: str, why: str) -> None:
    """The task after a failed plan fails too, although it runs whatever happened before; a plan that was never run has
    no log, and is not what is to be cleared."""
    context["ti"].states["plan"] = state
    with pytest.raises(AirflowFailException, match=why):
        advance(context, plan_task_id="plan")


def test_advance_is_no_second_failure_where_the_next_task_depends_on_the_plan_too(
    world: World, context: Context
) -> None:
    """In the task group the run fails with the plan, and one task is red: the one with the reason."""
    context["ti"].states["plan"] = "failed"
    with DAG("d", schedule=None):
        operator = AdvanceWatermarkOperator(task_id="advance", pipeline=ORDERS, plan_task_id="plan")
        last = FinishPlanOperator(task_id="finish", plan_task_id="plan")
        PlanIngestOperator(task_id="plan", pipeline=ORDERS) >> operator >> last
    with pytest.raises(AirflowFailException):
        operator.execute(context)
    operator.dag.get_task("plan") >> last
    with pytest.raises(AirflowSkipException, match="Task plan left no plan"):
        operator.execute(context)


def test_skipped_plan_skips_the_rest(world: World, context: Context) -> None:
    """A branch that left the group out is no failure."""
    context["ti"].states["plan"] = "skipped"
    with pytest.raises(AirflowSkipException):
        advance(context, plan_task_id="plan")


@pytest.mark.parametrize("error", [JobFailedError("x"), UnknownOutcomeError("x"), ValueError("x")], ids=repr)
def test_errors_that_may_pass_stay_what_they_are(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """What may pass is retried, a bug stays a bug; the sentence is logged first: Airflow cuts a header off."""
    with pytest.raises(type(error)) as raised, airflow_errors():
        raise error
    logged = [(line.levelname, line.getMessage()) for line in caplog.records]
    assert raised.value is error
    assert logged == ([] if isinstance(error, ValueError) else [("ERROR", f"{type(error).__name__}: x")])


@pytest.mark.parametrize("kind", [UnavailableError, UsageError])
def test_what_caused_an_error_stays_out_of_airflows_log(kind: type[Exception]) -> None:
    """Airflow prints a chain of exceptions to its end, and a library's own words may hold a password."""

    def asks() -> None:
        try:
            int("s3cr3t")
        except ValueError as error:
            raise kind("no answer") from error

    with pytest.raises(Exception, match="no answer") as raised, airflow_errors():
        asks()
    assert "s3cr3t" not in "".join(traceback.format_exception(raised.value)).replace('int("s3cr3t")', "")


def test_bad_file_is_a_task_that_fails_with_the_reason(context: Context) -> None:
    """The scheduled Dag stays honest about files it cannot use."""
    with pytest.raises(AirflowFailException, match="no such key"):
        RefuseOperator(task_id="x", problem="no such key").execute(context)


def test_events_name_every_stream_a_hundred_at_a_time() -> None:
    """A wide pipeline's events stay small, and none of its offsets is recorded as told that no event has named."""
    moves = [Advance(stream=Stream("t", "i", n), sequence=n, start=0, end=n + 1, rows=1) for n in range(250)] + [
        Advance(stream=Stream("t", "i", 0), sequence=300, start=1, end=9, rows=8)
    ]
    extras = event_extras("wide", None, moves, after=-1, ledger="one")
    assert [len(extra["streams"]) for extra in extras] == [MAX_STREAMS, MAX_STREAMS, 51]
    assert [(extra["after"], extra["sequence"]) for extra in extras] == [(-1, 99), (99, 199), (199, 300)]
    assert sum(extra["rows"] for extra in extras) == 258
    named = [(stream["partition"], stream["from"], stream["to"]) for extra in extras for stream in extra["streams"]]
    assert sorted(named) == sorted([*((n, 0, n + 1) for n in range(250)), (0, 1, 9)])


def test_pipeline_stays_an_object_across_tasks() -> None:
    """A template field shows the name; the configuration itself is never rendered."""
    from airflow.serialization.helpers import serialize_template_field

    pipeline = Pipeline(name="a", topics=["t"], table="a.b")
    operator = PlanIngestOperator(task_id="p", pipeline=pipeline)
    operator.render_template_fields({})
    assert operator.pipeline is pipeline
    assert serialize_template_field(operator.pipeline, "pipeline") == "a"
