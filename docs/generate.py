# noqa: INP001  (a script beside the documents, not a package)
"""Write the reference pages that repeat what the code says: `python docs/generate.py`.

`--tests` also counts the tests, which imports all of them. A test holds the committed pages against this script.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_kafka_lake.cli.command import Argument, Command
from airflow_kafka_lake.cli.entry_point import COMMANDS, LEDGER, InternalError
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
from tests.kit.failpoints import points
from tests.kit.traps import Mode, modes

if TYPE_CHECKING:
    from tests.proof.evidence import Evidence

sys.path.insert(0, str(Path(__file__).parents[1]))  # what the tests know: guards, and evidence
REFERENCE = Path(__file__).parent / "reference"
PICTURES = REFERENCE / "benchmark"
NOTE = "<!-- written by docs/generate.py -->"


def main(words: Sequence[str]) -> int:
    """Write the pages; returns the exit code."""
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
    for name, text in pictures().items():
        PICTURES.mkdir(exist_ok=True)
        (PICTURES / name).write_text(text, encoding="utf-8")
    if "--tests" in words:
        (REFERENCE / "tests.md").write_text(tests_page(), encoding="utf-8")
    return 0


def pages() -> dict[str, str]:
    """Return every page that depends on the code and on committed results alone, by file name."""
    return {
        "commands.md": commands_page(),
        "states.md": states_page(),
        "errors.md": errors_page(),
        "mutants.md": mutants_page(),
        "failpoints.md": failpoints_page(),
        "proof.md": proof_page(),
        "metrics.md": metrics_page(),
        "benchmark.md": benchmark_page(),
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
What tasks send by Airflow's own Stats, to the collector of Airflow's own metrics; the command line sends nothing. How
to switch them on, and rules that alert by them: [watch it in Airflow](../how-to/watch.md#metrics).
"""
METRICS_NAMES = """
Airflow puts its prefix before a name, `airflow` unless it is told otherwise. Prometheus has `_` for each dot:
`airflow_kafka_lake_lag_seconds{pipeline="orders",topic="orders"}`. By OpenTelemetry a counter's name ends in `_total`
there, and a timer's in `_milliseconds`; the StatsD exporter turns timers into seconds.

Counters and timers are sent once for each event. A gauge is what a task saw last, and stays until the next run sees
something else; `kafka_lake.observed.seconds` says when that was. What Kafka did not say is not sent.
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


# -- commands ---------------------------------------------------------------------------------------------------------

COMMANDS_INTRO = f"""
`kafka-lake COMMAND …`, and the same under `airflow kafka-lake COMMAND …`. Connections are found as Airflow finds them:
a secrets backend, the environment, Airflow's metadata database. See [connections](connections.md).

**Every command** takes `--ledger CONN_ID` (default `{LEDGER}`) and `--json`. With `--json` stdout holds one JSON
document and nothing else, also when the command fails; what is being done goes to stderr.

