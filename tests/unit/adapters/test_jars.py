"""Jars are trusted only after every SHA-256 was right, and fetched only when they are not there."""

from __future__ import annotations

import hashlib
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_kafka_lake.adapters.jars import cache as jars
from airflow_kafka_lake.adapters.jars.cache import (
    Jar,
    JarSet,
    JarsUnreachableError,
    _module,
    default_cache,
    fetch,
    jars_folder,
    retrieve,
    verified,
)
from airflow_kafka_lake.core.errors import (
    JarChecksumError,
    JarsMissingError,
    TerminalError,
    TransientError,
    UsageError,
)

CONTENT = {"one": b"first jar", "two": b"second jar"}
PINNED = tuple(
    Jar(group="org.example", artifact=name, version="1.0", sha256=hashlib.sha256(body).hexdigest())
    for name, body in CONTENT.items()
)


class Repository:
    """Stands where Ivy stands: serves `CONTENT`, counts its calls, and can do what networks do."""

    def __init__(self) -> None:
        self.calls = 0
        self.content = dict(CONTENT)
        self.reachable = True

    def __call__(self, wanted: list[Jar], folder: Path) -> None:
        self.calls += 1
        for jar in wanted:
            (folder / jar.file_name).write_bytes(self.content[jar.artifact])
            if not self.reachable:
                raise JarsUnreachableError("no network")


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Two small jars are pinned instead of the real lists."""
    monkeypatch.setattr(jars, "pinned", lambda _: PINNED)
    return Repository()


def test_fetch_returns_the_verified_files_in_list_order(tmp_path: Path, repository: Repository) -> None:
    """The first fetch brings every jar of the set."""
    files = fetch(JarSet.SPARK, cache=tmp_path, retrieve=repository)
    assert [file.read_bytes() for file in files] == list(CONTENT.values())
    assert verified(JarSet.SPARK, cache=tmp_path) == files


def test_second_fetch_asks_no_repository(tmp_path: Path, repository: Repository) -> None:
    """What is there and right is not fetched again, so no network and no Java are needed."""
    fetch(JarSet.SPARK, cache=tmp_path, retrieve=repository)
    repository.reachable = False
    fetch(JarSet.SPARK, cache=tmp_path, retrieve=repository)
    assert repository.calls == 1


def test_wrong_checksum_is_refused_and_nothing_is_kept(tmp_path: Path, repository: Repository) -> None:
    """A jar that is not the pinned one is named, and its set does not become visible."""
    repository.content["two"] = b"something else"
    with pytest.raises(JarChecksumError, match=r"org\.example\.two-1\.0\.jar .* is pinned"):
        fetch(JarSet.SPARK, cache=tmp_path, retrieve=repository)
    assert not jars_folder(JarSet.SPARK, tmp_path).exists()


def test_missing_jars_name_the_command_that_brings_them(tmp_path: Path) -> None:
    """Those of a store are brought only when they are asked for."""
    with pytest.raises(JarsMissingError, match=r"Run: kafka-lake jars fetch$"):
        verified(JarSet.SPARK, cache=tmp_path)
    with pytest.raises(JarsMissingError, match=r"iceberg-aws-bundle.* Run: kafka-lake jars fetch --for s3$"):
        verified(JarSet.S3, cache=tmp_path)


def test_fetch_cut_short_leaves_nothing_to_trust(tmp_path: Path, repository: Repository) -> None:
    """When the network goes in the middle, no half set is left, and the next fetch is whole."""
    repository.reachable = False
    with pytest.raises(JarsUnreachableError):
        fetch(JarSet.SPARK, cache=tmp_path, retrieve=repository)
    assert not list(tmp_path.rglob("*.jar"))
    repository.reachable = True
    assert len(fetch(JarSet.SPARK, cache=tmp_path, retrieve=repository)) == len(CONTENT)


def test_cache_that_cannot_be_written_is_named(tmp_path: Path, repository: Repository) -> None:
    """With the system's words, and the variable that names another one."""
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"file/jars cannot be written: Not a directory\. .*KAFKA_LAKE_CACHE"):
        fetch(JarSet.SPARK, cache=tmp_path / "file", retrieve=repository)


def test_remains_of_a_killed_fetch_are_cleared(tmp_path: Path, repository: Repository) -> None:
    """A fetch that was killed cleaned up nothing: the next one does."""
    remains = jars_folder(JarSet.SPARK, tmp_path).parent / ".fetch-killed"
    remains.mkdir(parents=True)
    (remains / "half.jar").write_bytes(b"ha")
    fetch(JarSet.SPARK, cache=tmp_path, retrieve=repository)
    assert not remains.exists()


@pytest.mark.parametrize("damage", [b"damaged", None])
def test_damaged_set_is_refused_and_fetched_again(tmp_path: Path, repository: Repository, damage: bytes | None) -> None:
    """A changed or removed file makes the whole set untrusted until it was fetched anew."""
    victim = fetch(JarSet.SPARK, cache=tmp_path, retrieve=repository)[1]
    if damage is None:
        victim.unlink()
    else:
        victim.write_bytes(damage)
    with pytest.raises(JarsMissingError if damage is None else JarChecksumError, match="kafka-lake jars fetch"):
        verified(JarSet.SPARK, cache=tmp_path)
    fetch(JarSet.SPARK, cache=tmp_path, retrieve=repository)
    assert victim.read_bytes() == CONTENT["two"]


