"""The pages of pipelines and waves: how far they are, what blocks them, and where every offset is."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from urllib.parse import quote

from markupsafe import Markup

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.addresses import SITE
from airflow_kafka_lake.core.amounts import age, count, size, span
from airflow_kafka_lake.core.audit.report import OffsetStatus
from airflow_kafka_lake.core.ledger.history import TaskPlace, place_of
from airflow_kafka_lake.core.remedies import Remedy
from airflow_kafka_lake.core.reports.progress import Step, silence
from airflow_kafka_lake.pages.buttons import Button, button_of, cancel, decisions, pause, release, retry
from airflow_kafka_lake.pages.charts import MEANINGS, shares_bar, timeline_of
from airflow_kafka_lake.pages.rendering import (
    BUSY,
    FIRST_PLAN,
    IDLE,
    NEVER,
    Json,
    Visitor,
    draw,
    macro,
    number,
    percent,
)

# How far a pipeline is, as a few facts side by side, and what has to be known before they are believed.

OBSERVED = "observed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One number with its name; `kind` is a class of the style sheet."""

    label: str
    value: str
    note: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Banner:
    """Something that holds for the whole page."""

    title: str
    lines: tuple[str, ...] = ()
    kind: str = ""


def facts_of(summary: Json) -> tuple[Fact, ...]:
    """Return what a person asks first."""
    needs = summary["needs_person"]
    return (
        _landed(summary),
        Fact(label="lag", value=number(summary["lag"]), note=_unless_observed(summary["lag_state"], "offsets to read")),
        Fact(label="behind by", value=behind(summary), note=_behind_note(summary)),
        Fact(
            label="needs a person",
            value=number(needs),
            note="see what blocks" if needs else _nothing_blocks(summary),
            kind="bad" if needs else "",
        ),
        _deadline(summary),
        _running(summary),
    )


def _nothing_blocks(summary: Json) -> str:
    return "nothing is blocked" if summary["lag_state"] == OBSERVED else "nothing that the ledger knows of"


def behind(summary: Json) -> str:
    """Return how old the first unread record is: Kafka was asked about two ages, and it is between them."""
    seconds, below = summary["behind_seconds"], summary.get("behind_below_seconds")
    if seconds == 0:
        return f"under {span(below)}" if below else "nothing"
    return age(seconds) or "not known"


def shares_of(summary: Json) -> Iterator[tuple[str, int]]:
    """Give how many offsets have which status; what can be read and is neither planned nor on hold is unread."""
    known = {
        OffsetStatus.COMMITTED: summary["landed_offsets"],
        OffsetStatus.SKIPPED: summary["skipped_offsets"],
        OffsetStatus.RUNNING: summary["running_offsets"],
        OffsetStatus.PLANNED: summary["planned_offsets"],
        OffsetStatus.HELD: summary["held_offsets"],
        OffsetStatus.LOST: summary["lost_offsets"],
    }
    not_read = (OffsetStatus.RUNNING, OffsetStatus.PLANNED, OffsetStatus.HELD)
    known[OffsetStatus.UNREAD] = max(0, (summary["lag"] or 0) - sum(known[status] for status in not_read))
    yield from ((status.value, count) for status, count in known.items() if count)


def _landed(summary: Json) -> Fact:
    at = summary["last_landed_at"]
    last = macro("ago", "last at", at) if at else "nothing yet"
    if summary["landed_rows"] is None:
        return Fact(
            label="landed", value=number(summary["landed_offsets"]), note=f"offsets; {last}" if not at else last
        )
    return Fact(label="landed", value=count(summary["landed_rows"], "row"), note=last)


def _unless_observed(state: str, otherwise: str) -> str:
    return otherwise if state == OBSERVED else state


def _behind_note(summary: Json) -> str:
    where = summary["behind_stream"]
    if summary["behind_state"] != OBSERVED:
        return summary["behind_state"]
    return f"the oldest unread record, in {where[0]}/{where[1]}" if where else "everything is read"


