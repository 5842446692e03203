"""A driver's program beside its Java: its errors ask that Java for their text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from airflow_kafka_lake.jobs.java import BESIDE_JAVA

pytestmark = pytest.mark.unit

JAVA = (sys.executable, "-c", "import sys; sys.stdin.read()")
"""A process that lives, as Java does, until its input ends."""
PROGRAM = """
from airflow_kafka_lake.jobs import java

class JavaError(Exception):
    def __str__(self):
        assert java._beside[0].poll() is None
        return "Permission denied"

raise JavaError
"""


def test_error_of_java_is_told_by_its_own_text(tmp_path: Path) -> None:
    """It is what a missing permission, or a full disk, is recognised by; then the driver has failed, and Java ends."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-c", BESIDE_JAVA, str(program), str(tmp_path / "request"), *JAVA]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "JavaError: Permission denied"
