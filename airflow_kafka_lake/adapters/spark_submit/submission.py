"""A submit: its private folder, the command line without secrets, the environment."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import shutil
import socket
import stat
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import airflow_kafka_lake
from airflow_kafka_lake.adapters.clients import CONNECT_SECONDS, SPARK_PATTERN, is_secret
from airflow_kafka_lake.adapters.java import find_java, spark_home
from airflow_kafka_lake.adapters.machine import HostProcesses
from airflow_kafka_lake.core.errors import ConnectionSettingsError, LibraryError, UnavailableError
from airflow_kafka_lake.core.ledger.waves import LeaseHolder
from airflow_kafka_lake.core.spark.job import is_local
from airflow_kafka_lake.jobs.caller import TOKEN
from airflow_kafka_lake.jobs.driver import JAVA_OPTIONS_FILE, PROPERTIES_FILE
from airflow_kafka_lake.jobs.formats import CATALOG, EXTENSIONS, SETTINGS
from airflow_kafka_lake.jobs.shared_consumer import JAR

# A folder that only this user can read, removed after use or, if its process was killed, by the next one.

PREFIX = "kafka-lake-stage-"
OWNER_FILE = "owner"
"""Names the process that made a folder, as `host/pid/starttime`."""


@contextmanager
def private_folder() -> Iterator[Path]:
    """Yield a new folder of mode 0700 among the machine's temporary files; remove it at the end."""
    sweep_folders()
    with ExitStack() as stack:
        try:
            folder = Path(tempfile.mkdtemp(prefix=PREFIX))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            (folder / OWNER_FILE).write_text(str(HostProcesses().this()), encoding="utf-8")
        except OSError as error:
            raise unusable(error) from None
        yield folder


def unusable(error: OSError) -> UnavailableError:
    """Return the error of temporary files that cannot be written: without room, or without a folder."""
    return UnavailableError(
        f"A Spark job needs a few kilobytes in {tempfile.gettempdir()}, and they cannot be written: "
        f"{error.strerror or error}. Make room there, or name another folder by TMPDIR; then repeat."
    )


def sweep_folders() -> tuple[Path, ...]:
    """Remove the private folders of killed processes of ours, which may hold secrets; return them.

    A folder is removed only if it is this user's and its owner is known to be dead: of this host, and no process has
    its pid and start time. One without an owner is still empty, and stays.
    """
    found = Path(tempfile.gettempdir()).glob(f"{PREFIX}*")
    left = tuple(folder for folder in found if _is_left_behind(folder))
    for folder in left:
        shutil.rmtree(folder, ignore_errors=True)
    return left


def _is_left_behind(folder: Path) -> bool:
    with suppress(OSError, ValueError):
        seen = folder.lstat()
        if stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.getuid():
            return HostProcesses().dead(LeaseHolder.parse((folder / OWNER_FILE).read_text(encoding="utf-8")))
    return False


# The parts of a submit: the private files, the command line without secrets, the environment without Airflow's.

PACKAGE = Path(airflow_kafka_lake.__file__).parent
_TRAVELS = ("__init__.py", "core/**/*.py", "jobs/**/*.py")
REQUEST_FILE = "job.json"
ZIP_FILE = "kafka_lake.zip"
_OWN_JAR = PACKAGE / "jobs" / JAR

# Times of records become timestamps of the session's zone: in another one, days and hours of partitions would shift.
DEPLOY_MODE = "spark.submit.deployMode"
_ALWAYS = {DEPLOY_MODE: "client", "spark.sql.session.timeZone": "UTC"}

_UNLESS_SAID = {
    **SETTINGS,
    # Fetched data of a read that is over would stay in the executor for minutes.
    "spark.kafka.consumer.fetchedData.cache.timeout": "5s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "5s",
    "spark.kafka.consumer.cache.timeout": "30s",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "10s",
    "spark.kafka.consumer.cache.capacity": "16",
    "spark.log.level": "WARN",
    "spark.ui.showConsoleProgress": "false",
}

MANY_JOBS = {"spark.ui.retainedTasks": "10000", "spark.sql.ui.retainedExecutions": "200"}
"""The limits on the memory of past jobs in a driver that runs one after the other, unless a connection sets others."""

_REDACTION = {"spark.redaction.regex": SPARK_PATTERN, "spark.sql.redaction.options.regex": SPARK_PATTERN + "|url"}
"""A connection's own pattern is added; it cannot uncover a secret of ours."""

_ON_THIS_MACHINE = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # How often rows of tasks that run are counted; on a cluster Spark's ten seconds stay.
    "spark.executor.heartbeatInterval": "2s",
}

