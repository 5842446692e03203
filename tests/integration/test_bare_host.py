"""A container as careful people run it: a user who is not root, and a root file system that cannot be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from airflow_kafka_lake.adapters.jars.cache import default_cache
from airflow_kafka_lake.local.kafka import LocalKafka
from tests.sandbox import Sandbox

pytestmark = pytest.mark.nightly

NOBODY, RECORDS = 65534, 20
INSIDE = """
set -e
place=$1 home=$2 kept=$3; shift 3
mount --make-rprivate /
mount --bind "$place" "$place"
mount -t tmpfs -o mode=755 none /mnt
for name in $kept; do mkdir "/mnt/$name"; mount --bind "$home/$name" "/mnt/$name"; done
mount -t tmpfs -o mode=755 none "$home"
for name in $kept; do mkdir "$home/$name"; mount --bind "/mnt/$name" "$home/$name"; done
mount -o remount,ro,bind /
mount -t tmpfs -o mode=1777 none /tmp
cd "$place"
exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all "$@"
"""
"""What root's home keeps is readable for all; the place and /tmp alone can be written."""


@pytest.fixture
def place(kafka: LocalKafka, spark_jars: list[Path]) -> Iterator[Sandbox]:
    """A user's place that belongs to nobody, and that nobody reaches."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "setpriv"))):
        pytest.skip("only root makes file systems of its own, with unshare and setpriv")
    with tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with closing(Sandbox(Path(folder, "place"), kafka.bootstrap)) as sandbox:
            sandbox.produce(RECORDS)
            subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", sandbox.home], check=True)
            yield sandbox


def _inside(place: Sandbox) -> list[str]:
    """Return what to put before a command that is to run there."""
    needed = (Path(sys.base_prefix), Path(sys.prefix), default_cache().resolve())
    home = Path.home()
    kept = {path.relative_to(home).parts[0] for path in needed if path.is_relative_to(home)}
    words = ["unshare", "--mount", "bash", "-c", INSIDE, "inside", str(place.home), str(home)]
    return [*words, " ".join(sorted(kept))]


def test_nobody_on_a_root_file_system_that_is_read_only_lands_and_audits(place: Sandbox) -> None:
    """Plan, run, status, audit and the audit that compares every value: nothing writes anywhere else."""
    inside, home = _inside(place), {"HOME": str(place.home), "KAFKA_LAKE_CACHE": str(default_cache())}
    for words in (("plan", "--dry-run"), ("run",)):
        ended = place.end(place.start(words[0], str(place.file), *words[1:], "--json", env=home, before=inside))
        assert ended.code == 0, ended.err + ended.out
    for words in (("status",), ("audit",), ("audit", "--deep")):
        ended = place.end(place.start(words[0], place.name, *words[1:], "--json", env=home, before=inside))
        assert ended.code == 0, ended.err + ended.out
    assert sum(stream["rows"] for stream in ended.document["streams"]) == RECORDS
