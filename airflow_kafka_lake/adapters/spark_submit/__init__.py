"""Spark jobs by spark-submit in client mode: one driver process per attempt, which can only stage."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from airflow_kafka_lake.adapters.spark_submit.driver import Driver, end_orphan
from airflow_kafka_lake.adapters.spark_submit.failures import Secrets, job_failed
from airflow_kafka_lake.adapters.spark_submit.log import FollowedLog
from airflow_kafka_lake.adapters.spark_submit.submission import (
    checked_conf,
    checked_master,
    command,
    environment,
    is_local,
    properties,
    pyspark_home,
    write_files,
)
from airflow_kafka_lake.core.staging import StageJob

__all__ = ["SparkSubmitRunner", "end_orphan"]

_logger = logging.getLogger(__name__)


class SparkSubmitRunner:
    """Runs staging jobs under a Spark master (`ports.JobRunner`).

    `catalog` holds the `spark.sql.catalog.lake…` settings, `kafka` Java client settings, `conf` further Spark settings;
    all three may hold secrets, which reach the driver in files of mode 0600 and show up nowhere else. `jars` are local
    paths. `spark_submit` and `java_home` default to the installed PySpark's and to spark-submit's own choice.
    `driver_memory` defaults to what suits the master, `temporary` to the machine's place for temporary files. Raises
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
        heartbeat_seconds: float = 3.0,
    ) -> None:
        self._master = checked_master(master)
        self._catalog = checked_conf(catalog)
        self._conf = checked_conf(conf or {})
        self._kafka = dict(kafka)
        self._jars = [*map(str, jars), *filter(None, self._conf.pop("spark.jars", "").split(","))]
        self._driver_memory = driver_memory or ("2g" if is_local(self._master) else "1g")
        self._spark_submit = spark_submit
        self._java_home = java_home
        self._temporary = temporary
        self._heartbeat_seconds = heartbeat_seconds
        self._secrets = Secrets(self._catalog, self._kafka, self._conf)

    def where(self) -> str:
        """Say in words where jobs run."""
        if is_local(self._master):
            return f"a local Spark master on this machine ({self._master})"
        return f"the Spark master {self._master} (client mode: the driver runs on this machine)"

    def stage(self, job: StageJob, *, started: Callable[[str], None], heartbeat: Callable[[], None]) -> None:
        """Run the job to its end (`ports.JobRunner.stage`).

        `started` gets `host/pid/starttime`; `heartbeat` is called every few seconds while the driver lives. Whatever
        either raises, and an interrupt, ends the driver's whole process group and passes on.
        """
        with _private_folder(self._temporary) as folder:
            log = FollowedLog(folder / "driver.log", lambda line: _logger.debug("%s", self._secrets.masked(line)))
            driver = Driver(self._prepared(folder, job), log=log.path, env=self._environment(), cwd=folder)
            try:
                started(driver.ref)
                code = driver.wait(heartbeat, self._heartbeat_seconds, log.follow)
            finally:
                driver.end()
            log.finish()
            if code:
                raise job_failed(job, code, log.lines, self._secrets)

    def _prepared(self, folder: Path, job: StageJob) -> list[str]:
        settings = properties(
            master=self._master,
            catalog=self._catalog,
            conf=self._conf,
            driver_memory=self._driver_memory,
            folder=folder,
        )
        write_files(folder, job, self._kafka, settings)
        binary = self._spark_submit or pyspark_home() / "bin" / "spark-submit"
        return command(binary, folder, master=self._master, name=job.name, jars=self._jars)

    def _environment(self) -> dict[str, str]:
        return environment(java_home=self._java_home, spark_home=None if self._spark_submit else pyspark_home())


@contextmanager
def _private_folder(parent: Path | None) -> Iterator[Path]:
    """Yield a folder of mode 0700 that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="kafka-lake-stage-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
