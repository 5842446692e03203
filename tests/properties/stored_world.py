"""The world of generated histories with a real ledger and a real lake; Kafka and the Spark job stand in."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.ports import Ports
from tests.gates import Passing, gated
from tests.kit.clock import FakeClock
from tests.kit.local_lake import LocalLake
from tests.kit.memory_runner import MemoryRunner
from tests.kit.rest_catalog import RestCatalogServer
from tests.properties.environment import PARTITIONS, SPEC
from tests.properties.stored_lake import Armed, HistoryProxy, StoredJobs, StoredLake, StoredTable
from tests.properties.stored_ledger import StoredLedger
from tests.world import LEDGER_ID, World

AHEAD = timedelta(hours=1)
"""How far the ledger's clock is before the lake's: histories move the one, and servers have a clock of their own."""


class Place:
    """Parts for many histories, one after the other: what takes long to open stays open."""

    def __init__(self, folder: Path, server: LocalLake | RestCatalogServer) -> None:
        self._folder = folder
        self._ledgers: list[StoredLedger] = []
        self._lent = 0
        self._armed: list[Armed] = []
        self.struck: Counter[str] = Counter()
        """How often answers were broken, by how."""
        self._proxy = HistoryProxy(target=server.uri)
        self._proxy.__enter__()
        self.lake = StoredLake(server, self._proxy)

    def world(self, seed: int) -> World:
        """Return a world in which nothing has happened; the one before it is over."""
        self._lent = 0
        self._proxy.heal()
        self._proxy.down, self._proxy.lag = False, None
        self._proxy.asked.clear()
        self._proxy.commits.clear()
        self._proxy.writes.clear()
        self.lake.clear()
        return StoredWorld(self, random.Random(seed), self._armed)

    def over(self) -> None:
        """Count what broke in the history that has ended."""
        self.struck.update(str(item) for item in self._armed if item.trap.sprung)
        self._armed.clear()

    def ledger(self, clock: FakeClock, ledger_id: str) -> StoredLedger:
        """Return an empty ledger that no other one of this world is in."""
        if self._lent == len(self._ledgers):
            self._ledgers.append(StoredLedger(self._folder / f"ledger-{self._lent}.db"))
        ledger = self._ledgers[self._lent]
        self._lent += 1
        ledger.begin(clock, ledger_id)
        return ledger

    def close(self) -> None:
        """Close everything."""
        for ledger in self._ledgers:
            ledger.close()
        self.lake.close()
        self._proxy.__exit__()


class StoredWorld(World):
    """A world as it is in memory, but that its ledger is a database, and its lake a table of a catalog."""

    def __init__(self, place: Place, dice: random.Random, armed: list[Armed]) -> None:
        super().__init__(PARTITIONS, SPEC, clock=FakeClock(SystemClock().now() + AHEAD))
        self._place = place
        parts: Any = self
        parts.lake = place.lake
        parts.runner = MemoryRunner(self.kafka, StoredJobs(place.lake.catalog.load))
        self._table: Any = StoredTable(SPEC.table_for("orders"), place.lake, dice, armed)
        self.lose_ledger(LEDGER_ID)

    @property
    def table(self) -> Any:
        """The table that the pipeline lands `orders` in."""
        return self._table

    def lose_ledger(self, ledger_id: str) -> None:
        """Go on with a ledger that nothing is on record in; workers that are at work keep the old one."""
        ledger: Any = self._place.ledger(self.clock, ledger_id)
        self.ledger = ledger

    def worker(self, passing: Passing | None = None) -> Ports:
        """Return the ports of one more process, which shares nothing of the lake with others but its connection."""
        ports = replace(super().worker(), lake=self._place.lake.of_a_process())
        return gated(ports, passing) if passing else ports