_JAVA_OPTIONS, _DEFAULT_JAVA_OPTIONS = "spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"
_EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions"
_BOUNDED = tuple(
    f"-Dorg.apache.avro.limits.{what}.maxLength={most}"
    for what, most in (("bytes", 64 * 1024 * 1024), ("string", 64 * 1024 * 1024), ("collectionItems", 8 * 1024 * 1024))
)
"""Avro makes room for a length before it reads that far: a few wrong bytes would take all memory and end the job."""
_TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105
_JARS = "spark.jars"
_CLASS_PATH = "spark.driver.extraClassPath"
_NAMED = {f"spark.sql.catalog.{CATALOG}.type", f"spark.sql.catalog.{CATALOG}.catalog-impl"}
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC")
_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
"""Where Java, and Spark's launcher, find further options."""
_THRESHOLDS = {
    3: {"Invocation": 200, "MinInvocation": 100, "Compile": 2_000, "BackEdge": 60_000},
    4: {"Invocation": 5_000, "MinInvocation": 600, "Compile": 15_000, "BackEdge": 40_000},
}
"""How often code is used before Java compiles it quickly (3), and well (4), by itself."""


def _later(tier: int, times: int) -> tuple[str, ...]:
    return tuple(f"-XX:Tier{tier}{what}Threshold={times * often}" for what, often in _THRESHOLDS[tier].items())


QUICK_START = ("-XX:TieredStopAtLevel=1", *_later(3, 3))
"""For light jobs (`core.spark.job`): their code never gets hot enough to pay for the better compiler."""
HOT_ONLY = (*_later(3, 3), *_later(4, 20))
"""For heavy jobs: the better compiler gets code that was used twenty times as often as Java waits for by itself. That
is the path of each record, and little of the code that runs once: compiling takes two fifths of the CPU seconds."""
_MEMORY, _NAME = "spark.driver.memory", "spark.app.name"
_OF_SCRIPT = ("SPARK_CONF_DIR", "SPARK_SUBMIT_OPTS")
_FOR_SUBMIT = re.compile(
    r"spark\.(driver\.(extraLibraryPath|defaultExtraClassPath)$|pyspark\.|files$|archives$|jars\.|kerberos\.|"
    r"submit\.(?!deployMode$)|yarn\.(keytab|principal)$)"
)
"""Variables and settings that reach a driver by Spark's own script, or by its submit, alone."""
_PLACES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
_OPENED = "java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.util java.util.concurrent "
_OPENED += "java.util.concurrent.atomic jdk.internal.ref sun.nio.ch sun.nio.cs sun.security.action sun.util.calendar"
_OF_JAVA = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED.split()),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "--enable-native-access=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
)
"""The options of Spark's `JavaModuleOptions`, without the module of its machine learning."""

_FOREIGN = ("AIRFLOW", "_AIRFLOW", "__AIRFLOW", "KAFKA_LAKE", "SPARK_REMOTE", "SPARK_CONNECT", "PYSPARK_")


def checked_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """Return Spark settings. Raises ConnectionSettingsError for another one's."""
    for key in conf:
        if not key.startswith("spark."):
            raise ConnectionSettingsError(f"{key!r} is no Spark setting: its name must begin with 'spark.'.", key=key)
    return dict(conf)


def properties(
    *,
    master: str,
    catalog: Mapping[str, str],
    conf: Mapping[str, str],
    driver_memory: str,
    folder: Path,
    java: Sequence[str] = (),
) -> dict[str, str]:
    """Return all Spark settings of an attempt; the caller's win over ours wherever that is safe.

    `java` are options of each executor's Java.
    """
    local = _ON_THIS_MACHINE | {"spark.local.dir": str(folder)} if is_local(master) else {}
    extensions = [EXTENSIONS, *filter(None, conf.get("spark.sql.extensions", "").split(","))]
    found = {
        _MEMORY: driver_memory,
        **_UNLESS_SAID,
        **local,
        **conf,
        **catalog,
        **_ALWAYS,
        **{key: "|".join(filter(None, [ours, conf.get(key)])) for key, ours in _REDACTION.items()},
        "spark.sql.extensions": ",".join(dict.fromkeys(extensions)),
        # Options may hold secrets (-Djavax.net.ssl.…): java reads them from a file, and ps shows its name.
        _JAVA_OPTIONS: f'"@{folder / JAVA_OPTIONS_FILE}"',
        _EXECUTOR_OPTIONS: " ".join([*_BOUNDED, *java, *filter(None, [conf.get(_EXECUTOR_OPTIONS)])]),
    }
    return {key: value for key, value in found.items() if key not in {_JARS, _CLASS_PATH, *(_NAMED - catalog.keys())}}


