"""Remedies: the commands that messages and reasons of holds name; no other module knows how they are written."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_kafka_lake.core.slices import Slice

PROGRAM = "kafka-lake"
REASON = ("--reason", "TEXT")
"""What a person puts in when a command asks why."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """One command, with its arguments as a shell takes them; without arguments it names the command alone."""

    command: str
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((PROGRAM, self.command, *self.words))


def _named(command: str, subject: str | None, *words: str) -> Remedy:
    return Remedy(command, (() if subject is None else (subject,)) + words)


def _where(item: Slice, *, name_topic_id: bool = False) -> tuple[str, ...]:
    """Return the words for a slice; `name_topic_id` adds its topic's id, with `=` because an id may begin with a
    dash."""
    stream = item.stream
    chosen = (f"--topic-id={stream.topic_id}",) if name_topic_id else ()
    begin, end = str(item.range.start), str(item.range.end)
    return ("--topic", stream.topic, *chosen, "--partition", str(stream.partition), "--from", begin, "--to", end)


def plan(pipeline: str | None = None) -> Remedy:
    """Plan, or see what would be planned."""
    return _named("plan", pipeline)


def run(pipeline: str | None = None) -> Remedy:
    """Plan and finish what is planned."""
    return _named("run", pipeline)


def run_below_origin(pipeline: str, item: Slice) -> Remedy:
    """Read a slice that later segments do not wait for."""
    return Remedy("run", (pipeline, *_where(item), "--acknowledge-order"))


def status(pipeline: str | None = None) -> Remedy:
    """See how far a pipeline is, and what blocks it."""
    return _named("status", pipeline)


def wave(wave_id: str) -> Remedy:
    """See the ranges and attempts of a wave."""
    return Remedy("wave", (wave_id,))


def ingest(wave_id: str) -> Remedy:
    """Bring one wave into the lake."""
    return Remedy("ingest", (wave_id,))


def worker() -> Remedy:
    """Bring into the lake what tasks ask for."""
    return Remedy("worker")


def recover(pipeline: str) -> Remedy:
    """Ask the lake about open waves."""
    return Remedy("recover", (pipeline,))


def advance(pipeline: str | None = None) -> Remedy:
    """Move the watermarks."""
    return _named("advance", pipeline)


def cancel(wave_id: str, *, drop_staged: bool = False) -> Remedy:
    """Put a wave on hold, and take it from its holder."""
    return Remedy("cancel", (wave_id, *(("--drop-staged",) if drop_staged else ()), *REASON))


def release(subject: str) -> Remedy:
    """Take a wave or a range off hold."""
    return Remedy("release", (subject,))


def skip(
    pipeline: str, item: Slice | None = None, *, name_topic_id: bool = False, acknowledge_order: bool = False
) -> Remedy:
    """Pass a slice unread; without one, the command alone."""
    if item is None:
        return Remedy("skip", (pipeline,))
    order = ("--acknowledge-order",) if acknowledge_order else ()
    return Remedy("skip", (pipeline, *_where(item, name_topic_id=name_topic_id), *REASON, *order))


def reopen(pipeline: str, item: Slice, *, accept_fewer: bool = False) -> Remedy:
    """Read a committed slice again."""
    fewer = ("--accept-fewer",) if accept_fewer else ()
    return Remedy("reopen", (pipeline, *_where(item), *fewer, *REASON))


def resume(subject: str) -> Remedy:
    """Let a paused pipeline or plan go on."""
    return Remedy("resume", (subject,))


def audit(pipeline: str) -> Remedy:
    """Compare ledger and lake."""
    return Remedy("audit", (pipeline,))


def accept_deletes(pipeline: str, item: Slice | None = None) -> Remedy:
    """Record that rows were deleted on purpose."""
    return Remedy("accept-deletes", (pipeline, *(() if item is None else _where(item)), *REASON))


def rebuild(pipeline: str | None = None, *, accept_rollback: bool = False) -> Remedy:
    """Make the ledger agree with the lake."""
    return _named("rebuild", pipeline, *(("--accept-rollback",) if accept_rollback else ()))


def upgrade_ledger() -> Remedy:
    """Bring the ledger's schema up to date."""
    return Remedy("db", ("upgrade",))


def fetch_jars(for_store: str | None = None) -> Remedy:
    """Fetch and verify the jars, also those for lakes in a store of that name."""
    return Remedy("jars", ("fetch", *(("--for", for_store) if for_store else ())))


_VALUE = r"[^\s;,]+?(?=[;,.]?(?:\s|$))"
_FLAG = r"--(?:drop-staged|acknowledge-order|accept-fewer|accept-rollback)"
_OPTION = rf"--(?:topic|partition|from|to|reason|for) {_VALUE}|--topic-id={_VALUE}"
_COMMAND = re.compile(rf"{PROGRAM} (?P<command>[a-z-]+)(?P<words>(?: {_VALUE}(?: (?:{_OPTION}|{_FLAG}))*)?)")


def found_in(text: str) -> tuple[Remedy, ...]:
    """Return the commands that a text names, as the functions above have written them."""
    return tuple(Remedy(match["command"], tuple(match["words"].split())) for match in _COMMAND.finditer(text))
