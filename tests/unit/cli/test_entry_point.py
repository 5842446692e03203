"""How a command ends, whatever happens inside it."""

from __future__ import annotations

import argparse
import gc
import io
import json
import shlex
import signal
import subprocess
import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from airflow_kafka_lake.adapters.jars.cache import JarsUnreachableError
from airflow_kafka_lake.adapters.machine import RARELY
from airflow_kafka_lake.cli import command as cli_arguments
from airflow_kafka_lake.cli import entry_point
from airflow_kafka_lake.cli.entry_point import COMMANDS, EXAMPLES, build_parser, main, run_parsed
from airflow_kafka_lake.cli.output import Output
from airflow_kafka_lake.cli.status import show_history
from airflow_kafka_lake.core.audit.report import MEANINGS
from airflow_kafka_lake.core.errors import (
    TerminalError,
    UnavailableError,
    UsageError,
    expected,
    kinds,
)
from airflow_kafka_lake.core.ledger.history import Event
from airflow_kafka_lake.core.reports.status import EventList
from tests.world import World

pytestmark = pytest.mark.unit


def _defect(arguments: argparse.Namespace, output: Output) -> int:
    raise ZeroDivisionError("postgresql://user:hunter2@db")


def _transient(arguments: argparse.Namespace, output: Output) -> int:
    raise UnavailableError("the ledger is out of reach", connection="kafka_lake_ledger")


def _interrupted(arguments: argparse.Namespace, output: Output) -> int:
    raise KeyboardInterrupt


def _left(arguments: argparse.Namespace, output: Output) -> int:
    output.line("\x1b]0;title\x07 two\nlines \udc80")
    return 0


def _run(action: object, *, as_json: bool = False) -> int:
    return run_parsed(argparse.Namespace(run=action, json=as_json))


