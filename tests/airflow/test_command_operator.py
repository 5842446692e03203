"""A command as a task: what a message names is run without a terminal, and ends the task as it would end a shell."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_kafka_lake.cli import command as commands
from airflow_kafka_lake.cli import decisions, entry_point, status
from airflow_kafka_lake.cli.airflow_task import CommandOperator
from airflow_kafka_lake.cli.command import Command
from airflow_kafka_lake.core.errors import ConnectionSettingsError, TransientError, UnavailableError, UnexpectedError
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.services import running
from airflow_kafka_lake.wiring import assemble

from .conftest import ORDERS, World, write_pipeline

pytestmark = pytest.mark.airflow
Context = dict[str, Any]


@pytest.fixture
def landed(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Three records in the lake, and commands that open this world."""
    for module in (commands, decisions, status):
        monkeypatch.setattr(module, "open_ledger", assemble.open_ledger)
    monkeypatch.setattr(commands, "open_ports", assemble.open_ports)
    monkeypatch.setenv(commands.ACTOR, "test")
    world.produce(3)
    assert running.run(world.ports(), ORDERS.spec, Bounds()).exit_code == 0
    return world


def run(command: str, context: Context) -> None:
    CommandOperator(task_id="command", command=command).execute(context)


def test_decision_of_a_command_has_the_person_and_the_task(landed: World, context: Context) -> None:
    """As it stands in a message, with the program before it and quotes around the reason."""
    context["dag_run"] = SimpleNamespace(triggering_user_name="Ada")
    run('kafka-lake pause orders --reason "the catalog moves"', context)
    (pause,) = landed.ledger.pipeline("orders").pauses
    assert (pause.reason, pause.actor) == ("the catalog moves", "airflow user Ada, airflow:dag/run/task")
    del context["dag_run"]
    run("resume orders", context)
    assert not landed.ledger.pipeline("orders").pauses
    assert landed.ledger.events("orders", limit=1, newest=True)[0].actor == "airflow:dag/run/task"


def test_output_and_progress_are_the_task_log(
    landed: World, context: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    """In their order, and nothing on stderr, which Airflow shows as an error; words before the program, and a line
    break in the command, are as people copy them."""
    words = "reopen orders --topic orders\n--partition 0 --from 0 --to 2 --reason lost --dry-run"
    run(f"Do it with: kafka-lake {words}", context)
    shown = capsys.readouterr()
    assert "nothing was changed; do it with: kafka-lake reopen orders" in shown.out
    assert not shown.err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("status missing", "missing"),
        ("kafka-lake", "is none that ends by itself"),
        ("worker --drain", "is none that ends by itself"),
        ("demo", "is none that ends by itself"),
        ("status orders --watch", "is none that ends by itself"),
        ("pause orders --reason 'unclosed", "no closing quotation"),
        ("stauts orders", "'status'"),
        ("", "is none that ends by itself"),
        ("kafka-lake pause orders --reason TEXT", "a reason is needed"),
    ],
)
def test_command_that_cannot_work_fails_at_once(landed: World, context: Context, command: str, words: str) -> None:
    """In a sentence; no retry would help."""
    with pytest.raises(AirflowFailException, match=words):
        run(command, context)


def test_help_ends_well_and_a_defect_tells_no_secret(
    landed: World, context: Context, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A library's own text may hold an address with a password."""
    run("skip --help", context)
    assert "usage: kafka-lake skip" in capsys.readouterr().out

    def breaks(*_: Any) -> int:
        raise ValueError("postgresql://user:secret@host")

    monkeypatch.setattr(Command, "run", breaks)
    with pytest.raises(UnexpectedError) as ended:
        run("status orders", context)
    assert "secret" not in str(ended.value)
    assert ended.value.__cause__ is None


def test_check_of_a_pipeline_of_the_folder_fails_for_the_error_to_mend_first(
    landed: World, context: Context, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before its first run a pipeline has no name that the ledger knows; every part is in the log."""
    tests: dict[str, tuple[str, Any]] = {part: (part, lambda: "it answers") for part in ("ledger", "kafka", "lake")}
    monkeypatch.setattr(entry_point, "connection_tests", lambda *_: tests)
    monkeypatch.setattr(entry_point, "open_ports", assemble.open_ports)
    file = write_pipeline(folder, "orders")
    file.write_text(file.read_text().replace("raw.t", ORDERS.spec.table_for("orders")))
    before = Path.cwd()
    run("check orders.toml", context)
    assert "a run would read 0 offsets" in capsys.readouterr().out
    assert Path.cwd() == before

    def fails(error: Exception) -> Any:
        raise error

    tests["ledger"] = ("ledger", lambda: fails(UnavailableError("The ledger is down.")))
    with pytest.raises(TransientError, match="1 failed"):
        run("check orders.toml", context)
    tests["kafka"] = ("kafka", lambda: fails(ConnectionSettingsError("The login is wrong.")))
    with pytest.raises(AirflowFailException, match="2 failed"):
        run("check orders.toml", context)
    assert "The login is wrong." in capsys.readouterr().out


def test_failed_audit_fails_the_task_and_what_may_pass_is_retried(
    landed: World, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1 of an audit that finds something; an unreachable ledger, and a run beside another one."""
    landed.lake.table("raw.orders").delete_foreign(lambda row: row.offset == 1)
    with pytest.raises(AirflowFailException, match="the audit failed"):
        run("audit orders", context)

    with monkeypatch.context() as patched:
        patched.setattr(Command, "run", lambda *_: commands.REPEAT)
        with pytest.raises(TransientError, match="worth repeating"):
            run("status orders", context)
        patched.setattr(Command, "run", lambda *_: sys.stdout.write("busy\n") and commands.REPEAT)
        with pytest.raises(TransientError, match="busy"):
            run("status orders", context)

    def unreachable(*_: Any, **__: Any) -> Any:
        raise UnavailableError("the ledger does not answer")

    monkeypatch.setattr(commands, "open_ports", unreachable)
    with pytest.raises(UnavailableError):
        run("status orders", context)
