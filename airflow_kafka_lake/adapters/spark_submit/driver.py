"""Drivers: processes of a job of their own, here or on a cluster, or one warm driver that runs job after job."""

from __future__ import annotations

import base64
import errno
import fcntl
import hmac
import json
import logging
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import psutil

from airflow_kafka_lake.adapters.clients import CONNECT_SECONDS
from airflow_kafka_lake.adapters.machine import HostProcesses
from airflow_kafka_lake.adapters.spark_submit.submission import private_folder, unusable, write_private
from airflow_kafka_lake.core.errors import ConnectionSettingsError, JobFailedError, KafkaLakeError, UnavailableError
from airflow_kafka_lake.core.ledger.waves import LeaseHolder
from airflow_kafka_lake.core.reports.progress import Counters
from airflow_kafka_lake.core.spark.job import LIGHT, DriverAge
from airflow_kafka_lake.jobs import caller
from airflow_kafka_lake.jobs.caller import LOG_FILE, SENT, GivenJob, SentFile, heard, line_of, read_line
from airflow_kafka_lake.jobs.driver import write_whole
from airflow_kafka_lake.jobs.serve import DONE_FILE, JOB_FILE, ORDERS_FILE, READY_FILE, WEAR_FILE, JobOrder

_logger = logging.getLogger(__name__)


def came(condition: Callable[[], bool], seconds: float, every: float = 0.01) -> bool:
    """Wait until a condition holds, so long at most; return whether it does."""
    until = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < until:
        time.sleep(every)
    return holds


# The files that a driver writes while it works: its log, and its signs of progress.

_KEPT_LINES = 2_000


class Signs:
    """A driver's progress file (`jobs.driver`): whether it has changed within some seconds.

    `counted` gets the counts of the file, with every look; unreadable lines are left out.
    """

    def __init__(self, file: Path, seconds: float, counted: Callable[[Counters], None] = lambda _: None) -> None:
        self._file = file
        self._seconds = seconds
        self._counted = counted
        self._seen: str | None = None
        self._changed_at = time.monotonic()

    def is_recent(self) -> bool:
        """Read the file once more; the start counts as a change."""
        found = None
        with suppress(FileNotFoundError):
            found = self._file.read_text(encoding="utf-8", errors="replace")
        if found != self._seen:
            self._seen, self._changed_at = found, time.monotonic()
        if (counters := Counters.from_json(found or "")) is not None:
            self._counted(counters)
        return time.monotonic() - self._changed_at < self._seconds


class FollowedLog:
    """Passes every finished line to `progress` once and keeps the last ones in `lines`; `begin` is where to begin."""

    def __init__(self, path: Path, progress: Callable[[str], None], *, begin: int = 0) -> None:
        self.path = path
        self.lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._progress = progress
        self._read = begin
        self._unfinished = b""

    def follow(self) -> None:
        """Read the lines written since the last call; does nothing before the file exists."""
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(self._read)
            added = file.read()
            self._read += len(added)
            *finished, self._unfinished = (self._unfinished + added).split(b"\n")
            for line in finished:
                self._take(line)

    def finish(self) -> None:
        """Read the rest, an unfinished last line included."""
        self.follow()
        if self._unfinished:
            self._take(self._unfinished)
            self._unfinished = b""

    def _take(self, raw: bytes) -> None:
        line = raw.decode("utf-8", errors="replace").rstrip("\r")
        self.lines.append(line)
        self._progress(line)


# Which job a warm driver works on, written down so that another process can end that job and no other.

OF_DRIVER = "+"
"""Stands in a job's reference between the driver, `host/pid/starttime`, and the number of the job in that driver."""

_FILE = "current"
_WAIT_SECONDS = 10.0


def write_current(folder: Path, number: str) -> None:
    """Write down which job the driver of `folder` works on from now on, empty for none.

    Waits while another process ends the job that was written before; the driver has ended then. Raises OSError where it
    cannot be written, TimeoutError where the other process does not end.
    """
    with (folder / _FILE).open("a", encoding="utf-8") as file:
        if not _locked(file):
            raise TimeoutError("another process looks at the driver, and does not end")
        file.truncate(0)
        file.write(number)


