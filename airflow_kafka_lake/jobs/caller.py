"""The driver of deploy mode cluster: it calls its worker, is given its job, and sends its files as they change.

The text of this file is an argument of the submission, so it needs nothing but Python itself until the worker has sent
the rest: the package, the jars, the settings and the request, over TLS. The worker's certificate is known by its
digest, and the driver by a word that is used once. No secret is in the submission, nor in a file of the driver.

The call's end is the end of both: a driver whose worker is gone, or silent for minutes, ends itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TOKEN = "SPARK_KAFKA_LAKE_TOKEN"  # noqa: S105
"""The variable with the word. Spark passes it on because it begins like its own, and its pages hide its value."""

LOG_FILE, MESSAGES_FILE, PROGRESS_FILE, RESULT_FILE = "driver.log", "messages", "progress", "result.json"
SENT = {LOG_FILE: True, MESSAGES_FILE: True, PROGRESS_FILE: False, RESULT_FILE: False}
"""The files of a job that its worker reads and takes, and whether one only grows: of that its new end is sent."""

CALL_SECONDS = 60.0
_EVERY_SECONDS, _GRACE_SECONDS = 0.2, 5.0


@dataclass(frozen=True, kw_only=True)
class GivenJob:
    """All that a worker tells its driver after the files: their names, and the job.

    `properties` are Java's, `settings` the session's, `jars` those of the worker and `further_jars` addresses.
    """

    package: str
    jars: list[str]
    further_jars: list[str]
    settings: dict[str, str]
    properties: dict[str, str]
    program: str
    request: dict[str, Any]
    silence_seconds: float


@dataclass(frozen=True, kw_only=True)
class SentFile:
    """A file, of which `size` bytes follow; they are added to one that grows."""

    name: str
    size: int


def line_of(message: Any) -> bytes:
    """Return a message, or an exit code, as a line: of `read_line`, where it is of its types."""
    return json.dumps(message if isinstance(message, int) else asdict(message)).encode() + b"\n"


def read_line(line: bytes | bytearray) -> GivenJob | SentFile | int:
    found = json.loads(line)
    if isinstance(found, int):
        return found
    return GivenJob(**found) if "program" in found else SentFile(**found)


def reached(address: str, digest: str) -> socket.socket:
    """Return a connection to the worker at `host:port`; ConnectionError unless its certificate has this SHA-256."""
    import ssl  # here, because every driver loads this module, and few call

    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it is known by its digest, by no authority
    line = context.wrap_socket(socket.create_connection((host.strip("[]"), int(port)), CALL_SECONDS))
    if hashlib.sha256(line.getpeercert(binary_form=True) or b"").hexdigest() != digest:
        line.close()
        raise ConnectionError(f"{address} is another worker than the one that submitted this driver")
    return line


def heard(line: socket.socket) -> bytes | None:
    """Return the bytes that have come, none at the end of the line; None where nothing has come for a moment."""
    line.settimeout(_EVERY_SECONDS)
    try:
        return line.recv(1 << 20)
    except TimeoutError:
        return None
    finally:
        line.settimeout(CALL_SECONDS)


def taken(line: socket.socket, folder: Path) -> GivenJob:
    """Put the files that the worker sends into a folder; return the job that follows them."""
    with line.makefile("rb") as sent:
        while header := sent.readline():
            message = read_line(header)
            if isinstance(message, GivenJob):
                return message
            if isinstance(message, SentFile):
                left = message.size
                with (folder / message.name).open("wb") as file:
                    while left and (found := sent.read(min(left, 1 << 20))):
                        left -= file.write(found)
    raise ConnectionError("the worker has ended before the driver had its job")


class Files:
    """The files of a job that its worker reads, as they are sent: all that have changed since the last look."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[str, tuple[int, int]] = {}

    def changed(self) -> bytes:
        found = bytearray()
        for name, grows in SENT.items():
            with suppress(FileNotFoundError), (self._folder / name).open("rb") as file:
                stat = os.fstat(file.fileno())
                if (stat.st_mtime_ns, stat.st_size) != (before := self._seen.get(name, (0, 0))):
                    file.seek(before[1] if grows else 0)
                    data = file.read()
                    self._seen[name] = (stat.st_mtime_ns, file.tell())
                    found += line_of(SentFile(name=name, size=len(data))) + data
        return bytes(found)


