"""Commands that show progress: `status`, `wave`; as text, as JSON, or watched."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, TypeVar

from airflow_kafka_lake.cli.command import (
    PARTITION,
    PIPELINE,
    TOPIC,
    WAVE,
    Argument,
    Command,
    Result,
    ports_of,
    spec_of,
)
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
    numbers,
    offsets,
    table,
    until,
    wrapped,
)
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import age, count, moment, span, word_of
from airflow_kafka_lake.core.errors import TransientError, UsageError
from airflow_kafka_lake.core.ledger.records import WaveRecord
from airflow_kafka_lake.core.ledger.waves import ON_HOLD, AttemptRecord, WaveState
from airflow_kafka_lake.core.offsets import created_anew, grouped
from airflow_kafka_lake.core.reports.attention import Need, silence_of
from airflow_kafka_lake.core.reports.progress import Progress
from airflow_kafka_lake.core.reports.status import (
    NOTHING_PLANNED,
    EventList,
    Overview,
    PipelineReport,
    PipelineSummary,
    StreamGroup,
    WaveReport,
    groups_of,
    pace,
    worst_first,
)
from airflow_kafka_lake.core.reports.streams import OBSERVED_STATES, QUIET, StreamState, StreamStatus, UnknownState
from airflow_kafka_lake.core.wire import timestamp
from airflow_kafka_lake.services import reporting
from airflow_kafka_lake.services.identity import known_spec
from airflow_kafka_lake.wiring.assemble import open_ledger, open_sources

Report = TypeVar("Report", bound=PipelineReport | Overview)
T = TypeVar("T")

# The status of one pipeline, and of all, as lines of text: a summary first, then the problems, worst first.

STYLES: dict[str, str] = {
    StreamState.BLOCKED: RED,
    StreamState.LOST: RED,
    StreamState.UNKNOWN: YELLOW,
    StreamState.NOT_PLANNED: YELLOW,
    StreamState.BEHIND: YELLOW,
    StreamState.RUNNING: CYAN,
    StreamState.WAITING: CYAN,
    StreamState.UP_TO_DATE: GREEN,
    StreamState.GONE: DIM,
    NOTHING_PLANNED: DIM,
}

FEW, NEEDS, WAVES = 8, 5, 3
"""Of so many streams each has a line; so many things that need a person, and waves of a kind, are listed."""

_NO_DEADLINE = frozenset({"nothing is unread", "retention is unlimited"})
_NEED_STYLES = {Need.HELD: RED, Need.CANCELLED: RED, Need.LOST: RED, Need.UNANSWERED: RED}


def status_lines(report: PipelineReport, width: int, *, rows: int | None = 16) -> Iterator[TextLine]:
    """Yield the status of one pipeline; `rows` is how many streams have a line of their own, None for all of them."""
    tables = ", ".join(report.tables[:3]) + (" …" if len(report.tables) > 3 else "")
    into = f" → {tables}" if tables else ""
    yield from wrapped(f"{report.pipeline}{into}, {moment(report.at)}", width, hanging="  ", style=BOLD)
    yield from _summary(report, width)
    yield from _running(report, width)
    yield from _needs(report, width)
    yield from _streams(report, width, rows)
    for item in report.waiting[:NEEDS]:
        yield from wrapped(item.describe(), width, hanging="  ")
    if (more := len(report.waiting) - NEEDS) > 0:
        yield TextLine(f"{count(more, 'more partition waits', 'more partitions wait')} for open transactions")
    yield from _waves(report, width)
    if lines := report.facts.recorded.decoding:
        yield from _title("decoding")
    for line in lines:
        yield from wrapped(f"{line.subject}, {ago(line.at, report.at)}: {line.detail}", width, indent="  ")


def _summary(report: PipelineReport, width: int) -> Iterator[TextLine]:
    summary = report.summary
    yield from labelled("state", _state(summary), width, style=STYLES[summary.state])
    if summary.state == NOTHING_PLANNED:
        yield from labelled("", f"see what would be read with: {remedies.plan(report.pipeline)}", width)
        return
    for label, text in _facts(summary, report.at):
        if text:
            yield from labelled(label, text, width)


def _state(summary: PipelineSummary) -> str:
    text = summary.state
    if summary.streams:
        states = summary.streams_by_state
        parts = ", ".join(f"{number:,} {state}" for state, number in states.items())
        whole = count(summary.streams, "partition") + (f" of {summary.topics:,} topics" if summary.topics > 1 else "")
        new = dict(summary.new_by_state)
        if text in states:
            text += f": {whole}" if len(states) == 1 else f": of {whole}, {parts}"
        else:
            text += f": {count(new.pop(StreamState(text)), 'partition')}, beside {parts}"
        text += f"; {left:,} not planned yet" if (left := sum(new.values())) else ""
    return f"paused; {text}" if summary.paused else text


def _facts(summary: PipelineSummary, now: datetime) -> Iterator[tuple[str, str]]:
    rows = "" if summary.landed_rows is None else f"{count(summary.landed_rows, 'row')} written, "
    last = f"; last {ago(summary.last_landed_at, now)}" if summary.last_landed_at else ""
    yield "landed", f"{rows}{count(summary.landed_offsets, 'offset')}{last}"
    again = _amount(summary.reopened_offsets)
    yield "read again", f"{again}, not counted as landed: their earlier rows are visible until then" if again else ""
    yield "lag", _lag(summary)
    yield "behind by", _behind(summary)
    yield "retention", _retention(summary, now)
    yield "on hold", _amount(summary.held_offsets)
    both = ", those of them that are on hold included" if summary.held_offsets else ""
    yield "lost", f"{count(summary.lost_offsets, 'offset')}{both}" if summary.lost_offsets else ""
    yield "skipped", _amount(summary.skipped_offsets)
    yield "waves", _planned(summary)
    new = summary.new_partitions
    yield "new", f"{count(new, 'partition')} that no plan has taken up yet" if new else ""


def _amount(number: int) -> str:
    return count(number, "offset") if number else ""


def _lag(summary: PipelineSummary) -> str:
    text = _amount(summary.lag or 0)
    if summary.lag_state == OBSERVED_STATES:
        return text or "none"
    return f"{text}, {summary.lag_state}" if text else summary.lag_state


def _behind(summary: PipelineSummary) -> str:
    if summary.behind_seconds is None:
        return summary.behind_state if summary.behind_state != summary.lag_state else ""
    if not summary.lag:
        return ""
    where = f" ({summary.behind_stream})" if summary.behind_stream else ""
    doubt = "" if summary.behind_state == OBSERVED_STATES else f", {summary.behind_state}"
    return f"{age(summary.behind_seconds)}{where}{doubt}"


def _retention(summary: PipelineSummary, now: datetime) -> str:
    at, state = summary.retention_deadline, summary.retention_deadline_state
    if at is None:
        return "" if state in _NO_DEADLINE or isinstance(state, UnknownState) else state
    doubt = "" if state == OBSERVED_STATES else f"; {state}"
    about = f"{until(at, now)}, as early as about {moment(at)}"
    return f"may delete unread records {about} ({summary.retention_stream}){doubt}"


def _planned(summary: PipelineSummary) -> str:
    if not summary.of_current_plans:
        return ""
    counts = {
        "running": summary.running - summary.silent,
        "silent": summary.silent,
        "interrupted": summary.interrupted,
        "planned": summary.planned,
        "on hold": summary.cancelled,
    }
    left = [f"{number:,} {word}" for word, number in counts.items() if number]
    return ", ".join([f"{summary.of_current_plans_committed:,} of {summary.of_current_plans:,} landed", *left])


def _running(report: PipelineReport, width: int) -> Iterator[TextLine]:
    alive = [(wave, attempt) for wave, attempt in report.running if wave.lease_live]
    if not alive:
        return
    yield from _title("running")
    for item, attempt in alive[:NEEDS]:
        begun = ago(attempt.started_at if attempt else None, report.at)
        yield TextLine(f"  {item.id}", CYAN)
        yield from wrapped(f"{working(item, attempt)}, begun {begun}", width, indent="    ")
    if len(alive) > NEEDS:
        yield TextLine(f"  and {count(len(alive) - NEEDS, 'more wave')}")


def working(item: WaveRecord, attempt: AttemptRecord | None) -> str:
    """Return how far a running wave is, as far as it has said."""
    told = f"{item.state.lower()}, {count(item.ranges, 'range')}"
    if attempt and attempt.progress:
        told = attempt.progress.sentence(pace(item, attempt))
    return ", ".join(filter(None, (told, silence_of(item))))


def _needs(report: PipelineReport, width: int) -> Iterator[TextLine]:
    if not report.needs:
        return
    yield from _title("needs a person")
    for number, item in enumerate(report.needs[:NEEDS], 1):
        mark = f"  {number}. "
        style = _NEED_STYLES.get(item.need, YELLOW)
        yield from wrapped(item.text, width, indent=mark, hanging=" " * len(mark), style=style)
        for command in item.commands:
            yield TextLine(f"{' ' * len(mark)}{command}")
    if len(report.needs) > NEEDS:
        yield TextLine(f"  and {len(report.needs) - NEEDS:,} more: {remedies.status(report.pipeline)} --json")


def _streams(report: PipelineReport, width: int, rows: int | None) -> Iterator[TextLine]:
    streams = report.streams
    if not streams:
        return
    yield from _title("partitions")
    everything = rows is None or len(streams) <= min(rows, FEW)
    ranked = worst_first(streams)
    many_unknown = sum(item.state is StreamState.UNKNOWN for item in streams) > FEW
    quiet = QUIET | ({StreamState.UNKNOWN} if many_unknown else set())
    shown = ranked if everything else [item for item in ranked if item.state not in quiet][:rows]
    named = {item.key for item in shown}
    rest = groups_of([*(item for item in streams if item.key not in named), *report.new])
    groups = grouped(((group.topic, group.topic_id), group) for group in rest)
    topics = grouped((item.key[:2], item) for item in shown)
    anew = created_anew([*topics, *groups])
    for topic, mine in topics.items():
        yield _topic(*topic, anew)
        yield from _rows(mine, width)
        for group in groups.get(topic, ()):
            yield from _group(group, width)
    others = [group for group in rest if (group.topic, group.topic_id) not in topics]
    yield from _other_topics(others, anew, width)
    if waits := sum(item.is_passable for item in streams):
        text = f"{count(waits, 'watermark waits', 'watermarks wait')} below offsets that have landed"
        yield from wrapped(f"{text}: {remedies.advance(report.pipeline)}, or the next run", width, indent="  ")
    if len(streams) > len(shown):
        yield from wrapped(f"all of them: {remedies.status(report.pipeline)} --all", width, indent="  ", style=DIM)


_COLUMNS = (
    TableColumn(title="partition", right=True),
    TableColumn(title="state"),
    TableColumn(title="lag", right=True),
    TableColumn(title="behind by", rank=1),
    TableColumn(title="waits at", right=True, rank=2),
    TableColumn(title="landed"),
)


def _rows(streams: Sequence[StreamStatus], width: int) -> Iterator[TextLine]:
    cells = []
    for item in streams:
        state, lag, hold = item.state, item.lag, item.hold
        row = (
            str(item.key.partition),
            state,
            f"{lag:,}" if lag else "",
            age(item.behind_seconds) if lag else "",
            f"{hold:,}" if state is StreamState.BLOCKED and hold is not None else "",
            offsets(item.record.covered - item.skipped) or "nothing",
        )
        cells.append((row, STYLES[state]))
    yield from table(_COLUMNS, cells, width, indent="    ")


def _group(group: StreamGroup, width: int) -> Iterator[TextLine]:
    total = group.partitions
    lag = f", lag {group.lag:,}" if group.lag else ""
    behind = f", behind by {age(group.behind_seconds)}" if group.lag and group.behind_seconds else ""
    verb = "is" if total == 1 else "are"
    text = f"{count(total, 'partition')} {verb} {group.state}{lag}{behind}: {numbers(group.numbers)}"
    if group.state is StreamState.GONE:
        text += "; records that came after the last plan are lost, if there were any"
    yield from wrapped(text, width, indent="    ", hanging="      ", style=STYLES[group.state])


def _topic(name: str, topic_id: str, anew: Collection[str]) -> TextLine:
    """Return the heading of a topic; of one that was created anew, with the id of the generation."""
    return TextLine(f"  {name}, id {topic_id}" if name in anew else f"  {name}", BOLD)


def _other_topics(groups: Sequence[StreamGroup], anew: Collection[str], width: int) -> Iterator[TextLine]:
    """Yield topics of which no stream has a line: one line for each, or for all of a state where there are many."""
    for state, several in groupby(groups, key=lambda item: item.state):
        same = list(several)
        if len(same) <= NEEDS:
            for group in same:
                yield _topic(group.topic, group.topic_id, anew)
                yield from _group(group, width)
            continue
        total = sum(group.partitions for group in same)
        lag = sum(group.lag or 0 for group in same)
        text = f"{count(total, 'partition')} of {len(same):,} topics are {state}" + (f", lag {lag:,}" if lag else "")
        yield from wrapped(text, width, indent="  ", style=STYLES[state])


def _waves(report: PipelineReport, width: int) -> Iterator[TextLine]:
    """Yield the waves that wait or are on hold, and the newest that landed: other commands take their ids."""
    kinds = (
        ("planned", WaveState.PLANNED, False),
        ("on hold", WaveState.CANCELLED, False),
        ("landed", WaveState.COMMITTED, True),
    )
    waves, lines = report.waves, []
    held = Counter(item.wave for item in report.facts.recorded.unresolved if item.state in ON_HOLD)
    for word, state, newest in kinds:
        mine = [item for item in waves if item.state is state]
        chosen = mine[::-1][:WAVES] if newest else mine[:WAVES]
        for item in chosen:
            rows = "" if item.rows is None else f"{item.rows:,}"
            there = f"{word}, {held[item.id]:,} held" if newest and held[item.id] else word
            lines.append(((item.id, there, f"{item.ranges:,}", rows, ago(item.committed_at, report.at)), ""))
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
    TableColumn(title="rows written", right=True, rank=4),
    TableColumn(title="last landed", rank=3),
    TableColumn(title="retention", rank=5),
)


def overview_lines(overview: Overview, width: int) -> Iterator[TextLine]:
    """Yield all pipelines, a line each, the worst first; of columns that do not fit the least urgent are left out."""
    pipelines = overview.pipelines
    if not pipelines:
        yield TextLine(_NO_PIPELINE)
        return
    yield from wrapped(f"{count(len(pipelines), 'pipeline')}, {moment(overview.at)}", width, style=BOLD)
    rows = [(_pipeline_cells(item), STYLES[item.summary.state]) for item in pipelines]
    yield from table(_PIPELINE_COLUMNS, rows, width)
    yield from wrapped(f"more of one: {remedies.status('PIPELINE')}", width, indent="  ", style=DIM)


_NO_PIPELINE = f"the ledger knows no pipeline yet: begin one with {remedies.run('FILE.toml')}"


def _pipeline_cells(item: PipelineReport) -> tuple[str, ...]:
    summary, lag = item.summary, item.summary.lag
    return (
        item.pipeline,
        f"{summary.state}, paused" if summary.paused else summary.state,
        f"{summary.needs_person:,}" if summary.needs_person else "",
        "?" if lag is None else f"{lag:,}" if lag else "",
        age(summary.behind_seconds) if lag else "",
        _at_work(item),
        f"{summary.landed_rows:,}" if summary.landed_rows else "",
        ago(summary.last_landed_at, item.at),
        until(summary.retention_deadline, item.at),
    )


def _at_work(item: PipelineReport) -> str:
    alive = [(wave, attempt) for wave, attempt in item.running if wave.lease_live]
    if not alive:
        return ""
    of = f"wave {item.summary.of_current_plans_committed + 1:,} of {item.summary.of_current_plans:,}"
    wave, attempt = alive[0]
    if wave.overdue:
        return f"{of}, silent for {span(wave.overdue.total_seconds())}"
    return f"{of}, {attempt.progress.step}" if attempt and attempt.progress else of


def change_line(report: PipelineReport | Overview) -> str:
    """Return one line that says how a pipeline, or all of them, are now: for a log, a line for each change."""
    pipelines = report.pipelines if isinstance(report, Overview) else (report,)
    return f"{moment(report.at)}  " + ("; ".join(map(_in_short, pipelines)) or _NO_PIPELINE)


def _in_short(item: PipelineReport) -> str:
    summary = item.summary
    parts = [f"{item.pipeline} {summary.state}"]
    if summary.landed_rows is not None:
        parts.append(count(summary.landed_rows, "row"))
    if summary.lag:
        parts.append(f"lag {summary.lag:,}")
    if summary.of_current_plans:
        parts.append(f"{summary.of_current_plans_committed:,} of {count(summary.of_current_plans, 'wave')} landed")
    parts += [f"{wave.id} {working(wave, attempt)}" for wave, attempt in item.running[:1] if wave.lease_live]
    return ", ".join(parts)


# Show something again and again, until Ctrl-C: in its place on a terminal, elsewhere a line for each change.

WATCH_SECONDS = 5
LONGEST_SECONDS = 86_400
_MOVING = frozenset(
    {"observed_at", "behind_seconds", "behind_below_seconds", "retention_deadline", "silent_seconds", "free_in_seconds"}
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
    read: Callable[[], Report],
    lines: Callable[[Report], Iterable[TextLine]],
    *,
    every: float,
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Read and show until Ctrl-C; a failure to read, as while a database restarts, is shown and tried again."""
    try:
        if output.height is not None and not output.as_json:
            with output.screen() as show:
                for report in _reports(read, lambda text: show([TextLine(text, YELLOW)]), every, wait):
                    show([*lines(report), TextLine(f"every {every:g} s, Ctrl-C ends it", "dim")])
        else:
            before: object = None
            for report in _reports(read, output.note, every, wait):
                document = report.to_json()
                if (now := still(document)) != before and output.as_json:
                    output.compact(document)
                elif now != before:
                    output.line(change_line(report))
                before = now
    except KeyboardInterrupt as ended:
        if type(ended) is not KeyboardInterrupt:
            raise  # another signal than Ctrl-C