@contextmanager
def working_on(folder: Path, number: str) -> Iterator[bool]:
    """Yield whether the driver of `folder` works on this job; while the block lasts it begins no other.

    False where that cannot be found out. OSError without such a file.
    """
    with (folder / _FILE).open(encoding="utf-8") as file:
        yield _locked(file) and file.read() == number


def _locked(file: IO[str]) -> bool:
    """Lock the file; False when another process has it locked and was stopped."""

    def is_ours() -> bool:
        # A lock that blocks would wait for good where its holder was stopped.
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    return came(is_ours, _WAIT_SECONDS)


# The driver's process group: started in a session of its own, watched, and ended as a whole.

GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.02


class Driver:
    """One running driver; `ref` is `host/pid/starttime`, by which `end_orphan` finds it later.

    `line` is where one on a cluster calls.
    """

    line: WorkerLine | None = None

    def __init__(self, command: Sequence[str | Path], *, log: Path, env: Mapping[str, str], cwd: Path) -> None:
        try:
            with log.open("ab") as output:
                # A session of its own: signals for the worker's group are not the driver's, and the group is endable.
                self._process = subprocess.Popen(
                    [str(word) for word in command],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=dict(env),
                    cwd=cwd,
                    start_new_session=True,
                )
        except OSError as error:
            raise JobFailedError(
                f"{command[0]} does not start: {error.strerror}. Check the Spark installation and the Java it uses."
            ) from error
        # Not reaped yet, so that its pid cannot be another's.
        self.ref = str(HostProcesses().named(self._process.pid))

    def wait(
        self,
        every: Callable[[], None],
        seconds: float,
        tick: Callable[[], None],
        is_done: Callable[[], bool] = lambda: False,
    ) -> int | None:
        """Return the exit code, or None once `is_done` holds while the driver lives.

        `every` is called each `seconds`, `tick` often.
        """
        due = time.monotonic() + seconds
        while not self.has_exited():
            tick()
            if is_done():
                return None
            if time.monotonic() >= due:
                every()
                due = time.monotonic() + seconds
            time.sleep(_POLL_SECONDS)
        return self.end()

    def end(self, grace_seconds: float = GRACE_SECONDS) -> int:
        """End the rest of the group, TERM and then KILL, and return the first process's code; safe to repeat.

        Without a grace it is KILL at once.
        """
        if self._process.returncode is None:
            _end_group(self._process.pid, self.has_exited, grace_seconds)
        return self._process.wait()

    def has_exited(self) -> bool:
        """Return whether the driver has ended, without reaping it: until `end` has signalled the group, the kernel must
        not give its number to another process."""
        with suppress(ChildProcessError):
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        return True


def end_orphan(job_ref: str) -> bool:
    """End the process group of a job whose worker died; return whether there was one.

    Touches nothing unless the reference is of this host and its pid still has its start time and leads a group of its
    own: a pid that is used again is another process's. A warm driver is ended only while it works on this very job.
    """
    driver, _, number = job_ref.partition(OF_DRIVER)
    try:
        holder = LeaseHolder.parse(driver)
        if not HostProcesses().alive(holder) or os.getpgid(holder.pid) != holder.pid:
            return False
        with working_on(Path(psutil.Process(holder.pid).cwd()), number) if number else nullcontext(True) as is_it:
            if is_it:
                _end_group(holder.pid, lambda: not HostProcesses().alive(holder))
            return is_it
    except (ValueError, psutil.Error, OSError):
        return False


def _end_group(group: int, has_ended: Callable[[], bool], grace_seconds: float = GRACE_SECONDS) -> None:
    """Signal the group TERM, give its leader time, then KILL whatever of the group is left."""
    with suppress(ProcessLookupError):
        if grace_seconds:
            os.killpg(group, signal.SIGTERM)
        came(has_ended, grace_seconds)
        os.killpg(group, signal.SIGKILL)


