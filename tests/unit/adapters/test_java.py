"""Java and PySpark are checked before anything is started, and each trouble has its own sentence."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from airflow_kafka_lake.adapters.java import (
    JavaMissingError,
    JavaVersionError,
    PysparkMismatchError,
    PysparkMissingError,
    require_java,
    require_matching_pyspark,
    spark_home,
)
from airflow_kafka_lake.adapters.spark_submit.runner import fetch_jars
from airflow_kafka_lake.core.errors import TerminalError

SPARKS = ("4.0.2", "4.1.3")
"""What there are jars for."""


def fake_java(folder: Path, answer: str, *, code: int = 0) -> Path:
    """Write a `java` that answers `-version` as Java does: on stderr."""
    folder.mkdir(parents=True, exist_ok=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{answer}\nEND\nexit {code}\n")
    java.chmod(0o755)
    return java


def versions(**installed: str):
    """Answer like importlib.metadata.version for these distributions only."""

    def version_of(name: str) -> str:
        try:
            return installed[name.replace("-", "_")]
        except KeyError:
            raise metadata.PackageNotFoundError(name) from None

    return version_of


@pytest.mark.parametrize(
    "answer",
    [
        'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6)',
        'java version "21.0.2" 2024-01-16 LTS',
        'Picked up JAVA_TOOL_OPTIONS: -Dx=y\nopenjdk version "22" 2024-03-19',
        'openjdk version "17-ea" 2021-09-14',
    ],
)
def test_fitting_java_in_path_is_taken(tmp_path: Path, answer: str) -> None:
    """Every way in which a Java prints its version is understood."""
    java = fake_java(tmp_path / "bin", answer)
    assert require_java(environ={"PATH": f"{java.parent}:/usr/bin:/bin"}) == java


def test_java_home_wins_over_path(tmp_path: Path) -> None:
    """spark-submit prefers JAVA_HOME, so the check looks at the same Java."""
    java = fake_java(tmp_path / "home" / "bin", 'openjdk version "21.0.2"')
    fake_java(tmp_path / "bin", 'openjdk version "11.0.2"')
    assert require_java(environ={"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "bin")}) == java


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ('openjdk version "11.0.22" 2024-01-16', 11),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "23" 2024-09-17', 23),
        ('openjdk version "25.0.1" 2025-10-21 LTS', 25),
    ],
)
def test_java_that_spark_does_not_run_on_is_refused_with_its_version(tmp_path: Path, answer: str, version: int) -> None:
    """It is named with its version (`1.8` is 8) and its path, and so is the one to install: no repetition helps."""
    java = fake_java(tmp_path, answer)
    told = f"{java} is Java {version}, and Spark runs on Java 17 to 22. Install a JDK 17 or 21 and point JAVA_HOME"
    with pytest.raises(JavaVersionError, match=told) as refused:
        require_java(environ={"PATH": f"{tmp_path}:/bin"})
    assert refused.value.facts["version"] == version


def test_nothing_is_fetched_for_a_java_that_spark_does_not_run_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kafka-lake jars fetch` refuses it, whether the jars are there or not: no class archive would come of it."""
    fake_java(tmp_path / "bin", 'openjdk version "25"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    said: list[str] = []
    with pytest.raises(JavaVersionError, match="is Java 25"):
        fetch_jars(said.append)
    assert said == []


def test_no_java_at_all_says_where_it_looked(tmp_path: Path) -> None:
    """Without JAVA_HOME and without a java in PATH the message says so and what to install."""
    with pytest.raises(JavaMissingError, match=r"JAVA_HOME is not set and PATH has no java.*Install a JDK 17 or 21"):
        require_java(environ={"PATH": str(tmp_path)})


def test_java_home_without_java_is_not_passed_over(tmp_path: Path) -> None:
    """A wrong JAVA_HOME is an error although PATH has a good java, because Spark would use JAVA_HOME."""
    fake_java(tmp_path / "bin", 'openjdk version "17.0.1"')
    with pytest.raises(JavaMissingError, match="there is no bin/java in it"):
        require_java(environ={"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(tmp_path / "bin")})


@pytest.mark.parametrize(("answer", "code"), [("dyld: cannot load", 134), ("The operation couldn't be completed", 0)])
def test_java_that_does_not_answer_is_missing(tmp_path: Path, answer: str, code: int) -> None:
    """A broken java, or the stub some systems have in its place, counts as none."""
    fake_java(tmp_path, answer, code=code)
    with pytest.raises(JavaMissingError, match="named no version"):
        require_java(environ={"PATH": f"{tmp_path}:/bin"})


def test_equal_pyspark_versions_are_fine() -> None:
    """Both wheels of one version hold the same files."""
    assert require_matching_pyspark(versions(pyspark="4.1.3", pyspark_client="4.1.3")) == "4.1.3"


def test_pyspark_alone_is_fine() -> None:
    """Without pyspark-client nothing can have been overwritten."""
    assert require_matching_pyspark(versions(pyspark="4.1.3")) == "4.1.3"


def test_differing_pyspark_versions_are_refused() -> None:
    """Two versions in one folder are a mixture: both are named, and the command that mends it."""
    with pytest.raises(PysparkMismatchError, match=r"pyspark is 4\.1\.3 and pyspark-client is 4\.0\.1.*pip install"):
        require_matching_pyspark(versions(pyspark="4.1.3", pyspark_client="4.0.1"))


@pytest.mark.parametrize("version", ["3.5.9", "4.2.0", "4.10.3"])
def test_another_spark_than_the_jars_is_refused_before_any_job(version: str) -> None:
    """Such a job would end after a minute, by a class that has changed; repeating it could not help."""
    both = versions(pyspark=version, pyspark_client=version)
    assert require_matching_pyspark(both) == version, "where the jars are not ours"
    with pytest.raises(PysparkMismatchError, match=rf"Spark is {version}, .* Spark 4\.0 and 4\.1: .*==4\.1\.3"):
        require_matching_pyspark(both, jars_of=SPARKS)
    for fitting in ("4.0.0", "4.1.1"):
        assert require_matching_pyspark(versions(pyspark=fitting, pyspark_client=fitting), jars_of=SPARKS) == fitting


def test_a_spark_that_is_named_is_taken_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its version is that of its jars, and what is installed does not count; without a Spark there it is refused."""
    monkeypatch.setenv("KAFKA_LAKE_SPARK_HOME", str(tmp_path))
    with pytest.raises(PysparkMissingError, match=rf"KAFKA_LAKE_SPARK_HOME is {tmp_path}, and no Spark is there"):
        require_matching_pyspark(versions(pyspark="4.1.3"), jars_of=SPARKS)
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-4.0.4.jar").touch()
    assert require_matching_pyspark(versions(pyspark="4.1.3", pyspark_client="4.2.0"), jars_of=SPARKS) == "4.0.4"
    assert spark_home() == tmp_path
    monkeypatch.chdir(tmp_path.parent)
    monkeypatch.setenv("KAFKA_LAKE_SPARK_HOME", tmp_path.name)
    assert spark_home() == tmp_path, "jobs run in a folder of their own"


@pytest.mark.parametrize(
    ("pyspark", "client", "told"),
    [
        ("4.1.3", "4.1.1", "4.1.1"),
        ("4.1.1", "4.2.0", "4.1.1"),
        ("4.3.0", "4.2.0", "4.1.3"),
        ("4.1.3", "4.0.4", "4.0.4"),
    ],
)
def test_the_version_that_is_told_fits_the_jars(pyspark: str, client: str, told: str) -> None:
    """That of the client where it fits, because constraints of Airflow pin it."""
    with pytest.raises(PysparkMismatchError, match=rf"pyspark=={told} pyspark-client=={told}"):
        require_matching_pyspark(versions(pyspark=pyspark, pyspark_client=client), jars_of=SPARKS)


def test_missing_pyspark_names_the_extra() -> None:
    """pyspark-client alone is not enough: it has no jars."""
    with pytest.raises(PysparkMissingError, match=r"airflow-kafka-lake\[spark\]"):
        require_matching_pyspark(versions(pyspark_client="4.1.3"))


def test_every_trouble_is_terminal_and_of_its_own_kind() -> None:
    """Repeating the call cannot help, and a program can tell the four apart."""
    leaves = {JavaMissingError, JavaVersionError, PysparkMissingError, PysparkMismatchError}
    assert all(issubclass(leaf, TerminalError) for leaf in leaves)
    assert not any(issubclass(a, b) for a in leaves for b in leaves - {a})
