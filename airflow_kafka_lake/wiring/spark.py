"""From a `spark` connection to the runner of staging jobs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.adapters.spark_submit.driver import Engine
from airflow_kafka_lake.adapters.spark_submit.runner import QUIET_SECONDS, SparkSubmitRunner, archive_path, make_archive
from airflow_kafka_lake.adapters.spark_submit.submission import require_jars
from airflow_kafka_lake.core.addresses import web_address
from airflow_kafka_lake.core.errors import ConnectionSettingsError, KafkaLakeError
from airflow_kafka_lake.core.spark.job import Application, history_server_of
from airflow_kafka_lake.wiring.connections import ConnectionSettings, get_connection

if TYPE_CHECKING:
    from airflow_kafka_lake.adapters.jars import JarSet

TYPES = ("spark", "spark_connect", "kafka_lake_spark")
DEFAULT_SPARK = "spark_default"
EMBEDDED_MASTER = "local[*]"
"""Where jobs run when a pipeline names no Spark connection."""

_MASTER = re.compile(r"local(\[(\*|[0-9]{1,4})(,[0-9]{1,3})?\])?|yarn|(spark|k8s)://[^\s@]{1,300}")
_CONF_OF = {"queue": "spark.yarn.queue", "namespace": "spark.kubernetes.namespace"}
_IGNORED = frozenset({"rest-scheme", "rest-port", "yarn_resourcemanager_webapp_address"})
"""Settings with which the Spark provider tracks a job; we watch the driver process instead."""
_QUIET = "quiet-minutes"
_HISTORY = "history-server"
_PARENT = "spark.openlineage.parent"
_IDLE = "idle-minutes"
IDLE_SECONDS, IDLE_SECONDS_OF_A_CLUSTER = 600.0, 120.0
"""How long a warm driver waits for its next job; on a cluster it may hold executors that others wait for."""

_QUIET_MINUTES = re.compile(r"[1-9][0-9]{0,4}")
_IDLE_MINUTES = re.compile(r"0|[1-9][0-9]{0,3}")


class SparkConnection:
    """Opens a Spark master; None is a local master on this machine.

    The type `spark` is the Spark provider's, and reused here. A missing connection is an error, never YARN.
    """

    def __init__(self, spark_conn_id: str | None = None) -> None:
        self.spark_conn_id = spark_conn_id

    @cached_property
    def master_and_conf(self) -> tuple[str, Mapping[str, str]]:
        """The master's address and further Spark settings; ConnectionSettingsError names the fault."""
        connection = self._connection
        return (EMBEDDED_MASTER, {}) if connection is None else (master_of(connection), conf_of(connection))

    @property
    def quiet_seconds(self) -> float:
        """How long a job may make no progress, waiting for a full cluster included."""
        return QUIET_SECONDS if self._connection is None else quiet_seconds_of(self._connection)

    @property
    def idle_seconds(self) -> float:
        """How long a warm driver waits for its next job; 0 where every job has a driver of its own."""
        if self._connection is None:
            return IDLE_SECONDS
        return idle_seconds_of(self._connection)

    @property
    def history_server(self) -> str | None:
        """The address of the history server that shows applications which have ended, if there is one."""
        return None if self._connection is None else history_server(self._connection)

    @cached_property
    def _connection(self) -> ConnectionSettings | None:
        return None if self.spark_conn_id is None else get_connection(self.spark_conn_id, *TYPES)

    def runner(
        self,
        *,
        catalog: Mapping[str, str],
        kafka: Mapping[str, str],
        stores: Sequence[JarSet] = (),
        application: Callable[[Application], None] = lambda _: None,
        further: Mapping[str, str] | None = None,
        engine: Engine | None = None,
    ) -> SparkJobs:
        """Return the runner (`ports.JobRunner`) for a lake's Spark settings and a cluster's Java client settings.

        `stores` are the jars that the lake needs beside those of every job.
        `application` is given the Spark application of each job, soon after it has begun. `further` are settings for a
        connection that has none of their kind: it may name another parent of its applications. With an `engine` jobs
        run in its warm driver, unless the connection has it otherwise. An application that names its parent, for
        OpenLineage, is one job's.
        """
        master, own = self.master_and_conf
        conf = without_rivals(further or {}, own) | dict(own)
        is_kept = self.idle_seconds and not _names_parent(conf)
        return SparkJobs(
            master=master,
            conf=conf,
            engine=engine if is_kept else None,
            idle_seconds=self.idle_seconds,
            catalog=catalog,
            kafka=kafka,
            stores=stores,
            quiet_seconds=self.quiet_seconds,
            application=application,
            history_server=self.history_server,
        )

    def check(self) -> str:
        """Return one sentence if a job could be submitted from this machine, else raise the reason; starts no job."""
        runner = self.runner(catalog={}, kafka={})
        runner.check()
        return f"Jobs run on {runner.where()}; Java and the jars are there."


