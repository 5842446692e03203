"""Digests of a landing table's rows: equal fields have equal digests."""

from __future__ import annotations

from collections.abc import Mapping

FIELDS: Mapping[str, str] = {
    "key": "xxhash64(key IS NULL, length(key), key)",
    "value": "xxhash64(value IS NULL, length(value), value)",
    # Nulls leave a hash unchanged, so each part adds whether it is null, and its length. A null list of headers, as
    # Spark writes it, and an empty one are the same.
    "headers": "xxhash64(IF(headers IS NULL, 0, size(headers)), transform(headers, h -> struct("
    "h IS NULL AS a, h.key IS NULL AS b, length(h.key) AS c, h.key AS d, "
    "h.value IS NULL AS e, length(h.value) AS f, h.value AS g)))",
    "timestamp": ("xxhash64(kafka_timestamp IS NULL, unix_micros(kafka_timestamp), kafka_timestamp_raw)"),
    "timestamp type": "xxhash64(kafka_timestamp_type IS NULL, kafka_timestamp_type)",
}
"""Field → its digest, as an expression over a row of the landing table."""
