"""The Kafka in memory tells a reader and an auditor the same story."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.core.accounting import Fate, account
from airflow_kafka_lake.core.errors import IdentityError, RangeBeyondEndError, RangeExpiredError, UnavailableError
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream
from airflow_kafka_lake.core.spec import Isolation
from tests.kit.clock import FakeClock
from tests.kit.memory_kafka import MemoryKafka

COMMITTED, UNCOMMITTED = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED
WHOLE = OffsetRange(0, 11)


@pytest.fixture
def kafka() -> MemoryKafka:
    """Offsets 0-2 plain, 3-4 aborted, 5 its marker, 6 committed, 7 its marker, 8-10 plain with a hole at 9."""
    made = MemoryKafka(now=FakeClock().now)
    made.create_topic("t", cleanup_policy="compact,delete")
    made.produce("t", 0, b"a", b"b", b"c", key=b"k")
    made.produce("t", 0, b"x", b"y", transaction="one")
    made.end("one", commit=False)
    made.produce("t", 0, b"d", transaction="two")
    made.end("two", commit=True)
    made.produce("t", 0, b"e", b"f", None)
    made.log("t", 0).remove([9])
    return made


def fates(kafka: MemoryKafka, slice_: OffsetRange, isolation: Isolation) -> dict[str, Fate]:
    gap = Slice(Stream("t", kafka.describe(["t"])[0].topic_id, 0), slice_)
    return {str(item.range): item.fate for item in kafka.explain([gap], isolation)[gap]}


@pytest.mark.parametrize(
    ("isolation", "offsets"), [(COMMITTED, [0, 1, 2, 6, 8, 10]), (UNCOMMITTED, [0, 1, 2, 3, 4, 6, 8, 10])]
)
def test_reader_sees_what_its_isolation_allows(kafka: MemoryKafka, isolation: Isolation, offsets: list[int]) -> None:
    """Markers and holes are never seen, aborted records only by those who ask for them."""
    found = kafka.read("t", 0, WHOLE, isolation)
    assert [offset for offset, *_ in found] == offsets
    assert found[0][:3] == (0, b"k", b"a")
    assert found[-1][:3] == (10, None, None)


@pytest.mark.parametrize("isolation", [COMMITTED, UNCOMMITTED])
def test_what_is_read_and_what_is_explained_is_everything(kafka: MemoryKafka, isolation: Isolation) -> None:
    """Every offset has a row or a reason."""
    rows = RangeSet(OffsetRange(offset, offset + 1) for offset, *_ in kafka.read("t", 0, WHOLE, isolation))
    topic_id = kafka.describe(["t"])[0].topic_id
    gaps = [Slice(Stream("t", topic_id, 0), item) for item in RangeSet((WHOLE,)) - rows]
    told = [item for items in kafka.explain(gaps, isolation).values() for item in items]
    numbers = account(WHOLE, rows, told)
    assert (numbers.visible, numbers.control, numbers.compacted, numbers.unexplained) == (rows.span, 2, 1, 0)
    assert numbers.aborted == (2 if isolation is COMMITTED else 0)


def test_each_reason_has_its_evidence(kafka: MemoryKafka) -> None:
    """Slices of one reason are told as one."""
    assert fates(kafka, OffsetRange(3, 6), COMMITTED) == {"3-5": Fate.ABORTED, "5-6": Fate.CONTROL}
    assert fates(kafka, OffsetRange(9, 10), COMMITTED) == {"9-10": Fate.COMPACTED}


def test_no_excuse_is_made_for_a_loss(kafka: MemoryKafka) -> None:
    """A visible record, deleted offsets, undecided ones and holes of a plain topic are unexplained."""
    assert fates(kafka, OffsetRange(0, 2), COMMITTED) == {"0-2": Fate.UNEXPLAINED}
    kafka.log("t", 0).delete_before(6)
    assert fates(kafka, OffsetRange(4, 6), COMMITTED) == {"4-6": Fate.UNEXPLAINED}
    kafka.produce("t", 0, b"z", transaction="open")
    assert fates(kafka, OffsetRange(11, 12), COMMITTED) == {"11-12": Fate.UNEXPLAINED}
    kafka.create_topic("t")
    kafka.produce("t", 0, b"a", b"b")
    kafka.log("t", 0).remove([0])
    assert fates(kafka, OffsetRange(0, 1), COMMITTED) == {"0-1": Fate.UNEXPLAINED}


def test_another_generation_explains_nothing(kafka: MemoryKafka) -> None:
    """A topic that was created anew, or is gone, is not the one that was asked about."""
    gap = Slice(Stream("t", kafka.describe(["t"])[0].topic_id, 0), OffsetRange(3, 4))
    kafka.create_topic("t", 2)
    with pytest.raises(IdentityError):
        kafka.explain([gap], COMMITTED)
    kafka.delete_topic("t")
    with pytest.raises(IdentityError):
        kafka.explain([gap], COMMITTED)


def test_reading_outside_the_bounds_fails(kafka: MemoryKafka) -> None:
    """Nothing is skipped in silence: neither what retention took nor what is not decided yet."""
    kafka.log("t", 0).delete_before(3)
    with pytest.raises(RangeExpiredError):
        kafka.read("t", 0, OffsetRange(2, 5), COMMITTED)
    kafka.produce("t", 0, b"z", transaction="open")
    with pytest.raises(RangeBeyondEndError):
        kafka.read("t", 0, OffsetRange(8, 12), COMMITTED)
    assert len(kafka.read("t", 0, OffsetRange(8, 12), UNCOMMITTED)) == 3


def test_truncation_loses_the_end_and_raises_the_epoch(kafka: MemoryKafka) -> None:
    """Offsets are given again after an unclean election, under another leader epoch."""
    kafka.produce("t", 0, b"z", transaction="open")
    kafka.log("t", 0).truncate(7)
    (found,) = kafka.snapshot(["t"], None).partitions
    assert (found.last_stable, found.high_watermark, found.leader_epoch) == (7, 7, 1)
    assert kafka.produce("t", 0, b"again") == [7]


def test_partition_out_of_reach_is_unknown_alone(kafka: MemoryKafka) -> None:
    """The others are observed; for that one the answer is why not."""
    kafka.add_partitions("t", 2)
    kafka.log("t", 0).unreachable = "its broker is down"
    snapshot = kafka.snapshot(["t"], None)
    assert [item.stream.partition for item in snapshot.partitions] == [1]
    assert [(item.partition, item.reason) for item in snapshot.unknown] == [(0, "its broker is down")]
    for call in (
        lambda: kafka.read("t", 0, OffsetRange(0, 1), COMMITTED),
        lambda: kafka.offsets_at([("t", 0)], 0),
        lambda: fates(kafka, OffsetRange(3, 4), COMMITTED),
    ):
        with pytest.raises(UnavailableError, match="its broker is down"):
            call()
    kafka.log("t", 0).unreachable = ""
    assert len(kafka.snapshot(["t"], None).partitions) == 2


def test_open_transaction_is_named_after_retention_has_passed_its_records(kafka: MemoryKafka) -> None:
    """Its records and their times are gone; that it is open is not."""
    kafka.produce("t", 0, b"z", transaction="open")
    kafka.log("t", 0).delete_before(12)
    (found,) = kafka.transactions([("t", 0)], None)
    assert (found.transactional_id, found.first_offset, found.last_written_at) == ("open", 11, None)