def _reports(
    read: Callable[[], Report], trouble: Callable[[str], None], every: float, wait: Callable[[float], None]
) -> Iterator[Report]:
    while True:
        try:
            yield read()
        except TransientError as error:
            trouble(f"{error.message} Trying again every {every:g} s")
        wait(every)


def still(value: Any) -> Any:
    """Return a document without the values that change as time passes."""
    if isinstance(value, Mapping):
        return {key: still(item) for key, item in value.items() if key not in _MOVING or item is None}
    if isinstance(value, list):
        return [still(item) for item in value]
    return value


# Commands that show progress: `status`, `wave`.

KAFKA_SECONDS = 5.0
"""How long one call waits for a broker: a quick status with unknown values is worth more than one that waits."""

ROWS, ROWS_BESIDE = 16, 24
"""Streams with a line of their own where there is no terminal, and lines of a screen that are for all else."""


def status(arguments: argparse.Namespace, output: Output) -> Result:
    """Read how far a pipeline is, or all of them; with `--watch` again and again, until Ctrl-C."""
    if arguments.pipeline is None:
        if named := [name for name in ("topic", "partition", *_FILTERS, "all") if getattr(arguments, name)]:
            way = f"{remedies.status('PIPELINE')} --{named[0]}"
            raise UsageError(f"--{named[0]} is about one pipeline: name it, as in {way}")
        with open_sources(arguments.ledger, kafka_seconds=KAFKA_SECONDS) as sources:
            return _once_or_watched(arguments, output, lambda: reporting.overview(*sources))
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec, kafka_seconds=KAFKA_SECONDS) as ports:
        known_spec(ports.ledger, spec.name)

        wanted = [fits for name, fits in _FILTERS.items() if getattr(arguments, name)]

        def read() -> PipelineReport:
            return reporting.status(
                *(ports, spec),
                topic=arguments.topic,
                partitions=arguments.partition,
                show=lambda item: not wanted or any(fits(item) for fits in wanted),
            )

        return _once_or_watched(arguments, output, read)


