"""Kafka as the services need it: the bounds of the log, and its raw record batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from airflow_kafka_lake.core.kafka.epochs import EpochEnds, EpochKey
from airflow_kafka_lake.core.kafka.snapshots import Sample, Snapshot, TopicDescription
from airflow_kafka_lake.core.kafka.transactions import OpenTransaction
from airflow_kafka_lake.core.lake.accounting import Explanation
from airflow_kafka_lake.core.lake.staging import Tip
from airflow_kafka_lake.core.slices import Slice, Stream
from airflow_kafka_lake.core.spec import Isolation

NONE_KNOWN: Mapping[Any, int] = MappingProxyType({})


class OffsetSource(Protocol):
    """Kafka as the planner sees it. Any call may raise UnavailableError; an unknown value is never a number.

    A topic is missing (UnknownTopicError) when every broker of the cluster answers so for its name, twice, some time
    apart; when brokers differ or one does not answer, that is UnavailableError.
    """

    def topics(self, names: Sequence[str], pattern: str | None) -> tuple[str, ...]:
        """Return existing topics, sorted: `names` as given (UnknownTopicError names a missing one) or all that match
        the pattern (`core.spec.topic_matcher`), without those that the connection's user may not describe."""

    def describe(self, topics: Sequence[str]) -> tuple[TopicDescription, ...]:
        """Return id, partition count and retention of each topic; UnknownTopicError names a missing one."""

    def snapshot(
        self, topics: Sequence[str], group: str | None, only: Collection[tuple[str, int]] | None = None
    ) -> Snapshot:
        """Observe all partitions in the safe order: describe → group offsets (require stable, partitions named) →
        last stable → high watermark → log start → describe again; ids and counts must match or it starts over.

        `only` are the partitions whose bounds are asked for, where not all are needed. A partition that cannot be
        observed is in `Snapshot.unknown`. Raises UnknownTopicError, UnavailableError.
        """

    def offsets_at(
        self, partitions: Sequence[tuple[str, int]], timestamp_ms: int | Mapping[tuple[str, int], int]
    ) -> Mapping[tuple[str, int], int | None]:
        """Return each partition's first offset at or after a time, even of an open transaction; None where no record is
        that late. The time is one for all, or each partition's own."""

    def epoch_ends(self, epochs: Sequence[EpochKey], known: Mapping[tuple[str, int], int] = NONE_KNOWN) -> EpochEnds:
        """Return where leader epochs ended, as the leaders know it: the first offset of the next epoch, or the log end.

        None: the leader knows neither that epoch nor a later one. Epochs without an answer are left out. `known` are
        leader epochs of partitions: a broker that leads one under an older epoch is not believed.
        """

    def transactions(self, partitions: Sequence[tuple[str, int]], group: str | None) -> tuple[OpenTransaction, ...]:
        """Return the open transactions of partitions and of the `__consumer_offsets` partition of a group, which other
        groups share. Raises UnavailableError when Kafka does not say."""

    def sample(self, slices: Sequence[Slice], isolation: Isolation) -> tuple[Sample, ...]:
        """Read a few records at the start of each slice; slices without a record within the limits are left out."""


class BatchReader(Protocol):
    """Kafka's raw record batches: they explain offsets without a row."""

    def explain(
        self,
        gaps: Sequence[Slice],
        isolation: Isolation,
        heartbeat: Callable[[int], None] = lambda _: None,
        *,
        epochs: Mapping[Stream, int] = NONE_KNOWN,
    ) -> Mapping[Slice, tuple[Explanation, ...]]:
        """Return the explanations of each gap's offsets; the others are in none, or UNEXPLAINED.

        `heartbeat` is called after each read with the number of offsets that were explained since, and an exception it
        raises ends the reading. `epochs` are known leader epochs: a broker that leads a stream under an older one is
        not believed. Raises IdentityError when a topic's id is not the gap's, UnavailableError when the broker cannot
        be read.
        """

    def held(
        self, places: Sequence[tuple[Stream, int]], *, epochs: Mapping[Stream, int] = NONE_KNOWN
    ) -> Mapping[tuple[Stream, int], Tip]:
        """Return the records that the leaders hold at some offsets, each with its leader epoch and digest; an offset
        without a record is left out. Raises as `explain`."""
