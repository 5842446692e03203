"""Commands that show progress: `status`, `wave`; as text, as JSON, or watched."""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

from airflow_kafka_lake.cli.command import PARTITION, TOPIC, WAVE, Argument, Command, Json, Result, ports_of, spec_of
from airflow_kafka_lake.cli.output import (
    BOLD,
    CYAN,
    DIM,
    GREEN,
    RED,
    YELLOW,
    Output,
    TableColumn,
    TextLine,
    ago,
    labelled,
    moment,
    numbers,
    offsets,
    stream_text,
    table,
    until,
    word_of,
    wrapped,
)
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import age, count, size, span
from airflow_kafka_lake.core.errors import TransientError, UsageError
from airflow_kafka_lake.core.reports.plan import waiting_text
from airflow_kafka_lake.core.reports.progress import DOING, Step, silence
from airflow_kafka_lake.core.reports.status import groups_of, worst_first
from airflow_kafka_lake.core.reports.streams import StreamState, StreamStatus
from airflow_kafka_lake.services import reporting
from airflow_kafka_lake.wiring.assemble import open_ledger, open_sources

# The status of one pipeline, and of all, as lines of text: a summary first, then what is wrong, worst first.

STYLES = {
    "blocked": RED,
    "lost": RED,
    "unknown": YELLOW,
    "not planned": YELLOW,
    "behind": YELLOW,
    "running": CYAN,
    "waiting": CYAN,
    "up to date": GREEN,
    "gone": DIM,
    "nothing planned": DIM,
}
NOT_PLANNED = "not planned"
QUIET = frozenset({"up to date", "gone"})
"""States of streams that are put together even where there is room."""

FEW, NEEDS, WAVES = 8, 5, 3
"""Of so many streams each has a line; so many things that need a person, and waves of a kind, are listed."""

_NO_DEADLINE = frozenset({"nothing is unread", "retention is unlimited"})
_NEED_STYLES = {"held": RED, "cancelled": RED, "lost": RED, "unanswered": RED}


def status_lines(document: Json, width: int, *, rows: int | None = 16) -> Iterator[TextLine]:
    """Give the status of one pipeline; `rows` is how many streams have a line of their own, None for all of them."""
    now, summary = document["observed_at"], document["summary"]
    tables = ", ".join(document["tables"][:3]) + (" …" if len(document["tables"]) > 3 else "")
    into = f" → {tables}" if tables else ""
    yield from wrapped(f"{document['pipeline']}{into}, {moment(now)}", width, hanging="  ", style=BOLD)
    yield from _summary(document["pipeline"], summary, now, width)
    yield from _running(document["running"], now, width)
    yield from _needs(document, width)
    yield from _streams(document, width, rows)
    for item in document["waiting_for_stable"][:NEEDS]:
        yield from wrapped(waiting_text(item), width, hanging="  ")
    if (more := len(document["waiting_for_stable"]) - NEEDS) > 0:
        yield TextLine(f"{count(more, 'more partition waits', 'more partitions wait')} for open transactions")
    yield from _waves(document, width)


def _summary(pipeline: str, summary: Json, now: str, width: int) -> Iterator[TextLine]:
    yield from labelled("state", _state(summary), width, style=STYLES[summary["state"]])
    if summary["state"] == "nothing planned":
        yield from labelled("", f"see what would be read with: {remedies.plan(pipeline)}", width)
        return
    for label, text in _facts(summary, now):
        if text:
            yield from labelled(label, text, width)


def _state(summary: Json) -> str:
    text = str(summary["state"])
    if summary["streams"]:
        states = summary["streams_by_state"]
        parts = ", ".join(f"{number:,} {state}" for state, number in states.items())
        whole = count(summary["streams"], "partition") + (
            f" of {summary['topics']:,} topics" if summary["topics"] > 1 else ""
        )
        if text == NOT_PLANNED:
            text += f": {count(summary['new_partitions'], 'partition')}, beside {parts}"
        else:
            text += f": {whole}" if len(states) == 1 else f": of {whole}, {parts}"
    return f"paused; {text}" if summary["paused"] else text


