"""The generations of topics that are on record, gone through once for all partitions of a plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.planning.facts import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Generations:
    """`older` are the streams of older generations, by topic and the partition that judges them: their own, and of one
    that the topic has no longer another. `at_first` is how many partitions each `(topic, topic_id)` on record had when
    it was first planned."""

    older: Mapping[tuple[str, int], Sequence[StreamRecord]]
    at_first: Mapping[tuple[str, str], int]

    @classmethod
    def of(cls, facts: Facts) -> Generations:
        """Return the generations of the topics that were observed."""
        return cls(older=_older(facts), at_first=_at_first(facts))


def _older(facts: Facts) -> Mapping[tuple[str, int], Sequence[StreamRecord]]:
    sizes, ids = facts.sizes, {item.stream.topic: item.stream.topic_id for item in facts.seen.selected}
    found: dict[tuple[str, int], list[StreamRecord]] = defaultdict(list)
    for key, stream in facts.seen.known.items():
        if ids.get(key.topic, key.topic_id) != key.topic_id:
            found[key.topic, key.partition % sizes[key.topic]].append(stream)
    return found


def _at_first(facts: Facts) -> Mapping[tuple[str, str], int]:
    known: dict[tuple[str, str], int] = {}
    for topic, topic_id, partition in facts.seen.known:
        known[topic, topic_id] = max(known.get((topic, topic_id), 0), partition + 1)
    seen: dict[str, int] = {}
    for layout in facts.layouts:
        seen[layout.topic_id] = min(seen.get(layout.topic_id, layout.partitions), layout.partitions)
    return {generation: seen.get(generation[1], partitions) for generation, partitions in known.items()}