def _deadline(summary: Json) -> Fact:
    at, where = summary["retention_deadline"], summary["retention_stream"]
    if not at:
        return Fact(label="retention deadline", value="none known", note=summary["retention_deadline_state"])
    note = f"{where[0]}/{where[1]}" if where else ""
    state = summary["retention_deadline_state"]
    return Fact(
        label="retention deadline", value=macro("moment", at), note=note if state == OBSERVED else f"{note}; {state}"
    )


def _running(summary: Json) -> Fact:
    waves = summary["waves"]
    note = "no wave is planned"
    if waves["of_current_plans"]:
        note = (
            f"{waves['of_current_plans_committed']:,} of {count(waves['of_current_plans'], 'wave')} of this plan landed"
        )
    for state in ("interrupted", "cancelled"):
        if waves[state]:
            note = f"{waves[state]:,} {state}; {note}"
    return Fact(label="running", value=count(waves["running"], "wave"), note=note)


# What needs a person: in words, with each remedy as a command and, for who may give it, as a button.

PLACES = 8
"""Partitions that are named; more are counted."""


_RETRIED = frozenset({"unanswered", "interrupted"})
"""Needs of a wave whose worker is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that needs a person. `pieces` are its text in parts, and of each whether it is a command; `commands`
    are those that the text does not name."""

    key: str
    need: str
    pieces: tuple[tuple[str, bool], ...]
    commands: tuple[str, ...]
    buttons: tuple[Button, ...]
    places: tuple[str, ...]
    more_places: int


def attention_of(document: Json, visitor: Visitor, most: int) -> tuple[Item, ...]:
    """Return the first that need a person in `status --json`, in its order: the most urgent first."""
    return tuple(_item(item, document["pipeline"], visitor) for item in document["needs_person"][:most])


def _item(item: Json, pipeline: str, visitor: Visitor) -> Item:
    remedies = [Remedy.from_json(each) for each in item["commands"]]
    lines = [each["line"] for each in item["commands"]]
    found = [button_of(remedy, pipeline, visitor) for remedy in remedies]
    if item["need"] in _RETRIED and visitor.may_decide:
        found.append(retry(pipeline, item["subject"], visitor))
    places = [f"{topic}/{partition}" for topic, _, partition in item["streams"]]
    named = len(places) > 1
    return Item(
        key=f"{item['need']} {item['subject'] or item['text']}",
        need=item["need"],
        pieces=_pieces(item["text"], lines),
        commands=tuple(line for line in lines if line not in item["text"]),
        buttons=tuple(button for button in found if button is not None),
        places=tuple(places[:PLACES]) if named else (),
        more_places=len(places[PLACES:]) if named else 0,
    )


def _pieces(text: str, commands: list[str]) -> tuple[tuple[str, bool], ...]:
    """Cut a text where it names a command."""
    if not commands:
        return ((text, False),)
    longest_first = sorted(commands, key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, longest_first))})", text)
    return tuple((part, part in commands) for part in parts if part)


# How far a wave is, as a bar with words.