**PIPELINE** is a [pipeline file](pipeline-file.md) (it ends in `.toml` or has a `/` in it), or a name that the ledger
knows. **WAVE** and **RANGE** are ids as `kafka-lake status PIPELINE` and `kafka-lake wave WAVE` show them. **X** is an
offset (digits) or a time with its zone (`2026-03-01T00:00:00Z`); a period is `[from, to)`. Flags are written out: none
is guessed from its beginning.
"""

EXIT_CODES = (
    ("0", "done, nothing left to do"),
    ("1", "refused, a check failed, or something is held: the message says what, where, and what to do"),
    ("2", "wrong usage"),
    ("3", "worth repeating: something was out of reach, or another run is working on what is left"),
    ("4", "the outcome of a commit is unknown: `kafka-lake recover PIPELINE` finds out"),
    ("130", "interrupted (Ctrl-C); its Spark job is ended, and the same command goes on from there"),
    ("143", "terminated (SIGTERM), in the same way; 129 for SIGHUP"),
)

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
    listed = _table(
        ("command", "does"), ([f"[`{command.name}`](#{command.name})", command.help] for command in COMMANDS)
    )
    codes = "## Exit codes\n\n" + _table(("code", "means"), EXIT_CODES)
    environment = "## Environment\n\n" + _table(("variable", "is"), ENVIRONMENT)
    return _page("Commands", COMMANDS_INTRO, listed, *map(_command, COMMANDS), codes, environment)


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


def _command(command: Command) -> str:
    head = f"## {command.name}\n\n{_sentence(command.help)}\n\n```text\n{usage(command)}\n```"
    if not command.arguments:
        return head
    rows = ([f"`{_plain(argument)}`", argument.settings["help"]] for argument in command.arguments)
    return f"{head}\n\n{_table(('argument', 'is'), rows)}"


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
The tables below are those of `core/ledger/waves.py`, from which the ledger's guarded statements are made. Words:
[glossary](../glossary.md). What to do when something is stuck: [get out of a hold](../how-to/holds.md).
"""
RANGES_CLOSE = (
    "PLANNED, CANCELLED and HELD hold the watermark; COMMITTED and SKIPPED let it pass, and are left only by "
    "[`kafka-lake reopen PIPELINE …`](../how-to/reopen.md). PLANNED and CANCELLED ranges of a wave that was never "
    "claimed (fence 0) can be withdrawn: [`kafka-lake withdraw …`](../how-to/withdraw.md)."
)
WAVES_CLOSE = "A claim of a wave that is CLAIMED, STAGED or PUBLISHING takes it over from a holder that has died."


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
        f"## Waves\n\n{waves}\n\n{acts}\n\n{WAVES_CLOSE}",
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
Every failure is one of these, wherever it is met: a person at the command line (a sentence on stderr), a program (with
`--json`: `{"error": {"type": …, "message": …}}` and facts such as `topic` and `partition`), a task of a Dag. Messages
say what happened, where, and what to do next, and hold no secret.
"""
INTERNAL = """
`InternalError` (exit 1) is not in the tree: it is a defect of this package, met at the command line. It names the
exception's type; `KAFKA_LAKE_DEBUG=1` in the environment shows the traceback.
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


# -- mutants ----------------------------------------------------------------------------------------------------------

MUTANTS_INTRO = """
Each line is one guard of the protocol and its removal: `make test` takes each guard out, and runs tests
that must then fail. The switch is in the tests alone; no setting of the product can remove a guard.

```
make test ARGS="tests/mutants"              # every guard
make test ARGS="tests/mutants -k any-head"  # one of them
```

Random slips in the whole package test what the list of guards leaves out:

```
.venv/bin/python -m tests.mutants.random --seed 1             # 200 slips, until a test without services is red
.venv/bin/python -m tests.mutants.random --seed 1 --daily     # and what survives meets the real parts of `make test`
.venv/bin/python -m tests.mutants.random --seed 1 --nightly   # and those of the nightly
```

Each slip (a comparison turned, a bound moved, a statement or an error removed, a constant changed, …) meets the tests
that run its function, until one is red. A table shows how many are noticed by `make test`, and how many by the nightly
alone, in each folder; `--against FILE` counts besides what another selection of tests notices. Below 80 % the exit code
is 1. Results are kept (`--json FILE`): a later call goes on where it ended.
"""


def mutants_page() -> str:
    """Return mutants.md from the catalog in tests/mutants, and from the evidence of both kinds of mutants."""
    from tests.mutants.catalog import MUTANTS
    from tests.proof.evidence import Evidence
    from tests.proof.parts import RANDOM

    rows = (
        [f"`{item.name}`", item.guard, item.law, ", ".join(f"`{_test_name(test)}`" for test in item.red)]
        for item in MUTANTS
    )
    total = f"{len(MUTANTS)} guards."
    catalog = _table(("without", "the guard", "law", "turns red"), rows)
    return _page("Mutants", MUTANTS_INTRO, total, *_random_mutants(Evidence.read(RANDOM)), catalog)


def _random_mutants(evidence: Evidence) -> Iterator[str]:
    """Yield what the last draw found; nothing before there was one."""
    for chunk in evidence.chunks.values():
        rows = chunk.counts.facts.get("table")
        if not rows:
            continue
        yield f"Slips drawn with seed {chunk.seed}, played at {evidence.played()}:"
        yield _table(list(rows[0]), ([str(value or "–") for value in row.values()] for row in rows))
        survivors = [f"- {slip}" for slip in chunk.counts.facts["survivors"]]
        yield "\n".join(["Survivors:", "", *survivors]) if survivors else "No slip survived."


