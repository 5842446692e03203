"""Everything that the compatibility policy promises, as lines: a subject, and what is promised of it.

A surface is a kind of promise: the pipeline file, the command line, and so on (docs/reference/compatibility.md). Its
lines are made from the code, or from the page that the tests hold the code against. A line that is gone, or says
something else, is a break.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic.script import ScriptDirectory
from pyiceberg.schema import Schema

from airflow_kafka_lake.adapters.iceberg.receipts import RECEIPTS
from airflow_kafka_lake.adapters.iceberg.schema import LANDING, shape
from airflow_kafka_lake.adapters.sql_ledger import database
from airflow_kafka_lake.adapters.sql_ledger.tables import metadata
from airflow_kafka_lake.assets import (
    ALIAS,
    Landed,
    LandedSlice,
    closed_periods,
    event_extras,
    late_records,
    pipeline_asset,
)
from airflow_kafka_lake.cli.command import Argument, Command
from airflow_kafka_lake.cli.entry_point import COMMANDS, EXIT_CODES
from airflow_kafka_lake.core import errors
from airflow_kafka_lake.core.decoding import Format
from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.ledger.moves import PERIODS, period_key
from airflow_kafka_lake.core.ledger.records import Advance
from airflow_kafka_lake.core.ledger.waves import Token
from airflow_kafka_lake.core.offsets import Stream
from airflow_kafka_lake.core.reports.metrics import METRICS
from airflow_kafka_lake.core.spec import Isolation, Ordering, Partitioner, PolicyKind
from airflow_kafka_lake.core.wire import LAST, OWNER, token_to_summary
from airflow_kafka_lake.get_provider_info import get_provider_info
from airflow_kafka_lake.pipeline import Pipeline, load_pipelines
from airflow_kafka_lake.pipeline.keys import SECTIONS
from tests import documented
from tests.docs_scripts import script

ROOT = Path(__file__).parents[2]
FROZEN = Path(__file__).parent / "frozen"
REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """A kind of promise, whose frozen copy has its name.

    One that `grows` may get new lines without a word in the changelog; of the others a user has to do something, or
    sees something else, when a line comes.
    """

    name: str
    lines: Callable[[], Iterable[str]]
    grows: bool = True

    @property
    def file(self) -> Path:
        """The frozen copy."""
        return FROZEN / f"{self.name}.txt"

    def now(self) -> list[str]:
        """Return the lines of today's code."""
        return sorted(set(self.lines()))

    def frozen(self) -> list[str]:
        """Return the lines of the frozen copy."""
        return self.file.read_text(encoding="utf-8").splitlines()


def subject(line: str) -> str:
    """Return the name by which the changelog calls what a line is about."""
    return line.partition(": ")[0]


def breaks(surface: Surface, frozen: Sequence[str], now: Sequence[str]) -> list[str]:
    """Return the subjects that the changelog has to name: what is gone or means something else; new lines, where the
    surface does not grow, or where an older caller now lacks something that is required."""
    before, after = {subject(line) for line in frozen}, {subject(line) for line in now}
    lost = [line for line in frozen if line not in set(now) and not (_demands(line) and subject(line) in after)]
    new = [line for line in now if line not in set(frozen)]
    demanded = [line for line in new if _demands(line) and _belongs_to(subject(line)) in before]
    return sorted({subject(line) for line in (*lost, *(demanded if surface.grows else new))})


def _demands(line: str) -> bool:
    return line.endswith(f": {REQUIRED}")


def _belongs_to(name: str) -> str:
    return name.partition(" ")[0].partition("(")[0]


# -- the pipeline file ------------------------------------------------------------------------------------------------


def pipeline_file() -> Iterator[str]:
    """Yield sections, keys, the keywords of a Dag, defaults, and the words that are values."""
    defaults = Pipeline(name="p", topics=["t"], table="a.b").spec.to_json()
    for section, keys in SECTIONS.items():
        yield f"[{section}]"
        for key in keys:
            yield f"[{section}] {key.name}: keyword {key.keyword}"
            if key.required:
                yield f"[{section}] {key.name}: {REQUIRED}"
            elif key.name != "topics" and key.keyword in defaults:
                yield f"[{section}] {key.name}: default {_default(defaults[key.keyword])}"
    words = {"isolation": Isolation, "ordering": Ordering, "partitioner": Partitioner}
    for name, kind in words.items():
        yield from (f"[source] {name} = {word.value}" for word in kind)
    yield from (f"[source] start, end = {word.value}" for word in PolicyKind)
    yield from (f"[decode] format = {word.value}" for word in Format)


def _default(value: object) -> object:
    return value["kind"] if isinstance(value, dict) else value


# -- the command line -------------------------------------------------------------------------------------------------


def command_line() -> Iterator[str]:
    """Yield commands, arguments, their values, the errors with their exit codes, and variables of the environment."""
    for command in COMMANDS:
        yield command.name
        yield from (line for argument in command.arguments for line in _argument(command, argument))
    yield from (f"{kind.__name__}: exit {kind.exit_code}" for kind in _errors())
    yield from (f"exit {code}" for code in EXIT_CODES)
    yield from (name.strip("`") for name, _ in script().ENVIRONMENT)


def _argument(command: Command, argument: Argument) -> Iterator[str]:
    settings = argument.settings
    flag = argument.names[0].startswith("-")
    name = f"{command.name} {argument.names[0] if flag else settings.get('metavar', argument.names[0])}"
    yield name
    needed = settings.get("required") if flag else settings.get("nargs") not in {"?", "*"}
    if needed:
        yield f"{name}: {REQUIRED}"
    yield from (f"{name} = {choice}" for choice in settings.get("choices", ()))
    if "default" in settings and isinstance(settings["default"], str | int | float):
        yield f"{name}: default {settings['default']}"


