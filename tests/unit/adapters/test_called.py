"""A driver on a cluster and its worker, over a real connection."""

from __future__ import annotations

import io
import json
import queue
import re
import resource
import shutil
import socket
import subprocess
import sys
import threading
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from airflow_kafka_lake.adapters.clients import Secrets
from airflow_kafka_lake.adapters.spark_submit import driver as drivers
from airflow_kafka_lake.adapters.spark_submit.driver import CalledDriver, WorkerLine, came, program_text
from airflow_kafka_lake.adapters.spark_submit.failures import NO_CALL, NOT_TAKEN, job_failed
from airflow_kafka_lake.adapters.spark_submit.runner import SparkSubmitRunner
from airflow_kafka_lake.adapters.spark_submit.submission import (
    addresses,
    call_environment,
    sent_jars,
    shown_settings,
)
from airflow_kafka_lake.core.errors import ConnectionSettingsError, JobFailedError, UnavailableError
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spark.halving import is_unknown
from airflow_kafka_lake.core.spark.job import StageJob
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.jobs import caller
from airflow_kafka_lake.jobs.caller import TOKEN, Call, Files, GivenJob

LOG, MESSAGES, RESULT = "driver.log", "messages", "result.json"
WAIT_SECONDS = 20
JOB = StageJob(
    pipeline="orders",
    wave="w1",
    attempt="a1",
    table="raw.orders",
    isolation=Isolation.READ_COMMITTED,
    slices=(Slice(Stream("orders", "A1", 0), OffsetRange(0, 10)),),
    tasks=1,
    max_records_per_partition=None,
)
GIVEN = GivenJob(
    package="package.zip",
    jars=["one.jar"],
    further_jars=["https://host/two.jar"],
    settings={"spark.app.name": "job"},
    properties={"a": "b"},
    program="stage",
    request={"kafka": {"sasl.password": "canary"}},
    silence_seconds=300.0,
)


class Driver:
    """The driver's end of a line, with its files."""

    def __init__(self, line: WorkerLine, folder: Path, token: str | None = None) -> None:
        self.folder = folder
        self._line = caller.reached(f"127.0.0.1:{line.address.rpartition(':')[2]}", line.digest)
        with ExitStack() as stack:
            stack.enter_context(self._line)
            self._line.sendall(f"{token or line.token}\n".encode())
            self.given = caller.taken(self._line, folder)
            stack.pop_all()

    def begin(self, silence_seconds: float = WAIT_SECONDS) -> tuple[Call, queue.Queue[str]]:
        """Return the call, and where it is told that it is over."""
        ended = queue.Queue[str]()
        return Call(self._line, Files(self.folder), silence_seconds, lambda: ended.put("ended")), ended

    def send(self, data: bytes) -> None:
        """Send anything."""
        self._line.sendall(data)

    def close(self) -> None:
        """Be gone, as a driver that was killed."""
        self._line.close()


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """The folders of a worker and a driver."""
    for name in ("worker", "driver"):
        (tmp_path / name).mkdir(mode=0o700)
    return tmp_path / "worker", tmp_path / "driver"


@pytest.fixture
def line(folders: tuple[Path, Path], tmp_path: Path) -> Iterator[WorkerLine]:
    package = tmp_path / "package.zip"
    package.write_bytes(bytes(range(256)) * 20_000)
    made = WorkerLine(folders[0], "", files=[package], job=GIVEN)
    yield made
    made.close()


def test_driver_is_given_the_files_and_the_document(line: WorkerLine, folders: tuple[Path, Path]) -> None:
    with closing(Driver(line, folders[1])) as driver:
        pass
    assert driver.given == GIVEN
    assert (folders[1] / "package.zip").read_bytes() == bytes(range(256)) * 20_000
    assert list(folders[0].iterdir()) == []


