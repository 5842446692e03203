"""The report of an audit as one HTML file that needs nothing else: no network, no script."""

from __future__ import annotations

from itertools import groupby

from airflow_kafka_lake.core.audit.timeline import OffsetStatus
from airflow_kafka_lake.features.pages.rendering import Json, render
from airflow_kafka_lake.features.pages.timeline import MEANINGS, timeline_of

SHOWN = 500
"""Findings that a page lists; all of them are in the JSON document."""

_CHECKS = {"deep": "Contents, compared with Kafka", "cutover": "Cutover with the live stream"}
_NEVER = frozenset({OffsetStatus.RUNNING, OffsetStatus.WAITING})
"""What an audit does not look at: the moment."""


def audit_page(document: Json) -> str:
    """Render `audit --json` as a whole HTML document."""
    found, streams = document["findings"], document["streams"]
    topics = [
        (topic, list(mine)) for topic, mine in groupby(streams, key=lambda item: (item["topic"], item["topic_id"]))
    ]
    return render(
        "audit.html",
        document=document,
        meanings=[(status, meaning) for status, meaning in MEANINGS.items() if status not in _NEVER],
        sealed=any(stream.get("seals") for stream in streams),
        found=found[:SHOWN],
        more=len(found[SHOWN:]),
        place=place,
        checks=[(title, document[name]) for name, title in _CHECKS.items() if document.get(name)],
        topics=topics,
        names=[name for (name, _), _ in topics],
        timeline=timeline_of,
    )


def place(finding: Json) -> str:
    """Return where a finding is: a partition, or a wave, or a table."""
    if finding["topic"]:
        return f"{finding['topic']}/{finding['partition']}"
    return finding["wave"] or finding["table"] or ""