_FILTERS: dict[str, Callable[[StreamStatus], bool]] = {
    "blocked": lambda item: item.state in {StreamState.BLOCKED, StreamState.LOST},
    "behind": lambda item: bool(item.lag),
    "running": lambda item: bool(item.running),
}
"""The streams that each filter lists."""


def _once_or_watched(arguments: argparse.Namespace, output: Output, read: Callable[[], Report]) -> Result:
    every_one = bool(arguments.all)
    if arguments.watch is None:
        return Result(document=read(), beside={"every_one": every_one})
    watch(output, read, lambda report: _lines(output, report, every_one=every_one), every=arguments.watch)
    return Result(document={}, shown=True)


def show_status(output: Output, report: PipelineReport | Overview, *, every_one: bool) -> None:
    """Show a summary, the problems that need a person, and the streams, worst first; or all pipelines, a line each."""
    output.lines(_lines(output, report, every_one=every_one))


def _lines(output: Output, report: PipelineReport | Overview, *, every_one: bool) -> Iterator[TextLine]:
    if isinstance(report, Overview):
        return overview_lines(report, output.width)
    rows = ROWS if output.height is None else max(FEW, output.height - ROWS_BESIDE)
    return status_lines(report, output.width, rows=None if every_one else rows)


def wave(arguments: argparse.Namespace, _: Output) -> Result:
    """Read the ledger's records of one wave."""
    with open_ledger(arguments.ledger) as ledger:
        return Result(document=reporting.wave(ledger, arguments.wave))


