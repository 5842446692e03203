"""One Spark driver for many jobs: it runs what `spark-submit` would have run, the same `main` of the same job module.

`python -m tests.warm.driver SOCKET` is the driver. A script beside the socket stands in the place of `spark-submit`: it
hands the words of a submit to the driver, prints what the job logs, and ends as the job ends; when it is killed, its
job is cancelled. Each job gets a Spark session of its own, with the catalog of its properties file.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import re
import shutil
import socket
import socketserver
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
VARIABLE = "TESTS_SPARK_DRIVER"
"""Names the driver's folder, in the environment of a command and of its submits."""

SECONDS = 60
BROKER_SECONDS = 180
"""What a broker's files and its start may take (`local/kafka.py`)."""
SOCKET, SUBMIT, PIPE, BROKER = "socket", "spark-submit", "pipe", "broker.json"
"""What is in that folder; the broker stands beside the driver, and lives as long."""

SCRIPT = f"""#!{sys.executable} -S
import importlib.util, sys
spec = importlib.util.spec_from_file_location("driver", {__file__!r})
driver = importlib.util.module_from_spec(spec)
spec.loader.exec_module(driver)
sys.exit(driver.submit(sys.argv[1:]))
"""

OWN = re.compile(r"spark\.sql\.catalog\.lake(\.|$)")
"""Settings that differ from job to job; all others are the driver's own."""


class WarmDriver:
    """The driver's process, one for all processes of a test run; started by the first command.

    It ends with the process that has opened its folder, which holds a pipe open that the driver reads.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._held = -1

    def open(self) -> None:
        """Make the place of the driver, which this process and those that it starts share."""
        self._folder = Path(tempfile.mkdtemp(prefix="kafka-lake-driver-"))
        os.mkfifo(self._folder / PIPE)
        self._held = os.open(self._folder / PIPE, os.O_RDWR)
        script = self._folder / SUBMIT
        script.write_text(SCRIPT, encoding="utf-8")
        script.chmod(0o700)
        os.environ[VARIABLE] = str(self._folder)

    def environment(self) -> dict[str, str]:
        """Return what a command needs in its environment to find the driver."""
        folder = self._with(SOCKET, "tests.warm.driver", SECONDS)
        return {VARIABLE: str(folder)}

    def broker(self) -> Path:
        """Return the file that tells of the run's broker."""
        return self._with(BROKER, "tests.warm.broker", BROKER_SECONDS) / BROKER

    def _with(self, name: str, module: str, seconds: float) -> Path:
        """Return the folder, once the program that serves under a name there does so."""
        from airflow_kafka_lake.local.processes import wait_until

        if VARIABLE not in os.environ:
            self.open()
        folder = Path(os.environ[VARIABLE])
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / name).exists():
                self._start(folder, name, module)
                wait_until((folder / name).exists, timeout=seconds, failed=AssertionError)
        return folder

    @staticmethod
    def _start(folder: Path, name: str, module: str) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW")}
        with (folder / f"{name}.log").open("wb") as log, (folder / PIPE).open("rb") as pipe:
            # It may outlive this process: nobody waits for it as for a child.
            os.posix_spawn(
                sys.executable,
                [sys.executable, "-m", module, str(folder / name)],
                kept | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, pipe.fileno(), 0),
                    (os.POSIX_SPAWN_DUP2, log.fileno(), 1),
                    (os.POSIX_SPAWN_DUP2, log.fileno(), 2),
                ],
                setsid=True,
            )

    def sql(self, settings: Mapping[str, str], statements: Sequence[str]) -> tuple[int, str]:
        """Run statements with a catalog's settings; returns 0 and the last one's rows as JSON, or 1 and the error."""
        return self._asked(settings, {"statements": list(statements)})

    def append(self, settings: Mapping[str, str], table: str, attempt: str, select: str) -> tuple[int, str]:
        """Do to an attempt's branch what the staging job does, with a query's rows; returns as `sql` does."""
        return self._asked(settings, {"append": {"table": table, "attempt": attempt, "select": select}})

    def _asked(self, settings: Mapping[str, str], order: Mapping[str, Any]) -> tuple[int, str]:
        return handed({"settings": dict(settings), **order}, self.environment()[VARIABLE])

    def close(self) -> None:
        """End the driver, in the process that has opened its folder."""
        if self._folder is None:
            return
        from airflow_kafka_lake.local.processes import wait_until

        os.close(self._held)
        del os.environ[VARIABLE]
        wait_until(lambda: not self._serves(), timeout=SECONDS, failed=AssertionError)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

    def _serves(self) -> bool:
        return self._folder is not None and any((self._folder / name).exists() for name in (SOCKET, BROKER))


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    spark: SparkSession


class _Job(socketserver.StreamRequestHandler):
    """One submit: its job's log lines, then a line with the exit code behind a NUL."""

    server: _Server

    def handle(self) -> None:
        order = json.loads(self.rfile.readline())
        _mine.group = f"job-{threading.get_ident()}-{id(self)}"
        _in_group(self.server.spark)
        threading.Thread(target=self._cancelled, args=(_mine.group,), daemon=True).start()
        try:
            code, said = 0, perform(self.server.spark, order)
        except Exception:  # noqa: BLE001 - as a driver ends: the traceback in its log, and a code
            code, said = 1, traceback.format_exc()
        with suppress(OSError):
            self.wfile.write(f"{said}\0{code}\n".encode())

    def _cancelled(self, group: str) -> None:
        """Cancel the job when its submit is gone."""
        with suppress(OSError):
            self.connection.recv(1)
        with suppress(Exception):
            self.server.spark.sparkContext.cancelJobGroup(group)