def test_files_of_the_driver_arrive_as_they_change_and_its_code_after_them(
    line: WorkerLine, folders: tuple[Path, Path]
) -> None:
    worker, ours = folders
    (worker / LOG).write_text("submitted\n")
    call, ended = Driver(line, ours).begin()
    with (ours / LOG).open("a") as log:
        log.write("first\n")
        log.flush()
        assert came(lambda: (worker / LOG).read_text() == "submitted\nfirst\n", WAIT_SECONDS)
        log.write("second\n")
    (ours / RESULT).write_text("{}")
    assert came((worker / RESULT).exists, WAIT_SECONDS)
    (ours / RESULT).write_text('{"rows": 1}')
    call.finish(3)
    assert came(lambda: line.code is not None, WAIT_SECONDS)
    assert (line.code, (worker / RESULT).read_text()) == (3, '{"rows": 1}')
    assert (worker / LOG).read_text() == "submitted\nfirst\nsecond\n"
    assert ended.empty()


def test_stranger_without_the_word_is_refused_and_the_driver_comes_in_after_it(
    line: WorkerLine, folders: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ConnectionError):
        Driver(line, folders[1], token="a" * len(line.token))
    assert not line.has_called
    with closing(Driver(line, folders[1])) as driver:
        assert driver.given == GIVEN
    assert "was refused" in caplog.text


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01", None], ids=["nothing", "half a greeting", "no word"])
@pytest.mark.parametrize("room", [20, 4])
def test_strangers_that_say_nothing_do_not_keep_the_driver_waiting(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, said: bytes | None, room: int
) -> None:
    """A scan of ports, a health check. Where there are more of them than are served at once, those are let go."""
    monkeypatch.setattr(caller, "CALL_SECONDS", 5.0)
    monkeypatch.setattr(drivers, "_CALLERS", room)
    monkeypatch.setattr(drivers, "CONNECT_SECONDS", 600.0 if room > 8 else 0.5)
    made = WorkerLine(folders[0], "", files=[], job=GIVEN)
    address = f"127.0.0.1:{made.address.rpartition(':')[2]}"
    with ExitStack() as stack:
        stack.callback(made.close)
        host, _, port = address.rpartition(":")
        for _ in range(8):
            if said is None and room > 8:
                stack.enter_context(caller.reached(address, made.digest))
            else:
                stranger = stack.enter_context(socket.create_connection((host, int(port))))
                stranger.sendall(said or b"")
        with closing(Driver(made, folders[1])) as driver:
            assert driver.given == GIVEN


def test_word_that_two_say_at_once_is_one_callers(line: WorkerLine, folders: tuple[Path, Path]) -> None:
    address = f"127.0.0.1:{line.address.rpartition(':')[2]}"
    with ExitStack() as stack:
        callers = [stack.enter_context(caller.reached(address, line.digest)) for _ in range(2)]
        for each in callers:
            each.sendall(f"{line.token}\n".encode())
        given = []
        for each in callers:
            with suppress(OSError):
                given.append(caller.taken(each, folders[1]))
        assert (given, came(lambda: line.ended_at is not None, 0.3)) == ([GIVEN], False)


@pytest.mark.parametrize(
    "message",
    [
        b'{"name": "../taken.log", "size": 2}\nhi0\n',
        b'{"name": "/tmp/kafka-lake-taken.log", "size": 2}\nhi0\n',
        b'{"name": "owner", "size": 2}\nhi0\n',
        b'{"file": "driver.log"}\n',
        b"no message\n",
    ],
)
def test_driver_that_sends_another_file_than_a_jobs_has_ended_and_nothing_is_written(
    line: WorkerLine, folders: tuple[Path, Path], tmp_path: Path, message: bytes
) -> None:
    """Whoever has used the word first could else write wherever this process can."""
    with closing(Driver(line, folders[1])) as driver:
        driver.send(message)
        assert came(lambda: line.ended_at is not None, WAIT_SECONDS)
    assert line.code is None
    assert not [*tmp_path.glob("taken*"), *Path("/tmp").glob("kafka-lake-taken*"), *folders[0].iterdir()]


