"""Whether the leader's log has a record that was read, as the ends of leader epochs tell."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.core.kafka.losses import epochs_of_tips, is_proven
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spark.job import Tip, record_digest

pytestmark = pytest.mark.unit

ENDS = {0: 10, 1: 10, 2: 30, 3: 50}
"""A log whose epoch 0 wrote 0-10, epoch 2 10-30 and epoch 3, which lasts, 30-50; in epoch 1 nothing was written."""


def tip(offset: int, epoch: int | None) -> Tip:
    """Return what a consumer has read last."""
    return Tip(slice=Slice(Stream("orders", "AAAA", 0), OffsetRange(0, offset + 1)), leader_epoch=epoch)


@pytest.mark.parametrize(
    ("offset", "epoch", "proven"),
    [
        (9, 0, True),
        (29, 2, True),
        (49, 3, True),
        (10, 0, False),  # the log was cut at 10
        (9, 2, False),  # written anew under a later epoch, and cut since
        (25, 1, False),  # that epoch wrote nothing here
        (29, 1, False),
        (30, 3, True),
        (29, 3, False),
        (49, 4, False),  # no leader knows that epoch
        (20, None, False),
    ],
)
def test_record_is_in_the_log_where_its_epoch_wrote(offset: int, epoch: int | None, proven: bool) -> None:
    """Of two logs with a record of the same offset and epoch all before it is the same."""
    read = tip(offset, epoch)
    ends = {key: ENDS.get(key[2]) for key in epochs_of_tips([read])}
    assert is_proven(read, ends, 0) is proven


def test_what_retention_has_passed_is_compared_no_more() -> None:
    """It was read from a leader as new as the plan, and is nowhere else."""
    assert is_proven(tip(9, 0), {}, 10)
    assert not is_proven(tip(10, 0), {}, 10)


def test_record_is_told_by_key_value_and_time() -> None:
    """A null is no empty text, and a time before 1970 is one that some readers change."""
    digests = [
        record_digest(*record)
        for record in (
            (None, b"v", 1),
            (b"", b"v", 1),
            (b"k", None, 1),
            (b"k", b"", 1),
            (b"k", b"v", 1),
            (b"k", b"v", 2),
        )
    ]
    assert len(set(digests)) == len(digests)
    assert record_digest(None, b"v", -1) == record_digest(None, b"v", -62_135_596_800_000)


def test_tip_survives_the_way_out_of_the_driver() -> None:
    """As JSON."""
    assert Tip.from_json(tip(9, 0).to_json()) == tip(9, 0)