class Call:
    """A connection that lives as long as the job; `end` is called when the worker has gone, or was silent so long.

    One thread reads and writes it: TLS connections are not for two.
    """

    def __init__(self, line: socket.socket, files: Files, silence_seconds: float, end: Callable[[], None]) -> None:
        self._line = line
        self._files = files
        self._silence_seconds = silence_seconds
        self._end = end
        self._code: int | None = None
        self._thread = threading.Thread(target=self._talk, daemon=True)
        self._thread.start()

    def finish(self, code: int) -> None:
        """Send the last changes and the exit code."""
        self._code = code
        self._thread.join()

    def _talk(self) -> None:
        with suppress(Exception), self._line:  # whatever it is: the worker hears no more of the job
            if self._has_told():
                return
        self._end()

    def _has_told(self) -> bool:
        """Send the files as they change, and the code; return False where the worker has ended or is silent."""
        heard_at = time.monotonic()
        while self._code is None:
            sign = heard(self._line)
            heard_at = time.monotonic() if sign else heard_at
            if sign == b"" or time.monotonic() - heard_at > self._silence_seconds:
                return False
            self._line.sendall(self._files.changed())
        self._line.sendall(self._files.changed() + line_of(self._code))
        return True


def end_java(java: int, folder: Path) -> None:
    """Remove the job's files, and end the Java that has started this Python, with all that Spark does in it."""
    shutil.rmtree(folder, ignore_errors=True)
    for number, seconds in ((signal.SIGTERM, _GRACE_SECONDS), (signal.SIGKILL, 0)):
        if os.getppid() == java:  # else it has ended, and the number may be another's
            os.kill(java, number)
            time.sleep(seconds)
    os._exit(1)


def spark_of(places: Sequence[str]) -> list[str]:
    """Return PySpark of the Spark whose jar is among Python's places: a standalone cluster names the worker's."""
    cores = [Path(place) for place in places if "/jars/spark-core_" in place]
    return [str(file) for core in cores for file in core.parents[1].glob("python/lib/*.zip")]


def prepare_java(properties: Mapping[str, str], jars: list[str]) -> None:
    """Set Java's properties, and let it find the classes of jars, before Spark begins in it."""
    from pyspark.java_gateway import launch_gateway

    java = launch_gateway().jvm.java
    for key, value in properties.items():
        java.lang.System.setProperty(key, value)
    loader = java.lang.Thread.currentThread().getContextClassLoader()  # the one of Spark's `MutableURLClassLoader`
    for jar in jars:
        loader.addURL(java.io.File(jar).toURI().toURL())


def main(address: str, digest: str) -> int:
    """Call the worker, do the job that it gives, and return the exit code that it was told."""
    java = os.getppid()
    place = Path.cwd() if os.access(".", os.W_OK) else None  # the cluster clears it, if the driver is killed
    with tempfile.TemporaryDirectory(prefix="kafka-lake-called-", dir=place) as name:
        folder, line = Path(name), reached(address, digest)
        line.sendall(f"{os.environ.pop(TOKEN)}\n".encode())
        given = taken(line, folder)
        log = os.open(folder / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for descriptor in (1, 2):
            os.dup2(log, descriptor)
        call, code = Call(line, Files(folder), given.silence_seconds, lambda: end_java(java, folder)), 1
        try:
            sys.path[:] = [str(folder / given.package), *sys.path, *spark_of(sys.path)]
            from airflow_kafka_lake.jobs.driver import perform, session
            from airflow_kafka_lake.jobs.serve import work_of

            jars = [str(folder / jar) for jar in given.jars]
            prepare_java(given.properties, jars)
            settings = given.settings | {"spark.jars": ",".join([*jars, *given.further_jars])}
            with session(folder, settings) as spark:
                spark.sparkContext.addPyFile(str(folder / given.package))
                perform(spark, given.request, folder, work_of(given.program))
            code = 0
        except Exception:  # noqa: BLE001 - the worker is told by the log
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            call.finish(code)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
