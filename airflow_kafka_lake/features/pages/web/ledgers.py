"""The ledgers that the pages show, opened once for all requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_kafka_lake.core.errors import UnknownSubjectError
from airflow_kafka_lake.core.spec import CONNECTION_ID
from airflow_kafka_lake.features.pages import beginning
from airflow_kafka_lake.wiring.ledger import DEFAULT_LEDGER, LedgerConnection

if TYPE_CHECKING:
    from airflow_kafka_lake.adapters.sql_ledger import SqlLedger

SECTION, OPTION = "kafka_lake", "page_ledgers"
KEPT = 30.0
"""After how many seconds a connection is read again: it may have been changed."""


def configured() -> tuple[str, ...]:
    """Return the connections of the ledgers that the pages show; the first is shown where none is named."""
    from airflow.configuration import conf

    named = (conf.get(SECTION, OPTION, fallback=None) or "").replace(",", " ").split()
    return tuple(dict.fromkeys(name for name in named if CONNECTION_ID.fullmatch(name))) or (DEFAULT_LEDGER,)


@dataclass
class Ledgers:
    """Open ledgers, by connection."""

    now: Callable[[], float] = time.monotonic
    _open: dict[str, tuple[float, SqlLedger]] = field(default_factory=dict)
    _opening: threading.Lock = field(default_factory=threading.Lock)

    def known(self, conn_id: str | None) -> str:
        """Return the connection that a request names, or the first one; UnknownSubjectError for any other."""
        names = configured()
        if conn_id is None:
            return names[0]
        if conn_id not in names:
            raise UnknownSubjectError(f"no ledger of that name is shown here: add it to [{SECTION}] {OPTION}")
        return conn_id

    def ledger(self, conn_id: str) -> SqlLedger:
        """Return an open ledger, which is never created or upgraded here.

        Raises ConnectionSettingsError, UnavailableError, LedgerSchemaError.
        """
        with self._opening:
            until, ledger = self._open.get(conn_id, (0.0, None))
            if ledger is not None and self.now() < until:
                return ledger
            connection = LedgerConnection(conn_id)
            if ledger is None or ledger.engine.url != connection.url:
                ledger = _existing(connection)
            self._open[conn_id] = (self.now() + KEPT, ledger)
            return ledger


def _existing(connection: LedgerConnection) -> SqlLedger:
    url = connection.url
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        raise beginning.missing(f"{url.database} (connection {connection.ledger_conn_id!r})")
    ledger = connection.ledger()
    ledger.check()
    return ledger