def show_wave(output: Output, report: WaveReport) -> None:
    """Show one wave: its ranges with their accounting, and its attempts."""
    others = ("control", "aborted", "compacted", "skipped", "unexplained")
    record = report.record
    rows = [
        (
            item.id,
            item.stream,
            item.range.start,
            item.range.end,
            word_of(item.state),
            *(item.accounting and getattr(item.accounting, name) for name in ("visible", *others)),
            item.reason or "",
        )
        for item in report.ranges
    ]
    held = sum(item.state in ON_HOLD for item in report.ranges)
    where = (
        (f"but for {count(held, 'range')} on hold, " if held else "")
        + f"in {record.table}"
        + (f", snapshot {record.snapshot}" if record.snapshot else "")
    )
    columns = ("range", "stream", "#from", "#to", "state", "#rows", *(f"#{name}" for name in others), "reason")
    output.long_table(f"wave {record.id} {word_of(record.state)} {where}", columns, rows)
    if pause := report.paused:
        what = f"plan {pause.plan}" if pause.plan else f"pipeline {record.pipeline}"
        way = remedies.resume(pause.subject)
        output.line(f"{what} is paused {pause.since}; go on with: {way}")
    if silent := silence_of(record):
        output.line(f"its worker: {silent}")
    if report.decoding:
        output.line(report.decoding)
    attempts = [
        (
            *(item.fence, item.attempt, word_of(item.outcome), _progress_text(item.progress)),
            *(timestamp(item.started_at), timestamp(item.ended_at), item.error),
        )
        for item in report.attempts
    ]
    columns = ("#fence", "attempt", "outcome", "step, rows done", "started", "ended", "error")
    output.long_table("attempts", columns, attempts)