_mine = threading.local()


def _in_group(spark: SparkSession) -> None:
    """Have what this thread's submit does cancelled with it."""
    spark.sparkContext.setJobGroup(_mine.group, "one submit", interruptOnCancel=True)


@contextmanager
def own_session(*_: object) -> Iterator[SparkSession]:
    """Yield the session of this thread's submit, where a driver would open one."""
    yield _mine.session


def stand_in() -> None:
    """Have the jobs' programs, and the warm driver's, take the sessions of this driver; it is not measured."""
    from airflow_kafka_lake.core.spark.job import DriverAge
    from airflow_kafka_lake.jobs import driver, serve

    session_of_its_own = serve.session_of_a_job

    @contextmanager
    def session_of_a_job(base: SparkSession, name: str) -> Iterator[SparkSession]:
        with session_of_its_own(base, name) as session:
            _set(session, _mine.settings)
            _in_group(session)
            yield session

    driver.session = serve.session = own_session
    serve.session_of_a_job = session_of_a_job
    serve.wear_of = lambda _, jobs, seconds: DriverAge(jobs=jobs, seconds=seconds, heap=0, heap_most=1, metaspace=0)


def _set(session: SparkSession, settings: Mapping[str, str]) -> None:
    for key, value in settings.items():
        if OWN.match(key):
            session.conf.set(key, value)


def _run(script: str, request: str, spark: SparkSession) -> None:
    """Run a job's program as a driver of its own does, and the warm driver's as that does."""
    from airflow_kafka_lake.jobs import driver, serve

    package = Path(importlib.import_module("airflow_kafka_lake").__path__[0])
    module = importlib.import_module(".".join(Path(script).with_suffix("").relative_to(package.parent).parts))
    group = _mine.group
    if module is serve:
        serve.main([request], end=lambda: spark.sparkContext.cancelJobGroup(group))
    else:
        driver.run([request], module.work)


def perform(spark: SparkSession, order: Mapping[str, Any]) -> str:
    """Run a job as its module's `main` does, or SQL statements, with a session of its own; returns rows, as JSON."""
    session = spark.newSession()
    _set(session, order["settings"])
    if "append" in order:
        _append(session, **order["append"])
    rows: list[Any] = []
    for statement in order.get("statements", ()):
        rows = [row.asDict() for row in session.sql(statement).collect()]
    if "script" in order:
        _mine.session, _mine.settings = session, order["settings"]
        _run(order["script"], order["request"], spark)
    return json.dumps(rows, default=str)


def _append(spark: SparkSession, *, table: str, attempt: str, select: str) -> None:
    from airflow_kafka_lake.core.spark.job import branch_of
    from airflow_kafka_lake.jobs.formats import STAGED_BY, WRITE_OPTIONS

    spark.sql(f"ALTER TABLE {table} CREATE BRANCH `{branch_of(attempt)}` RETAIN 7 DAYS")
    writer = spark.sql(select).writeTo(f"{table}.`branch_{branch_of(attempt)}`")
    for key, value in {**WRITE_OPTIONS, f"snapshot-property.{STAGED_BY}": attempt}.items():
        writer = writer.option(key, value)
    writer.append()


def started() -> SparkSession:
    """Start Spark as the tests' other Sparks, for any catalog."""
    from pyspark.sql import SparkSession

    from airflow_kafka_lake.adapters.jars.cache import JarSet, verified
    from airflow_kafka_lake.adapters.spark_submit.submission import _UNLESS_SAID
    from airflow_kafka_lake.jobs.formats import EXTENSIONS
    from tests.lean_spark import lean_home

    jars = [path for jars in (JarSet.SPARK, JarSet.S3) for path in verified(jars)]
    settings = {
        **_UNLESS_SAID,
        "spark.sql.extensions": EXTENSIONS,
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.sql.ui.retainedExecutions": "20",
    }
    builder = SparkSession.builder.master("local[4]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    with lean_home(jars, "2g"):
        return builder.getOrCreate()


def main(address: str) -> None:
    """Take jobs until standard input ends."""
    unlistened = f"{address}.new"
    with _Server(unlistened, _Job) as server:
        Path(unlistened).rename(address)  # what connects now waits until Spark is there
        server.spark = started()
        stand_in()
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        sys.stdin.read()
        server.shutdown()
    server.spark.stop()
    Path(address).unlink()


def submit(words: list[str]) -> int:
    """Stand in the place of `spark-submit`: hand its folder to the driver, and end as the job ends."""
    settings = words[words.index("--properties-file") + 1]
    order = {"script": words[-2], "request": words[-1], "settings": properties(Path(settings).read_text("utf-8"))}
    code, said = handed(order, os.environ[VARIABLE])
    if code:
        print(said, flush=True)  # noqa: T201
    return code


def handed(order: Mapping[str, Any], folder: str) -> tuple[int, str]:
    """Hand an order to the driver of a folder; returns the code that it ended with, and its log."""
    with socket.socket(socket.AF_UNIX) as driver:
        driver.connect(str(Path(folder) / SOCKET))
        driver.sendall(json.dumps(order).encode() + b"\n")
        with driver.makefile("r", encoding="utf-8") as answer:
            said, _, code = answer.read().rpartition("\0")
    return int(code or 1), said


def properties(text: str) -> dict[str, str]:
    """Read a properties file as `adapters.spark_submit.submission` writes it."""
    found = {}
    for line in text.splitlines():
        key, value = re.split(r"(?<!\\)=", line, maxsplit=1)
        found[_plain(key)] = _plain(value)
    return found


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "r": "\r", "t": "\t"}.get(match[1], match[1]), text)


if __name__ == "__main__":
    main(sys.argv[1])
