"""The pages of pipelines and waves: their progress, their blockers, and the place of every offset."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import quote

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.addresses import SITE
from airflow_kafka_lake.core.amounts import age, count, size, span, word_of
from airflow_kafka_lake.core.audit.report import MEANINGS, OffsetStatus
from airflow_kafka_lake.core.ledger.history import TaskPlace, place_of
from airflow_kafka_lake.core.ledger.records import WaveRecord
from airflow_kafka_lake.core.ledger.waves import OPEN, AttemptOutcome, AttemptRecord, WaveState
from airflow_kafka_lake.core.offsets import grouped, summed
from airflow_kafka_lake.core.remedies import Remedy
from airflow_kafka_lake.core.reports.attention import silence_of
from airflow_kafka_lake.core.reports.progress import DOING, Progress
from airflow_kafka_lake.core.reports.status import (
    RANK,
    EventList,
    Overview,
    PipelineReport,
    PipelineSummary,
    StreamGroup,
    WaveReport,
    pace,
)
from airflow_kafka_lake.core.reports.streams import (
    OBSERVED_STATES,
    QUIET,
    WORST_FIRST,
    StreamState,
    StreamStatus,
    UnknownState,
)
from airflow_kafka_lake.pages.buttons import Button, button_of, decisions, need_buttons, wave_buttons
from airflow_kafka_lake.pages.charts import shares_bar, timeline_of
from airflow_kafka_lake.pages.rendering import BUSY, FIRST_PLAN, IDLE, NEVER, Visitor, draw, macro, number

# How far a pipeline is, as a few facts side by side, and what has to be known before they are believed.


Fact = tuple[str, str, str, str]
"""A label, its value, a note, and a class of the style sheet."""


def facts_of(summary: PipelineSummary) -> tuple[Fact, ...]:
    """Return the summary of a pipeline, the first question of a person first."""
    needs = summary.needs_person
    nothing = "nothing is blocked" if summary.lag_state == OBSERVED_STATES else "nothing that the ledger knows of"
    return (
        _landed(summary),
        ("lag", number(summary.lag), _unless_observed(summary.lag_state, "offsets to read"), ""),
        ("behind by", behind(summary), _behind_note(summary), ""),
        ("needs a person", number(needs), "see below" if needs else nothing, "bad" if needs else ""),
        _deadline(summary),
        _running(summary),
    )


def behind(summary: PipelineSummary) -> str:
    """Return how old the first unread record is: Kafka was asked about two ages, and it is between them."""
    if summary.behind_seconds == 0:
        return f"under {span(summary.behind_below_seconds)}" if summary.behind_below_seconds else "nothing"
    return age(summary.behind_seconds) or "not known"


def shares_of(summary: PipelineSummary) -> Iterator[tuple[str, int]]:
    """Yield the number of offsets of each status; readable offsets that are neither planned nor on hold are unread."""
    not_read = summary.running_offsets + summary.planned_offsets + summary.held_offsets
    known = {
        OffsetStatus.COMMITTED: summary.landed_offsets,
        OffsetStatus.SKIPPED: summary.skipped_offsets,
        OffsetStatus.RUNNING: summary.running_offsets,
        OffsetStatus.PLANNED: summary.planned_offsets,
        OffsetStatus.HELD: summary.held_offsets,
        OffsetStatus.LOST: summary.lost_offsets,
        OffsetStatus.UNREAD: max(0, (summary.lag or 0) - not_read),
    }
    yield from ((status.value, count) for status, count in known.items() if count)


def _landed(summary: PipelineSummary) -> Fact:
    at, rows = summary.last_landed_at, summary.landed_rows
    note = macro("ago", "last at", at) if at else "nothing yet"
    if again := summary.reopened_offsets:
        note = f"without {count(again, 'offset')} that will be read again: their earlier rows are visible until then"
    if rows is not None:
        return "landed", count(rows, "row"), note, ""
    return "landed", number(summary.landed_offsets), note if at else f"offsets; {note}", ""


def _unless_observed(state: str, otherwise: str) -> str:
    known = otherwise if state == OBSERVED_STATES else state
    return "Kafka did not answer" if isinstance(state, UnknownState) else known


def _behind_note(summary: PipelineSummary) -> str:
    where, lost = summary.behind_stream, summary.lost_offsets
    read = f"all that is left is read; {count(lost, 'offset is', 'offsets are')} lost" if lost else "everything is read"
    return _unless_observed(summary.behind_state, f"the first unread one: {where}" if where else read)


def _deadline(summary: PipelineSummary) -> Fact:
    at, where = summary.retention_deadline, summary.retention_stream
    note = _unless_observed(summary.retention_deadline_state, f"the first unread one of {where}" if at else "")
    return "kept by Kafka at least until", macro("moment", at) if at else "–", note, ""


def _running(summary: PipelineSummary) -> Fact:
    done, plan = summary.of_current_plans_committed, summary.of_current_plans
    note = f"{done:,} of {count(plan, 'wave')} of open plans landed" if plan else "no wave is planned"
    others = {"silent": summary.silent, "interrupted": summary.interrupted, "cancelled": summary.cancelled}
    note = "; ".join([*(f"{waves:,} {state}" for state, waves in others.items() if waves), note])
    return "running", count(summary.running - summary.silent, "wave"), note, ""


# How far a wave is, as a bar with words.


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: `share` is in per cent, None where the whole is not known, or nothing was counted yet; `brief` is the
    label for little room."""

    share: float | None
    label: str
    brief: str


