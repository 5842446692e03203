"""What an answer about a group's offsets means, number by number."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.adapters.kafka import cluster
from airflow_kafka_lake.adapters.kafka.cluster import answers
from airflow_kafka_lake.adapters.kafka_python import OffsetFetchRequest, errors
from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState

KEY = ("orders", 3)


class Said:
    """One partition of an answer, and the topic around it."""

    name = "orders"
    partition_index = 3

    def __init__(self, committed_offset: int, error_code: int = 0) -> None:
        self.committed_offset = committed_offset
        self.error_code = error_code
        self.partitions = [self]


@pytest.mark.parametrize(
    ("said", "means"),
    [
        (Said(7), (7, GroupOffsetState.KNOWN)),
        (Said(0), (0, GroupOffsetState.KNOWN)),
        (Said(-1), (None, GroupOffsetState.NONE)),
        (Said(-2), (None, GroupOffsetState.UNKNOWN)),
        (Said(-1, errors.UnstableOffsetCommitError.errno), (None, GroupOffsetState.UNSTABLE)),
        (Said(-1, errors.UnknownTopicOrPartitionError.errno), (None, GroupOffsetState.UNKNOWN)),
        (Said(7, errors.NotCoordinatorError.errno), (None, GroupOffsetState.UNKNOWN)),
    ],
)
def test_only_an_answer_without_error_has_a_number(said: Said, means: tuple[int | None, GroupOffsetState]) -> None:
    """Zero is a number; -1 without an error is none; pending is unstable; everything else is unknown."""
    assert answers([said], [KEY]) == {KEY: means}


def test_partition_that_is_not_in_the_answer_is_unknown() -> None:
    """Silence about a partition is not the same as "nothing committed"."""
    assert answers([Said(7)], [KEY, ("orders", 4), ("other", 3)]) == {
        KEY: (7, GroupOffsetState.KNOWN),
        ("orders", 4): cluster.UNKNOWN,
        ("other", 3): cluster.UNKNOWN,
    }


def test_pending_commits_are_always_told_apart() -> None:
    """Every broker is asked for stable offsets of named partitions."""
    request = cluster.request("g", [("a", 0), ("a", 2), ("b", 1)])
    sent = OffsetFetchRequest.decode(request.encode(version=cluster.STABLE), version=cluster.STABLE)
    assert sent.require_stable
    assert [(topic.name, list(topic.partition_indexes)) for topic in sent.topics] == [("a", [0, 2]), ("b", [1])]
