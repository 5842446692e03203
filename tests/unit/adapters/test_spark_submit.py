"""The spark-submit runner against a script that stands in for spark-submit."""

from __future__ import annotations

import importlib
import json
import logging
import os
import py_compile
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from airflow_kafka_lake.adapters.clients import Secrets
from airflow_kafka_lake.adapters.jars.cache import CACHE_VARIABLE
from airflow_kafka_lake.adapters.machine import HostProcesses
from airflow_kafka_lake.adapters.spark_submit.driver import end_orphan
from airflow_kafka_lake.adapters.spark_submit.failures import (
    REASONS,
    job_failed,
    job_stalled,
    recognised,
    tail,
    why_waiting,
)
from airflow_kafka_lake.adapters.spark_submit.runner import SparkSubmitRunner, archive_path
from airflow_kafka_lake.adapters.spark_submit.submission import (
    all_jars,
    garbage_options,
    needs_script,
    package_zip,
    properties,
    properties_text,
    require_jars,
)
from airflow_kafka_lake.core.decoding import Decoder, Format
from airflow_kafka_lake.core.errors import (
    ConnectionSettingsError,
    JobFailedError,
    SchemaMismatchError,
    StaleFenceError,
)
from airflow_kafka_lake.core.ledger.waves import LeaseHolder
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.reports.progress import Counters
from airflow_kafka_lake.core.spark.halving import is_unknown
from airflow_kafka_lake.core.spark.job import LIGHT, Application, StageJob
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.jobs import stage
from airflow_kafka_lake.jobs.compare import CompareJob, ContentComparison
from airflow_kafka_lake.jobs.decoding.redecode import RedecodeJob

pytestmark = pytest.mark.unit

JOB = StageJob(
    pipeline="orders",
    wave="w1",
    attempt="00112233aabbccdd",
    table="raw.orders",
    isolation=Isolation.READ_COMMITTED,
    slices=(Slice(Stream("orders", "A1", 0), OffsetRange(0, 10)),),
    tasks=1,
    max_records_per_partition=None,
)
OWN = all_jars([])[0]
CATALOG = {"spark.sql.catalog.lake.uri": "jdbc:postgresql://db/lake", "spark.sql.catalog.lake.jdbc.password": "pw-lake"}
KAFKA = {"bootstrap.servers": "broker:9092", "sasl.jaas.config": 'Module required username="u" password="pw-kafka";'}
CONF = {"spark.executor.memory": "3g", "spark.hadoop.fs.s3a.secret.key": "pw-s3"}
ALL_SECRETS = ("pw-lake", "pw-kafka", "pw-s3")

FAKE = """#!{python}
import json, os, pathlib, stat, subprocess, sys, time
folder = pathlib.Path.cwd()
mode = lambda path: stat.S_IMODE(path.stat().st_mode)
seen = {{
    "argv": sys.argv[1:],
    "environ": dict(os.environ),
    "folder": str(folder),
    "modes": {{path.name: mode(path) for path in [folder, *folder.iterdir()]}},
    "texts": {{path.name: path.read_text() for path in folder.iterdir() if path.suffix not in (".zip", ".log")}},
    "leads": os.getpgid(0) == os.getpid(),
}}
said = json.loads(pathlib.Path({script!r}).read_text())
if said.get("hang"):
    seen["child"] = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid
    seen["pid"] = os.getpid()
part = pathlib.Path({record!r} + ".part")
part.write_text(json.dumps(seen))
part.rename({record!r})
sys.stderr.write(said.get("says", ""))
sys.stderr.flush()
for number in range(said.get("signs", 0)):
    (folder / "progress").write_text(str(number))
    time.sleep(0.1)
for name, text in said.get("writes", {{}}).items():
    (folder / name).write_text(text)
if said.get("hang"):
    time.sleep(600)
sys.exit(said.get("code", 0))
"""


class FakeSpark:
    """A spark-submit that records its arguments and then follows a script."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "spark-submit"
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self._script, self._record = folder / "script.json", folder / "record.json"
        self.path.write_text(FAKE.format(python=sys.executable, script=str(self._script), record=str(self._record)))
        self.path.chmod(0o700)
        self.does()

    def does(self, **script: object) -> None:
        self._script.write_text(json.dumps(script))

    def began(self) -> bool:
        return self._record.exists()

    @property
    def seen(self) -> dict:
        return json.loads(self._record.read_text())

    def runner(self, **changes: object) -> SparkSubmitRunner:
        given = {
            "master": "local[2]",
            "catalog": CATALOG,
            "kafka": KAFKA,
            "jars": [Path("/jars/a.jar"), Path("/jars/b.jar")],
            "conf": CONF,
            "spark_submit": self.path,
            "heartbeat_seconds": 0.05,
        }
        return SparkSubmitRunner(**(given | changes))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The class archives of this machine are none of a test's."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    """A spark-submit of the test, with temporary files of its own."""
    made = FakeSpark(tmp_path)
    monkeypatch.setenv("TMPDIR", str(made.temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return made


@pytest.fixture
def process() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a process that sleeps; it is gone after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*, leads: bool = True) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        started.append(subprocess.Popen(command, start_new_session=leads))
        return started[-1]

    yield start
    for child in started:
        child.kill()
        child.wait()


def run(runner: SparkSubmitRunner, heartbeat: Callable[[], None] = lambda: None) -> list[str]:
    refs: list[str] = []
    runner.stage(JOB, started=refs.append, heartbeat=heartbeat)
    return refs


def settings(spark: FakeSpark) -> dict[str, str]:
    lines = spark.seen["texts"]["spark.properties"].splitlines()
    return dict(line.split("=", 1) for line in lines)


def gone(pid: int) -> bool:
    """Wait for a killed process to be gone: the kernel ends it a moment after the signal."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if HostProcesses().holder(pid) is None:
            return True
    return False


