"""Commands that must end with a refusal, in this process, so that a hundred of them cost seconds."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_lake.adapters.spark_submit import runner as spark
from airflow_kafka_lake.cli.entry_point import main
from airflow_kafka_lake.core import errors
from airflow_kafka_lake.core.ledger.waves import TROUBLE
from tests import warm
from tests.sandbox import Ended, Sandbox

OWN_TABLES = {"kafka_lake_alembic_version", "kafka_lake_meta", "sqlite_sequence"}
"""What the first look at a SQLite ledger writes: that it is one, its id, and where SQLite's own counters begin."""


def rows_of(file: Path, leave_out: set[str]) -> dict[str, list[str]]:
    """Return every row of a SQLite file by table; a file that is not there has none."""
    if not file.exists():
        return {}
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {name: sorted(map(repr, database.execute(f'SELECT * FROM "{name}"'))) for name in names}
    # Why no plan succeeds is for the status to say.
    told = [row for row in found.pop("kafka_lake_event", []) if repr(TROUBLE) not in row]
    found |= {"kafka_lake_event": told}
    return {name: rows for name, rows in found.items() if rows and name not in leave_out}


def state_of(sandbox: Sandbox) -> tuple[object, ...]:
    """Return all that a command could have changed: the ledger, the catalog (a snapshot is a new pointer), the files.

    An empty catalog is no change: PyIceberg makes its tables when it looks for one.
    """
    ledgers = {file.name: rows_of(file, OWN_TABLES) for file in sorted(sandbox.home.glob("*ledger.db"))}
    files = sorted(str(file.relative_to(sandbox.home)) for file in (sandbox.home / "warehouse").rglob("*"))
    return {name: rows for name, rows in ledgers.items() if rows}, rows_of(sandbox.home / "catalog.db", set()), files


def hold_against_the_rules(ended: Ended, *, code: int, kind: str, says: tuple[str, ...]) -> dict[str, Any]:
    """Check one refusal, printed for people or as JSON; returns what it says."""
    assert ended.code == code, ended
    assert "Traceback" not in ended.out + ended.err, ended
    if ended.out:
        told = ended.document
        assert set(told) == {"error"}
        found: dict[str, Any] = told["error"]
        assert found["type"] == kind, found
        text = found["message"]
    else:
        _, mark, text = ended.err.partition("error: ")
        assert mark, ended
        found = {"message": text}
    said = " ".join(text.split())
    assert [part for part in says if part not in said] == [], said
    return found


@dataclass(frozen=True)
class Refusals:
    """One place and the ways to be refused there."""

    sandbox: Sandbox
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def settle_in(self) -> None:
        """Take the place's connections, nothing of the user who runs the tests, and the warm driver for jobs."""
        for name in list(os.environ):
            if name.startswith(("AIRFLOW", "KAFKA_LAKE")):
                self.monkeypatch.delenv(name)
        for name, value in self.sandbox.environment.items():
            if name.startswith("AIRFLOW"):
                self.monkeypatch.setenv(name, value)
        submit, driver = warm.spark_submit()
        for name, value in driver.items():
            self.monkeypatch.setenv(name, value)
        self.monkeypatch.setattr(spark, "SparkJobs", partial(spark.SparkJobs, spark_submit=submit))
        self.monkeypatch.chdir(self.sandbox.home)

    def connect(self, conn_id: str, connection: Mapping[str, object]) -> None:
        """Replace a connection."""
        self.monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(connection))

    def command(self, *words: str) -> Ended:
        """Run a command here."""
        self.capsys.readouterr()
        code = main(words)
        out, err = self.capsys.readouterr()
        return Ended(code, out, err)

    def refused(self, *words: str, kind: str, code: int | None = None, says: tuple[str, ...] = ()) -> dict[str, Any]:
        """Run a command for people and for programs: both refuse, and change nothing; returns the JSON error."""
        expected = getattr(errors, kind).exit_code if code is None else code
        before = state_of(self.sandbox)
        plain = self.command(*words)
        assert not plain.out
        hold_against_the_rules(plain, code=expected, kind=kind, says=says)
        found = hold_against_the_rules(
            self.command(words[0], "--json", *words[1:]), code=expected, kind=kind, says=says
        )
        assert state_of(self.sandbox) == before
        return found

    def pipeline(self, text: str, name: str = "bad.toml") -> str:
        """Write a pipeline file beside the good one."""
        file = self.sandbox.home / name
        file.write_text(text)
        return str(file)

    def variant(self, old: str, new: str) -> str:
        """Write the good pipeline file with one thing changed."""
        text = self.sandbox.file.read_text()
        assert old in text
        return self.pipeline(text.replace(old, new, 1))