def _test_name(test: str) -> str:
    path, _, name = test.partition("::")
    return f"{Path(path).stem}::{name.partition('[')[0]}"


# -- failpoints -------------------------------------------------------------------------------------------------------

FAILPOINTS_INTRO = """
A failpoint is a crossing of a port, before or after the call, or a step inside the Spark driver
([why](../decisions/0002-failpoints-are-port-crossings.md)). In a test something happens there:

- **kill**: SIGKILL.
- **stop**: SIGSTOP; every lease ends, a successor does its work to the end, then the stopped one goes on.
- **raise**: the call fails.
- **delay**: it is late, and another command runs beside it.
- **lost**: the call was made and its answer is lost (only after).

Then the same command runs again, then the main job, then the main job once more, which must find nothing to do. A case
is green when every acknowledged record of a committed range is in the table once and nothing else is, each wave was
published once, the watermark is where the proof ends, `kafka-lake audit` agrees, and a person's decision still holds. A
transaction that hangs is named; a group that follows the watermarks never got more than is proved, and has all of it
in the end; what an attempt shows is decoded whole or not at all. A trap that does not spring is red.

The numbers say in how many cases (commands, states of the simulation, port calls) it was played; all of them were green
unless the cell says otherwise. "–" is no case: before a call there is no answer to lose, and rows that pass the driver
are no call.
"""
FAILPOINTS_CLOSE = """
Forked commands are the real command line over a real ledger (SQLite) and a real lake (Iceberg); Kafka is the one in
memory, and jobs are staged by PyIceberg. The others ran with a real broker and real Spark. Play it yourself:

```
make proof ARGS="--only failpoints"        # every point in every mode, in commands that a seed deals
make proof ARGS="--only failpoints-spark"  # every point with real Spark; all modes inside the driver, one elsewhere
make matrix ARGS="--all"                   # every command that crosses the point, its last crossing too
make matrix ARGS="--real"                  # every point in every mode with real Spark: hours (--points REGEX)
```
"""
PLAYED = re.compile(r"(?P<point>[^=]+)=(?P<mode>[a-z]+)(@\d+)? in (?P<act>.+)")


def failpoints_page() -> str:
    """Return failpoints.md from the code's points and the evidence of the matrix."""
    from tests.proof.evidence import Evidence
    from tests.proof.parts import FORKED, SPARK

    found: dict[tuple[str, str], list[bool]] = defaultdict(list)
    commands: set[str] = set()
    forked, spark = Evidence.read(FORKED), Evidence.read(SPARK)
    for name, why in chain(forked.cases.items(), spark.cases.items()):
        match = PLAYED.fullmatch(name)
        assert match is not None, name
        found[match["point"], match["mode"]].append(not why)
        commands.add(match["act"])
    rows = [(f"`{point}`", *(_cell(found[point, mode], point, mode) for mode in Mode)) for point in points()]
    green, cases = sum(map(sum, found.values())), sum(map(len, found.values()))
    total = (
        f"{len(points())} points; {sum(map(bool, found.values()))} pairs of a point and a mode in {cases:,} cases, "
        f"{len(commands)} kinds of commands: {green:,} green, {cases - green} red. Forked commands "
        f"({len(forked.cases):,} cases) were played at {forked.played() or 'no commit yet'}; with real Spark "
        f"({len(spark.cases):,}) at {spark.played() or 'no commit yet'}."
    )
    return _page("Failpoints", FAILPOINTS_INTRO, total, _table(("point", *Mode), rows), FAILPOINTS_CLOSE)


def _cell(found: Sequence[bool], point: str, mode: Mode) -> str:
    if mode not in modes(point):
        return "–"
    red = len(found) - sum(found)
    return f"**{red} of {len(found)} red**" if red else str(len(found) or "not played")


# -- proof -----------------------------------------------------------------------------------------------------------