def test_file_of_many_megabytes_arrives_in_seconds(line: WorkerLine, folders: tuple[Path, Path]) -> None:
    worker, ours = folders
    call, ended = Driver(line, ours).begin()
    (ours / LOG).write_bytes(b"a line\n" * 10_000_000)
    assert came((worker / LOG).exists, WAIT_SECONDS)
    call.finish(0)
    assert came(lambda: line.code is not None, WAIT_SECONDS)
    assert (line.code, (worker / LOG).stat().st_size, ended.empty()) == (0, 70_000_000, True)


def test_worker_with_more_than_a_thousand_open_files_hears_its_driver(
    line: WorkerLine, folders: tuple[Path, Path]
) -> None:
    with ExitStack() as stack:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
        for _ in range(1100):
            stack.enter_context(Path("/dev/null").open())
        call, ended = Driver(line, folders[1]).begin()
        call.finish(0)
        assert came(lambda: line.code is not None, WAIT_SECONDS)
    assert (line.code, ended.empty()) == (0, True)


def test_driver_whose_python_cannot_load_the_job_says_so(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """Python 3.10 has not all that a job needs. A shell between stands for the Java that a driver ends."""
    package = tmp_path / "package.zip"
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("airflow_kafka_lake/__init__.py", "raise ImportError('cannot import StrEnum')")
    line = WorkerLine(folders[0], "", files=[package], job=GIVEN)
    words = [program_text(), f"127.0.0.1:{line.address.rpartition(':')[2]}", line.digest]
    ended = subprocess.run(
        ["/bin/sh", "-c", '"$0" "$@"; exit $?', sys.executable, "-c", *words],
        check=False,
        env={TOKEN: line.token, "PATH": ""},
        cwd=folders[1],
    )
    assert came(lambda: line.ended_at is not None, WAIT_SECONDS)
    assert (ended.returncode, line.code) == (1, 1)
    assert "ImportError: cannot import StrEnum" in (folders[0] / LOG).read_text()
    assert list(folders[1].iterdir()) == []


def test_line_of_a_job_that_is_not_submitted_is_closed_with_its_folder(folders: tuple[Path, Path]) -> None:
    line = WorkerLine(folders[0], "", files=[], job=GIVEN)
    port = int(line.address.rpartition(":")[2])
    shutil.rmtree(folders[0])

    def is_free() -> bool:
        with suppress(OSError):
            socket.create_server(("", port)).close()
            return True
        return False

    assert came(is_free, WAIT_SECONDS)


def test_word_is_used_once(line: WorkerLine, folders: tuple[Path, Path]) -> None:
    call, _ = Driver(line, folders[1]).begin()
    with pytest.raises(OSError):  # noqa: PT011 - refused, or reset
        Driver(line, folders[1])
    call.finish(0)


def test_worker_with_another_certificate_is_given_no_word(line: WorkerLine) -> None:
    with pytest.raises(ConnectionError, match="another worker"):
        caller.reached(f"127.0.0.1:{line.address.rpartition(':')[2]}", "0" * 64)
    assert not line.has_called


def test_driver_whose_worker_has_ended_ends(line: WorkerLine, folders: tuple[Path, Path]) -> None:
    _, ended = Driver(line, folders[1]).begin()
    line.close()
    assert ended.get(timeout=WAIT_SECONDS) == "ended"


def test_driver_whose_worker_is_silent_ends_and_signs_of_life_keep_it(
    line: WorkerLine, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(1_000_000))
    monkeypatch.setattr(caller.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(caller, "_EVERY_SECONDS", 0.01)
    driver = Driver(line, folders[1])
    is_over = threading.Event()

    def beats() -> None:
        while not is_over.wait(0.001):
            line.beat()

    beating = threading.Thread(target=beats)
    beating.start()
    _, ended = driver.begin(silence_seconds=100_000)
    with pytest.raises(queue.Empty):
        ended.get(timeout=0.2)
    is_over.set()
    beating.join()
    monkeypatch.setattr(caller.time, "monotonic", lambda: float(next(clock)) * 1e6)
    assert ended.get(timeout=WAIT_SECONDS) == "ended"


def _submit(line: WorkerLine, folder: Path, *python: str) -> CalledDriver:
    return CalledDriver([sys.executable, "-c", *python], line=line, log=folder / LOG, env={}, cwd=folder)


def test_submission_that_fails_is_the_jobs_end(line: WorkerLine, folders: tuple[Path, Path]) -> None:
    driver = _submit(line, folders[0], "raise SystemExit(4)")
    assert came(driver.has_exited, WAIT_SECONDS)
    assert driver.end() == 4


def test_submission_that_ends_well_without_a_call_has_failed(line: WorkerLine, folders: tuple[Path, Path]) -> None:
    """A standalone master's client ends so, whatever has become of the driver."""
    driver = _submit(line, folders[0], "pass")
    assert came(driver.has_exited, WAIT_SECONDS)
    assert (driver.end(), line.has_called) == (1, False)


def test_driver_that_is_gone_without_a_code_has_failed_when_the_cluster_had_time_to_say_why(
    line: WorkerLine, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = _submit(line, folders[0], "import time; time.sleep(600)")
    ours = Driver(line, folders[1])
    assert came(lambda: line.has_called, WAIT_SECONDS)
    assert not driver.has_exited()
    ours.close()
    assert came(lambda: line.ended_at is not None, WAIT_SECONDS)
    assert not driver.has_exited()
    monkeypatch.setattr(drivers, "_LAST_WORDS_SECONDS", 0.0)
    assert driver.has_exited()
    assert driver.end() != 0


def test_driver_that_has_not_called_is_told_in_words_and_is_no_records_fault() -> None:
    """No half of its slices is tried: they are not the cause."""
    error = job_failed(JOB, 1, ["State of driver-1 is FAILED"], Secrets(), untold=NO_CALL)
    assert (error.facts["reason"], "spark.kafka_lake.worker.address" in error.message) == ("driver-did-not-call", True)
    assert not is_unknown(error)
    told = job_failed(JOB, 1, ["Failed to submit application_1 to YARN"], Secrets(), untold=NO_CALL)
    assert told.facts["reason"] == "cluster-refuses"


def test_submission_that_ends_while_its_driver_works_is_not_the_jobs_end(
    line: WorkerLine, folders: tuple[Path, Path]
) -> None:
    driver = _submit(line, folders[0], "pass")
    call, _ = Driver(line, folders[1]).begin()
    assert came(lambda: super(CalledDriver, driver).has_exited(), WAIT_SECONDS)
    assert not driver.has_exited()
    call.finish(0)
    assert came(driver.has_exited, WAIT_SECONDS)
    assert driver.end() == 0


def test_master_that_asks_for_a_jar_gets_an_empty_one(line: WorkerLine) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{line.address.rpartition(':')[2]}/kafka-lake.jar") as answer:
        assert zipfile.ZipFile(io.BytesIO(answer.read())).namelist() == []
    assert not line.has_called


@pytest.mark.parametrize(
    ("setting", "place"),
    [
        ("worker.example", ("worker.example", 0)),
        ("worker.example:9000", ("worker.example", 9000)),
        ("2001:db8::1", ("[2001:db8::1]", 0)),
        ("[2001:db8::1]", ("[2001:db8::1]", 0)),
        ("[2001:db8::1]:9000", ("[2001:db8::1]", 9000)),
        (":9000", (drivers._own_address(), 9000)),
        ("", (drivers._own_address(), 0)),
    ],
)
def test_place_of_calls_is_a_name_or_an_address_of_either_kind(setting: str, place: tuple[str, int]) -> None:
    assert drivers.place_of_calls(setting) == place


@pytest.mark.parametrize("setting", ["worker:none", "worker:70000", "http://worker", "[::1", "me:word@worker:1", "a/b"])
def test_place_that_is_none_is_refused_with_the_forms_that_are(setting: str) -> None:
    with pytest.raises(ConnectionSettingsError, match=r"\[HOST\]:PORT") as refused:
        drivers.place_of_calls(setting)
    assert drivers.ADDRESS in refused.value.message


def test_driver_calls_its_worker_by_ipv6(folders: tuple[Path, Path]) -> None:
    made = WorkerLine(folders[0], "::1", files=[], job=GIVEN)
    assert re.fullmatch(r"\[::1\]:\d+", made.address)
    with closing(caller.reached(made.address, made.digest)) as ours:
        ours.sendall(f"{made.token}\n".encode())
        assert caller.taken(ours, folders[1]) == GIVEN
    made.close()


@pytest.mark.parametrize(
    ("setting", "found", "doubt"),
    [
        ("192.0.2.7:9000", f" Drivers call 192.0.2.7:9000 (as {drivers.ADDRESS} says).", ""),
        ("2001:db8::1", f" Drivers call [2001:db8::1]:a free port (as {drivers.ADDRESS} says).", ""),
        ("localhost", f" Drivers call localhost:a free port (as {drivers.ADDRESS} says).", "No other machine can call"),
        ("[::1]:1", f" Drivers call [::1]:1 (as {drivers.ADDRESS} says).", "No other machine can call [::1]"),
        (
            "no.such.host.invalid",
            " Drivers call no.such.host.invalid:",
            "This machine knows no address of no.such.host",
        ),
        (f"{'a' * 64}.x", " Drivers call a", "This machine knows no address of a"),
        ("", f" Drivers call {drivers._own_address()}:a free port (this machine's own address, because", ""),
    ],
)
def test_check_says_where_drivers_call_and_doubts_a_place_that_they_cannot(
    setting: str, found: str, doubt: str
) -> None:
    conf = {"spark.submit.deployMode": "cluster", drivers.ADDRESS: setting}
    calls = SparkSubmitRunner(master="spark://h:1", catalog={}, kafka={}, conf=conf).calls()
    assert [text.startswith(words) for text, words in zip(calls, (found, doubt), strict=True)] == [True, True], calls
    assert (calls[1] == "") == (doubt == "")


def test_check_of_client_mode_says_nothing_of_calls() -> None:
    assert SparkSubmitRunner(master="spark://h:1", catalog={}, kafka={}).calls() == ("", "")


def test_port_that_is_none_is_refused_by_name(folders: tuple[Path, Path]) -> None:
    with pytest.raises(ConnectionSettingsError, match=re.escape(drivers.ADDRESS)):
        WorkerLine(folders[0], "worker:none", files=[], job=GIVEN)


def test_port_that_another_job_has_is_told_and_worth_repeating(folders: tuple[Path, Path]) -> None:
    """It is free as soon as that job's driver has called."""
    with socket.create_server(("", 0)) as taken, pytest.raises(UnavailableError, match="another job") as refused:
        WorkerLine(folders[0], f"worker:{taken.getsockname()[1]}", files=[], job=GIVEN)
    assert drivers.ADDRESS in refused.value.message


def test_port_is_free_for_the_next_job_when_the_driver_has_called(line: WorkerLine, folders: tuple[Path, Path]) -> None:
    call, _ = Driver(line, folders[1]).begin()
    (folders[0] / "next").mkdir()
    WorkerLine(folders[0] / "next", f"worker:{line.address.rpartition(':')[2]}", files=[], job=GIVEN).close()
    call.finish(0)


def test_address_of_the_setting_is_the_one_that_the_driver_calls(folders: tuple[Path, Path]) -> None:
    made = WorkerLine(folders[0], "worker.example", files=[], job=GIVEN)
    made.close()
    assert made.address.startswith("worker.example:")


def test_text_of_the_driver_is_one_word_for_every_shell() -> None:
    """Spark writes it into a script for YARN, where it changes dollars, quotes and new lines."""
    text = program_text()
    assert not set(text) & set('$"\n\\ `')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    ended = subprocess.run([sys.executable, "-c", text, address, "0" * 64], check=False, capture_output=True, text=True)
    assert "ConnectionRefusedError" in ended.stderr


SECRETS = {
    "spark.hadoop.fs.s3a.secret.key": "canary-1",
    "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc://user:canary-2@host/db",
    "spark.ssl.keyPassword": "canary-3",
}


def test_submission_shows_no_secret_of_the_connection() -> None:
    conf = {"spark.executor.memory": "4g", "spark.authenticate.secret": "by-spark", **SECRETS}
    shown = shown_settings("spark://host:7077", conf, "1g", "the-word")
    assert "canary" not in json.dumps(shown)
    assert (shown["spark.executor.memory"], shown["spark.driver.memory"]) == ("4g", "1g")
    assert shown["spark.authenticate.secret"] == "by-spark"
    assert "the-word" not in json.dumps(shown)


@pytest.mark.parametrize(
    ("master", "key"),
    [
        ("yarn", f"spark.yarn.appMasterEnv.{TOKEN}"),
        ("k8s://https://host", f"spark.kubernetes.driverEnv.{TOKEN}"),
    ],
)
def test_word_is_in_the_drivers_environment_of_each_cluster(master: str, key: str) -> None:
    assert shown_settings(master, {}, "1g", "the-word")[key] == "the-word"


def test_java_option_with_a_secret_is_refused_because_processes_show_it() -> None:
    conf = {"spark.driver.extraJavaOptions": "-Djavax.net.ssl.trustStorePassword=canary"}
    with pytest.raises(ConnectionSettingsError, match="client mode") as refused:
        shown_settings("yarn", conf, "1g", "word")
    assert "canary" not in refused.value.message


def test_submission_has_no_variable_that_is_not_the_clusters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A standalone master gives all of them to the driver."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    monkeypatch.setenv("AIRFLOW_CONN_X", "canary")
    monkeypatch.setenv("HADOOP_CREDSTORE_PASSWORD", "canary")
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dhttp.proxyPassword=canary")
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    found = call_environment(tmp_path, "the-word")
    assert "canary" not in json.dumps(found)
    assert (found["HADOOP_CONF_DIR"], found[TOKEN]) == ("/etc/hadoop", "the-word")


def test_master_that_takes_no_driver_for_now_ends_the_job_worth_repeating(tmp_path: Path) -> None:
    """Spark's client waits on, for a driver that it was not given: seen when a master had come back."""
    submit = tmp_path / "spark-submit"
    submit.write_text(f"#!{sys.executable}\nimport time\nprint('{NOT_TAKEN}.', flush=True)\ntime.sleep(600)\n")
    submit.chmod(0o700)
    conf = {"spark.submit.deployMode": "cluster"}
    runner = SparkSubmitRunner(master="spark://h:1", catalog={}, kafka={}, conf=conf, spark_submit=submit)
    with pytest.raises(JobFailedError) as failed:
        runner.stage(JOB, started=lambda _: None, heartbeat=lambda: None)
    assert failed.value.facts["reason"] == "master-unreachable"


FULL = f"""#!{sys.executable}
import os, sys
from pathlib import Path
sys.path.insert(0, "{Path(caller.__file__).parents[2]}")
from airflow_kafka_lake.jobs import caller

os.symlink("/dev/full", "%s")
address, digest = sys.argv[-2:]
theirs = Path("theirs")
theirs.mkdir()
line = caller.reached("127.0.0.1:" + address.rpartition(":")[2], digest)
line.sendall((os.environ[caller.TOKEN] + "\\n").encode())
caller.taken(line, theirs)
(theirs / "%s").write_text("[]")
caller.Call(line, caller.Files(theirs), 300, lambda: os._exit(1)).finish(0)
"""


@pytest.mark.parametrize(("full", "sent"), [(MESSAGES, MESSAGES), (f"{RESULT}.part", RESULT)])
def test_disk_that_is_full_when_the_driver_sends_is_told_and_nothing_is_believed(
    tmp_path: Path, full: str, sent: str
) -> None:
    """Its driver has ended well, and a worker without room for its answer does not know that."""
    submit, read = tmp_path / "spark-submit", list[object]()
    submit.write_text(FULL % (full, sent))
    submit.chmod(0o700)
    conf = {"spark.submit.deployMode": "cluster"}
    runner = SparkSubmitRunner(master="spark://h:1", catalog={}, kafka={}, conf=conf, spark_submit=submit)
    with pytest.raises(UnavailableError, match=r"No space left on device\. Make room") as failed:
        runner.stage(JOB, started=lambda _: None, heartbeat=lambda: None, read=read.extend)
    assert (failed.value.exit_code, read) == (3, [])


def test_java_of_this_machine_is_the_submissions_and_not_the_clusters(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A standalone cluster starts the driver with the JAVA_HOME that it is sent, wherever its own Java is."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("PATH", "/bin")
    found = call_environment(tmp_path, "the-word")
    assert ("JAVA_HOME" in found, found["PATH"]) == (False, f"{java.parent}:/bin")


def test_pyspark_of_a_cluster_whose_spark_is_elsewhere_is_found_beside_its_jars(tmp_path: Path) -> None:
    """PythonRunner names the archives of the worker's SPARK_HOME, and the jar that it is in itself."""
    archive, core = tmp_path / "python" / "lib" / "pyspark.zip", tmp_path / "jars" / "spark-core_2.13-4.1.3.jar"
    for path in (archive, core):
        path.parent.mkdir(parents=True)
        path.touch()
    assert caller.spark_of(["/worker/spark/python/lib/pyspark.zip", str(core)]) == [str(archive)]
    assert caller.spark_of(["/usr/lib/python3"]) == []


@pytest.mark.parametrize(
    "key",
    [
        "spark.kubernetes.container.image.pullSecrets",
        "spark.kubernetes.driver.secrets.keytab",
        "spark.kubernetes.driver.secretKeyRef.USER",
        "spark.kubernetes.kerberos.tokenSecret.name",
        "spark.security.credentials.hive.enabled",
        "spark.authenticate.secret.file",
    ],
)
def test_setting_that_names_a_secret_and_tells_none_is_part_of_the_submission(key: str) -> None:
    assert shown_settings("k8s://https://host", {key: "a-name"}, "1g", "word")[key] == "a-name"


def test_variable_of_a_pod_with_a_secret_is_no_part_of_the_submission() -> None:
    conf = {"spark.kubernetes.driverEnv.SECRET": "canary", "spark.kubernetes.driverEnv.secretive": "canary"}
    assert "canary" not in json.dumps(shown_settings("k8s://https://host", conf, "1g", "word"))


def test_jar_with_a_login_in_its_address_is_named_to_the_driver_alone() -> None:
    conf = {"spark.jars": "https://me:canary@host/one.jar,https://host/tokens.jar", "spark.yarn.queue": "tokens"}
    shown = shown_settings("yarn", conf, "1g", "word")
    assert (shown["spark.jars"], shown["spark.yarn.queue"]) == ("https://host/tokens.jar", "tokens")
    assert addresses(conf) == conf["spark.jars"].split(",")


def test_jars_of_this_machine_are_sent_and_all_others_named_to_the_cluster() -> None:
    """Spark leaves out, without a word, a jar of a driver's file system that is not there."""
    conf = {"spark.jars": "/opt/mine.jar,file:///opt/mine-too.jar,local:/opt/theirs.jar,https://host/web.jar"}
    assert sent_jars(conf) == [Path("/opt/mine.jar"), Path("/opt/mine-too.jar")]
    others = ["local:/opt/theirs.jar", "https://host/web.jar"]
    assert (addresses(conf), shown_settings("yarn", conf, "1g", "word")["spark.jars"]) == (others, ",".join(others))
    assert "spark.jars" not in shown_settings("yarn", {"spark.jars": "/opt/mine.jar"}, "1g", "word")
