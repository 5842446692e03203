"""The status of one pipeline, and of all, as lines of text: a summary first, then what is wrong, worst first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from airflow_kafka_lake.cli.text import (
    BOLD,
    CYAN,
    DIM,
    GREEN,
    RED,
    YELLOW,
    Column,
    Line,
    ago,
    labelled,
    moment,
    numbers,
    offsets,
    table,
    until,
    wrapped,
)
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import age, count, size, span
from airflow_kafka_lake.core.documents.explanation import waiting_text
from airflow_kafka_lake.core.documents.groups import groups_of, worst_first
from airflow_kafka_lake.core.live import DOING, silence
from airflow_kafka_lake.core.progress import Step

Json = Mapping[str, Any]

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


def status_lines(document: Json, width: int, *, rows: int | None = 16) -> Iterator[Line]:
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
        yield Line(f"{count(more, 'more partition waits', 'more partitions wait')} for open transactions")
    yield from _waves(document, width)


def _summary(pipeline: str, summary: Json, now: str, width: int) -> Iterator[Line]:
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


def _running(waves: Sequence[Json], now: str, width: int) -> Iterator[Line]:
    alive = [item for item in waves if item["alive"]]
    if not alive:
        return
    yield from _title("running")
    for item in alive[:NEEDS]:
        yield Line(f"  {item['wave']}", CYAN)
        yield from wrapped(f"{working(item)}, begun {ago(item['started_at'], now)}", width, indent="    ")
    if len(alive) > NEEDS:
        yield Line(f"  and {count(len(alive) - NEEDS, 'more wave')}")


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


def _needs(document: Json, width: int) -> Iterator[Line]:
    needs = document["needs_person"]
    if not needs:
        return
    yield from _title("needs a person")
    for number, item in enumerate(needs[:NEEDS], 1):
        mark = f"  {number}. "
        style = _NEED_STYLES.get(item["need"], YELLOW)
        yield from wrapped(item["text"], width, indent=mark, hanging=" " * len(mark), style=style)
        for command in item["commands"]:
            yield Line(f"{' ' * len(mark)}{command['line']}")
    if len(needs) > NEEDS:
        yield Line(f"  and {len(needs) - NEEDS:,} more: {remedies.status(document['pipeline'])} --json")


def _streams(document: Json, width: int, rows: int | None) -> Iterator[Line]:
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
        yield Line(f"  {topic[0]}", BOLD)
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
    Column(title="partition", right=True),
    Column(title="state"),
    Column(title="lag", right=True),
    Column(title="behind by", rank=1),
    Column(title="waits at", right=True, rank=2),
    Column(title="landed"),
)


def _rows(streams: Sequence[Json], width: int) -> Iterator[Line]:
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


def _group(group: Json, width: int) -> Iterator[Line]:
    total = group["partitions"]
    lag = f", lag {group['lag']:,}" if group["lag"] else ""
    behind = f", behind by {age(group['behind_seconds'])}" if group["lag"] and group["behind_seconds"] else ""
    verb = "is" if total == 1 else "are"
    text = f"{count(total, 'partition')} {verb} {group['state']}{lag}{behind}: {numbers(group['numbers'])}"
    yield from wrapped(text, width, indent="    ", hanging="      ", style=STYLES[group["state"]])


def _other_topics(groups: Sequence[Json], width: int) -> Iterator[Line]:
    """Give topics of which no stream has a line: one line for each, or for all of a state where there are many."""
    for state, several in groupby(groups, key=lambda item: item["state"]):
        same = list(several)
        if len(same) <= NEEDS:
            for group in same:
                yield Line(f"  {group['topic']}", BOLD)
                yield from _group(group, width)
            continue
        total = sum(group["partitions"] for group in same)
        lag = sum(group["lag"] or 0 for group in same)
        text = f"{count(total, 'partition')} of {len(same):,} topics are {state}" + (f", lag {lag:,}" if lag else "")
        yield from wrapped(text, width, indent="  ", style=STYLES[state])


def _waves(document: Json, width: int) -> Iterator[Line]:
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
        yield Line()
        yield from table(_WAVE_COLUMNS, lines, width)


_WAVE_COLUMNS = (
    Column(title="wave"),
    Column(title="state"),
    Column(title="ranges", right=True, rank=2),
    Column(title="rows", right=True),
    Column(title="landed", rank=1),
)


def _title(text: str) -> Iterator[Line]:
    yield Line()
    yield Line(text, BOLD)