# A job in a driver: where its files are, how it is named, how it ends.


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A job that a driver was started for, or that a warm driver was given.

    `folder` has the job's files, `log` the driver's lines, this job's from `log_begin` on. `done` is the file that a
    warm driver leaves at the job's end; a driver of one job ends itself. `beat` is the worker's sign of life to it.
    """

    driver: Driver
    ref: str
    folder: Path
    log: Path
    log_begin: int = 0
    done: Path | None = None
    beat: Callable[[], None] = lambda: None

    def is_done(self) -> bool:
        """Return whether the job has ended well, and its driver lives on."""
        return self.done is not None and self.done.exists()

    def has_failed(self, code: int | None) -> bool:
        """Return whether the job has failed, by the code with which its driver has ended."""
        return bool(code) if self.done is None else not self.done.exists()


# One warm Spark driver, which runs the jobs of this process one after another: see `jobs.serve`.

TAKEN_SECONDS = 30.0
"""How long a driver that waits for a job may take to begin one; a stopped one does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverStart:
    """How a driver is started: two with equal `settings` may stand in for each other.

    A driver that is not `is_heavy` compiles quickly, and is too slow for heavy jobs. `begin` starts it in a private
    folder. It is given `stop_seconds` to leave the cluster in an orderly way; a local one needs none.
    """

    settings: tuple[object, ...]
    is_heavy: bool
    begin: Callable[[Path], Driver]
    stop_seconds: float


class NoPipeError(OSError):
    """The file system of the temporary files has no named pipes, or no locks."""


class WarmDriver:
    """A driver that was started to run many jobs, and its private folder; NoPipeError where there cannot be one."""

    def __init__(self, start: DriverStart) -> None:
        self._start = start
        self._jobs = 0
        with ExitStack() as stack:
            self._folder = stack.enter_context(private_folder())
            self._orders = _pipe(self._folder)
            self._open = stack.enter_context(ExitStack())
            self._open.callback(os.close, self._orders)
            self._driver = start.begin(self._folder)
            self._rest = stack.pop_all()

    def fits(self, start: DriverStart) -> bool:
        """Return whether the driver lives, is not worn, and was started in the same way."""
        same = self._start.settings == start.settings and (self._start.is_heavy or not start.is_heavy)
        return same and not self._driver.has_exited() and not self._is_worn()

    def order(self, program: str, name: str, request: Mapping[str, Any]) -> RunningJob:
        """Have a job run as soon as the driver is ready; UnavailableError when there is no room for its files."""
        self._jobs += 1
        number = str(self._jobs)
        folder = self._folder / number
        log = self._folder / LOG_FILE
        try:
            folder.mkdir(mode=0o700)
            write_private(folder / JOB_FILE, json.dumps(request))
            write_current(self._folder, number)
        except OSError as error:
            raise unusable(error) from None
        job = RunningJob(
            driver=self._driver,
            ref=f"{self._driver.ref}{OF_DRIVER}{number}",
            folder=folder,
            log=log,
            log_begin=log.stat().st_size if self._jobs > 1 else 0,
            done=folder / DONE_FILE,
            beat=lambda: self._send(b"\n"),
        )
        self._send(line_of(JobOrder(folder=number, program=program, name=name)))
        return job

    def is_starting(self) -> bool:
        """Return whether the driver does not wait for jobs yet: it begins its first one as soon as it does."""
        return not (self._folder / READY_FILE).exists()

    def has_begun(self, job: RunningJob) -> bool:
        """Wait a moment until the driver has begun a job; False when it has ended before, or hangs."""
        waits = (job.folder / JOB_FILE).exists
        came(lambda: not waits() or self._driver.has_exited(), TAKEN_SECONDS)
        return not waits()

    def kill(self) -> None:
        """End the driver at once, and leave its files."""
        self._driver.end(grace_seconds=0)

    def forget(self, job: RunningJob) -> None:
        write_current(self._folder, "")
        shutil.rmtree(job.folder, ignore_errors=True)

    def close(self) -> None:
        """Let the driver go: in an orderly way where it has time for it, else before it begins to stop by itself."""
        if self._start.stop_seconds:
            self._open.close()
            came(self._driver.has_exited, self._start.stop_seconds)
        self._driver.end(grace_seconds=0)
        self._rest.close()

    def end(self) -> None:
        """End the driver and its work, with the time that Spark needs to leave a cluster."""
        self._driver.end()
        self._rest.close()

    def _send(self, line: bytes) -> None:
        with suppress(BlockingIOError):  # a stopped driver does not read; it is found by its lack of progress
            os.write(self._orders, line)

    def _is_worn(self) -> bool:
        with suppress(OSError):
            return DriverAge.from_json(json.loads((self._folder / WEAR_FILE).read_bytes())).is_too_much
        return False


