"""What raw record batches say of offsets without a row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_lake.core.accounting import Explanation, Fate
from airflow_kafka_lake.core.kafka.batches import (
    AbortedTransaction,
    Batch,
    Control,
    divided,
    explain,
    lost,
    unexplained,
)
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet


def data(
    base: int, last: int, *, producer: int | None = None, transactional: bool = True, gone: tuple[int, ...] = ()
) -> Batch:
    """A batch of records, some of them cleaned away."""
    present = RangeSet.between(base, last + 1) - RangeSet(OffsetRange(at, at + 1) for at in gone)
    return Batch(
        base_offset=base,
        last_offset=last,
        present=present,
        producer_id=producer,
        is_transactional=transactional and producer is not None,
    )


def marker(at: int, producer: int, control: Control = Control.ABORT) -> Batch:
    """The control batch that ends a transaction."""
    return Batch(
        base_offset=at,
        last_offset=at,
        present=RangeSet.between(at, at + 1),
        producer_id=producer,
        is_transactional=True,
        control=control,
    )


def aborted(*pairs: tuple[int, int]) -> list[AbortedTransaction]:
    return [AbortedTransaction(producer_id=producer, first_offset=first) for producer, first in pairs]


def fates(found: tuple[Explanation, ...]) -> str:
    """One letter per offset: c(ontrol), a(borted), k (cleaned away), ? (unexplained)."""
    letters = {Fate.CONTROL: "c", Fate.ABORTED: "a", Fate.COMPACTED: "k", Fate.UNEXPLAINED: "?"}
    return "".join(letters[item.fate] * item.range.span for item in found)


def asked(start: int, end: int) -> RangeSet:
    return RangeSet.between(start, end)


def test_markers_are_control() -> None:
    """Commit and abort markers take offsets of their own and say whose they are."""
    found = explain(asked(0, 2), [marker(0, 7, Control.COMMIT), marker(1, 8)], (), log_start=0)
    assert fates(found) == "cc"
    assert [item.seen for item in found] == ["commit marker of producer 7", "abort marker of producer 8"]


def test_marker_whose_record_is_gone_is_compacted() -> None:
    """A control batch that the cleaner has emptied holds no marker any more."""
    shell = Batch(
        base_offset=0,
        last_offset=0,
        present=RangeSet(),
        producer_id=1,
        is_transactional=True,
        control=Control.OTHER,
    )
    assert fates(explain(asked(0, 1), [shell], (), log_start=0)) == "k"


def test_transaction_is_aborted_from_its_first_offset_to_its_marker() -> None:
    """Before and behind an aborted transaction its producer's records are committed."""
    batches = [
        data(0, 1, producer=1),
        marker(2, 1, Control.COMMIT),
        data(3, 4, producer=1),
        data(5, 5, producer=1),
        marker(6, 1),
        data(7, 8, producer=1),
        marker(9, 1, Control.COMMIT),
    ]
    assert fates(explain(asked(0, 10), batches, aborted((1, 3)), log_start=0)) == "??caaac??c"


def test_second_aborted_transaction_of_a_producer_begins_anew() -> None:
    """Each transaction in the list opens and closes for itself."""
    batches = [data(0, 0, producer=1), marker(1, 1), data(2, 2, producer=1), marker(3, 1, Control.COMMIT)]
    batches += [data(4, 4, producer=1), marker(5, 1)]
    assert fates(explain(asked(0, 6), batches, aborted((1, 4), (1, 0)), log_start=0)) == "ac?cac"


def test_interleaved_producers_do_not_share_a_fate() -> None:
    """Only the aborted producer's records are aborted, and only its own marker ends that."""
    batches = [data(0, 0, producer=1), data(1, 1, producer=2), marker(2, 2, Control.COMMIT), data(3, 3, producer=1)]
    assert fates(explain(asked(0, 5), [*batches, marker(4, 1)], aborted((1, 0)), log_start=0)) == "a?cac"


def test_transaction_that_began_before_the_read_is_aborted() -> None:
    """The list names transactions by their first offset, which may lie before all batches read."""
    assert fates(explain(asked(20, 22), [data(20, 21, producer=1)], aborted((1, 3)), log_start=0)) == "aa"


def test_marker_beyond_the_read_is_not_needed() -> None:
    """A listed transaction is aborted although its marker was not read."""
    assert fates(explain(asked(0, 2), [data(0, 1, producer=1)], aborted((1, 0)), log_start=0)) == "aa"


def test_any_marker_of_the_producer_ends_its_transaction() -> None:
    """Where the ABORT marker was cleaned away, records behind the next marker are not taken for aborted."""
    batches = [data(0, 0, producer=1), marker(2, 1, Control.COMMIT), data(3, 3, producer=1)]
    assert fates(explain(asked(0, 4), batches, aborted((1, 0)), log_start=0)) == "akc?"


def test_records_outside_transactions_are_never_aborted() -> None:
    """An idempotent producer's plain records may lie inside the slice of its id's aborted transaction."""
    plain = data(1, 1, producer=1, transactional=False)
    assert fates(explain(asked(0, 2), [data(0, 0, producer=1), plain], aborted((1, 0)), log_start=0)) == "a?"


def test_aborted_records_without_a_list_are_unexplained() -> None:
    """Under read_uncommitted no transaction is listed: aborted records are visible, so a missing one is a loss."""
    found = explain(asked(0, 2), [data(0, 1, producer=1), marker(2, 1)], (), log_start=0)
    assert fates(found) == "??"
    assert found[0].seen == "Kafka holds a record of producer 1 in batch 0-2"


