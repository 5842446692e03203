"""`ports.JobRunner` by spark-submit; a driver can only stage."""

from __future__ import annotations

import hashlib
import http.client
import json
import logging
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar
from urllib.parse import urlencode

from airflow_kafka_lake.adapters.clients import Secrets
from airflow_kafka_lake.adapters.jars.cache import JarSet, default_cache, files, fitting_sparks, verified
from airflow_kafka_lake.adapters.java import find_java, require_java, require_matching_pyspark, spark_home
from airflow_kafka_lake.adapters.machine import telling
from airflow_kafka_lake.adapters.spark_submit import driver as drivers
from airflow_kafka_lake.adapters.spark_submit import failures, submission
from airflow_kafka_lake.adapters.spark_submit.driver import Driver, Engine, RunningJob
from airflow_kafka_lake.adapters.spark_submit.failures import Job
from airflow_kafka_lake.core.amounts import count, span
from airflow_kafka_lake.core.errors import JobFailedError, KafkaLakeError, SchemaMismatchError
from airflow_kafka_lake.core.reports.progress import Counters
from airflow_kafka_lake.core.spark.job import IDLE_SECONDS, LIGHT, QUIET_SECONDS, Application, StageJob, Tip, is_local
from airflow_kafka_lake.jobs import serve, stage
from airflow_kafka_lake.jobs.caller import LOG_FILE, MESSAGES_FILE, PROGRESS_FILE, RESULT_FILE, GivenJob
from airflow_kafka_lake.jobs.driver import JAVA_OPTIONS_FILE, PROPERTIES_FILE, REFUSED
from airflow_kafka_lake.jobs.formats import CATALOG_CLASS
from airflow_kafka_lake.jobs.java import BESIDE_JAVA
from airflow_kafka_lake.ports import ReportingJob

# Applications of a Spark standalone master, found and ended by their name through the master's web address.

SCHEME = "spark://"
UI_PORT = "spark.master.ui.port"
"""The setting of the port of the master's web address; 8080 by default."""

_DEFAULT_PORT = 8080
_TIMEOUT_SECONDS = 3.0
_GONE_SECONDS = 10.0
_POLL_SECONDS = 0.2
_T = TypeVar("_T")


def end_application(master: str, ui_port: str | None, name: str) -> bool:
    """End the running applications of exactly this name; return whether there was one and it has ended.

    `master` is `spark://host:port`, or several hosts of which one leads. A master that does not answer, or does not
    allow to end applications, is logged and is no error: an application that goes on can only stage.
    """
    return any(_each(master, ui_port, partial(_end_at, name)))


def lacking_room(master: str, ui_port: str | None, application: str, cores: str) -> str:
    """Return the room that an application's executor of so many cores needs, or, before there is one, a driver on the
    cluster, if no worker of a standalone master has it free; nothing where the master does not tell."""

    def lacking(host: str, port: int) -> str:
        told = _told(host, port)
        asked = [
            (item.memoryperexecutor, int(cores), "an executor") for item in told.activeapps if item.id == application
        ]
        waiting = [item for item in told.activedrivers if item.state == "SUBMITTED" and not application]
        asked += [(item.memory, item.cores, "the driver") for item in waiting]
        workers = [item for item in told.workers if item.state == "ALIVE"]
        for memory, most, kind in asked if workers else ():
            if not any(item.memoryfree >= memory and item.coresfree >= most for item in workers):
                largest = max(item.memory for item in workers), max(item.cores for item in workers)
                needed, have = (f"{m / 1024:.3g} GiB and {count(c, 'core')}" for m, c in ((memory, most), largest))
                return f"no worker has {needed} free for {kind}; at most they have {have}"
        return ""

    return next(filter(None, _each(master, ui_port, lacking)), "")


def _each(master: str, ui_port: str | None, ask: Callable[[str, int], _T]) -> list[_T]:
    found = []
    for host in (address.rsplit(":", 1)[0] for address in master.removeprefix(SCHEME).split(",")):
        try:
            found.append(ask(host, int(ui_port or _DEFAULT_PORT)))
        except (OSError, http.client.HTTPException, AttributeError, TypeError, ValueError) as error:
            _logger.info("the Spark master on %s gave no answer, or not its own: %r", host, error)
    return found