_STEPS = {Step.READ: "reading Kafka", Step.AUDIT: "auditing what is staged", Step.PUBLISH: "publishing"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: `share` is in per cent, None where the whole is not known, or nothing was counted yet; `brief` is the
    label for little room."""

    share: float | None
    label: str
    brief: str


def bar_of(progress: Json | None) -> Bar:
    """Return the bar of an attempt's `progress`; before it has reported anything nothing is known."""
    if progress is None:
        return Bar(share=None, label="started: nothing is reported yet", brief="started")
    done, expected = progress["rows_done"], progress["rows_expected"]
    share = percent(done, expected) if done and expected else None
    step = _STEPS[Step(progress["step"])]
    left = [f"about {span(progress['seconds_left'])} left"] if progress["seconds_left"] else []
    counted = [] if share is None else [f"{share:.0f} %"]
    return Bar(
        share=share,
        label=", ".join((step, *_counts(progress), *left)),
        brief=", ".join((step, *counted, *left)),
    )


def silence_of(wave: Json) -> str:
    """Return since when the worker of a wave gives no sign of life; nothing where the next sign is not overdue."""
    return "" if wave["silent_seconds"] is None else silence(wave["silent_seconds"], wave["free_in_seconds"])


def _counts(progress: Json) -> Iterator[str]:
    step, done, expected = Step(progress["step"]), progress["rows_done"], progress["rows_expected"]
    of = f"{done:,} of " if done else ""
    if expected:
        yield f"{of}{count(expected, step.expects)}"
    elif done:
        yield count(done, step.counts)
    if step is Step.READ and progress["bytes_expected"]:
        of = f"{size(progress['bytes_done'])} of " if done else ""
        yield f"about {of}{size(progress['bytes_expected'])}"
    if progress["rows_per_second"]:
        yield f"{progress['rows_per_second']:,} {step.counts}s/s"


# Partitions in the order in which a person looks at them: by topic and state, the worst first, and what is up to
# date in one row that opens.

WORST_FIRST = ("blocked", "lost", "unknown", "behind", "not planned", "running", "waiting", "up to date", "gone")
LISTED = 2_000
"""Partitions that a page lists, the worst first; the others are counted."""

SHOWN = 50
"""Rows of one state that are seen at once; the others are folded."""

QUIET = frozenset({"up to date", "gone"})
"""States that need no look."""

_RANK = {state: rank for rank, state in enumerate(WORST_FIRST)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Partitions of one topic in one state: how many, and those that are listed."""

    state: str
    count: int
    streams: tuple[Json, ...]

    @property
    def kind(self) -> str:
        """The state as a class of the style sheet."""
        return kind_of(self.state)

    @property
    def shown(self) -> tuple[Json, ...]:
        """Those that are seen at once."""
        return () if self.state in QUIET and self.count > 1 else self.streams[:SHOWN]

    @property
    def folded(self) -> tuple[Json, ...]:
        """Those behind a row that opens."""
        return self.streams[len(self.shown) :]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicGroup:
    """One generation of one topic, its partitions in groups, the worst first."""

    topic: str
    topic_id: str
    groups: tuple[Group, ...]


def kind_of(state: str) -> str:
    """Return a state as a class of the style sheet."""
    return state.replace(" ", "-")


def topics_of(document: Json) -> tuple[TopicGroup, ...]:
    """Return the topics of `status --json` of which a partition is listed, the one with the worst partition first."""
    listed: dict[tuple[str, str, str], list[Json]] = defaultdict(list)
    for stream in document["streams"]:
        listed[stream["topic"], stream["topic_id"], stream["state"]].append(stream)
    found: dict[tuple[str, str], list[Group]] = defaultdict(list)
    for group in document["groups"]:
        topic, topic_id, state = group["topic"], group["topic_id"], group["state"]
        mine = sorted(listed[topic, topic_id, state], key=_quiet if state in QUIET else _urgent)
        found[topic, topic_id].append(Group(state=state, count=group["partitions"], streams=tuple(mine)))
    topics = [
        TopicGroup(topic=topic, topic_id=topic_id, groups=tuple(groups))
        for (topic, topic_id), groups in found.items()
        if any(group.streams for group in groups)
    ]
    return tuple(sorted(topics, key=lambda item: (_RANK[item.groups[0].state], item.topic, item.topic_id)))


def counts_of(groups: Iterable[Json]) -> dict[str, int]:
    """Return how many partitions are in which state, the worst first; states that none is in are left out."""
    counts: Counter[str] = Counter()
    for group in groups:
        counts[group["state"]] += group["partitions"]
    return {state: counts[state] for state in WORST_FIRST if counts[state]}


def _quiet(stream: Json) -> tuple[int, ...]:
    return (stream["partition"],)


def _urgent(stream: Json) -> tuple[int, ...]:
    """Order by lag, the largest first."""
    return (-(stream["lag"] or 0), stream["partition"])


# The page of one pipeline: how far it is, what blocks it, what runs, and where every offset is.

RUNNING_WAVES, WAITING_WAVES, LANDED_WAVES = 50, 20, 5
"""How many waves are listed that run, that wait, and that have landed last."""

NEEDS = 50
"""How many things are listed that need a person; of more, how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveLine:
    """One wave in a list: how far it is where an attempt works on it, else what it waits for."""

    wave: Json
    kind: str
    label: str
    bar: Bar | None = None
    note: str = ""
    since: str | None = None
    buttons: tuple[Button, ...] = ()


def pipeline_page(visitor: Visitor, document: Json) -> str:
    """Draw `status --json` of one pipeline."""
    name, topics = document["pipeline"], topics_of(document)
    running = document["running"]
    waiting = [wave for wave in document["waves"] if wave["state"] in {"PLANNED", "CANCELLED"}]
    landed = [wave for wave in document["waves"] if wave["state"] == "COMMITTED"][-LANDED_WAVES:]
    return draw(
        "pipeline.html",
        visitor,
        poll=BUSY if running else IDLE,
        observed_at=document["observed_at"],
        document=document,
        counts=[(state, kind_of(state), count) for state, count in counts_of(document["groups"]).items()],
        facts=facts_of(document["summary"]),
        banners=tuple(banners_of(document)),
        needs=attention_of(document, visitor, NEEDS),
        more_needs=len(document["needs_person"][NEEDS:]),
        waves=[
            wave_line(wave, name, visitor)
            for wave in (*running[:RUNNING_WAVES], *waiting[:WAITING_WAVES], *reversed(landed))
        ],
        more_waves=len(running[RUNNING_WAVES:]) + len(waiting[WAITING_WAVES:]),
        topics=topics,
        worst=_worst(topics),
        timeline=timeline_of,
        meanings=MEANINGS.items(),
        ordered=any(segment["parents"] for stream in document["streams"] for segment in stream["segments"]),
        decisions=tuple(decisions(name, tuple(dict.fromkeys(topic.topic for topic in topics)), visitor)),
        paused=document["summary"]["paused"],
        pause=pause(name, visitor) if visitor.may_decide and not document["summary"]["paused"] else None,
        status_command=str(remedies.status(name)),
        listed=len(document["streams"]),
        plan_command=str(remedies.plan(name)),
    )


def wave_line(wave: Json, pipeline: str, visitor: Visitor) -> WaveLine:
    """Return a wave of a list, with the buttons for who may decide about it."""
    line = _line(wave)
    return replace(line, buttons=tuple(_buttons(line, pipeline, visitor))) if visitor.may_decide else line


def _line(wave: Json) -> WaveLine:
    since = wave.get("started_at")
    match wave["state"]:
        case "PLANNED":
            return WaveLine(
                wave=wave,
                kind="behind",
                label="planned",
                note="waits for a resume" if wave.get("paused") else "waits for its turn",
            )
        case "CANCELLED":
            return WaveLine(wave=wave, kind="blocked", label="cancelled", note="waits for a release")
        case "COMMITTED":
            rows = "" if wave["rows"] is None else count(wave["rows"], "row")
            return WaveLine(wave=wave, kind="up-to-date", label="landed", note=rows, since=wave["committed_at"])
        case "DISSOLVED":
            return WaveLine(wave=wave, kind="gone", label="dissolved", note="its ranges went elsewhere")
        case state if wave["alive"]:
            bar, note = bar_of(wave.get("progress")), silence_of(wave)
            kind, label = ("waiting", "silent") if note else ("running", state.lower())
            return WaveLine(wave=wave, kind=kind, label=label, bar=bar, note=note, since=since)
        case _:
            note = "its worker gives no sign of life: the next run or worker takes it up"
            return WaveLine(wave=wave, kind="waiting", label="interrupted", note=note, since=since)


def _buttons(line: WaveLine, pipeline: str, visitor: Visitor) -> Iterator[Button]:
    name = line.wave["wave"]
    if line.label == "cancelled":
        yield release(pipeline, name, visitor)
    if line.label == "interrupted":
        yield retry(pipeline, name, visitor)
    if line.kind in {"behind", "running", "waiting"}:
        yield cancel(pipeline, name, visitor, ranges=line.wave["ranges"])


def banners_of(document: Json) -> Iterator[Banner]:
    """Give what holds for the whole page: without Kafka, only what the ledger has recorded is known."""
    state = document["summary"]["lag_state"]
    if state.startswith("unknown"):
        yield Banner(
            title="Kafka did not answer",
            lines=(
                state.removeprefix("unknown: "),
                "What has landed, is planned or on hold is as the ledger has it, which does not need Kafka.",
                "What came since, and so lag and age, is not known until Kafka answers. This page asks again.",
            ),
        )
    if new := document["summary"]["new_partitions"]:
        yield Banner(
            title=f"Kafka has {count(new, 'partition')} that no plan has seen",
            lines=("The next plan finds them.",),
            kind="calm",
        )


def _worst(topics: tuple[TopicGroup, ...]) -> str | None:
    """Return the id of the row that a person should look at first."""
    for topic in topics:
        for group in topic.groups:
            if group.state not in QUIET and group.streams:
                first = group.streams[0]
                return f"s-{first['topic']}-{first['topic_id']}-{first['partition']}"
    return None


# The page of all pipelines: one row each, the worst first.

BARS = 3
"""Running waves that a row shows one by one; of more, how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One pipeline."""

    pipeline: Json
    kind: str
    chart: Markup
    behind: str
    bars: tuple[tuple[str, Bar], ...]
    notes: tuple[str, ...]


def overview_page(visitor: Visitor, document: Json) -> str:
    """Draw the pipelines of a document: its summaries, in its order."""
    rows = [_row(item) for item in document["pipelines"]]
    states = dict.fromkeys((row.pipeline["state"], row.kind) for row in rows)
    return draw(
        "overview.html",
        visitor,
        poll=BUSY if any(item["running"] for item in document["pipelines"]) else IDLE,
        observed_at=document["observed_at"],
        rows=rows,
        states=[(state, kind, sum(row.kind == kind for row in rows)) for state, kind in states],
        meanings=MEANINGS.items(),
        first_plan=FIRST_PLAN,
    )


def _row(item: Json) -> Row:
    alive = [wave for wave in item["running"] if wave["alive"]]
    return Row(
        pipeline=item,
        kind=kind_of(item["state"]),
        chart=shares_bar(shares_of(item), f"offsets of {item['pipeline']}"),
        behind=behind(item),
        bars=tuple((wave["wave"], _bar(wave)) for wave in alive[:BARS]),
        notes=tuple(_notes(item["waves"], len(alive[BARS:]))),
    )


def _bar(wave: Json) -> Bar:
    bar = bar_of(wave["progress"])
    return replace(bar, brief=silence_of(wave) or bar.brief)


def _notes(waves: Json, more: int) -> Iterator[str]:
    if more:
        yield f"and {count(more, 'more wave')}"
    parts = []
    if waves["of_current_plans"]:
        parts.append(f"{waves['of_current_plans_committed']:,} of {count(waves['of_current_plans'], 'wave')} landed")
    parts += [f"{waves[name]:,} {name}" for name in ("interrupted", "cancelled") if waves[name]]
    if parts:
        yield ", ".join(parts)


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

WORDS = {"revoke": "cancel or hold", "commit": "land"}
"""What a page calls an event, where the ledger has another word for it."""


def history_page(visitor: Visitor, document: Json) -> str:
    """Draw some lines of a pipeline's history, newest first."""
    lines = [{**item, "word": WORDS.get(item["kind"], item["kind"])} for item in document["events"]]
    older = lines[-1]["sequence"] if lines and lines[-1]["sequence"] > 1 else None
    return draw("events.html", visitor, poll=IDLE, document=document, lines=lines, older=older)


# The pages of waves: one with its ranges, attempts and accounting, and the list of all.

ACCOUNTS = {
    "visible": "rows in the table",
    "control": "transaction markers",
    "aborted": "records of aborted transactions",
    "compacted": "removed by compaction",
    "skipped": "skipped by a person",
    "unexplained": "unexplained",
}
"""What becomes of an offset, and what a page calls it."""

RANGES = 500
"""Ranges that a page lists; all of them are in the JSON document."""

_OPEN = frozenset({"CLAIMED", "STAGED", "PUBLISHING"})
_OUTCOMES = {
    "committed": "up-to-date",
    "running": "running",
    "staged": "running",
    "failed": "blocked",
    "rejected": "blocked",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One attempt at a wave: what it took, once it has ended, and the task of Airflow that it worked for, if it was
    one, with the addresses of task and run."""

    attempt: Json
    kind: str
    label: str
    bar: Bar | None
    took: str
    place: TaskPlace | None
    run_page: str = ""
    task_page: str = ""


def wave_page(visitor: Visitor, document: Json) -> str:
    """Draw `wave --json`."""
    is_open = document["state"] in _OPEN
    totals = _totals(document["ranges"])
    attempts = [
        _try(visitor, item, document["rows"], is_alive=bool(document["alive"])) for item in document["attempts"]
    ]
    bars = [item.bar for item in attempts if item.bar]
    now = wave_line({**document, "ranges": len(document["ranges"])}, document["pipeline"], visitor)
    return draw(
        "wave.html",
        visitor,
        poll=BUSY if is_open else IDLE,
        document=document,
        line=now,
        bar=bars[-1] if bars else None,
        attempts=list(reversed(attempts)),
        totals=totals,
        accounts=ACCOUNTS,
        chart=_chart(totals),
        ranges=document["ranges"][:RANGES],
        more_ranges=len(document["ranges"][RANGES:]),
    )


def _try(visitor: Visitor, item: Json, rows: int | None, *, is_alive: bool) -> Try:
    place = place_of(item["actor"])
    made = Try(
        attempt=item,
        kind=_OUTCOMES.get(item["outcome"], "waiting"),
        label="landed" if item["outcome"] == "committed" else item["outcome"],
        bar=bar_of(item["progress"]) if is_alive and item["outcome"] in {"running", "staged"} else None,
        took=", ".join(_took(item, rows)),
        place=place,
    )
    if place is None:
        return made
    run = f"{visitor.base.removesuffix(SITE)}/dags/{quote(place.dag, safe='')}/runs/{quote(place.run, safe='')}"
    index = "" if place.mapped is None else f"/mapped/{place.mapped}"
    return replace(made, run_page=run, task_page=f"{run}/tasks/{quote(place.task, safe='')}{index}")


def _took(item: Json, rows: int | None) -> Iterator[str]:
    """Give what an attempt took, as far as it is known; rows and their rate are those of the one that committed."""
    seconds = item["seconds"]
    if seconds is not None:
        yield f"{seconds:,.1f} s"
    if item["outcome"] == "committed" and rows is not None:
        yield count(rows, "row")
        if seconds and rows:
            yield f"{count(round(rows / seconds), 'row')} per second"
    if item["staged_bytes"] is not None:
        yield f"{size(item['staged_bytes'])} written"


def waves_page(visitor: Visitor, document: Json) -> str:
    """Draw a part of the list of all waves, newest first."""
    first, limit = document["skip"], document["limit"]
    return draw(
        "waves.html",
        visitor,
        poll=IDLE,
        document=document,
        waves=[wave_line(wave, document["pipeline"], visitor) for wave in document["waves"]],
        newer=max(0, first - limit) if first else None,
        older=first + limit if first + limit < document["count"] else None,
    )


def _totals(ranges: list[Json]) -> dict[str, int]:
    """Return the sums of all ranges whose accounting is known; nothing where none is."""
    known = [item["accounting"] for item in ranges if item["accounting"]]
    return {name: sum(each[name] for each in known) for name in ACCOUNTS} if known else {}


def _chart(totals: dict[str, int]) -> Markup:
    shown: Iterator[tuple[str, int]] = ((name, number) for name, number in totals.items() if number)
    return shares_bar(shown, "offsets of this wave")