def _facts(summary: Json, now: str) -> Iterator[tuple[str, str]]:
    rows = "" if summary["landed_rows"] is None else f"{count(summary['landed_rows'], 'row')}, "
    last = f"; last {ago(summary['last_landed_at'], now)}" if summary["last_landed_at"] else ""
    yield "landed", f"{rows}{count(summary['landed_offsets'], 'offset')}{last}"
    yield "lag", _known(summary["lag"] and count(summary["lag"], "offset"), summary["lag_state"], none="none")
    yield "behind by", _behind(summary)
    yield "retention", _retention(summary, now)
    yield "on hold", _amount(summary["held_offsets"])
    yield "lost", _amount(summary["lost_offsets"])
    yield "skipped", _amount(summary["skipped_offsets"])
    yield "waves", _planned(summary)
    new = summary["new_partitions"]
    yield "new", f"{count(new, 'partition')} that no plan has seen yet" if new else ""


def _amount(number: int) -> str:
    return count(number, "offset") if number else ""


def _known(text: object, state: str, *, none: str) -> str:
    if state == "observed":
        return str(text or none)
    return f"{text}, {state}" if text else state


def _behind(summary: Json) -> str:
    seconds, state = summary["behind_seconds"], summary["behind_state"]
    if seconds is None:
        return str(state) if state != summary["lag_state"] else ""
    if not summary["lag"]:
        return ""
    where = "{}/{}".format(*summary["behind_stream"]) if summary["behind_stream"] else ""
    return f"{age(seconds)}{f' ({where})' if where else ''}" + ("" if state == "observed" else f", {state}")


def _retention(summary: Json, now: str) -> str:
    at, state = summary["retention_deadline"], summary["retention_deadline_state"]
    if at is None:
        return "" if state in _NO_DEADLINE or state.startswith("unknown") else str(state)
    where = "{}/{}".format(*summary["retention_stream"])
    doubt = "" if state == "observed" else f"; {state}"
    return f"may delete unread records {until(at, now)}, from {moment(at)} on ({where}){doubt}"


def _planned(summary: Json) -> str:
    waves = summary["waves"]
    if not waves["of_current_plans"]:
        return ""
    done = f"{waves['of_current_plans_committed']:,} of {waves['of_current_plans']:,} landed"
    left = [
        f"{waves[key]:,} {word}"
        for key, word in (
            ("running", "running"),
            ("interrupted", "interrupted"),
            ("planned", "planned"),
            ("cancelled", "on hold"),
        )
        if waves[key]
    ]
    return ", ".join([done, *left])


def _running(waves: Sequence[Json], now: str, width: int) -> Iterator[TextLine]:
    alive = [item for item in waves if item["alive"]]
    if not alive:
        return
    yield from _title("running")
    for item in alive[:NEEDS]:
        yield TextLine(f"  {item['wave']}", CYAN)
        yield from wrapped(f"{working(item)}, begun {ago(item['started_at'], now)}", width, indent="    ")
    if len(alive) > NEEDS:
        yield TextLine(f"  and {count(len(alive) - NEEDS, 'more wave')}")


def working(item: Json) -> str:
    """Return how far a running wave is, as far as it has said."""
    parts = [*_how_far(item)]
    if item["silent_seconds"] is not None:
        parts.append(silence(item["silent_seconds"], item["free_in_seconds"]))
    return ", ".join(parts)


def _how_far(item: Json) -> Iterator[str]:
    progress = item["progress"]
    if progress is None:
        yield f"{item['state'].lower()}, {count(item['ranges'], 'range')}"
        return
    step, done, whole = Step(progress["step"]), progress["rows_done"], progress["rows_expected"]
    if not done:
        yield f"{DOING[step]} {count(whole, step.expects)}" if whole else DOING[step]
        return
    share = f" {min(100, 100 * done // whole)} %" if whole else ""
    yield f"{step}{share}: " + (f"{done:,} of {count(whole, step.expects)}" if whole else count(done, step.counts))
    if progress["bytes_per_second"]:
        yield f"{size(progress['bytes_per_second'])}/s"
    elif progress["rows_per_second"]:
        yield f"{progress['rows_per_second']:,} {step.counts}s/s"
    if progress["seconds_left"] is not None:
        yield f"about {span(progress['seconds_left'])} left"


