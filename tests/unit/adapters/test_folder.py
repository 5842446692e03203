"""Private folders, and what is left of them when their owner is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_kafka_lake.adapters.machine import HostProcesses
from airflow_kafka_lake.adapters.spark_submit.submission import (
    OWNER_FILE,
    PREFIX,
    private_folder,
    sweep_folders,
)
from airflow_kafka_lake.core.errors import UnavailableError

pytestmark = pytest.mark.unit

_OWNER = """
import sys
from airflow_kafka_lake.adapters.spark_submit.submission import private_folder
with private_folder() as folder:
    (folder / "job.json").write_text("pw-kafka")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has temporary files of its own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


@contextmanager
def owner() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Run a process that holds a private folder with a secret in it; it is gone afterwards."""
    command = [sys.executable, "-c", _OWNER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_folder_of_a_killed_process_is_swept(tmp_path: Path) -> None:
    """kill -9 leaves the secrets there; the next one that makes a folder, or sweeps, removes them."""
    with owner() as (process, folder):
        process.kill()
        process.wait()
        assert (folder / "job.json").read_text() == "pw-kafka"
    with private_folder() as mine:
        assert list(tmp_path.iterdir()) == [mine]


def test_folder_of_a_living_process_is_never_swept(tmp_path: Path) -> None:
    """Also a stopped one lives."""
    with owner() as (process, folder):
        assert sweep_folders() == ()
        os.kill(process.pid, 19)
        assert sweep_folders() == ()
        assert (folder / "job.json").exists()


def test_folder_that_cannot_be_made_says_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk, or a folder that is gone, is a sentence and may be repeated."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(UnavailableError, match=r"kilobytes in .*gone, .*No such file.* Make room there"):
        private_folder().__enter__()


def test_own_folder_is_never_swept(tmp_path: Path) -> None:
    """Several jobs of one process sweep beside each other."""
    with private_folder() as first, private_folder() as second:
        assert sweep_folders() == ()
        assert first.exists()
        assert second.exists()
    assert list(tmp_path.iterdir()) == []


def left(parent: Path, owner: str | None, name: str = "abc") -> Path:
    """Leave a folder that names an owner."""
    folder = parent / f"{PREFIX}{name}"
    folder.mkdir()
    if owner is not None:
        (folder / OWNER_FILE).write_text(owner)
    return folder


def test_pid_that_is_used_again_protects_nothing(tmp_path: Path) -> None:
    """A living process with the owner's pid and another start time is another process."""
    this = HostProcesses().this()
    folder = left(tmp_path, str(replace(this, started=this.started - 60)))
    assert sweep_folders() == (folder,)
    assert not folder.exists()


@pytest.mark.parametrize("name", [None, "", "no owner at all", "elsewhere/1/1.00"])
def test_folder_whose_owner_is_not_known_to_be_dead_stays(tmp_path: Path, name: str | None) -> None:
    """Without a name, with one that says nothing, of another host: unknown is not dead."""
    folder = left(tmp_path, name)
    assert sweep_folders() == ()
    assert folder.exists()


def test_links_and_strangers_are_left_alone(tmp_path: Path) -> None:
    """What only looks like a folder of ours is not followed."""
    dead = str(replace(HostProcesses().this(), started=1.0))
    target = left(tmp_path, dead, "target").rename(tmp_path / "target")
    (tmp_path / f"{PREFIX}link").symlink_to(target)
    other = left(tmp_path, dead).rename(tmp_path / "kafka-lake-other")
    assert sweep_folders() == ()
    assert target.exists()
    assert other.exists()
