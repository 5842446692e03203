"""All commands, and the process of one: parse the command line, run the command, turn its end into an exit code."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from airflow_kafka_lake.adapters import java
from airflow_kafka_lake.adapters.machine import rarely_collecting
from airflow_kafka_lake.cli.audit import COMMANDS as AUDIT
from airflow_kafka_lake.cli.command import PIPELINE, Argument, Command, Result, actor, spec_of
from airflow_kafka_lake.cli.decisions import COMMANDS as DECISIONS
from airflow_kafka_lake.cli.decisions import SEGMENT_COMMANDS as SEGMENTS
from airflow_kafka_lake.cli.output import DIM, RED, YELLOW, Output, TableColumn, table
from airflow_kafka_lake.cli.running import COMMANDS as RUNNING
from airflow_kafka_lake.cli.running import RECOVERY_COMMANDS as RECOVERY
from airflow_kafka_lake.cli.running import WORKER_COMMANDS as WORKER
from airflow_kafka_lake.cli.status import COMMANDS as STATUS
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.audit.report import MEANINGS
from airflow_kafka_lake.core.errors import KafkaLakeError, TerminalError, UsageError, kinds, mendable, nearest
from airflow_kafka_lake.core.reports.streams import STATES
from airflow_kafka_lake.services.checking import CheckOutcome, PipelineCheck, check_pipeline
from airflow_kafka_lake.wiring.assemble import connection_tests, open_ports

# Setting up: `check`, `db`, `jars`, and the `demo`.


def check(arguments: argparse.Namespace, output: Output) -> Result:
    """Try every part of a pipeline."""
    done = check_pipeline(
        arguments.pipeline,
        read=lambda: spec_of(arguments.pipeline, arguments.ledger),
        tests=lambda spec: connection_tests(spec, arguments.ledger),
        opened=lambda spec: open_ports(
            spec, ledger_conn_id=arguments.ledger, actor=actor(), progress=output.progress, live=output.live
        ),
        progress=output.progress,
    )
    return Result(document=done, exit_code=done.exit_code)


def show_check(output: Output, done: PipelineCheck) -> None:
    """Show a line for each part, and how many of them are not as they should be."""
    columns = [TableColumn(title="part"), TableColumn(title="outcome"), TableColumn(title="found")]
    rows = [((item.name, item.outcome.value, item.sentence), _STYLES[item.outcome]) for item in done.results]
    output.lines(table(columns, rows, output.width))
    output.line(done.sentence)


_STYLES = {CheckOutcome.OK: "", CheckOutcome.WARNING: YELLOW, CheckOutcome.FAILED: RED, CheckOutcome.SKIPPED: DIM}


def db(arguments: argparse.Namespace, _: Output) -> Result:
    """Bring the ledger's schema up to date, or only check it."""
    from airflow_kafka_lake.wiring.connections import LedgerConnection

    ledger = LedgerConnection(arguments.ledger).ledger()
    text = ledger.upgrade() if arguments.act == "upgrade" else ledger.check()
    told = f"the ledger's schema is {text}, the one of this package"
    return Result(document={"ledger": arguments.ledger, "schema": text}, lines=[told])


def jars(arguments: argparse.Namespace, output: Output) -> Result:
    """Fetch and verify the jars of all jobs, and of the stores and logins that are named."""
    from airflow_kafka_lake.adapters.spark_submit.runner import fetch_jars

    found = fetch_jars(output.progress, arguments.stores or ())
    folders = list(dict.fromkeys(str(path.parent) for path in found))
    line = f"{count(len(found), 'jar is', 'jars are')} there and verified: {', '.join(folders)}"
    document = {"jars": [path.name for path in found], "folder": folders[0], "folders": folders}
    return Result(document=document, lines=[line])


def demo(arguments: argparse.Namespace, output: Output) -> Result:
    """Run the demonstration, which prints its result while its services run."""
    from airflow_kafka_lake.local.demo import demonstrate

    if arguments.json or arguments.ledger != LEDGER:
        raise UsageError("demo has a ledger of its own, and writes JSON with --report FILE: leave --ledger, --json out")
    report = Path(arguments.report) if arguments.report else None
    code = demonstrate(output, keep_running=not arguments.exit_, report=report)
    return Result(document={}, exit_code=code, shown=True)