def _progress_text(progress: Progress | None) -> str | None:
    if progress is None:
        return None
    whole = "" if progress.rows_expected is None else f" of {progress.rows_expected:,}"
    return f"{progress.step} {progress.rows:,}{whole}"


MOST_EVENTS = 1_000
"""Lines of a history that one call reads."""


def history(arguments: argparse.Namespace, _: Output) -> Result:
    """Read the newest lines of a pipeline's history."""
    name = spec_of(arguments.pipeline, arguments.ledger).name
    with open_ledger(arguments.ledger) as ledger:
        known_spec(ledger, name)
        events = ledger.events(name, limit=MOST_EVENTS, newest=True)[::-1]
    return Result(document=EventList(pipeline=name, events=events))


def show_history(output: Output, report: EventList) -> None:
    """Show lines of a history: when and by whom something was decided or done, and why."""
    rows = [(moment(item.at), item.actor, word_of(item.kind), item.subject, item.detail) for item in report.events]
    title = f"the newest {count(len(rows), 'line')} of {report.pipeline}'s history"
    output.long_table(title, ("when", "who", "what", "about", "more"), rows)


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
    Command(name="wave", help="one wave: ranges, attempts, accounting", arguments=(WAVE,), action=wave, view=show_wave),
    Command(
        name="history",
        help="decisions and events, with name and reason",
        arguments=(PIPELINE,),
        action=history,
        view=show_history,
    ),
)
