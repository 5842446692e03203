"""Spark jobs by spark-submit in client mode: one driver process per attempt, which can only stage."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from airflow_kafka_lake.adapters.redaction import Secrets
from airflow_kafka_lake.adapters.spark_submit.application import ApplicationFile, Show
from airflow_kafka_lake.adapters.spark_submit.archive import archive_path
from airflow_kafka_lake.adapters.spark_submit.driver import Driver, end_orphan
from airflow_kafka_lake.adapters.spark_submit.failures import Job, job_failed, job_stalled
from airflow_kafka_lake.adapters.spark_submit.folder import private_folder, sweep_folders
from airflow_kafka_lake.adapters.spark_submit.log import FollowedLog, Signs
from airflow_kafka_lake.adapters.spark_submit.standalone import SCHEME, UI_PORT, end_application
from airflow_kafka_lake.adapters.spark_submit.submission import (
    PACKAGE,
    QUICK_START,
    checked_conf,
    checked_master,
    command,
    environment,
    is_local,
    java_options,
    properties,
    pyspark_home,
    write_files,
)
from airflow_kafka_lake.core.lake.staging import StageJob
from airflow_kafka_lake.core.progress import Counters
from airflow_kafka_lake.jobs import stage
from airflow_kafka_lake.jobs.application import APPLICATION_FILE
from airflow_kafka_lake.jobs.progress import PROGRESS_FILE
from airflow_kafka_lake.jobs.reporting import MESSAGES_FILE, RESULT_FILE
from airflow_kafka_lake.ports import ReportingJob, uncounted

_LIGHT_TASKS = 4
QUIET_SECONDS = 1800.0
"""How long a driver may make no progress before it is ended; a job that waits for a busy cluster makes none."""

_logger = logging.getLogger(__name__)


STAGE_PROGRAM = Path(stage.__file__)
"""The program of a staging job's driver; a `ReportingJob` names its own."""