class SparkJobs(SparkSubmitRunner):
    """A runner that verifies Java, PySpark and the jars anew before every start of a driver."""

    def __init__(
        self, *, conf: Mapping[str, str], stores: Sequence[JarSet] = (), engine: Engine | None = None, **settings: Any
    ) -> None:
        from airflow_kafka_lake.adapters.jars import JarSet, files

        self._sets: tuple[JarSet, ...] = () if "spark.jars.packages" in conf else (JarSet.SPARK, *stores)
        jars = [path for jar_set in self._sets for path in files(jar_set)]
        super().__init__(conf=conf, engine=engine, jars=jars, verify=self._verify_once, **settings)

    def check(self) -> None:
        """Raise the error of a missing Java, PySpark or jar, with the command that installs it.

        The first driver that this command starts needs no second look, and a warm one's jars need none.
        """
        if self._engine is None:
            self._verify_all()
        elif not self._engine.has_driver():
            self._verify_all()
            self._engine.is_verified = True

    def _verify_once(self) -> None:
        if self._engine is None or not self._engine.is_verified:
            self._verify_all()
        else:
            self._engine.is_verified = False

    def _verify_all(self) -> None:
        from airflow_kafka_lake.adapters.jars import fitting_sparks, verified
        from airflow_kafka_lake.adapters.java import require_java, require_matching_pyspark

        require_java()
        require_matching_pyspark(jars_of=fitting_sparks() if self._sets else ())
        for jars in self._sets:
            verified(jars)
        require_jars(self._conf)


def fetch_jars(progress: Callable[[str], None], stores: Sequence[str] = ()) -> list[Path]:
    """Return the verified jars of every job, fetched where they are missing, and prepare a quicker start with them.

    `stores` name those of lakes in a store besides.

    The archive of a driver's classes, with which jobs start in half the time, lies beside the jars; it is optional.
    """
    from airflow_kafka_lake.adapters.jars import JarSet, fetch, fitting_sparks
    from airflow_kafka_lake.adapters.java import require_matching_pyspark

    require_matching_pyspark(jars_of=fitting_sparks())
    jars = [path for jar_set in (JarSet.SPARK, *map(JarSet, stores)) for path in fetch(jar_set, progress=progress)]
    if not archive_path(jars).exists():
        _prepare_start(jars, progress)
    return jars


def _prepare_start(jars: Sequence[Path], progress: Callable[[str], None]) -> None:
    progress("preparing a quicker start of Spark (once, about half a minute)")
    try:
        make_archive(jars)
    except KafkaLakeError as error:
        progress(f"Spark will start without it: {error}")


def without_rivals(further: Mapping[str, str], conf: Mapping[str, str]) -> dict[str, str]:
    """Return further settings, unless `conf` names the parent of an application: half of two parents would be none."""
    return {} if _names_parent(conf) else dict(further)


def _names_parent(conf: Mapping[str, str]) -> bool:
    return any(key.startswith(_PARENT) for key in conf)


