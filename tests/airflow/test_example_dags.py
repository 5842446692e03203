"""The example Dags: quick to parse, sensible without pipelines, honest about bad files, strict about words."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, CronDataIntervalTimetable

from .conftest import write_pipeline

HEAVY = ("pyspark", "pyiceberg", "pyarrow", "confluent_kafka", "kafka", "alembic", "pandas")
ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "airflow_kafka_lake" / "example_dags"
PAGES = tuple(
    sorted(
        str(path.relative_to(ROOT))
        for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
        if "```python" in path.read_text(encoding="utf-8")
    )
)


def dag(name: str) -> DAG:
    """Read a Dag file that has one Dag, or one Dag of the file of decisions."""
    if name in DECISIONS:
        return dags("kafka_lake_decisions")[name]
    (found,) = dags(name).values()
    return found


def dags(name: str) -> dict[str, DAG]:
    """Read a Dag file anew, as the Dag processor does; returns its Dags by their ids."""
    import importlib.util

    from airflow.sdk.definitions._internal.contextmanager import DagContext

    found = importlib.util.spec_from_file_location(f"read_{name}", FOLDER / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    DagContext.autoregistered_dags.clear()
    DagContext.current_autoregister_module_name = module.__name__
    sys.modules[module.__name__] = module
    try:
        found.loader.exec_module(module)
        return {item.dag_id: item for item, _ in DagContext.autoregistered_dags}
    finally:
        del sys.modules[module.__name__]
        DagContext.autoregistered_dags.clear()
        DagContext.current_autoregister_module_name = None


def form(**conf: Any) -> Any:
    """Fill the form of the manual Dag, for pipeline `orders`, and validate it as Airflow does before a run begins."""
    return chosen(**{"pipeline": "orders", **conf})


def chosen(**conf: Any) -> Any:
    """Fill the form of the manual Dag with nothing but what is given."""
    params = dag("kafka_lake_manual").params
    params.update(conf)
    return params.validate()


DECISIONS = ("kafka_lake_reopen", "kafka_lake_skip", "kafka_lake_withdraw")


FILES = tuple(sorted(path.stem for path in FOLDER.glob("kafka_lake_*.py")))


def test_dag_files_import_nothing_heavy(folder: Path) -> None:
    """The Dag processor reads the files again and again: engines and clients wait for the task."""
    write_pipeline(folder, "orders")
    code = (
        "import sys, importlib, airflow.sdk, airflow.triggers.base; before = set(sys.modules)\n"
        f"for name in {FILES!r}:\n"
        "    importlib.import_module(f'airflow_kafka_lake.example_dags.{name}')\n"
        f"    print(name, [m for m in {HEAVY!r} if m in set(sys.modules) - before])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-len(FILES) :] == [f"{name} []" for name in FILES]


def test_each_pipeline_has_an_hourly_dag_of_its_own(folder: Path) -> None:
    """A long one stops no other's hour; each is one task group."""
    write_pipeline(folder, "orders")
    write_pipeline(folder, "a.b-c")
    found = dags("kafka_lake_scheduled")
    assert set(found) == {"kafka_lake.orders", "kafka_lake.a.b-c"}
    for item in found.values():
        assert set(item.task_ids) == {f"kafka_lake.{task}" for task in ("plan", "ingest", "advance", "finish")}
        assert (item.max_active_runs, item.catchup) == (1, False)
        assert isinstance(item.timetable, CronDataIntervalTimetable), "a backfill reads its dates"
        assert (item.timetable.expression, str(item.timetable.timezone)) == ("0 * * * *", "UTC")


