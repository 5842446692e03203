"""One place for many cases: a home with ledger and lake that can be kept and put back, and commands in it.

`ForkedPlace` forks commands from a warm parent (`standing_in.py`).
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.core.ledger.waves import PUBLISHES, RangeState
from tests.faults.standing_kafka import TOPIC, Acknowledged, kafka

ROOT = Path(__file__).parents[2]
TABLE = "raw.orders"
NEW = "new"
"""The name of a place that nothing has happened in."""


@dataclass(frozen=True, slots=True)
class Started:
    """A command that was started; `files` get its stdout and stderr."""

    words: tuple[str, ...]
    pid: int
    files: tuple[Path, Path]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended; one that is stopped has no code."""

    words: tuple[str, ...]
    code: int | None
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON document on stdout; empty for a command that was killed."""
        return json.loads(self.out) if self.out.strip() else {}


class CatalogServer(Protocol):
    """A REST catalog that no other place is in."""

    def connection(self) -> dict[str, Any]:
        """Return a lake connection."""
        raise NotImplementedError


class Place:
    """A pipeline's home; how its commands are started is a subclass's business.

    Its lake is in the home too, or at a `server`, which puts no table back: there each case is begun from nothing.
    """

    def __init__(self, folder: Path, topic: str, server: CatalogServer | None = None) -> None:
        self._server = server
        self.home, self._kept, self._output = (folder / name for name in ("home", "kept", "output"))
        self.topic = self.name = topic
        self._numbers = itertools.count(1)
        (self.home / "warehouse").mkdir(parents=True)
        self._kept.mkdir()
        self._output.mkdir()

    @property
    def acknowledged(self) -> Acknowledged:
        """What producers were told, by `(partition, offset)`."""
        raise NotImplementedError

    @property
    def ends(self) -> dict[int, int]:
        """The end of each partition."""
        raise NotImplementedError

    @property
    def file(self) -> Path:
        return self.home / "orders.toml"

    def configure(self, source: str = "", more: str = "") -> None:
        """Write the pipeline file, with a further line of its source and further sections."""
        raise NotImplementedError

    @property
    def diary(self) -> Path:
        return self._output / "diary"

    @property
    def trace(self) -> Path:
        return self._output / "trace"

    @property
    def catalog_uri(self) -> str:
        return f"sqlite:///{self.home}/catalog.db"

    @cached_property
    def environment(self) -> dict[str, str]:
        lake = {"catalog": "sql", "uri": self.catalog_uri, "warehouse": f"file://{self.home}/warehouse"}
        connections = {
            "LAKE_DEFAULT": self._server.connection() if self._server else {"conn_type": "lake", "extra": lake},
            "KAFKA_LAKE_LEDGER": {"conn_type": "sqlite", "host": str(self.home / "ledger.db")},
            **self.connections(),
        }
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "KAFKA_LAKE_FAIL"))}
        kept["AIRFLOW_HOME"] = str(self.home / "airflow")
        return kept | {f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in connections.items()}

    def connections(self) -> dict[str, Any]:
        """Further connections."""
        return {}

    # -- commands ---------------------------------------------------------------------------------------------------

    def start(self, *words: str, traps: str = "", trace: bool = False) -> Started:
        """Start a command, with failpoints armed; `trace` counts its crossings."""
        if traps:
            self.diary.unlink(missing_ok=True)
        number = next(self._numbers)
        files = self._output / f"{number}.out", self._output / f"{number}.err"
        return self.launch(words, files, traps, trace=trace)

    def launch(self, words: tuple[str, ...], files: tuple[Path, Path], traps: str, *, trace: bool) -> Started:
        """Start the process."""
        raise NotImplementedError

    def code(self, started: Started) -> int | None:
        """Wait until a command ends, and return its code, or is stopped: None."""
        raise NotImplementedError

    def end(self, started: Started) -> Ended:
        """Wait until a started command ends or is stopped."""
        code = self.code(started)
        out, err = (file.read_text(encoding="utf-8") for file in started.files)
        return Ended(started.words, code, out, err)

    def command(self, *words: str, traps: str = "", trace: bool = False) -> Ended:
        """Run a command until it ends or is stopped."""
        return self.end(self.start(*words, traps=traps, trace=trace))

    def stopped(self, started: Started) -> None:
        """Wait until a command has stopped where it was told to."""
        assert self.code(started) is None, "it ended and did not stop"

    def resume(self, started: Started) -> Ended:
        """Continue a stopped command and wait for it."""
        os.kill(started.pid, signal.SIGCONT)
        return self.end(started)

    def run(self) -> Ended:
        """Do the main job."""
        return self.command("run", str(self.file), "--json")

    def sprung(self) -> list[str]:
        """Return what sprang since the last command with traps was started."""
        return self.diary.read_text(encoding="utf-8").splitlines() if self.diary.exists() else []

    # -- the same beginning for many cases --------------------------------------------------------------------------

    def keep(self, name: str) -> None:
        """Remember the place as it is, under a name."""
        if not self._server:
            shutil.copytree(self.home, self._kept / name)

    def has(self, name: str) -> bool:
        """Return whether a beginning is kept."""
        return (self._kept / name).exists()

    def clear(self) -> None:
        """Make the place what it was when nothing had begun."""
        if not self.has(NEW):
            shutil.copytree(self.home, self._kept / NEW)
        self.put_back(NEW)
        if self._server:
            from pyiceberg.exceptions import NoSuchNamespaceError

            catalog, namespace = self.catalog(), TABLE.rpartition(".")[0]
            with suppress(NoSuchNamespaceError):
                for table in catalog.list_tables(namespace):
                    catalog.drop_table(table)

    def put_back(self, name: str) -> None:
        """Make the place again what it was; files name each other by their whole path, so it is the very same place."""
        shutil.rmtree(self.home)
        shutil.copytree(self._kept / name, self.home)

    # -- what there is ----------------------------------------------------------------------------------------------

    def ledger(self) -> SqlLedger:
        """Open the ledger."""
        return SqlLedger(f"sqlite:///{self.home}/ledger.db")

    def cancelled(self) -> list[str]:
        """Return the ranges that are on hold."""
        ledger = self.ledger()
        found = ledger.ranges(pipeline=self.name, states=(RangeState.CANCELLED, RangeState.HELD))
        ledger.close()
        return [item.id for item in found]

    def end_leases(self) -> None:
        """Do what two minutes of waiting do: every lease is over."""
        ledger = self.ledger()
        over = "UPDATE kafka_lake_wave SET lease_until = '2020-01-01 00:00:00.000000' WHERE lease_until IS NOT NULL"
        with ledger.engine.begin() as connection:
            connection.exec_driver_sql(over)
        ledger.close()

    def iceberg(self) -> Any:
        """Load the table as any reader would."""
        return self.catalog().load_table(TABLE)

    def catalog(self) -> Any:
        """Open the catalog as any reader would."""
        from pyiceberg.catalog import load_catalog

        connection = json.loads(self.environment["AIRFLOW_CONN_LAKE_DEFAULT"])
        told = {key: value for key, value in connection["extra"].items() if key != "catalog"}
        if "password" in connection:
            told["credential"] = f"{connection['login']}:{connection['password']}"
        return load_catalog("lake", type=connection["extra"]["catalog"], **told)

    def rows(self) -> Counter[tuple[int, int, bytes]]:
        """Count the table's rows by `(partition, offset, value)`."""
        from pyiceberg.exceptions import NoSuchTableError

        try:
            arrow = self.iceberg().scan(selected_fields=("kafka_partition", "kafka_offset", "value")).to_arrow()
        except NoSuchTableError:
            return Counter()
        columns = (arrow[name].to_pylist() for name in ("kafka_partition", "kafka_offset", "value"))
        return Counter(zip(*columns, strict=True))

    def table_rows(self) -> list[dict[str, Any]]:
        """Return the table's rows with all their columns; none while there is no table."""
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self.iceberg().scan().to_arrow().to_pylist()  # type: ignore[no-any-return]
        except NoSuchTableError:
            return []

    def visible(self) -> set[str]:
        """Return the attempts that have rows in the table."""
        return set(self.iceberg().scan(selected_fields=("ingest_attempt",)).to_arrow()["ingest_attempt"].to_pylist())

    def publishes(self) -> list[str]:
        """Return the waves of main's publishing commits."""
        found = [snapshot.summary.additional_properties for snapshot in self.iceberg().metadata.snapshots]
        return [kind["kafka-lake.wave"] for kind in found if kind.get("kafka-lake.kind") in PUBLISHES]


