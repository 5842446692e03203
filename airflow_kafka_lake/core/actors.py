"""How the ledger's history names who did something."""

from __future__ import annotations

import re

MOST_NAME = 200
"""How many characters of a user's name are kept."""

_TASK = re.compile(r"airflow:([^/]+)/.")


def task(dag: str, run: str, task_id: str) -> str:
    """Name a task of a Dag run."""
    return f"airflow:{dag}/{run}/{task_id}"


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
