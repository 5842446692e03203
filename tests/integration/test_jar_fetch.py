"""The real Ivy against a repository in a folder: no network."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_kafka_lake.adapters.jars.cache import Jar, JarsUnreachableError, retrieve

POM = """<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>{name}</artifactId>
<version>1.0</version><packaging>{packaging}</packaging><dependencies><dependency><groupId>org.example</groupId>
<artifactId>never-wanted</artifactId><version>1.0</version></dependency></dependencies></project>"""


def jar(name: str) -> Jar:
    """Return the coordinates of one of the folder's jars; Ivy does not look at the checksum."""
    return Jar(group="org.example", artifact=name, version="1.0", sha256="0" * 64)


@pytest.fixture
def group_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven repository in a folder, and the Ivy settings that know nothing else."""
    repository = tmp_path / "repository"
    for name, packaging in (("plain", "jar"), ("osgi", "bundle")):
        folder = repository / "org" / "example" / name / "1.0"
        folder.mkdir(parents=True)
        (folder / f"{name}-1.0.pom").write_text(POM.format(name=name, packaging=packaging))
        (folder / f"{name}-1.0.jar").write_bytes(name.encode())
        (folder / f"{name}-1.0-all.tar.gz").write_bytes(f"all of {name}".encode())
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="folder"/><resolvers>'
        f'<ibiblio name="folder" m2compatible="true" root="{repository.as_uri()}/"/></resolvers></ivysettings>'
    )
    monkeypatch.setenv("KAFKA_LAKE_IVY_SETTINGS", str(settings))
    return repository


def test_ivy_brings_exactly_the_listed_jars(group_sync: Path, tmp_path: Path) -> None:
    """Jars of packaging `jar` and `bundle` come, their dependencies do not."""
    folder = tmp_path / "out"
    retrieve([jar("plain"), jar("osgi")], folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {
        "org.example.plain-1.0.jar": b"plain",
        "org.example.osgi-1.0.jar": b"osgi",
    }


def test_ivy_brings_an_archive_by_its_classifier(group_sync: Path, tmp_path: Path) -> None:
    """It, and not the jar of the same module."""
    archive = Jar(
        group="org.example", artifact="plain", version="1.0", sha256="0" * 64, classifier="all", extension="tar.gz"
    )
    folder = tmp_path / "out"
    retrieve([archive, jar("osgi")], folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {
        "org.example.plain-1.0-all.tar.gz": b"all of plain",
        "org.example.osgi-1.0.jar": b"osgi",
    }


def test_ivy_names_the_jar_that_is_not_there(group_sync: Path, tmp_path: Path) -> None:
    """A repository without one of the jars is a clear, repeatable error."""
    with pytest.raises(JarsUnreachableError, match=r"org\.example#absent;1\.0: not found"):
        retrieve([jar("plain"), jar("absent")], tmp_path / "out")