class ForkedPlace(Place):
    """The standing-in cluster's topic; commands are forked from a warm parent."""

    def __init__(self, folder: Path, server: CatalogServer | None = None) -> None:
        super().__init__(folder, TOPIC, server)
        self.configure()
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.standing_in"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def configure(self, source: str = "", more: str = "") -> None:
        self.file.write_text(
            f'[pipeline]\nname = "{TOPIC}"\n[source]\ntopics = ["{TOPIC}"]\n{source}\n'
            f'[lake]\ntable = "{TABLE}"\n{more}\n'
        )

    @property  # anew each time: what has happened to the cluster differs from state to state
    def acknowledged(self) -> Acknowledged:
        return kafka(self.home)[1]

    @property
    def ends(self) -> dict[int, int]:
        cluster, _ = kafka(self.home)
        return {number: cluster.log(TOPIC, number).last_stable for number in (0, 1)}

    def close(self) -> None:
        """End the warm parent; everything it started has ended."""
        self._parent.communicate()

    def launch(self, words: tuple[str, ...], files: tuple[Path, Path], traps: str, *, trace: bool) -> Started:
        order = {
            "words": words,
            "traps": traps,
            "trace": str(self.trace) if trace else "",
            "diary": str(self.diary) if traps else "",
            "home": str(self.home),
            "out": str(files[0]),
            "err": str(files[1]),
            "environment": self.environment,
        }
        return Started(words, self._asked(order)["pid"], files)

    def code(self, started: Started) -> int | None:
        return self._asked({"wait": started.pid}).get("code")

    def _asked(self, order: Mapping[str, Any]) -> dict[str, Any]:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(json.dumps(order) + "\n")
        self._parent.stdin.flush()
        return json.loads(self._parent.stdout.readline())
