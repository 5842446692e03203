"""Kafka as the services need it: where the log ends, and what its batches say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from airflow_kafka_lake.core.kafka.epochs import EpochEnds, EpochKey
from airflow_kafka_lake.core.kafka.snapshots import Sample, Snapshot, TopicDescription
from airflow_kafka_lake.core.kafka.transactions import OpenTransaction
from airflow_kafka_lake.core.lake.accounting import Explanation
from airflow_kafka_lake.core.slices import Slice
from airflow_kafka_lake.core.spec import Isolation


class OffsetSource(Protocol):
    """Kafka as the planner sees it. Any call may raise UnavailableError; nothing unknown is ever a number.

    A topic is missing (UnknownTopicError) when every broker that the cluster has said so about its very name, and said
    so again a while later; where they differ, or one is silent, that is UnavailableError.
    """

    def topics(self, names: Sequence[str], pattern: str | None) -> tuple[str, ...]:
        """Return existing topics, sorted: `names` as given (UnknownTopicError names a missing one) or all that match
        the pattern (`core.spec.topic_matcher`). A list may lack topics, such as those that we may not see."""

    def describe(self, topics: Sequence[str]) -> tuple[TopicDescription, ...]:
        """Return id, partition count and retention of each topic; UnknownTopicError names a missing one."""

    def snapshot(self, topics: Sequence[str], group: str | None) -> Snapshot:
        """Observe all partitions in the safe order: describe → group offsets (require stable, partitions named) →
        last stable → high watermark → log start → describe again; ids and counts must match or it starts over.

        A partition that cannot be observed is in `Snapshot.unknown`. Raises UnknownTopicError, UnavailableError.
        """

    def offsets_at(
        self, partitions: Sequence[tuple[str, int]], timestamp_ms: int
    ) -> Mapping[tuple[str, int], int | None]:
        """Return the first offset at or after a time, whether or not its transaction has ended; None where no record
        is that late."""

    def epoch_ends(self, epochs: Sequence[EpochKey]) -> EpochEnds:
        """Ask the leaders where leader epochs ended: the offset that the next epoch began at, or the log's end.

        None: the leader knows neither that epoch nor a later one. What could not be learned is left out.
        """

    def transactions(self, partitions: Sequence[tuple[str, int]], group: str | None) -> tuple[OpenTransaction, ...]:
        """Return the transactions that are open in partitions, and those where a group's commits are written (other
        groups' commits may be among them). What could not be learned is left out."""

    def sample(self, slices: Sequence[Slice], isolation: Isolation) -> tuple[Sample, ...]:
        """Read a little at the start of each slice; slices that gave nothing within the bound are left out."""


class BatchReader(Protocol):
    """Kafka's raw record batches: the witness for offsets without a row."""

    def explain(
        self, gaps: Sequence[Slice], isolation: Isolation, heartbeat: Callable[[], None] = lambda: None
    ) -> Mapping[Slice, tuple[Explanation, ...]]:
        """Return of every gap what its offsets are; what cannot be explained is in no Explanation or UNEXPLAINED.

        `heartbeat` is called whenever something was read, and an exception it raises ends the reading. Raises
        IdentityError when a topic's id is not the gap's, UnavailableError when the broker cannot be read.
        """
