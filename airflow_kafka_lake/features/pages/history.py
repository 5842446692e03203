"""The page of a pipeline's history: what was decided, when and by whom."""

from __future__ import annotations

from airflow_kafka_lake.features.pages.rendering import Json
from airflow_kafka_lake.features.pages.site import IDLE, draw
from airflow_kafka_lake.features.pages.web.visitor import Visitor

WORDS = {"revoke": "cancel or hold", "commit": "land"}
"""What a page calls an event, where the ledger has another word for it."""


def history_page(visitor: Visitor, document: Json) -> str:
    """Draw some lines of a pipeline's history, newest first."""
    lines = [{**item, "word": WORDS.get(item["kind"], item["kind"])} for item in document["events"]]
    older = lines[-1]["sequence"] if lines and lines[-1]["sequence"] > 1 else None
    return draw("events.html", visitor, poll=IDLE, document=document, lines=lines, older=older)
