"""Find the Java and the PySpark that Spark jobs and the local broker run on; the errors name the fault."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from airflow_kafka_lake.core.errors import KafkaLakeError, TerminalError

_CORE = "jars/spark-core_*.jar"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_ANSWER_SECONDS = 60
OLDEST, NEWEST = 17, 22
"""The versions of Java that Spark 4.0 and 4.1 run on: their Hadoop calls `Subject.getSubject`, refused by Java 23."""
_INSTALL = f"Install a JDK {OLDEST} or 21"
SPARK_HOME_VARIABLE = "KAFKA_LAKE_SPARK_HOME"
"""Names the folder of a Spark to run jobs on where the installed PySpark is of another version, or is missing."""


class JavaMissingError(TerminalError):
    """No Java runtime was found where Spark would look for one."""


class JavaVersionError(TerminalError):
    """The Java runtime that Spark would use is older, or newer, than those it runs on."""


class PysparkMissingError(TerminalError):
    """PySpark is not installed, so there is neither Spark nor the Ivy that fetches jars."""


class PysparkMismatchError(TerminalError):
    """`pyspark` and `pyspark-client` differ and overwrite each other's files, or are of another Spark than the jars."""


def require_java(*, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the `java` that Spark will use (JAVA_HOME, else PATH), of a version that Spark runs on.

    Raises JavaMissingError or JavaVersionError. A JAVA_HOME without a Java in it is an error and not passed over,
    because spark-submit would use it too.
    """
    java = find_java(environ)
    version = _feature_version(java)
    if not OLDEST <= version <= NEWEST:
        raise JavaVersionError(
            f"{java} is Java {version}, and Spark runs on Java {OLDEST} to {NEWEST}. {_INSTALL} and point JAVA_HOME at "
            "it, or put it first in PATH.",
            java=str(java),
            version=version,
        )
    return java


def find_java(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the `java` of JAVA_HOME, else of PATH, of whatever version; raises JavaMissingError."""
    if home := environ.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        if os.access(java, os.X_OK) and java.is_file():
            return java
        raise JavaMissingError(
            f"JAVA_HOME is {home}, but there is no bin/java in it. "
            "Point it at a JDK, or unset it to use the java in PATH.",
            java_home=home,
        )
    found = shutil.which("java", path=environ.get("PATH", ""))
    if found is None:
        raise JavaMissingError(
            f"No Java was found: JAVA_HOME is not set and PATH has no java. "
            f"{_INSTALL} (on Debian or Ubuntu: apt-get install openjdk-17-jre-headless)."
        )
    return Path(found)


def spark_home() -> Path:
    """Return the folder of the Spark that jobs run on; raises PysparkMissingError.

    It is `$KAFKA_LAKE_SPARK_HOME`, else the installed PySpark, which is a whole Spark.
    """
    if named := os.environ.get(SPARK_HOME_VARIABLE):
        home, missing = Path(named), f"{SPARK_HOME_VARIABLE} is {named}, and no Spark is there (jars/spark-core…). "
        missing += "Name the folder of a Spark, or unset it"
    else:
        spec = find_spec("pyspark")
        home = Path(spec.origin).parent if spec and spec.origin else Path()
        missing = "PySpark with its jars is not installed in this environment (pyspark-client alone has none). "
        missing += "Run: pip install 'airflow-kafka-lake[spark]'"
    if not any(home.glob(_CORE)):
        raise PysparkMissingError(missing)
    return home.absolute()  # jobs run in a folder of their own


def spark_version() -> str:
    """Return the version of the Spark that jobs run on; raises PysparkMissingError."""
    return next(spark_home().glob(_CORE)).stem.split("-", 2)[2]


def minor(version: str) -> str:
    """Return the minor version of a version."""
    return ".".join(version.split(".")[:2])


def require_matching_pyspark(
    version_of: Callable[[str], str] = metadata.version, *, jars_of: Sequence[str] = ()
) -> str:
    """Return the version of the Spark that jobs run on; `jars_of` are those that there are jars for.

    Raises PysparkMissingError where there is none, and PysparkMismatchError when the installed `pyspark` and
    `pyspark-client` differ: the two wheels write the same package folder, so different versions leave a mixture of both
    behind; or when it is of no minor version that the jars are for, whose classes then do not fit.
    """
    fitting = {minor(version): version for version in jars_of}
    spark, client = (spark_version(),) * 2 if os.environ.get(SPARK_HOME_VARIABLE) else _installed(version_of)
    if client != spark:
        # Constraints of Airflow pin the client, so that is kept where it fits.
        told = [found for found in (client, spark) if not fitting or minor(found) in fitting]
        raise PysparkMismatchError(
            f"pyspark is {spark} and pyspark-client is {client}; both write the folder pyspark/, so the installed "
            f"files are a mixture. {_install_both([*told, *jars_of[-1:]][0])}",
            pyspark=spark,
            pyspark_client=client,
        )
    if fitting and minor(spark) not in fitting:
        raise PysparkMismatchError(
            f"Spark is {spark}, and this package has jars for Spark {' and '.join(fitting)}: no job could load their "
            f"classes. {_install_both(jars_of[-1])}. Where that may not change, install one beside it (pip install "
            f"--target DIR pyspark=={jars_of[-1]}) and name it in {SPARK_HOME_VARIABLE} (DIR/pyspark)",
            spark=spark,
            jars=list(jars_of),
        )
    return spark


def _installed(version_of: Callable[[str], str]) -> tuple[str, str]:
    try:
        spark = version_of("pyspark")
    except metadata.PackageNotFoundError:
        raise PysparkMissingError(
            "pyspark is not installed in this environment. Run: pip install 'airflow-kafka-lake[spark]'"
        ) from None
    try:
        return spark, version_of("pyspark-client")
    except metadata.PackageNotFoundError:
        return spark, spark


def _install_both(version: str) -> str:
    return f"Run: pip install --force-reinstall pyspark=={version} pyspark-client=={version}"


def _feature_version(java: Path) -> int:
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissingError(f"{java} does not run ({error}). {_INSTALL} or correct JAVA_HOME.") from error
    found = _VERSION.search(answer.stderr) or _VERSION.search(answer.stdout)
    if answer.returncode != 0 or found is None:
        raise JavaMissingError(
            f"{java} -version ended with {answer.returncode} and named no version. {_INSTALL} or correct JAVA_HOME.",
            java=str(java),
        )
    return int(found.group(1))


if __name__ == "__main__":
    try:
        require_java()
        require_matching_pyspark()
    except KafkaLakeError as error:
        sys.exit(str(error))