def bar_of(progress: Progress | None, rate: float | None = None) -> Bar:
    """Return the bar of an attempt's progress; before it has reported anything nothing is known."""
    if progress is None:
        return Bar(share=None, label="started: nothing is reported yet", brief="started")
    done, expected, left = progress.rows, progress.rows_expected, round(progress.seconds_left(rate) or 0)
    share = round(min(100 * done / expected, 100.0), 2) if done and expected else None
    brief = [DOING[progress.step]]
    brief += [] if share is None else [f"{share:.0f} %"]
    brief += [f"about {span(left)} left"] if left else []
    return Bar(share=share, label=progress.sentence(rate), brief=", ".join(brief))


# Partitions in the order in which a person looks at them: by topic and state, the worst first, and what is up to
# date in one row that opens.

LISTED = 2_000
"""Partitions that a page lists, the worst first; the others are counted."""

SHOWN = 50
"""Rows of one state that are seen at once; the others are folded."""

ListedGroup = tuple[StreamGroup, Sequence[StreamStatus]]
"""Partitions of one topic in one state, and those of them that are listed."""


def kind_of(state: str) -> str:
    """Return a state as a class of the style sheet."""
    return state.replace(" ", "-")


def topics_of(report: PipelineReport) -> list[tuple[tuple[str, str], list[ListedGroup]]]:
    """Return the topics of which a partition is listed, the one with the worst partition first."""
    listed = grouped(((stream.key.topic, stream.key.topic_id, stream.state), stream) for stream in report.streams)
    found: dict[tuple[str, str], list[ListedGroup]] = defaultdict(list)
    for group in report.groups:
        mine = sorted(
            listed[group.topic, group.topic_id, group.state],
            key=lambda item: (0 if item.state in QUIET else -(item.lag or 0), item.key.partition),
        )
        found[group.topic, group.topic_id].append((group, mine))
    topics = [item for item in found.items() if any(streams for _, streams in item[1])]
    return sorted(topics, key=lambda item: (RANK[item[1][0][0].state], item[0]))


def at_once(group: StreamGroup, streams: Sequence[StreamStatus]) -> int:
    """Return how many of the listed partitions are seen at once; the others are behind a row that opens."""
    return 0 if group.state in QUIET and group.partitions > 1 else min(SHOWN, len(streams))


def counts_of(groups: Iterable[StreamGroup]) -> dict[StreamState, int]:
    """Return how many partitions are in which state, the worst first; states that none is in are left out."""
    counts = summed((group.state, group.partitions) for group in groups)
    return {state: counts[state] for state in WORST_FIRST if counts.get(state)}


# The page of one pipeline: how far it is, what blocks it, what runs, and where every offset is.

RUNNING_WAVES, WAITING_WAVES, LANDED_WAVES = 50, 20, 5
"""How many waves are listed that run, that wait, and that have landed last."""