def _pipe(folder: Path) -> int:
    """Make a named pipe and open it. The driver reads the pipe's end when this process ends."""
    try:
        write_current(folder, "")
        os.mkfifo(folder / ORDERS_FILE, 0o600)
        return os.open(folder / ORDERS_FILE, os.O_RDWR | os.O_NONBLOCK)  # for both, so as not to wait for the driver
    except OSError as error:
        raise NoPipeError(str(error)) from None


class Engine(AbstractContextManager["Engine"]):
    """Keeps a Spark driver for the next job of this process, whichever runner it comes from, instead of starting one
    for each.

    There is at most one, with one job at a time; it is replaced when the next job needs another one, when its job has
    failed, and when it is worn. Close it at the end: until then it waits for the next job, some minutes at most.
    `is_verified` says whether the jars of the next driver were verified when the command began.
    """

    def __init__(self) -> None:
        self.is_verified = False
        self._spent = 0
        self._driver: WarmDriver | None = None
        self._busy = threading.Lock()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the driver go, if there is one."""
        if driver := self._take():
            driver.close()

    def is_heavy(self, effort: int) -> bool:
        """Return whether a job, with all that this process has done before it, is worth a driver that compiles well.

        The work done so far is taken for the work still to come.
        """
        return self._spent + effort > LIGHT

    def spent(self, effort: int) -> None:
        self._spent += effort

    def has_driver(self) -> bool:
        """Return whether there is a driver, of whatever job and in whatever state."""
        return self._driver is not None

    def prepare(self, start: DriverStart) -> None:
        """Start the driver of the job that is next, unless a suitable one is there; any other one is replaced.

        A fault that keeps it from starting is left to the job, which meets and reports it.
        """
        if self._driver is None and self._busy.acquire(blocking=False):
            try:
                with suppress(KafkaLakeError, OSError):
                    self._driver = WarmDriver(start)
            finally:
                self._busy.release()

    @contextmanager
    def running(
        self, start: DriverStart, program: str, name: str, request: Mapping[str, Any]
    ) -> Iterator[RunningJob | None]:
        """Yield a job in the warm driver; None while it works on another one, and where there cannot be any.

        An exception ends the driver.
        """
        if not self._busy.acquire(blocking=False):
            yield None
            return
        try:
            job = self._ordered(start, program, name, request)
            yield job
            if job and self._driver:
                self._driver.forget(job)
        except BaseException:
            if driver := self._take():
                driver.end()
            raise
        finally:
            self._busy.release()

    def _ordered(self, start: DriverStart, program: str, name: str, request: Mapping[str, Any]) -> RunningJob | None:
        if self._driver and not self._driver.fits(start):
            self.close()
        if self._driver:
            is_starting = self._driver.is_starting()
            job = self._driver.order(program, name, request)
            if is_starting or self._driver.has_begun(job):
                return job
            self._driver.kill()
            if self._driver.has_begun(job):
                return job  # just then, and its end is that of any job whose driver is killed
            self.close()
        try:
            self._driver = WarmDriver(start)
        except NoPipeError:
            return None
        return self._driver.order(program, name, request)

    def _take(self) -> WarmDriver | None:
        driver, self._driver = self._driver, None
        return driver


# Deploy mode cluster, on the worker's side: the driver that was submitted calls this process (`jobs.caller`).

ADDRESS = "spark.kafka_lake.worker.address"
"""The setting of the `host`, `host:port`, or `[IPv6]:port`, under which the cluster reaches this worker."""

_EVERY_SECONDS = 0.2
_CALLERS = 20
"""How many are served at once: scans of ports, checks of health, and the driver."""
_LAST_WORDS_SECONDS = 15.0
"""How long the cluster may take to tell why a driver has ended that did not say so itself."""

_EMPTY_JAR = b"PK\x05\x06" + bytes(18)
_FORMALITY = b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(_EMPTY_JAR), _EMPTY_JAR)
"""A standalone master takes no driver without the address of a jar. This one is empty."""


def place_of_calls(setting: str) -> tuple[str, int]:
    """Return the host that drivers call, this machine's own address where none is set, and its port, 0 for a free one.

    Raises ConnectionSettingsError for a text that is no such place.
    """
    named = f"[{setting}]" if setting.count(":") > 1 and "[" not in setting else setting
    with suppress(ValueError):  # no port, or no address between brackets
        parts = urlsplit(f"//{named}")
        if parts.netloc == named and "@" not in named:
            host = parts.hostname or _own_address()
            return f"[{host}]" if ":" in host else host, parts.port or 0
    raise ConnectionSettingsError(f"{ADDRESS} is {setting!r}, and has to be HOST, HOST:PORT, or, of IPv6, [HOST]:PORT.")


def told_of_calls(setting: str) -> tuple[str, str]:
    """Return where drivers call, and why no other machine may reach that, with the remedy; nothing where one may."""
    host, port = place_of_calls(setting)
    origin = f"as {ADDRESS} says" if setting else f"this machine's own address, because {ADDRESS} names none"
    told, doubt = f" Drivers call {host}:{port or 'a free port'} ({origin}).", ""
    try:
        if all(ip_address(item[4][0]).is_loopback for item in socket.getaddrinfo(host.strip("[]"), None)):
            doubt = f"No other machine can call {host}: name this one's address in {ADDRESS}."
    except (OSError, UnicodeError):
        doubt = f"This machine knows no address of {host}: unless the cluster does, correct {ADDRESS}."
    return told, doubt


class WorkerLine:
    """Where the driver of one job calls: its files arrive in `folder`, and `code` is the exit code that it told.

    `files` go to the driver, and `job` after them. Listens on `address`, or on a free port. Raises
    ConnectionSettingsError for an address that cannot be had.
    """

    def __init__(self, folder: Path, address: str, *, files: Sequence[Path], job: GivenJob) -> None:
        self.token = secrets.token_urlsafe(32)
        self.code: int | None = None
        self.fault: UnavailableError | None = None
        self.ended_at: float | None = None
        self.has_called = False
        self._folder = folder
        self._files = files
        self._job = job
        self._beat = threading.Event()
        self._is_closed = threading.Event()
        self._context, self.digest = _certificate(folder)
        host, port = place_of_calls(address)
        try:
            family = socket.AF_INET6 if (both := socket.has_dualstack_ipv6()) else socket.AF_INET
            self._listening = socket.create_server(("", port), family=family, dualstack_ipv6=both)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise UnavailableError(f"Port {port} is taken: another job may wait there for its driver.").mended_by(
                    f"Repeat; or leave the port out of {ADDRESS}, or give each place of jobs another one."
                ) from None
            raise ConnectionSettingsError(f"{ADDRESS} is {address!r}, where nothing can listen: {error}.") from None
        self._listening.settimeout(_EVERY_SECONDS)
        self.address = f"{host}:{self._listening.getsockname()[1]}"
        for _ in range(_CALLERS):
            threading.Thread(target=self._serve, daemon=True).start()

    def beat(self) -> None:
        """Tell the driver that this worker lives."""
        self._beat.set()

    def close(self) -> None:
        """End the call: a driver that still works ends itself."""
        self._is_closed.set()

    def _serve(self) -> None:
        """Serve callers until the driver has called; other threads do so too, so that a silent one delays none."""
        while self._folder.exists() and not (self.has_called or self._is_closed.is_set()):
            with suppress(OSError):
                if line := self._welcomed(self._listening.accept()[0]):
                    self._talk(line)
        self._listening.close()

    def _talk(self, line: ssl.SSLSocket) -> None:
        with line:
            try:
                self._give(line)
                self._follow(line)
            except UnavailableError as error:
                self.code, self.fault = 1, error
            except (OSError, LookupError, TypeError, ValueError) as error:
                _logger.info("the driver's call has ended: %s", error)
            finally:
                self.ended_at = time.monotonic()

    def _welcomed(self, connection: socket.socket) -> ssl.SSLSocket | None:
        """Return the first connection that has the word; None for any other caller."""
        with ExitStack() as stack:
            stack.enter_context(connection)
            connection.settimeout(CONNECT_SECONDS)
            # Without it beats that get no acknowledgement keep a driver whose machine is lost alive for 16 minutes.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(caller.CALL_SECONDS * 1000))
            if connection.recv(1, socket.MSG_PEEK) == b"G":
                connection.recv(65_536)
                connection.sendall(_FORMALITY)
                return None
            line = stack.enter_context(self._context.wrap_socket(connection, server_side=True))
            if hmac.compare_digest(line.recv(200), f"{self.token}\n".encode()):
                # Once only, so that a second caller with the word is refused; and the port is free for the next job.
                self._listening.shutdown(socket.SHUT_RDWR)
                self.has_called = True
                stack.pop_all()
                return line
        _logger.warning("a driver without the word of this job has called, and was refused")
        return None

    def _give(self, line: ssl.SSLSocket) -> None:
        line.settimeout(caller.CALL_SECONDS)
        for path in self._files:
            with path.open("rb") as file:
                line.sendall(line_of(SentFile(name=path.name, size=path.stat().st_size)))
                line.sendfile(file)
        line.sendall(line_of(self._job))

    def _follow(self, line: ssl.SSLSocket) -> None:
        """Write the driver's files as they come, until it has told its code or this worker ends the call."""
        found = bytearray()
        while self.code is None and not self._is_closed.is_set():
            if (part := heard(line)) == b"":
                return
            found += part or b""
            self._write_whole_ones(found)
            if self._beat.is_set():
                self._beat.clear()
                line.sendall(b"\n")

    def _write_whole_ones(self, found: bytearray) -> None:
        """Write the files that have come whole, and remove them.

        Raises KeyError for one that no job sends, UnavailableError where there is no room for one.
        """
        while (end := found.find(b"\n")) >= 0:
            message = read_line(found[:end])
            if not isinstance(message, SentFile):
                self.code = message if isinstance(message, int) else 1
                return
            if len(found) < (after := end + 1 + message.size):
                return
            path, data = self._folder / message.name, found[end + 1 : after]
            try:
                if SENT[message.name]:
                    with path.open("ab") as file:
                        file.write(data)
                else:
                    write_whole(path, data.decode())
            except OSError as error:
                raise unusable(error) from None
            del found[:after]


