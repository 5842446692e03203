"""A pipeline's history, line by line, and the names under which people and tasks stand in it."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from airflow_kafka_lake.core.offsets import Slice

# A pipeline's history, line by line, and how a table names one of these lines.


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRef:
    """One line of a ledger's history, as a table names it.

    Lines are written in the order of their numbers, so a ledger that has a line has all before it. A ledger that was
    restored from a backup counts on from there: the digest distinguishes its lines from the lost ones.
    """

    sequence: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of a pipeline's history."""

    sequence: int
    at: datetime
    actor: str
    kind: str
    subject: str
    detail: str
    """For people."""
    slices: tuple[Slice, ...] = ()
    """The slices of a decision."""

    @property
    def line(self) -> EventRef:
        """The name of this line, in which actors and free text have no part."""
        named = [self.sequence, self.at.astimezone(UTC).isoformat(timespec="milliseconds"), self.kind, self.subject]
        return EventRef(sequence=self.sequence, digest=hashlib.sha256(json.dumps(named).encode()).hexdigest()[:16])


# The names of actors in the ledger's history.

MOST_NAME = 200
"""How many characters of a user's name are kept."""

_PLACE = re.compile(r"airflow:([^/]+)/(.+)/([^/\[\]]+)(?:\[(\d+)\])?")


class TaskPlace(NamedTuple):
    """Which task of which Dag run it is; `mapped` is the index of a mapped one."""

    dag: str
    run: str
    task: str
    mapped: int | None


def task(dag: str, run: str, task_id: str, index: int = -1) -> str:
    """Name a task of a Dag run; a mapped one by its index too."""
    return f"airflow:{dag}/{run}/{task_id}{f'[{index}]' if index >= 0 else ''}"


def place_of(actor: str | None) -> TaskPlace | None:
    """Return the task that is named so; None for anyone else."""
    found = _PLACE.fullmatch(actor or "")
    return found and TaskPlace(found[1], found[2], found[3], None if found[4] is None else int(found[4]))


def user(name: str) -> str:
    """Name a user of Airflow, whose name may be any text."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in name)
    return f"airflow user {shown[:MOST_NAME].encode(errors='replace').decode()}"
