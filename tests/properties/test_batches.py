"""Facts over generated logs: transactions, a cleaner's work, and reads that cut them anywhere."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_lake.core.accounting import Fate
from airflow_kafka_lake.core.kafka.batches import AbortedTransaction, Batch, Control, divided, explain
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from tests.properties.strategies import range_sets


@dataclass
class Log:
    """A partition made step by step, with the true fate of each offset that has no row."""

    batches: list[Batch] = field(default_factory=list)
    fates: list[Fate] = field(default_factory=list)
    ended: list[tuple[AbortedTransaction, int]] = field(default_factory=list)
    """Aborted transactions with their markers' offsets."""

    def listed(self, first: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that Kafka lists for a read of `[first, end)`."""
        return [item for item, marker in self.ended if marker >= first and item.first_offset < end]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Draw a log in which every transaction has ended; the cleaner may empty, thin out or remove data batches."""
    log, running = Log(), dict[int, tuple[int, list[int]]]()

    def add(batch: Batch, present_fate: Fate) -> None:
        log.fates += [present_fate if at in batch.present else Fate.COMPACTED for at in range(*_edges(batch))]
        if batch.present or draw(st.booleans()):
            log.batches.append(batch)

    def end(producer: int) -> None:
        first, its_offsets = running.pop(producer)
        at = len(log.fates)
        control = draw(st.sampled_from([Control.COMMIT, Control.ABORT]))
        if control is Control.ABORT:
            log.ended.append((AbortedTransaction(producer_id=producer, first_offset=first), at))
            for offset in its_offsets:
                log.fates[offset] = Fate.ABORTED
        whole = RangeSet.between(at, at + 1)
        add(_batch(at, at, whole, producer, control), Fate.CONTROL)

    for _ in range(draw(st.integers(min_value=1, max_value=12))):
        producer = draw(st.sampled_from([None, 1, 2, 3]))
        if producer in running and draw(st.booleans()):
            end(producer)
            continue
        base = len(log.fates)
        last = base + draw(st.integers(min_value=0, max_value=4))
        present = RangeSet.between(base, last + 1) - draw(st.one_of(st.just(RangeSet()), range_sets()))
        add(_batch(base, last, present, producer), Fate.UNEXPLAINED)
        if producer is not None:
            running.setdefault(producer, (base, []))[1].extend(at for at in range(base, last + 1) if at in present)
    for producer in sorted(running):
        end(producer)
    at = len(log.fates)
    add(_batch(at, at, RangeSet.between(at, at + 1), None), Fate.UNEXPLAINED)
    return log


def _batch(base: int, last: int, present: RangeSet, producer: int | None, control: Control | None = None) -> Batch:
    return Batch(
        base_offset=base,
        last_offset=last,
        present=present,
        producer_id=producer,
        is_transactional=producer is not None,
        control=control,
    )


def _edges(batch: Batch) -> tuple[int, int]:
    return batch.range.start, batch.range.end


@given(log=logs(), asked=range_sets(), log_start=st.integers(0, 10), end_known=st.none() | st.integers(0, 70))
def test_every_offset_gets_exactly_one_fate(log: Log, asked: RangeSet, log_start: int, end_known: int | None) -> None:
    """Whatever was read, the explanations are sorted, disjoint, and together exactly what was asked."""
    found = explain(asked, log.batches, log.listed(0, len(log.fates)), log_start=log_start, end_known=end_known)
    assert RangeSet(item.range for item in found) == asked
    assert sum(item.range.span for item in found) == asked.span
    assert [item.range for item in found] == sorted(item.range for item in found)


@given(log=logs(), cuts=st.sets(st.integers(0, 70)), data=st.data())
def test_a_log_read_in_pieces_is_explained_as_it_is(log: Log, cuts: set[int], data: st.DataObject) -> None:
    """Reads may end behind any batch: each with its own list of aborted transactions says the truth of its offsets."""
    end = len(log.fates)
    asked = RangeSet.between(0, end) & data.draw(st.one_of(st.just(RangeSet.between(0, end)), range_sets()))
    found, start, pending = [], 0, list[Batch]()
    for batch in log.batches:
        pending.append(batch)
        if batch.last_offset in cuts or batch is log.batches[-1]:
            reached = batch.last_offset + 1
            here = asked & RangeSet.between(start, reached)
            found += explain(here, pending, log.listed(start, reached), log_start=0)
            start, pending = reached, []
    said = {at: item.fate for item in found for at in range(item.range.start, item.range.end)}
    assert said == {at: log.fates[at] for item in asked for at in range(item.start, item.end)}


@given(log=logs(), gaps=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), max_size=6))
def test_gaps_divide_what_was_said(log: Log, gaps: list[tuple[int, int]]) -> None:
    """Each gap, overlapping others or not, gets exactly its offsets with the fates they have."""
    ranges = [OffsetRange(start, start + span) for start, span in gaps]
    found = explain(RangeSet(ranges), log.batches, log.listed(0, len(log.fates)), log_start=0)
    whole = {at: item.fate for item in found for at in range(item.range.start, item.range.end)}
    for gap, part in divided(found, ranges).items():
        assert {at: item.fate for item in part for at in range(item.range.start, item.range.end)} == {
            at: whole[at] for at in range(gap.start, gap.end)
        }
        assert sum(item.range.span for item in part) == gap.span