def test_cleaned_record_inside_a_batch_is_compacted() -> None:
    """A batch keeps its offsets when the cleaner takes records out of it, also at its ends and all of them."""
    batches = [data(0, 4, gone=(0, 2, 4)), data(5, 6, producer=3, gone=(5, 6))]
    assert fates(explain(asked(0, 7), batches, (), log_start=0)) == "k?k?kkk"


def test_hole_between_batches_is_compacted() -> None:
    """A later batch proves that nothing can come in between."""
    assert fates(explain(asked(0, 6), [data(0, 0), data(5, 5)], (), log_start=0)) == "?kkkk?"


def test_hole_without_a_later_batch_is_unexplained() -> None:
    """What lies behind the last batch read is not known."""
    found = explain(asked(0, 4), [data(0, 1)], (), log_start=0)
    assert fates(found) == "????"
    assert found[-1] == Explanation(range=OffsetRange(2, 4), fate=Fate.UNEXPLAINED, seen="beyond what Kafka returned")


def test_hole_below_the_known_end_is_compacted() -> None:
    """A proven end bounds a hole as a batch does, up to itself."""
    assert fates(explain(asked(0, 5), [data(0, 0, gone=(0,))], (), log_start=0, end_known=3)) == "kkk??"


def test_offsets_below_the_log_start_are_unexplained() -> None:
    """A hole there would be no proof, and not even a batch that is still on disk is."""
    found = explain(asked(0, 6), [marker(1, 1), marker(5, 1)], (), log_start=4)
    assert fates(found) == "????kc"
    assert found[0].seen == "below the log start 4"


def test_damaged_batch_is_named_as_unreadable() -> None:
    """It explains none of its offsets, and a person learns which batch it is, and why; the batch behind it counts."""
    damaged = replace(data(2, 5), damage="wrong checksum")
    found = explain(asked(3, 8), [damaged, marker(6, 7), data(7, 7)], (), log_start=0)
    assert [(str(item.range), item.fate) for item in found] == [
        ("3-6", Fate.UNREADABLE),
        ("6-7", Fate.CONTROL),
        ("7-8", Fate.UNEXPLAINED),
    ]
    assert found[0].seen == "wrong checksum, batch 2-6"


def test_first_batch_is_clipped_to_what_was_asked() -> None:
    """A Fetch returns the whole batch that owns its offset."""
    assert explain(asked(5, 6), [data(0, 9, gone=(5,))], (), log_start=0) == (
        Explanation(range=OffsetRange(5, 6), fate=Fate.COMPACTED, seen="its batch has no such record"),
    )


def test_slices_apart_are_answered_from_one_read() -> None:
    """What lies between the asked slices decides (a marker there), and is not told."""
    batches = [data(0, 3, producer=1), marker(4, 1), data(5, 9, producer=1), marker(10, 1, Control.COMMIT)]
    found = explain(RangeSet.of((2, 4), (6, 7), (10, 11)), batches, aborted((1, 0)), log_start=0)
    assert [(str(item.range), item.fate) for item in found] == [
        ("2-4", Fate.ABORTED),
        ("6-7", Fate.UNEXPLAINED),
        ("10-11", Fate.CONTROL),
    ]


def test_neighbours_that_say_the_same_are_one() -> None:
    """Many batches of one transaction make one explanation; two transactions make two."""
    batches = [data(at, at, producer=1) for at in range(3)]
    one = explain(asked(0, 3), batches, aborted((1, 0)), log_start=0)
    assert [(str(item.range), item.seen) for item in one] == [
        ("0-3", "aborted transaction of producer 1 from offset 0")
    ]
    two = explain(asked(0, 2), [data(0, 0, producer=1), data(1, 1, producer=2)], aborted((1, 0), (2, 1)), log_start=0)
    assert [str(item.range) for item in two] == ["0-1", "1-2"]


def test_nothing_read_explains_nothing() -> None:
    """No batch and no bound: unknown is not compacted."""
    assert fates(explain(asked(3, 6), (), (), log_start=0)) == "???"
    assert fates(unexplained(asked(3, 6), "down")) == "???"


def test_without_a_cleaner_nothing_is_compacted() -> None:
    """Where a topic is not compacted, a hole is a loss and says so; other fates stay."""
    found = explain(asked(0, 3), [marker(0, 1), marker(2, 1)], (), log_start=0)
    assert fates(lost(found, "and so on")) == "c?c"
    assert lost(found, "and so on")[1].seen == "no batch owns it, and so on"


@pytest.mark.parametrize(
    ("gap", "expected"), [((0, 10), "aaaccccc??"), ((2, 4), "ac"), ((3, 8), "ccccc"), ((7, 9), "c?"), ((20, 25), "")]
)
def test_explanations_are_cut_to_each_gap(gap: tuple[int, int], expected: str) -> None:
    """A gap gets its own part, wherever the cuts are; where nothing was said it gets nothing."""
    said = [
        Explanation(range=OffsetRange(0, 3), fate=Fate.ABORTED),
        Explanation(range=OffsetRange(3, 8), fate=Fate.CONTROL),
        Explanation(range=OffsetRange(8, 12), fate=Fate.UNEXPLAINED),
    ]
    assert fates(divided(said, [OffsetRange(*gap)])[OffsetRange(*gap)]) == expected
