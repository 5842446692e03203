"""One Kafka for all processes of a test run: `python -m tests.warm.broker FILE` is it, until standard input ends.

FILE tells its address and folder while it answers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Self

from airflow_kafka_lake.local.kafka import LocalKafka

STAYS_OPEN = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000"}
"""A coordinator that never looks for overdue transactions: what it forgets to end hangs."""
KEEPS_ALL = dict.fromkeys(("log.retention.check.interval.ms", "log.initial.task.delay.ms"), str(24 * 3600 * 1000))
"""Settings of a broker that never looks for what retention may delete, which by itself it does 30 s after its start:
some tests write records of years ago, and read them."""


class SharedKafka(LocalKafka):
    """The broker that another process has started; this one uses its address, its folder and its tools."""

    def __init__(self, bootstrap: str, data_dir: Path) -> None:
        super().__init__(data_dir=data_dir)
        self._ports["PLAINTEXT"] = int(bootstrap.rpartition(":")[2])

    @classmethod
    def of(cls, file: Path) -> Self:
        """Return the broker that a file tells of."""
        bootstrap, folder = json.loads(file.read_text(encoding="utf-8"))
        return cls(bootstrap, Path(folder))

    def start(self) -> Self:
        """Refuse: it is for tests that never start or stop it."""
        raise AssertionError("other tests use this broker: start one of your own")

    def stop(self) -> None:
        """Refuse, as `start` does."""
        self.start()


def main(file: Path) -> None:
    """Be the broker."""
    with LocalKafka(settings=KEEPS_ALL | STAYS_OPEN) as broker:
        unread = file.with_suffix(".new")
        unread.write_text(json.dumps([broker.bootstrap, str(broker.data_dir)]), encoding="utf-8")
        unread.rename(file)
        sys.stdin.read()
    file.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