def _end_at(name: str, host: str, port: int) -> bool:
    def running() -> set[str]:
        return {str(item.id) for item in _told(host, port).activeapps if item.name == name}

    found = running()
    for application in found:
        _ask(host, port, "POST", "/app/kill/", form=urlencode({"id": application, "terminate": "true"}))
    # The master answers a kill with a redirect even where kills are not allowed: only its list tells.
    return bool(found) and drivers.came(lambda: not found & running(), _GONE_SECONDS, _POLL_SECONDS)


def _told(host: str, port: int) -> Any:
    return json.loads(_ask(host, port, "GET", "/json/"), object_hook=lambda found: SimpleNamespace(**found))


def _ask(host: str, port: int, method: str, path: str, *, form: str | None = None) -> bytes:
    headers = {"Content-Type": "application/x-www-form-urlencoded"} if form else {}
    with closing(http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)) as connection:
        connection.request(method, path, form, headers)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status >= http.client.BAD_REQUEST:
            raise http.client.HTTPException(f"{method} {path} answered {answer.status}")
        return body


# An archive of the driver's classes, ready to be mapped: a driver with it starts in less than half the time.
#
# Java writes it at the end of a job that only loads the classes, and checks it at every start; Java ignores an
# archive that does not fit (another Java, other jars). It is in the cache beside the jars, so an image that fetched
# them has it.

_MASTER = "local[1]"


def archive_path(jars: Sequence[Path | str]) -> Path:
    """Return where the archive for this Spark, this Java and these jars is or would be.

    Java maps no archive whose jars have another size or time than those it was made from, so a Spark that was installed
    anew has another archive.
    """
    place = _digest([str(spark_home()), str(find_java().resolve()), *map(str, jars)])
    files = sorted([*submission.spark_jars(), *map(Path, submission.all_jars(jars))])
    stats = [(path.name, path.stat()) for path in files if path.exists()]
    state = _digest([f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in stats])
    return default_cache() / "classes" / f"spark-{place}-{state}.jsa"


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def make_archive(jars: Sequence[Path]) -> Path:
    """Return the archive of a job's classes (about 180 MB), made before or now (half a minute).

    Raises JobFailedError when it cannot be made; jobs run without an archive too, but start more slowly.
    """
    target = archive_path(jars)
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with submission.private_folder() as folder:
        made = folder / target.name
        _load_classes(folder, jars, made)
        arriving = target.with_name(f".{folder.name}-{target.name}")
        shutil.move(made, arriving)
        arriving.rename(target)
    place = target.stem.rpartition("-")[0]
    for old in target.parent.glob(f"{place}-*.jsa"):
        if old != target:
            old.unlink(missing_ok=True)
    return target


def _load_classes(folder: Path, jars: Sequence[Path], made: Path) -> None:
    runner = SparkSubmitRunner(master=_MASTER, catalog=_catalog(folder), kafka={}, jars=jars, driver_memory="1g")
    driver = runner.submitted(
        folder,
        name="kafka-lake class archive",
        program=STAGE_PROGRAM,
        request={},
        options=[*submission.QUICK_START, f"-XX:ArchiveClassesAtExit={made}"],
    )
    try:
        code = driver.wait(lambda: None, 60, lambda: None)
    finally:
        driver.end()
    if code or not made.exists():
        said = (folder / LOG_FILE).read_text("utf-8", "replace").splitlines()
        raise JobFailedError(
            f"The job that loads Spark's classes ended with exit code {code} and left no class archive:\n"
            f"{failures.tail(said)}"
        )


