"""A command: its name, arguments, action and view; and the arguments that several commands take."""

from __future__ import annotations

import argparse
import getpass
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from airflow_kafka_lake.actions.action import ActionField, FieldKind, TerminalTable
from airflow_kafka_lake.actions.offsets import selected
from airflow_kafka_lake.actions.waves import CancelAction
from airflow_kafka_lake.adapters.spark_submit.driver import Engine
from airflow_kafka_lake.cli.output import Output
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import PipelineFileError, UnknownSubjectError, UsageError
from airflow_kafka_lake.core.ledger.decisions import kept_text
from airflow_kafka_lake.core.ledger.records import StreamRecord
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.planning.selection import Selection, StreamScope
from airflow_kafka_lake.core.spec import PIPELINE_NAME, TOPIC_NAME, PipelineSpec
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.pipeline.keys import MAX_OFFSET, MAX_PARTITION, parse_bound, parse_count, parse_rate, shown
from airflow_kafka_lake.ports import LedgerReader, Ports
from airflow_kafka_lake.services.identity import known_spec
from airflow_kafka_lake.wiring.assemble import open_ledger, open_ports

# A command: its name and arguments, the action that makes a document, and the view that prints it.

Json = Mapping[str, Any]
T = TypeVar("T")


class Report(Protocol):
    """A result as typed values, of which the view makes text."""

    def to_json(self) -> Json:
        """Return the document that `--json` prints."""


REFUSED = 1
"""Exit code: a check failed, or something is held."""
REPEAT = 3
"""Exit code: another run is working on what is left."""


class Argument:
    """One argument of a command, as argparse takes it."""

    def __init__(self, *names: str, **settings: Any) -> None:
        self.names = names
        self.settings = settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of an action: a report, which the command's view shows with `beside`, or a document, and lines for a
    terminal. `shown` says that the action has printed it."""

    document: Json | Report
    lines: Sequence[str | TerminalTable] = ()
    beside: Json = field(default_factory=dict)
    exit_code: int = 0
    shown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command; its action returns the result or raises a KafkaLakeError."""

    name: str
    help: str
    arguments: tuple[Argument, ...]
    action: Callable[[argparse.Namespace, Output], Result]
    view: Callable[..., None] | None = None
    """It takes the output and the report; None where the result has lines."""

    def run(self, arguments: argparse.Namespace, output: Output) -> int:
        """Act, print the result as a document or by the view, and return the exit code."""
        result = self.action(arguments, output)
        found = result.document
        if output.as_json and not result.shown:
            output.document(found if isinstance(found, Mapping) else found.to_json())
        elif self.view and not result.shown:
            self.view(output, found, **result.beside)
        else:
            output.entries(result.lines)
        return result.exit_code


# Arguments that several commands take, and how their text becomes what a service takes.

ID_OF_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_SUBJECT = 200


def _matching(pattern: re.Pattern[str], form: str, text: str) -> str:
    if not pattern.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{shown(text)} is not {form}")
    return text


topic_name = partial(_matching, TOPIC_NAME, "a topic name: 1 to 249 of A-Z a-z 0-9 . _ -")
topic_id = partial(_matching, ID_OF_TOPIC, f"a topic id: take it from {remedies.status()} --json")
pipeline_name = partial(_matching, PIPELINE_NAME, "a pipeline name: 1 to 100 of a-z 0-9 _ . -")


def subject_id(text: str) -> str:
    """Read the id of a wave or a range, which is opaque: one word of printable characters."""
    if not text.isprintable() or not 0 < len(text) <= MAX_SUBJECT or " " in text:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not a wave or range id: take one from {remedies.status()}")
    return text