def test_a_defect_ends_as_one_sentence(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The exception's type and the way to the traceback are named; its text, which may hold a secret, is not."""
    monkeypatch.delenv(entry_point.DEBUG, raising=False)
    assert _run(_defect) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "ZeroDivisionError" in err
    assert "KAFKA_LAKE_DEBUG=1" in err
    assert "Traceback" not in err
    assert "hunter2" not in err


def test_a_defect_is_one_document_for_programs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--json` holds for what was not foreseen, too."""
    monkeypatch.delenv(entry_point.DEBUG, raising=False)
    assert _run(_defect, as_json=True) == 1
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert (error["type"], error["exception"]) == ("InternalError", "ZeroDivisionError")
    assert "hunter2" not in out + err


def test_a_library_that_does_not_fit_is_no_defect(capsys: pytest.CaptureFixture[str]) -> None:
    """It is named, with what to do; repeating the command is not advised."""

    def importing(*_: object) -> None:
        raise ImportError("cannot import name 'New'", name="pyiceberg.table")

    assert _run(importing, as_json=True) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["type"], error["module"]) == ("LibraryError", "pyiceberg.table")
    assert "of a version that lacks what is needed of it" in error["message"]
    assert isinstance(expected(ImportError("x", name="y"), "a wave"), TerminalError)


def test_a_place_that_cannot_be_used_is_no_defect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its path and the system's words are told, with what to do."""

    def writing(*_: object) -> None:
        (tmp_path / "missing" / "file").write_text("")

    assert _run(writing, as_json=True) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["type"], error["file"]) == ("UsageError", str(tmp_path / "missing" / "file"))
    assert "cannot be used: No such file or directory. Let this user" in error["message"]


def test_a_refused_connection_is_no_matter_of_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    """An error of the system without a path stays unexpected; its words are not shown."""

    def connecting(*_: object) -> None:
        raise ConnectionRefusedError(111, "hunter2")

    assert _run(connecting, as_json=True) == 1
    assert json.loads(capsys.readouterr().out)["error"]["type"] == "InternalError"


def test_an_audit_is_shown_though_its_report_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may have taken hours; the path and the reason are told beside it, and the exit code is theirs."""
    world, folder = World(), tmp_path / "reports"
    world.produce(3)
    world.run()
    folder.mkdir()

    def page(_: object) -> str:
        folder.rmdir()
        folder.touch()  # neither the report nor the file beside it has a place now
        return ""

    monkeypatch.setattr("airflow_kafka_lake.cli.audit.spec_of", lambda *_: world.spec)
    monkeypatch.setattr(cli_arguments, "open_ports", lambda *_, **__: nullcontext(world.worker()))
    monkeypatch.setattr("airflow_kafka_lake.pages.charts.audit_page", page)
    assert main(["audit", "orders", "--json", "--report", str(folder / "audit.html")]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["streams"][0]["rows"] == 3
    assert f"{folder / 'audit.html'} could not be written: Not a directory" in "".join(err.split("\n"))


def test_the_traceback_is_shown_on_request(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With KAFKA_LAKE_DEBUG=1 it goes to stderr, and stdout still holds the document alone."""
    monkeypatch.setenv(entry_point.DEBUG, "1")
    assert _run(_defect, as_json=True) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["type"] == "InternalError"
    assert "in _defect" in err


def test_an_error_of_ours_keeps_its_exit_code_and_facts(capsys: pytest.CaptureFixture[str]) -> None:
    """What is worth repeating is not called a defect."""
    assert _run(_transient, as_json=True) == 3
    error = json.loads(capsys.readouterr().out)["error"]
    assert error == {
        "type": "UnavailableError",
        "message": "the ledger is out of reach",
        "connection": "kafka_lake_ledger",
    }


def test_an_interrupt_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C is no error."""
    assert _run(_interrupted) == 130
    assert "run the same command again" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "code", "says"), [(signal.SIGTERM, 143, "terminated: run"), (signal.SIGHUP, 129, "hung up: run")]
)
def test_a_signal_unwinds_as_an_interrupt_does(
    number: signal.Signals, code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What runs is ended in order, a second signal does not disturb it, and afterwards all is as before."""
    ended: list[str] = []

    def interrupted(arguments: argparse.Namespace, output: Output) -> int:
        try:
            signal.raise_signal(number)
        finally:
            signal.raise_signal(signal.SIGTERM)
            ended.append("the driver")
        return 0

    before = signal.signal(number, signal.SIG_DFL)  # a suite that was started with nohup ignores it
    try:
        assert _run(interrupted) == code
        assert ended == ["the driver"]
        assert says in capsys.readouterr().err
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As `nohup` wants it."""

    def hung_up(arguments: argparse.Namespace, output: Output) -> int:
        signal.raise_signal(signal.SIGHUP)
        return 0

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert _run(hung_up) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_output_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A reason or a topic's bytes are shown escaped: they neither write a title nor break the encoding."""
    assert _run(_left) == 0
    assert capsys.readouterr().out == "\\x1b]0;title\\x07 two\nlines \\udc80\n"


@pytest.mark.parametrize("words", [["status", "x", "--js"], ["status", "x", "--ledg", "y"], ["plan", "x", "--dry"]])
def test_words_are_not_guessed(words: list[str]) -> None:
    """A script that says `--dry` would change its meaning with the next flag."""
    with pytest.raises(UsageError, match=f"has no option {words[-1] if words[-1] != 'y' else '--ledg'}"):
        build_parser().parse_args(words)


@pytest.mark.parametrize(
    ("typed", "commands", "expected"),
    [
        ("kafka-lake plan o.toml --dry-run --to 9", ("plan", "run"), "kafka-lake run o.toml --to 9"),
        ("kafka-lake skip o --dry-run --reason 'not ours' --json", (), "kafka-lake skip o --reason 'not ours'"),
        ("kafka-lake plan plan --dry-run", ("plan", "run"), "kafka-lake run plan"),
    ],
)
def test_dry_run_goes_on_with_what_was_typed(typed: str, commands: tuple[str, ...], expected: str) -> None:
    """The very command, as a shell takes it: nothing is typed again."""
    arguments = argparse.Namespace(typed=tuple(shlex.split(typed)))
    assert cli_arguments.go_on(arguments, *commands) == expected


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("plan x --dryrun", "kafka-lake plan has no option --dryrun; did you mean '--dry-run'? See: kafka-lake plan"),
        ("status x --wacth 3", "has no option --wacth; did you mean '--watch'?"),
        ("skip x --topik=orders --from 0 --to 9", "has no option --topik; did you mean '--topic'?"),
        ("run x --nothing-like-it", "kafka-lake run has no option --nothing-like-it. See: kafka-lake run --help"),
        ("--versoin", "kafka-lake has no option --versoin; did you mean '--version'?"),
        ("statsu", "kafka-lake has no 'statsu'; did you mean 'status'? See: kafka-lake --help"),
        ("db upgrad", "kafka-lake db has no 'upgrad'; did you mean 'upgrade'?"),
        ("hello", "kafka-lake has no 'hello': it is one of plan, run,"),
    ],
)
def test_misspelt_word_is_answered_with_the_nearest(words: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, also where the misspelling leaves out what is needed."""
    assert main(words.split()) == 2
    assert says in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize("text", ["a\0b", "a\udcffb"], ids=["nul", "bytes"])
def test_text_that_no_database_keeps_is_refused(text: str) -> None:
    """A NUL, and bytes of the command line that are not UTF-8; any other sign is kept."""
    with pytest.raises(argparse.ArgumentTypeError, match="leave them out"):
        cli_arguments.free_text(text)
    assert cli_arguments.free_text("déjà vu 🦆\n") == "déjà vu 🦆\n"


def test_no_command_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Alone, `kafka-lake` shows what there is, as wrong usage."""
    assert main([]) == 2
    assert "status" in capsys.readouterr().err


def test_every_command_shows_a_call_that_its_parser_takes(capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` ends with it, that of the program with a few."""
    assert set(EXAMPLES) == {command.name for command in COMMANDS}
    for name, call in EXAMPLES.items():
        assert build_parser().parse_args(shlex.split(call)[1:]).command == name
        with pytest.raises(SystemExit):
            main([name, "--help"])
        assert capsys.readouterr().out.rstrip().endswith(call)
    with pytest.raises(SystemExit):
        main(["--help"])
    assert EXAMPLES["check"] in capsys.readouterr().out


def test_error_is_explained_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Every error of the tree is: its meaning, and that of its exit code."""
    for name, kind in kinds().items():
        assert main(["help", name, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["type"], told["exit_code"], bool(told["means"])) == (name, kind.exit_code, True)
    assert main(["help", "HeldErorr"]) == 2
    assert "did you mean 'HeldError'?" in capsys.readouterr().err


def test_state_of_offsets_is_explained_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    """As status and page have it; of another word there is the glossary."""
    for name in (*MEANINGS, "landed"):
        assert main(["help", name, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told == {"word": name, "means": MEANINGS["committed" if name == "landed" else name]}
    assert main(["help", "lost"]) == 0
    assert (
        capsys.readouterr().out
        == "lost: gone from Kafka before it was read\nAll words: the glossary of the documentation\n"
    )
    assert main(["help", "watermark"]) == 2
    assert "no error or state 'watermark'. All words: the glossary of the documentation" in capsys.readouterr().err


@pytest.mark.parametrize("given", [["--json"], ["--ledger", "mine"]])
def test_demonstration_refuses_the_flags_that_it_would_ignore(
    given: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is started: it has its own ledger, and a report for programs."""
    monkeypatch.setattr("airflow_kafka_lake.local.demo.demonstrate", lambda *_, **__: 0)
    assert main(["demo", "--exit", *given]) == 2
    ended = capsys.readouterr()
    assert "--report FILE" in ended.out + ended.err


def test_history_is_in_the_words_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    """Columns and actions; programs have the ledger's own kinds."""
    at = datetime(2026, 3, 1, tzinfo=UTC)
    kinds_of = ("revoke", "commit", "skip")
    events = tuple(
        Event(sequence=n, at=at, actor="ann", kind=kind, subject="w", detail="d") for n, kind in enumerate(kinds_of)
    )
    show_history(Output(as_json=False), EventList(pipeline="orders", events=events))
    out = capsys.readouterr().out
    columns = [out.index(name) for name in ("when", "who", "what", "about", "more")]
    assert columns == sorted(columns)
    assert ("cancel or hold" in out, "land" in out, "skip" in out, "revoke" in out) == (True, True, True, False)
    assert [item["kind"] for item in EventList(pipeline="orders", events=events).to_json()["events"]] == [*kinds_of]


def test_message_on_a_terminal_ends_with_the_way_to_its_explanation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind that a module of its own has is explained by the nearest one of the tree."""
    screen = io.StringIO()
    output = Output(as_json=False)
    monkeypatch.setattr(output, "_err", Console(file=screen, force_terminal=True, color_system=None, width=100))
    output.error(JarsUnreachableError("2 jars are missing"))
    assert screen.getvalue().splitlines() == ["error: 2 jars are missing", "more: kafka-lake help UnavailableError"]


def test_numbers_of_a_table_are_in_groups_of_three(capsys: pytest.CaptureFixture[str]) -> None:
    """Names that look like numbers are left as they are."""
    Output(as_json=False).table("rows", ("wave", "#rows"), [("19000", 19000)])
    out = capsys.readouterr().out
    assert ("19,000" in out, "19000" in out) == (True, True)


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's user need not stand in any password file."""
    for name in ("KAFKA_LAKE_ACTOR", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(uid: int) -> object:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert cli_arguments.actor().startswith("uid ")


def test_terminal_without_unicode_gets_signs_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dashes and arrows are spelled; what has no spelling is escaped, and no command fails for it."""
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="latin-1"))
    Output(as_json=False).line("orders → lake: 0–41 … für 🜚")
    sys.stdout.flush()
    assert raw.getvalue().decode("latin-1") == "orders -> lake: 0-41 ... für \\U0001f71a\n"


def test_pipeline_file_is_found_from_where_the_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No ledger is opened for it: a file says all that a pipeline is."""
    text = '[pipeline]\nname = "orders"\n[source]\ntopics = ["orders"]\n[lake]\ntable = "raw.orders"\n'
    (tmp_path / "mine.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert cli_arguments.spec_of("mine.toml", "no_such_ledger").name == "orders"


NEEDLESS = {"cryptography", "pandas", "pygments", "requests", "pyiceberg.catalog.rest"}
"""What PyArrow, Alembic and a REST catalog would bring into the process of a command: a third of a CPU second."""

A_COMMAND = f"""
import sys
from airflow_kafka_lake.cli.__main__ import process

folder, sys.argv[1:] = sys.argv[1], ["--version"]
code = process()
from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.iceberg.table import IcebergLake
from airflow_kafka_lake.adapters.kafka import source
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger

given = {{"catalog": "sql", "uri": f"sqlite:///{{folder}}/lake.db", "warehouse": f"file://{{folder}}"}}
assert IcebergLake(LakeSettings.parse("lake", given)).table("raw.orders").ensure("")
assert SqlLedger(f"sqlite:///{{folder}}/ledger.db").upgrade()
found = {NEEDLESS} & sys.modules.keys()
sys.exit(code or (str(found) if found else 0))
"""


@pytest.mark.slow
def test_command_imports_nothing_that_its_connections_do_not_need(tmp_path: Path) -> None:
    """With a new ledger, and a new table in a SQL catalog."""
    done = subprocess.run([sys.executable, "-c", A_COMMAND, tmp_path], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_command_looks_for_garbage_rarely() -> None:
    """A look goes through all that the command holds; what called it goes on as before."""
    before, seen = gc.get_threshold(), []
    arguments = argparse.Namespace(json=False, run=lambda *_: seen.append(gc.get_threshold()) or 0)
    assert run_parsed(arguments) == 0
    assert (seen, gc.get_threshold()) == ([RARELY], before)