NEEDS, PLACES = 50, 8
"""How many things are listed that need a person, and partitions of each; of more, how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveLine:
    """One wave in a list: its progress where an attempt works on it, else its wait."""

    wave: WaveRecord
    kind: str
    label: str
    bar: Bar | None = None
    note: str = ""
    since: datetime | None = None
    buttons: tuple[Button, ...] = ()


def pipeline_page(visitor: Visitor, report: PipelineReport) -> str:
    """Draw the report of one pipeline."""
    name, topics, running, waves = report.pipeline, topics_of(report), report.running, report.waves
    waiting = [wave for wave in waves if wave.state in {WaveState.PLANNED, WaveState.CANCELLED}]
    landed = [wave for wave in waves if wave.state is WaveState.COMMITTED][-LANDED_WAVES:]
    paused = report.summary.paused
    listed = (
        streams[0].key for _, groups in topics for group, streams in groups if group.state not in QUIET and streams
    )
    worst = next(listed, None)  # the row that a person should look at first
    return draw(
        "pipeline.html",
        visitor,
        poll=BUSY if running else IDLE,
        observed_at=report.at,
        report=report,
        counts=[(state, kind_of(state), count) for state, count in counts_of(report.groups).items()],
        facts=facts_of(report.summary),
        banners=tuple(banners_of(report.summary, visitor.paused)),
        needs=[(item, list(need_buttons(item, name, visitor))) for item in report.needs[:NEEDS]],
        places=PLACES,
        more_needs=len(report.needs[NEEDS:]),
        waves=[
            *(wave_line(wave, visitor, attempt) for wave, attempt in running[:RUNNING_WAVES]),
            *(wave_line(item, visitor, paused=bool(paused)) for item in (*waiting[:WAITING_WAVES], *reversed(landed))),
        ],
        more_waves=len(running[RUNNING_WAVES:]) + len(waiting[WAITING_WAVES:]),
        topics=topics,
        worst=worst and "s-{}-{}-{}".format(*worst),
        kind=kind_of,
        at_once=at_once,
        timeline=lambda stream: timeline_of(
            stream.key.partition, report.timeline(stream), watermark=stream.record.watermark
        ),
        meanings=MEANINGS.items(),
        ordered=any(item.parents for stream in report.streams for item in report.order.graph.of(stream.key)),
        decisions=tuple(decisions(name, tuple(dict.fromkeys(topic for (topic, _), _ in topics)), visitor)),
        paused=paused,
        pause=None if paused else button_of(Remedy(command="pause", subject=name), name, visitor),
        status_command=str(remedies.status(name)),
        plan_command=str(remedies.plan(name)),
    )


def wave_line(
    wave: WaveRecord, visitor: Visitor, attempt: AttemptRecord | None = None, *, paused: bool = False
) -> WaveLine:
    """Return a wave of a list, with the attempt that works on it, and the buttons of a visitor that may decide."""
    line = _line(wave, attempt, paused=paused)
    found = wave_buttons(wave, visitor, label=line.label, kind=line.kind) if visitor.may_decide else ()
    return replace(line, buttons=tuple(found))


def _line(wave: WaveRecord, attempt: AttemptRecord | None, *, paused: bool) -> WaveLine:
    since = attempt.started_at if attempt else None
    match wave.state:
        case WaveState.PLANNED:
            tried = "not landed yet: waits for the next run" if wave.fence else "waits for its turn"
            note = "waits for a resume" if paused else tried
            return WaveLine(wave=wave, kind="behind", label="planned", note=note)
        case WaveState.CANCELLED:
            return WaveLine(wave=wave, kind="blocked", label="cancelled", note="waits for a release")
        case WaveState.COMMITTED:
            rows = "" if wave.rows is None else count(wave.rows, "row")
            return WaveLine(wave=wave, kind="up-to-date", label="landed", note=rows, since=wave.committed_at)
        case WaveState.DISSOLVED:
            return WaveLine(wave=wave, kind="gone", label="dissolved", note="its ranges went elsewhere")
        case state if wave.lease_live:
            note = silence_of(wave)
            kind, label = ("waiting", "silent") if note else ("running", state.lower())
            return WaveLine(wave=wave, kind=kind, label=label, bar=_bar(wave, attempt), note=note, since=since)
        case _:
            note = "its worker gives no sign of life: the next run or worker takes it up"
            return WaveLine(wave=wave, kind="waiting", label="interrupted", note=note, since=since)


def _bar(wave: WaveRecord, attempt: AttemptRecord | None) -> Bar:
    return bar_of(attempt.progress, pace(wave, attempt)) if attempt else bar_of(None)


def banners_of(summary: PipelineSummary, paused: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Yield the remarks about the whole page, as title, lines and kind: without Kafka, only the ledger's records are
    known."""
    if isinstance(summary.lag_state, UnknownState):
        yield (
            "Kafka did not answer",
            (
                summary.lag_state.why,
                "What has landed, is planned or on hold is as the ledger has it, which does not need Kafka.",
                "What came since, and so lag and age, is not known until Kafka answers. This page asks again.",
            ),
            "",
        )
    if new := summary.new_partitions:
        when = ("The next plan does; of those that were added to a topic, once they are there for layout_grace.",)
        yield f"Kafka has {count(new, 'partition')} that no plan has taken up", when, "calm"
    if paused:
        yield f"Paused in Airflow: {', '.join(paused)}", ("No run of it begins until it is unpaused there.",), "calm"