def _needs(document: Json, width: int) -> Iterator[TextLine]:
    needs = document["needs_person"]
    if not needs:
        return
    yield from _title("needs a person")
    for number, item in enumerate(needs[:NEEDS], 1):
        mark = f"  {number}. "
        style = _NEED_STYLES.get(item["need"], YELLOW)
        yield from wrapped(item["text"], width, indent=mark, hanging=" " * len(mark), style=style)
        for command in item["commands"]:
            yield TextLine(f"{' ' * len(mark)}{command['line']}")
    if len(needs) > NEEDS:
        yield TextLine(f"  and {len(needs) - NEEDS:,} more: {remedies.status(document['pipeline'])} --json")


def _streams(document: Json, width: int, rows: int | None) -> Iterator[TextLine]:
    streams = document["streams"]
    if not streams:
        return
    yield from _title("partitions")
    everything = rows is None or len(streams) <= min(rows, FEW)
    ranked = worst_first(streams)
    quiet = QUIET | ({"unknown"} if sum(item["state"] == "unknown" for item in streams) > FEW else set())
    shown = ranked if everything else [item for item in ranked if item["state"] not in quiet][:rows]
    named = {id(item) for item in shown}
    rest = groups_of(item for item in streams if id(item) not in named)
    rest += [group for group in document["groups"] if group["state"] == NOT_PLANNED]
    topics, groups = _by_topic(shown), _by_topic(rest)
    for topic, mine in topics.items():
        yield TextLine(f"  {topic[0]}", BOLD)
        yield from _rows(mine, width)
        for group in groups.get(topic, ()):
            yield from _group(group, width)
    yield from _other_topics([group for group in rest if (group["topic"], group["topic_id"]) not in topics], width)
    if len(streams) > len(shown):
        yield from wrapped(f"all of them: {remedies.status(document['pipeline'])} --all", width, indent="  ", style=DIM)


def _by_topic(items: Iterable[Json]) -> Mapping[tuple[str, str], list[Json]]:
    found: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for item in items:
        found[item["topic"], item["topic_id"]].append(item)
    return found


_COLUMNS = (
    TableColumn(title="partition", right=True),
    TableColumn(title="state"),
    TableColumn(title="lag", right=True),
    TableColumn(title="behind by", rank=1),
    TableColumn(title="waits at", right=True, rank=2),
    TableColumn(title="landed"),
)


def _rows(streams: Sequence[Json], width: int) -> Iterator[TextLine]:
    cells = [
        (
            (
                str(item["partition"]),
                item["state"],
                f"{item['lag']:,}" if item["lag"] else "",
                age(item["behind_seconds"]) if item["lag"] else "",
                f"{item['hold']:,}" if item["state"] == "blocked" and item["hold"] is not None else "",
                landed(item),
            ),
            STYLES[item["state"]],
        )
        for item in streams
    ]
    yield from table(_COLUMNS, cells, width, indent="    ")


def landed(stream: Json) -> str:
    """Return what of a stream is in the lake or skipped: islands, where there are any."""
    return offsets(stream["coverage"]) or "nothing"


def _group(group: Json, width: int) -> Iterator[TextLine]:
    total = group["partitions"]
    lag = f", lag {group['lag']:,}" if group["lag"] else ""
    behind = f", behind by {age(group['behind_seconds'])}" if group["lag"] and group["behind_seconds"] else ""
    verb = "is" if total == 1 else "are"
    text = f"{count(total, 'partition')} {verb} {group['state']}{lag}{behind}: {numbers(group['numbers'])}"
    yield from wrapped(text, width, indent="    ", hanging="      ", style=STYLES[group["state"]])


def _other_topics(groups: Sequence[Json], width: int) -> Iterator[TextLine]:
    """Give topics of which no stream has a line: one line for each, or for all of a state where there are many."""
    for state, several in groupby(groups, key=lambda item: item["state"]):
        same = list(several)
        if len(same) <= NEEDS:
            for group in same:
                yield TextLine(f"  {group['topic']}", BOLD)
                yield from _group(group, width)
            continue
        total = sum(group["partitions"] for group in same)
        lag = sum(group["lag"] or 0 for group in same)
        text = f"{count(total, 'partition')} of {len(same):,} topics are {state}" + (f", lag {lag:,}" if lag else "")
        yield from wrapped(text, width, indent="  ", style=STYLES[state])


