"""Which tests run in one process, and in which order: files stay whole, and what takes long comes first.

A file's fixtures (a broker, a Spark, an Airflow) are then set up once. Files without such fixtures whose tests take
minutes together are divided. Durations are those of an earlier run; a file that has none yet counts as short.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from zlib import crc32

import pytest
from xdist.scheduler import LoadScopeScheduling

TESTS = Path(__file__).parent
DURATIONS = TESTS / "durations.json"
"""Seconds of each file in an earlier whole run, set-up and tear-down included: `pytest --record-durations`."""

DIVIDED: Mapping[str, int] = {
    "faults/test_matrix.py": 2,
    "properties/test_protocol.py": 2,
    "properties/test_stored_protocol.py": 2,
}
"""Files whose tests share nothing slow, and into how many lanes each is divided."""

TOGETHER: Mapping[str, str] = {
    "contracts/test_refusing_stores.py": "contracts/test_lying_catalogs.py",
    "integration/test_decoding_generated.py": "integration/test_stage.py",
    "integration/test_decoding_registered.py": "contracts/test_schema_registry.py",
    "integration/test_foreign_lake.py": "contracts/test_lying_catalogs.py",
}
"""Files that run in the lane of another one, with which they share what few others need: a schema registry, a lake of
another make, a Spark of one's own."""


def lane_of(nodeid: str) -> str:
    """Return the name of the lane that a test runs in."""
    file = _file(nodeid)
    parts = DIVIDED.get(file, 1)
    return TOGETHER.get(file, file) if parts == 1 else f"{file}-{crc32(nodeid.encode()) % parts}"


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0].removeprefix("tests/")


class LaneScheduling(LoadScopeScheduling):
    """Hands out whole lanes, in the order in which the tests were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return lane_of(nodeid)


def recorded() -> dict[str, float]:
    """Return the seconds of each file in the run on record."""
    return json.loads(DURATIONS.read_text(encoding="utf-8")) if DURATIONS.exists() else {}


def arrange(items: list[pytest.Item]) -> None:
    """Let the longest lanes begin first; inside a lane the order stays random."""
    seconds = recorded()
    weights: dict[str, float] = defaultdict(float)
    for file in {_file(item.nodeid) for item in items}:
        weights[TOGETHER.get(file, file)] += seconds.get(file, 0) / DIVIDED.get(file, 1)

    def place(item: pytest.Item) -> tuple[float, str]:
        file = _file(item.nodeid)
        return -weights[TOGETHER.get(file, file)], lane_of(item.nodeid)

    items.sort(key=place)


class Durations:
    """Adds up what each file took, and keeps it."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take one phase of one test."""
        self._seconds[_file(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the durations of the files that there are."""
        seconds = {**recorded(), **self._seconds}
        kept = {file: round(seconds[file], 1) for file in sorted(seconds) if (TESTS / file).exists()}
        DURATIONS.write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")