def explain(arguments: argparse.Namespace, _: Output) -> Result:
    """Tell the meaning of an error, and its exit code, or of a state of offsets or partitions."""
    known, name = kinds() | {key: item for key, item in vars(java).items() if key.endswith("Error")}, arguments.error
    states = {**STATES, **MEANINGS}
    if means := states.get("committed" if name == "landed" else name.lower()):
        return Result(document={"word": name, "means": means}, lines=[f"{name}: {means}", GLOSSARY])
    if name not in known:
        near = nearest(name, [*known, *states]) or "."
        raise UsageError(f"there is no error or state {name!r}{near} {GLOSSARY}; of a command: COMMAND --help")
    means, code = " ".join((known[name].__doc__ or "").split()), known[name].exit_code
    document = {"type": name, "means": means, "exit_code": code, "exit_code_means": EXIT_CODES[str(code)]}
    return Result(document=document, lines=[f"{name}: {means}", f"exit code {code}: {EXIT_CODES[str(code)]}"])


GLOSSARY = "All words: the glossary of the documentation"

STORES = Argument(
    "--for",
    dest="stores",
    action="append",
    choices=("s3", "gcs", "azure", "msk"),
    help="also what Spark needs for that store or login",
)

SETUP_COMMANDS = (
    Command(
        name="check",
        help="try every part of a pipeline: connections, rights, versions, tables, schemas, Spark; nothing is recorded",
        arguments=(PIPELINE,),
        action=check,
        view=show_check,
    ),
    Command(
        name="db",
        help="the ledger's schema",
        arguments=(Argument("act", choices=("upgrade", "check"), help="bring it up to date, or only look"),),
        action=db,
    ),
    Command(
        name="jars",
        help="the Spark jars of this package",
        arguments=(Argument("act", choices=("fetch",), help="fetch and verify"), STORES),
        action=jars,
    ),
    Command(
        name="demo",
        help="a real Kafka, Spark, Iceberg and Airflow on this machine, and the proof",
        arguments=(
            Argument("--exit", action="store_true", dest="exit_", help="stop everything at the end"),
            Argument("--report", metavar="FILE", help="write the result as JSON"),
        ),
        action=demo,
    ),
    Command(
        name="help",
        help="explain an error, or a state of offsets",
        arguments=(Argument("error", metavar="ERROR", help="its name, as --json and the history have it"),),
        action=explain,
    ),
)


# All commands, by group. A new command goes into the module of its group; only a new group is named here.

COMMANDS: tuple[Command, ...] = (*RUNNING, *STATUS, *RECOVERY, *DECISIONS, *SEGMENTS, *AUDIT, *WORKER, *SETUP_COMMANDS)


_CALLS = """
plan orders.toml --dry-run
run orders.toml --from 2026-03-01T00:00:00Z --to 2026-03-08T00:00:00Z
ingest 3f2a-w0
advance orders
decode orders --failed
status orders --watch
wave 3f2a-w0 --json
history orders
recover orders
rebuild orders.toml
cancel 3f2a-w0 --reason "wrong topic"
release 3f2a-w0
pause orders --reason "the catalog moves"
resume orders
skip orders --topic orders --partition 3 --from 120 --to 140 --reason "deleted by retention" --dry-run
reopen orders --topic orders --from 0 --to 500 --reason "lost files" --dry-run
withdraw orders --topic orders --reason "wrong period"
segments orders --svg order.svg
seal orders --topic orders --partition 3 --at 120
migrate orders.toml --from-topic orders --to-topic orders-v2 --seal ends.json
audit orders --deep --report audit.html
accept-deletes orders --topic orders --reason "erasure request 17"
worker --pipeline orders --drain
check orders.toml
db upgrade
jars fetch --for s3
demo --exit
help UnknownTopicError
"""
EXAMPLES = {call.split()[0]: f"kafka-lake {call}" for call in _CALLS.strip().splitlines()}
"""A call of each command."""

EXIT_CODES = {
    "0": "done, nothing left to do",
    "1": "refused, a check failed, or something is held: the message says what, where, and what to do",
    "2": "wrong usage",
    "3": "worth repeating: something was out of reach, or another run is working on what is left",
    "4": "the outcome of a commit is unknown: the message names the command that finds out",
    "130": "interrupted (Ctrl-C); its Spark job is ended, and the same command goes on from there",
    "143": "terminated (SIGTERM), in the same way; 129 for SIGHUP",
}

# Parse the command line, run the command, and turn its end into an exit code.

