"""This package in a process that has done the same work before: its Spark runs, and has compiled what it needs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from airflow_kafka_lake.local.processes import LocalServerError, tail, wait_until
from bench.arms.arm import Start
from bench.arms.ours import Ours
from bench.arms.place import Place
from bench.arms.warm_server import WARMING

SERVER, CLIENT = (Path(__file__).with_name(f"warm_{part}.py") for part in ("server", "client"))
SOCKET = "warm.socket"
_READY_SECONDS = 1800
_END_SECONDS = 60


class OursWarm(Ours):
    """The server lands the topics in two other tables first, by other pipelines; then the measured command asks it."""

    name = "ours-warm"
    says = "the same in a process that has landed the topics twice before, in other tables, and has kept its Spark"
    start = Start.WARM

    @contextmanager
    def around(self, place: Place) -> Iterator[Sequence[int]]:
        for name in WARMING:
            place.write_pipeline(name, f"raw.{name}")
        log = place.home / "warm.log"
        with log.open("wb") as out:
            server = subprocess.Popen(
                [sys.executable, str(SERVER), str(place.home)],
                env=dict(place.environment),
                cwd=place.home,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

        def failed(why: str) -> LocalServerError:
            return LocalServerError(f"The warm process is not ready: {why}. The end of its log:\n{tail(log)}")

        def ready() -> bool:
            if server.poll() is not None:
                raise failed("it ended")
            return (place.home / SOCKET).exists()

        try:
            wait_until(ready, timeout=_READY_SECONDS, failed=failed)
            yield (server.pid,)
        finally:
            server.terminate()
            server.wait(_END_SECONDS)

    def command(self, place: Place) -> Sequence[str]:
        return [sys.executable, str(CLIENT), str(place.home / SOCKET)]
