"""Explicit offsets in a file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.pipeline.keys import MAX_OFFSETS_FILE_BYTES, read_offsets_file

pytestmark = pytest.mark.unit


def _file(folder: Path, text: str | bytes) -> Path:
    path = folder / "offsets.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_offsets_are_read_sorted(tmp_path: Path) -> None:
    """Partitions sort as numbers."""
    text = json.dumps({"b": {"0": 1}, "a": {"10": 2**63 - 1, "9": 0}})
    assert read_offsets_file(_file(tmp_path, text)) == (("a", 9, 0), ("a", 10, 2**63 - 1), ("b", 0, 1))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "is not JSON: Expecting value at line 1, column 1"),
        ('{"a":\n {"0": }}', "is not JSON: Expecting value at line 2, column 8"),
        ('{"a": {"0": 1}, "a": {"0": 2}}', "the key 'a' occurs twice"),
        ('{"a": {"0": 1, "0": 2}}', "the key '0' occurs twice"),
        ("[]", "the file holds a value of type list where an object belongs"),
        ("{}", "names no partition"),
        ('{"a": {}}', "names no partition"),
        ('{"a": 3}', "topic a holds 3 where an object belongs"),
        ('{"a b": {"0": 1}}', "'a b' is not a topic name"),
        ('{"a\\n": {"0": 1}}', "'a\\n' is not a topic name"),
        ('{"a": {"-1": 1}}', "topic a: '-1' is not a partition number"),
        ('{"a": {"01": 1}}', "topic a: '01' is not a partition number"),
        ('{"a": {"1.0": 1}}', "topic a: '1.0' is not a partition number"),
        ('{"a": {"٣": 1}}', "is not a partition number"),
        ('{"a": {"2147483648": 1}}', "topic a: '2147483648' is not a partition number"),
        ('{"a": {"0": -1}}', "topic a, partition 0: -1 is not an offset"),
        ('{"a": {"0": true}}', "topic a, partition 0: true is not an offset"),
        ('{"a": {"0": 1.0}}', "topic a, partition 0: 1.0 is not an offset"),
        ('{"a": {"0": "1"}}', "topic a, partition 0: '1' is not an offset"),
        ('{"a": {"0": null}}', "is not an offset"),
        ('{"a": {"0": NaN}}', "nan is not an offset"),
        ('{"a": {"0": 9223372036854775808}}', "a number beyond 64 bits is not an offset"),
        (f'{{"a": {{"0": {"9" * 5000}}}}}', "a number or nesting beyond reason"),
        ("[" * 200_000, "a number or nesting beyond reason"),
        (b"\xff\xfe\x00", "is not UTF-8"),
        (b" " * (MAX_OFFSETS_FILE_BYTES + 1), "is larger than"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bad_content_is_a_clear_refusal(text: str | bytes, part: str, tmp_path: Path) -> None:
    """The file, the place in it and what is wrong."""
    path = _file(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read_offsets_file(path)
    assert str(path) in caught.value.message
    assert part in caught.value.message


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A folder, a pipe and nothing at all."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "nowhere", tmp_path / "a\0b"):
        with pytest.raises(UsageError):
            read_offsets_file(path)