def test_missing_set_names_the_command(tmp_path: Path, repository: Repository) -> None:
    """`verified` never fetches: it says how."""
    with pytest.raises(JarsMissingError, match=r"2 of 2 jars are not in .*Run: kafka-lake jars fetch"):
        verified(JarSet.SPARK, cache=tmp_path)


def test_two_fetches_at_once_fetch_once(tmp_path: Path, repository: Repository) -> None:
    """The second waits for the first and then finds everything there."""
    both_started = threading.Barrier(2)

    def one(_: int) -> list[Path]:
        both_started.wait(10)
        return fetch(JarSet.SPARK, cache=tmp_path, retrieve=repository)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(one, range(2))
    assert first == second
    assert repository.calls == 1


def test_progress_tells_start_and_end(tmp_path: Path, repository: Repository) -> None:
    """A fetch says what it does; a set that is there says nothing."""
    said: list[str] = []
    fetch(JarSet.SPARK, cache=tmp_path, retrieve=repository, progress=said.append)
    assert [line.split(" (")[0] for line in said] == ["fetching 2 jars", "2 jars"]
    fetch(JarSet.SPARK, cache=tmp_path, retrieve=repository, progress=said.append)
    assert len(said) == 2


def test_changed_list_is_another_folder(
    tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new version of the package never mixes its jars with an older one's."""
    before = jars_folder(JarSet.SPARK, tmp_path)
    monkeypatch.setattr(jars, "pinned", lambda _: PINNED[:1])
    assert jars_folder(JarSet.SPARK, tmp_path) != before


def test_cache_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """KAFKA_LAKE_CACHE decides, else the home's cache folder."""
    monkeypatch.setenv("KAFKA_LAKE_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
    monkeypatch.delenv("KAFKA_LAKE_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache() == tmp_path / ".cache" / "airflow-kafka-lake"


@pytest.mark.parametrize("jar_set", list(JarSet))
def test_shipped_lists_are_well_formed(jar_set: JarSet) -> None:
    """Every line has coordinates and a SHA-256, and no file name stands twice."""
    listed = jars.pinned(jar_set)
    assert len({jar.file_name for jar in listed}) == len(listed) > 0
    assert all(re.fullmatch(r"[0-9a-f]{64}", jar.sha256) for jar in listed)


@pytest.mark.parametrize(
    ("found", "chosen"), [("4.0.0", "4.0.2"), ("4.1.1", "4.1.3"), ("4.2.0", "4.1.3"), (None, "4.1.3")]
)
def test_jars_are_those_for_the_spark_that_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: str | None, chosen: str
) -> None:
    """One list of each minor version; of the newest where a job would be refused anyway."""
    (tmp_path / "jars").mkdir()
    if found:
        (tmp_path / "jars" / f"spark-core_2.13-{found}.jar").touch()
    monkeypatch.setenv("KAFKA_LAKE_SPARK_HOME", str(tmp_path))
    versions = {jar.artifact: jar.version for jar in jars.pinned(JarSet.SPARK)}
    assert versions["spark-sql-kafka-0-10_2.13"] == chosen
    assert sum(name.startswith("iceberg-spark-runtime") for name in versions) == 1
    assert len(jars.pinned(JarSet.S3)) == 1
    assert jars.fitting_sparks() == ["4.0.2", "4.1.3"]


def test_an_archive_is_asked_for_by_its_classifier() -> None:
    """It has a name of its own; for a jar nothing is named, because some modules call theirs a bundle."""
    jar, archive = jars._parse("g:a:1 00"), jars._parse("g:a:1:all:tar.gz 00")
    assert (jar.file_name, archive.file_name) == ("g.a-1.jar", "g.a-1-all.tar.gz")
    module = _module([jar, archive])
    assert module.count("<artifact ") == 1
    assert '<artifact name="a" type="tar.gz" ext="tar.gz" m:classifier="all"/>' in module


def test_ivy_without_java_says_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch that needs Java names Java, not Ivy."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(TerminalError, match="JAVA_HOME"):
        retrieve(PINNED, tmp_path)


def test_ivy_that_resolves_nothing_is_worth_repeating(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No network is transient; the message carries Ivy's reason and the way to a mirror."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && { echo \'openjdk version "17.0.1"\' >&2; exit 0; }\n'
        "echo ':: org.example#one;1.0: not found'\nexit 1\n"
    )
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JarsUnreachableError, match=r"org\.example#one;1\.0: not found.*KAFKA_LAKE_IVY_SETTINGS"):
        retrieve(PINNED, tmp_path)
    assert issubclass(JarsUnreachableError, TransientError)


def test_fetch_tells_how_much_has_arrived(
    tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jars that are here, of all, and their bytes, a part of one too."""
    monkeypatch.setattr(jars, "_TOLD_SECONDS", 0.01)
    told = threading.Event()

    def slow(wanted: list[Jar], folder: Path) -> None:
        cache = folder.parent / "kafka-lake-ivy-x" / "cache" / "group" / "module" / "jars"
        cache.mkdir(parents=True)
        (cache / "one-1.jar").write_bytes(b"x" * 700)
        (cache / "two-1.jar.part").write_bytes(b"x" * 500)
        assert told.wait(30)
        repository(wanted, folder)

    said: list[str] = []

    def progress(line: str) -> None:
        said.append(line)
        if line == "1 of 2 jars are here, 1.2 kB":
            told.set()

    fetch(JarSet.SPARK, cache=tmp_path, retrieve=slow, progress=progress)
    assert said[0].startswith("fetching 2 jars")
