"""The command line of an earlier commit, as processes: what they leave in a test's place, today's code goes on with."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import create_engine, make_url, text

from airflow_kafka_lake.local.processes import wait_until
from tests.sandbox import CLI_SECONDS, Ended, Sandbox

ROOT = Path(__file__).parents[1]
PARTS = ("airflow_kafka_lake", "tests/kit")
"""What is taken of the commit: the package, and the kit that kills its processes at a failpoint."""
FAILPOINTS = "KIT_FAILPOINTS"
_databases = itertools.count(1)


def archive(commit: str, root: Path = ROOT) -> bytes:
    """Return the package as it was at a commit, as a tar; the test fails in a sentence where the clone has none."""
    words = ["git", "-C", str(root), "archive", "--format=tar", commit, *PARTS]
    try:
        found = subprocess.run(words, capture_output=True, check=False)
    except OSError as error:
        pytest.fail(f"git does not start ({error}), so the package as it was at commit {commit} cannot be had.", False)
    if found.returncode:
        said = found.stderr.decode(errors="replace").strip()
        pytest.fail(
            f"This clone cannot give the package as it was at commit {commit}, with which this test makes an older "
            f"lake. A clone without its history gets it by: git fetch --unshallow. git says: {said}",
            False,
        )
    return found.stdout


@dataclass(frozen=True, slots=True, kw_only=True)
class OlderVersion:
    """The package of an earlier commit, unpacked in a folder."""

    folder: Path
    sandbox: Sandbox

    @classmethod
    def unpacked(cls, commit: str, folder: Path, sandbox: Sandbox) -> OlderVersion:
        """Unpack a commit into a new folder, and fetch the jars that it runs on."""
        tar = archive(commit)
        folder.mkdir()
        subprocess.run(["tar", "x"], cwd=folder, input=tar, check=True)
        found = cls(folder=folder, sandbox=sandbox)
        found.command("jars", "fetch")
        return found

    def command(self, *words: str, code: int = 0) -> Ended:
        """Run a command to its end, with a spark-submit of its own; it ends as expected."""
        ended = self.sandbox.end(self.sandbox.start(*words, env=self._environment()))
        assert ended.code == code, ended.err or ended.out
        return ended

    def killed(self, point: str, *words: str) -> None:
        """Run a command that is killed with SIGKILL at a failpoint."""
        ended = self.sandbox.end(self._armed(f"{point}=kill", *words))
        assert ended.code == -signal.SIGKILL, f"it was not killed at {point}: {ended.err or ended.out}"

    def stopped(self, point: str, *words: str) -> subprocess.Popen[str]:
        """Start a command, and return it when it stands still at a failpoint."""
        process = self._armed(f"{point}=stop", *words)
        standing = psutil.Process(process.pid)
        wait_until(
            lambda: process.poll() is not None or standing.status() == psutil.STATUS_STOPPED,
            timeout=CLI_SECONDS,
            failed=AssertionError,
        )
        assert process.poll() is None, self.sandbox.end(process)
        return process

    def _armed(self, trap: str, *words: str) -> subprocess.Popen[str]:
        armed = self._environment(self.folder / "tests/kit/site") | {FAILPOINTS: trap}
        return self.sandbox.start(*words, env=armed)

    def _environment(self, *before: Path) -> dict[str, str]:
        return {"PYTHONPATH": os.pathsep.join(map(str, (*before, self.folder)))}


@dataclass
class LedgerPlace:
    """Where the ledger is: a file of the sandbox, or a database of a server."""

    kind: str
    server: str = ""
    name: str = field(default_factory=lambda: f"older_{next(_databases)}")

    @property
    def connection(self) -> dict[str, Any] | None:
        """The connection of a database; None for the sandbox's file."""
        if self.kind == "sqlite":
            return None
        host = make_url(self.server).query["host"]
        return {"conn_type": "postgres", "host": host, "login": "postgres", "schema": self.name}

    def begin(self, sandbox: Sandbox, backup: bool = False) -> None:
        """Put an empty database, or the backup, in the place of what is there."""
        if self.kind == "postgres":
            self._copy(f"{self.name}_backup" if backup else "template1", self.name)
            return
        for file in sandbox.home.glob("ledger.db*"):
            file.unlink()
        for file in (sandbox.home / "backup").glob("ledger.db*") if backup else ():
            shutil.copy(file, sandbox.home)

    def back_up(self, sandbox: Sandbox) -> None:
        """Keep a copy of what is there."""
        if self.kind == "postgres":
            self._copy(self.name, f"{self.name}_backup")
            return
        (sandbox.home / "backup").mkdir()
        for file in sandbox.home.glob("ledger.db*"):
            shutil.copy(file, sandbox.home / "backup")

    def _copy(self, there: str, to: str) -> None:
        with self._engine("postgres") as engine, engine.connect() as connection:
            connection.execute(text(f"DROP DATABASE IF EXISTS {to} WITH (FORCE)"))
            connection.execute(text(f"CREATE DATABASE {to} TEMPLATE {there}"))

    def rows(self, sandbox: Sandbox, query: str) -> list[tuple[Any, ...]]:
        """Ask the database itself."""
        with self._engine(self.name, sandbox) as engine, engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(query))]

    @contextmanager
    def _engine(self, database: str, sandbox: Sandbox | None = None) -> Iterator[Any]:
        url = make_url(f"sqlite:///{sandbox.ledger}" if sandbox and self.kind == "sqlite" else self.server)
        if url.drivername != "sqlite":
            url = url.set(drivername="postgresql+psycopg2", database=database)
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        yield engine
        engine.dispose()