ENDING = {signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
"""Signals that end a command as Ctrl-C does: the stack is unwound, and the exit code is 128 + the signal's number."""
LEDGER = "kafka_lake_ledger"
COMMON = (
    Argument("--ledger", metavar="CONN_ID", default=LEDGER, help=f"ledger connection (default: {LEDGER})"),
    Argument("--json", action="store_true", help="print one JSON document on stdout and nothing else"),
)
"""The flags of every command."""
DEBUG = "KAFKA_LAKE_DEBUG"


class EndedBySignal(KeyboardInterrupt):
    """A signal asked the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class InternalError(TerminalError):
    """A defect of this package; the exception's own text is not shown, it may hold an address or a password."""

    def __init__(self, cause: BaseException) -> None:
        kind = type(cause).__qualname__
        super().__init__(
            f"an unexpected {kind} ended the command: a defect of kafka-lake, not a mistake of yours. Repeating it is "
            f"safe; {DEBUG}=1 in the environment shows the traceback, for a report",
            exception=kind,
        )


class Parser(argparse.ArgumentParser):
    """An argument parser that raises a UsageError, proposes words for misspelt ones, and accepts no abbreviation."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse an unknown option first: that a needed one is missing may be for its misspelling."""
        options, has_commands = self._option_string_actions, self._subparsers is not None
        for word in args:
            # What is behind a command's name is for the parser of that command to know.
            if word == "--" or (has_commands and not word.startswith("-")):
                break
            name = word.partition("=")[0]
            if name.startswith("--") and name not in options:
                self.error(f"{self.prog} has no option {name}{nearest(name, sorted(options)) or '.'}")
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Propose the nearest of some words, where argparse lists them all."""
        if action.choices is not None and value not in action.choices:
            known = [str(item) for item in action.choices]
            close = nearest(value, known) or f": it is one of {', '.join(known)}."
            self.error(f"{' '.join((self.prog, *action.option_strings))} has no {value!r}{close}")

    def error(self, message: str) -> NoReturn:
        """Raise instead of exiting, so that wrong usage, too, obeys `--json`."""
        end = "" if message[-1:] in {".", "?"} else "."
        raise UsageError(f"{message}{end} See: {self.prog} --help")


def build_parser(prog: str = "kafka-lake") -> argparse.ArgumentParser:
    """Return the parser of the whole command table."""
    first = "\n  ".join(EXAMPLES[name] for name in ("check", "plan", "run", "status", "audit"))
    parser = Parser(prog=prog, description="Copies Kafka topics into Iceberg tables.", epilog=f"examples:\n  {first}")
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for command in COMMANDS:
        example = f"example:\n  {EXAMPLES[command.name]}"
        made = commands.add_parser(command.name, help=command.help, description=command.help, epilog=example)
        for argument in (*command.arguments, *COMMON):
            made.add_argument(*argument.names, **argument.settings)
        made.set_defaults(run=command.run, typed=())
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Parse and run one command, and return its exit code; every error ends as one sentence on stderr, or as JSON."""
    words = list(sys.argv[1:] if argv is None else argv)
    output = Output(as_json="--json" in words)
    try:
        arguments = build_parser().parse_args(words)
        if arguments.version:
            from airflow_kafka_lake import __version__

            print(__version__)
            return 0
        if arguments.command is None:
            build_parser().print_help(sys.stderr)
            return UsageError.exit_code
        arguments.typed = ("kafka-lake", *words)
    except UsageError as error:
        output.error(error)
        return error.exit_code
    return run_parsed(arguments, output)


def run_parsed(arguments: argparse.Namespace, output: Output | None = None) -> int:
    """Run a parsed command, and return its exit code."""
    output = output or Output(as_json=arguments.json)
    try:
        with _signals_unwind(), output.working(), rarely_collecting():
            return int(arguments.run(arguments, output))
    except KafkaLakeError as error:
        output.error(error)
        return error.exit_code
    except KeyboardInterrupt as ended:
        number = ended.number if isinstance(ended, EndedBySignal) else signal.SIGINT
        word = ENDING.get(signal.Signals(number), "interrupted")
        output.note(f"{word}: run the same command again, it goes on from where it stopped")
        return 128 + number
    except BrokenPipeError:
        # The reader of stdout has closed it (`| head`): replace it, or the interpreter complains at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as cause:  # noqa: BLE001  # the last handler: every defect ends as one sentence
        if os.environ.get(DEBUG):
            traceback.print_exc()
        defect = mendable(cause) or InternalError(cause)
        output.error(defect)
        return defect.exit_code


@contextmanager
def _signals_unwind() -> Iterator[None]:
    """Let signals that would end the process at once unwind it instead: children are ended, attempts recorded.

    A signal that is ignored (`nohup`) or handled already stays so. Only the first one counts: unwinding takes its time.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]

    def unwind(number: int, _frame: object) -> None:
        for each in taken:
            signal.signal(each, signal.SIG_IGN)
        raise EndedBySignal(number)

    for number in taken:
        signal.signal(number, unwind)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