class SparkSubmitRunner:
    """Runs staging, comparing and decoding jobs under a Spark master (`ports.JobRunner`).

    `catalog` holds the `spark.sql.catalog.lake…` settings, `kafka` Java client settings, `conf` further Spark settings;
    all three may hold secrets, which reach the driver in files of mode 0600 and appear nowhere else. `jars` are local
    paths. `spark_submit` and `java_home` default to the installed PySpark's and to spark-submit's own choice.
    `driver_memory` defaults to what suits the master, `temporary` to the machine's place for temporary files,
    `cache` (where the class archive is) to the one of the jars. `stage_program` is what a staging driver runs.
    `application` is given each driver's application, with its page at `history_server`. Raises
    ConnectionSettingsError for a missing master, a setting that is not Spark's, and deploy mode `cluster`.
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
        java_home: Path | None = None,
        temporary: Path | None = None,
        cache: Path | None = None,
        stage_program: Path = STAGE_PROGRAM,
        application: Show = lambda _: None,
        history_server: str | None = None,
        heartbeat_seconds: float = 3.0,
        quiet_seconds: float = QUIET_SECONDS,
    ) -> None:
        self._master = checked_master(master)
        self._catalog = checked_conf(catalog)
        self._conf = checked_conf(conf or {})
        self._kafka = dict(kafka)
        self._jars = tuple(jars)
        self._driver_memory = driver_memory or ("2g" if is_local(self._master) else "1g")
        self._spark_submit = spark_submit
        self._java_home = java_home
        self._temporary = temporary
        self._cache = cache
        self._stage_program = stage_program
        self._application = application
        self._history_server = history_server
        self._heartbeat_seconds = heartbeat_seconds
        self._quiet_seconds = quiet_seconds
        self._secrets = Secrets(self._catalog, self._kafka, self._conf)

    def where(self) -> str:
        """Describe where jobs run."""
        if is_local(self._master):
            return f"a local Spark master on this machine ({self._master})"
        return f"the Spark master {self._master} (client mode: the driver runs on this machine)"

    def stage(
        self,
        job: StageJob,
        *,
        started: Callable[[str], None],
        heartbeat: Callable[[], None],
        counted: Callable[[Counters], None] = uncounted,
    ) -> None:
        """Run the job to its end (`ports.JobRunner.stage`).

        `started` gets `host/pid/starttime`; `heartbeat` is called every few seconds while the driver lives and has made
        progress within `quiet_seconds`. Whatever either raises, a longer silence, and an interrupt, ends the driver's
        whole process group and passes on.
        """
        with self._folder() as folder:
            self._run(folder, job, started=started, heartbeat=heartbeat, counted=counted)

    def report(
        self,
        job: ReportingJob,
        *,
        progress: Callable[[str], None],
        counted: Callable[[Counters], None] = uncounted,
    ) -> Mapping[str, Any]:
        """Run a job and return its document (`ports.JobRunner.report`)."""
        with self._folder() as folder:
            messages = FollowedLog(folder / MESSAGES_FILE, progress)
            self._run(folder, job, heartbeat=messages.follow, counted=counted)
            messages.finish()
            found: dict[str, Any] = json.loads((folder / RESULT_FILE).read_text(encoding="utf-8"))
            return found

    def _folder(self) -> AbstractContextManager[Path]:
        return private_folder(self._temporary)

    def _run(
        self,
        folder: Path,
        job: Job,
        *,
        started: Callable[[str], None] = lambda _: None,
        heartbeat: Callable[[], None],
        counted: Callable[[Counters], None],
    ) -> None:
        """Run a driver in a folder of its own; JobFailedError when it fails or makes no progress."""
        log = FollowedLog(folder / "driver.log", lambda line: _logger.debug("%s", self._secrets.masked(line)))
        prepared = self._prepared(folder, job)
        driver = Driver(prepared, log=log.path, env=self._environment(), cwd=folder)
        signs = Signs(folder / PROGRESS_FILE, self._quiet_seconds, counted)
        application = ApplicationFile(folder / APPLICATION_FILE, self._history_server, self._application)

        def tick() -> None:
            log.follow()
            application.follow()

        def renew() -> None:
            if not signs.is_recent():
                raise job_stalled(job, self._quiet_seconds)
            heartbeat()

        try:
            started(driver.ref)
            code = driver.wait(renew, self._heartbeat_seconds, tick)
        finally:
            driver.end()
        log.finish()
        application.follow()
        signs.is_recent()  # what was counted last
        if code:
            raise job_failed(job, code, log.lines, self._secrets)

    def end_orphan(self, job: str | None, name: str) -> bool:
        """End an attempt's job (`ports.JobRunner.end_orphan`), and remove the folders that killed workers left.

        On this host the driver's process group, by its reference; under a standalone master also the application, by
        its name, wherever its driver is. YARN and Kubernetes are not asked.
        """
        ended = job is not None and end_orphan(job)
        if self._master.startswith(SCHEME):
            ended = end_application(self._master, self._conf.get(UI_PORT), name) or ended
        sweep_folders(self._temporary)
        return ended

    def _prepared(self, folder: Path, job: Job) -> list[str]:
        settings = properties(
            master=self._master,
            catalog=self._catalog,
            conf=self._conf,
            driver_memory=self._driver_memory,
            folder=folder,
        )
        write_files(
            folder,
            request={"job": job.to_json(), "kafka": self._kafka},
            settings=settings,
            options=java_options(folder, self._start_options(job), self._conf),
        )
        binary = self._spark_submit or pyspark_home() / "bin" / "spark-submit"
        return command(
            binary,
            folder,
            master=self._master,
            name=job.name,
            jars=self._jars,
            conf=self._conf,
            program=self._program(job),
        )

    def _program(self, job: Job) -> Path:
        return self._stage_program if isinstance(job, StageJob) else PACKAGE / job.program

    def _start_options(self, job: Job) -> list[str]:
        """Return what makes the driver start fast; a heavy job in a local master is worth the better compiler."""
        quick = [] if is_local(self._master) and _is_heavy(job) else list(QUICK_START)
        archive = archive_path(self._jars, java_home=self._java_home, cache=self._cache)
        return [*quick, f"-XX:SharedArchiveFile={archive}"] if archive.exists() else quick

    def _environment(self) -> dict[str, str]:
        return environment(java_home=self._java_home, spark_home=None if self._spark_submit else pyspark_home())


def _is_heavy(job: Job) -> bool:
    return job.tasks > _LIGHT_TASKS if isinstance(job, StageJob) else job.is_heavy
