# noqa: INP001  (a script beside the documents, not a package)
"""Write the reference pages that repeat what the code says: `python docs/generate.py`.

A test holds the committed pages against this script.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook, BaseOperator, BaseOperatorLink
from airflow.triggers.base import BaseTrigger

from airflow_kafka_lake.cli.command import Argument, Command
from airflow_kafka_lake.cli.entry_point import COMMANDS, EXAMPLES, EXIT_CODES, LEDGER, InternalError
from airflow_kafka_lake.core import errors
from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.ledger.guards import remedies_for
from airflow_kafka_lake.core.ledger.waves import (
    RANGE_TRANSITIONS,
    WAVE_TRANSITIONS,
    Act,
    AttemptOutcome,
    RangeState,
    WaveState,
)
from airflow_kafka_lake.core.reports.metrics import METRICS
from airflow_kafka_lake.get_provider_info import get_provider_info

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

    from tests.proof.evidence import Evidence

sys.path.insert(0, str(Path(__file__).parents[1]))  # what the tests know: guards, and evidence
REFERENCE = Path(__file__).parent / "reference"
PICTURES = REFERENCE / "benchmark"
NOTE = "<!-- written by docs/generate.py -->"


def main() -> int:
    """Write the pages; returns the exit code."""
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
    for name, text in pictures().items():
        PICTURES.mkdir(exist_ok=True)
        (PICTURES / name).write_text(text, encoding="utf-8")
    REGISTRY.write_text(registry(), encoding="utf-8")
    import speed  # the script beside this one

    for path, text in speed.pages().items():
        (speed.ROOT / path).write_text(text, encoding="utf-8")
    return 0


def pages() -> dict[str, str]:
    """Return every page that depends on the code and on committed results alone, by file name."""
    return {
        "commands.md": commands_page(),
        "states.md": states_page(),
        "errors.md": errors_page(),
        "laws.md": laws_page(),
        "tables.md": tables_page(),
        "parts.md": parts_page(),
        "proof.md": proof_page(),
        "metrics.md": metrics_page(),
        "benchmark.md": benchmark_page(),
        "airflow.md": airflow_page(),
    }


def pictures() -> dict[str, str]:
    """Return every picture of a committed report of the benchmark, by file name."""
    from bench import page

    return page.pictures(page.reports())


def benchmark_page() -> str:
    """Return benchmark.md from the arms, the workloads and the committed reports."""
    from bench import page

    return _page("Benchmark", *page.page(page.reports()))


def _page(title: str, *parts: str) -> str:
    return "\n\n".join([NOTE, f"# {title}", *(part.strip() for part in parts)]) + "\n"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


# -- metrics ----------------------------------------------------------------------------------------------------------

METRICS_INTRO = """
What tasks send by Airflow's own Stats. How to switch them on, and alerts: [watch it in
Airflow](../how-to/watch.md#metrics).
"""
METRICS_NAMES = """
Airflow puts its prefix (`airflow`) before a name. Prometheus has `_` for each dot:
`airflow_kafka_lake_lag_seconds{pipeline="orders",topic="orders"}`. By OpenTelemetry a counter ends in `_total` there, a
timer in `_milliseconds`; the StatsD exporter turns timers into seconds.

A gauge is what a task saw last, at `kafka_lake.observed.seconds`. What is not known is not sent.
"""


def metrics_page() -> str:
    """Return metrics.md from core/metrics."""
    rows = (
        [f"`{m.full_name}`", m.kind.value, m.unit, ", ".join(f"`{tag}`" for tag in m.tags), m.sent_by, m.help]
        for m in METRICS
    )
    return _page(
        "Metrics", METRICS_INTRO, _table(("metric", "kind", "unit", "tags", "task", "is"), rows), METRICS_NAMES
    )


# -- Airflow's classes ------------------------------------------------------------------------------------------------

AIRFLOW_INTRO = """
What a Dag may use; [how](../how-to/airflow.md). Operators and sensors also take the arguments of Airflow's
`BaseOperator`. **T**: a template is rendered. Airflow retries after an [error](errors.md) that may pass; any other
fails the task at once.
"""
GROUPS = (
    ("Task groups and Dags", ("task_groups",), ("kafka_lake_ingest", "pipeline_dags")),
    (
        "Operators",
        tuple(
            name.removeprefix("airflow_kafka_lake.")
            for entry in get_provider_info()["operators"]
            for name in entry["python-modules"]
        ),
        (),
    ),
    ("Sensors", ("sensors",), ()),
    ("Assets", ("assets",), ("pipeline_asset", "all_pipelines", "landed", "Landed", "closed_periods", "late_records")),
    ("Hooks", ("hooks",), ()),
    ("Triggers", ("triggers",), ()),
    ("Links", ("links",), ()),
    ("Plugin", ("plugins",), ("KafkaLakePlugin",)),
)
"""A heading, its modules, and their public names, where not all classes that Airflow knows by their base are meant."""
PARAM = re.compile(r"^:(?P<kind>param (?P<name>\w+)|returns?|raises (?P<error>\w+)):\s*", re.MULTILINE)
SEVERAL = "Parameters of several"
SEVERAL_INTRO = """
A name is that of a file in `[kafka_lake] pipelines_folder`, or of a pipeline that the ledger knows. A period is
`[from, to)`.
"""
PARAMETER = ("parameter", "default", "", "is")
OF_A_PERIOD = "Parameters of a period"
PERIOD = tuple(f"`{name}`" for name in ("topic", "partitions", "from_", "to", "reason", "is_dry_run", "conf_keys"))
BARE = frozenset({"Hooks", "Triggers", "Links", "Plugin"})
"""Groups whose members a person does not make: a sentence of each."""


def airflow_page() -> str:
    """Return airflow.md from the public classes and functions of Airflow's modules."""
    groups = {
        heading: [item for each in modules for item in _public(each, names)] for heading, modules, names in GROUPS
    }
    shared = _shared(row for heading, items in groups.items() if heading not in BARE for i in items for row in _rows(i))
    parts: list[str] = []
    for heading, items in groups.items():
        if heading in BARE:
            rows = ([f"`{item.__name__}`", _first(item)] for item in items)
            parts += [f"## {heading}", _table(("class", "is"), rows)]
        else:
            parts += [f"## {heading}", *(_airflow_item(item, shared) for item in items)]
    several = [f"## {SEVERAL}", SEVERAL_INTRO.strip(), _table(PARAMETER, (i for i in shared if i[0] not in PERIOD))]
    period = [f"## {OF_A_PERIOD}", _table(PARAMETER, (row for row in shared if row[0] in PERIOD))]
    return _page("Airflow", AIRFLOW_INTRO, *parts, *several, *period)


def _shared(rows: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return what several have in common, of each name the form that most of them have."""
    most: dict[str, tuple[str, ...]] = {}
    for row, times in Counter(rows).most_common():
        if times > 1:
            most.setdefault(row[0], row)
    return list(most.values())


def _public(module: str, names: Sequence[str]) -> Iterator[Any]:
    """Yield the names of a module, or its classes that stand for something of Airflow's and are no base of another."""
    found = importlib.import_module(f"airflow_kafka_lake.{module}")
    if names:
        yield from (getattr(found, name) for name in names)
        return
    bases = (BaseOperator, BaseHook, BaseTrigger, BaseOperatorLink)
    own = [item for item in vars(found).values() if inspect.isclass(item) and item.__module__ == found.__name__]
    yield from (item for item in own if issubclass(item, bases) and item not in {c for o in own for c in o.__mro__[1:]})


REGISTRY = Path(__file__).parents[1] / ".airflow-registry.yaml"
REGISTRY_NOTE = "# For the provider registry of Apache Airflow; written by docs/generate.py. It is in no package."
LISTED = {"Operators": "operators", "Sensors": "sensors", "Hooks": "hooks", "Triggers": "triggers"}
"""The registry's word for a group; the others are `other`, but for what nobody imports."""


def registry() -> str:
    """Return .airflow-registry.yaml from pyproject.toml and the classes of the page."""
    import yaml

    project = tomllib.loads((REGISTRY.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    parts: dict[str, list[dict[str, str]]] = {name: [] for name in (*LISTED.values(), "other")}
    for heading, modules, names in GROUPS:
        if heading not in {"Links", "Plugin"}:
            found = [item for module in modules for item in _public(module, names)]
            parts[LISTED.get(heading, "other")] += [
                {"module": f"{item.__module__}.{item.__name__}", "description": _first(item)} for item in found
            ]
    document = {
        "package-name": project["name"],
        "display-name": "Kafka Lake",
        "description": project["description"],
        "docs-url": project["urls"]["Documentation"],
        "source-url": project["urls"]["Source"],
        **parts,
    }
    return f"{REGISTRY_NOTE}\n{yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)}"


def _airflow_item(item: Any, shared: Sequence[tuple[str, ...]]) -> str:
    """Return the section of one class or function: its contract, then its parameters."""
    rows = _rows(item)
    call = f"```text\n{item.__name__}({', '.join(name for name in _signature(item) if name != 'self')})\n```"
    own = [row for row in rows if row not in shared]
    common = [row[0] for row in rows if row in shared]
    has_period = set(PERIOD) <= set(common)
    told = ", ".join(name for name in common if not has_period or name not in PERIOD)
    last = f"Also {told}: [as of several](#{_anchor(SEVERAL)})." if common else ""
    last += f" And those [of a period](#{_anchor(OF_A_PERIOD)})." if has_period else ""
    parts = [
        f"### {item.__name__}",
        f"`{item.__module__}`",
        _described(item)[0],
        _table(PARAMETER, own) if own else "",
        last,
    ]
    return "\n\n".join(filter(None, [*parts, "" if rows else call]))


def _rows(item: Any) -> list[tuple[str, ...]]:
    """Return the parameters of a class or function, each with default, `T` and text."""
    told = {name: about for kind in reversed(_ours(item)) for name, about in _described(kind)[1].items()}
    told |= _described(item)[1]
    templated = set(getattr(item, "template_fields", ()))
    taken = _signature(item)
    return [
        (f"`{name}`", _default(taken.get(name)), "T" if name in templated else "", about)
        for name, about in told.items()
        if name in taken or name.endswith("_args") or not taken
    ]


def _ours(item: Any) -> list[Any]:
    """Return a function, or a class with its bases in this package, the nearest first."""
    kinds = inspect.getmro(item) if inspect.isclass(item) else (item,)
    return [kind for kind in kinds if kind.__module__.startswith("airflow_kafka_lake")]


def _signature(item: Any) -> dict[str, inspect.Parameter]:
    makers = [kind.__init__ for kind in _ours(item) if "__init__" in vars(kind)] if inspect.isclass(item) else [item]
    return {name: value for maker in reversed(makers) for name, value in inspect.signature(maker).parameters.items()}


def _default(parameter: inspect.Parameter | None) -> str:
    if parameter is None or parameter.default is inspect.Parameter.empty:
        return "–" if parameter is None or parameter.kind is inspect.Parameter.VAR_KEYWORD else "required"
    return f"`{parameter.default}`" if not isinstance(parameter.default, timedelta) else f"{parameter.default}"


def _described(item: Any) -> tuple[str, dict[str, str]]:
    """Return the text of a docstring, with returns and raises as its last sentences, and the text of each parameter."""
    doc = inspect.getdoc(item) or ""
    found = list(PARAM.finditer(doc))
    text, params = doc[: found[0].start()].strip() if found else doc.strip(), {}
    for match, following in zip(found, [*found[1:], None][: len(found)], strict=True):
        about = " ".join(doc[match.end() : following.start() if following else None].split())
        if match["name"]:
            params[match["name"]] = about.replace(" (templated)", "")
        elif match["error"]:
            text += f" Raises `{match['error']}`: {about}."
        else:
            text += f" Returns {about.rstrip('.')}."
    return text, params


def _anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def _first(item: Any) -> str:
    return " ".join((inspect.getdoc(item) or "").partition("\n\n")[0].split())


# -- commands ---------------------------------------------------------------------------------------------------------

COMMANDS_INTRO = f"""
`kafka-lake COMMAND …`, with [connections](connections.md) as Airflow finds them; [without a
terminal](../how-to/airflow.md#a-command-without-a-terminal).

**Every command** takes `--ledger CONN_ID` (default `{LEDGER}`) and `--json`: one [JSON document](json.md) on stdout,
also when it fails; progress goes to stderr.

**PIPELINE** is a [pipeline file](pipeline-file.md) (it ends in `.toml` or has a `/` in it), or a name that the ledger
knows. **TEXT** is kept in the [history](#history). **WAVE** and **RANGE** are ids, as `kafka-lake status PIPELINE` and
`kafka-lake wave WAVE` show them. **X** is an offset or a time with its zone (`2026-03-01T00:00:00Z`); a period
is `[from, to)`. Options are written out.
"""

ENVIRONMENT = (
    ("`AIRFLOW_CONN_<ID>`", "a connection, as JSON or as Airflow's URI"),
    ("`KAFKA_LAKE_ACTOR`", "who decides, for the ledger's history; otherwise the login name"),
    ("`KAFKA_LAKE_CACHE`", "where the jars are kept; otherwise `~/.cache/airflow-kafka-lake`"),
    (
        "`KAFKA_LAKE_SPARK_HOME`",
        "the folder of the Spark (4.0 or 4.1) that jobs run on; otherwise the installed PySpark",
    ),
    ("`KAFKA_LAKE_DEBUG`", "`1` shows the traceback of an `InternalError`"),
)


def commands_page() -> str:
    """Return commands.md from the command table."""
    codes = "## Exit codes\n\n" + _table(("code", "means"), EXIT_CODES.items())
    environment = "## Environment\n\n" + _table(("variable", "is"), ENVIRONMENT)
    common = _table(("option of several commands", "is"), ((f"`{name}`", about) for name, about in _common()))
    return _page("Commands", COMMANDS_INTRO, common, *map(_command, COMMANDS), codes, environment)


def usage(command: Command) -> str:
    """Return how a command is called, in one line."""
    return " ".join(["kafka-lake", command.name, *map(_word, command.arguments)])


def _word(argument: Argument) -> str:
    settings = argument.settings
    value = "|".join(settings["choices"]) if "choices" in settings else settings.get("metavar", "")
    if not argument.names[0].startswith("-"):
        return value
    several = " …" if settings.get("nargs") == "*" else ""
    word = f"{argument.names[0]} {value}{several}".strip()
    return word if settings.get("required") else f"[{word}]"


SAID_ABOVE = {"pipeline file (*.toml), or a name that the ledger knows", "why, for those who read it later", "why"}


def _command(command: Command) -> str:
    example = f"{EXAMPLES[command.name]}\n" if "--" in usage(command) else ""  # else it is the same words
    head = f"## {command.name}\n\n{_sentence(command.help)}\n\n```text\n{usage(command)}\n{example}```"
    told = (f"- `{name}`: {about}" for name, about in _options(command) if (name, about) not in _common())
    return "\n\n".join(filter(None, [head, "\n".join(told)]))


def _options(command: Command) -> list[tuple[str, str]]:
    told = ((_plain(argument), argument.settings["help"]) for argument in command.arguments)
    return [option for option in told if option[1] not in SAID_ABOVE]


@cache
def _common() -> list[tuple[str, str]]:
    """Return the options that mean the same for several commands."""
    return [option for option, times in Counter(o for c in COMMANDS for o in _options(c)).most_common() if times > 1]


def _plain(argument: Argument) -> str:
    return _word(argument).strip("[]")


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


# -- states -----------------------------------------------------------------------------------------------------------

RANGE_FORM = {
    RangeState.PLANNED: "planned; the state of its wave shows whether an attempt works on it",
    RangeState.CANCELLED: "put on hold by a person",
    RangeState.HELD: "put on hold by an audit or a precheck; the reason names the offsets",
    RangeState.COMMITTED: "visible in the lake, every offset accounted for",
    RangeState.SKIPPED: "passed unread by a person's recorded decision",
}
WAVE_FORM = {
    WaveState.PLANNED: "no attempt works on it",
    WaveState.CLAIMED: "an attempt has it: staging",
    WaveState.STAGED: "an attempt's rows are staged and audited, invisible to readers",
    WaveState.PUBLISHING: "the publishing commit may have been sent",
    WaveState.COMMITTED: "published and committed",
    WaveState.CANCELLED: "all of its ranges were cancelled",
    WaveState.DISSOLVED: "its ranges went elsewhere: released into another wave, held, skipped or withdrawn",
}
ATTEMPT_FORM = {
    AttemptOutcome.RUNNING: "running, or its worker died",
    AttemptOutcome.STAGED: "staged and audited, not published yet",
    AttemptOutcome.COMMITTED: "its commit is in the lake",
    AttemptOutcome.REJECTED: "the table changed, and its staged rows could not be published",
    AttemptOutcome.FAILED: "ended with an error, or its audit found something; another may publish what it had audited",
    AttemptOutcome.UNKNOWN: "the answer to its commit, or to the search for an earlier one, was lost",
    AttemptOutcome.ABANDONED: "another attempt took over, and may publish what it had audited",
}
STATES_INTRO = """
Words: [glossary](../glossary.md). When something is stuck: [resolve a hold](../how-to/holds.md).
"""
RANGES_CLOSE = (
    "PLANNED, CANCELLED and HELD hold the watermark; COMMITTED and SKIPPED let it pass, and are left only by "
    "[`kafka-lake reopen PIPELINE …`](../how-to/reopen.md). PLANNED and CANCELLED ranges of a wave that was never "
    "claimed (fence 0) can be withdrawn: "
    "[`kafka-lake withdraw …`](../how-to/pause.md#withdraw-a-plan)."
)


def states_page() -> str:
    """Return states.md from the tables of core/ledger/waves.py."""
    ranges = _table(
        ("state", "means", "may become", "remedy"),
        ([_caps(s), RANGE_FORM[s], _states(RANGE_TRANSITIONS[s]), _remedies(s)] for s in RangeState),
    )
    waves = _table(("state", "means", "remedy"), ([_caps(s), WAVE_FORM[s], _remedies(s)] for s in WaveState))
    acts = _table(
        ("act", "from", "to"),
        ([act.value, _states(WAVE_TRANSITIONS[act][0]), _caps(WAVE_TRANSITIONS[act][1])] for act in Act),
    )
    attempts = _table(("outcome", "means"), ([f"`{o.value}`", ATTEMPT_FORM[o]] for o in AttemptOutcome))
    return _page(
        "States",
        STATES_INTRO,
        f"## Ranges\n\n{ranges}\n\n{RANGES_CLOSE}",
        f"## Waves\n\n{waves}\n\n{acts}",
        f"## Attempts\n\n{attempts}",
    )


def _caps(state: RangeState | WaveState) -> str:
    return f"`{state.value}`"


def _states(found: Iterable[RangeState | WaveState]) -> str:
    return ", ".join(_caps(state) for state in sorted(found, key=lambda state: list(type(state)).index(state))) or "–"


def _remedies(state: RangeState | WaveState) -> str:
    if isinstance(state, RangeState) and state is RangeState.PLANNED:
        return "as its wave"
    subject = "WAVE" if isinstance(state, WaveState) else "RANGE"
    remedies = remedies_for(state, subject, "PIPELINE")
    needs_more = {command.name for command in COMMANDS if any(a.settings.get("required") for a in command.arguments)}
    return ", or ".join(f"`{item} …`" if item.command in needs_more else f"`{item}`" for item in remedies) or "–"


# -- errors -----------------------------------------------------------------------------------------------------------

ERRORS_INTRO = """
Every failure, but a missing Java or PySpark, is one of these: a sentence on stderr, with `--json` a
[document](json.md#an-error), in Airflow a failed task. The message says what happened, where, and what to do next, and
holds no secret; without a terminal, [a Dag](../how-to/airflow.md#a-command-without-a-terminal) runs the command that it
names. `kafka-lake help ERROR` prints its row.
"""
INTERNAL = """
`InternalError` (exit 1, not in the tree) is a defect of this package; `KAFKA_LAKE_DEBUG=1` shows its traceback.
"""


def errors_page() -> str:
    """Return errors.md from the tree in core/errors.py."""
    rows = [(f"{'… ' * depth}`{kind.__name__}`", str(kind.exit_code), _contract(kind)) for kind, depth in _tree()]
    assert InternalError.exit_code == 1
    return _page("Errors", ERRORS_INTRO, _table(("type", "exit code", "means"), rows), INTERNAL)


def _tree(root: type[KafkaLakeError] = KafkaLakeError, depth: int = 0) -> Iterator[tuple[type[KafkaLakeError], int]]:
    yield root, depth
    children = [kind for kind in root.__subclasses__() if kind.__module__ == errors.__name__]
    for child in sorted(children, key=lambda kind: inspect.getsourcelines(kind)[1]):
        yield from _tree(child, depth + 1)


def _contract(kind: type[KafkaLakeError]) -> str:
    text = (inspect.getdoc(kind) or "").partition("\n")[0].rstrip(".")
    return text if text[1:2].isupper() else text[0].lower() + text[1:]


# -- tables -----------------------------------------------------------------------------------------------------------

TABLES_INTRO = """
Columns that other programs may read. The ledger's may change with an upgrade; only this package writes to them.
"""
LAKE_TABLE = """
## The lake table

Iceberg, format version 2, created when it is missing (Parquet, zstd level 1, partitioned by
[`partition_by`](pipeline-file.md#partition_by)); refused, naming each difference, when these columns do not fit.
Further nullable columns are fine. Null keys, tombstones, empty values and headers arrive byte for byte.
`ingest_attempt` is the attempt that wrote the row, also after compaction. `kafka_timestamp_raw` has Kafka's number
where `kafka_timestamp` cannot hold it. `kafka_timestamp_type`: 0 create time, 1 log append time.
"""
RECEIPTS_TABLE = """
## The receipts table

`<table>__receipts`: a row of kind `rows` for each audited range (it counts once its attempt was published), and rows of
kind `published`, `skip`, `reopen`, `origin`, `deleted`.
"""
PROPERTIES = """
## In the table's metadata

Each commit of ours has in its snapshot summary: `kafka-lake.pipeline`, `kafka-lake.wave`, `kafka-lake.attempt`,
`kafka-lake.fence`, `kafka-lake.ranges` (a digest), `kafka-lake.kind` (`publish`, `replace`, `fence`, …),
`kafka-lake.version` (`1`). Table properties:

- `kafka-lake.last.<ledger id>/<pipeline>`: the newest commit and publish, and the newest line of the ledger's history
- `kafka-lake.owner.<topic id>`: ledger id and pipeline that land this topic here
"""
LEDGER_TABLES = """
## The ledger

[What each table is for](../explanation/architecture.md#the-ledger); its columns, in the repository:
`tests/promise/frozen/ledger.txt`.
"""


def tables_page() -> str:
    """Return tables.md from the schemas of the lake and the receipts."""
    from airflow_kafka_lake.adapters.iceberg.receipts import RECEIPTS
    from airflow_kafka_lake.adapters.iceberg.schema import LANDING

    parts = (LAKE_TABLE, _columns(LANDING), RECEIPTS_TABLE, _columns(RECEIPTS), PROPERTIES, LEDGER_TABLES)
    return _page("Tables", TABLES_INTRO, *parts)


def _columns(schema: Schema) -> str:
    from airflow_kafka_lake.adapters.iceberg.schema import shape

    return _table(("column", "type"), ((f"`{field.name}`", shape(field.field_type)) for field in schema.fields))


# -- laws -------------------------------------------------------------------------------------------------------------

LAWS = Path(__file__).parents[1] / "tests" / "laws.toml"
LAWS_INTRO = """
Each promise has tests that fail when it breaks: `tests/laws.toml` names them. The limits: [how each answer is
known](known.md).
"""
LAWS_CLOSE = """
## In detail
"""


def laws_page() -> str:
    """Return laws.md from the list of laws and their tests."""
    laws = tomllib.loads(LAWS.read_text(encoding="utf-8"))
    main = [(name, law["says"]) for name, law in laws.items() if re.fullmatch(r"L\d+", name)]
    detail = (f"- {law['says']}" for name, law in laws.items() if not re.fullmatch(r"L\d+", name))
    return _page("Guarantees", LAWS_INTRO, _table(("law", "guarantee"), main), LAWS_CLOSE, "\n".join(detail))


# -- parts ------------------------------------------------------------------------------------------------------------

PARTS = LAWS.with_name("parts.toml")
CELLS = {"contracts": "contract tests", "run": "run and audit", "faults": "faults", "secrets": "secrets searched for"}
PARTS_INTRO = """
Which of the parts that people run on were tried, by the tests that `tests/parts.toml` names: **daily** ones run before
every push, **nightly** ones passed on the named commit. A dash: no test does it.
"""
PARTS_COLUMNS = """
**Contract tests**: each call, on the part alone. **Run and audit**: planned, landed by Spark, every offset accounted
for. **Faults**: killed, cut off, wrong or late in mid-run, and exact afterwards. **Secrets searched for**: in
arguments, messages, logs, ledger or lake; none was found.
"""


def parts_page() -> str:
    """Return parts.md from the list of parts, and the evidence of the tests that are left to the nightly."""
    from tests.proof.evidence import Chunk, Evidence
    from tests.proof.parts import CHUNKED

    played = {name.removeprefix("tests/"): chunk for name, chunk in Evidence.read("suite").chunks.items()}
    played |= {f"{part}::{name}": chunk for part in CHUNKED for name, chunk in Evidence.read(part).chunks.items()}

    def chunks_of(name: str) -> list[Chunk | None]:
        wanted = name if name.startswith(CHUNKED) else name.partition("::")[0]
        found = {key: chunk for key, chunk in played.items() if key.partition(",")[0] == wanted}
        are_all = all(len(found) == int(key.rpartition(" of ")[2]) for key in found if "," in key)
        return [*found.values()] if found and are_all else [None]

    def cell(tests: Mapping[str, str]) -> str:
        if tests.get("daily"):
            return "daily"
        names = tests.get("nightly", "").split()
        chunks = [chunk for name in names for chunk in chunks_of(name)]
        passed = {f"nightly ({chunk.commit})" for chunk in chunks if chunk and not chunk.red}
        if None in chunks or len(passed) < len({chunk.commit for chunk in chunks if chunk}):
            return "not run yet"
        return ", ".join(sorted(passed)) or "–"

    parts = tomllib.loads(PARTS.read_text(encoding="utf-8"))
    rows = [(name, *(cell(part.get(kind, {})) for kind in CELLS)) for name, part in parts.items()]
    return _page("Tried on", PARTS_INTRO, _table(("part", *CELLS.values()), rows), PARTS_COLUMNS, INSTALLED)


INSTALLED = """
Versions of Airflow, Python, Spark and PyIceberg: [where it was installed](proof.md#where-it-was-installed).
"""

# -- proof ------------------------------------------------------------------------------------------------------------

PROOF_INTRO = """
Tested beyond `make test`; results: `tests/proof/evidence`. A part passes when nothing failed or was
skipped. To repeat it: [CONTRIBUTING](../../CONTRIBUTING.md).
"""
INSTALLATIONS = """
## Where it was installed

The wheel beside each Airflow under its constraints; a real topic was planned, run, and audited with `--deep`. Airflow
3.2 is the oldest that works: 3.1 lacks parts of the SDK, 3.0 pins SQLAlchemy 1.4, where PyIceberg needs 2.
"""


def proof_page() -> str:
    """Return proof.md from the evidence of every part."""
    from tests.proof.evidence import Evidence
    from tests.proof.parts import PARTS

    rows = []
    versions: set[str] = set()
    for part in PARTS:
        evidence = Evidence.read(part.name)
        red = ", **red**" if any(item.red for item in evidence.chunks.values()) else ""
        found = f"{evidence.passed:,} {part.cases}{_unkilled(evidence)}{red}" if evidence.chunks else "not run yet"
        rows.append((f"`{part.name}`", part.proves, found, evidence.played() or "–"))
        versions |= {" ".join(used) for item in evidence.chunks.values() for used in item.versions.items()}
    table = _table(("part", "tests", "passed", "commit, day"), rows)
    used = ", ".join(sorted(versions)) or "nothing on record"
    return _page("Proof", PROOF_INTRO, table, f"Versions: {used}.", INSTALLATIONS, _installations())


def _unkilled(evidence: Evidence) -> str:
    """Return how many random changes of the code no test has noticed; nothing of other parts."""
    tables = [row for item in evidence.chunks.values() for row in item.counts.facts.get("table", ())]
    missed = sum(row["survived"] + row["unreached"] for row in tables)
    return f", {missed} not noticed" if missed else ""


def _installations() -> str:
    from tests.installations import SETS
    from tests.proof.evidence import Evidence

    chunks, rows = Evidence.read("installations").chunks, []
    libraries = ("python", "spark", "pyiceberg")
    for name, chosen in SETS.items():
        if (chunk := chunks.get(name)) is None:
            rows.append((name, "not run yet", *["–"] * len(libraries)))
            continue
        failed = [step for step, why in chunk.counts.cases.items() if why]
        result = f"refused: {chosen.refused}" if chosen.refused else "passed"
        versions = chunk.counts.facts["versions"]
        found = [versions.get(library, "–") for library in libraries]
        rows.append((name, f"failed: {', '.join(failed)}" if failed else result, *found))
    return _table(("set", "result", *libraries), rows)


if __name__ == "__main__":
    sys.exit(main())