def test_no_secret_is_on_the_command_line_or_in_the_environment(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every user of the machine may read the one, and every process of our user the other."""
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(KAFKA))
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "pw-lake")
    run(spark.runner())
    for shown in (json.dumps(spark.seen["argv"]), json.dumps(spark.seen["environ"])):
        assert not [secret for secret in ALL_SECRETS if secret in shown]


def test_private_files_are_private_and_removed(spark: FakeSpark) -> None:
    """What may hold secrets is readable by its owner only, and gone when the job is over."""
    run(spark.runner())
    folder = Path(spark.seen["folder"])
    modes = spark.seen["modes"]
    assert (modes[folder.name], modes["spark.properties"], modes["job.json"]) == (0o700, 0o600, 0o600)
    assert not folder.exists()


@pytest.mark.parametrize(("logged", "history"), [(True, "https://history/history/app-1/"), (False, None)])
def test_application_of_a_driver_is_told_once(spark: FakeSpark, logged: bool, history: str | None) -> None:
    """With its page, and afterwards with that of the history server, where that will have it."""
    told: list[Application] = []
    beats: list[Application] = []

    def beat() -> None:
        beats.extend(told)
        if len(beats) > 2:
            raise StaleFenceError("enough")

    counts = Counters(application="app-1", page="http://driver:4040", is_logged=logged).to_json()
    spark.does(writes={"progress": counts}, hang=True)
    with pytest.raises(StaleFenceError):
        run(spark.runner(application=told.append, history_server="https://history"), beat)
    assert told == [Application(id="app-1", page="http://driver:4040", history=history)]


def test_private_files_are_removed_after_a_failure(spark: FakeSpark) -> None:
    """A failed job leaves no file behind either."""
    spark.does(code=1)
    with pytest.raises(JobFailedError):
        run(spark.runner())
    assert list(spark.temporary.iterdir()) == []


def test_the_driver_gets_the_job_and_the_settings(spark: FakeSpark) -> None:
    """Secrets reach the driver through its files, the rest of the submit by the command line."""
    run(spark.runner())
    request = json.loads(spark.seen["texts"]["job.json"])
    assert StageJob.from_json(request["job"]) == JOB
    assert request["kafka"] == KAFKA
    argv = spark.seen["argv"]
    assert argv[argv.index("--master") + 1] == "local[2]"
    assert argv[argv.index("--deploy-mode") + 1] == "client"
    assert argv[argv.index("--name") + 1] == JOB.name
    assert argv[argv.index("--driver-class-path") + 1] == f"{OWN}:/jars/a.jar:/jars/b.jar"
    found = settings(spark)
    assert found["spark.sql.catalog.lake.jdbc.password"] == "pw-lake"
    assert found["spark.hadoop.fs.s3a.secret.key"] == "pw-s3"
    assert found["spark.sql.extensions"].startswith("org.apache.iceberg.spark")
    assert found["spark.ui.enabled"] == "false"
    assert found["spark.sql.session.timeZone"] == "UTC"


def test_a_local_driver_starts_its_java_itself(
    spark: FakeSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's script takes half a second to find what is known: ours before Spark's jars, one of which is left out."""
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.symlink_to(spark.path)
    conf = {"spark.driver.memory": "3g", "spark.driver.extraClassPath": "/jars/d.jar"}
    conf |= {"spark.driver.defaultJavaOptions": "-Xss2m", "spark.driver.extraJavaOptions": "-Xss3m"}
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("PYTHONPATH", "/theirs")
    program = tmp_path / "program.py"
    program.write_text("import sys; sys.exit(not (len(sys.argv) == 2 and sys.argv[1].endswith('/job.json')))")
    run(spark.runner(spark_submit=None, conf=conf, stage_program=program))
    folder, argv = Path(spark.seen["folder"]), spark.seen["argv"]
    given = folder / "spark.properties"
    assert argv == [f"@{folder / 'java.options'}", "airflow_kafka_lake.DriverGateway", str(given)]
    found = settings(spark)
    assert (found["spark.master"], found["spark.submit.deployMode"]) == ("local[2]", "client")
    assert found["spark.app.name"].startswith("kafka-lake")
    assert found["spark.submit.pyFiles"] == str(folder / "kafka_lake.zip")
    places = spark.seen["environ"]["PYTHONPATH"].split(":")
    assert (places[0], places[-1]) == (str(folder / "kafka_lake.zip"), "/theirs")
    assert any(place.endswith("/python/lib/pyspark.zip") for place in places)
    options = spark.seen["texts"]["java.options"].splitlines()
    class_path, memory = options[options.index('"-cp"') + 1 :][:2]
    assert (memory, options[-1]) == ('"-Xmx3g"', "-Xss2m -Xss3m")
    found = class_path.strip('"').split(":")
    assert found[:4] == [str(OWN), "/jars/a.jar", "/jars/b.jar", "/jars/d.jar"]
    assert any("/spark-sql_" in jar for jar in found)
    assert found[-1] == "/etc/hadoop"
    assert not any("/spark-mllib" in jar for jar in found)


@pytest.mark.parametrize("variable", ["SPARK_CONF_DIR", "SPARK_SUBMIT_OPTS"])
def test_sparks_script_starts_a_driver_that_is_set_up_by_it(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a person has set for Spark's script still reaches the driver, and so does what a cluster needs."""
    assert not needs_script("local[2]", CONF)
    assert needs_script("spark://host:7077", CONF)
    assert needs_script("local[2]", {"spark.driver.extraLibraryPath": "/lib"})
    for name in ("pyspark.python", "files", "archives", "jars.packages", "submit.pyFiles", "kerberos.keytab"):
        assert needs_script("local[2]", {f"spark.{name}": "x"})
    for name in ("driver.defaultExtraClassPath", "yarn.keytab", "yarn.principal"):
        assert needs_script("local[2]", {f"spark.{name}": "x"})
    for name in ("jars", "submit.deployMode", "hadoop.fs.s3a.endpoint"):
        assert not needs_script("local[2]", {f"spark.{name}": "x"})
    monkeypatch.setenv(variable, "/set")
    assert needs_script("local[2]", CONF)


def test_a_configured_spark_is_started_by_its_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder of settings may hold any: variables, logging, file systems."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-4.1.3.jar").touch()
    monkeypatch.setenv("KAFKA_LAKE_SPARK_HOME", str(tmp_path))
    assert not needs_script("local[2]", {})
    (tmp_path / "conf").mkdir()
    assert needs_script("local[2]", {})


def test_jars_and_extensions_of_the_connection_are_added_to_ours(spark: FakeSpark) -> None:
    """A connection may bring more of both and takes none of ours away."""
    conf = {
        "spark.jars": "/jars/c.jar",
        "spark.sql.extensions": "their.Extensions",
        "spark.driver.extraClassPath": "/jars/d.jar",
    }
    run(spark.runner(conf=conf))
    argv = spark.seen["argv"]
    assert argv[argv.index("--driver-class-path") + 1] == f"{OWN}:/jars/a.jar:/jars/b.jar:/jars/c.jar:/jars/d.jar"
    assert "--jars" not in argv
    assert not {"spark.jars", "spark.driver.extraClassPath"} & settings(spark).keys()
    assert settings(spark)["spark.sql.extensions"].endswith("IcebergSparkSessionExtensions,their.Extensions")


@pytest.mark.parametrize("further", ["hdfs://name/c.jar", "/jars/*.jar"])
def test_all_jars_of_a_job_have_one_class_loader(spark: FakeSpark, further: str) -> None:
    """Iceberg on the class path would not see what is shipped: where one jar has to be shipped, all are."""
    run(spark.runner(conf={"spark.jars": f"{further}, file:///jars/e.jar"}))
    argv = spark.seen["argv"]
    assert argv[argv.index("--jars") + 1] == f"{OWN},/jars/a.jar,/jars/b.jar,{further},file:///jars/e.jar"
    assert "--driver-class-path" not in argv


def test_a_jar_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    """Spark would go on without it, and fail at the first class; files of other machines are not looked for."""
    there = tmp_path / "there.jar"
    there.touch()
    require_jars({"spark.jars": f"{there},file://{there},hdfs://name/c.jar,local:/opt/d.jar,/x/*.jar"})
    with pytest.raises(ConnectionSettingsError, match=r"spark\.jars .* names /not/there\.jar, which is no file"):
        require_jars({"spark.jars": f"{there},file:/not/there.jar"})


def test_jars_are_shipped_to_a_cluster(spark: FakeSpark) -> None:
    """Executors elsewhere have nothing of ours: what a local master reads in place travels."""
    run(spark.runner(master="spark://host:7077", conf={"spark.jars": "/jars/c.jar"}))
    argv = spark.seen["argv"]
    assert argv[argv.index("--jars") + 1] == f"{OWN},/jars/a.jar,/jars/b.jar,/jars/c.jar"
    assert "--driver-class-path" not in argv
    run(spark.runner(master="spark://host:7077", conf={"spark.driver.extraClassPath": "/jars/d.jar"}))
    argv = spark.seen["argv"]
    assert argv[argv.index("--driver-class-path") + 1] == "/jars/d.jar", "what the connection says is not lost"


def test_java_options_are_in_a_private_file(spark: FakeSpark) -> None:
    """The driver's options may hold passwords, and ps shows the command line of java."""
    run(spark.runner(conf={"spark.driver.extraJavaOptions": "-Djavax.net.ssl.keyStorePassword=pw-jvm"}))
    folder = spark.seen["folder"]
    assert settings(spark)["spark.driver.extraJavaOptions"] == f'"@{folder}/java.options"'
    assert "-Djavax.net.ssl.keyStorePassword=pw-jvm" in spark.seen["texts"]["java.options"]
    assert spark.seen["modes"]["java.options"] == 0o600


def test_avro_lengths_are_bounded_wherever_values_are_read(spark: FakeSpark) -> None:
    """A length that is no length must not take a driver's or an executor's memory; who needs more says so later."""
    bound = "-Dorg.apache.avro.limits.string.maxLength=67108864"
    theirs = "-Dorg.apache.avro.limits.string.maxLength=1"
    places = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
    run(spark.runner(master="spark://host:7077", conf=dict.fromkeys(places, theirs)))
    for text in (spark.seen["texts"]["java.options"], settings(spark)[places[1]]):
        assert 0 <= text.find(bound) < text.find(theirs)


def test_light_jobs_start_quickly_and_heavy_ones_run_fast(spark: FakeSpark) -> None:
    """Only a heavy job of a local master lives long enough for the better compiler."""
    run(spark.runner())
    assert "TieredStopAtLevel=1" in spark.seen["texts"]["java.options"]
    heavy = replace(JOB, slices=(replace(JOB.slices[0], range=OffsetRange(0, LIGHT + 1)),))
    spark.runner().stage(heavy, started=lambda _: None, heartbeat=lambda: None)
    assert "TieredStopAtLevel=1" not in spark.seen["texts"]["java.options"]
    assert "-XX:Tier4InvocationThreshold=100000" in spark.seen["texts"]["java.options"]


def test_room_for_new_objects_is_bounded_where_tasks_are_few() -> None:
    """Of many it would be more than Java's own bound."""
    assert "-XX:+UseSerialGC" in garbage_options(2, None)
    assert set(garbage_options(2, "3g")) - set(garbage_options(2, None)) == {"-Xms3g", "-XX:NewRatio=1"}
    assert garbage_options(4, "3g")[1:] == ["-XX:MaxNewSize=448m"]
    assert garbage_options(16, "3g")[1:] == []


def test_collector_of_a_connection_is_the_only_one(spark: FakeSpark) -> None:
    """Java refuses to start with two."""
    ours = re.findall(r"Use\w+GC", " ".join(garbage_options(os.cpu_count() or 1, None)))
    for theirs, found in (("-XX:+UseG1GC -Xss2m", ["UseG1GC"]), ("-Xss2m", ours)):
        run(spark.runner(conf={"spark.driver.extraJavaOptions": theirs}))
        assert collectors(spark) == found
    run(spark.runner(conf={"spark.driver.defaultJavaOptions": "-XX:+UseG1GC"}))
    assert collectors(spark) == ["UseG1GC"]


@pytest.mark.parametrize("variable", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"])
def test_collector_of_the_environment_is_the_only_one(
    spark: FakeSpark, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image may name one for every Java."""
    monkeypatch.setenv(variable, "-XX:+UseG1GC")
    run(spark.runner())
    assert collectors(spark) == []


def collectors(spark: FakeSpark) -> list[str]:
    """Return the collectors of garbage that the options of the last driver name."""
    return re.findall(r"Use\w+GC", spark.seen["texts"]["java.options"])


def test_a_class_archive_is_used_when_there_is_one(spark: FakeSpark) -> None:
    """The runner takes the archive of its Spark, Java and jars from the cache, and does without."""
    jars = [Path("/jars/a.jar")]
    run(spark.runner(jars=jars))
    assert "SharedArchiveFile" not in spark.seen["texts"]["java.options"]
    archive = archive_path(jars)
    archive.parent.mkdir()
    archive.touch()
    run(spark.runner(jars=jars))
    assert f"-XX:SharedArchiveFile={archive}" in spark.seen["texts"]["java.options"]
    assert archive_path([Path("/jars/other.jar")]) != archive


def test_jars_that_were_installed_anew_have_an_archive_of_their_own(tmp_path: Path) -> None:
    """Java refuses an archive whose jars have another time or size, whatever their names."""
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"a")
    before = archive_path([jar])
    assert archive_path([jar]) == before
    os.utime(jar, (1, 1))
    later = archive_path([jar])
    jar.write_bytes(b"another")
    os.utime(jar, (1, 1))
    assert len({before, later, archive_path([jar])}) == 3


def test_settings_of_the_connection_win_over_ours(spark: FakeSpark) -> None:
    """Defaults are defaults."""
    run(spark.runner(conf={"spark.driver.memory": "5g", "spark.log.level": "INFO"}))
    assert settings(spark)["spark.driver.memory"] == "5g"
    assert settings(spark)["spark.log.level"] == "INFO"


def test_the_driver_leads_a_process_group_of_its_own(spark: FakeSpark) -> None:
    """Signals to the worker's group are not the driver's, and the group can be ended as one."""
    run(spark.runner())
    assert spark.seen["leads"]


def test_started_gets_the_reference_once(spark: FakeSpark) -> None:
    """The reference is `host/pid/starttime` of this host."""
    (ref,) = run(spark.runner())
    assert LeaseHolder.parse(ref).host == HostProcesses().this().host


def test_a_connection_can_hide_more_from_the_event_log_and_uncover_nothing(spark: FakeSpark) -> None:
    """An expression of the Spark connection is added to ours."""
    run(spark.runner(conf=CONF | {"spark.redaction.regex": "[Cc]olour"}))
    found = settings(spark)["spark.redaction.regex"]
    assert all(re.search(found, key) for key in ("spark.my.Colour", "spark.sql.catalog.lake.header.X-Api-Key"))


def test_the_tail_of_a_failure_is_masked(spark: FakeSpark, caplog: pytest.LogCaptureFixture) -> None:
    """The error and the log show the driver's output without any secret."""
    caplog.set_level(logging.DEBUG)
    spark.does(code=1, says='first\nconnecting with pw-lake and password="pw-kafka" and pw-s3\nno newline at the end')
    with pytest.raises(JobFailedError) as failure:
        run(spark.runner())
    assert "exit code 1" in failure.value.message
    assert "connecting with *** and password=" in failure.value.message
    assert failure.value.message.endswith("no newline at the end")
    for shown in (str(failure.value), json.dumps(failure.value.to_json()), caplog.text):
        assert not [secret for secret in ALL_SECRETS if secret in shown]
    assert "connecting with ***" in caplog.text


@pytest.mark.parametrize("error", [StaleFenceError("another holds the wave"), KeyboardInterrupt()])
def test_an_error_of_the_heartbeat_ends_the_whole_group(spark: FakeSpark, error: BaseException) -> None:
    """Who lost the wave stops its driver and all the driver started; the error passes on."""
    spark.does(hang=True)

    def heartbeat() -> None:
        if spark.began():
            raise error

    with pytest.raises(type(error)):
        run(spark.runner(), heartbeat)
    assert gone(spark.seen["pid"])
    assert gone(spark.seen["child"])
    assert list(spark.temporary.iterdir()) == []


def test_an_error_of_started_ends_the_driver(spark: FakeSpark) -> None:
    """A reference that could not be stored belongs to no running driver."""
    spark.does(hang=True)
    refs: list[str] = []

    def started(ref: str) -> None:
        refs.append(ref)
        raise StaleFenceError("another holds the wave")

    with pytest.raises(StaleFenceError):
        spark.runner().stage(JOB, started=started, heartbeat=lambda: None)
    assert HostProcesses().dead(LeaseHolder.parse(refs[0]))


def test_what_the_driver_left_running_ends_with_it(spark: FakeSpark) -> None:
    """A driver that is killed from outside leaves no process of its group behind."""
    spark.does(hang=True)

    def heartbeat() -> None:
        if spark.began():
            psutil.Process(spark.seen["pid"]).kill()

    with pytest.raises(JobFailedError, match="signal 9"):
        run(spark.runner(), heartbeat)
    assert gone(spark.seen["child"])


@pytest.mark.slow
def test_a_driver_without_progress_is_ended(spark: FakeSpark) -> None:
    """It lives and makes no progress: after a while its lease is not renewed, and it is ended with a named reason."""
    spark.does(hang=True, signs=3)
    with pytest.raises(JobFailedError, match="no progress") as stalled:
        run(spark.runner(quiet_seconds=1.0))
    assert stalled.value.facts["reason"] == "stalled"
    assert gone(spark.seen["pid"])
    assert list(spark.temporary.iterdir()) == []


@pytest.mark.slow
def test_a_stopped_driver_makes_no_progress(spark: FakeSpark) -> None:
    """SIGSTOP: the lease is prolonged no more, and the driver does not outlive the patience with it."""
    spark.does(signs=10_000)
    beats: list[bool] = []
    others = set(psutil.Process().children())

    def heartbeat() -> None:
        beats.append(spark.began())
        if spark.began() and len(beats) > 5:
            (driver,) = set(psutil.Process().children()) - others
            driver.suspend()

    with pytest.raises(JobFailedError, match="no progress"):
        run(spark.runner(quiet_seconds=1.0), heartbeat)
    assert beats


@pytest.mark.slow
def test_a_driver_with_progress_is_vouched_for(spark: FakeSpark) -> None:
    """However long it takes, as long as something changes."""
    spark.does(signs=15)
    beats: list[int] = []
    run(spark.runner(quiet_seconds=1.0), lambda: beats.append(1))
    assert len(beats) > 10


def test_a_missing_spark_submit_is_named(spark: FakeSpark, tmp_path: Path) -> None:
    """A wrong path is a sentence, not a traceback."""
    with pytest.raises(JobFailedError, match="does not start"):
        run(spark.runner(spark_submit=tmp_path / "nowhere"))


def test_a_setting_that_is_not_sparks_is_refused(spark: FakeSpark) -> None:
    """spark-submit would only log a warning and ignore it."""
    with pytest.raises(ConnectionSettingsError, match=r"executor\.memory"):
        spark.runner(conf={"executor.memory": "1g"})


def test_where_names_the_master(spark: FakeSpark) -> None:
    """A plan says where its jobs run."""
    assert spark.runner().where() == "a local Spark master on this machine (local[2])"
    cluster, conf = "spark://host:7077", {"spark.submit.deployMode": "cluster"}
    assert spark.runner(master=cluster).where().endswith(f"{cluster} (client mode: the driver runs here)")
    assert spark.runner(master=cluster, conf=conf).where().endswith(f"{cluster} (cluster mode: the driver runs there)")


def test_an_orphan_is_ended(process: Callable[..., subprocess.Popen[bytes]]) -> None:
    """A driver whose worker died is ended by its reference."""
    child = process()
    holder = HostProcesses().holder(child.pid)
    assert end_orphan(str(holder))
    assert child.wait(10) < 0
    assert not end_orphan(str(holder))


def test_a_pid_that_is_used_again_is_never_touched(process: Callable[..., subprocess.Popen[bytes]]) -> None:
    """Another start time is another process, whatever its pid."""
    child = process()
    holder = HostProcesses().holder(child.pid)
    assert holder is not None
    assert not end_orphan(str(replace(holder, started=holder.started - 60)))
    assert not end_orphan(str(replace(holder, host="elsewhere")))
    assert child.poll() is None


def test_a_process_without_a_group_of_its_own_is_never_touched(
    process: Callable[..., subprocess.Popen[bytes]],
) -> None:
    """A driver leads its group; who does not is no driver of ours."""
    child = process(leads=False)
    assert not end_orphan(str(HostProcesses().holder(child.pid)))
    assert child.poll() is None


def test_end_of_an_orphan_sweeps_what_its_worker_left(
    spark: FakeSpark, process: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """The driver is ended by its reference; folders of dead workers go, also when there was no driver to end."""
    left = spark.temporary / "kafka-lake-stage-left"
    left.mkdir()
    (left / "owner").write_text(str(replace(HostProcesses().this(), started=1.0)))
    child = process()
    assert not spark.runner().end_orphan(None, JOB.name)
    assert not left.exists()
    assert child.poll() is None
    assert spark.runner().end_orphan(str(HostProcesses().holder(child.pid)), JOB.name)


@pytest.mark.parametrize("ref", ["", "application_1_2", "host/x/y", "connect/12"])
def test_a_foreign_reference_is_no_orphan(ref: str) -> None:
    """References of other runners are passed over."""
    assert not end_orphan(ref)


POD_CLIENT = "io.fabric8.kubernetes.client.KubernetesClientException"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Fetch position", "data-loss"),
        ("java.lang.IllegalArgumentException: Ref kafka_lake_0011 already exists", "branch-exists"),
        ("BadRequestException: Malformed request: can't add snapshot with sequence number 16", "commit-conflict"),
        ("ValidationException: Cannot add snapshot with sequence number 16 older than", "commit-conflict"),
        ("org.apache.iceberg.exceptions.CommitFailedException: Commit failed: Requirement failed", "commit-conflict"),
        ("[TABLE_OR_VIEW_NOT_FOUND] The table or view `lake`.`raw`.`x` cannot be found.", "table-not-found"),
        ("org.apache.kafka.common.errors.TimeoutException: Call(callName=listOffsets)", "kafka-unreachable"),
        (
            "java.util.concurrent.TimeoutException: Cannot fetch record for offset 5 in 120000 milli",
            "kafka-unreachable",
        ),
        ("Partitions specified for Kafka start offsets don't match what are assigned.", "unknown-topic"),
        ("java.lang.OutOfMemoryError: Java heap space", "out-of-memory"),
        ("java.io.IOException: No space left on device", "no-space"),
        ("[SQLITE_FULL] Insertion failed because database is full (database or disk is full)", "no-space"),
        ("java.lang.ArithmeticException: long overflow", "unreadable-record"),
        ("KafkaException: Received exception when fetching the next record from orders-2.", "unreadable-record"),
        ("CorruptRecordException: Record is corrupt (stored crc = 1, computed crc = 2)", "unreadable-record"),
        ("org.apache.kafka.common.errors.SaslAuthenticationException: failed", "kafka-authentication"),
        ("java.lang.ClassNotFoundException: airflow_kafka_lake.SharedConsumer", "no-shared-consumer"),
        ("S3Exception: The key does not exist. (Service: S3, Status Code: 403, Request ID: 1)", "store-refuses"),
        ("SdkClientException: Unable to load region from any of the providers in the chain", "store-refuses"),
        ("Error: Could not create the Java Virtual Machine.", "java-options"),
        ("java.lang.NoClassDefFoundError: software/amazon/awssdk/services/s3/model/S3Exception", "missing-classes"),
        ("java.lang.IncompatibleClassChangeError: class A can not implement B", "missing-classes"),
        ('UnsupportedFileSystemException: No FileSystem for scheme "s3"', "missing-classes"),
        (f": {POD_CLIENT}: An error has occurred.", "master-unreachable"),
        (f": {POD_CLIENT}: Received 401 on websocket. Failure executing: GET at: http://api", "cluster-refuses"),
        ("Required executor memory (8192 MB) is above the max threshold (4096 MB) of this cluster!", "cluster-refuses"),
        ("YarnException: Failed to submit application_1_2 to YARN : unknown queue: nosuch", "cluster-refuses"),
    ],
)
def test_usual_failures_are_named(line: str, name: str) -> None:
    """The usual reasons are recognised among other lines."""
    found = recognised(["WARN something", line, "at org.apache.spark"])
    assert found is not None
    assert found.name == name


def test_job_that_stalls_has_the_last_words_in_which_its_cluster_refused_a_pod() -> None:
    """A call that failed once in mid-work is no reason of an end, and none of a driver that a cluster took."""
    refused = "{}: Failure executing: POST at: http://api/pods. Message: {}. Received status: Status(code=403)."
    lines = [refused.format(POD_CLIENT, words) for words in ("exceeded quota: small", "no right for secret-word")]
    assert recognised(lines) is None
    why = why_waiting(lines, Secrets({"password": "secret-word"}))
    assert why == "no right for ***"
    assert f"a full cluster ({why}); " in str(job_stalled(JOB, 60, why))
    assert "a full cluster; " in str(job_stalled(JOB, 60, why_waiting(["WARN something"], Secrets())))


@pytest.mark.parametrize(
    "line",
    [
        "java.lang.IncompatibleClassChangeError: class A can not implement B",
        "Error: Could not create the Java Virtual Machine.",
        "org.apache.kafka.common.errors.SaslAuthenticationException: failed",
        "java.nio.file.AccessDeniedException: (Permission denied)",
    ],
)
def test_a_failure_that_only_a_person_mends_is_terminal(line: str) -> None:
    """A task that fails so is not retried, and no record is searched for as the cause."""
    error = job_failed(JOB, 1, ["WARN something", line], Secrets())
    assert isinstance(error, ConnectionSettingsError)
    assert not is_unknown(error)


@pytest.mark.parametrize(
    ("lines", "is_searched"),
    [
        (["Traceback", "py4j.protocol.Py4JJavaError: An error", "Caused by: some.Other"], False),
        (["pyspark.errors.exceptions.captured.AnalysisException: [SOME] thing"], False),
        (["py4j.protocol.Py4JJavaError: An error", "SparkException: Job aborted due to stage failure: Task 0"], True),
        (["ERROR Executor: Exception in task 0.0 in stage 0.0", "py4j.protocol.Py4JJavaError: An error"], True),
        (["something else entirely"], True),
    ],
)
def test_a_job_that_read_nothing_met_no_bad_record(lines: list[str], is_searched: bool) -> None:
    """Records are read in tasks: where the job's own exception ended it, trials of halves would find nothing."""
    error = job_failed(JOB, 1, lines, Secrets())
    assert isinstance(error, JobFailedError)
    assert is_unknown(error) is is_searched
    assert f"They end with: {lines[-1].removeprefix('Caused by: ')}\n" in error.message, "the cause stands in front"
    killed = job_failed(JOB, -9, lines, Secrets())
    assert is_unknown(killed), "a driver that is killed may have read anything"
    assert "was ended by signal 9. A system that is short of memory ends a process so" in killed.message
    apart = replace(JOB, slices=(), overflowing=JOB.slices)
    assert is_unknown(job_failed(apart, 1, lines, Secrets())), "these the driver itself reads"


def test_stack_frames_are_left_out_of_the_last_words() -> None:
    """A person reads what went wrong, not where in Spark's code."""
    frames = [f"\tat org.apache.spark.Some$.thing(Some.scala:{number})" for number in range(100)]
    said = ["Caused by: first", *frames, "\t... 12 more", "Caused by: second", *frames]
    assert tail(said) == "Caused by: first\nCaused by: second"


def test_the_tail_has_no_python_frames() -> None:
    """What the job's own Python says is its error, not the lines of code it came through."""
    said = [
        "Traceback (most recent call last):",
        '  File "stage.py", line 295, in <module>',
        "    main(sys.argv[1:])",
        '  File "/spark/worker.py", line 7, in run',
        "    writer.append()",
        "    ^^^^^^^^^^^^^^^",
        "PythonException: ",
        "  An exception was thrown from the Python worker.",
        "core.errors.RefusedError: no such table",
    ]
    spoken = [said[-3], said[-2], said[-1]]
    assert tail(said) == "\n".join(spoken)


def test_the_tail_has_no_head_of_a_python_stack_behind_other_words() -> None:
    """Where Java repeats Python's error, its line goes on with the words that announce a stack."""
    said = [
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):",
        '  File "/spark/worker.py", line 7, in run',
        "    writer.append()",
        "core.errors.UnavailableError: away",
    ]
    assert tail(said) == "org.apache.spark.api.python.PythonException:\ncore.errors.UnavailableError: away"


def test_an_unusual_failure_is_not_guessed() -> None:
    """An unknown failure has no reason."""
    assert recognised(["something else entirely"]) is None
    assert len({reason.name for reason in REASONS}) == len(REASONS)


def test_properties_survive_javas_format() -> None:
    """Backslashes, separators, line ends and leading blanks are escaped."""
    assert properties_text({"a b=c": " x\\y\nz"}) == "a\\ b\\=c=\\ x\\\\y\\nz\n"


@pytest.mark.parametrize(("ours", "theirs"), [("catalog-impl", "type"), ("type", "catalog-impl")])
def test_catalog_is_named_by_the_lake_connection_alone(tmp_path: Path, ours: str, theirs: str) -> None:
    """Iceberg refuses one that is named by a type and by a class; other settings of it are the Spark connection's."""
    name = "spark.sql.catalog.lake"
    conf = {f"{name}.{theirs}": "theirs", f"{name}.cache-enabled": "true"}
    found = properties(
        master="local[2]", catalog={f"{name}.{ours}": "ours"}, conf=conf, driver_memory="1g", folder=tmp_path
    )
    named = {key: value for key, value in found.items() if key.startswith(name) and ".hadoop." not in key}
    assert named == {f"{name}.{ours}": "ours", f"{name}.cache-enabled": "true"}


COMPARE = CompareJob(
    pipeline="orders", table="raw.orders", snapshot=7, isolation=Isolation.READ_COMMITTED, slices=JOB.slices
)


def test_a_comparison_is_read_back_and_its_progress_is_told(spark: FakeSpark) -> None:
    """Every line once, also those of the last moment; the request has the job, and secrets stay in private files."""
    found = ContentComparison(records=3, bytes=4, differences=())
    spark.does(signs=2, writes={"messages": "one\ntwo\n", "result.json": json.dumps(found.to_json())})
    said: list[str] = []
    assert spark.runner().report(COMPARE, progress=said.append, counted=lambda _: None) == found.to_json()
    assert said == ["one", "two"]
    assert json.loads(spark.seen["texts"]["job.json"])["job"] == COMPARE.to_json()
    assert spark.seen["argv"][-2].endswith("compare.py")
    assert not [secret for secret in ALL_SECRETS if secret in " ".join(spark.seen["argv"])]
    assert list(spark.temporary.iterdir()) == []


def test_a_small_comparison_starts_quickly_and_a_large_one_runs_fast(spark: FakeSpark) -> None:
    """As staging does: what there is to read decides."""
    spark.does(writes={"result.json": json.dumps(ContentComparison(records=0, bytes=0, differences=()).to_json())})
    for offsets, quick in ((LIGHT // 2, True), (LIGHT // 2 + 1, False)):
        large = replace(JOB.slices[0], range=OffsetRange(0, offsets))
        spark.runner().report(replace(COMPARE, slices=(large,)), progress=lambda _: None, counted=lambda _: None)
        assert ("TieredStopAtLevel=1" in spark.seen["texts"]["java.options"]) is quick


def test_a_comparison_that_fails_changed_nothing(spark: FakeSpark) -> None:
    """Its error says what it was and what to do; what retention took meanwhile is said as such."""
    spark.does(code=1, says="OffsetOutOfRangeException: gone\n")
    with pytest.raises(JobFailedError, match="Retention or deletion passed offsets") as raised:
        spark.runner().report(COMPARE, progress=lambda _: None, counted=lambda _: None)
    assert "compares raw.orders with Kafka ended with exit code 1" in raised.value.message
    assert "nothing was changed: audit again" in raised.value.message


REDECODE = RedecodeJob(
    id="0" * 16,
    pipeline="orders",
    table="raw.orders",
    decoders=(Decoder(format=Format.STRING, topics=("orders",), name="UTF-8", column="line"),),
    only_failed=True,
)


def test_what_was_decoded_again_is_read_back(spark: FakeSpark) -> None:
    """The job travels whole, and comes back as it went."""
    done = {"rows": 3, "failed": 1, "base": 7, "staged": 8}
    spark.does(writes={"messages": "one\n", "result.json": json.dumps(done)})
    assert spark.runner().report(REDECODE, progress=lambda _: None, counted=lambda _: None) == done
    assert RedecodeJob.from_json(json.loads(spark.seen["texts"]["job.json"])["job"]) == REDECODE
    assert spark.seen["argv"][-2].endswith("redecode.py")


def test_a_schema_that_a_job_refuses_is_no_failure_to_repeat(spark: FakeSpark) -> None:
    """The person reads why, and not that a driver ended."""
    refused = "[decode] column a is string in the table and int in UTF-8."
    spark.does(code=1, writes={"result.json": json.dumps({"refused": refused})})
    with pytest.raises(SchemaMismatchError, match=r"^\[decode\] column a is string in the table and int in UTF-8\.$"):
        spark.runner().report(REDECODE, progress=lambda _: None, counted=lambda _: None)


def test_what_travels_is_small_and_complete(tmp_path: Path) -> None:
    """The zip holds the job and what it imports, so that the driver needs nothing of ours installed, and Spark only."""
    path, spark = tmp_path / "travels.zip", tmp_path / "spark"
    path.write_bytes(package_zip())
    spark.mkdir()
    for name in ("pyspark", "py4j"):
        (spark / name).symlink_to(Path(importlib.import_module(name).__path__[0]))
    with zipfile.ZipFile(path) as archive:
        modules = [name.removesuffix(".py") for name in archive.namelist() if name.endswith(".py")]
    names = [name.removesuffix("/__init__").replace("/", ".") for name in modules]
    assert {"airflow_kafka_lake.jobs.stage", "airflow_kafka_lake.jobs.compare"} <= set(names)
    code = (
        f"import importlib, sys; sys.path[:0] = [{str(path)!r}, {str(spark)!r}]\n"
        f"for name in {names!r}: print(importlib.import_module(name).__file__)"
    )
    answer = subprocess.run([sys.executable, "-S", "-I", "-c", code], capture_output=True, text=True, check=True)
    assert all(line.startswith(str(path)) for line in answer.stdout.splitlines())


def test_what_is_compiled_travels_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver need not compile it again; one of another Python reads the source beside it."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "compiled"))
    py_compile.compile(stage.__file__)
    code = "import sys; sys.path.insert(0, sys.argv[1]); import airflow_kafka_lake.jobs.stage as s; print(s.__file__)"
    path, ways = tmp_path / "travels.zip", []
    for _ in range(2):
        path.write_bytes(package_zip.__wrapped__())
        words = [sys.executable, "-S", "-I", "-c", code, str(path)]
        ways.append(subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip())
        for compiled in (tmp_path / "compiled").rglob("*.pyc"):
            compiled.write_bytes(b"of another Python")
    assert [Path(way).suffix for way in ways] == [".pyc", ".py"]


def test_class_archive_is_one_of_this_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another `JAVA_HOME` is another archive."""
    found = set()
    for name in ("java-17", "java-21"):
        java = tmp_path / name / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.touch(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / name))
        found.add(archive_path([]))
    assert len(found) == 2
