"""Open the ports of a pipeline from its connections, for the length of a `with` block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from airflow_kafka_lake.adapters.machine import HostProcesses, SystemClock
from airflow_kafka_lake.adapters.spark_submit.driver import Engine
from airflow_kafka_lake.adapters.spark_submit.runner import SparkJobs
from airflow_kafka_lake.core.errors import KafkaLakeError, PipelineFileError, UsageError
from airflow_kafka_lake.core.ledger.guards import Limits
from airflow_kafka_lake.core.reports.progress import ProgressEvent
from airflow_kafka_lake.core.spark.job import Application
from airflow_kafka_lake.core.spec import PIPELINE_NAME, PipelineSpec
from airflow_kafka_lake.pipeline import Pipeline, load_pipelines
from airflow_kafka_lake.ports import Clock, Ledger, OffsetSource, Ports
from airflow_kafka_lake.services.checking import KAFKA, LAKE, LEDGER, REGISTRY, SPARK, ConnectionTests
from airflow_kafka_lake.services.identity import known_spec
from airflow_kafka_lake.services.watching import Lines
from airflow_kafka_lake.wiring.connections import (
    ANSWER_SECONDS,
    DEFAULT_LEDGER,
    EMBEDDED_MASTER,
    KafkaConnection,
    LakeConnection,
    LedgerConnection,
    RegistryConnection,
    SparkConnection,
    registry_of,
)

# Wrappers of the ports that this process opens, with which a program can watch or disturb every call.
#
# Only code can add one, by `wrap`: no setting, no connection and no environment variable does.


class Wrapper(Protocol):
    """Returns ports that wrap given ones."""

    def ports(self, ports: Ports) -> Ports:
        """Wrap all ports of a pipeline."""

    def ledger(self, ledger: Ledger) -> Ledger:
        """Wrap a ledger that is opened alone."""


_wrappers: list[Wrapper] = []


def wrap(wrapper: Wrapper) -> None:
    """Wrap all ports that this process, and those forked from it, open from now on."""
    _wrappers.append(wrapper)


def wrapped(ports: Ports) -> Ports:
    for wrapper in _wrappers:
        ports = wrapper.ports(ports)
    return ports


def wrapped_ledger(ledger: Ledger) -> Ledger:
    for wrapper in _wrappers:
        ledger = wrapper.ledger(ledger)
    return ledger


# Open the ports of a pipeline from its connections, for the length of a `with` block.

CLIENT_ID = "kafka-lake-{}"
"""The client id of a pipeline's clients, so that a quota of the cluster can be about just them."""


class OnFirstUse:
    """An adapter that is built when its first attribute is used: `status` needs no Java, `db` no Kafka."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build
        self._built: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._built is None:
            self._built = self._build()
        return getattr(self._built, name)

    def close(self) -> None:
        """Close the adapter, if it was built and can be closed."""
        close = getattr(self._built, "close", None)
        if close is not None:
            close()


@contextmanager
def open_ports(
    spec: PipelineSpec,
    *,
    ledger_conn_id: str = DEFAULT_LEDGER,
    actor: str,
    progress: Callable[[str], None],
    live: Callable[[ProgressEvent], None] | None = None,
    need_spark: bool = False,
    need_kafka: bool = False,
    application: Callable[[Application], None] = lambda _: None,
    kafka_seconds: float = ANSWER_SECONDS,
    spark_conf: Mapping[str, str] | None = None,
    engine: Engine | None = None,
    dry_run: bool = False,
) -> Iterator[Ports]:
    """Open ledger, Kafka, lake and Spark of a pipeline; `kafka_seconds` is how long an admin call waits for Kafka.

    `live` gets the progress of jobs as events; without it, `progress` gets it as lines. Adapters are built on first
    use. With `need_…` the settings, and Spark on this machine, are checked before the block begins, so that no wave is
    claimed for a job that could not start: raises ConnectionSettingsError, or the error of a missing Java, PySpark or
    jar. `application` is given the Spark application of each job once it runs; `spark_conf` are further settings of
    it, which those of the connection replace. With an `engine`, which the caller closes, jobs run one after another in
    its warm driver, those of other pipelines too.
    """
    kafka = KafkaConnection(spec.kafka_connection, client_id=CLIENT_ID.format(spec.name))
    lake = LakeConnection(spec.lake_connection)

    def show(found: Application) -> None:
        if found.page or found.history:
            progress(found.describe())
        application(found)

    def jobs() -> SparkJobs:
        hook = SparkConnection(spec.spark_connection)
        return hook.runner(
            catalog=lake.settings.spark(),
            kafka=kafka.settings.java(),
            stores=(*lake.settings.jar_sets, *kafka.settings.jar_sets),
            application=show,
            further=spark_conf,
            engine=engine,
        )

    # An audit reads as fast as it is asked for itself, and no faster than a wave may read.
    audit_rate = min((rate for rate in (spec.audit_rate, Limits.of(spec).rate) if rate is not None), default=None)
    opened = [
        OnFirstUse(lambda: LedgerConnection(ledger_conn_id).ledger(dry_run=dry_run)),
        OnFirstUse(lambda: kafka.source(kafka_seconds)),
        OnFirstUse(lambda: kafka.batches(audit_rate)),
        OnFirstUse(lake.lake),
        OnFirstUse(jobs),
        OnFirstUse(kafka.group_committer),
        OnFirstUse(lambda: registry_of(spec)),
    ]
    ledger, source, batches, tables, runner, group, schemas = opened
    if need_kafka:
        _ = kafka.settings, lake.settings
    if need_spark:
        with ThreadPoolExecutor(1) as beside:  # which waits for another process, and reads the jars
            checked = beside.submit(runner.check)
            _ = ledger.pipeline
            checked.result()
    try:
        ports = Ports(
            ledger=ledger,
            source=source,
            batches=batches,
            lake=tables,
            runner=runner,
            group_sync=group,
            schemas=schemas,
            clock=SystemClock(),
            processes=HostProcesses(),
            actor=actor,
            progress=progress,
            live=Lines(progress) if live is None else live,
            prepare=runner.prepare if need_spark else lambda _: None,
        )
        yield wrapped(ports)
    finally:
        for adapter in opened:
            adapter.close()


def connection_tests(spec: PipelineSpec, ledger_conn_id: str) -> ConnectionTests:
    """Return the test of each connection of a pipeline by its part, with its id: those of Airflow's own page."""
    registry = spec.decoding and spec.decoding.registry
    lake, spark = LakeConnection(spec.lake_connection), SparkConnection(spec.spark_connection)
    kafka = KafkaConnection(spec.kafka_connection)
    return {
        LEDGER: (ledger_conn_id, LedgerConnection(ledger_conn_id).check),
        KAFKA: (spec.kafka_connection, kafka.check),
        LAKE: (spec.lake_connection, lake.check),
        **({REGISTRY: (registry, RegistryConnection(registry).check)} if registry else {}),
        SPARK: (spec.spark_connection or EMBEDDED_MASTER, lambda: spark.check(lake, kafka)),
    }


