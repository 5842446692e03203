"""Explicit offsets in a file: `{"<topic>": {"<partition>": <offset>}}`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.spec import TOPIC_NAME
from airflow_kafka_lake.pipeline.units import MAX_OFFSET, shown

MAX_FILE_BYTES = 16 * 1024 * 1024
"""Half a million partitions fit; a file beyond this is not an offsets file."""

OFFSETS_FORM = '{"<topic>": {"<partition>": <offset>}}'

_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}")
_MAX_PARTITION = 2**31 - 1


class _RepeatedKeyError(ValueError):
    """A JSON object has a key twice: the parser would silently keep the last one."""


def read_text_file(path: Path, limit: int) -> str:
    """Read a regular UTF-8 file of at most `limit` bytes; UsageError with the reason otherwise."""
    try:
        # A pipe or device would block or never end.
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is not a regular file.", file=str(path))
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist.", file=str(path)) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the path holds a NUL"
        raise UsageError(f"{str(path)!r} cannot be read: {reason}.", file=str(path)) from None
    if len(data) > limit:
        raise UsageError(f"{path} is larger than {limit} bytes.", file=str(path))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 (byte {error.start}).", file=str(path)) from None


def read_offsets_file(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Return the file's `(topic, partition, offset)`, sorted; UsageError names file, place and what is legal."""
    text = read_text_file(path, MAX_FILE_BYTES)
    try:
        data = json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise UsageError(f"{path} is not JSON: {error.msg} at {place}.", file=str(path)) from None
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, _RepeatedKeyError) else "it holds a number or nesting beyond reason"
        raise UsageError(f"{path} is not usable JSON: {reason}.", file=str(path)) from None
    try:
        found = tuple(sorted(_entries(data)))
    except ValueError as error:
        raise UsageError(f"{path}: {error}; the file must be {OFFSETS_FORM}.", file=str(path)) from None
    if not found:
        raise UsageError(f"{path} names no partition; the file must be {OFFSETS_FORM}.", file=str(path))
    return found


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result: dict[str, object] = {}
    for key, value in pairs:
        if key in result:
            raise _RepeatedKeyError(f"the key {shown(key)} occurs twice")
        result[key] = value
    return result


def _entries(data: object) -> Iterator[tuple[str, int, int]]:
    for topic, partitions in _object(data, "the file").items():
        if not TOPIC_NAME.fullmatch(topic):
            raise ValueError(f"{shown(topic)} is not a topic name")
        for partition, offset in _object(partitions, f"topic {topic}").items():
            if not _PARTITION.fullmatch(partition) or int(partition) > _MAX_PARTITION:
                raise ValueError(f"topic {topic}: {shown(partition)} is not a partition number")
            if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset <= MAX_OFFSET:
                raise ValueError(f"topic {topic}, partition {partition}: {shown(offset)} is not an offset")
            yield topic, int(partition), offset


def _object(value: object, what: str) -> dict[str, object]:
    if isinstance(value, dict):
        return value
    raise ValueError(f"{what} holds {shown(value)} where an object belongs")
