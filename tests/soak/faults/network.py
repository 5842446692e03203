"""The network between us and the two databases: cut, slow, or silent at the worst moment."""

from __future__ import annotations

from typing import ClassVar

from tests.proxy import Proxy
from tests.soak.faults.strike import Fault

LEDGER_COMMITS = ((b"UPDATE kafka_lake_wave", b"COMMIT"), (b"INSERT INTO kafka_lake_", b"COMMIT"))


class NetworkFault(Fault):
    """Hits one of the two networks."""

    database: ClassVar[str] = ""

    @property
    def network(self) -> Proxy:
        """The network that is hit."""
        place = self.scene.place
        return place.catalog_network if self.database == "catalog" else place.ledger_network

    def heal(self) -> None:
        """Be an ordinary network again."""
        self.network.heal()


class Cut(NetworkFault):
    """Connections break, and for some seconds none gets through."""

    every = 10.0

    def strike(self) -> bool:
        """Cut, wait, let through again."""
        self.network.cut()
        self.pause(self.choose.uniform(0.2, 6))
        self.network.heal()
        return True


class AnswerLost(NetworkFault):
    """A commit is done, and the connection breaks before the client is told."""

    every = 3.0

    def commits(self) -> tuple[tuple[bytes, ...], ...]:
        """Return what passes through the network when something is committed, in each of its ways."""
        raise NotImplementedError

    def strike(self) -> bool:
        """Wait for the next commit and lose its answer."""
        trap = self.network.lose_answer(*self.choose.choice(self.commits()), nth=self.choose.choice((1, 1, 2, 3)))
        while not trap.happened.is_set():
            if self.over(after=0.5):
                return False
        return True


class CatalogCut(Cut):
    """See `Cut`."""

    name = "catalog-cut"
    words = "connections to the catalog's database break; none gets through for up to 6 s"
    database = "catalog"


class LedgerCut(Cut):
    """See `Cut`."""

    name = "ledger-cut"
    words = "connections to the ledger's database break; none gets through for up to 6 s"
    database = "ledger"


class PublishAnswerLost(AnswerLost):
    """See `AnswerLost`."""

    name = "catalog-answer-lost"
    words = "the catalog commits (a publish, a receipt, Spark's staging), and the answer is lost"
    database = "catalog"

    def commits(self) -> tuple[tuple[bytes, ...], ...]:
        """Return the words of the catalog's clients."""
        return self.scene.place.commits


class LedgerAnswerLost(AnswerLost):
    """See `AnswerLost`."""

    name = "ledger-answer-lost"
    words = "the ledger commits, and the answer is lost"
    database = "ledger"

    def commits(self) -> tuple[tuple[bytes, ...], ...]:
        """Return the words of the ledger's clients."""
        return LEDGER_COMMITS


class CatalogSlow(NetworkFault):
    """Every piece of bytes takes its time."""

    name = "catalog-slow"
    words = "everything to and from the catalog's database takes 10 to 60 ms longer"
    database = "catalog"
    every = 1.0

    def strike(self) -> bool:
        """Slow down for the rest of the round."""
        self.network.slow(self.choose.uniform(0.01, 0.06))
        self.pause(600)
        return True


NETWORK_FAULTS = (CatalogCut, LedgerCut, PublishAnswerLost, LedgerAnswerLost, CatalogSlow)