def _waves(document: Json, width: int) -> Iterator[TextLine]:
    """Give the waves that wait or are on hold, and the newest that landed: their ids are what other commands take."""
    kinds = (
        ("planned", "PLANNED", False),
        ("on hold", "CANCELLED", False),
        ("landed", "COMMITTED", True),
    )
    now = document["observed_at"]
    lines = []
    for word, state, newest in kinds:
        mine = [item for item in document["waves"] if item["state"] == state]
        chosen = mine[::-1][:WAVES] if newest else mine[:WAVES]
        for item in chosen:
            rows = "" if item["rows"] is None else f"{item['rows']:,}"
            cells = (item["wave"], word, f"{item['ranges']:,}", rows, ago(item["committed_at"], now))
            lines.append((cells, ""))
        if not newest and len(mine) > WAVES:
            lines.append(((f"and {len(mine) - WAVES:,} more", word, "", "", ""), DIM))
    if lines:
        yield TextLine()
        yield from table(_WAVE_COLUMNS, lines, width)


_WAVE_COLUMNS = (
    TableColumn(title="wave"),
    TableColumn(title="state"),
    TableColumn(title="ranges", right=True, rank=2),
    TableColumn(title="rows", right=True),
    TableColumn(title="landed", rank=1),
)


def _title(text: str) -> Iterator[TextLine]:
    yield TextLine()
    yield TextLine(text, BOLD)


# All pipelines as lines of text, one each, and a change of any of them as one line.

_PIPELINE_COLUMNS = (
    TableColumn(title="pipeline"),
    TableColumn(title="state"),
    TableColumn(title="to do", right=True),
    TableColumn(title="lag", right=True),
    TableColumn(title="behind by", rank=1),
    TableColumn(title="running", rank=2),
    TableColumn(title="rows", right=True, rank=4),
    TableColumn(title="last landed", rank=3),
    TableColumn(title="retention", rank=5),
)


def overview_lines(document: Json, width: int) -> Iterator[TextLine]:
    """Give all pipelines, a line each, the worst first; of columns that do not fit the least urgent are left out."""
    pipelines = document["pipelines"]
    if not pipelines:
        yield TextLine(f"the ledger knows no pipeline yet: begin one with {remedies.run('FILE.toml')}")
        return
    now = document["observed_at"]
    yield from wrapped(f"{count(len(pipelines), 'pipeline')}, {moment(now)}", width, style=BOLD)
    rows = [(_pipeline_cells(item, now), STYLES[item["state"]]) for item in pipelines]
    yield from table(_PIPELINE_COLUMNS, rows, width)
    yield from wrapped(f"more of one: {remedies.status('PIPELINE')}", width, indent="  ", style=DIM)


def _pipeline_cells(item: Json, now: str) -> tuple[str, ...]:
    lag = item["lag"]
    return (
        item["pipeline"],
        f"{item['state']}, paused" if item["paused"] else item["state"],
        f"{item['needs_person']:,}" if item["needs_person"] else "",
        "?" if lag is None else f"{lag:,}" if lag else "",
        age(item["behind_seconds"]) if lag else "",
        _at_work(item),
        f"{item['landed_rows']:,}" if item["landed_rows"] else "",
        ago(item["last_landed_at"], now),
        until(item["retention_deadline"], now),
    )


def _at_work(item: Json) -> str:
    waves = item["waves"]
    alive = [wave for wave in item["running"] if wave["alive"]]
    if not alive:
        return ""
    of = f"wave {waves['of_current_plans_committed'] + 1:,} of {waves['of_current_plans']:,}"
    progress, silent = alive[0]["progress"], alive[0]["silent_seconds"]
    if silent is not None:
        return f"{of}, silent for {span(silent)}"
    return of if progress is None else f"{of}, {progress['step']}"


def change_line(document: Json) -> str:
    """Return one line that says how a pipeline, or all of them, are now: for a log, a line for each change."""
    lines = document.get("pipelines") or [
        {"pipeline": document.get("pipeline"), **document.get("summary", {}), **document}
    ]
    return f"{moment(document['observed_at'])}  " + "; ".join(map(_in_short, lines))


def _in_short(item: Json) -> str:
    summary = item.get("summary", item)
    parts = [f"{item['pipeline']} {summary['state']}"]
    if summary["landed_rows"] is not None:
        parts.append(count(summary["landed_rows"], "row"))
    if summary["lag"]:
        parts.append(f"lag {summary['lag']:,}")
    if (waves := summary["waves"])["of_current_plans"]:
        parts.append(f"{waves['of_current_plans_committed']:,} of {count(waves['of_current_plans'], 'wave')} landed")
    parts += [f"{wave['wave']} {working(wave)}" for wave in item["running"][:1] if wave["alive"]]
    return ", ".join(parts)


