"""Commands forked from a parent that has imported everything: they start in milliseconds instead of two CPU seconds.

A forked command is the real command line in a process, a session and an environment of its own. What differs: it was
not started by exec, so the environment that its process began with is the parent's, and its Spark jobs go to the
long-living driver of `tests/warm/driver.py`. `python -m tests.warm.commands` is the parent, one JSON order per line;
with words it is that command itself.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
IMPORTED = (
    "airflow_kafka_lake.adapters.iceberg.table",
    "airflow_kafka_lake.adapters.kafka.source",
    "airflow_kafka_lake.adapters.kafka_batches",
    "airflow_kafka_lake.adapters.sql_ledger.ledger",
    "airflow_kafka_lake.cli.entry_point",
    "airflow_kafka_lake.wiring.assemble",
    "alembic.autogenerate",
    "alembic.command",
    "confluent_kafka.admin",
    "kafka",
    "pandas",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
    "requests",
    "sqlalchemy.dialects.postgresql.psycopg2",
    "sqlalchemy.dialects.sqlite",
    "sqlalchemy.orm",
)
"""What commands import on their way. None of it starts a thread, which a fork would leave behind."""


class WarmCommands:
    """The parent of forked commands, one for a test process; started by the first command."""

    def __init__(self) -> None:
        self._parent: subprocess.Popen[str] | None = None
        self._number = 0

    def run(self, words: Sequence[str], *, env: Mapping[str, str], home: Path, timeout: float) -> tuple[int, str, str]:
        """Run a command to its end in `home`; returns code (negative: the signal), stdout and stderr.

        Raises subprocess.TimeoutExpired after `timeout` seconds, with the command's whole session killed.
        """
        self._number += 1
        files = {name: home / f".warm-{os.getpid()}-{self._number}.{name}" for name in ("out", "err", "end")}
        os.mkfifo(files["end"])
        end = os.open(files["end"], os.O_RDONLY | os.O_NONBLOCK)
        try:
            order = {"words": list(words), "env": dict(env), "home": str(home)}
            pid = self._ordered(order | {name: str(path) for name, path in files.items()})
            if not select.select([end], [], [], timeout)[0]:
                os.killpg(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(words), timeout)
            code = int(os.read(end, 16))
            return code, files["out"].read_text(encoding="utf-8"), files["err"].read_text(encoding="utf-8")
        finally:
            os.close(end)
            for path in files.values():
                path.unlink(missing_ok=True)

    def _ordered(self, order: Mapping[str, Any]) -> int:
        parent = self._started()
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.write(json.dumps(order) + "\n")
        parent.stdin.flush()
        return int(parent.stdout.readline())

    def _started(self) -> subprocess.Popen[str]:
        if self._parent is None:
            self._parent = subprocess.Popen(
                [sys.executable, "-W", "ignore::RuntimeWarning:runpy", "-m", "tests.warm.commands"],
                cwd=ROOT,
                env={key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW")},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        return self._parent

    def close(self) -> None:
        """End the parent; what it has forked has ended."""
        if self._parent is not None:
            self._parent.communicate()
            self._parent = None


def perform(order: Mapping[str, Any]) -> int:
    """Be the ordered command; returns its exit code."""
    os.setsid()
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["home"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream, name in ((1, order["out"]), (2, order["err"])):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), stream)
    return kafka_lake(order["words"])


def kafka_lake(words: Sequence[str]) -> int:
    """Run a command whose jobs go to the warm driver."""
    from airflow_kafka_lake.adapters.spark_submit import runner as spark
    from airflow_kafka_lake.cli.entry_point import main
    from tests.warm.driver import SUBMIT, VARIABLE

    submit = Path(os.environ[VARIABLE]) / SUBMIT
    spark.SparkJobs = partial(spark.SparkJobs, spark_submit=submit)  # type: ignore[misc,assignment]
    return main(words)


def fork(order: Mapping[str, Any]) -> int:
    """Start a command below a process that tells its end; returns the command's pid."""
    read, write = os.pipe()
    if os.fork():
        os.close(write)
        with os.fdopen(read) as told:
            return int(told.readline())
    os.close(read)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    command = os.fork()
    if not command:
        os.close(write)
        _be(order)
    with os.fdopen(write, "w") as told:
        told.write(f"{command}\n")
    _, status = os.waitpid(command, 0)
    _tell(order["end"], os.waitstatus_to_exitcode(status))
    os._exit(0)


def _be(order: Mapping[str, Any]) -> None:
    """Be the command, and never return into the parent's loop."""
    code = 70
    try:
        code = perform(order)
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _tell(fifo: str, code: int) -> None:
    """Tell the end; the parent may not listen any more, when the test has given up."""
    with suppress(OSError):
        os.write(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK), str(code).encode())


def serve(orders: IO[str], answers: IO[str]) -> None:
    """Fork a command for each order, until there are no more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the child that tells an end is not waited for
    for line in orders:
        answers.write(f"{fork(json.loads(line))}\n")
        answers.flush()


if __name__ == "__main__":
    if words := sys.argv[1:]:
        sys.exit(kafka_lake(words))
    for module in IMPORTED:
        importlib.import_module(module)
    gc.freeze()  # no fork looks through it again, and so none copies it
    serve(sys.stdin, sys.stdout)