def token_options(kafka: Mapping[str, str]) -> tuple[str, ...]:
    """Return the Java options under which Kafka's client may ask its token endpoint, from 4.0 on no other, and which
    tell Amazon's signer the region of the brokers."""
    named = {"org.apache.kafka.sasl.oauthbearer.allowed.urls": _TOKEN_URL, "aws.region": "aws.region"}
    return tuple(f"-D{name}={kafka[key]}" for name, key in named.items() if key in kafka)


def java_options(folder: Path, further: Sequence[str], conf: Mapping[str, str], memory: str) -> str:
    """Return the text of the driver's options file: ours, `further` ones, then those of the connection.

    Where the connection or the environment names a collector of garbage, that is the one.
    """
    theirs = " ".join(filter(None, map(conf.get, (_DEFAULT_JAVA_OPTIONS, _JAVA_OPTIONS))))
    named = " ".join([theirs, *(os.environ.get(name, "") for name in _VARIABLES)])
    room = conf.get(_MEMORY, memory) if {*HOT_ONLY} <= {*further} else None
    garbage = [] if _COLLECTOR.search(named) else garbage_options(os.cpu_count() or 1, room)
    # Java keeps its performance counters in a file below /tmp, whatever its folder for temporary files is.
    ours = [f"-Djava.io.tmpdir={folder}", "-XX:-UsePerfData", *garbage, *_BOUNDED, *further]
    return "\n".join([*(f'"{option}"' for option in ours), theirs])


def garbage_options(cores: int, room: str | None) -> list[str]:
    """Return Java's options for garbage.

    On two cores one thread collects with a tenth less of processor and memory than two that wait for each other; the
    heap, which pages of files fill, may grow sooner than by itself. A heavy job has all of it, `room`, from the start,
    and half of that for new objects: each collection copies the pages that wait for their file, so that fewer save a
    fourteenth of the processor. On a few more cores, more room for new objects makes no task faster, and is filled.
    """
    if cores <= 2:
        half = [f"-Xms{room}", "-XX:NewRatio=1"] if room else []
        return ["-XX:+UseSerialGC", "-XX:MinHeapFreeRatio=60", "-XX:MaxHeapFreeRatio=80", *half]
    return ["-XX:+UseParallelGC", *[f"-XX:MaxNewSize={112 * cores}m"] * (cores <= 4)]


def all_jars(jars: Sequence[Path | str]) -> list[Path | str]:
    """Return the jars that a submit brings: ours first, because the class archive fits only paths that begin alike."""
    return [_OWN_JAR, *jars]


def arguments(
    folder: Path, master: str, *, name: str, class_path: Sequence[str], shipped: Sequence[str], program: Sequence[str]
) -> list[str]:
    """Return the arguments of a submit of a program with its own: paths and names only, for everybody on the machine
    can read them."""
    return [
        "--master", master,
        "--deploy-mode", "client",
        "--name", name,
        "--properties-file", str(folder / PROPERTIES_FILE),
        "--py-files", str(folder / ZIP_FILE),
        *(["--driver-class-path", os.pathsep.join(class_path)] if class_path else []),
        *(["--jars", ",".join(shipped)] if shipped else []),
        *program,
    ]  # fmt: skip


# Deploy mode cluster: the part of a job that a cluster is shown. The rest is told to the driver when it calls.

_ON_A_CLUSTER = {
    DEPLOY_MODE: "cluster",
    "spark.driver.supervise": "false",
    "spark.standalone.submit.waitAppCompletion": "true",
    "spark.yarn.submit.waitAppCompletion": "true",
    "spark.kubernetes.submission.waitAppCompletion": "true",
    "spark.yarn.maxAppAttempts": "1",
    "spark.yarn.isPython": "true",
}
_ENVIRONMENT_OF = {"yarn": "spark.yarn.appMasterEnv.", "k8s": "spark.kubernetes.driverEnv."}
_SECRETS_OF_SPARK = re.compile(
    r"spark\.(authenticate|security|yarn\.tokens|kubernetes\.(authenticate|container|kerberos|\w+\.secret\w+))\."
)
"""Spark submits with these, which only name a secret, or which it hides itself."""
_PASSED_ON = re.compile(r"(PATH|HOME|USER|LANG|TZ|LC_.*|SPARK_.*|HADOOP_.*|YARN_.*|KRB5.*|KUBECONFIG)$")
"""The variables of a submission. A standalone master gives all of them to the driver, where Java is elsewhere."""