# Show something again and again, until Ctrl-C: in its place on a terminal, elsewhere a line for each change.

WATCH_SECONDS = 5
LONGEST_SECONDS = 86_400
_MOVING = frozenset(
    {
        "observed_at",
        "behind_seconds",
        "behind_below_seconds",
        "retention_deadline",
        "silent_seconds",
        "free_in_seconds",
    }
)
"""Keys whose values change because time passes; that there is one at all is news."""


def interval(text: str) -> float:
    """Read `--watch SECONDS`."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.1 to {LONGEST_SECONDS}")
    return seconds


def watch(
    output: Output,
    read: Callable[[], Json],
    lines: Callable[[Json], Iterable[TextLine]],
    *,
    every: float,
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Read and show until Ctrl-C; what cannot be read now, as while a database restarts, is shown and tried again."""
    with _until_interrupted():
        if output.height is not None and not output.as_json:
            with output.screen() as show:
                for document in _documents(read, lambda text: show([TextLine(text, YELLOW)]), every, wait):
                    show([*lines(document), TextLine(f"every {every:g} s, Ctrl-C ends it", "dim")])
        else:
            before: object = None
            for document in _documents(read, output.note, every, wait):
                if (now := still(document)) != before:
                    _print(output, document)
                before = now


@contextmanager
def _until_interrupted() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as ended:
        if type(ended) is not KeyboardInterrupt:
            raise  # another signal than Ctrl-C


def _documents(
    read: Callable[[], Json], trouble: Callable[[str], None], every: float, wait: Callable[[float], None]
) -> Iterator[Json]:
    while True:
        try:
            yield read()
        except TransientError as error:
            trouble(f"{error.message} Trying again every {every:g} s")
        wait(every)


def _print(output: Output, document: Json) -> None:
    if output.as_json:
        output.compact(document)
    else:
        output.line(change_line(document))


def still(value: Any) -> Any:
    """Return a document without what changes because time passes."""
    if isinstance(value, Mapping):
        return {key: still(item) for key, item in value.items() if key not in _MOVING or item is None}
    if isinstance(value, list):
        return [still(item) for item in value]
    return value


# Commands that show progress: `status`, `wave`.

KAFKA_SECONDS = 5.0
"""How long one call waits for a broker: a status that tells what is unknown soon is worth more than one that waits."""

ROWS, ROWS_BESIDE = 16, 24
"""Streams with a line of their own where there is no terminal, and lines of a screen that are for all else."""


def status(arguments: argparse.Namespace, output: Output) -> Result:
    """Read how far a pipeline is, or all of them; with `--watch` again and again, until Ctrl-C."""
    if arguments.pipeline is None:
        _refuse_filters(arguments)
        with open_sources(arguments.ledger, kafka_seconds=KAFKA_SECONDS) as all_:
            return _once_or_watched(
                arguments, output, lambda: reporting.overview(all_.ledger, all_.clock, all_.source_of)
            )
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec, kafka_seconds=KAFKA_SECONDS) as ports:
        reporting.known_spec(ports.ledger, spec.name)

        def read() -> Json:
            return reporting.status(
                ports, spec, topic=arguments.topic, partitions=arguments.partition, show=_shows(arguments)
            )

        return _once_or_watched(arguments, output, read)


def _refuse_filters(arguments: argparse.Namespace) -> None:
    named = [f"--{name}" for name in ("topic", "partition", *_FILTERS, "all") if getattr(arguments, name)]
    if named:
        raise UsageError(f"{named[0]} is about one pipeline: name it, as in {remedies.status('PIPELINE')} {named[0]}")


_FILTERS: dict[str, Callable[[StreamStatus], bool]] = {
    "blocked": lambda item: item.state in {StreamState.BLOCKED, StreamState.LOST},
    "behind": lambda item: bool(item.lag),
    "running": lambda item: bool(item.running),
}
"""The streams that each filter lists."""


def _shows(arguments: argparse.Namespace) -> Callable[[StreamStatus], bool]:
    wanted = [fits for name, fits in _FILTERS.items() if getattr(arguments, name)]
    return lambda item: not wanted or any(fits(item) for fits in wanted)


