"""Partitions in the order in which a person looks at them: by topic and state, the worst first, and what is up to date
in one row that opens."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from airflow_kafka_lake.features.pages.rendering import Json

WORST_FIRST = ("blocked", "lost", "unknown", "behind", "not planned", "running", "waiting", "up to date", "gone")
LISTED = 2_000
"""Partitions that a page lists, the worst first; the others are counted."""

SHOWN = 50
"""Rows of one state that are seen at once; the others are folded."""

QUIET = frozenset({"up to date", "gone"})
"""States that need no look."""

_RANK = {state: rank for rank, state in enumerate(WORST_FIRST)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Partitions of one topic in one state: how many, and those that are listed."""

    state: str
    count: int
    streams: tuple[Json, ...]

    @property
    def kind(self) -> str:
        """The state as a class of the style sheet."""
        return kind_of(self.state)

    @property
    def shown(self) -> tuple[Json, ...]:
        """Those that are seen at once."""
        return () if self.state in QUIET and self.count > 1 else self.streams[:SHOWN]

    @property
    def folded(self) -> tuple[Json, ...]:
        """Those behind a row that opens."""
        return self.streams[len(self.shown) :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One generation of one topic, its partitions in groups, the worst first."""

    topic: str
    topic_id: str
    groups: tuple[Group, ...]


def kind_of(state: str) -> str:
    """Return a state as a class of the style sheet."""
    return state.replace(" ", "-")


def topics_of(document: Json) -> tuple[Topic, ...]:
    """Return the topics of `status --json` of which a partition is listed, the one with the worst partition first."""
    listed: dict[tuple[str, str, str], list[Json]] = defaultdict(list)
    for stream in document["streams"]:
        listed[stream["topic"], stream["topic_id"], stream["state"]].append(stream)
    found: dict[tuple[str, str], list[Group]] = defaultdict(list)
    for group in document["groups"]:
        topic, topic_id, state = group["topic"], group["topic_id"], group["state"]
        mine = sorted(listed[topic, topic_id, state], key=_quiet if state in QUIET else _urgent)
        found[topic, topic_id].append(Group(state=state, count=group["partitions"], streams=tuple(mine)))
    topics = [
        Topic(topic=topic, topic_id=topic_id, groups=tuple(groups))
        for (topic, topic_id), groups in found.items()
        if any(group.streams for group in groups)
    ]
    return tuple(sorted(topics, key=lambda item: (_RANK[item.groups[0].state], item.topic, item.topic_id)))


def counts_of(groups: Iterable[Json]) -> dict[str, int]:
    """Return how many partitions are in which state, the worst first; states that none is in are left out."""
    counts: Counter[str] = Counter()
    for group in groups:
        counts[group["state"]] += group["partitions"]
    return {state: counts[state] for state in WORST_FIRST if counts[state]}


def _quiet(stream: Json) -> tuple[int, ...]:
    return (stream["partition"],)


def _urgent(stream: Json) -> tuple[int, ...]:
    """Order by lag, the largest first."""
    return (-(stream["lag"] or 0), stream["partition"])