def shown_settings(master: str, conf: Mapping[str, str], driver_memory: str, token: str) -> dict[str, str]:
    """Return the settings with which a driver is submitted: the connection's, without its secrets.

    Raises ConnectionSettingsError for Java options of a driver that name a secret: every process list shows them.
    """
    for key in (_JAVA_OPTIONS, _DEFAULT_JAVA_OPTIONS):
        if is_secret("", conf.get(key, "")):
            raise ConnectionSettingsError(
                f"{key} names a secret, and in deploy mode cluster Spark writes it into the driver's command line. "
                "Use client mode, or put it into a file on the cluster's machines."
            )
    shown = {key: value for key, value in conf.items() if key != _JARS and not _is_hidden(key, value)}
    found = [jar for jar in addresses(conf) if not is_secret("", jar)]
    shown |= {_JARS: ",".join(found)} if found else {}
    place = _ENVIRONMENT_OF.get(master.partition(":")[0])
    return {_MEMORY: driver_memory, **shown, **_ON_A_CLUSTER, **({f"{place}{TOKEN}": token} if place else {})}


def _is_hidden(key: str, value: str) -> bool:
    return not _SECRETS_OF_SPARK.match(key) and is_secret(key, value)


def told_of(settings: Mapping[str, str], java: Sequence[str], name: str) -> dict[str, dict[str, str]]:
    """Return the settings of its session and the properties of its Java that the driver is told."""
    kept = settings.keys() - {DEPLOY_MODE, _MEMORY, _JAVA_OPTIONS}
    properties = dict(option.removeprefix("-D").split("=", 1) for option in (*_BOUNDED, *java))
    return {"settings": {key: settings[key] for key in kept} | {_NAME: name}, "properties": properties}


def call_arguments(folder: Path, master: str, *, name: str, address: str, digest: str, text: str) -> list[str]:
    """Return the arguments of a submit whose driver runs a Python text and calls `address`.

    Spark's runner of Python programs is the main class, because a standalone master takes no Python; it hands its first
    argument, a file elsewhere, to Python as it is.
    """
    return [
        "--master", master,
        "--deploy-mode", "cluster",
        "--name", name,
        "--properties-file", str(folder / PROPERTIES_FILE),
        "--class", "org.apache.spark.deploy.PythonRunner",
        f"http://{address}/kafka-lake.jar" if master.startswith("spark:") else "spark-internal",
        "-c", "", text, address, digest,
    ]  # fmt: skip


def call_environment(home: Path, token: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if _PASSED_ON.match(key) and not _is_hidden(key, value)}
    places = os.pathsep.join([str(find_java().parent), *filter(None, [kept.get("PATH")])])
    return kept | {"PATH": places, "SPARK_HOME": str(home), TOKEN: token}


def needs_script(master: str, conf: Mapping[str, str]) -> bool:
    """Return whether Spark's own script starts a driver: on a cluster, and where something is set for it or for the
    submit that it begins."""
    is_set = any(map(os.environ.get, _OF_SCRIPT)) or any(map(_FOR_SUBMIT.match, conf))
    return is_set or not is_local(master) or (spark_home() / "conf").exists()


def options_of_spark(class_path: Sequence[str], conf: Mapping[str, str], memory: str) -> list[str]:
    """Return the options that Spark's script would give to Java after half a second."""
    places = [*class_path, *map(str, spark_jars()), *filter(None, map(os.environ.get, _PLACES))]
    return ["-cp", os.pathsep.join(places), f"-Xmx{conf.get(_MEMORY, memory)}", *_OF_JAVA]


def spark_jars() -> list[Path]:
    """Return Spark's own jars, without its machine learning, which takes half a second to register its functions."""
    return [jar for jar in sorted((spark_home() / "jars").glob("*.jar")) if not jar.name.startswith("spark-mllib")]


def told_by_submit(folder: Path, master: str, name: str) -> dict[str, str]:
    """Return the settings that a submit makes of its arguments."""
    return {"spark.master": master, DEPLOY_MODE: "client", _NAME: name, "spark.submit.pyFiles": str(folder / ZIP_FILE)}


def java_start(folder: Path) -> list[str]:
    """Return the command of the Java beside a driver's Python."""
    options, settings = (str(folder / name) for name in (JAVA_OPTIONS_FILE, PROPERTIES_FILE))
    return [str(find_java()), f"@{options}", "airflow_kafka_lake.DriverGateway", settings]