PROOF_INTRO = """
`make test` is the daily proof. `make proof` is the nightly: all that `make test` leaves out. What it found is kept in
`tests/proof/evidence`, and this page is written from that. A part is green when its programs ended well, nothing of it
failed or was skipped, and it played at least one case; what was killed is red, and so is the whole then (exit code 1).
"""
PROOF_CLOSE = """
```
make proof                                  # everything that is not green for this commit yet, about four hours
make proof ARGS="--list"                    # the parts, how long they take, and what is known of them
make proof ARGS="--only histories --seed 7"
```

It needs a tree without changes of its own, because evidence names a commit; a part that meets a change while it is
played is refused. Parts are played in chunks, and each chunk is kept when it ends: a proof that was stopped or killed
goes on with the chunks that are not green for this commit. Changes of documents do not count. The commit deals the
seed, or `--seed`. The output of every program lies in `build/proof`; another folder for the evidence (`--evidence`),
fewer histories (`--histories`) and a shorter soak (`--minutes`) are for a try.

The tests of `suite` are those marked `nightly` (`pytest --whole -m nightly`): scenarios played by the Dag
`kafka_lake_manual` in a real Airflow (a cancelled range, a migrated topic, lost records, retention and an impatient
skip in the middle of a slow read, a parent that was skipped without acknowledging the order, a group's commit that
stays pending, three levels of segments in one run); compaction and expiry between any two steps; an older backup of the
ledger, and a table that was rolled back; a lake and a ledger that an older version has made, its package
taken from git (red in a clone without history: `git fetch --unshallow`); and real-Spark faults that say again what
others say.

At the end it writes this page and those of the mutants and failpoints anew: commit them with `tests/proof/evidence`.
No test reads the evidence: how old it is stands in the table.
"""


def proof_page() -> str:
    """Return proof.md from the evidence of every part."""
    from tests.proof.__main__ import in_minutes
    from tests.proof.evidence import Evidence
    from tests.proof.parts import PARTS

    rows = []
    versions: set[str] = set()
    for part in PARTS:
        evidence = Evidence.read(part.name)
        red = ", **red**" if any(item.red for item in evidence.chunks.values()) else ""
        found = f"{evidence.passed:,} {part.cases}{red}" if evidence.chunks else "not played yet"
        took = in_minutes(evidence.seconds) if evidence.seconds else "–"
        seeds = ", ".join(sorted({str(item.seed or "–") for item in evidence.chunks.values()})) or "–"
        rows.append((f"`{part.name}`", part.proves, found, took, seeds, evidence.played() or "–"))
        versions |= {", ".join(map(" ".join, item.versions.items())) for item in evidence.chunks.values()}
    used = "\n".join(f"- {line}" for line in sorted(filter(None, versions))) or "- nothing on record"
    table = _table(("part", "plays", "passed", "took", "seed", "played at"), rows)
    return _page("Proof", PROOF_INTRO, table, f"Played with\n\n{used}", PROOF_CLOSE, INSTALLATIONS, _installations())


INSTALLATIONS = """
## Where it was installed

The wheel with its extras, each in an environment of its own and from an empty cache (`python -m tests.installations`):
the minutes are those of this package beside the Airflow that was there before, Spark included. Then a real run of a
real broker's topic with Spark on this machine. A tick stands only where it was played; `KAFKA_LAKE_SPARK_HOME` names
the Spark where the constraints leave no place for one.

Airflow 3.2 is the oldest: the SDK of 3.1 has neither its configuration, its plugins nor its statistics, and an Airflow
whose constraints pin SQLAlchemy 1.4 has no place for PyIceberg, which asks for 2. Spark 4.0 and 4.1 are those
that Iceberg has a runtime for, beside the connector for Kafka; its runtime for 4.1 does not load in Spark 4.2.
"""
_STEPS = ("every module is imported", "plan", "run", "status", "audit", "deep audit")


def _installations() -> str:
    from tests.installations import LIBRARIES, SETS
    from tests.proof.evidence import Evidence

    chunks, rows = Evidence.read("installations").chunks, []
    libraries = ("python", "spark", *LIBRARIES[1:])
    for name, chosen in SETS.items():
        if (chunk := chunks.get(name)) is None:
            rows.append((name, "not played yet", *[""] * (len(libraries) + len(_STEPS))))
            continue
        cases, facts = chunk.counts.cases, chunk.counts.facts
        seconds = facts["seconds"].get("the package is installed", 0)
        took = f"refused: {chosen.refused}" if chosen.refused else f"{seconds / 60:.1f} min"
        found = [facts["versions"].get(library, "–") for library in libraries]
        rows.append((name, took, *found, *["✓" if cases.get(step) == "" else "–" for step in _STEPS]))
    return _table(("set", "installed in", *libraries, *_STEPS), rows)


