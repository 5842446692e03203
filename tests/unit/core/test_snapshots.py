"""What was seen of a partition."""

from __future__ import annotations

import dataclasses

import pytest

from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState, PartitionSnapshot
from airflow_kafka_lake.core.offsets import Stream
from airflow_kafka_lake.core.spec import Isolation

pytestmark = pytest.mark.unit

SEEN = PartitionSnapshot(
    stream=Stream("orders", "id-1", 3), leader_epoch=None, log_start=2, last_stable=10, high_watermark=14
)


def test_readable_end_follows_isolation() -> None:
    """Under read_committed nothing at or above the last stable offset is planned."""
    assert SEEN.readable_end(Isolation.READ_COMMITTED) == 10
    assert SEEN.readable_end(Isolation.READ_UNCOMMITTED) == 14


def test_recreated_topic_is_another_stream() -> None:
    """The key holds the topic's id, not only its name."""
    assert SEEN.stream == ("orders", "id-1", 3)
    assert dataclasses.replace(SEEN, stream=Stream("orders", "id-2", 3)).stream != SEEN.stream


def test_no_group_offset_is_no_number() -> None:
    """A group that committed nothing has no offset, and the state says so."""
    assert SEEN.group_offset is None
    assert SEEN.group_offset_state is GroupOffsetState.NONE


def test_snapshot_is_frozen() -> None:
    """What was observed cannot be corrected afterwards."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        SEEN.log_start = 0  # type: ignore[misc]
