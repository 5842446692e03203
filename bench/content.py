"""What a topic or a table holds, as numbers that do not depend on any order: equal contents have equal numbers.

Each row's hash of topic, partition, offset and one column is added up, a sum for each column. A row that is missing,
twice, at another offset or with other bytes changes the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

POSITION = ("topic", "partition", "offset")
_ODD = np.uint64(0x9E3779B97F4A7C15)
_MASK = (1 << 64) - 1
Columns = Mapping[str, Sequence[Any]]


@dataclass(slots=True, kw_only=True)
class Content:
    """Rows, their bytes in `value`, and a sum for each column; the column `position` is the three above alone."""

    rows: int = 0
    sums: dict[str, int] = field(default_factory=dict)

    def add(self, columns: Columns) -> None:
        """Add rows, given as columns: the position's three, and any others."""
        position = _mixed(_hashed(columns["topic"]) * _ODD ^ _hashed(columns["partition"]))
        position = _mixed(position * _ODD ^ _hashed(columns["offset"]))
        self._sum("position", position)
        for name, values in columns.items():
            if name not in POSITION:
                self._sum(name, _mixed(position ^ (_hashed(values) * _ODD)))
        self.rows += len(position)

    def _sum(self, name: str, hashes: np.ndarray) -> None:
        self.sums[name] = (self.sums.get(name, 0) + int(hashes.sum(dtype=np.uint64))) & _MASK

    def problem(self, found: Content, columns: Iterable[str]) -> str | None:
        """Return how another content differs in the columns that it must have; None where it does not."""
        if found.rows != self.rows:
            return f"{found.rows:,} rows instead of {self.rows:,}"
        wrong = [name for name in ("position", *columns) if found.sums.get(name) != self.sums[name]]
        return f"{', '.join(wrong)}: not what the topics hold" if wrong else None


def _hashed(values: Sequence[Any]) -> np.ndarray:
    """Hash numbers by themselves, and everything else by its bytes."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        return _mixed(values.astype(np.uint64))
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return _mixed(values.astype(np.float64).view(np.uint64))
    if isinstance(values, np.ndarray) and values.dtype == object:
        objects = values
    else:
        objects = np.empty(len(values), dtype=object)
        objects[:] = values
    from pandas.util import hash_array  # seconds to import, and pages of documents need none of it

    return hash_array(objects, categorize=False)


def _mixed(hashes: np.ndarray) -> np.ndarray:
    for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53), (33, 1)):
        hashes = (hashes ^ (hashes >> np.uint64(shift))) * np.uint64(factor)
    return hashes


def of_table(table: Any, columns: Mapping[str, str]) -> Content:
    """Return what an Iceberg table holds; `columns` say how it calls the position's columns, and others."""
    found = Content()
    scan = table.scan(selected_fields=tuple(columns.values()))
    for batch in scan.to_arrow_batch_reader():
        found.add({name: _numpy(batch.column(theirs)) for name, theirs in columns.items()})
    return found


def _numpy(column: Any) -> np.ndarray:
    return column.to_numpy(zero_copy_only=False)
