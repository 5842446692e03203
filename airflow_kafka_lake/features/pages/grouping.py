"""Partitions in the order in which a person looks at them: by topic and state, the worst first, and what is up to date
in one row that opens."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_kafka_lake.features.pages.rendering import Json

WORST_FIRST = ("blocked", "lost", "unknown", "behind", "running", "waiting", "up to date", "gone")
SHOWN = 50
"""Rows of one state that are seen at once; the others are folded."""

QUIET = frozenset({"up to date", "gone"})
"""States that need no look."""

_RANK = {state: rank for rank, state in enumerate(WORST_FIRST)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Partitions of one topic in one state."""

    state: str
    streams: tuple[Json, ...]

    @property
    def kind(self) -> str:
        """The state as a class of the style sheet."""
        return kind_of(self.state)

    @property
    def shown(self) -> tuple[Json, ...]:
        """Those that are seen at once."""
        return () if self.state in QUIET and len(self.streams) > 1 else self.streams[:SHOWN]

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


def topics_of(streams: Iterable[Json]) -> tuple[Topic, ...]:
    """Return the topics of a pipeline, the one with the worst partition first."""
    found: dict[tuple[str, str], dict[str, list[Json]]] = defaultdict(lambda: defaultdict(list))
    for stream in streams:
        found[stream["topic"], stream["topic_id"]][stream["state"]].append(stream)
    topics = [
        Topic(topic=topic, topic_id=topic_id, groups=_groups(by_state)) for (topic, topic_id), by_state in found.items()
    ]
    return tuple(sorted(topics, key=lambda item: (_RANK[item.groups[0].state], item.topic, item.topic_id)))


def counts_of(streams: Iterable[Json]) -> dict[str, int]:
    """Return how many partitions are in which state, the worst first; states that none is in are left out."""
    counts = Counter(stream["state"] for stream in streams)
    return {state: counts[state] for state in WORST_FIRST if counts[state]}


def _groups(by_state: Mapping[str, Sequence[Json]]) -> tuple[Group, ...]:
    return tuple(
        Group(state=state, streams=tuple(sorted(by_state[state], key=_quiet if state in QUIET else _urgent)))
        for state in sorted(by_state, key=_RANK.__getitem__)
    )


def _quiet(stream: Json) -> tuple[int, ...]:
    return (stream["partition"],)


def _urgent(stream: Json) -> tuple[int, ...]:
    """Order by lag, the largest first."""
    return (-(stream["lag"] or 0), stream["partition"])
