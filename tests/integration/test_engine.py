"""Two hundred waves in real Sparks that are kept from wave to wave: how many are started, and what each uses over time.
Six minutes."""

from __future__ import annotations

import json
import math
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from airflow_kafka_lake.core.spark.job import MOST_JOBS, DriverAge
from airflow_kafka_lake.jobs.serve import WEAR_FILE
from airflow_kafka_lake.local.processes import wait_until
from tests.sandbox import Sandbox, drivers

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1500)]

WAVES, RUN_SECONDS = 2 * MOST_JOBS, 1200
SIZES = 'target_range_bytes = "10 KiB"\nmax_wave_bytes = "10 KiB"'
WARM_UP = MOST_JOBS // 4
"""After so many jobs a driver has loaded what it needs."""

HEAP, CLASSES, RESIDENT = 1.2, 1.02, 1.2
"""What later jobs may use, of what the first ones have used.

Measured in three drivers: what Java keeps goes up and down by a tenth, and is 1.03 to 1.06 times at most what it was
before; classes 1.0002 times; the process 1.05 to 1.08 times, ever more slowly, as the C library fills its arenas: 487
MB after one job, 547 after 25, 585 after 75, 591 after 100.

A job that leaves 300 kB in Java, 50 kB of classes, or 1 MB beside Java, is over a bound before its driver has run a
hundred.
"""


@dataclass
class Watched:
    """What is seen of a command's drivers: by pid, after so many jobs, what Java uses and how much is resident."""

    wear: dict[int, dict[int, DriverAge]] = field(default_factory=dict)
    resident: dict[int, dict[int, int]] = field(default_factory=dict)

    def watch(self, process: subprocess.Popen[str]) -> None:
        """Look until the command has ended."""
        wait_until(lambda: self._look(process), timeout=RUN_SECONDS, failed=AssertionError)

    def _look(self, process: subprocess.Popen[str]) -> bool:
        with suppress(OSError, psutil.Error):
            for driver in drivers(process.pid):
                wear = DriverAge.from_json(json.loads((Path(driver.cwd()) / WEAR_FILE).read_bytes()))
                self.wear.setdefault(driver.pid, {})[wear.jobs] = wear
                self.resident.setdefault(driver.pid, {})[wear.jobs] = driver.memory_info().rss
        return process.returncode is not None


def growth(used: dict[int, int]) -> float:
    """Return what the later jobs of a driver use, of what its first ones have used; 1 where there are no later ones.

    The very first does not count: nothing was collected after it.
    """
    first = max(size for jobs, size in used.items() if 1 < jobs <= WARM_UP)
    return max((size for jobs, size in used.items() if jobs > WARM_UP), default=first) / first


def test_two_hundred_waves_have_few_sparks_of_bounded_memory(sandbox: Sandbox) -> None:
    """What a driver uses does not grow with its jobs: neither what Java keeps after a collection, nor its classes, nor
    the process."""
    sandbox.write_pipeline(sizes=SIZES)
    sandbox.produce(20 * WAVES, size=500)
    watched = Watched()
    process = sandbox.start("run", str(sandbox.file), "--json")
    watching = threading.Thread(target=watched.watch, args=(process,))
    watching.start()
    ended = sandbox.end(process, timeout=RUN_SECONDS)
    watching.join()
    assert ended.code == 0, ended.err
    waves = len(ended.document["waves"])
    assert waves > WAVES - MOST_JOBS // 4, "about as many: they are cut by estimates"
    sandbox.assert_exact()
    assert len(watched.wear) <= math.ceil(waves / MOST_JOBS), "a driver for each hundred waves"
    assert sum(max(wear) for wear in watched.wear.values()) > WAVES - MOST_JOBS // 4, "the drivers were looked at"
    for pid, wear in watched.wear.items():
        assert growth({jobs: item.heap for jobs, item in wear.items()}) < HEAP, wear
        assert growth({jobs: item.metaspace for jobs, item in wear.items()}) < CLASSES, wear
        assert growth(watched.resident[pid]) < RESIDENT, watched.resident[pid]