# -- tests ------------------------------------------------------------------------------------------------------------

TIERS = {
    "unit": "each module for itself: parsing, messages, decisions, and the services over the in-memory adapters",
    "properties": "facts over generated inputs: offset arithmetic, plans, accounting; whole histories of the protocol "
    "(crashes, lost answers, several workers, a person who cancels and skips, an old ledger) over the in-memory "
    "adapters, each checked against the promises; and two workers on one wave in every order of their port calls",
    "contracts": "one suite for each port, run over every adapter of it: the ledger in memory, on SQLite and on a real "
    "PostgreSQL; the lake in memory and on Iceberg; offsets and batches in memory and of a "
    "real Kafka; schemas in memory and of a real registry; jobs in memory, by PyIceberg in Spark's "
    "place, and by Spark; clocks and processes",
    "architecture": "imports point inward, importing touches nothing, the habits of the house, these documents",
    "airflow": "operators, sensors, triggers, Dags and connections inside Airflow",
    "integration": "the whole product as a user runs it: real Kafka, Spark, Iceberg, PostgreSQL and Airflow; every "
    "refusal through the command line",
    "mutants": "every guard of the protocol is taken out once, and tests must fail without it",
    "faults": "something dies, lies or answers late: processes are killed at port calls, and running the same "
    "command again must end with every record in the table once",
}
TESTS_INTRO = """
A test's tier is its folder. Names are facts, docstrings one sentence; the order is random, warnings are
errors, and no test waits for a fixed time. What needs a service starts a real one on this machine.

```
make test                          # all tiers, after style, types and import contracts
make test-fast                     # what starts no service, under a minute
make test ARGS="-m contracts"      # one tier
make test ARGS="-k watermark"      # a choice
make test ARGS="--whole"           # nothing is left to the nightly
make proof                         # the rest of it, and much more of the same: hours
```

Four processes share the work. A file is one lane, so that its broker, Spark or Airflow is started once; what took
longest in the run on record begins first (`tests/lanes.py`). `--record-durations` makes the
next record.

`make test-fast` leaves out what starts a service or is marked `slow`: a second or more, a real table of Iceberg, one of
many of its kind. Quicker tests hold nearly the same, and `make test` plays all of it.

Tests marked `nightly` are left to `make proof`, also when a run names them: they take minutes, or say again what others
say. `--whole` leaves out nothing. Of the failpoints `make test` plays one for each command, of two workers in every
order one pair, of stopped attempts one, of the ledger tests on PostgreSQL every fourth, of histories 200, of a fact
over generated inputs 50 examples.

A command that a test only runs to its end is forked from a parent that has imported everything, and its Spark jobs go
to one driver that all processes of the run share (`tests/warm`). A command that a test starts itself, or gives an
environment of its own, is started as a user starts it, with spark-submit: what dies, stops, or hides a secret there
is the real thing. A guard is taken out in a fork of one process that has collected the tests (`tests/mutants`).
"""
TESTS_CLOSE = "Parameter sets are counted one by one, by `python docs/generate.py --tests`."


def tests_page() -> str:
    """Return tests.md; collects the suite to count it."""
    counts = count_tests()
    rows = [(f"`tests/{tier}`", proves, f"{counts[tier]:,}") for tier, proves in TIERS.items()]
    rows.append(("all", "", f"{sum(counts.values()):,}"))
    return _page(
        "Tests",
        TESTS_INTRO,
        _table(("tier", "proves", "tests"), rows),
        TESTS_CLOSE,
    )


def count_tests() -> Counter[str]:
    """Count the collected tests by tier, parameter sets included."""
    root = Path(__file__).parents[1]
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "--whole", "-q", "-p", "no:cacheprovider"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    return Counter(re.findall(r"^tests/([a-z]+)/[^:]+::", collected.stdout, re.MULTILINE))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