def master_of(connection: ConnectionSettings) -> str:
    """Return the master of a Spark connection: its host, and its port where one is given."""
    if connection.conn_type == "spark_connect":
        raise _refusal(connection, "jobs over Spark Connect come later; use a connection of type spark")
    host = (connection.host or "").strip()
    master = f"{host}:{connection.port}" if host and connection.port else host
    if not _MASTER.fullmatch(master):
        raise _refusal(connection, "host must be local[N], spark://HOST (with its port), k8s://https://HOST or yarn")
    return master


def conf_of(connection: ConnectionSettings) -> dict[str, str]:
    """Return the Spark settings of a connection's extra: `queue`, `namespace`, `conf` and keys that are Spark's own."""
    conf: dict[str, str] = {}
    for key, value in connection.extra.items():
        if value is None or value == "" or key in {*_IGNORED, _QUIET, _IDLE, _HISTORY}:
            continue
        if key == "conf":
            conf |= _spark_settings(connection, value)
        elif key in _CONF_OF:
            conf[_CONF_OF[key]] = str(value)
        elif key.startswith("spark."):
            conf |= _spark_settings(connection, {key: value})
        else:
            _check_plain(connection, key, value)
    return conf


def quiet_seconds_of(connection: ConnectionSettings) -> float:
    """Return how long a job may make no progress: `quiet-minutes` of the extra, else thirty minutes."""
    given = connection.extra.get(_QUIET)
    if given is None or given == "":
        return QUIET_SECONDS
    if not _QUIET_MINUTES.fullmatch(str(given)):
        raise _refusal(connection, f"{_QUIET} must be a whole number of minutes, at least 1")
    return float(given) * 60


def idle_seconds_of(connection: ConnectionSettings) -> float:
    """Return how long a warm driver waits for its next job; 0: there is none, every job has a driver of its own.

    `idle-minutes` of the extra, else ten minutes in a local master and two on YARN and Kubernetes. A standalone master
    has none unless it is asked for: there the application that a lost host has left is ended by its job's name.
    """
    given = connection.extra.get(_IDLE)
    if given is None or given == "":
        if (master := master_of(connection)).startswith("spark://"):
            return 0.0
        return IDLE_SECONDS if master.startswith("local") else IDLE_SECONDS_OF_A_CLUSTER
    if not _IDLE_MINUTES.fullmatch(str(given)):
        raise _refusal(connection, f"{_IDLE} must be a whole number of minutes, 0 for none")
    return float(given) * 60


def history_server(connection: ConnectionSettings) -> str | None:
    """Return the address of the history server: `history-server` of the extra, else YARN's setting in `conf`."""
    given = connection.extra.get(_HISTORY)
    if given not in {None, ""} and web_address(given) is None:
        raise _refusal(connection, f"{_HISTORY} must be an http or https address without login, e.g. http://host:18080")
    return history_server_of(given, conf_of(connection))


def _check_plain(connection: ConnectionSettings, key: str, value: object) -> None:
    match key:
        case "deploy-mode" if value == "client":
            pass
        case "deploy-mode":
            raise _refusal(connection, "deploy-mode must be client: the job's private files are on the worker")
        case "spark-binary" if value == "spark-submit":
            pass
        case "spark-binary":
            raise _refusal(connection, "spark-binary must be spark-submit: other programs are not started")
        case _:
            raise _refusal(
                connection,
                f"the extra has {key!r}; known: conf, queue, namespace, deploy-mode, {_QUIET}, {_IDLE}, {_HISTORY}, "
                "spark.…",
            )


def _spark_settings(connection: ConnectionSettings, given: object) -> dict[str, str]:
    if not isinstance(given, dict) or any(isinstance(value, dict | list) for value in given.values()):
        raise _refusal(connection, "conf must be an object of Spark settings, such as {'spark.executor.memory': '4g'}")
    return {
        str(key): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in given.items()
        if value is not None
    }


def _refusal(connection: ConnectionSettings, problem: str) -> ConnectionSettingsError:
    return ConnectionSettingsError(
        f"Connection {connection.conn_id!r} (type {connection.conn_type}): {problem}.", connection=connection.conn_id
    )
