"""Remedies: the commands that messages and reasons of holds name; no other module knows how they are written."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.slices import Slice, Stream

PROGRAM = "kafka-lake"
REASON = ("--reason", "TEXT")
"""What a person puts in when a command asks why."""
ACKNOWLEDGE_ORDER = "acknowledge_order"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One command that helps: `str()` is its line, as a person types it.

    `subject` is the pipeline, wave, range or plan that it is about; without one the line names the command alone.
    `switches` are the options that it sets, by the names of their arguments: `acknowledge_order`.
    """

    command: str
    subject: str | None = None
    slice: Slice | None = None
    names_topic_id: bool = False
    """Whether the generation of the slice's topic must be named: it is not the one that there is now."""
    switches: tuple[str, ...] = ()
    asks_reason: bool = False

    def __str__(self) -> str:
        flags = {name: f"--{name.replace('_', '-')}" for name in self.switches}
        last = flags.pop(ACKNOWLEDGE_ORDER, None)
        words = (self.subject, *self._where(), *flags.values(), *(REASON if self.asks_reason else ()), last)
        return " ".join((PROGRAM, self.command, *filter(None, words)))

    def _where(self) -> tuple[str, ...]:
        """Return the words for the slice; with `=` before a topic's id, because it may begin with a dash."""
        if self.slice is None:
            return ()
        stream, offsets = self.slice.stream, self.slice.range
        generation = (f"--topic-id={stream.topic_id}",) if self.names_topic_id else ()
        partition = ("--partition", str(stream.partition))
        return (
            "--topic",
            stream.topic,
            *generation,
            *partition,
            "--from",
            str(offsets.start),
            "--to",
            str(offsets.end),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the wire form (docs/reference/json.md)."""
        return {
            "command": self.command,
            "subject": self.subject,
            "slice": self.slice and self.slice.to_json(),
            "names_topic_id": self.names_topic_id,
            "switches": list(self.switches),
            "asks_reason": self.asks_reason,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Remedy:
        """Read what `to_json` returned."""
        item = data["slice"]
        return cls(
            command=data["command"],
            subject=data["subject"],
            slice=None if item is None else Slice.from_json(item),
            names_topic_id=data["names_topic_id"],
            switches=tuple(data["switches"]),
            asks_reason=data["asks_reason"],
        )


def plan(pipeline: str | None = None) -> Remedy:
    """Plan, or see what would be planned."""
    return Remedy(command="plan", subject=pipeline)


def run(pipeline: str | None = None) -> Remedy:
    """Plan and finish what is planned."""
    return Remedy(command="run", subject=pipeline)


def run_below_origin(pipeline: str, item: Slice) -> Remedy:
    """Read a slice that later segments do not wait for."""
    return Remedy(command="run", subject=pipeline, slice=item, switches=(ACKNOWLEDGE_ORDER,))


def status(pipeline: str | None = None) -> Remedy:
    """See how far a pipeline is, and what blocks it."""
    return Remedy(command="status", subject=pipeline)


def wave(wave_id: str) -> Remedy:
    """See the ranges and attempts of a wave."""
    return Remedy(command="wave", subject=wave_id)


def ingest(wave_id: str) -> Remedy:
    """Bring one wave into the lake."""
    return Remedy(command="ingest", subject=wave_id)


def worker() -> Remedy:
    """Bring into the lake what tasks ask for."""
    return Remedy(command="worker")


def recover(pipeline: str) -> Remedy:
    """Ask the lake about open waves."""
    return Remedy(command="recover", subject=pipeline)


def advance(pipeline: str | None = None) -> Remedy:
    """Move the watermarks."""
    return Remedy(command="advance", subject=pipeline)


def cancel(wave_id: str, *, drop_staged: bool = False) -> Remedy:
    """Put a wave on hold, and take it from its holder."""
    switches = ("drop_staged",) if drop_staged else ()
    return Remedy(command="cancel", subject=wave_id, switches=switches, asks_reason=True)


def release(subject: str) -> Remedy:
    """Take a wave or a range off hold."""
    return Remedy(command="release", subject=subject)


def skip(
    pipeline: str, item: Slice | None = None, *, name_topic_id: bool = False, acknowledge_order: bool = False
) -> Remedy:
    """Pass a slice unread; without one, the command alone."""
    if item is None:
        return Remedy(command="skip", subject=pipeline)
    return Remedy(
        command="skip",
        subject=pipeline,
        slice=item,
        names_topic_id=name_topic_id,
        switches=(ACKNOWLEDGE_ORDER,) if acknowledge_order else (),
        asks_reason=True,
    )


def reopen(pipeline: str, item: Slice, *, accept_fewer: bool = False) -> Remedy:
    """Read a committed slice again."""
    switches = ("accept_fewer",) if accept_fewer else ()
    return Remedy(command="reopen", subject=pipeline, slice=item, switches=switches, asks_reason=True)


def resume(subject: str) -> Remedy:
    """Let a paused pipeline or plan go on."""
    return Remedy(command="resume", subject=subject)


def audit(pipeline: str) -> Remedy:
    """Compare ledger and lake."""
    return Remedy(command="audit", subject=pipeline)


def accept_deletes(pipeline: str, item: Slice | None = None) -> Remedy:
    """Record that rows were deleted on purpose."""
    return Remedy(command="accept-deletes", subject=pipeline, slice=item, asks_reason=True)


def rebuild(pipeline: str | None = None, *, accept_rollback: bool = False) -> Remedy:
    """Make the ledger agree with the lake."""
    switches = ("accept_rollback",) if accept_rollback else ()
    return Remedy(command="rebuild", subject=pipeline, switches=switches)


def upgrade_ledger() -> Remedy:
    """Bring the ledger's schema up to date."""
    return Remedy(command="db", subject="upgrade")


def fetch_jars(for_store: str | None = None) -> Remedy:
    """Fetch and verify the jars, also those for lakes in a store of that name."""
    return Remedy(command="jars", subject=f"fetch --for {for_store}" if for_store else "fetch")


_VALUE = r"[^\s;,]+?(?=[;,.]?(?:\s|$))"
_FLAG = r"--(?:drop-staged|acknowledge-order|accept-fewer|accept-rollback)"
_OPTION = rf"--(?:topic|partition|from|to|reason|for) {_VALUE}|--topic-id={_VALUE}"
_COMMAND = re.compile(rf"{PROGRAM} (?P<command>[a-z-]+)(?P<words>(?: {_VALUE}(?: (?:{_OPTION}|{_FLAG}))*)?)")


def found_in(text: str) -> tuple[Remedy, ...]:
    """Return the commands that a text names, as the functions above have written them."""
    return tuple(_read(match["command"], match["words"].split()) for match in _COMMAND.finditer(text))


def _read(command: str, words: Sequence[str]) -> Remedy:
    given = dict(itertools.pairwise(words))
    item, topic_id = None, next((word.partition("=")[2] for word in words if "=" in word), None)
    if "--from" in given:
        stream = Stream(given["--topic"], topic_id or "", int(given["--partition"]))
        item = Slice(stream, OffsetRange(int(given["--from"]), int(given["--to"])))
    flags = [word[2:].replace("-", "_") for word in words if re.fullmatch(_FLAG, word)]
    return Remedy(
        command=command,
        subject=words[0] if words else None,
        slice=item,
        names_topic_id=topic_id is not None,
        switches=tuple(flags),
        asks_reason="--reason" in words,
    )
