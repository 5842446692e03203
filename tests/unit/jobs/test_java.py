"""A driver of this machine: Python starts Java, loads its modules meanwhile, and ends as Java ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_kafka_lake.jobs.java import BESIDE_JAVA

JAVA = """#!{python}
import os, pathlib, signal, struct, sys
place = pathlib.Path(os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"])
place.with_name("argv").write_text(" ".join(sys.argv[1:]))
{before}
place.with_name("part").write_bytes(struct.pack(">ii", 4711, 4) + b"word")
place.with_name("part").rename(place)
sys.stdin.read()
{after}
"""
MEETS = """
import os, pathlib, sys
from airflow_kafka_lake.jobs.java import meet_java

folder = pathlib.Path(sys.argv[1]).parent
meet_java(folder)
found = [os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"], (folder / "argv").read_text()]
print(*found, *sys.argv[1:], __name__, sep="|")
"""

Driver = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    """Run a program beside a Java that does something before it listens, and after its input has ended."""

    def run(program: str = MEETS, *, before: str = "", after: str = "") -> subprocess.CompletedProcess[str]:
        java = tmp_path / "java"
        java.write_text(JAVA.format(python=sys.executable, before=before, after=after))
        java.chmod(0o700)
        (tmp_path / "program.py").write_text(program)
        words = [str(tmp_path / "program.py"), str(tmp_path / "job.json"), str(java), "@options", "Gateway"]
        command = [sys.executable, "-c", BESIDE_JAVA, *words]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)

    return run


def test_program_meets_the_java_that_was_started_with_it(driver: Driver, tmp_path: Path) -> None:
    """It is told where Java listens by the variables that Spark's own runner of Python programs sets."""
    done = driver()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == f"4711|word|@options Gateway|{tmp_path}/job.json|__main__"
    assert not (tmp_path / "gateway").exists(), "it holds the secret of the gateway to Java"


def test_driver_ends_after_its_java(driver: Driver, tmp_path: Path) -> None:
    """Java's input ends with the program; what it writes at its end is there when the driver has ended."""
    assert driver(after="place.with_name('last').touch()").returncode == 0
    assert (tmp_path / "last").exists()


def test_java_that_never_listens_ends_the_driver(driver: Driver) -> None:
    """The program would wait for good."""
    done = driver(before="sys.exit(7)")
    assert (done.returncode, done.stdout, done.stderr) == (7, "", "")


def test_java_that_ends_well_before_it_listens_is_a_failure(driver: Driver) -> None:
    """A code of success would be taken for a job that is done."""
    assert driver(before="sys.exit(0)").returncode == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_driver_ends_by_the_signal_that_has_ended_its_java(driver: Driver, number: signal.Signals) -> None:
    """A lack of memory is told from any other end by it."""
    program = f"{MEETS}\nos.kill(int((folder / 'pid').read_text()), {int(number)})\nraise OSError('no answer')"
    done = driver(program, before="place.with_name('pid').write_text(str(os.getpid()))")
    assert (done.returncode, done.stderr) == (-number, "")


def test_error_of_the_program_is_the_drivers(driver: Driver) -> None:
    """Java, whose input ends, ends well then."""
    done = driver(f"{MEETS}\nraise OSError('no room')")
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("OSError: no room")