# The page of all pipelines: one row each, the worst first.

BARS = 3
"""Running waves that a row shows one by one; of more, how many."""


def overview_page(visitor: Visitor, overview: Overview) -> str:
    """Draw all pipelines, in their order."""
    states = Counter(item.summary.state for item in overview.pipelines)
    return draw(
        "overview.html",
        visitor,
        poll=BUSY if any(item.running for item in overview.pipelines) else IDLE,
        observed_at=overview.at,
        pipelines=overview.pipelines,
        kind=kind_of,
        chart=lambda item: shares_bar(shares_of(item.summary), f"offsets of {item.pipeline}"),
        behind=behind,
        work=_work,
        states=[(state, kind_of(state), count) for state, count in states.items()],
        meanings=MEANINGS.items(),
        first_plan=FIRST_PLAN,
    )


def _work(item: PipelineReport) -> tuple[list[Bar], list[str]]:
    """Return the bars of the waves that run, and the other remarks about the waves."""
    summary = item.summary
    alive = [(wave, attempt) for wave, attempt in item.running if wave.lease_live]
    bars = [(silence_of(wave), _bar(wave, attempt)) for wave, attempt in alive[:BARS]]
    parts = []
    if summary.of_current_plans:
        parts.append(f"{summary.of_current_plans_committed:,} of {count(summary.of_current_plans, 'wave')} landed")
    waiting = {"interrupted": summary.interrupted, "cancelled": summary.cancelled}
    parts += [f"{waves:,} {name}" for name, waves in waiting.items() if waves]
    more = [f"and {count(len(alive[BARS:]), 'more wave')}"] if alive[BARS:] else []
    notes = [*more, *([", ".join(parts)] if parts else [])]
    return [replace(bar, brief=silent or bar.brief) for silent, bar in bars], notes


# The page from which a person goes on after a dry run: its script asks Airflow's own API, in the person's own name.


def dry_run_page(visitor: Visitor, dag: str, run: str) -> str:
    """Draw the page; nothing is asked, and nothing is done, before the person says so."""
    airflow, runs = visitor.base.removesuffix(SITE), f"/dags/{quote(dag, safe='')}"
    return draw(
        "dry_run.html",
        visitor,
        poll=NEVER,
        dag=dag,
        run=run,
        runs=f"{airflow}/api/v2{runs}/dagRuns",
        asked=f"{airflow}/api/v2{runs}/dagRuns/{quote(run, safe='')}",
        shown=f"{airflow}{runs}/runs",
        link=f"{airflow}{runs}/runs/{quote(run, safe='')}",
    )


# The page of a pipeline's history: what was decided, when and by whom.


def history_page(visitor: Visitor, found: EventList, older: int | None = None) -> str:
    """Draw some lines of a pipeline's history, newest first; `older` is the one before which there are more."""
    lines, pipeline = found.events, found.pipeline
    return draw("events.html", visitor, poll=IDLE, pipeline=pipeline, lines=lines, words=word_of, older=older)