@pytest.mark.parametrize("setting", ["", "empty", "absent"])
def test_no_pipelines_are_no_import_error(setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder, an empty one or a missing one: the form says so, and a folder that is not there fails a Dag."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("AIRFLOW__KAFKA_LAKE__PIPELINES_FOLDER", str(tmp_path / setting) if setting else "")
    assert setting == "absent" or "No pipelines" in dag("kafka_lake_manual").doc_md
    told = None if setting == "absent" else dag("kafka_lake_manual").params.get_param("pipeline").description
    assert setting == "absent" or "(AIRFLOW__KAFKA_LAKE__PIPELINES_FOLDER) is not set, or has no" in str(told)
    assert list(dags("kafka_lake_scheduled")) == (["kafka_lake.absent"] if setting == "absent" else [])


def test_bad_file_fails_its_own_dag_and_hides_no_other(folder: Path) -> None:
    """A file that does not validate is visible as a failing task beside the good ones."""
    write_pipeline(folder, "orders")
    (folder / "broken.toml").write_text("[pipeline]\nname = 5\n")
    found = dags("kafka_lake_scheduled")
    assert found["kafka_lake.orders"].has_task("kafka_lake.plan")
    assert found["kafka_lake.broken"].task_ids == ["invalid_file"]
    assert "broken.toml" in found["kafka_lake.broken"].get_task("invalid_file").problem
    assert "broken.toml" in dag("kafka_lake_manual").doc_md
    assert form()["pipeline"] == "orders"


@pytest.mark.parametrize(
    "conf",
    [
        {"pipeline": "missing"},
        {"pipeline": None},
        {"pipeline": "orders.toml"},
        {"dry_run": "yes"},
        {"dry_run": None},
        {"ask": "no"},
    ],
    ids=str,
)
def test_form_refuses_what_cannot_be_filled_in_on_its_page(folder: Path, conf: dict[str, Any]) -> None:
    """A pipeline that is not there, or a switch that is neither on nor off, starts no run at all."""
    from airflow.sdk.exceptions import ParamValidationError

    write_pipeline(folder, "orders")
    with pytest.raises(ParamValidationError):
        form(**conf)


@pytest.mark.parametrize("conf", [{}, {"pipline": "orders"}, {"dry_run": True}], ids=str)
def test_form_chooses_no_pipeline_by_itself(folder: Path, conf: dict[str, Any]) -> None:
    """Who names none, or misspells the word for it, does not start the first of them."""
    from airflow.sdk.exceptions import ParamValidationError

    write_pipeline(folder, "orders")
    write_pipeline(folder, "another")
    with pytest.raises(ParamValidationError):
        chosen(**conf)
    assert chosen(pipeline="orders")["pipeline"] == "orders"


def test_plan_of_the_form_knows_its_fields(folder: Path) -> None:
    """Airflow lets a configuration pass that has other keys: the first task refuses it."""
    write_pipeline(folder, "orders")
    found = dag("kafka_lake_manual")
    for task in ("review", "kafka_lake.plan"):
        assert set(found.get_task(task).conf_keys) == set(found.params)


def test_form_without_pipelines_starts_nothing(folder: Path) -> None:
    """Where nothing can be chosen, nothing can be triggered."""
    from airflow.sdk.exceptions import ParamValidationError

    for conf in ({}, {"pipeline": "orders"}, {"pipeline": "o"}, {"pipeline": ""}):
        with pytest.raises(ParamValidationError):
            chosen(**conf)


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ({}, ("orders", "", "", "", "", "false", "", "false", "", False)),
        (
            {"topic": "orders", "partitions": [0, 3], "from": "0", "to": "2026-01-31T06:00:00Z", "all_waves": True},
            ("orders", "orders", "[0, 3]", "0", "2026-01-31T06:00:00Z", "true", "", "false", "", False),
        ),
        (
            {"partitions": "0-5, 9", "from_offset": 0, "to_offset": "20", "acknowledge_order": True, "reason": "late"}
            | {"max_waves": "5"},
            ("orders", "", "0-5, 9", "0", "20", "false", "5", "true", "late", False),
        ),
    ],
)
def test_form_reaches_the_plan_as_text(folder: Path, conf: dict[str, Any], expected: tuple[str, ...]) -> None:
    """Templates hand every field on exactly; what was left empty arrives empty."""
    write_pipeline(folder, "orders")
    found = dag("kafka_lake_manual")
    plan = found.get_task("kafka_lake.plan")
    plan.render_template_fields({"params": form(**conf), "dag": found})
    fields = "pipeline topic partitions from_ to all_waves max_waves acknowledge_order reason is_dry_run ledger_conn_id"
    assert set(plan.template_fields) == set(fields.split())
    assert tuple(getattr(plan, field) for field in fields.split()) == (*expected, "kafka_lake_ledger")


def test_dags_survive_serialisation(folder: Path) -> None:
    """What the scheduler stores is what was written: mapped tasks, params and all."""
    from airflow.serialization.serialized_objects import DagSerialization

    write_pipeline(folder, "orders")
    for name in (*(name for name in FILES if name != "kafka_lake_decisions"), *DECISIONS):
        found = dag(name)
        stored = json.loads(json.dumps(DagSerialization.to_dict(found)))
        assert set(DagSerialization.from_dict(stored).task_ids) == set(found.task_ids)


@pytest.mark.parametrize("name", DECISIONS)
def test_decision_is_shown_then_approved_then_carried_out(name: str, folder: Path) -> None:
    """Three tasks in a line; what the form knows is what its tasks take."""
    write_pipeline(folder, "orders")
    found = dag(name)
    last = name.removeprefix("kafka_lake_")
    assert [task.task_id for task in found.topological_sort()] == ["explain", "approve", last]
    for task in ("explain", last):
        assert set(found.get_task(task).conf_keys) == set(found.params)
    found.params.update({"pipeline": "orders", "reason": None})
    assert found.params.validate()["pipeline"] == "orders"


@pytest.mark.parametrize("page", PAGES)
def test_python_of_the_documents_is_read_beside_its_pipeline_file(page: str, folder: Path) -> None:
    """What a person copies from a page works as it stands, whatever the current directory is."""
    write_pipeline(folder, "orders")
    (folder / "from.json").write_text('{"orders": {"0": 0}}')
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    for number, text in enumerate(blocks):
        file = folder / f"copied_{number}.py"
        file.write_text(text.replace("/data/pipelines", str(folder)))
        exec(compile(file.read_text(), file, "exec"), {"__file__": str(file), "__name__": "copied"})
