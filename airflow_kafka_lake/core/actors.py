"""How the ledger's history names who did something."""

from __future__ import annotations

import re
from typing import NamedTuple

MOST_NAME = 200
"""How many characters of a user's name are kept."""

_TASK = re.compile(r"airflow:([^/]+)/.")
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


def approver(name: str, by: str) -> str:
    """Name a user who has approved what a task, named by `by`, carries out."""
    return f"{user(name)}, {by}"


def dag_of(actor: str) -> str | None:
    """Return the Dag of a task that is named so; None for anyone else. An id of a Dag has no slash."""
    found = _TASK.match(actor)
    return found[1] if found else None