def _errors(root: type[KafkaLakeError] = KafkaLakeError) -> Iterator[type[KafkaLakeError]]:
    yield root
    for kind in root.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield from _errors(kind)


# -- JSON -------------------------------------------------------------------------------------------------------------


def json_documents() -> Iterator[str]:
    """Yield each key of each document, of the page that documents are held against in both directions."""
    for name in documented.commands():
        yield from (f"{name} {path}" for path in documented.keys_of(name))


# -- tables and the ledger --------------------------------------------------------------------------------------------


def lake_tables() -> Iterator[str]:
    """Yield the columns of the lake table and of the receipts, and what a commit says of itself."""
    for table, schema in (("lake table", LANDING), ("receipts table", RECEIPTS)):
        yield from _columns(table, schema)
    token = Token(pipeline="p", wave="w", attempt="a", fence=1, ranges="r")
    yield from (f"snapshot summary {key}" for key in token_to_summary(token))
    yield from (f"table property {name}" for name in (f"{LAST}.<ledger id>/<pipeline>", f"{OWNER}<topic id>"))


def _columns(table: str, schema: Schema) -> Iterator[str]:
    for field in schema.fields:
        yield f"{table} {field.name}: {shape(field.field_type)}{' not null' if field.required else ''}"


def ledger() -> Iterator[str]:
    """Yield the schema's number and its columns."""
    script = ScriptDirectory(os.fspath(database.FOLDER))
    yield f"schema: {script.get_current_head()}, upgrades from {database.OLDEST}"
    for table in metadata.sorted_tables:
        for column in table.columns:
            yield f"{table.name}.{column.name}: {column.type}{'' if column.nullable else ' not null'}"


# -- Airflow ----------------------------------------------------------------------------------------------------------


def asset_events() -> Iterator[str]:
    """Yield the names of assets, and the keys of an event's extra with their types."""
    yield f"asset: {pipeline_asset('<pipeline>').uri}"
    for kind in PERIODS:
        yield f"asset: {closed_periods('<pipeline>', kind).uri}: key {period_key(kind, 0)}"
        yield f"asset: {late_records('<pipeline>', kind).uri}: key {period_key(kind, 0)}"
    yield f"alias: {ALIAS}"
    at = Stream("t", "AAAAAAAAAAAAAAAAAAAAAA", 0)
    move = Advance(**{**dict.fromkeys(Advance.__dataclass_fields__, 0), "stream": at, "start": 0, "end": 1})
    (extra,) = event_extras("p", "plan", [move], after=0, ledger="ledger")
    for key, value in extra.items():
        yield f"extra.{key}: {type(value).__name__}"
        for item in value if isinstance(value, list) else ():
            yield from (f"extra.{key}[].{inner}: {type(found).__name__}" for inner, found in item.items())


def airflow_settings() -> Iterator[str]:
    """Yield connection types with their fields, options of `airflow.cfg`, metrics."""
    info = get_provider_info()
    for item in info["connection-types"]:
        yield f"connection {item['connection-type']}: {item['hook-class-name']}"
        yield from (f"connection {item['connection-type']} {name}" for name in item["conn-fields"])
    for section, described in info["config"].items():
        for name, option in described["options"].items():
            yield f"[{section}] {name}: {option['type']}, default {option['default']}"
    for metric in METRICS:
        yield f"{metric.full_name}: {metric.kind.value}, {metric.unit}, {' '.join(metric.tags)}".rstrip(", ")


# -- Python -----------------------------------------------------------------------------------------------------------


def python_api() -> Iterator[str]:
    """Yield the classes and functions of the reference page, with their parameters and templated fields."""
    reference = script()
    found = [
        item for _, modules, names in reference.GROUPS for each in modules for item in reference._public(each, names)
    ]
    for item in (*found, LandedSlice, Pipeline, load_pipelines):
        yield from _public_item(item)


def _public_item(item: Any) -> Iterator[str]:
    name = item.__name__
    yield f"{name}: {item.__module__.removesuffix('.definition')}"
    for parameter in _parameters(item).values():
        yield f"{name}({parameter.name}): {_promise(parameter)}"
    yield from (f"{name}({field}): template" for field in getattr(item, "template_fields", ()))
    if item in {Pipeline, Landed, LandedSlice}:
        members = {key for key in vars(item) if not key.startswith("_")} - {"count", "index"}
        yield from (f"{name}.{member}" for member in members)


def _parameters(item: Any) -> Mapping[str, inspect.Parameter]:
    found: Mapping[str, inspect.Parameter] = script()._signature(item)
    return {key: value for key, value in found.items() if key != "self" and value.kind is not value.VAR_KEYWORD}


def _promise(parameter: inspect.Parameter) -> str:
    if parameter.default is inspect.Parameter.empty:
        return REQUIRED
    return f"default {parameter.default}"


SURFACES = (
    Surface(name="pipeline-file", lines=pipeline_file),
    Surface(name="command-line", lines=command_line),
    Surface(name="json", lines=json_documents),
    Surface(name="lake-tables", lines=lake_tables, grows=False),
    Surface(name="ledger", lines=ledger, grows=False),
    Surface(name="asset-events", lines=asset_events),
    Surface(name="airflow-settings", lines=airflow_settings),
    Surface(name="python", lines=python_api),
)
