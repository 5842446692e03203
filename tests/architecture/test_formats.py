"""The lake's format is known in one place of the adapters and in one of the jobs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.architecture

PACKAGE = Path(__file__).parents[2] / "airflow_kafka_lake"
SEAMS = ("adapters/iceberg/", "jobs/formats.py")
REGISTERED = {
    "hooks.py": "opens the adapter of a lake connection",
    "wiring/connections.py": "shows an example of a lake connection, and opens the adapter for a pipeline",
    "get_provider_info.py": "names the formats in the connection's form",
    "adapters/clients.py": "has the time-outs of all clients",
    "cli/entry_point.py": "says what the demonstration brings",
    "local/demo.py": "is the demonstration, and reads its table as any reader would",
}
"""Module → what it has to do with a format."""


def test_only_the_cutovers_know_the_format() -> None:
    """A second format is an adapter, the words of its SQL, and a line in each of a few named modules."""
    knowing = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search("iceberg", path.read_text(), re.IGNORECASE)
    }
    assert {name for name in knowing if not name.startswith(SEAMS)} - set(REGISTERED) == set()
