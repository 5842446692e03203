"""Offsets of many rows as runs, against counting them one by one."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_lake.adapters.iceberg.positions import Runs
from airflow_kafka_lake.core.errors import SchemaMismatchError

Position = tuple[str, str, int, int]
positions = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 2), st.integers(0, 12)))


def batch(rows: list[Position]) -> pa.RecordBatch:
    """Return positions as a data file would hold them."""
    names = ["kafka_topic", "kafka_topic_id", "kafka_partition", "kafka_offset"]
    types = [pa.string(), pa.string(), pa.int32(), pa.int64()]
    arrays = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(types)]
    return pa.record_batch(arrays, names=names)


@given(st.lists(positions, max_size=4))
def test_runs_say_what_counting_says(batches: list[list[Position]]) -> None:
    """Whatever the order and the batches, offsets and duplicates per stream are those of the rows."""
    counted: dict[tuple[str, str, int], Counter[int]] = {}
    for row in (row for rows in batches for row in rows):
        counted.setdefault(row[:3], Counter())[row[3]] += 1
    runs = Runs()
    for some in batches:
        runs.add(batch(some), "here")
    found = runs.contents()
    assert [(c.stream.topic, c.stream.topic_id, c.stream.partition) for c in found] == sorted(counted)
    for content in found:
        rows = counted[content.stream.topic, content.stream.topic_id, content.stream.partition]
        assert {offset for r in content.offsets for offset in range(r.start, r.end)} == set(rows)
        assert content.duplicates == rows.total() - len(rows)


def test_merged_runs_are_those_of_all_batches() -> None:
    """Files are read side by side and counted together."""
    both, other = Runs(), Runs()
    both.add(batch([("a", "x", 0, 0), ("a", "x", 0, 1)]), "here")
    other.add(batch([("a", "x", 0, 1), ("a", "x", 0, 2), ("b", "x", 0, 7)]), "there")
    both.merge(other)
    assert [(str(c.offsets), c.duplicates) for c in both.contents()] == [("0-3", 1), ("7-8", 0)]


def test_row_without_a_position_is_refused() -> None:
    """A null where a stream or an offset should be makes a row of no stream."""
    rows = pa.record_batch(
        [pa.array(["a"]), pa.array([None], pa.string()), pa.array([0], pa.int32()), pa.array([1])],
        names=["kafka_topic", "kafka_topic_id", "kafka_partition", "kafka_offset"],
    )
    with pytest.raises(SchemaMismatchError, match="here holds a row without kafka_topic_id"):
        Runs().add(rows, "here")
