"""`kafka-lake`: one command table, two front doors (this one, and `airflow kafka-lake`)."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (WIRE: 0 done, 1 refused, 2 usage, 3 repeat, 4 unknown)."""
    from airflow_kafka_lake.cli.front import run_command_line

    return run_command_line(argv)