def _catalog(folder: Path) -> dict[str, str]:
    name = "spark.sql.catalog.lake"
    places = {"uri": f"jdbc:sqlite:{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    options = {"type": "jdbc", "jdbc.schema-version": "V1", **places}
    return {name: CATALOG_CLASS, **{f"{name}.{key}": value for key, value in options.items()}}


# Spark jobs by spark-submit in client mode, in a driver of their own or in a warm one; a driver can only stage.

SILENCE_SECONDS = 300.0
"""After so long without a sign of its worker a warm driver that works ends itself: the lease is long over."""

_STOP_SECONDS = 10.0
_EVENT_LOG = "spark.eventLog.enabled"
_logger = logging.getLogger(__name__)


STAGE_PROGRAM = Path(stage.__file__)
"""The program of a staging job's driver; a `ReportingJob` names its own."""


class SparkSubmitRunner:
    """Runs staging, comparing and decoding jobs under a Spark master (`ports.JobRunner`).

    `catalog` holds the `spark.sql.catalog.lake…` settings, `kafka` Java client settings, `conf` further Spark settings;
    all three may hold secrets, which reach the driver in files of mode 0600 and appear nowhere else. `jars` are local
    paths; `spark_submit` stands in the place of the installed Spark. `driver_memory` defaults to the master's usual
    size. `stage_program` is the program of a staging driver. `application` is given each driver's application, with its
    page at `history_server`. With an `engine` jobs run in its warm driver, which waits `idle_seconds` for the next one;
    without, each in a driver of its own. In deploy mode cluster each job has a driver of its own on the cluster, which
    calls this process.
    Raises ConnectionSettingsError for a missing master, and a setting that is not Spark's.
    """

    def __init__(
        self,
        *,
        master: str,
        catalog: Mapping[str, str],
        kafka: Mapping[str, str],
        jars: Sequence[Path] = (),
        conf: Mapping[str, str] | None = None,
        driver_memory: str | None = None,
        spark_submit: Path | None = None,
        stage_program: Path = STAGE_PROGRAM,
        application: Callable[[Application], None] = lambda _: None,
        history_server: str | None = None,
        heartbeat_seconds: float = 3.0,
        quiet_seconds: float = QUIET_SECONDS,
        engine: Engine | None = None,
        idle_seconds: float = IDLE_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self._master = master
        self._catalog = submission.checked_conf(catalog)
        self._conf = submission.checked_conf(conf or {})
        self._is_called = self._conf.get(submission.DEPLOY_MODE) == "cluster"
        self._kafka = dict(kafka)
        self._jars = tuple(jars)
        self._driver_memory = driver_memory or ("2g" if is_local(self._master) else "1g")
        self._settings = partial(
            submission.properties, master=master, catalog=self._catalog, driver_memory=self._driver_memory
        )
        self._spark_submit = spark_submit
        self._stage_program = stage_program
        self._application = application
        self._history_server = history_server
        self._heartbeat_seconds = heartbeat_seconds
        self._quiet_seconds = quiet_seconds
        self._engine = None if self._is_called else engine
        self._waits = {"idle_seconds": idle_seconds, "silence_seconds": silence_seconds}
        self._secrets = Secrets(self._catalog, self._kafka, self._conf)

    def _verify(self) -> None:
        """Find a missing part before every start of a driver."""

    def where(self) -> str:
        if is_local(self._master):
            return f"a local Spark master on this machine ({self._master})"
        place = "cluster mode: the driver runs there" if self._is_called else "client mode: the driver runs here"
        return f"the Spark master {self._master} ({place})"

    def calls(self) -> tuple[str, str]:
        """Return where a driver on the cluster calls, and a doubt that it can; nothing in client mode."""
        return drivers.told_of_calls(self._conf.get(drivers.ADDRESS, "")) if self._is_called else ("", "")

    def stage(
        self,
        job: StageJob,
        *,
        started: Callable[[str], None],
        heartbeat: Callable[[], None],
        counted: Callable[[Counters], None] = lambda _: None,
        read: Callable[[Sequence[Tip]], None] = lambda _: None,
    ) -> None:
        """Run the job to its end (`ports.JobRunner.stage`).

        `started` gets `host/pid/starttime`; `heartbeat` is called every few seconds while the driver lives and has made
        progress within `quiet_seconds`. Whatever either raises, a longer silence, and an interrupt, ends the driver's
        whole process group and passes on.
        """
        with self._running(job) as running:
            try:
                self._follow(running, job, started=started, heartbeat=heartbeat, counted=counted)
            finally:
                read([Tip.from_json(item) for item in _left(running).get("read", ())])

    def report(
        self, job: ReportingJob, *, progress: Callable[[str], None], counted: Callable[[Counters], None]
    ) -> Mapping[str, Any]:
        with self._running(job) as running:
            messages = drivers.FollowedLog(running.folder / MESSAGES_FILE, progress)
            self._follow(running, job, heartbeat=messages.follow, counted=counted)
            messages.finish()
            found: dict[str, Any] = json.loads((running.folder / RESULT_FILE).read_text(encoding="utf-8"))
            return found

    def prepare(self, effort: int) -> None:
        """Start a warm driver for jobs of so much effort that will probably be next, if it is to run on this machine.

        On a cluster it would hold executors that others wait for, and its end would take its time.
        """
        if self._engine is not None and is_local(self._master):
            self._engine.prepare(self._start(is_heavy=self._engine.is_heavy(effort)))

    @contextmanager
    def _running(self, job: Job) -> Iterator[RunningJob]:
        """Begin a job: in the warm driver, if there is one and it is free, else in one of its own."""
        request = {"job": job.to_json(), "kafka": self._kafka}
        if self._engine is not None:
            start = self._start(is_heavy=self._engine.is_heavy(job.effort))
            with self._engine.running(start, _importable(self._program(job)), job.name, request) as warm:
                if warm is not None:
                    yield warm
                    self._engine.spent(job.effort)
                    return
        with submission.private_folder() as folder:
            driver = (self._called if self._is_called else self._begun)(folder, job, request)
            beat = driver.line.beat if driver.line else lambda: None
            try:
                yield RunningJob(driver=driver, ref=driver.ref, folder=folder, log=folder / LOG_FILE, beat=beat)
            finally:
                driver.end()

    def _follow(
        self,
        running: RunningJob,
        job: Job,
        *,
        started: Callable[[str], None] = lambda _: None,
        heartbeat: Callable[[], None],
        counted: Callable[[Counters], None],
    ) -> None:
        """Watch a job to its end; JobFailedError when it fails or makes no progress, SchemaMismatchError when it has
        refused the schema of its table."""
        log = drivers.FollowedLog(running.log, partial(self._heard, running.driver), begin=running.log_begin)
        known, last = {""}, Counters(executors=int(is_local(self._master)))  # a cluster may let its driver wait

        def told(counters: Counters) -> None:
            nonlocal last
            if counters.application not in known:
                server = self._history_server if counters.is_logged else None
                if found := Application.of(counters.application, counters.page, history_server=server):
                    self._application(found)
                known.add(counters.application)
            why = "" if counters.executors else self._why(counters.application, log.lines)
            counted(last := replace(counters, why=why))

        signs = drivers.Signs(running.folder / PROGRESS_FILE, self._quiet_seconds, told)

        def renew() -> None:
            if not signs.is_recent():
                raise failures.job_stalled(job, self._quiet_seconds, last.why)
            if not (running.folder / PROGRESS_FILE).exists():
                told(last)
            heartbeat()
            running.beat()

        started(running.ref)
        counted(last)
        code = running.driver.wait(renew, self._heartbeat_seconds, log.follow, running.is_done)
        log.finish()
        signs.is_recent()  # the last counts
        if running.has_failed(code):
            raise self._failure(running, job, code or 0, log.lines)

    def _why(self, application: str, lines: Iterable[str]) -> str:
        """Return why a cluster gives a job no executor, as far as it says so, else the room that one needs."""
        memory, cores = self._conf.get("spark.executor.memory", "1g"), self._conf.get("spark.executor.cores", "1")
        said = failures.why_waiting(lines, self._secrets)
        if not said and self._master.startswith(SCHEME) and (application or self._is_called):
            said = lacking_room(self._master, self._conf.get(UI_PORT), application, cores)
        return said or f"each needs {memory} of memory and {cores} {'core' if cores == '1' else 'cores'}"

    def _heard(self, driver: Driver, line: str) -> None:
        _logger.debug("%s", self._secrets.masked(line))
        if failures.NOT_TAKEN in line:
            driver.end()

    def _failure(self, running: RunningJob, job: Job, code: int, lines: Iterable[str]) -> KafkaLakeError:
        if refused := _left(running).get(REFUSED):
            return SchemaMismatchError(self._secrets.masked(refused), table=job.table)
        if (line := running.driver.line) and line.fault:
            return line.fault
        untold = failures.NO_CALL if line and not line.has_called else None
        return failures.job_failed(job, code, lines, self._secrets, untold=untold)

    def end_orphan(self, job: str | None, name: str) -> bool:
        """End an attempt's job (`ports.JobRunner.end_orphan`), and remove the folders that killed workers left.

        On this host the driver's process group, by its reference; under a standalone master also the application, by
        its name, wherever its driver is. YARN and Kubernetes are not asked.
        """
        ended = job is not None and drivers.end_orphan(job)
        if self._master.startswith(SCHEME):
            ended = end_application(self._master, self._conf.get(UI_PORT), name) or ended
        submission.sweep_folders()
        return ended

    def _start(self, *, is_heavy: bool) -> drivers.DriverStart:
        """Return how a warm driver is started: its application has no job's name, by which it would be ended."""
        is_logged = self._conf.get(_EVENT_LOG, "false").lower() == "true"
        return drivers.DriverStart(
            settings=(
                *(self._master, self._catalog, self._conf, self._driver_memory, self._jars, self._waits),
                self._spark_submit,
                # One set of secrets for each driver, so that all in its log can be masked. A client's id is no secret.
                {key: value for key, value in self._kafka.items() if key != "client.id"},
            ),
            is_heavy=is_heavy and is_local(self._master),  # elsewhere its executors compute
            begin=lambda folder: self.submitted(
                folder,
                name=f"kafka-lake driver {folder.name}",
                program=Path(serve.__file__),
                request=self._waits,
                options=self._start_options(is_heavy=is_heavy),
                conf=submission.MANY_JOBS | self._conf,
            ),
            stop_seconds=0.0 if is_local(self._master) and not is_logged else _STOP_SECONDS,
        )

    def submitted(
        self,
        folder: Path,
        *,
        name: str,
        program: Path,
        request: Mapping[str, Any],
        options: Sequence[str],
        conf: Mapping[str, str] | None = None,
    ) -> Driver:
        """Start a driver whose Java has these options: by itself, where it needs nothing of Spark's own script."""
        self._verify()
        java, home = submission.token_options(self._kafka), None if self._spark_submit else spark_home()
        settings = self._settings(conf=self._conf if conf is None else conf, folder=folder, java=java)
        class_path, shipped = submission.brought_with(self._master, self._jars, self._conf)
        words, modules = [str(program), str(folder / submission.REQUEST_FILE)], list[Path]()
        if home and not shipped and not submission.needs_script(self._master, self._conf):
            options = [*submission.options_of_spark(class_path, self._conf, self._driver_memory), *options]
            settings |= submission.told_by_submit(folder, self._master, name)
            command = [sys.executable, "-c", BESIDE_JAVA, *words, *submission.java_start(folder)]
            modules = [folder / submission.ZIP_FILE, *sorted(home.glob("python/lib/*.zip"))]
        else:
            named = submission.arguments(
                folder, self._master, name=name, class_path=class_path, shipped=shipped, program=words
            )
            command = [str(self._spark_submit or f"{home}/bin/spark-submit"), *named]
        text = submission.java_options(folder, [*options, *java], self._conf, self._driver_memory)
        submission.write_private(folder / PROPERTIES_FILE, submission.properties_text(settings))
        submission.write_private(folder / JAVA_OPTIONS_FILE, text)
        submission.write_private(folder / submission.REQUEST_FILE, json.dumps(request))
        (folder / submission.ZIP_FILE).write_bytes(submission.package_zip())
        env = submission.environment(spark_home=home, modules=modules)
        return Driver(command, log=folder / LOG_FILE, env=env, cwd=folder)

    def _begun(self, folder: Path, job: Job, request: Mapping[str, Any]) -> Driver:
        options = self._start_options(is_heavy=job.effort > LIGHT)
        return self.submitted(folder, name=job.name, program=self._program(job), request=request, options=options)

    def _called(self, folder: Path, job: Job, request: Mapping[str, Any]) -> Driver:
        """Submit a driver to the cluster, which calls this process."""
        self._verify()
        java = submission.token_options(self._kafka)
        (folder / submission.ZIP_FILE).write_bytes(submission.package_zip())
        jars = [*map(Path, submission.all_jars(self._jars)), *submission.sent_jars(self._conf)]
        given = GivenJob(
            package=submission.ZIP_FILE,
            jars=[jar.name for jar in jars],
            further_jars=submission.addresses(self._conf),
            **submission.told_of(self._settings(conf=self._conf, folder=folder, java=java), java, job.name),
            program=_importable(self._program(job)),
            request=dict(request),
            silence_seconds=self._waits["silence_seconds"],
        )
        line = drivers.WorkerLine(
            folder, self._conf.get(drivers.ADDRESS, ""), files=[folder / submission.ZIP_FILE, *jars], job=given
        )
        shown = submission.shown_settings(self._master, self._conf, self._driver_memory, line.token)
        submission.write_private(folder / PROPERTIES_FILE, submission.properties_text(shown))
        home, text = spark_home(), drivers.program_text()
        words = submission.call_arguments(
            folder, self._master, name=job.name, address=line.address, digest=line.digest, text=text
        )
        start, env = self._spark_submit or f"{home}/bin/spark-submit", submission.call_environment(home, line.token)
        return drivers.CalledDriver([start, *words], line=line, log=folder / LOG_FILE, env=env, cwd=folder)

    def _program(self, job: Job) -> Path:
        return self._stage_program if isinstance(job, StageJob) else submission.PACKAGE / job.program

    def _start_options(self, *, is_heavy: bool) -> list[str]:
        """Return the options that make the driver fast; a heavy job in a local master is worth the better compiler."""
        options = submission.HOT_ONLY if is_local(self._master) and is_heavy else submission.QUICK_START
        archive = archive_path(self._jars)
        return [*options, *([f"-XX:SharedArchiveFile={archive}"] if archive.exists() else [])]


def _left(running: RunningJob) -> Mapping[str, Any]:
    """Return the document that a job has left, if it has come so far."""
    with suppress(FileNotFoundError, ValueError):
        return dict(json.loads((running.folder / RESULT_FILE).read_text(encoding="utf-8")))
    return {}


def _importable(program: Path) -> str:
    """Return a program of this package as the module that it is in the driver, any other as a file."""
    if not program.is_relative_to(submission.PACKAGE):
        return str(program)
    return ".".join(program.relative_to(submission.PACKAGE.parent).with_suffix("").parts)


class SparkJobs(SparkSubmitRunner):
    """A runner that verifies Java, PySpark and the jars anew before every start of a driver."""

    def __init__(
        self, *, conf: Mapping[str, str], stores: Sequence[JarSet] = (), engine: Engine | None = None, **settings: Any
    ) -> None:
        self._sets: tuple[JarSet, ...] = () if "spark.jars.packages" in conf else (JarSet.SPARK, *stores)
        super().__init__(conf=conf, engine=engine, jars=_each_once(map(files, self._sets)), **settings)

    def check(self) -> None:
        """Raise the error of a missing Java, PySpark or jar, with the command that installs it.

        The first driver that this command starts needs no second look, and a warm one's jars need none.
        """
        engine = self._engine or Engine()
        if not engine.has_driver():
            self._verify_all()
            engine.is_verified = True

    def parts(self) -> str:
        """Name the parts that `check` has found on this machine."""
        jars = "the jars of spark.jars.packages" if not self._sets else f"the jars ({', '.join(self._sets)})"
        return f"{require_java()}, Spark {require_matching_pyspark()} and {jars}"

    def _verify(self) -> None:
        engine = self._engine or Engine()
        if not engine.is_verified:
            self._verify_all()
        engine.is_verified = False

    def _verify_all(self) -> None:
        require_java()
        require_matching_pyspark(jars_of=fitting_sparks() if self._sets else ())
        for jars in self._sets:
            verified(jars)
        submission.require_jars(self._conf)


def _each_once(sets: Iterable[Sequence[Path]]) -> list[Path]:
    """Return the jars of some sets, which may share some."""
    return list({path.name: path for paths in sets for path in paths}.values())


def fetch_jars(progress: Callable[[str], None], stores: Sequence[str] = ()) -> list[Path]:
    """Return the verified jars of every job, fetched where they are missing, and prepare a quicker start with them.

    `stores` name those of lakes in a store, and of a login, besides.
    The archive of a driver's classes, with which jobs start in half the time, lies beside the jars; it is optional.
    """
    from airflow_kafka_lake.adapters.jars.cache import fetch  # the part that downloads

    require_java()
    require_matching_pyspark(jars_of=fitting_sparks())
    jars = _each_once(fetch(jar_set, progress=progress) for jar_set in (JarSet.SPARK, *map(JarSet, stores)))
    if not archive_path(jars).exists():
        begun, doing = time.monotonic(), "preparing a quicker start of Spark"
        progress(f"{doing}: once, half a minute, or minutes on a busy machine")
        try:
            with telling(15, lambda: progress(f"{doing}, for {span(time.monotonic() - begun)}")):
                make_archive(jars)
        except KafkaLakeError as error:
            progress(f"Spark will start without it: {error}")
    return jars