def _once_or_watched(arguments: argparse.Namespace, output: Output, read: Callable[[], Json]) -> Result:
    beside = {"all": arguments.all}
    if arguments.watch is None:
        return Result(document=read(), beside=beside)
    watch(output, read, lambda document: _lines(output, {**document, **beside}), every=arguments.watch)
    return Result(document={}, shown=True)


def show_status(output: Output, document: Json) -> None:
    """Show a summary, what needs a person, and the streams, worst first; or all pipelines, a line each."""
    output.lines(_lines(output, document))


def _lines(output: Output, document: Json) -> Iterator[TextLine]:
    if "pipelines" in document:
        return overview_lines(document, output.width)
    rows = ROWS if output.height is None else max(FEW, output.height - ROWS_BESIDE)
    return status_lines(document, output.width, rows=None if document["all"] else rows)


def show_waiting(output: Output, document: Json) -> None:
    """Show the partitions that wait for an open transaction."""
    for item in document["waiting_for_stable"]:
        output.line(waiting_text(item))


def wave(arguments: argparse.Namespace, _: Output) -> Result:
    """Read what the ledger knows of one wave."""
    with open_ledger(arguments.ledger) as ledger:
        return Result(document=reporting.wave(ledger, arguments.wave))


def show_wave(output: Output, document: Json) -> None:
    """Show one wave: its ranges with their accounting, and its attempts."""
    others = ("control", "aborted", "compacted", "skipped", "unexplained")
    accounts = {"visible": "rows", **dict(zip(others, others, strict=True))}
    rows = [
        (
            item["range"],
            stream_text(item),
            item["start"],
            item["end"],
            word_of(item["state"]),
            *((item["accounting"] or {}).get(name) for name in accounts),
            item["reason"] or "",
        )
        for item in document["ranges"]
    ]
    state, where = word_of(document["state"]), f"{document['table']}, snapshot {document['snapshot_id']}"
    title = f"wave {document['wave']} {state} in {where}"
    columns = ("range", "stream", "#from", "#to", "state", *(f"#{name}" for name in accounts.values()), "reason")
    output.long_table(title, columns, rows)
    if pause := document["paused"]:
        what = f"plan {pause['plan']}" if pause["plan"] else f"pipeline {document['pipeline']}"
        way = remedies.resume(pause["plan"] or document["pipeline"])
        output.line(f"{what} is paused since {pause['since']} by {pause['by']}: {pause['reason']}; go on with: {way}")
    if document["silent_seconds"] is not None:
        output.line(f"its worker: {silence(document['silent_seconds'], document['free_in_seconds'])}")
    attempts = [
        (
            *(item["fence"], item["attempt"], word_of(item["outcome"]), _progress_text(item["progress"])),
            *(item["started_at"], item["ended_at"], item["error"]),
        )
        for item in document["attempts"]
    ]
    columns = ("#fence", "attempt", "outcome", "step, rows done", "started", "ended", "error")
    output.long_table("attempts", columns, attempts)


def _progress_text(progress: Json | None) -> str | None:
    if progress is None:
        return None
    expected = progress["rows_expected"]
    whole = "" if expected is None else f" of {expected:,}"
    return f"{progress['step']} {progress['rows_done']:,}{whole}"


COMMANDS = (
    Command(
        name="status",
        help="how far, and what blocks",
        arguments=(
            Argument(
                "pipeline",
                metavar="PIPELINE",
                nargs="?",
                help="pipeline file (*.toml), or a name that the ledger knows; all pipelines if left out",
            ),
            TOPIC,
            PARTITION,
            Argument(
                "--blocked", action="store_true", help="list only partitions in which something is on hold or lost"
            ),
            Argument("--behind", action="store_true", help="list only partitions with something unread"),
            Argument("--running", action="store_true", help="list only partitions that a job works on"),
            Argument("--all", action="store_true", help="give every partition a line of its own"),
            Argument(
                "--watch",
                metavar="SECONDS",
                type=interval,
                nargs="?",
                const=WATCH_SECONDS,
                help=f"show it again every so many seconds (default: {WATCH_SECONDS}), until Ctrl-C; with --json, and "
                "without a terminal, a line for each change",
            ),
        ),
        action=status,
        view=show_status,
    ),
    Command(
        name="wave",
        help="one wave: ranges, attempts, accounting",
        arguments=(WAVE,),
        action=wave,
        view=show_wave,
    ),
)