def _own_address() -> str:
    """Return the address of this machine by which it reaches others; nothing is sent."""
    for family, other in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((other, 9))
            return str(probe.getsockname()[0])
    return "127.0.0.1"


def _certificate(folder: Path) -> tuple[ssl.SSLContext, str]:
    """Return a server's context with a key of its own, and the digest of its certificate."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kafka-lake")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now).not_valid_after(now + timedelta(1))
    certificate = made.sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    plain = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile(dir=folder) as both:  # OpenSSL takes a key only from a file
        both.write(plain + certificate.public_bytes(pem))
        both.flush()
        context.load_cert_chain(both.name)
    return context, certificate.fingerprint(hashes.SHA256()).hex()


def program_text() -> str:
    """Return the Python text that the driver begins with, in one line without a quote that a shell changes."""
    text = base64.b64encode(Path(caller.__file__).read_bytes()).decode()
    return f"exec(__import__('base64').b64decode('{text}'))"


class CalledDriver(Driver):
    """A driver on the cluster, which a process of this machine has submitted; that process waits for its end."""

    def __init__(self, command: Sequence[str | Path], *, line: WorkerLine, **place: Any) -> None:
        super().__init__(command, **place)
        self.line: WorkerLine = line

    def has_exited(self) -> bool:
        """Return whether the driver has told its end, or is gone and the cluster has had time to tell why."""
        line, has_ended = self.line, super().has_exited()
        if line.ended_at is None:
            return has_ended and not line.has_called
        return line.code is not None or has_ended or time.monotonic() - line.ended_at > _LAST_WORDS_SECONDS

    def end(self, grace_seconds: float = 5.0) -> int:
        """End the call, and with it the driver; return the code that it told."""
        self.line.close()
        submitted = super().end(grace_seconds)
        return max(submitted, 1) if self.line.code is None else self.line.code
