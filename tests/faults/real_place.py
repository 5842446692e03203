"""The place of a user: the real command line, a real broker, real Spark jobs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil

from airflow_kafka_lake.local.processes import wait_until
from tests import warm
from tests.faults.place import TABLE, CatalogServer, Ended, Place, Started
from tests.faults.standing_kafka import Acknowledged
from tests.faults.tasks import TASKS
from tests.kit import arming
from tests.sandbox import CLI_SECONDS, HOME, Sandbox, assert_nothing_left, driver_of, end_all, numbered

WAIT_SECONDS = 120


class RealPlace(Place):
    """A topic of its own on a real broker, with plain, committed and aborted records.

    In a `warm` place, commands that nothing is armed for are forked, and their jobs go to a warm driver; one such place
    at a time.
    """

    def __init__(
        self, folder: Path, bootstrap: str, server: CatalogServer | None = None, *, warm: bool = False
    ) -> None:
        self._bootstrap, self._warm = bootstrap, warm
        self._producer = Sandbox(folder / "producer", bootstrap)
        self._producer.produce(40)
        self._producer.transaction(6, commit=True)
        self._producer.transaction(6, commit=False)
        self._producer.produce(10, begin=40)
        super().__init__(folder, self._producer.topic, server)
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._marks: dict[int, Mapping[str, str]] = {}
        self._drivers: dict[int, int] = {}
        self.file.write_text(
            f'[pipeline]\nname = "{self.name}"\n[source]\ntopics = ["{self.topic}"]\n[lake]\ntable = "{TABLE}"\n'
            '[spark]\nconnection = "spark_default"\n'
        )

    @property
    def acknowledged(self) -> Acknowledged:
        return self._producer.acknowledged

    @cached_property
    def ends(self) -> dict[int, int]:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "ends"})
        numbers = range(self._producer.partitions)
        found = {n: consumer.get_watermark_offsets(TopicPartition(self.topic, n), timeout=30)[1] for n in numbers}
        consumer.close()
        return found

    def connections(self) -> dict[str, Any]:
        return {
            "KAFKA_DEFAULT": {"conn_type": "kafka", "extra": {"bootstrap.servers": self._bootstrap}},
            "SPARK_DEFAULT": {"conn_type": "spark", "host": "local[2]"},
        }

    def command(self, *words: str, traps: str = "", trace: bool = False) -> Ended:
        """Run a command until it ends or is stopped."""
        if traps or words[0] in TASKS or not self._warm:
            return super().command(*words, traps=traps, trace=trace)
        number = numbered()
        given = self.environment | {HOME: str(self.home)} | number
        ended = Ended(words, *warm.command(words, env=given, home=self.home, timeout=CLI_SECONDS))
        assert ended.code is not None
        assert_nothing_left(self.home, number, ended.code)
        return ended

    def launch(self, words: tuple[str, ...], files: tuple[Path, Path], traps: str, *, trace: bool) -> Started:
        assert not trace, "crossings are counted in a forked place"
        number = numbered()
        armed = arming.environment(traps=traps, diary=self.diary)
        program = "tests.faults.tasks" if words[0] in TASKS else "airflow_kafka_lake.cli"
        with files[0].open("wb") as out, files[1].open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", program, *words],
                env=self.environment | {HOME: str(self.home)} | number | armed,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self._running[process.pid] = process
        self._marks[process.pid] = number
        return Started(words, process.pid, files)

    def code(self, started: Started) -> int | None:
        _, status = os.waitpid(started.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            return None
        process = self._running.pop(started.pid)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert_nothing_left(self.home, self._marks.pop(started.pid), process.returncode)
        return process.returncode

    def stopped(self, started: Started) -> None:
        """Wait until the command has stopped, or its driver; then the command is stopped beside it."""

        def sprung() -> bool:
            assert psutil.Process(started.pid).status() != psutil.STATUS_ZOMBIE, self.end(started)
            return bool(self.sprung())

        wait_until(sprung, timeout=WAIT_SECONDS, failed=AssertionError)
        if self.sprung()[0].startswith("driver."):
            self._drivers[started.pid] = self._stopped_driver()
            os.kill(started.pid, signal.SIGSTOP)
        super().stopped(started)

    def resume(self, started: Started) -> Ended:
        """Continue the driver first, if it was stopped: it finishes what it was told to, also without its parent."""
        with suppress(ProcessLookupError, KeyError):
            os.killpg(self._drivers.pop(started.pid), signal.SIGCONT)
        return super().resume(started)

    def close(self) -> None:
        """End what a case that is red has left."""
        end_all(self.home)
        for process in self._running.values():
            process.wait()
        self._producer.close()

    def _stopped_driver(self) -> int:
        ledger = self.ledger()
        jobs = [item.job for wave in ledger.waves(self.name) for item in ledger.attempts(wave.id) if item.job]
        ledger.close()
        driver = driver_of(jobs[-1])
        wait_until(lambda: driver.status() == psutil.STATUS_STOPPED, timeout=WAIT_SECONDS, failed=AssertionError)
        return driver.pid


@contextmanager
def real_places(folder: Path, servers: Sequence[CatalogServer | None]) -> Iterator[Iterator[RealPlace]]:
    """Start a broker and make a place beside it for each catalog."""
    from airflow_kafka_lake.adapters.jars.cache import JarSet, fetch
    from airflow_kafka_lake.local.kafka import LocalKafka

    for jars in (JarSet.SPARK, JarSet.S3):
        fetch(jars)
    with LocalKafka() as broker, ExitStack() as stack:
        yield (
            stack.enter_context(closing(RealPlace(folder / str(number), broker.bootstrap, server)))
            for number, server in enumerate(servers)
        )
