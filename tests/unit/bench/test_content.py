"""Two contents have equal numbers when they are equal, and only then."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from bench.content import Content, of_table

ROWS = [("a", 0, 0, b"k", b"one"), ("a", 0, 1, None, b"two"), ("a", 1, 0, b"", b""), ("b", 0, 0, b"k", None)]


def content(rows: list[tuple]) -> Content:
    topics, partitions, offsets, keys, values = map(list, zip(*rows, strict=True))
    found = Content()
    found.add(
        {
            "topic": topics,
            "partition": np.array(partitions, dtype=np.int64),
            "offset": np.array(offsets, dtype=np.int64),
            "key": keys,
            "value": values,
        }
    )
    return found


def test_order_and_batches_do_not_matter() -> None:
    """A table's rows come in any order, and in pieces."""
    whole, pieces = content(ROWS), Content()
    for row in reversed(ROWS):
        one = content([row])
        pieces.rows += one.rows
        pieces.sums = {name: (pieces.sums.get(name, 0) + value) % 2**64 for name, value in one.sums.items()}
    assert (whole.rows, whole.sums) == (pieces.rows, pieces.sums)
    assert whole.problem(content(ROWS[::-1]), ["key", "value"]) is None


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (ROWS[1:], "3 rows instead of 4"),
        ([*ROWS, ROWS[0]], "5 rows instead of 4"),
        ([ROWS[0], *ROWS[:3]], "position, value"),
        ([("a", 0, 0, b"k", b"One"), *ROWS[1:]], "value"),
        ([("a", 0, 2, b"k", b"one"), *ROWS[1:]], "position, value"),
        ([("b", 1, 1, b"k", b"one"), *ROWS[1:]], "position, value"),
        ([("a", 0, 0, b"k", b"two"), ("a", 0, 1, None, b"one"), *ROWS[2:]], "value"),
    ],
)
def test_any_difference_is_found(rows: list[tuple], problem: str) -> None:
    """A row that is missing, twice, moved, changed or exchanged with another."""
    found = content(ROWS).problem(content(rows), ["value"])
    assert found is not None
    assert found.startswith(problem)


def test_keys_are_compared_where_an_arm_has_them() -> None:
    """A column that an arm does not land is no difference; one that it lands wrongly is."""
    other = [(topic, partition, offset, b"x", value) for topic, partition, offset, _, value in ROWS]
    assert content(ROWS).problem(content(other), ["value"]) is None
    assert content(ROWS).problem(content(other), ["key", "value"]) == "key: not what the topics hold"


class Table:
    """A table that holds Arrow rows."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows

    def scan(self, selected_fields: tuple[str, ...]) -> Table:
        return Table(self.rows.select(selected_fields))

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        return self.rows.to_reader(max_chunksize=3)


def test_a_table_is_read_as_the_topic_is() -> None:
    """Arrow's columns, also of narrower numbers, have the numbers of the messages."""
    columns = [*zip(*ROWS, strict=True)]
    arrow = pa.table(
        {
            "kafka_topic": pa.array(columns[0], pa.string()),
            "kafka_partition": pa.array(columns[1], pa.int32()),
            "kafka_offset": pa.array(columns[2], pa.int64()),
            "key": pa.array(columns[3], pa.binary()),
            "value": pa.array(columns[4], pa.large_binary()),
        }
    )
    names = {"topic": "kafka_topic", "partition": "kafka_partition", "offset": "kafka_offset"}
    found = of_table(Table(arrow), names | {"key": "key", "value": "value"})
    assert content(ROWS).problem(found, ["key", "value"]) is None
