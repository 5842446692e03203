"""Run the command line in a process whose clock is wrong by some seconds: `wrong_clock.py SECONDS WORD…`.

Only what this process sees of the time is shifted; the machine, the databases and Spark keep the right time.
"""

from __future__ import annotations

import sys
import time


def shift(seconds: float) -> None:
    """Let `time.time`, `time.time_ns` and the product's clock answer that much later."""
    from datetime import timedelta

    from airflow_kafka_lake.adapters.machine import SystemClock

    right, right_ns, now = time.time, time.time_ns, SystemClock.now
    time.time = lambda: right() + seconds
    time.time_ns = lambda: right_ns() + int(seconds * 1e9)
    SystemClock.now = lambda self: now(self) + timedelta(seconds=seconds)  # type: ignore[method-assign]


if __name__ == "__main__":
    shift(float(sys.argv.pop(1)))
    from airflow_kafka_lake.cli.entry_point import main

    sys.exit(main())
