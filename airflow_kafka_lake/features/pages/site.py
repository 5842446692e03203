"""What all pages of the web interface share."""

from __future__ import annotations

from functools import partial

from airflow_kafka_lake.features.pages.addresses import address
from airflow_kafka_lake.features.pages.rendering import render
from airflow_kafka_lake.features.pages.web.visitor import Visitor

BUSY, IDLE, NEVER = 2, 10, 0
"""After how many seconds a page asks whether there is a newer one: while something runs, while nothing does."""


def draw(template: str, visitor: Visitor, *, poll: int, observed_at: str | None = None, **values: object) -> str:
    """Return a page for a visitor."""
    to = partial(address, visitor)
    return render(template, visitor=visitor, to=to, poll=poll, observed_at=observed_at, **values)
