"""What needs a person: in words, with each remedy as a command and, for who may give it, as a button."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_kafka_lake.core.remedies import Remedy
from airflow_kafka_lake.features.pages.buttons import Button, button_of, retry
from airflow_kafka_lake.features.pages.rendering import Json
from airflow_kafka_lake.features.pages.web.visitor import Visitor

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
    remedies = [Remedy(each["command"], tuple(each["words"])) for each in item["commands"]]
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