def _number(largest: int, what: str, text: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > len(str(largest)) or int(text) > largest:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not {what}: use a whole number from 0 to {largest}")
    return int(text)


partition_number = partial(_number, MAX_PARTITION, "a partition number")
offset_number = partial(_number, MAX_OFFSET, "an offset")


def _read(parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(error.message) from None


free_text, wave_count, rate = partial(_read, kept_text), partial(_read, parse_count), partial(_read, parse_rate)

PIPELINE = Argument("pipeline", metavar="PIPELINE", help="pipeline file (*.toml), or a name that the ledger knows")
WAVE = Argument("wave", metavar="WAVE", type=subject_id, help="wave id")
TOPIC = Argument("--topic", metavar="T", type=topic_name, help="only this topic")
PARTITION = Argument(
    "--partition", metavar="P", type=partition_number, nargs="*", action="extend", help="only these partitions"
)
BEGIN, END = (f"{end}: an offset, or a time with its zone" for end in ("begin of a period", "end of it, exclusive"))
FROM = Argument("--from", dest="from_", metavar="X", help=BEGIN)
TO = Argument("--to", metavar="X", help=END)
PERIOD = (
    TOPIC,
    PARTITION,
    FROM,
    TO,
    Argument(
        "--acknowledge-order",
        action="store_true",
        help="read below an origin though later segments may be in the lake already",
    ),
)
TOPIC_ID = Argument("--topic-id", metavar="ID", type=topic_id, help="only this generation of a re-created topic")
THE_TOPIC = (Argument("--topic", metavar="T", type=topic_name, required=True, help=TOPIC.settings["help"]), TOPIC_ID)
THE_STREAM = (*THE_TOPIC, Argument("--partition", metavar="P", type=partition_number, required=True, help="partition"))
THE_PERIOD = (
    *THE_TOPIC,
    PARTITION,
    Argument("--from", dest="from_", metavar="X", required=True, help=BEGIN),
    Argument("--to", metavar="X", required=True, help=END),
)
SELECTION = (TOPIC, TOPIC_ID, PARTITION, FROM, TO)
BYTES_PER_SECOND = Argument(
    "--bytes-per-second", metavar="SIZE", type=rate, help="read no faster than this, instead of the pipeline's rate"
)
DRY_RUN = Argument("--dry-run", action="store_true", help="show what would happen, change nothing")


def field_argument(field: ActionField) -> Argument:
    """Return the option for a switch or a text of an action."""
    flag = f"--{field.name.replace('_', '-')}"
    if field.kind is FieldKind.SWITCH:
        return Argument(flag, action="store_true", help=field.help)
    return Argument(flag, metavar=field.metavar, type=free_text, required=field.needed, help=field.help)


DROP_STAGED = field_argument(CancelAction.field("drop_staged"))
REASON = field_argument(CancelAction.field("reason"))


def go_on(arguments: argparse.Namespace, shown_by: str = "", done_by: str = "") -> str:
    """Return the command that carries out a dry run: the typed one without `--dry-run`, or in place of it another one
    that takes the same arguments."""
    words = [word for word in arguments.typed if word not in {"--dry-run", "--json"}]
    if shown_by in words:
        words[words.index(shown_by)] = done_by
    return shlex.join(words)


ACTOR = "KAFKA_LAKE_ACTOR"


def actor() -> str:
    """Name the person or service that decides, for the ledger's history."""
    named = os.environ.get(ACTOR)
    if not named:
        try:
            named = getpass.getuser()
        except (KeyError, OSError):
            # A container may run as a number that its password file does not know.
            named = f"uid {os.getuid()}"
    return named.encode(errors="replace").decode()


def is_file(subject: str) -> bool:
    """Return whether PIPELINE is a file: it ends in `.toml` or has a path separator."""
    return subject.endswith(".toml") or os.sep in subject


def spec_of(subject: str, ledger_conn_id: str) -> PipelineSpec:
    """Read PIPELINE: a file, or a name that the ledger knows."""
    if is_file(subject):
        file = Path.cwd() / subject
        try:
            missing = not file.exists()
        except (OSError, ValueError):
            missing = False  # Not a possible path: reading it raises the reason.
        if missing:
            raise PipelineFileError(
                f"{file} does not exist. Correct the path, or give the name of a pipeline that the ledger knows",
                file=str(file),
            )
        return Pipeline.from_toml(file).spec
    if not PIPELINE_NAME.fullmatch(subject):
        raise UsageError(
            f"{subject!r} is neither a pipeline file (*.toml) nor a legal pipeline name. Give the path of a file, or a "
            "name that the ledger knows"
        )
    with open_ledger(ledger_conn_id) as ledger:
        try:
            return known_spec(ledger, subject)
        except UnknownSubjectError:
            # Its file may be here, as before a first run, or after a ledger is lost.
            if (
                not (file := Path(f"{subject}.toml")).is_file()
                or (found := Pipeline.from_toml(file).spec).name != subject
            ):
                raise
            return found


@contextmanager
def ports_of(
    arguments: argparse.Namespace, output: Output, spec: PipelineSpec, *, engine: Engine | None = None, **needs: Any
) -> Iterator[Ports]:
    """Open a pipeline's ports; `needs` are those of `open_ports`. Spark is started for the first job, and ends with the
    block if no `engine` keeps it."""
    with ExitStack() as stack:
        opened = open_ports(
            spec,
            ledger_conn_id=arguments.ledger,
            actor=actor(),
            progress=output.progress,
            live=output.live,
            need_kafka=True,
            engine=engine or stack.enter_context(Engine()),
            **needs,
        )
        yield stack.enter_context(opened)


def bounds_of(arguments: argparse.Namespace, *, acknowledge_order: bool = False) -> Bounds:
    """Read `--topic --partition --from --to`. Raises UsageError, which names the flag."""
    return Bounds(
        topic=arguments.topic,
        partitions=None if arguments.partition is None else tuple(sorted(set(arguments.partition))),
        start=_bound("--from", arguments.from_),
        end=_bound("--to", arguments.to),
        acknowledge_order=acknowledge_order,
    )


def _bound(flag: str, text: str | None) -> int | datetime | None:
    try:
        return None if text is None else parse_bound(text)
    except UsageError as error:
        raise UsageError(f"{flag}: {error.message}", **error.facts) from None


def selection_of(arguments: argparse.Namespace) -> Selection:
    """Read `--topic --topic-id --partition --from --to`."""
    return selected(bounds_of(arguments), arguments.topic_id)


def scope_of(arguments: argparse.Namespace) -> StreamScope:
    """Read `--topic --partition` of an audit."""
    partitions = None if arguments.partition is None else frozenset(arguments.partition)
    return StreamScope(topic=arguments.topic, partitions=partitions)


def stream_of(ledger: LedgerReader, pipeline: str, arguments: argparse.Namespace) -> StreamRecord:
    """Find the stream of `--topic --partition`, and `--topic-id` where both generations are known."""
    meant = Selection(topic=arguments.topic, topic_id=arguments.topic_id, partitions=frozenset({arguments.partition}))
    streams = ledger.streams(pipeline)
    meant.require(pipeline, streams)
    found = [stream for stream in streams if stream.key in meant]
    meant.refuse_generations(found)
    return found[0]