# The pages of waves: one with its ranges, attempts and accounting, and the list of all.

ACCOUNTS = {
    "visible": "rows in the table",
    "control": "transaction markers",
    "aborted": "records of aborted transactions",
    "compacted": "removed by compaction",
    "skipped": "skipped by a person",
    "unexplained": "unexplained",
}
"""The fates of an offset, and their names on a page."""

RANGES = 500
"""Ranges that a page lists; all of them are in the JSON document."""

_OUTCOMES = {
    AttemptOutcome.COMMITTED: "up-to-date",
    AttemptOutcome.RUNNING: "running",
    AttemptOutcome.STAGED: "running",
    AttemptOutcome.FAILED: "blocked",
    AttemptOutcome.REJECTED: "blocked",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One attempt at a wave: its cost, once it has ended, and the task of Airflow that it worked for, if it was
    one, with the addresses of task and run."""

    attempt: AttemptRecord
    kind: str
    label: str
    bar: Bar | None
    took: str
    place: TaskPlace | None
    run_page: str = ""
    task_page: str = ""


def wave_page(visitor: Visitor, report: WaveReport) -> str:
    """Draw a wave with its ranges and attempts."""
    record = report.record
    known = [item.accounting for item in report.ranges if item.accounting]
    totals = sum(known, Accounting()).to_json() if known else {}
    attempts = [_try(visitor, item, record) for item in report.attempts]
    bars = [item.bar for item in attempts if item.bar]
    return draw(
        "wave.html",
        visitor,
        poll=BUSY if record.state in OPEN else IDLE,
        wave=record,
        ranges_count=len(report.ranges),
        line=wave_line(replace(record, ranges=len(report.ranges)), visitor, paused=report.paused is not None),
        bar=bars[-1] if bars else None,
        decoding=report.decoding,
        attempts=list(reversed(attempts)),
        totals=totals,
        accounts=ACCOUNTS,
        chart=shares_bar(((name, number) for name, number in totals.items() if number), "offsets of this wave"),
        ranges=report.ranges[:RANGES],
        more_ranges=len(report.ranges[RANGES:]),
    )


def _try(visitor: Visitor, item: AttemptRecord, wave: WaveRecord) -> Try:
    place = place_of(item.actor)
    is_at_work = (
        wave.state in OPEN and wave.lease_live and item.outcome in {AttemptOutcome.RUNNING, AttemptOutcome.STAGED}
    )
    made = Try(
        attempt=item,
        kind=_OUTCOMES.get(item.outcome, "waiting"),
        label="landed" if item.outcome is AttemptOutcome.COMMITTED else item.outcome.value,
        bar=_bar(wave, item) if is_at_work else None,
        took=", ".join(_took(item, wave.rows)),
        place=place,
    )
    if place is None:
        return made
    run = f"{visitor.base.removesuffix(SITE)}/dags/{quote(place.dag, safe='')}/runs/{quote(place.run, safe='')}"
    index = "" if place.mapped is None else f"/mapped/{place.mapped}"
    return replace(made, run_page=run, task_page=f"{run}/tasks/{quote(place.task, safe='')}{index}")


def _took(item: AttemptRecord, rows: int | None) -> Iterator[str]:
    """Yield the cost of an attempt, as far as it is known; rows and their rate are those of the one that committed."""
    seconds = item.seconds
    if seconds is not None:
        yield f"{seconds:,.1f} s"
    if item.outcome is AttemptOutcome.COMMITTED and rows is not None:
        yield count(rows, "row")
        if seconds and rows:
            yield f"{count(round(rows / seconds), 'row')} per second"
    if item.staged_bytes is not None:
        yield f"{size(item.staged_bytes)} written"


def waves_page(
    visitor: Visitor, pipeline: str, waves: Sequence[WaveRecord], number_of_all: int, *, skip: int, limit: int
) -> str:
    """Draw a part of the list of all waves, newest first."""
    return draw(
        "waves.html",
        visitor,
        poll=IDLE,
        pipeline=pipeline,
        limit=limit,
        count=number_of_all,
        waves=[wave_line(wave, visitor) for wave in waves],
        newer=max(0, skip - limit) if skip else None,
        older=skip + limit if skip + limit < number_of_all else None,
    )
