"""The ledgers of a triggerer: its triggers share one for each address, however many of them wait.

A deferred task waits for hours, and there may be hundreds. Each with connections of its own would take more of them
than a database has.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from airflow_kafka_lake.wiring.connections import ConnectionSettings
from airflow_kafka_lake.wiring.ledger import ledger_url

if TYPE_CHECKING:
    from sqlalchemy import URL

    from airflow_kafka_lake.adapters.sql_ledger import SqlLedger


class SharedLedgers:
    """Opens a ledger once for all who ask for the same address with the same login, and closes it after the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: dict[URL, SqlLedger] = {}
        self._users: dict[URL, int] = {}

    def open(self, connection: ConnectionSettings) -> SqlLedger:
        """Return the ledger of a connection; give it back with `close`. ConnectionSettingsError says what is wrong."""
        from airflow_kafka_lake.adapters.sql_ledger import SqlLedger

        url = ledger_url(connection)
        with self._lock:
            if url not in self._opened:
                self._opened[url] = SqlLedger(url)
            self._users[url] = self._users.get(url, 0) + 1
            return self._opened[url]

    def close(self, ledger: object) -> None:
        """Give back a ledger that `open` has returned; its connections are closed when nothing uses it any more."""
        with self._lock:
            found = next((url for url, opened in self._opened.items() if opened is ledger), None)
            if found is None:
                return
            self._users[found] -= 1
            if self._users[found]:
                return
            del self._users[found]
            last = self._opened.pop(found)
        last.close()


LEDGERS = SharedLedgers()
"""Those of this process."""