@contextmanager
def open_ledger(ledger_conn_id: str = DEFAULT_LEDGER) -> Iterator[Ledger]:
    with closing(LedgerConnection(ledger_conn_id).ledger()) as ledger:
        yield wrapped_ledger(ledger)


@contextmanager
def open_sources(
    ledger_conn_id: str = DEFAULT_LEDGER, *, kafka_seconds: float = ANSWER_SECONDS
) -> Iterator[tuple[Ledger, Clock, Callable[[PipelineSpec], OffsetSource | str]]]:
    """Open the ledger, and give it with the time and the Kafka of each pipeline, or why it has none; a connection is
    opened once."""
    opened: dict[str, OffsetSource | str] = {}

    def source_of(spec: PipelineSpec) -> OffsetSource | str:
        name = spec.kafka_connection
        if name not in opened:
            try:
                opened[name] = KafkaConnection(name).source(kafka_seconds)
            except KafkaLakeError as error:
                return error.message
        return opened[name]

    with open_ledger(ledger_conn_id) as ledger:
        yield ledger, SystemClock(), source_of


# Pipelines by name: from the folder of the option `[kafka_lake] pipelines_folder`, else from the ledger.

SECTION, OPTION = "kafka_lake", "pipelines_folder"


def pipelines_folder() -> Path | None:
    """Return the configured folder; None when none is configured."""
    from airflow.sdk.configuration import conf

    text = (conf.get(SECTION, OPTION, fallback=None) or "").strip()
    return Path(text).expanduser() if text else None


def find_pipeline(subject: str, ledger_conn_id: str) -> PipelineSpec:
    """Return the pipeline of a file (`*.toml`; relative to the folder) or of a name.

    Raises PipelineFileError for a file that does not validate, UnknownSubjectError for an unknown name.
    """
    folder = pipelines_folder()
    if subject.endswith(".toml") or os.sep in subject:
        return Pipeline.from_toml((folder or Path.cwd()) / subject).spec
    if not PIPELINE_NAME.fullmatch(subject):
        raise UsageError("The pipeline is neither a file (*.toml) nor a legal pipeline name: 1 to 100 of a-z 0-9 _ . -")
    if folder is not None and folder.is_dir():
        for found in load_pipelines(folder).values():
            if isinstance(found, Pipeline) and found.spec.name == subject:
                return found.spec
            if isinstance(found, PipelineFileError) and found.facts.get("pipeline") == subject:
                raise found  # the ledger has it as it was before, and the file has changed
    with open_ledger(ledger_conn_id) as ledger:
        return known_spec(ledger, subject)


def configured_pipelines(elsewhere: str | os.PathLike[str] | None = None) -> tuple[dict[str, Pipeline], dict[str, str]]:
    """Return the pipelines of the configured folder, or of one `elsewhere`, by name, and the errors of the other files,
    by file or folder.

    For Dag files: one bad file hides no other, and nothing raises.
    """
    folder = pipelines_folder() if elsewhere is None else Path(elsewhere).expanduser()
    if folder is None:
        return {}, {}
    try:
        found = load_pipelines(folder)
    except PipelineFileError as error:
        return {}, {folder.name or str(folder): error.message}
    good = {name: item for name, item in found.items() if isinstance(item, Pipeline)}
    bad = {name: item.message for name, item in found.items() if isinstance(item, PipelineFileError)}
    return good, bad
