"""Read no faster than asked: each record costs its task the time that its bytes may take.

A shared consumer sleeps by itself (`SharedConsumer.java`), also for what Kafka sends and is no record. Spark's Kafka
source has no rate of its own in a batch read, but a task fetches only what its plan takes from it, so a filter that
sleeps keeps the Kafka client from fetching. It sleeps in SQL, by Java's own `Thread.sleep`, and needs neither Python
workers nor a class of ours on the executors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FEWEST_PER_TASK = 250_000
"""Bytes per second of one task: with fewer, a large record would keep it silent for long."""

LONGEST_SLEEP_MS = 60_000
"""What one record costs at most: far below the time after which a silent job counts as hanging."""

SHORTEST_SLEEP_MS = 20
"""Shorter sleeps are drawn: one record of several sleeps so long, so that all together sleep as long as they should."""

OVERHEAD_BYTES = 16
"""What a record counts beside key, value and headers, so that empty ones cost something too."""

LEAST_FETCH, MOST_FETCH = 64 * 1024, 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How many tasks a job has, all of which read at the same time, and how many bytes per second each of them."""

    tasks: int
    rate: int


def pace_of(spark: Any, rate: int, tasks: int) -> Pace:
    """Return the pace of a job of so many tasks: as few as run at the same time, so that each has its share of the rate
    from begin to end. With more of them it would not be known how many read at once."""
    count = readers(rate, cores_of(spark), tasks)
    return Pace(tasks=count, rate=max(1, rate // count))


def readers(rate: int, cores: int, tasks: int) -> int:
    """Return how many tasks read at the same time: no more than have a core each: together they have the rate."""
    return max(1, min(cores, tasks, rate // FEWEST_PER_TASK))


def fetch_bytes(rate: int) -> int:
    """Return how much of a partition one fetch may bring: a second of a task's rate, because the client reads ahead."""
    return min(max(rate, LEAST_FETCH), MOST_FETCH)


def paced(records: DataFrame, rate: int) -> DataFrame:
    """Return the same records, of which no task takes more than so many bytes per second on average."""
    return records.where(condition(rate))


def condition(rate: int) -> str:
    """Return the SQL condition that holds for every record, and takes as long as its bytes may."""
    headers = "aggregate(headers, 0L, (n, h) -> n + octet_length(h.key) + coalesce(octet_length(h.value), 0))"
    size = (
        f"{OVERHEAD_BYTES} + coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0) + coalesce({headers}, 0)"
    )
    cost = f"(({size}) * 1000D / {int(rate)})"
    sleep = "reflect('java.lang.Thread', 'sleep', {})"
    long = sleep.format(f"CAST(least({cost}, {LONGEST_SLEEP_MS}D) AS BIGINT)")
    short = sleep.format(f"{SHORTEST_SLEEP_MS}L")
    drawn = f"IF(rand() < {cost} / {SHORTEST_SLEEP_MS}, {short}, '')"
    # `reflect` is never null and never this text; the optimizer keeps what is not deterministic where it stands.
    return f"IF({cost} >= {SHORTEST_SLEEP_MS}, {long}, {drawn}) <> 'awake'"


def cores_of(spark: Any) -> int:
    """Return how many tasks run at the same time; one where the session does not say (Spark Connect)."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001  # whatever a session without a context raises: one task is never too fast
        return 1