def brought_with(master: str, jars: Sequence[Path | str], conf: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the class path of a driver before Spark's own, and the jars that are shipped.

    A local master takes all jars as its class path: it need not copy them, and the class archive covers ours. They all
    are there or all are shipped, because shipped jars have a class loader of their own: the format, on the class path,
    would not see it.
    """
    named = _brought(conf)
    files = [_local_file(jar) for jar in named]
    own = list(filter(None, [conf.get(_CLASS_PATH)]))
    if is_local(master) and None not in files:
        return [*map(str, all_jars(jars)), *map(str, files), *own], []
    return own, [*map(str, all_jars(jars)), *named]


def require_master(master: str) -> None:
    """Refuse a master that takes no connection; of several addresses one is enough. YARN's is not known here."""
    addresses = urlsplit(master.removeprefix("k8s://")).netloc.split(",")
    for place in map(urlsplit, (f"//{address}" for address in addresses)):
        with suppress(OSError, ValueError):  # a port that is none is an address that takes no connection
            if place.hostname:
                socket.create_connection((place.hostname, place.port or 443), timeout=CONNECT_SECONDS).close()
            return
    raise UnavailableError(f"The Spark master {master} takes no connection.").mended_by(
        "Correct host and port of the Spark connection, or start the master; then repeat."
    )


def require_jars(conf: Mapping[str, str]) -> None:
    """Refuse settings that name jars of this machine which are not there, and an installation without its own jar:
    Spark would go on without them."""
    if not _OWN_JAR.is_file():
        raise LibraryError(f"{_OWN_JAR} is missing: this installation is not whole.").mended_by(
            "Run: pip install --force-reinstall --no-deps airflow-kafka-lake"
        )
    missing = [str(file) for file in sent_jars(conf) if not file.is_file()]
    if missing:
        raise ConnectionSettingsError(
            f"{_JARS} of the spark connection names {', '.join(missing)}, which is no file on this machine. Correct "
            "the setting, or put the file there."
        )


def _brought(conf: Mapping[str, str]) -> list[str]:
    return list(filter(None, map(str.strip, conf.get(_JARS, "").split(","))))


def addresses(conf: Mapping[str, str]) -> list[str]:
    """Return the jars of a connection that are no files of this machine."""
    return [jar for jar in _brought(conf) if jar.startswith("local:") or _local_file(jar) is None]


def sent_jars(conf: Mapping[str, str]) -> list[Path]:
    """Return the jars of a connection that are files of this machine."""
    return [file for jar in _brought(conf) if not jar.startswith("local:") and (file := _local_file(jar))]


def _local_file(jar: str) -> Path | None:
    """Return the file of this machine that a name of `spark.jars` is; None for addresses and patterns."""
    path = jar.removeprefix("file:").removeprefix("local:")
    path = f"/{path.lstrip('/')}" if path.startswith("//") else path
    return None if ":" in path or set(path) & set("*?[{") else Path(path)


def environment(*, spark_home: Path | None, modules: Sequence[Path] = ()) -> dict[str, str]:
    """Return this process's environment without Airflow's part, which holds connections and keys.

    `modules` is where its Python finds modules first.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
    ours = {
        # Else Spark takes the python3 of PATH, which may be another version, without PySpark.
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONHASHSEED": "0",  # as Spark's script has it: the hashes of a cluster's Pythons have to be alike
    }
    places = os.pathsep.join([*map(str, modules), *filter(None, [kept.get("PYTHONPATH")])])
    ours |= {"PYTHONPATH": places} if places else {}
    return kept | ours | ({"SPARK_HOME": str(spark_home)} if spark_home else {})


def properties_text(settings: Mapping[str, str]) -> str:
    """Render a Java properties file."""
    return "".join(f"{_escaped(key, ' =:#!')}={_escaped(value, ' ')}\n" for key, value in settings.items())


@cache
def package_zip() -> bytes:
    """Return the modules that the driver needs, as a zip: Spark's side has nothing of ours installed.

    Compiled modules travel beside their source, which is read where the driver's Python is another version.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(path for pattern in _TRAVELS for path in PACKAGE.glob(pattern)):
            place = path.relative_to(PACKAGE.parent)
            archive.write(path, place)
            if path.suffix == ".py" and (compiled := Path(importlib.util.cache_from_source(str(path)))).exists():
                archive.write(compiled, place.with_suffix(".pyc"))
    return buffer.getvalue()


def write_private(path: Path, text: str) -> None:
    """Write a file that may hold secrets."""
    # The mode is given at creation: a change of it afterwards would leave a moment in which others can read.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _escaped(text: str, special: str) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return "".join("\\" + character if character in special else character for character in text)
