"""Offsets of many rows as runs, against counting them one by one."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_lake.adapters.iceberg.rows import Runs, runs_of
from airflow_kafka_lake.core.errors import SchemaMismatchError

Position = tuple[str, str, int, int]
Written = tuple[str | None, str | None, int | None, int | None, str | None]
position = (st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 2), st.integers(0, 12))
positions = st.lists(st.tuples(*position))
written = st.lists(st.tuples(*map(st.none().__or__, position), st.sampled_from([None, "", "1st", "2nd"])))


def batch(rows: list[Position] | list[Written], *, coded: bool = False) -> pa.RecordBatch:
    """Return positions as a data file would hold them; `coded` texts are codes."""
    names = ["kafka_topic", "kafka_topic_id", "kafka_partition", "kafka_offset", "ingest_attempt"]
    text = pa.dictionary(pa.int32(), pa.string()) if coded else pa.string()
    types = [text, text, pa.int32(), pa.int64(), text]
    columns = {name: pa.array([row[i] for row in rows if len(row) > i], types[i]) for i, name in enumerate(names)}
    return pa.RecordBatch.from_pydict({name: column for name, column in columns.items() if len(column) == len(rows)})


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


@given(st.lists(st.tuples(written, st.booleans()), max_size=4), st.none() | st.sets(st.sampled_from("xyz")))
def test_runs_of_attempts_say_what_counting_says(
    batches: list[tuple[list[Written], bool]], topic_ids: set[str] | None
) -> None:
    """Each attempt's rows of the asked topics are counted by stream; rows without a position are nobody's."""
    counted: dict[tuple[object, ...], Counter[int]] = {}
    for topic, topic_id, partition, offset, attempt in (row for rows, _ in batches for row in rows):
        if None in {topic, topic_id, partition, offset} or (topic_ids is not None and topic_id not in topic_ids):
            continue
        assert offset is not None
        counted.setdefault((attempt or "", topic, topic_id, partition), Counter())[offset] += 1
    found = runs_of((batch(rows, coded=coded) for rows, coded in batches), "here", topic_ids).attempt_rows()
    assert [(item.attempt or "", *item.stream) for item in found] == sorted(counted)
    for item in found:
        rows = counted[item.attempt or "", *item.stream]
        assert item.attempt != ""
        assert {offset for r in item.offsets for offset in range(r.start, r.end)} == set(rows)
        assert item.duplicates == rows.total() - len(rows)


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
